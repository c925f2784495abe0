/*
 * address.h - destinations HOST[:PORT][/NAME], and networks ADDR/BITS.
 *
 * Pure: no name is looked up here.
 */
#ifndef RDMAPUT_ADDRESS_H
#define RDMAPUT_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_DEFAULT_PORT 7475
#define ADDRESS_TEXT 128 /* "[" an IPv6 address, "%", a zone, "]:", a port */

struct address {
    char host[256]; /* without brackets; an IPv6 zone is part of it ("fe80::1%eth0") */
    uint16_t port;
    bool has_port;
    bool has_name; /* there was a '/' */
    char *name;    /* owned; what follows the first '/', may be empty; NULL without one */
};

enum address_result {
    ADDRESS_OK = 0,
    ADDRESS_EMPTY,     /* no HOST */
    ADDRESS_USER,      /* user@HOST */
    ADDRESS_WORD,      /* HOST:WORD, the habit of scp */
    ADDRESS_BARE_IPV6, /* IPv6 without brackets */
    ADDRESS_BRACKETS,  /* brackets that do not close, hold no IPv6 address, or text after them */
    ADDRESS_PORT,      /* a port that is not 1 to 65535 */
    ADDRESS_HOST,      /* characters that no host name has, or too long */
    ADDRESS_MEMORY,
};

/*
 * Parses a destination. For each refusal but ADDRESS_MEMORY, problem holds what is wrong and hint
 * the right spelling made from the argument itself ("put it in brackets: '[fe80::1]:7475/x'"), or
 * the grammar where the argument gives none. has_port is false when there is none, and port is then
 * ADDRESS_DEFAULT_PORT. address_free on success.
 */
enum address_result address_parse(const char *text, struct address *address, char *problem,
                                  size_t problem_size, char *hint, size_t hint_size);

void address_free(struct address *address);

/* AF_INET or AF_INET6 (also with a zone) for the len bytes of a numeric address; else AF_UNSPEC. */
int address_numeric_family(const char *text, size_t len);

/* HOST:PORT, IPv6 in brackets, with its zone. buf has ADDRESS_TEXT bytes; returns it. The host of
 * any other family is "(no address)". */
char *address_format(const struct sockaddr *sa, char *buf);

/* The address alone, no brackets, no port. */
char *address_format_host(const struct sockaddr *sa, char *buf);

uint16_t address_port(const struct sockaddr *sa);
void address_set_port(struct sockaddr *sa, uint16_t port);
socklen_t address_length(const struct sockaddr *sa);
bool address_is_loopback(const struct sockaddr *sa);
bool address_is_wildcard(const struct sockaddr *sa);

/* Equal addresses, ports and zones aside; an IPv4-mapped IPv6 address equals its IPv4 address. */
bool address_same_host(const struct sockaddr *a, const struct sockaddr *b);

/* A network: the first bits of an address. */
struct network {
    bool any;
    int family; /* AF_INET or AF_INET6 */
    uint8_t bytes[16];
    unsigned bits;
};

/* Parses ADDR, ADDR/BITS or "any"; host bits past BITS must be zero. false when it is none. */
bool network_parse(const char *text, struct network *network);

/* For ADDR/BITS with bits set past BITS: the network that ADDR lies in, as text. false for what is no
 * such thing. */
bool network_around(const char *text, char *buf, size_t size);

/* Makes the network of an address and a netmask. false for a family that is neither, and
 * for a netmask that has gaps or no bits at all. */
bool network_of_interface(const struct sockaddr *sa, const struct sockaddr *mask,
                          struct network *network);

/* Whether the address lies in it; IPv4-mapped IPv6 counts as IPv4. */
bool network_contains(const struct network *network, const struct sockaddr *sa);

#endif
