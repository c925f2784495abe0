#include "config.h"

#include "budget.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#define IPV6_NETWORK_BYTES 8
/* The first session's part of what there is. */
#define FIRST_PART 4

/* An IPv4 address is kept as an IPv6 one that maps it. */
void budget_find_host(const struct sockaddr *peer, uint8_t host[BUDGET_HOST_BYTES])
{
    memset(host, 0, BUDGET_HOST_BYTES);
    if (peer->sa_family == AF_INET6) {
        const struct in6_addr *addr = &((const struct sockaddr_in6 *)peer)->sin6_addr;
        memcpy(host, addr, IN6_IS_ADDR_V4MAPPED(addr) ? 16 : IPV6_NETWORK_BYTES);
    } else if (peer->sa_family == AF_INET) {
        memset(host + 10, 0xff, 2);
        memcpy(host + 12, &((const struct sockaddr_in *)peer)->sin_addr, 4);
    }
}

/* A host's part of what there is for all. */
static uint64_t part_of(uint64_t all)
{
    return all - all / 4;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int busy(struct error *err, const char *why)
{
    error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, NULL, "busy with %s", why);
    return error_hint(err, "try again when it has ended, or have --retry do so");
}

/* The more sessions there are, the less of what is left: many find room, and few have enough. */
static uint64_t find_share(const struct budget *budget, uint64_t left)
{
    uint64_t bytes = smaller(budget->wanted, left / (FIRST_PART + budget->count));
    return bytes > budget->least ? bytes : budget->least;
}

/* Whether there may be one session more for that; -1 with *err. */
static int check_count(const struct budget *budget, enum budget_use use, struct error *err)
{
    unsigned most = budget->most_of[use];
    if (budget->count < budget->most_sessions && (most == 0 || budget->count_of[use] < most))
        return 0;
    if (budget->count < budget->most_sessions && use == BUDGET_CHECK)
        return busy(err, "as many checks as there may be");
    return busy(err, budget->most_sessions == 1 || most == 1 ? "another session"
                                                             : "as many sessions as there may be");
}

int budget_take(struct budget *budget, const struct sockaddr *peer, enum budget_use use,
                struct budget_share *share, struct error *err)
{
    unsigned of_host = 0;
    uint64_t bytes_of_host = 0;
    budget_find_host(peer, share->host);
    for (const struct budget_share *at = budget->shares; at; at = at->next)
        if (memcmp(at->host, share->host, sizeof at->host) == 0) {
            of_host++;
            bytes_of_host += at->bytes;
        }
    if (check_count(budget, use, err) < 0)
        return -1;
    if (of_host > 0 && of_host >= part_of(budget->most_sessions))
        return busy(err, "as many sessions as one host may have");
    share->bytes = budget->wanted;
    if (budget->most_bytes != BUDGET_UNLIMITED) {
        uint64_t left = budget->most_bytes - smaller(budget->bytes, budget->most_bytes);
        uint64_t part = part_of(budget->most_bytes);
        uint64_t left_for_host = smaller(left, part - smaller(bytes_of_host, part));
        if (budget->count > 0 && left_for_host < budget->least)
            return busy(err, left < budget->least ? "other sessions, which have all of its memory"
                                                  : "as much memory as one host may have");
        share->bytes = find_share(budget, left_for_host);
    }
    share->use = use;
    share->next = budget->shares;
    budget->shares = share;
    budget->count++;
    budget->count_of[use]++;
    budget->bytes += share->bytes;
    return 0;
}

void budget_return(struct budget *budget, struct budget_share *share)
{
    struct budget_share **at = &budget->shares;
    while (*at != share)
        at = &(*at)->next;
    *at = share->next;
    budget->count--;
    budget->count_of[share->use]--;
    budget->bytes -= share->bytes;
}
