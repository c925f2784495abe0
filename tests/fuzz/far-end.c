#include "config.h"

#include "far-end.h"

#include <string.h>

#include "fuzz.h"
#include "messages.h"

/* A message that was delivered. */
static struct untaken {
    size_t len;
    uint8_t bytes[WIRE_MESSAGE_BYTES];
} untaken[MESSAGES_MAX]; /* a ring */

void far_end_begin(struct far_end *far, struct input input)
{
    memset(far, 0, sizeof *far);
    far->input = input;
}

bool far_end_is_plain(const struct far_end *far)
{
    return far->patch_count == 0 && far->cut == 0;
}

size_t far_end_compose(struct far_end *far, const struct wire_message *message,
                       uint8_t bytes[WIRE_MESSAGE_BYTES])
{
    size_t len = wire_encode(message, bytes);
    for (unsigned i = 0; i < far->patch_count; i++)
        bytes[far->patches[i].at % len] ^= far->patches[i].bits;
    len -= far->cut % len;
    far->patch_count = far->cut = 0;
    return len;
}

bool far_end_deliver(struct far_end *far, const void *bytes, size_t len)
{
    if (!far->host.has_queue_pair || !fake_deliver(&far->host.fake, bytes, len))
        return false;
    struct untaken *last = &untaken[(far->untaken_head + far->untaken_count++) % MESSAGES_MAX];
    FUZZ_ASSERT(far->untaken_count <= MESSAGES_MAX);
    memcpy(last->bytes, bytes, len);
    last->len = len;
    return true;
}

bool far_end_look(const struct far_end *far, struct wire_message *message)
{
    const struct untaken *first = &untaken[far->untaken_head];
    const char *problem;
    FUZZ_ASSERT(far->untaken_count > 0);
    return wire_decode(first->bytes, first->len, message, &problem) == WIRE_OK;
}

void far_end_taken(struct far_end *far)
{
    far->untaken_head = (far->untaken_head + 1) % MESSAGES_MAX;
    far->untaken_count--;
}

static void patch(struct far_end *far)
{
    unsigned at = input_byte(&far->input);
    uint8_t bits = input_byte(&far->input);
    if (far->patch_count == FAR_END_PATCHES)
        return;
    far->patches[far->patch_count].at = at;
    far->patches[far->patch_count++].bits = bits;
}

static void carry_out(struct far_end *far, void (*instruct)(uint8_t letter))
{
    uint8_t letter = input_byte(&far->input);
    switch (letter) {
    case '^':
        patch(far);
        break;
    case '-':
        far->cut = input_number(&far->input);
        break;
    case 'h':
        far->held = input_number(&far->input);
        break;
    default:
        instruct(letter);
    }
}

void far_end_act(struct far_end *far, void (*instruct)(uint8_t letter))
{
    carry_out(far, instruct);
    while (far->held > 0 && far->input.left > 0) {
        far->held--;
        carry_out(far, instruct);
    }
}
