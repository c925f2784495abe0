/*
 * stamp.h - what tells one state of a file from another: device, inode, size and times.
 */
#ifndef RDMAPUT_STAMP_H
#define RDMAPUT_STAMP_H

#include <stdbool.h>
#include <sys/stat.h>

struct stamp {
    struct stat stat;
    bool restless; /* it was being written all the time: no later stamp is the same */
};

/*
 * Takes a file's stamp, of a regular file at a moment when its times lie back, for which it waits
 * some milliseconds where needed. Times advance with the ticks of the kernel's clock: a file that is
 * written twice within one tick has the same times after both, and if it were looked at in between,
 * nothing would ever tell of the second one. 0, or -1 with errno.
 */
int stamp_take(int fd, struct stamp *stamp);

/* Whether the file is what it was. Block devices have no times of their own. */
bool stamp_is(const struct stamp *stamp, const struct stat *now);

#endif
