#include "config.h"

#include "messages.h"

#include <assert.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>

static uint8_t *buffer(const struct messages *messages, unsigned index)
{
    return messages->memory.addr + (size_t)index * WIRE_MESSAGE_BYTES;
}

static int post_receive(struct messages *messages, unsigned index, struct error *err)
{
    void *context = (void *)(uintptr_t)(MESSAGES_WRID_RECV | index);
    if (rdma_post_recv(messages->id, context, buffer(messages, index), WIRE_MESSAGE_BYTES,
                       messages->memory.mr) != 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_POST, NULL, errno,
                               "cannot post a receive");
    return 0;
}

int messages_open(struct messages *messages, struct rdma_cm_id *id, unsigned count,
                  struct error *err)
{
    *messages = (struct messages){.id = id, .count = count};
    assert(count >= 1 && count <= MESSAGES_MAX);
    if (memory_map(&messages->memory, (size_t)2 * messages->count * WIRE_MESSAGE_BYTES, err) < 0 ||
        memory_register_messages(&messages->memory, id, "messages", err) < 0)
        goto fail;
    for (unsigned i = 0; i < messages->count; i++) {
        if (post_receive(messages, i, err) < 0)
            goto fail;
        messages->free[messages->free_count++] = (uint8_t)(messages->count + i);
    }
    return 0;
fail:
    messages_close(messages);
    return -1;
}

void messages_close(struct messages *messages)
{
    memory_free(&messages->memory);
}

bool messages_can_send(const struct messages *messages, const struct writer *writer)
{
    return messages->free_count > 0 && writer_room(writer) > 0;
}

uint64_t messages_next_wr_id(const struct messages *messages)
{
    assert(messages->free_count > 0);
    return MESSAGES_WRID_SEND | messages->free[messages->free_count - 1];
}

int messages_send(struct messages *messages, struct writer *writer,
                  const struct wire_message *message, struct error *err)
{
    assert(messages_can_send(messages, writer));
    uint64_t wr_id = messages_next_wr_id(messages);
    unsigned index = messages->free[--messages->free_count];
    size_t len = wire_encode(message, buffer(messages, index));
    int rc = writer_send(writer, wr_id, buffer(messages, index), len, messages->memory.mr, err);
    if (rc < 0)
        messages->free_count++;
    return rc;
}

void messages_sent(struct messages *messages, uint64_t wr_id)
{
    messages->free[messages->free_count++] = (uint8_t)(wr_id & 0xff);
}

int messages_received(struct messages *messages, uint64_t wr_id, uint32_t len, const char *peer,
                      struct wire_message *message, struct error *err)
{
    const char *problem = "";
    unsigned index = (unsigned)(wr_id & 0xff);
    if (wire_decode(buffer(messages, index), len, message, &problem) != WIRE_OK)
        return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, peer,
                         "received a message that breaks the protocol: %s", problem);
    return post_receive(messages, index, err);
}
