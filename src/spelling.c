#include "config.h"

#include "spelling.h"

#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"

#define MOST_OPTIONS 96

/* Options as getopt has them. */
struct known {
    struct option longs[MOST_OPTIONS + 1];
    size_t count;
    char shorts[3 * MOST_OPTIONS + 2];
};

static void add(struct known *known, const char *name, int key, int has_arg)
{
    size_t len = strlen(known->shorts);
    if (known->count == MOST_OPTIONS)
        abort();
    if (name)
        known->longs[known->count++] = (struct option){.name = name, .has_arg = has_arg, .val = 1};
    if (key <= 0 || key > UCHAR_MAX)
        return;
    known->shorts[len++] = (char)key;
    for (int colons = 0; colons < has_arg; colons++)
        known->shorts[len++] = ':';
}

/* What argp has besides. */
static void add_own(struct known *known)
{
    add(known, "help", '?', no_argument);
    add(known, "usage", 0, no_argument);
    add(known, "version", 'V', no_argument);
    add(known, "program-name", 0, required_argument);
    add(known, "HANG", 0, optional_argument);
}

static void add_all(struct known *known, const struct argp *argp)
{
    const struct argp_option *option = argp->options;
    for (; option && (option->name || option->key || option->doc || option->group); option++)
        if (option->name || option->key)
            add(known, option->name, option->key,
                !option->arg                          ? no_argument
                : option->flags & OPTION_ARG_OPTIONAL ? optional_argument
                                                      : required_argument);
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        add_all(known, child->argp);
}

/* getopt has also put up with a name that several options begin with. */
static bool is_ambiguous(const struct known *known, const char *name, size_t len)
{
    for (size_t i = 0; i < known->count; i++)
        if (strncmp(known->longs[i].name, name, len) == 0)
            return true;
    return false;
}

static int refuse(const struct known *known, const char *command, const char *argument, size_t len,
                  struct error *err)
{
    char written[SUGGEST_MOST + 2] = "";
    struct suggestion suggestion = {.word = NULL};
    memcpy(written, argument, len < sizeof written ? len : sizeof written - 1);
    for (size_t i = 0; i < known->count; i++)
        suggestion_weigh(&suggestion, written, known->longs[i].name);
    error_set(err, ERROR_USAGE, STAGE_NONE, NULL, "'--%.*s' is no option of '%s'", (int)len,
              argument, command);
    if (!suggestion.word)
        return error_hint(err, "see '%s --help'", command);
    return error_hint(err, "did you mean '--%s'? '%s --help' lists them all", suggestion.word,
                      command);
}

/* getopt goes through it, and puts it into another order. */
static int check(const struct known *known, int argc, char **argv, struct error *err)
{
    int rc = 0, got;
    opterr = 0;
    optind = 0;
    while (rc == 0 && (got = getopt_long(argc, argv, known->shorts, known->longs, NULL)) >= 0) {
        if (got != '?' || optopt != 0 || strncmp(argv[optind - 1], "--", 2) != 0)
            continue;
        const char *name = argv[optind - 1] + 2;
        size_t len = strcspn(name, "=");
        if (!is_ambiguous(known, name, len))
            rc = refuse(known, argv[0], name, len, err);
    }
    opterr = 1;
    optind = 0;
    return rc;
}

int spelling_check(const struct argp *argp, unsigned flags, int argc, char *const *argv,
                   struct error *err)
{
    struct known known = {.shorts = ""};
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    if (!copy) /* argp does without */
        return 0;
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    if (flags & ARGP_IN_ORDER)
        strcpy(known.shorts, "+");
    add_own(&known);
    add_all(&known, argp);
    int rc = check(&known, argc, copy, err);
    free(copy);
    return rc;
}
