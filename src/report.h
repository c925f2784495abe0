/*
 * report.h - what a session came to, in words for people.
 */
#ifndef RDMAPUT_REPORT_H
#define RDMAPUT_REPORT_H

#include "facts.h"
#include "poster.h"
#include "receiver.h"
#include "sender.h"

/* What was negotiated, at -v: the connection, and its slots or buffers. */
void report_connection(const struct facts *facts, const char *slots);

/* Appends how far a failed session got to its error: "; N bytes were acknowledged". Left out
 * when nothing did and the peer or the network is not the cause. */
void report_progress(struct error *err, uint64_t bytes, const char *done);

/* An object was committed here. */
void report_received(const char *peer, const struct receiver_object *object);

/* An object was delivered. */
void report_sent(const char *destination, const struct sender_result *result);

/* One-sided writes completed. */
void report_posted(const char *destination, const struct poster_result *result);

#endif
