/*
 * beneath.h - directories below a root, by relative paths that lead nowhere else: through no
 * symbolic link, also when directories are swapped meanwhile.
 */
#ifndef RDMAPUT_BENEATH_H
#define RDMAPUT_BENEATH_H

#include <stddef.h>

/*
 * Opens (O_PATH) the directory that the first len bytes of a path name; 0: the root itself. The
 * path has no empty component. -1 with errno: ENOENT, or ENOTDIR or ELOOP for a component that is
 * no directory, EXDEV for "..".
 */
int beneath_open(int root, const char *path, size_t len);

/* Opens the deepest directory there is of those that lead to the last component of name. *rest is
 * what is left of name: directories that are missing, and the last component. -1 with errno. */
int beneath_open_deepest(int root, const char *name, const char **rest);

#endif
