/*
 * ticket.c - a region and where to connect, as one line of text.
 */
#include "config.h"

#include "ticket.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "units.h"

#define WORD "rdmaput"
#define FORMAT_VERSION "1"
#define WHITE " \t\r\n"
#define DIGITS "0123456789"
#define HEX_DIGITS DIGITS "abcdefABCDEF"

enum field {
    ADDR,
    PORT,
    REMOTE_ADDR,
    RKEY,
    LENGTH,
    TOKEN,
    FIELDS
};

static const char *const field_names[FIELDS] = {
    [ADDR] = "ADDR", [PORT] = "PORT",     [REMOTE_ADDR] = "REMOTE_ADDR",
    [RKEY] = "RKEY", [LENGTH] = "LENGTH", [TOKEN] = "TOKEN",
};

bool ticket_looks_like(const char *text)
{
    text += strspn(text, WHITE);
    return strncmp(text, WORD, strlen(WORD)) == 0 && text[strlen(WORD)] != '\0' &&
           strchr(DIGITS, text[strlen(WORD)]);
}

/* Copies the text without the white space around it. false when it is too long. */
static bool copy_trimmed(const char *text, char copy[TICKET_TEXT])
{
    const char *end;

    text += strspn(text, WHITE);
    end = text + strlen(text);
    while (end > text && strchr(WHITE, end[-1]))
        end--;
    if (end - text >= TICKET_TEXT)
        return false;
    memcpy(copy, text, (size_t)(end - text));
    copy[end - text] = '\0';
    return true;
}

/* Cuts the text at its commas. The count of fields, FIELDS + 1 when there are too many. */
static int split(char *text, char *fields[FIELDS])
{
    int count = 0;
    char *field;

    while ((field = strsep(&text, ","))) {
        if (count == FIELDS)
            return FIELDS + 1;
        fields[count++] = field;
    }
    return count;
}

static bool parse_host(const char *text, struct ticket *ticket)
{
    if (address_numeric_family(text, strlen(text)) == AF_UNSPEC)
        return false;
    snprintf(ticket->host, sizeof(ticket->host), "%s", text);
    return true;
}

static bool parse_decimal(const char *text, uint64_t max, uint64_t *value)
{
    return strspn(text, DIGITS) == strlen(text) && units_number(text, max, value) == UNITS_OK &&
           *value > 0;
}

static bool parse_hexadecimal(const char *text, uint64_t max, uint64_t *value)
{
    return strncmp(text, "0x", 2) == 0 && units_number(text, max, value) == UNITS_OK;
}

static bool parse_length(const char *text, struct ticket *ticket)
{
    uint64_t end;

    return parse_decimal(text, UINT64_MAX, &ticket->length) &&
           !__builtin_add_overflow(ticket->remote_addr, ticket->length, &end);
}

static bool parse_token(const char *text, struct ticket *ticket)
{
    if (strlen(text) != 2 * TICKET_TOKEN_BYTES || strspn(text, HEX_DIGITS) != strlen(text))
        return false;
    for (size_t i = 0; i < TICKET_TOKEN_BYTES; i++)
        sscanf(text + 2 * i, "%2" SCNx8, &ticket->token[i]);
    ticket->has_token = true;
    return true;
}

static bool parse_field(enum field field, const char *text, struct ticket *ticket)
{
    uint64_t number = 0;
    bool good = false;

    switch (field) {
    case ADDR:
        return parse_host(text, ticket);
    case PORT:
        good = parse_decimal(text, UINT16_MAX, &number);
        ticket->port = (uint16_t)number;
        return good;
    case REMOTE_ADDR:
        return parse_hexadecimal(text, UINT64_MAX, &ticket->remote_addr);
    case RKEY:
        good = parse_hexadecimal(text, UINT32_MAX, &number);
        ticket->rkey = (uint32_t)number;
        return good;
    case LENGTH:
        return parse_length(text, ticket);
    case TOKEN:
        return parse_token(text, ticket);
    case FIELDS:
        break;
    }
    return false;
}

/* The field at which the ticket ends too soon, or FIELDS. */
static enum field cut_at(char *const fields[FIELDS], int count)
{
    enum field last = count > 0 ? (enum field)(count - 1) : ADDR;

    if (last < LENGTH || fields[last][0] == '\0' ||
        (last == TOKEN && strlen(fields[TOKEN]) < 2 * TICKET_TOKEN_BYTES))
        return last;
    return FIELDS;
}

static enum ticket_result parse_fields(char *const fields[FIELDS], int count, struct ticket *ticket,
                                       char *problem, size_t problem_size)
{
    static const char *const expected[FIELDS] = {
        [ADDR] = "a numeric address",
        [PORT] = "1 to 65535",
        [REMOTE_ADDR] = "0x and at most 16 hexadecimal digits",
        [RKEY] = "0x and at most 8 hexadecimal digits",
        [LENGTH] = "a count of bytes, at least 1, that fits after REMOTE_ADDR",
        [TOKEN] = "32 hexadecimal digits",
    };
    struct ticket parsed = {.has_token = false};

    for (int field = 0; field < count; field++) {
        if (!parse_field((enum field)field, fields[field], &parsed)) {
            snprintf(problem, problem_size, "the ticket's %s is not %s", field_names[field],
                     expected[field]);
            return TICKET_MALFORMED;
        }
    }
    *ticket = parsed;
    return TICKET_OK;
}

enum ticket_result ticket_parse(const char *text, struct ticket *ticket, char *problem,
                                size_t problem_size)
{
    char copy[TICKET_TEXT], *rest = copy, *fields[FIELDS];
    const char *version;
    int count;

    if (!ticket_looks_like(text)) {
        snprintf(problem, problem_size,
                 "not a ticket: those begin with '" WORD FORMAT_VERSION ",'");
        return TICKET_NOT_ONE;
    }
    if (!copy_trimmed(text, copy)) {
        snprintf(problem, problem_size, "the ticket is too long");
        return TICKET_MALFORMED;
    }
    version = strsep(&rest, ",") + strlen(WORD);
    if (strcmp(version, FORMAT_VERSION) != 0) {
        snprintf(problem, problem_size, "the ticket's version is %s, not " FORMAT_VERSION, version);
        return TICKET_VERSION;
    }
    count = rest ? split(rest, fields) : 0;
    if (count > FIELDS) {
        snprintf(problem, problem_size, "the ticket has too many fields");
        return TICKET_MALFORMED;
    }
    if (cut_at(fields, count) != FIELDS) {
        snprintf(problem, problem_size, "the ticket is cut short at %s",
                 field_names[cut_at(fields, count)]);
        return TICKET_CUT_SHORT;
    }
    return parse_fields(fields, count, ticket, problem, problem_size);
}

char *ticket_format(const struct ticket *ticket, char *buf)
{
    int used = snprintf(
        buf, TICKET_TEXT, WORD FORMAT_VERSION ",%s,%u,0x%" PRIx64 ",0x%" PRIx32 ",%" PRIu64,
        ticket->host, ticket->port, ticket->remote_addr, ticket->rkey, ticket->length);

    if (ticket->has_token)
        buf[used++] = ',';
    for (size_t i = 0; ticket->has_token && i < TICKET_TOKEN_BYTES; i++)
        used += snprintf(buf + used, TICKET_TEXT - (size_t)used, "%02x", ticket->token[i]);
    return buf;
}
