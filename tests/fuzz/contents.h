/*
 * contents.h - files, and what objects are made of them, for a client under test.
 */
#ifndef RDMAPUT_TEST_CONTENTS_H
#define RDMAPUT_TEST_CONTENTS_H

#include <stdint.h>

#include "sender.h"
#include "tree.h"

#define CONTENTS 8

/* An object: a file, or pieces of one, CONTENT_PIECE bytes each with as much between them. */
#define CONTENT_PIECE 100
#define CONTENT_MOST_PIECES 20
struct content {
    uint64_t size, hole_at, hole_end;
    unsigned pieces;
    uint8_t *bytes; /* of the object */
    char path[TREE_PATH];
};

extern struct content contents[CONTENTS];

/* Makes the files in the tree. Once in a program. */
void contents_make(void);

/* Plan and source of an object. They are to be freed. */
void content_open(const struct content *content, struct sender_object *object, struct error *err);

#endif
