#include "config.h"

#include "finish.h"

#include <stdlib.h>

#include "document.h"
#include "log.h"
#include "output.h"
#include "signals.h"

static struct json_object *last_words;

void finish_with(struct json_object *document)
{
    json_object_put(last_words);
    last_words = document;
}

/* Prints the document, and says what of that or of standard output was lost. Its class is what that
 * counts as. */
static enum error_class tell_document(const struct error *err)
{
    struct error lost = {.class = ERROR_NONE};
    output_check(&lost);
    document_print(last_words, error_is_set(err) ? err : &lost);
    last_words = NULL;
    output_check(&lost);
    document_close(&lost);
    log_error(&lost);
    return lost.class;
}

int finish_status(const struct error *err)
{
    enum error_class lost = tell_document(err);
    if (!error_is_set(err))
        return error_exit_status(lost);
    if (err->class == ERROR_INTERRUPTED && signals_count() > 0)
        signals_die();
    log_error(err);
    return error_exit_status(err->class);
}

void finish(const struct error *err)
{
    exit(finish_status(err));
}
