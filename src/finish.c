#include "config.h"

#include "finish.h"

#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "signals.h"

int finish_status(const struct error *err)
{
    if (!error_is_set(err))
        return EXIT_SUCCESS;
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
