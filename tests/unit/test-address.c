/*
 * test-address.c - destinations, socket addresses and networks.
 */
#include "config.h"

#include "address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GRAMMAR "a destination is HOST[:PORT][/NAME], IPv6 in brackets"

static enum address_result parse(const char *text, struct address *address)
{
    char problem[256], hint[256];

    return address_parse(text, address, problem, sizeof(problem), hint, sizeof(hint));
}

static void test_destinations(void **state)
{
    static const struct {
        const char *text, *host;
        unsigned port; /* 0: none */
        const char *name;
    } rows[] = {
        {"host", "host", 0, NULL},
        {"HOST-1.example.org", "HOST-1.example.org", 0, NULL},
        {"my_host", "my_host", 0, NULL},
        {"host.", "host.", 0, NULL},
        {"7", "7", 0, NULL},
        {"host:1", "host", 1, NULL},
        {"host:7475", "host", 7475, NULL},
        {"host:65535", "host", 65535, NULL},
        {"host:007475", "host", 7475, NULL},
        {"host/", "host", 0, ""},
        {"host/x", "host", 0, "x"},
        {"host/a/b/", "host", 0, "a/b/"},
        {"host//x", "host", 0, "/x"},
        {"host:7475/x", "host", 7475, "x"},
        {"host/x:y@z[1]", "host", 0, "x:y@z[1]"},
        {"host/../x", "host", 0, "../x"},
        {"host/with space\n\xff", "host", 0, "with space\n\xff"},
        {"10.0.0.2", "10.0.0.2", 0, NULL},
        {"10.0.0.2:80/x", "10.0.0.2", 80, "x"},
        {"[::]", "::", 0, NULL},
        {"[::1]:1", "::1", 1, NULL},
        {"[fe80::1%eth0]:7475/boot.img", "fe80::1%eth0", 7475, "boot.img"},
        {"[fe80::1%eth0.100]", "fe80::1%eth0.100", 0, NULL},
        {"[fe80::1%2]/", "fe80::1%2", 0, ""},
        {"[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2:3:4:5:6", 0, NULL},
        {"[::ffff:10.0.0.2]:9", "::ffff:10.0.0.2", 9, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[256] = "", hint[256] = "";
        struct address got;

        if (address_parse(rows[i].text, &got, problem, sizeof(problem), hint, sizeof(hint)))
            fail_msg("'%s': %s; %s", rows[i].text, problem, hint);
        assert_string_equal(got.host, rows[i].host);
        assert_int_equal(got.has_port, rows[i].port != 0);
        assert_int_equal(got.port, rows[i].port ? rows[i].port : ADDRESS_DEFAULT_PORT);
        assert_int_equal(got.has_name, rows[i].name != NULL);
        if (rows[i].name)
            assert_string_equal(got.name, rows[i].name);
        else
            assert_null(got.name);
        address_free(&got);
        assert_null(got.name);
    }
}

static void test_refusals_show_the_right_spelling(void **state)
{
    static const struct {
        const char *text;
        enum address_result result;
        const char *problem, *hint;
    } rows[] = {
        {"", ADDRESS_EMPTY, "there is no HOST", "name one: 'HOST'"},
        {"/x", ADDRESS_EMPTY, "there is no HOST", "name one: 'HOST/x'"},
        {":7475", ADDRESS_EMPTY, "there is no HOST", "name one: 'HOST:7475'"},
        {":7475/x", ADDRESS_EMPTY, "there is no HOST", "name one: 'HOST:7475/x'"},
        {":file", ADDRESS_EMPTY, "there is no HOST", "name one: 'HOST/file'"},

        {"user@host", ADDRESS_USER, "'user@' names a user, and RDMA connections have none",
         "leave the user out: 'host'"},
        {"user@host:80/x", ADDRESS_USER, NULL, "leave the user out: 'host:80/x'"},
        {"user@host:file", ADDRESS_USER, NULL, "leave the user out: 'host/file'"},
        {"user@host:/tmp/x", ADDRESS_USER, NULL, "leave the user out: 'host/tmp/x'"},
        {"user@[fe80::1]/x", ADDRESS_USER, NULL, "leave the user out: '[fe80::1]/x'"},
        {"user@fe80::1", ADDRESS_USER, NULL, "leave the user out: '[fe80::1]'"},
        {"a@b@host", ADDRESS_USER, "'a@b@' names a user, and RDMA connections have none",
         "leave the user out: 'host'"},
        {"@host", ADDRESS_USER, NULL, "leave the user out: 'host'"},
        {"user:pw@host", ADDRESS_USER, NULL, "leave the user out: 'host'"},
        {"user@", ADDRESS_USER, NULL, "leave the user out: 'HOST'"},
        {"user@ho st", ADDRESS_USER, NULL, GRAMMAR},

        {"host:file", ADDRESS_WORD, "'file' is not a port", "HOST/NAME: 'host/file'"},
        {"host:dir/file", ADDRESS_WORD, "'dir' is not a port", "HOST/NAME: 'host/dir/file'"},
        {"host:/tmp/x", ADDRESS_WORD, "no port follows ':'", "HOST/NAME: 'host/tmp/x'"},
        {"host:", ADDRESS_WORD, "no port follows ':'", "HOST/NAME: 'host'"},
        {"host:/", ADDRESS_WORD, "no port follows ':'", "HOST/NAME: 'host/'"},
        {"host:80:file", ADDRESS_WORD, "'80:file' is not a port", "HOST/NAME: 'host:80/file'"},
        {"host:0:file", ADDRESS_WORD, NULL, "HOST/NAME: 'host/0:file'"},
        {"host:a:b", ADDRESS_WORD, NULL, "HOST/NAME: 'host/a:b'"},
        {"host:80x", ADDRESS_WORD, "'80x' is not a port", "HOST/NAME: 'host/80x'"},
        {"host:-1", ADDRESS_WORD, "'-1' is not a port", "HOST/NAME: 'host/-1'"},
        {"host:+80", ADDRESS_WORD, NULL, "HOST/NAME: 'host/+80'"},
        {"host:0x50", ADDRESS_WORD, NULL, "HOST/NAME: 'host/0x50'"},
        {"host: 80", ADDRESS_WORD, NULL, "HOST/NAME: 'host/ 80'"},
        {"[::1]:file", ADDRESS_WORD, "'file' is not a port", "HOST/NAME: '[::1]/file'"},
        {"[::1]:", ADDRESS_WORD, "no port follows ':'", "HOST/NAME: '[::1]'"},
        {"http://host/x", ADDRESS_WORD, "'http://' begins a URL", GRAMMAR},

        {"fe80::1", ADDRESS_BARE_IPV6, "'fe80::1' is IPv6 without brackets",
         "put it in brackets: '[fe80::1]'"},
        {"fe80::1%eth0/x", ADDRESS_BARE_IPV6, NULL, "put it in brackets: '[fe80::1%eth0]/x'"},
        {"fe80::1%eth0:80", ADDRESS_BARE_IPV6, NULL, "put it in brackets: '[fe80::1%eth0]:80'"},
        {"::", ADDRESS_BARE_IPV6, NULL, "put it in brackets: '[::]'"},
        {"::1/", ADDRESS_BARE_IPV6, NULL, "put it in brackets: '[::1]/'"},
        {"fe80::1:file", ADDRESS_BARE_IPV6, NULL, "put it in brackets: '[fe80::1]/file'"},
        {"fd00:77::1:7475/x", ADDRESS_BARE_IPV6, "'fd00:77::1:7475' is IPv6 without brackets",
         "put it in brackets, a port behind them: '[fd00:77::1]:7475/x'"},
        {"1:2:3:4:5:6:7:8:7475/x", ADDRESS_BARE_IPV6, "'1:2:3:4:5:6:7:8' is IPv6 without brackets",
         "put it in brackets: '[1:2:3:4:5:6:7:8]:7475/x'"},
        {"1:2:3:4:5:6:7:8:99999/x", ADDRESS_BARE_IPV6, NULL,
         "put it in brackets: '[1:2:3:4:5:6:7:8]/x'"},

        {"[fe80::1", ADDRESS_BRACKETS, "'[fe80::1' has no ']'", "close the brackets: '[fe80::1]'"},
        {"[fe80::1/x", ADDRESS_BRACKETS, "'[fe80::1' has no ']'",
         "close the brackets: '[fe80::1]/x'"},
        {"[", ADDRESS_BRACKETS, "'[' has no ']'", GRAMMAR},
        {"[]", ADDRESS_BRACKETS, "'[]' holds no IPv6 address", GRAMMAR},
        {"[]:80", ADDRESS_BRACKETS, "'[]' holds no IPv6 address", GRAMMAR},
        {"[host]", ADDRESS_BRACKETS, "'[host]' holds no IPv6 address",
         "brackets are for IPv6 alone: 'host'"},
        {"[10.0.0.2]:80/x", ADDRESS_BRACKETS, "'[10.0.0.2]' holds no IPv6 address",
         "brackets are for IPv6 alone: '10.0.0.2:80/x'"},
        {"[10.0.0.2%eth0]", ADDRESS_BRACKETS, NULL, GRAMMAR},
        {"[fe80::1%]", ADDRESS_BRACKETS, "'[fe80::1%]' holds no IPv6 address", GRAMMAR},
        {"[fe80::1%sixteen-letters-]", ADDRESS_BRACKETS, NULL, GRAMMAR},
        {"[fe80::1%a b]", ADDRESS_BRACKETS, NULL, GRAMMAR},
        {"[fe80::1::2]", ADDRESS_BRACKETS, NULL, GRAMMAR},
        {"[1:2:3:4:5:6:7:8:9]", ADDRESS_BRACKETS, NULL, GRAMMAR},
        {"[::1]x", ADDRESS_BRACKETS, "'x' follows ']'", GRAMMAR},
        {"[::1]80", ADDRESS_BRACKETS, "'80' follows ']'", "a port begins with ':': '[::1]:80'"},
        {"[::1]0", ADDRESS_BRACKETS, "'0' follows ']'", GRAMMAR},
        {"[::1]]", ADDRESS_BRACKETS, "']' follows ']'", GRAMMAR},
        {"[[::1]]", ADDRESS_BRACKETS, "'[[::1]' holds no IPv6 address", GRAMMAR},

        {"host:0", ADDRESS_PORT, "'0' is not a port: they are 1 to 65535",
         "for the default port: 'host'"},
        {"host:00000/x", ADDRESS_PORT, NULL, "for the default port: 'host/x'"},
        {"host:65536", ADDRESS_PORT, "'65536' is not a port: they are 1 to 65535",
         "for the default port: 'host'"},
        {"host:4294967297", ADDRESS_PORT, NULL, "for the default port: 'host'"},
        {"host:18446744073709551617", ADDRESS_PORT, NULL, "for the default port: 'host'"},
        {"[::1]:0/x", ADDRESS_PORT, NULL, "for the default port: '[::1]/x'"},

        {"ho st", ADDRESS_HOST, "'ho st' is not a host name", GRAMMAR},
        {"ho st:80", ADDRESS_HOST, "'ho st' is not a host name", GRAMMAR},
        {"h\xc3\xb6st", ADDRESS_HOST, NULL, GRAMMAR},
        {"host%eth0", ADDRESS_HOST, NULL, GRAMMAR},
        {"host]", ADDRESS_HOST, NULL, GRAMMAR},
        {"host\n", ADDRESS_HOST, NULL, GRAMMAR},
        {"*", ADDRESS_HOST, NULL, GRAMMAR},
        {".", ADDRESS_HOST, NULL, GRAMMAR},
        {"../x", ADDRESS_HOST, NULL, GRAMMAR},
        {"-", ADDRESS_HOST, NULL, GRAMMAR},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[256] = "", hint[256] = "";
        struct address got;
        enum address_result result = address_parse(rows[i].text, &got, problem, sizeof(problem),
                                                   hint, sizeof(hint));

        if (result != rows[i].result)
            fail_msg("'%s' gives %d: %s", rows[i].text, (int)result, problem);
        if (rows[i].problem)
            assert_string_equal(problem, rows[i].problem);
        assert_int_not_equal(strlen(problem), 0);
        if (strcmp(hint, rows[i].hint) != 0)
            fail_msg("'%s': %s", rows[i].text, hint);
    }
}

/* What a hint shows between quotes must be accepted. */
static void test_the_right_spelling_is_right(void **state)
{
    static const char *const texts[] = {
        "host:file", "u@h:f", "fe80::1", "fe80::1%eth0:80/x", "[10.0.0.2]:80", "host:0/x", "host:",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        char problem[256], hint[256];
        struct address got;
        char *start, *end;

        assert_int_not_equal(
            address_parse(texts[i], &got, problem, sizeof(problem), hint, sizeof(hint)),
            ADDRESS_OK);
        start = strchr(hint, '\'') + 1;
        end = strrchr(hint, '\'');
        *end = '\0';
        if (parse(start, &got) != ADDRESS_OK)
            fail_msg("'%s'", start);
        address_free(&got);
    }
}

static void test_host_length(void **state)
{
    char text[512];
    struct address got;

    (void)state;
    memset(text, 'a', sizeof(text));
    text[255] = '\0';
    assert_int_equal(parse(text, &got), ADDRESS_OK);
    assert_string_equal(got.host, text);
    address_free(&got);
    text[255] = 'a';
    text[256] = '\0';
    assert_int_equal(parse(text, &got), ADDRESS_HOST);
    text[256] = ':';
    strcpy(text + 257, "80/x");
    assert_int_equal(parse(text, &got), ADDRESS_HOST);
}

static void test_very_long_arguments(void **state)
{
    size_t len = 1000000;
    char *text = malloc(len + 1);
    char problem[8], hint[8];
    struct address got;

    (void)state;
    assert_non_null(text);
    memset(text, 'a', len);
    text[len] = '\0';
    assert_int_equal(address_parse(text, &got, problem, sizeof(problem), hint, sizeof(hint)),
                     ADDRESS_HOST);
    assert_int_equal(strlen(problem), sizeof(problem) - 1);
    text[0] = '[';
    text[len - 1] = ']';
    assert_int_equal(parse(text, &got), ADDRESS_BRACKETS);
    memset(text, ':', len);
    assert_int_not_equal(parse(text, &got), ADDRESS_OK);
    memset(text, '@', len);
    assert_int_equal(parse(text, &got), ADDRESS_USER);
    memset(text, 'a', len);
    text[1] = '/';
    assert_int_equal(parse(text, &got), ADDRESS_OK);
    assert_int_equal(strlen(got.name), len - 2);
    address_free(&got);
    text[1] = ':';
    memset(text + 2, '9', len - 2);
    assert_int_equal(parse(text, &got), ADDRESS_PORT);
    free(text);
}

static void test_numeric_families(void **state)
{
    static const struct {
        const char *text;
        int family;
    } rows[] = {
        {"10.0.0.2", AF_INET},
        {"255.255.255.255", AF_INET},
        {"::", AF_INET6},
        {"fe80::1%eth0", AF_INET6},
        {"::ffff:1.2.3.4", AF_INET6},
        {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", AF_INET6},
        {"", AF_UNSPEC},
        {"%", AF_UNSPEC},
        {"%eth0", AF_UNSPEC},
        {"10.0.0", AF_UNSPEC},
        {"10.0.0.256", AF_UNSPEC},
        {"10.0.0.2 ", AF_UNSPEC},
        {"10.0.0.2%eth0", AF_UNSPEC},
        {"::1%", AF_UNSPEC},
        {"::1%a%b", AF_UNSPEC},
        {"[::1]", AF_UNSPEC},
        {"host", AF_UNSPEC},
        {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555", AF_UNSPEC},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (address_numeric_family(rows[i].text, strlen(rows[i].text)) != rows[i].family)
            fail_msg("'%s'", rows[i].text);
    assert_int_equal(address_numeric_family("10.0.0.25", 8), AF_INET);
    assert_int_equal(address_numeric_family("::1\0", 4), AF_UNSPEC);
}

/* "ADDR" or "ADDR%INTERFACE" as a socket address. */
static const struct sockaddr *sockaddr_of(const char *text, uint16_t port,
                                          struct sockaddr_storage *storage)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
    struct sockaddr_in *in = (struct sockaddr_in *)storage;
    char address[64];
    char *zone;

    memset(storage, 0, sizeof(*storage));
    snprintf(address, sizeof(address), "%s", text);
    zone = strchr(address, '%');
    if (zone)
        *zone++ = '\0';
    if (strchr(address, ':')) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        in6->sin6_scope_id = zone ? if_nametoindex(zone) : 0;
        assert_int_equal(inet_pton(AF_INET6, address, &in6->sin6_addr), 1);
    } else {
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        assert_int_equal(inet_pton(AF_INET, address, &in->sin_addr), 1);
    }
    return (const struct sockaddr *)storage;
}

static void test_socket_addresses(void **state)
{
    static const struct {
        const char *text;
        uint16_t port;
        const char *formatted;
        bool loopback, wildcard;
    } rows[] = {
        {"10.0.0.2", 7475, "10.0.0.2:7475", false, false},
        {"255.255.255.255", 65535, "255.255.255.255:65535", false, false},
        {"127.0.0.1", 1, "127.0.0.1:1", true, false},
        {"127.255.0.3", 0, "127.255.0.3:0", true, false},
        {"126.0.0.1", 1, "126.0.0.1:1", false, false},
        {"0.0.0.0", 1, "0.0.0.0:1", false, true},
        {"0.0.0.1", 1, "0.0.0.1:1", false, false},
        {"::", 80, "[::]:80", false, true},
        {"::1", 80, "[::1]:80", true, false},
        {"::2", 80, "[::2]:80", false, false},
        {"::ffff:127.0.0.1", 80, "[::ffff:127.0.0.1]:80", true, false},
        {"::ffff:0.0.0.0", 80, "[::ffff:0.0.0.0]:80", false, true},
        {"fe80::1%lo", 80, "[fe80::1%lo]:80", false, false},
        {"2001:db8:1111:2222:3333:4444:5555:6666", 65535,
         "[2001:db8:1111:2222:3333:4444:5555:6666]:65535", false, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_storage storage;
        const struct sockaddr *sa = sockaddr_of(rows[i].text, rows[i].port, &storage);
        char buf[ADDRESS_TEXT];

        assert_string_equal(address_format(sa, buf), rows[i].formatted);
        assert_string_equal(address_format_host(sa, buf), rows[i].text);
        assert_int_equal(address_port(sa), rows[i].port);
        assert_int_equal(address_length(sa), sa->sa_family == AF_INET
                                                 ? sizeof(struct sockaddr_in)
                                                 : sizeof(struct sockaddr_in6));
        assert_int_equal(address_is_loopback(sa), rows[i].loopback);
        assert_int_equal(address_is_wildcard(sa), rows[i].wildcard);
        address_set_port((struct sockaddr *)&storage, 258);
        assert_int_equal(address_port(sa), 258);
    }
}

static void test_other_families_are_no_address(void **state)
{
    struct sockaddr other = {.sa_family = AF_UNIX};
    struct network any = {.any = true}, network;
    char buf[ADDRESS_TEXT];

    (void)state;
    assert_string_equal(address_format(&other, buf), "(no address):0");
    assert_string_equal(address_format_host(&other, buf), "(no address)");
    assert_int_equal(address_length(&other), 0);
    assert_int_equal(address_port(&other), 0);
    address_set_port(&other, 80);
    assert_false(address_is_loopback(&other));
    assert_false(address_is_wildcard(&other));
    assert_false(address_same_host(&other, &other));
    assert_false(network_of_interface(&other, &other, &network));
    assert_true(network_contains(&any, &other));
    assert_true(network_parse("0.0.0.0/0", &network));
    assert_false(network_contains(&network, &other));
}

static void test_same_host(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        {"10.0.0.2", "10.0.0.2", true},
        {"10.0.0.2", "10.0.0.3", false},
        {"10.0.0.2", "::ffff:10.0.0.2", true},
        {"::ffff:10.0.0.2", "::ffff:10.0.0.2", true},
        {"::ffff:10.0.0.2", "10.0.0.3", false},
        {"10.0.0.2", "::10.0.0.2", false},
        {"fe80::1", "fe80::1%lo", true},
        {"fe80::1", "fe80::2", false},
        {"::", "0.0.0.0", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_storage a, b;

        if (address_same_host(sockaddr_of(rows[i].a, 1, &a), sockaddr_of(rows[i].b, 2, &b)) !=
                rows[i].same ||
            address_same_host((struct sockaddr *)&b, (struct sockaddr *)&a) != rows[i].same)
            fail_msg("'%s' and '%s'", rows[i].a, rows[i].b);
    }
}

static void test_networks(void **state)
{
    static const struct {
        const char *network, *address;
        bool contains;
    } rows[] = {
        {"any", "10.0.0.2", true},
        {"any", "fe80::1", true},
        {"10.0.0.2", "10.0.0.2", true},
        {"10.0.0.2", "10.0.0.3", false},
        {"10.0.0.2/32", "10.0.0.3", false},
        {"10.0.0.2/31", "10.0.0.3", true},
        {"10.0.0.2/31", "10.0.0.4", false},
        {"10.0.0.0/24", "10.0.0.255", true},
        {"10.0.0.0/24", "10.0.1.0", false},
        {"10.0.0.0/23", "10.0.1.0", true},
        {"10.8.0.0/13", "10.15.255.255", true},
        {"10.8.0.0/13", "10.16.0.0", false},
        {"128.0.0.0/1", "255.0.0.1", true},
        {"128.0.0.0/1", "127.0.0.1", false},
        {"0.0.0.0/0", "255.255.255.255", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "ffff::1", true},
        {"::/0", "10.0.0.2", false},
        {"::1", "::1", true},
        {"::1", "::2", false},
        {"::1/128", "::1", true},
        {"2001:db8::/32", "2001:db8:ffff::1", true},
        {"2001:db8::/32", "2001:db9::1", false},
        {"fe80::/10", "febf::1", true},
        {"fe80::/10", "fec0::1", false},
        {"fe80::/64", "fe80::1%lo", true},
        {"2001:db8::fe/127", "2001:db8::ff", true},
        {"2001:db8::fe/127", "2001:db8::100", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"10.0.0.0/8", "::ffff:11.1.2.3", false},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::ffff:10.0.0.0/104", "::ffff:10.1.2.3", true},
        {"::ffff:10.0.0.0/104", "11.1.2.3", false},
        {"::ffff:10.0.0.2", "10.0.0.2", true},
        {"::ffff:0.0.0.0/96", "10.0.0.2", true},
        {"::ffff:0.0.0.0/96", "::1", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_storage storage;
        struct network network;

        if (!network_parse(rows[i].network, &network))
            fail_msg("'%s'", rows[i].network);
        if (network_contains(&network, sockaddr_of(rows[i].address, 1, &storage)) !=
            rows[i].contains)
            fail_msg("'%s' and '%s'", rows[i].network, rows[i].address);
    }
}

static void test_what_is_no_network(void **state)
{
    static const char *const texts[] = {
        "",
        "/",
        "/8",
        "Any",
        "any/8",
        "host",
        "host/8",
        "10.0.0",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-8",
        "10.0.0.0/+8",
        "10.0.0.0/ 8",
        "10.0.0.0/8 ",
        "10.0.0.0/8/8",
        "10.0.0.0/0x8",
        "10.0.0.0/0008",
        "10.0.0.0/4294967304",
        "10.0.0.0/18446744073709551624",
        "10.0.0.0/255.0.0.0",
        "10.0.0.1/24",
        "10.0.0.1/0",
        "10.0.0.3/31",
        "::1/127",
        "::1/129",
        "fe80::1/64",
        "fe80::%lo/64",
        "::ffff:10.0.0.1/104",
        "::ffff:10.0.0.0/80",
        "[::]/0",
        "10.0.0.0:80",
        "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct network network;

        if (network_parse(texts[i], &network))
            fail_msg("'%s'", texts[i]);
    }
}

static void test_networks_of_interfaces(void **state)
{
    static const struct {
        const char *address, *mask;
        const char *network; /* NULL: none */
        const char *outside;
    } rows[] = {
        {"10.1.2.3", "255.255.255.0", "10.1.2.0/24", "10.1.3.1"},
        {"10.1.2.3", "255.255.254.0", "10.1.2.0/23", "10.1.4.1"},
        {"10.1.2.3", "255.255.255.255", "10.1.2.3", "10.1.2.2"},
        {"10.1.2.3", "128.0.0.0", "0.0.0.0/1", "128.0.0.1"},
        {"fe80::1%lo", "ffff:ffff:ffff:ffff::", "fe80::/64", "fe80:0:0:1::2"},
        {"2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::1", "2001:db8::2"},
        {"10.1.2.3", "0.0.0.0", NULL, NULL},
        {"2001:db8::1", "::", NULL, NULL},
        {"10.1.2.3", "255.0.255.0", NULL, NULL},
        {"10.1.2.3", "0.0.0.255", NULL, NULL},
        {"10.1.2.3", "255.255.255.1", NULL, NULL},
        {"10.1.2.3", "ffff::", NULL, NULL},
        {"fe80::1", "255.0.0.0", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_storage address, mask, peer;
        struct network network, expected;
        bool good = network_of_interface(sockaddr_of(rows[i].address, 0, &address),
                                         sockaddr_of(rows[i].mask, 0, &mask), &network);

        if (good != (rows[i].network != NULL))
            fail_msg("'%s' with '%s'", rows[i].address, rows[i].mask);
        if (!good)
            continue;
        assert_true(network_parse(rows[i].network, &expected));
        assert_int_equal(network.family, expected.family);
        assert_int_equal(network.bits, expected.bits);
        assert_memory_equal(network.bytes, expected.bytes, sizeof(network.bytes));
        assert_true(network_contains(&network, (struct sockaddr *)&address));
        assert_false(network_contains(&network, sockaddr_of(rows[i].outside, 0, &peer)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_destinations),
        cmocka_unit_test(test_refusals_show_the_right_spelling),
        cmocka_unit_test(test_the_right_spelling_is_right),
        cmocka_unit_test(test_host_length),
        cmocka_unit_test(test_very_long_arguments),
        cmocka_unit_test(test_numeric_families),
        cmocka_unit_test(test_socket_addresses),
        cmocka_unit_test(test_other_families_are_no_address),
        cmocka_unit_test(test_same_host),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_what_is_no_network),
        cmocka_unit_test(test_networks_of_interfaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
