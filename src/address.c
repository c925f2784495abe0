/*
 * address.c - destinations HOST[:PORT][/NAME], and networks ADDR/BITS.
 */
#include "config.h"

#include "address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

#define HOST_TEXT (INET6_ADDRSTRLEN + 1 + IF_NAMESIZE) /* a numeric address, "%", a zone */

/* A stretch of the argument. */
struct span {
    const char *at;
    size_t len;
};

/* The arguments of "%.*s". */
#define SPAN(span) (int)(span).len, (span).at

/* A destination's parts, without the delimiters; those it has not are empty. */
struct parts {
    struct span host, port, name;
    bool is_ipv6, has_name;
};

/* What is said of an argument: its parts, or else those of the right spelling, without a host when
 * there is none. */
struct verdict {
    struct parts parts;
    enum address_result result;
    struct span culprit;
    const char *problem; /* goes on after the culprit */
    const char *lead;    /* goes before the right spelling */
};

static struct span span_until(const char *at, const char *end)
{
    return (struct span){at, (size_t)(end - at)};
}

static bool consists_of(struct span span, const char *characters)
{
    for (size_t i = 0; i < span.len; i++)
        if (!memchr(characters, span.at[i], strlen(characters)))
            return false;
    return true;
}

static bool is_zone(struct span zone)
{
    return zone.len > 0 && zone.len < IF_NAMESIZE && consists_of(zone, DIGITS LETTERS "-._");
}

int address_numeric_family(const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    const char *percent = memchr(text, '%', len);
    size_t address_len = percent ? (size_t)(percent - text) : len;
    uint8_t bytes[16];

    if (address_len >= sizeof(copy) || memchr(text, '\0', len))
        return AF_UNSPEC;
    memcpy(copy, text, address_len);
    copy[address_len] = '\0';
    if (percent && !is_zone(span_until(percent + 1, text + len)))
        return AF_UNSPEC;
    if (inet_pton(AF_INET6, copy, bytes) == 1)
        return AF_INET6;
    return !percent && inet_pton(AF_INET, copy, bytes) == 1 ? AF_INET : AF_UNSPEC;
}

static bool is_ipv6(struct span span)
{
    return address_numeric_family(span.at, span.len) == AF_INET6;
}

static bool is_host_name(struct span host)
{
    return host.len < sizeof(((struct address *)NULL)->host) && !consists_of(host, "-._") &&
           consists_of(host, DIGITS LETTERS "-._");
}

