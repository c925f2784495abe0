/*
 * sandbox.h - a directory for the files of a unit test, as group fixtures of cmocka. The test runs in
 * it, with umask 022.
 */
#ifndef RDMAPUT_TEST_SANDBOX_H
#define RDMAPUT_TEST_SANDBOX_H

#include <stddef.h>
#include <sys/types.h>

#define SANDBOX_PATH 64

/* An O_PATH descriptor of it, and its path. */
extern int sandbox;
extern char sandbox_path[SANDBOX_PATH];

int sandbox_enter(void **state);

/* Removes it, with all that is in it. */
int sandbox_leave(void **state);

/* Removes all that is in it. */
void sandbox_empty(void);

/* How many entries a directory has; and with those below it. */
int sandbox_count(const char *path);
int sandbox_count_all(const char *path);

/* Makes a new file with that content and mode. */
void sandbox_make(const char *path, const void *content, size_t len, mode_t mode);

/* The file has this content and no other. */
void sandbox_assert_content(const char *path, const void *content, size_t len);

/* The permissions of a file, with set-user-id and the like. */
mode_t sandbox_mode(const char *path);

#endif
