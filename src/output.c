#include "config.h"

#include "output.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* stdio keeps no errno: the first one. */
static atomic_int lost;
static atomic_bool told;

static void note(int errnum)
{
    int none = 0;
    atomic_compare_exchange_strong(&lost, &none, errnum);
}

void output_line(const char *text)
{
    if (fputs(text, stdout) < 0 || putc('\n', stdout) < 0)
        note(errno);
    output_flush();
}

void output_flush(void)
{
    if (fflush(stdout) != 0)
        note(errno);
    if (ferror(stdout))
        note(EIO);
}

int output_check(struct error *err)
{
    output_flush();
    if (atomic_load(&lost) == 0 || atomic_exchange(&told, true))
        return 0;
    return error_set_errno(err, ERROR_STORAGE, STAGE_NONE, NULL, atomic_load(&lost),
                           "cannot write standard output");
}

int output_close(struct error *err)
{
    output_flush();
    if (close(STDOUT_FILENO) < 0 && errno != EBADF)
        note(errno);
    return output_check(err);
}
