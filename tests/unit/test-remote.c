/*
 * test-remote.c - destinations of `write -e`.
 */
#include "config.h"

#include "remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_place(const char *text, const char *login, const char *host, const char *path,
                         bool directory)
{
    struct remote_place place;
    struct error err = {.class = ERROR_NONE};

    if (remote_parse(text, &place, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(place.login, login);
    assert_string_equal(place.host, host);
    assert_string_equal(place.path, path);
    assert_int_equal(place.directory, directory);
}

static void a_path_is_of_the_login_or_from_the_root(void **state)
{
    (void)state;
    assert_place("node", "node", "node", ".", false);
    assert_place("node/", "node", "node", "./", true);
    assert_place("node/a b/c", "node", "node", "a b/c", false);
    assert_place("node/a/", "node", "node", "a/", true);
    assert_place("node//srv/x", "node", "node", "/srv/x", false);
    assert_place("node//", "node", "node", "/", true);
    assert_place("node/a@b:c", "node", "node", "a@b:c", false);
}

static void a_user_and_an_address_are_as_ssh_takes_them(void **state)
{
    (void)state;
    assert_place("joe@node/x", "joe@node", "node", "x", false);
    assert_place("joe@example.org@node/x", "joe@example.org@node", "node", "x", false);
    assert_place("[fe80::1%eth0]/x", "fe80::1%eth0", "fe80::1%eth0", "x", false);
    assert_place("joe@[fd00::1]//x", "joe@fd00::1", "fd00::1", "/x", false);
    assert_place("joe@10.0.0.1", "joe@10.0.0.1", "10.0.0.1", ".", false);
}

static void assert_refused(const char *text, const char *why)
{
    struct remote_place place;
    struct error err = {.class = ERROR_NONE};

    assert_int_equal(remote_parse(text, &place, &err), -1);
    assert_int_equal(err.class, ERROR_USAGE);
    assert_true(err.hint[0] != '\0');
    if (!strstr(err.text, why))
        fail_msg("%s: '%s' is not in: %s", text, why, err.text);
}

static void what_could_be_an_option_or_is_no_host_is_refused(void **state)
{
    char text[1024] = "";

    (void)state;
    assert_refused("", "no HOST");
    assert_refused("/x", "no HOST");
    assert_refused("-oProxyCommand/x", "begins with '-'");
    assert_refused("-l@node/x", "no user");
    assert_refused("@node/x", "no user");
    assert_refused("a b@node/x", "no user");
    assert_refused("a\nb@node/x", "no user");
    assert_refused("joe@-node/x", "begins with '-'");
    assert_refused("node:22/x", "no port");
    assert_refused("node:/x", "no port");
    assert_refused("node:dir", "is not a port");
    assert_refused("fd00::1/x", "without brackets");
    memset(text, 'a', 600);
    strcat(text, "@node");
    assert_refused(text, "too long");
    memset(text, 'a', 300);
    text[300] = '\0';
    assert_refused(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_of_the_login_or_from_the_root),
        cmocka_unit_test(a_user_and_an_address_are_as_ssh_takes_them),
        cmocka_unit_test(what_could_be_an_option_or_is_no_host_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
