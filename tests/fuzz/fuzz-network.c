/*
 * fuzz-network.c - networks: what is parsed is spelt out to what parses equal, and contains exactly the
 * addresses that begin with its bits.
 */
#include "config.h"

#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define NETWORK_TEXT (INET6_ADDRSTRLEN + 16)

static unsigned family_bits(int family)
{
    return family == AF_INET ? 32 : 128;
}

static bool bit(const uint8_t *bytes, unsigned number)
{
    return bytes[number / 8] & 0x80 >> number % 8;
}

static void flip(uint8_t *bytes, unsigned number)
{
    bytes[number / 8] ^= (uint8_t)(0x80 >> number % 8);
}

static void assert_valid(const struct network *network)
{
    FUZZ_ASSERT(network->family == AF_INET || network->family == AF_INET6);
    FUZZ_ASSERT(network->bits <= family_bits(network->family));
    for (unsigned i = network->bits; i < 128; i++)
        FUZZ_ASSERT(!bit(network->bytes, i));
}

static void assert_equal(const struct network *a, const struct network *b)
{
    FUZZ_ASSERT(a->any == b->any);
    FUZZ_ASSERT(a->family == b->family);
    FUZZ_ASSERT(a->bits == b->bits);
    FUZZ_ASSERT(memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0);
}

static void assert_spelling(const char *before, unsigned more_bits, const struct network *network)
{
    char host[INET6_ADDRSTRLEN], text[NETWORK_TEXT];
    struct network again;
    FUZZ_ASSERT(inet_ntop(network->family, network->bytes, host, sizeof host));
    snprintf(text, sizeof text, "%s%s/%u", before, host, network->bits + more_bits);
    FUZZ_ASSERT(network_parse(text, &again));
    assert_equal(&again, network);
}

/* A network of IPv4 may also be given as what IPv6 makes of it. */
static void try_spelling(const struct network *network)
{
    assert_spelling("", 0, network);
    if (network->family == AF_INET)
        assert_spelling("::ffff:", 96, network);
}

static struct sockaddr_in6 ipv6_of(const uint8_t bytes[16])
{
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
    memcpy(&sin6.sin6_addr, bytes, 16);
    return sin6;
}

static struct sockaddr_in ipv4_of(const uint8_t bytes[4])
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    memcpy(&sin.sin_addr, bytes, 4);
    return sin;
}

/* The same address both as IPv4 and as what IPv6 makes of it. */
static bool contains_ipv4(const struct network *network, const uint8_t bytes[4])
{
    uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff};
    memcpy(mapped + 12, bytes, 4);
    struct sockaddr_in sin = ipv4_of(bytes);
    struct sockaddr_in6 sin6 = ipv6_of(mapped);
    bool contains = network_contains(network, (struct sockaddr *)&sin);
    FUZZ_ASSERT(network_contains(network, (struct sockaddr *)&sin6) == contains);
    return contains;
}

static bool contains(const struct network *network, const uint8_t *bytes)
{
    if (network->family == AF_INET)
        return contains_ipv4(network, bytes);
    struct sockaddr_in6 sin6 = ipv6_of(bytes);
    return network_contains(network, (struct sockaddr *)&sin6);
}

/* An IPv6 address that is one of IPv4 lies in no network of IPv6. */
static bool is_mapped(const struct network *network, const uint8_t *bytes)
{
    return network->family == AF_INET6 && IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)bytes);
}

static void try_addresses(const struct network *network)
{
    uint8_t bytes[16] __attribute__((aligned(4)));
    memcpy(bytes, network->bytes, sizeof bytes);
    FUZZ_ASSERT(contains(network, bytes) == !is_mapped(network, bytes));
    for (unsigned i = 0; i < family_bits(network->family); i++) {
        flip(bytes, i);
        FUZZ_ASSERT(contains(network, bytes) == (i >= network->bits && !is_mapped(network, bytes)));
        flip(bytes, i);
    }
}

static void try_other_family(const struct network *network)
{
    static const uint8_t zeros[16];
    struct sockaddr_in sin = ipv4_of(zeros);
    struct sockaddr_in6 sin6 = ipv6_of(zeros);
    const struct sockaddr *other = network->family == AF_INET ? (struct sockaddr *)&sin6
                                                              : (struct sockaddr *)&sin;
    FUZZ_ASSERT(!network_contains(network, other));
}

/* The same network, of an interface with that address and netmask. */
static void try_interface(const struct network *network)
{
    uint8_t mask[16] = {0};
    struct network again;
    for (unsigned i = 0; i < network->bits; i++)
        flip(mask, i);
    struct sockaddr_in sin = ipv4_of(network->bytes), sin_mask = ipv4_of(mask);
    struct sockaddr_in6 sin6 = ipv6_of(network->bytes), sin6_mask = ipv6_of(mask);
    bool is_ipv4 = network->family == AF_INET;
    bool made = is_ipv4 ? network_of_interface((struct sockaddr *)&sin,
                                               (struct sockaddr *)&sin_mask, &again)
                        : network_of_interface((struct sockaddr *)&sin6,
                                               (struct sockaddr *)&sin6_mask, &again);
    if (is_mapped(network, network->bytes))
        return;
    FUZZ_ASSERT(made == (network->bits > 0));
    if (made)
        assert_equal(&again, network);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct network network;
    if (network_parse(text, &network)) {
        FUZZ_ASSERT(network.any == (strcmp(text, "any") == 0));
        if (!network.any) {
            assert_valid(&network);
            try_spelling(&network);
            try_addresses(&network);
            try_other_family(&network);
            try_interface(&network);
        }
    }
    free(text);
    return 0;
}