/* The port that the digits make, 0 for one that is not 1 to 65535. */
static uint16_t port_of(struct span digits)
{
    unsigned long port = 0;

    for (size_t i = 0; i < digits.len && port <= UINT16_MAX; i++)
        port = port * 10 + (unsigned long)(digits.at[i] - '0');
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

static void refuse(struct verdict *verdict, enum address_result result, struct span culprit,
                   const char *problem, const char *lead)
{
    verdict->result = result;
    verdict->culprit = culprit;
    verdict->problem = problem;
    verdict->lead = lead;
}

static void judge_host(struct span host, struct verdict *verdict)
{
    verdict->parts.host = host;
    if (host.len == 0) {
        verdict->parts.host = (struct span){"HOST", 4};
        refuse(verdict, ADDRESS_EMPTY, host, "there is no HOST", "name one: ");
    } else if (!is_host_name(host)) {
        verdict->parts.host.len = 0;
        refuse(verdict, ADDRESS_HOST, host, "is not a host name", NULL);
    }
}

/* scp's HOST:PATH, also as HOST:PORT:PATH. */
static void judge_word(struct span word, struct verdict *verdict)
{
    struct parts *parts = &verdict->parts;
    struct span digits = {word.at, strspn(word.at, DIGITS)};
    const char *path = word.at;

    refuse(verdict, ADDRESS_WORD, word, word.len > 0 ? "is not a port" : "no port follows ':'",
           "HOST/NAME: ");
    if (word.at[digits.len] == ':' && port_of(digits) != 0) {
        parts->port = digits;
        path += digits.len + 1;
    }
    parts->has_name = *path != '\0';
    if (*path == '/')
        path++;
    parts->name = (struct span){path, strlen(path)};
}

static void judge_port(struct span port, struct verdict *verdict)
{
    if (port.len == 0 || !consists_of(port, DIGITS))
        judge_word(port, verdict);
    else if (port_of(port) == 0)
        refuse(verdict, ADDRESS_PORT, port, "is not a port: they are 1 to 65535",
               "for the default port: ");
    else
        verdict->parts.port = port;
}

static void judge_brackets(struct span authority, struct verdict *verdict)
{
    struct parts *parts = &verdict->parts;
    const char *end = authority.at + authority.len;
    const char *close = memchr(authority.at, ']', authority.len);
    struct span inner = span_until(authority.at + 1, close ? close : end);
    struct span after = span_until(close ? close + 1 : end, end);

    parts->is_ipv6 = is_ipv6(inner);
    if (parts->is_ipv6 || is_host_name(inner))
        parts->host = inner;
    if (after.len > 0 && after.at[0] == ':') {
        judge_port(span_until(after.at + 1, end), verdict);
    } else if (after.len > 0) {
        refuse(verdict, ADDRESS_BRACKETS, after, "follows ']'", "a port begins with ':': ");
        if (consists_of(after, DIGITS) && port_of(after) != 0)
            parts->port = after;
        else
            parts->host.len = 0;
    }
    if (!close)
        refuse(verdict, ADDRESS_BRACKETS, authority, "has no ']'", "close the brackets: ");
    else if (!parts->is_ipv6)
        refuse(verdict, ADDRESS_BRACKETS, span_until(authority.at, close + 1),
               "holds no IPv6 address", "brackets are for IPv6 alone: ");
}

static void judge_bare_ipv6(struct span host, struct verdict *verdict)
{
    verdict->parts.host = host;
    verdict->parts.is_ipv6 = true;
    refuse(verdict, ADDRESS_BARE_IPV6, host, "is IPv6 without brackets", "put it in brackets: ");
}

/* An address whose last part was rather meant for a port: fd00::1:7475. */
static bool ends_with_port(struct span authority, const char *last)
{
    struct span port = span_until(last + 1, authority.at + authority.len);
    return port.len >= 4 && consists_of(port, DIGITS) && port_of(port) != 0 &&
           is_ipv6(span_until(authority.at, last));
}

static void judge_ipv6_and_port(struct span authority, const char *last, struct verdict *verdict)
{
    verdict->parts.host = span_until(authority.at, last);
    verdict->parts.port = span_until(last + 1, authority.at + authority.len);
    verdict->parts.is_ipv6 = true;
    refuse(verdict, ADDRESS_BARE_IPV6, authority, "is IPv6 without brackets",
           "put it in brackets, a port behind them: ");
}

static void judge_plain(struct span authority, struct verdict *verdict)
{
    const char *end = authority.at + authority.len;
    const char *first = memchr(authority.at, ':', authority.len);
    const char *last = memrchr(authority.at, ':', authority.len);

    if (!first) {
        judge_host(authority, verdict);
    } else if (is_ipv6(authority)) {
        if (ends_with_port(authority, last))
            judge_ipv6_and_port(authority, last, verdict);
        else
            judge_bare_ipv6(authority, verdict);
    } else if (is_ipv6(span_until(authority.at, last))) {
        judge_port(span_until(last + 1, end), verdict);
        judge_bare_ipv6(span_until(authority.at, last), verdict);
    } else if (strncmp(first, "://", 3) == 0) {
        refuse(verdict, ADDRESS_WORD, span_until(authority.at, first + 3), "begins a URL", NULL);
    } else {
        judge_port(span_until(first + 1, end), verdict);
        judge_host(span_until(authority.at, first), verdict);
    }
}

static void judge(const char *text, struct verdict *verdict)
{
    const char *slash = strchrnul(text, '/');
    const char *at = memrchr(text, '@', (size_t)(slash - text));
    struct span authority = span_until(at ? at + 1 : text, slash);

    *verdict = (struct verdict){.result = ADDRESS_OK};
    if (*slash) {
        verdict->parts.has_name = true;
        verdict->parts.name = (struct span){slash + 1, strlen(slash + 1)};
    }
    if (authority.at[0] == '[')
        judge_brackets(authority, verdict);
    else
        judge_plain(authority, verdict);
    if (at)
        refuse(verdict, ADDRESS_USER, span_until(text, at + 1),
               "names a user, and RDMA connections have none", "leave the user out: ");
}

static void explain(const struct verdict *verdict, char *problem, size_t problem_size)
{
    if (verdict->culprit.len > 0)
        snprintf(problem, problem_size, "'%.*s' %s", SPAN(verdict->culprit), verdict->problem);
    else
        snprintf(problem, problem_size, "%s", verdict->problem);
}

static void spell(const struct verdict *verdict, char *hint, size_t hint_size)
{
    const struct parts *parts = &verdict->parts;

    if (parts->host.len == 0)
        snprintf(hint, hint_size, "a destination is HOST[:PORT][/NAME], IPv6 in brackets");
    else
        snprintf(hint, hint_size, "%s'%s%.*s%s%s%.*s%s%.*s'", verdict->lead,
                 parts->is_ipv6 ? "[" : "", SPAN(parts->host), parts->is_ipv6 ? "]" : "",
                 parts->port.len ? ":" : "", SPAN(parts->port), parts->has_name ? "/" : "",
                 SPAN(parts->name));
}

/* false when memory is short. */
static bool fill(const struct parts *parts, struct address *address)
{
    *address = (struct address){.port = ADDRESS_DEFAULT_PORT, .has_name = parts->has_name};
    memcpy(address->host, parts->host.at, parts->host.len);
    if (parts->port.len > 0) {
        address->has_port = true;
        address->port = port_of(parts->port);
    }
    if (parts->has_name) {
        address->name = strdup(parts->name.at);
        if (!address->name)
            return false;
    }
    return true;
}

enum address_result address_parse(const char *text, struct address *address, char *problem,
                                  size_t problem_size, char *hint, size_t hint_size)
{
    struct verdict verdict;

    judge(text, &verdict);
    if (verdict.result == ADDRESS_OK)
        return fill(&verdict.parts, address) ? ADDRESS_OK : ADDRESS_MEMORY;
    explain(&verdict, problem, problem_size);
    spell(&verdict, hint, hint_size);
    return verdict.result;
}

void address_free(struct address *address)
{
    free(address->name);
    address->name = NULL;
}

socklen_t address_length(const struct sockaddr *sa)
{
    switch (sa->sa_family) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return 0;
    }
}

