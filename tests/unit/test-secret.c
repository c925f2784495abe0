/*
 * test-secret.c - whose file a secret may come from, and the codes that prove it.
 */
#include "config.h"

#include "secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

#define TEXT "a secret of some bytes"

static void assert_loads(const char *path, const void *bytes, size_t len)
{
    struct error err = {.class = ERROR_NONE};
    struct secret secret;

    assert_int_equal(secret_load(&secret, path, &err), 0);
    assert_int_equal(secret.len, len);
    assert_memory_equal(secret.bytes, bytes, len);
    secret_forget(&secret);
    assert_int_equal(secret.len, 0);
    assert_int_equal(secret.bytes[0], 0);
}

static void assert_refused(const char *path, const char *why)
{
    struct error err = {.class = ERROR_NONE};
    struct secret secret;

    assert_int_equal(secret_load(&secret, path, &err), -1);
    assert_int_equal(err.class, ERROR_SOURCE);
    assert_string_equal(err.subject, path);
    if (!strstr(err.text, why))
        fail_msg("'%s' is not in: %s", why, err.text);
}

static void a_line_end_at_the_end_is_no_part_of_it(void **state)
{
    (void)state;
    sandbox_make("bare", TEXT, strlen(TEXT), 0600);
    assert_loads("bare", TEXT, strlen(TEXT));
    sandbox_make("line", TEXT "\n", strlen(TEXT) + 1, 0400);
    assert_loads("line", TEXT, strlen(TEXT));
    sandbox_make("lines", TEXT "\n\n", strlen(TEXT) + 2, 0600);
    assert_loads("lines", TEXT "\n", strlen(TEXT) + 1);
    sandbox_make("binary", "\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7", 16, 0600);
    assert_loads("binary", "\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7", 16);
}

static void it_has_neither_too_few_bytes_nor_too_many(void **state)
{
    static char large[SECRET_MAX_BYTES + 2];

    (void)state;
    memset(large, 'x', sizeof large);
    sandbox_make("empty", "", 0, 0600);
    assert_refused("empty", "16 to 4096 bytes");
    sandbox_make("short", "fifteen bytes!!\n", 16, 0600);
    assert_refused("short", "16 to 4096 bytes");
    sandbox_make("largest", large, SECRET_MAX_BYTES, 0600);
    assert_loads("largest", large, SECRET_MAX_BYTES);
    sandbox_make("larger", large, SECRET_MAX_BYTES + 1, 0600);
    assert_refused("larger", "16 to 4096 bytes");
    sandbox_make("much-larger", large, SECRET_MAX_BYTES + 2, 0600);
    assert_refused("much-larger", "16 to 4096 bytes");
}

static void others_may_not_touch_its_file(void **state)
{
    (void)state;
    sandbox_make("file", TEXT, strlen(TEXT), 0600);
    for (mode_t bit = 1; bit <= 040; bit <<= 1) {
        assert_int_equal(chmod("file", 0600 | bit), 0);
        assert_refused("file", "others may read or write");
    }
    assert_int_equal(chmod("file", 0700), 0);
    assert_loads("file", TEXT, strlen(TEXT));
}

static void its_file_is_ones_own_or_roots(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can give a file away\n");
        skip();
    }
    sandbox_make("foreign", TEXT, strlen(TEXT), 0600);
    assert_int_equal(chown("foreign", 12345, 0), 0);
    assert_refused("foreign", "belongs to somebody else");
}

static void what_cannot_be_read_is_told(void **state)
{
    (void)state;
    assert_refused("missing", "No such file or directory");
    assert_int_equal(mkdir("directory", 0700), 0);
    assert_refused("directory", "Is a directory");
}

/* What another implementation of HMAC-SHA-256 makes of these. */
static void codes_are_as_specified(void **state)
{
    static const struct {
        enum wire_role side;
        const char *hex;
    } codes[] = {
        {WIRE_ROLE_WRITE, "c0c6c9057f44150fb4adae8560d62cca1e4a30829fadf616dc56727aee23531b"},
        {WIRE_ROLE_SERVER, "1ac8caefe4277ef9515cb05eb09513f55cd598de1dc6f57fe9e5bb8318a9d25e"}};
    struct secret secret = {.bytes = TEXT, .len = strlen(TEXT)};
    struct wire_hello hello = {.version = WIRE_VERSION,
                               .role = WIRE_ROLE_WRITE,
                               .flags = WIRE_HELLO_MANY | WIRE_HELLO_SECRET};
    struct wire_welcome welcome = {.version = WIRE_VERSION, .flags = WIRE_WELCOME_SECRET};
    uint8_t nonce[WIRE_NONCE_BYTES];

    (void)state;
    for (unsigned i = 0; i < WIRE_TOKEN_BYTES; i++)
        hello.token[i] = (uint8_t)i;
    for (unsigned i = 0; i < WIRE_NONCE_BYTES; i++) {
        welcome.nonce[i] = (uint8_t)(0x40 + i);
        nonce[i] = (uint8_t)(0x80 + i);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct error err = {.class = ERROR_NONE};
        uint8_t code[WIRE_CODE_BYTES];
        char hex[2 * WIRE_CODE_BYTES + 1];

        assert_int_equal(secret_prove(&secret, codes[i].side, &hello, &welcome, nonce, code, &err),
                         0);
        for (unsigned j = 0; j < WIRE_CODE_BYTES; j++)
            sprintf(hex + 2 * j, "%02x", code[j]);
        assert_string_equal(hex, codes[i].hex);
    }
}

static void bytes_are_equal_when_all_of_them_are(void **state)
{
    uint8_t a[16] = {0}, b[16] = {0};

    (void)state;
    assert_true(secret_equal(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] = 0x80;
        assert_false(secret_equal(a, b, sizeof a));
        b[i] = 0;
    }
}

static void random_bytes_are_never_the_same(void **state)
{
    uint8_t a[WIRE_NONCE_BYTES], b[WIRE_NONCE_BYTES];
    struct error err = {.class = ERROR_NONE};

    (void)state;
    assert_int_equal(secret_random(a, sizeof a, &err), 0);
    assert_int_equal(secret_random(b, sizeof b, &err), 0);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_end_at_the_end_is_no_part_of_it),
        cmocka_unit_test(it_has_neither_too_few_bytes_nor_too_many),
        cmocka_unit_test(others_may_not_touch_its_file),
        cmocka_unit_test(its_file_is_ones_own_or_roots),
        cmocka_unit_test(what_cannot_be_read_is_told),
        cmocka_unit_test(codes_are_as_specified),
        cmocka_unit_test(bytes_are_equal_when_all_of_them_are),
        cmocka_unit_test(random_bytes_are_never_the_same),
    };
    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}
