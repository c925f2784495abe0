/*
 * announcement.h - telling others where a server is: the addresses that it answers to, the ready file,
 * the ticket.
 */
#ifndef RDMAPUT_ANNOUNCEMENT_H
#define RDMAPUT_ANNOUNCEMENT_H

#include "admission.h"
#include "error.h"
#include "listener.h"
#include "region.h"

/* The addresses that clients can name, a line ADDR:PORT each: the listener's own when it is bound to
 * one, else all of this host that reach a device, without link-local ones. The caller frees it. NULL
 * with *err, also where not even a link-local one does (69). */
char *announcement_addresses(const struct listener *listener, bool bound, struct error *err);

/* A ready file that is there is an earlier server's, and goes. */
void announcement_withdraw(const char *path);

/* The ready file appears with these lines. 0, or -1 with *err (73). */
int announcement_publish(const char *path, const char *lines, struct error *err);

/* Writes the ticket of a published region, with admission's token where there is a secret, to a file
 * for its owner alone, or to standard output ("-"). 0, or -1 with *err (73, 74). */
int announcement_ticket(const char *path, const struct region *region,
                        const struct listener *listener, const struct admission *admission,
                        struct error *err);

#endif