static in_port_t *port_field(struct sockaddr *sa)
{
    void *any = sa;

    switch (sa->sa_family) {
    case AF_INET:
        return &((struct sockaddr_in *)any)->sin_port;
    case AF_INET6:
        return &((struct sockaddr_in6 *)any)->sin6_port;
    default:
        return NULL;
    }
}

uint16_t address_port(const struct sockaddr *sa)
{
    struct sockaddr_storage copy = {.ss_family = AF_UNSPEC};
    const in_port_t *port;

    memcpy(&copy, sa, address_length(sa));
    port = port_field((struct sockaddr *)&copy);
    return port ? ntohs(*port) : 0;
}

void address_set_port(struct sockaddr *sa, uint16_t port)
{
    in_port_t *field = port_field(sa);

    if (field)
        *field = htons(port);
}

static char *format_host(const struct sockaddr *sa, char buf[HOST_TEXT])
{
    const void *any = sa;
    const struct sockaddr_in6 *in6 = any;
    char zone[IF_NAMESIZE];
    size_t len;

    if (sa->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)any)->sin_addr, buf, HOST_TEXT);
    } else if (sa->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &in6->sin6_addr, buf, HOST_TEXT);
        len = strlen(buf);
        if (in6->sin6_scope_id != 0 && if_indextoname(in6->sin6_scope_id, zone))
            snprintf(buf + len, HOST_TEXT - len, "%%%s", zone);
        else if (in6->sin6_scope_id != 0)
            snprintf(buf + len, HOST_TEXT - len, "%%%u", (unsigned)in6->sin6_scope_id);
    } else {
        snprintf(buf, HOST_TEXT, "(no address)");
    }
    return buf;
}

char *address_format_host(const struct sockaddr *sa, char *buf)
{
    return format_host(sa, buf);
}

char *address_format(const struct sockaddr *sa, char *buf)
{
    bool brackets = sa->sa_family == AF_INET6;
    char host[HOST_TEXT];

    snprintf(buf, ADDRESS_TEXT, "%s%s%s:%u", brackets ? "[" : "", format_host(sa, host),
             brackets ? "]" : "", address_port(sa));
    return buf;
}

/* The address's family and bytes, then zeros: IPv4 for IPv4-mapped IPv6. AF_UNSPEC for another. */
static int canonical(const struct sockaddr *sa, uint8_t bytes[16])
{
    const void *any = sa;

    memset(bytes, 0, 16);
    if (sa->sa_family == AF_INET) {
        memcpy(bytes, &((const struct sockaddr_in *)any)->sin_addr, 4);
        return AF_INET;
    }
    if (sa->sa_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)any)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(in6);

        memcpy(bytes, in6->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
        return mapped ? AF_INET : AF_INET6;
    }
    return AF_UNSPEC;
}

