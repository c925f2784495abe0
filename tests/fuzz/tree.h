/*
 * tree.h - a directory for a fuzz target's files, in a tmpfs where there is one, with a sink that serves
 * it: what clients name must stay in it. It has a symbolic link, "link", that leads out of it, and a
 * directory, "d".
 */
#ifndef RDMAPUT_TEST_TREE_H
#define RDMAPUT_TEST_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "sink.h"

struct tree_file {
    const uint8_t *content;
    size_t size;
};

/* Once in a program; it goes at its end. */
void tree_make(void);

struct sink *tree_sink(void);

/* Makes a file below it of these bytes; those of the hole are left out. Writes its path to at, of
 * TREE_PATH bytes. */
#define TREE_PATH 128
void tree_write(const char *name, const uint8_t *bytes, uint64_t size, uint64_t hole_at,
                uint64_t hole_end, char *at);

/* A file that is there. */
struct tree_file tree_open(const char *name);
void tree_close(struct tree_file *file);

/* Removes what was made in it. What lies outside is still as it was. */
void tree_empty(void);

#endif
