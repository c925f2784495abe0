#include "config.h"

#include "subnet.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdbool.h>

#include "address.h"

int subnet_is_near(const struct sockaddr *peer, struct error *err)
{
    struct ifaddrs *list;
    bool near = false;
    if (getifaddrs(&list) < 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, NULL, errno,
                               "cannot list the addresses of this host");
    for (const struct ifaddrs *at = list; at && !near; at = at->ifa_next) {
        struct network network;
        near = at->ifa_addr && at->ifa_netmask &&
               network_of_interface(at->ifa_addr, at->ifa_netmask, &network) && network.bits > 0 &&
               network_contains(&network, peer);
    }
    freeifaddrs(list);
    return near;
}
