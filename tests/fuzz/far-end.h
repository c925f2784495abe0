/*
 * far-end.h - the far end of a session under test: a host for the session, and what is said to it, as
 * the input instructs.
 */
#ifndef RDMAPUT_TEST_FAR_END_H
#define RDMAPUT_TEST_FAR_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fake-host.h"
#include "input.h"
#include "wire.h"

#define FAR_END_PATCHES 4

struct far_end {
    struct input input;
    struct fake_host host;
    bool device_waits, worker_waits; /* until they are told to get on */
    /* What the input changes in the next message: bits that are flipped, bytes that are cut off. */
    struct {
        unsigned at;
        uint8_t bits;
    } patches[FAR_END_PATCHES];
    unsigned patch_count, cut;
    unsigned held; /* instructions that are to happen at once */
    /* What was delivered, and has not been taken yet. */
    unsigned untaken_head, untaken_count;
};

/* The input begins. The host is to be opened apart from it. */
void far_end_begin(struct far_end *far, struct input input);

/* Whether the next message goes as it is. */
bool far_end_is_plain(const struct far_end *far);

/* Encodes a message, with what the input changes in it. Returns the bytes. */
size_t far_end_compose(struct far_end *far, const struct wire_message *message,
                       uint8_t bytes[WIRE_MESSAGE_BYTES]);

/* Sends bytes. false when there is nobody, or no receive, to take them. */
bool far_end_deliver(struct far_end *far, const void *bytes, size_t len);

/* The oldest message that was delivered and not taken; there is one. false when it is none. */
bool far_end_look(const struct far_end *far, struct wire_message *message);

/* It was taken. */
void far_end_taken(struct far_end *far);

/* Carries out the next instruction, and those that are to happen with it. These are known here, all
 * others the callee's:
 *     ^    the next message is changed: where, the bits that are flipped
 *     -    bytes are cut off it: how many
 *     h    the next instructions happen at once: how many */
void far_end_act(struct far_end *far, void (*instruct)(uint8_t letter));

#endif
