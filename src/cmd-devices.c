#include "config.h"

#include "cmd-devices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "document.h"
#include "options.h"
#include "units.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->input;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s': no argument is due", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_common_argp, 0, NULL, 0},
    {NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .parser = parse,
    .doc = "List the RDMA devices of this host, and the addresses that reach them.\v"
           "Exits with 69 when there is none.\n"
           "\n"
           "Examples:\n"
           "  rdmaput devices\n"
           "  rdmaput devices --json | jq -r '.devices[].addresses[]'",
    .children = children,
};

static const char *link_layer_name(uint8_t link_layer)
{
    switch (link_layer) {
    case IBV_LINK_LAYER_ETHERNET:
        return "Ethernet";
    case IBV_LINK_LAYER_INFINIBAND:
        return "InfiniBand";
    default:
        return "unspecified";
    }
}

static void print_addresses(const struct device *device, const struct device_port *port,
                            const struct device_address *addresses, int count)
{
    char host[ADDRESS_TEXT];
    for (int i = 0; i < count; i++)
        if (strcmp(addresses[i].device, device->name) == 0 && addresses[i].port == port->number)
            printf("    address      %s\n",
                   address_format_host((const struct sockaddr *)&addresses[i].addr, host));
}

/* The netdev of the port; where the kernel's table of GIDs names none, that of an address; NULL for none. */
static const char *netdev(const struct device *device, const struct device_port *port,
                          const struct device_address *addresses, int count)
{
    for (int i = 0; !port->netdev[0] && i < count; i++)
        if (strcmp(addresses[i].device, device->name) == 0 && addresses[i].port == port->number)
            return addresses[i].netdev;
    return port->netdev[0] ? port->netdev : NULL;
}

static void print_device(const struct device *device, const struct device_address *addresses,
                         int count)
{
    char size[UNITS_TEXT];
    for (unsigned i = 0; i < device->port_count; i++) {
        const struct device_port *port = &device->ports[i];
        printf("%s port %u\n", device->name, port->number);
        printf("    kind         %s\n", device_kind(device->iwarp, port->link_layer));
        printf("    state        %s\n", ibv_port_state_str(port->state));
        printf("    link layer   %s\n", link_layer_name(port->link_layer));
        const char *name = netdev(device, port, addresses, count);
        printf("    netdev       %s\n", name ? name : "none");
        print_addresses(device, port, addresses, count);
        printf("    active MTU   %" PRIu32 "\n", port->active_mtu_bytes);
        printf("    GIDs         %u\n", port->gid_count);
        printf("    max_sge      %d\n", device->max_sge);
        printf("    max_msg_sz   %" PRIu64 " (%s)\n", port->max_msg_sz,
               units_format_size(port->max_msg_sz, size));
        printf("    max_qp_wr    %d\n", device->max_qp_wr);
    }
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static void append(struct json_object *array, struct json_object *item)
{
    if (!array || json_object_array_add(array, item) != 0)
        json_object_put(item);
}

static struct json_object *describe_addresses(const struct device *device,
                                              const struct device_port *port,
                                              const struct device_address *addresses, int count)
{
    char host[ADDRESS_TEXT];
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < count; i++)
        if (strcmp(addresses[i].device, device->name) == 0 && addresses[i].port == port->number)
            append(array, json_object_new_string(address_format_host(
                              (const struct sockaddr *)&addresses[i].addr, host)));
    return array;
}

static void describe_device(struct json_object *array, const struct device *device,
                            const struct device_address *addresses, int count)
{
    for (unsigned i = 0; i < device->port_count; i++) {
        const struct device_port *port = &device->ports[i];
        struct json_object *object = json_object_new_object();
        document_add_text(object, "device", device->name);
        document_add_number(object, "port", port->number);
        document_add_text(object, "kind", device_kind(device->iwarp, port->link_layer));
        document_add_text(object, "state", ibv_port_state_str(port->state));
        document_add_text(object, "link_layer", link_layer_name(port->link_layer));
        document_add_text(object, "netdev", netdev(device, port, addresses, count));
        document_add(object, "addresses", describe_addresses(device, port, addresses, count));
        document_add_number(object, "mtu_bytes", port->active_mtu_bytes);
        document_add_number(object, "gids", port->gid_count);
        document_add_number(object, "max_sge", (uint64_t)device->max_sge);
        document_add_number(object, "max_message_bytes", port->max_msg_sz);
        document_add_number(object, "max_work_requests", (uint64_t)device->max_qp_wr);
        append(array, object);
    }
}

static void describe(struct json_object *document, const struct device *devices, int count,
                     const struct device_address *addresses, int address_count)
{
    struct json_object *array = document ? json_object_new_array() : NULL;
    for (int i = 0; array && i < count; i++)
        describe_device(array, &devices[i], addresses, address_count);
    document_add(document, "devices", array);
}

int cmd_devices(int argc, char **argv, struct error *err)
{
    struct options_common common;
    struct device *devices = NULL;
    struct device_address *addresses = NULL;
    options_common_init(&common);
    if (options_parse(&argp, argc, argv, &common, err) < 0)
        return -1;
    struct json_object *document;
    if (options_common_apply(&common, "devices", NULL, &document, err) < 0)
        return -1;
    if (device_check_any(err) < 0) {
        if (err->class == ERROR_UNAVAILABLE)
            describe(document, NULL, 0, NULL, 0);
        return -1;
    }
    int count = device_list(&devices, err);
    int address_count = count < 0 ? -1 : device_addresses(&addresses, err);
    if (address_count >= 0)
        describe(document, devices, count, addresses, address_count);
    for (int i = 0; i < count && address_count >= 0 && !document_takes_stdout(); i++)
        print_device(&devices[i], addresses, address_count);
    free(addresses);
    free(devices);
    return address_count < 0 ? -1 : 0;
}
