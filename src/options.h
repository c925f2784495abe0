/*
 * options.h - what the commands' command lines share.
 */
#ifndef RDMAPUT_OPTIONS_H
#define RDMAPUT_OPTIONS_H

#include <argp.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "client.h"
#include "error.h"
#include "plan.h"
#include "progress.h"
#include "secret.h"
#include "segment.h"
#include "source.h"

/* argp_parse, but a long option that is none is an error, with a suggestion: -1 with *err (64). Ends the
 * process as argp does for --help, and for what else is wrong. */
int options_parse(const struct argp *argp, int argc, char **argv, void *input, struct error *err);

/* Keys of options without a short one: each command's own begin at OPTIONS_OWN_KEYS. */
enum {
    OPTIONS_TIMEOUT = 0x100,
    OPTIONS_TRACE,
    OPTIONS_JSON,
    OPTIONS_JSON_FILE,
    OPTIONS_BIND,
    OPTIONS_PORT,
    OPTIONS_WAIT,
    OPTIONS_TOS,
    OPTIONS_RETRY,
    OPTIONS_SEGMENTS_FROM,
    OPTIONS_LITERAL,
    OPTIONS_PROGRESS,
    OPTIONS_PROGRESS_FD,
    OPTIONS_OWN_KEYS,
};

struct options_common {
    uint64_t timeout; /* ns */
    int level;        /* enum log_level */
    bool json;
    const char *json_file; /* NULL: not given */
};

struct options_connect {
    const char *bind;
    uint16_t port; /* 0: not given */
    bool has_tos;
    uint8_t tos;
    uint64_t wait;  /* ns */
    unsigned retry; /* times */
};

struct options_segments {
    const char *from; /* NULL: none */
    bool nul;
    bool literal;
};

struct options_progress {
    enum progress_when when;
    int fd; /* -1: none */
};

/* Children for the commands' argps; the input of each is its struct, set by options_*_init. */
extern const struct argp options_common_argp;
extern const struct argp options_connect_argp;
extern const struct argp options_retry_argp; /* --retry, of a struct options_connect too */
extern const struct argp options_segments_argp;
extern const struct argp options_progress_argp;

void options_common_init(struct options_common *options);
void options_progress_init(struct options_progress *options);
/* Makes -v, -q, --trace, --json and --json-file take effect, and begins the command's document
 * (finish_with), which is *document, too, or NULL where none is wanted. data: what standard output
 * carries, in words, where no document may go; NULL: nothing. -1 with *err (64, 73), or where *err was
 * set before. */
int options_common_apply(const struct options_common *options, const char *command,
                         const char *data, struct json_object **document, struct error *err);

/* Parse a value, or end with argp_error and status 64, naming the option. */
uint64_t options_time(struct argp_state *state, const char *option, const char *text);
uint64_t options_rate(struct argp_state *state, const char *option, const char *text);
uint64_t options_size(struct argp_state *state, const char *option, const char *text);
/* true for "auto", false for "never"; else ends as above. */
bool options_auto(struct argp_state *state, const char *option, const char *text);
uint64_t options_number(struct argp_state *state, const char *option, const char *text,
                        uint64_t max);

/* The positional arguments of a command, in order. */
struct options_arguments {
    char **items; /* not copied */
    size_t count, capacity;
};
void options_add_argument(struct argp_state *state, struct options_arguments *arguments,
                          char *text);

/* The segments of one object. */
struct options_segment_list {
    struct segment *items;
    size_t count, capacity;
};

/*
 * Parses arguments as segments, after those of --segments-from; applies --literal. -1 with *err
 * (64: malformed, ambiguous, none at all, standard input not alone; 66: the list cannot be read).
 */
int options_parse_segments(const struct options_segments *options, char *const *arguments,
                           size_t count, struct options_segment_list *list, struct error *err);
void options_free_segments(struct options_segment_list *list);

/* Opens the segments' files and seals a plan of them; sparse: with their holes, as source_add.
 * -1 with *err: overlaps and the like are 64. */
int options_plan(const struct options_segment_list *list, enum plan_order order,
                 enum plan_target target, bool sparse, struct source **source, struct plan **plan,
                 struct error *err);

/* Parses HOST[:PORT][/NAME]; -1 with *err (64) and the right spelling as hint. address_free. */
int options_parse_destination(const char *text, struct address *address, struct error *err);

/* The secret of --secret-file FILE (NULL: not given), or else of $RDMAPUT_SECRET_FILE: *result becomes
 * secret, or NULL where neither is there. secret_forget. -1 with *err (64: it is empty; 66). */
int options_load_secret(const char *file, struct secret *secret, const struct secret **result,
                        struct error *err);

/* The target of a destination; the port of HOST:PORT goes before --port. */
struct client_target options_target(const char *host, bool has_port, uint16_t port,
                                    const struct options_connect *connect,
                                    const struct options_common *common);

#endif
