/*
 * cases.h - the table of what a hostile peer does, and what the other side is to report.
 */
#ifndef HOSTILE_CASES_H
#define HOSTILE_CASES_H

#include <stddef.h>

#include "client.h"
#include "talk.h"

enum side {
    SIDE_CLIENT, /* of `rdmaput serve DIR` */
    SIDE_REGION, /* a client of `rdmaput serve --region` */
    SIDE_SERVER, /* of `rdmaput write`, `rdmaput post` and the test of a path */
};

#define CASE_MAYBE 1u    /* it may be right to take it for success, too */
#define CASE_UNTOLD 2u   /* the other side cannot tell the status */
#define CASE_ACCESS 4u   /* this side's adapter is told that access is refused (iWARP: it is not) */
#define CASE_SLOW 8u     /* ends by a time limit */
#define CASE_MANY 16u    /* of a session of several objects */
#define CASE_MAP 32u     /* of a session with placed slots */
#define CASE_RESUME 64u  /* of `rdmaput write --resume` */
#define CASE_POST 128u   /* of `rdmaput post` */
#define CASE_DEAF 256u   /* posts no receives */
#define CASE_SECRET 512u /* where there is a secret; the others where there is none */
/* A connect request stays unanswered: siw keeps its sender for 10 s, whatever that wants. */
#define CASE_UNANSWERED 1024u
#define CASE_CHECK 2048u    /* of a check session */
#define CASE_EXCHANGE 4096u /* after an exchange over TCP */
#define CASE_ALONE 8192u    /* only when it is named: it keeps others from what they are to do */

struct hostile_case {
    const char *name;
    enum side side;
    unsigned status;  /* the exit status that the other side is to report; 0: all went well */
    unsigned other;   /* or this one */
    const char *text; /* which its message holds; several with '|' between them */
    unsigned flags;
    struct deviation deviation;
    void (*special)(struct talk *talk, const struct client_job *job); /* in place of client_run */
};

extern const struct hostile_case hostile_cases[];
extern const size_t hostile_case_count;

#endif
