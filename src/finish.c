#include "config.h"

#include "finish.h"

#include <stdio.h>
#include <stdlib.h>

#include "document.h"
#include "log.h"
#include "signals.h"

static struct json_object *last_words;

void finish_with(struct json_object *document)
{
    json_object_put(last_words);
    last_words = document;
}

/* 0 when all was printed; else what that failure is as an exit status, and it is said. */
static int tell_document(const struct error *err)
{
    struct error failed = {.class = ERROR_NONE};
    document_print(last_words, err);
    last_words = NULL;
    document_close(&failed);
    log_error(&failed);
    return error_exit_status(failed.class);
}

int finish_status(const struct error *err)
{
    int status = tell_document(err);
    if (!error_is_set(err))
        return status;
    if (err->class == ERROR_INTERRUPTED && signals_count() > 0) {
        fflush(stdout);
        signals_die();
    }
    log_error(err);
    return error_exit_status(err->class);
}

void finish(const struct error *err)
{
    exit(finish_status(err));
}
