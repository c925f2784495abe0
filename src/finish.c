#include "config.h"

#include "finish.h"

#include <stdbool.h>
#include <stdlib.h>

#include "document.h"
#include "log.h"
#include "output.h"
#include "signals.h"

static struct json_object *last_words;
static const char *done;

void finish_in_spite(const char *what)
{
    done = what;
}

void finish_with(struct json_object *document)
{
    json_object_put(last_words);
    last_words = document;
}

/* Whoever hears of what is lost alone might do again what was done. */
static void tell_done(const struct error *err, struct error *lost)
{
    static bool told;
    if (!error_is_set(lost) || !done || error_is_set(err) || told)
        return;
    error_append(lost, "; %s", done);
    told = true;
}

/* Prints the document, and says what of that or of standard output was lost. Its class is what that
 * counts as. */
static enum error_class tell_document(const struct error *err)
{
    struct error lost = {.class = ERROR_NONE};
    output_check(&lost);
    tell_done(err, &lost);
    document_print(last_words, error_is_set(err) ? err : &lost);
    last_words = NULL;
    output_check(&lost);
    document_close(&lost);
    tell_done(err, &lost);
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
