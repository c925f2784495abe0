/*
 * guard.h - reading memory that may vanish: a mapped file that somebody else makes shorter.
 */
#ifndef RDMAPUT_GUARD_H
#define RDMAPUT_GUARD_H

/* Installs the handler of SIGBUS, which outside of guard_run does what the signal does by default.
 * To be called once. 0, or -1 with errno. */
int guard_init(void);

/*
 * Calls function(argument). 0, or -1 when it touched mapped memory behind the end of its file: it
 * was left at that instruction, so it must neither hold a lock nor own anything. Any thread may call
 * it, but not within itself; SIGBUS is not blocked in it any more.
 */
int guard_run(void (*function)(void *argument), void *argument);

#endif
