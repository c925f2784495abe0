/*
 * ticket.h - a region and where to connect, as one line of text:
 *
 *     rdmaput1,ADDR,PORT,0xREMOTE_ADDR,0xRKEY,LENGTH[,TOKEN]
 *
 * ADDR is numeric, IPv6 without brackets and with its zone, if any. TOKEN is 32 hexadecimal digits.
 * Safe in any shell unquoted. Pure.
 *
 * Of a ticket cut short one cannot tell when the cut is inside LENGTH, or just before ",TOKEN":
 * it then grants fewer bytes, or is refused for want of its token.
 */
#ifndef RDMAPUT_TICKET_H
#define RDMAPUT_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TICKET_TOKEN_BYTES 16
#define TICKET_TEXT 256 /* enough for any ticket and its NUL */

struct ticket {
    char host[80]; /* numeric */
    uint16_t port;
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t length; /* bytes, at least 1; remote_addr + length does not overflow */
    bool has_token;
    uint8_t token[TICKET_TOKEN_BYTES];
};

enum ticket_result {
    TICKET_OK = 0,
    TICKET_NOT_ONE,   /* does not begin with "rdmaput" and a digit */
    TICKET_VERSION,   /* of another version of the format */
    TICKET_CUT_SHORT, /* fields are missing at the end, or TOKEN is too short */
    TICKET_MALFORMED, /* a field is not what it should be */
};

/* Parses a ticket; white space and a line end around it are ignored. problem says what is wrong
 * with which field. */
enum ticket_result ticket_parse(const char *text, struct ticket *ticket, char *problem,
                                size_t problem_size);

/* Writes the ticket without a line end into buf of TICKET_TEXT bytes; returns it. */
char *ticket_format(const struct ticket *ticket, char *buf);

/* Whether text looks like a ticket: begins with "rdmaput" and a digit, after any white space. */
bool ticket_looks_like(const char *text);

#endif
