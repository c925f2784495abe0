/*
 * test-words.c - commands split as rsync's -e, and words that a shell gives back.
 */
#include "config.h"

#include "words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_split(const char *text, const char *const *expected)
{
    char **words = NULL;
    size_t i;

    assert_int_equal(words_split(text, &words), WORDS_OK);
    for (i = 0; expected[i]; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], expected[i]);
    }
    assert_null(words[i]);
    free(words);
}

#define SPLITS(text, ...) assert_split(text, (const char *const[]){__VA_ARGS__, NULL})

static void spaces_part_words(void **state)
{
    (void)state;
    SPLITS("ssh", "ssh");
    SPLITS("  ssh  -p 22 ", "ssh", "-p", "22");
    SPLITS("a\tb\\ c", "a\tb\\", "c");
    SPLITS("a b c d e f g", "a", "b", "c", "d", "e", "f", "g");
}

static void quotes_hold_spaces(void **state)
{
    (void)state;
    SPLITS("ssh -o 'ProxyCommand nc %h %p'", "ssh", "-o", "ProxyCommand nc %h %p");
    SPLITS("a\"b c\"d e", "ab cd", "e");
    SPLITS("'a \"b' \"c 'd\"", "a \"b", "c 'd");
    SPLITS("\\'a b'", "\\a b");
}

static void a_doubled_quote_is_the_quote_itself(void **state)
{
    (void)state;
    SPLITS("'it''s' \"\"\"x\"\"\"", "it's", "\"x\"");
}

static void an_empty_word_is_quoted(void **state)
{
    (void)state;
    SPLITS("a '' b", "a", "", "b");
    SPLITS("\"\"", "");
}

static void what_is_no_command_is_refused(void **state)
{
    char **words = NULL;

    (void)state;
    assert_int_equal(words_split("", &words), WORDS_NONE);
    assert_int_equal(words_split("   ", &words), WORDS_NONE);
    assert_int_equal(words_split("ssh 'a", &words), WORDS_QUOTE);
    assert_int_equal(words_split("ssh \"a''", &words), WORDS_QUOTE);
    assert_int_equal(words_split("'''", &words), WORDS_QUOTE);
    assert_null(words);
}

static void assert_quoted(const char *word, const char *expected)
{
    char *quoted = words_quote(word);

    assert_non_null(quoted);
    assert_string_equal(quoted, expected);
    free(quoted);
}

static void only_what_needs_it_is_quoted(void **state)
{
    (void)state;
    assert_quoted("/srv/a-b_c.img", "/srv/a-b_c.img");
    assert_quoted("", "''");
    assert_quoted("a b", "'a b'");
    assert_quoted("~", "'~'");
    assert_quoted("it's", "'it'\\''s'");
    assert_quoted("a!", "'a'\\!''");
    assert_quoted("\\\\", "''\\\\''\\\\''"); /* of the two, fish would make one */
}

/* What a shell makes of the word is the word. */
static void a_shell_gives_back(const char *word)
{
    char command[512], back[512];
    char *quoted = words_quote(word);
    FILE *shell;
    size_t len;

    assert_non_null(quoted);
    snprintf(command, sizeof command, "printf '%%s|' %s", quoted);
    free(quoted);
    shell = popen(command, "r");
    assert_non_null(shell);
    len = fread(back, 1, sizeof back - 1, shell);
    assert_int_equal(pclose(shell), 0);
    assert_int_equal(len, strlen(word) + 1);
    assert_memory_equal(back, word, len - 1);
}

static void a_shell_gives_each_word_back(void **state)
{
    char every[256];

    (void)state;
    for (int c = 1; c < 256; c++)
        every[c - 1] = (char)c;
    every[255] = '\0';
    a_shell_gives_back(every);
    a_shell_gives_back("");
    a_shell_gives_back("'");
    a_shell_gives_back("''$(exit 1)`exit 1`\"");
    a_shell_gives_back("-n");
    a_shell_gives_back("a\nb\n");
    a_shell_gives_back("a\\");
    a_shell_gives_back("# * ? [a-z] {a,b} ~root !! ; & | < > ( )");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_part_words),
        cmocka_unit_test(quotes_hold_spaces),
        cmocka_unit_test(a_doubled_quote_is_the_quote_itself),
        cmocka_unit_test(an_empty_word_is_quoted),
        cmocka_unit_test(what_is_no_command_is_refused),
        cmocka_unit_test(only_what_needs_it_is_quoted),
        cmocka_unit_test(a_shell_gives_each_word_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
