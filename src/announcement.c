#include "config.h"

#include "announcement.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "device.h"
#include "fdio.h"
#include "ticket.h"

static bool is_link_local(const struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static int list_all(FILE *out, uint16_t port, struct error *err)
{
    struct device_address *addresses = NULL;
    char text[ADDRESS_TEXT];
    int count = device_addresses(&addresses, err);
    if (count == 0) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_LISTEN, NULL,
                  "no address of this host reaches an RDMA device");
        error_hint(err, "'rdmaput devices' lists devices and addresses, and 'rdmaput check' what "
                        "is amiss");
        count = -1;
    }
    for (int i = 0; i < count; i++) {
        struct sockaddr *sa = (struct sockaddr *)&addresses[i].addr;
        if (is_link_local(&addresses[i].addr))
            continue;
        address_set_port(sa, port);
        fprintf(out, "%s\n", address_format(sa, text));
    }
    free(addresses);
    return count < 0 ? -1 : 0;
}

char *announcement_addresses(const struct listener *listener, bool bound, struct error *err)
{
    char text[ADDRESS_TEXT], *lines = NULL;
    size_t len;
    int rc = 0;
    FILE *out = open_memstream(&lines, &len);
    if (out && bound)
        fprintf(out, "%s\n", address_format((const struct sockaddr *)&listener->addr, text));
    else if (out)
        rc = list_all(out, listener->port, err);
    if (out && fclose(out) == 0 && rc == 0)
        return lines;
    free(lines);
    error_set_errno(err, ERROR_RESOURCE, STAGE_LISTEN, NULL, ENOMEM,
                    "cannot list the addresses of this host");
    return NULL;
}

void announcement_withdraw(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        (void)unlink(path);
}

int announcement_publish(const char *path, const char *lines, struct error *err)
{
    if (fdio_publish(path, lines, strlen(lines), 0666) < 0)
        return error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_LISTEN, path, errno,
                               "cannot create the ready file");
    return 0;
}

int announcement_ticket(const char *path, const struct region *region,
                        const struct listener *listener, const struct admission *admission,
                        struct error *err)
{
    struct ticket ticket;
    char line[TICKET_TEXT + 1];
    region_ticket(region, (const struct sockaddr *)&listener->addr, &ticket);
    ticket.has_token = admission->secret != NULL;
    memcpy(ticket.token, admission->token, TICKET_TOKEN_BYTES);
    ticket_format(&ticket, line);
    strcat(line, "\n");
    if (strcmp(path, "-") == 0) {
        if (fdio_write(STDOUT_FILENO, line, strlen(line)) < 0)
            return error_set_errno(err, ERROR_STORAGE, STAGE_LISTEN, NULL, errno,
                                   "cannot write the ticket to standard output");
        return 0;
    }
    if (fdio_publish(path, line, strlen(line), 0600) < 0)
        return error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_LISTEN, path, errno,
                               "cannot create the ticket file");
    return 0;
}
