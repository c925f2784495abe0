/*
 * test-server.c - the server's loop does a part of its work at a time, however many clients there are.
 */
#include "config.h"

/* The functions under test are the file's own. */
#include "server.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define PATIENCE_S 60 /* a test that waits longer ends the program */

/* Clients that ask for what there is not. */
static struct rdma_cm_id client;
static struct rdma_cm_event request = {.id = &client, .event = RDMA_CM_EVENT_CONNECT_REQUEST};
static unsigned coming, came, refused, destroyed;

int listener_open(struct listener *listener, const struct sockaddr *addr, uint16_t port,
                  struct error *err)
{
    (void)listener, (void)addr, (void)port, (void)err;
    return 0;
}

void listener_close(struct listener *listener)
{
    (void)listener;
}

int listener_fd(const struct listener *listener)
{
    (void)listener;
    return -1;
}

int listener_next(struct listener *listener, struct rdma_cm_event **event, struct error *err)
{
    (void)listener, (void)err;
    if (came == coming)
        return 0;
    came++;
    *event = &request;
    return 1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    (void)event;
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    (void)id, (void)data, (void)len;
    refused++;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    (void)id;
    destroyed++;
    return 0;
}

static int setup(void **state)
{
    (void)state;
    alarm(PATIENCE_S);
    log_set_level(LOG_QUIET);
    client.route.addr.dst_sin.sin_family = AF_INET;
    came = refused = destroyed = 0;
    return 0;
}

static void a_flood_of_requests_is_taken_in_parts(void **state)
{
    static const struct server_job job = {.port = 0};
    struct server server = {.job = &job, .admission = {.anybody = true}};
    struct error err = {.class = ERROR_NONE};

    (void)state;
    coming = 10000;
    assert_int_equal(take_requests(&server, &err), 1);
    assert_in_range(came, 1, 100);
    while (came < coming)
        assert_int_equal(take_requests(&server, &err), 1);
    assert_int_equal(take_requests(&server, &err), 0);
    assert_int_equal(refused, coming);
    assert_int_equal(destroyed, coming);
}

/* One session may have any number of them. */
static void the_objects_that_a_document_lists_are_bounded(void **state)
{
    struct serving serving = {.objects = json_object_new_array()};
    const struct receiver_object object = {.name = "x"};

    (void)state;
    for (unsigned i = 0; i < MOST_LISTED + 10; i++)
        note_object(&serving, "peer", &object, NULL);
    assert_int_equal(json_object_array_length(serving.objects), MOST_LISTED);
    json_object_put(serving.objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_objects_that_a_document_lists_are_bounded, setup),
        cmocka_unit_test_setup(a_flood_of_requests_is_taken_in_parts, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
