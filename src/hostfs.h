/*
 * hostfs.h - what the kernel tells in small files and in the names of others, below a root.
 *
 * A path is given as printf(3) does, and begins with a slash.
 */
#ifndef RDMAPUT_HOSTFS_H
#define RDMAPUT_HOSTFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define HOSTFS_NAME 64

/* Names in a directory, in the order of the alphabet and its numbers; "." and the like left out. */
struct hostfs_names {
    char (*items)[HOSTFS_NAME];
    size_t count;
};

/* The first line of a file, without what white space is at its end, cut to size. Whether it could be
 * read; if not, buf is empty. */
bool hostfs_line(const char *root, char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* As hostfs_line, of a number: -1 where there is none. */
long hostfs_number(const char *root, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool hostfs_exists(const char *root, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The last part of what a symbolic link points to; empty where there is none. */
void hostfs_link(const char *root, char name[HOSTFS_NAME], const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens the file for reading and writing, and closes it again: 0, or the errno. */
int hostfs_try(const char *root, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A file, line by line; none where it cannot be read. hostfs_close. */
struct hostfs_lines {
    FILE *file;
};
struct hostfs_lines hostfs_open(const char *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The next line, as hostfs_line; false at the end. */
bool hostfs_next(struct hostfs_lines *lines, char *buf, size_t size);
void hostfs_close(struct hostfs_lines *lines);

/* Whether a line of the file holds the text. */
bool hostfs_mentions(const char *root, const char *text, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* None where there is no such directory. hostfs_free. */
struct hostfs_names hostfs_names(const char *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void hostfs_free(struct hostfs_names *names);

#endif
