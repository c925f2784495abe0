/*
 * meeting.h - an exchange over TCP, at either end: what is said before the RDMA connection.
 */
#ifndef HOSTILE_MEETING_H
#define HOSTILE_MEETING_H

#include "talk.h"

/* As a client: connects, says that HELLO, and hears a WELCOME and a MEET. false when that did not
 * come; what the server told instead is noted. */
bool meeting_ask(struct talk *talk, const struct sockaddr *dest, const struct message *hello,
                 uint8_t token[WIRE_TOKEN_BYTES]);

/* As a server: takes a client's connection and its HELLO, says WELCOME and MEET. false when it is
 * over. The talk's deadline is that of the client's coming, and then begins anew. */
bool meeting_answer(struct talk *talk, const struct stream *listener, const struct message *welcome,
                    const char *address, uint8_t token[WIRE_TOKEN_BYTES]);

/* What comes next on the TCP connection; false when nothing does. */
bool meeting_hear(const struct talk *talk, struct message *message);

#endif