bool address_is_loopback(const struct sockaddr *sa)
{
    uint8_t bytes[16];

    switch (canonical(sa, bytes)) {
    case AF_INET:
        return bytes[0] == 127;
    case AF_INET6:
        return memcmp(bytes, &in6addr_loopback, sizeof(bytes)) == 0;
    default:
        return false;
    }
}

bool address_is_wildcard(const struct sockaddr *sa)
{
    uint8_t bytes[16];

    return canonical(sa, bytes) != AF_UNSPEC && memcmp(bytes, &in6addr_any, sizeof(bytes)) == 0;
}

bool address_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    uint8_t a_bytes[16], b_bytes[16];
    int family = canonical(a, a_bytes);

    return family != AF_UNSPEC && canonical(b, b_bytes) == family &&
           memcmp(a_bytes, b_bytes, sizeof(a_bytes)) == 0;
}

static unsigned family_bits(int family)
{
    return family == AF_INET ? 32 : 128;
}

/* Byte number index of a netmask. */
static uint8_t mask_byte(unsigned bits, unsigned index)
{
    unsigned before = 8 * index;
    unsigned ones = bits <= before ? 0 : bits - before < 8 ? bits - before : 8;

    return (uint8_t)(0xff00 >> ones);
}

static bool ends_with_prefix(const uint8_t *bytes, unsigned bits)
{
    for (unsigned i = 0; i < 16; i++)
        if (bytes[i] & ~mask_byte(bits, i))
            return false;
    return true;
}

static bool parse_network_address(struct span text, struct network *network)
{
    char copy[INET6_ADDRSTRLEN];

    if (text.len >= sizeof(copy))
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    network->family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    return inet_pton(network->family, copy, network->bytes) == 1;
}

static bool parse_bits(const char *text, unsigned max, unsigned *bits)
{
    size_t len = strlen(text);

    if (len == 0 || len > 3 || strspn(text, DIGITS) != len)
        return false;
    *bits = (unsigned)strtoul(text, NULL, 10);
    return *bits <= max;
}

/* Peers are compared by their IPv4 address when they have one, so networks are too. */
static void unmap(struct network *network)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    if (network->family != AF_INET6 || network->bits < 96 ||
        memcmp(network->bytes, prefix, sizeof(prefix)) != 0)
        return;
    network->family = AF_INET;
    network->bits -= 96;
    memcpy(network->bytes, network->bytes + 12, 4);
    memset(network->bytes + 4, 0, 12);
}

bool network_parse(const char *text, struct network *network)
{
    const char *slash = strchrnul(text, '/');
    unsigned max;

    *network = (struct network){.any = strcmp(text, "any") == 0};
    if (network->any)
        return true;
    if (!parse_network_address(span_until(text, slash), network))
        return false;
    max = family_bits(network->family);
    network->bits = max;
    if (*slash && !parse_bits(slash + 1, max, &network->bits))
        return false;
    unmap(network);
    return ends_with_prefix(network->bytes, network->bits);
}

bool network_around(const char *text, char *buf, size_t size)
{
    const char *slash = strchrnul(text, '/');
    char host[INET6_ADDRSTRLEN];
    struct network network = {.any = false};
    if (!*slash || !parse_network_address(span_until(text, slash), &network) ||
        !parse_bits(slash + 1, family_bits(network.family), &network.bits))
        return false;
    for (unsigned i = 0; i < 16; i++)
        network.bytes[i] &= mask_byte(network.bits, i);
    inet_ntop(network.family, network.bytes, host, sizeof host);
    snprintf(buf, size, "%s/%u", host, network.bits);
    return true;
}

bool network_of_interface(const struct sockaddr *sa, const struct sockaddr *mask,
                          struct network *network)
{
    uint8_t mask_bytes[16];

    *network = (struct network){.any = false};
    network->family = canonical(sa, network->bytes);
    if (network->family == AF_UNSPEC || canonical(mask, mask_bytes) != network->family)
        return false;
    while (network->bits < family_bits(network->family) &&
           mask_bytes[network->bits / 8] & (0x80 >> network->bits % 8))
        network->bits++;
    for (unsigned i = 0; i < 16; i++)
        network->bytes[i] &= mask_byte(network->bits, i);
    return network->bits > 0 && ends_with_prefix(mask_bytes, network->bits);
}

bool network_contains(const struct network *network, const struct sockaddr *sa)
{
    uint8_t bytes[16];
    int family = canonical(sa, bytes);

    if (network->any)
        return true;
    if (family != network->family)
        return false;
    for (unsigned i = 0; i < 16; i++)
        if ((bytes[i] ^ network->bytes[i]) & mask_byte(network->bits, i))
            return false;
    return true;
}
