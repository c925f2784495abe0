/* test-guard.c - a mapped file that becomes shorter. */
#include "config.h"

#include "guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 8192

struct reading {
    const volatile uint8_t *from;
    unsigned sum;
};

static int fd;
static uint8_t *mapped;

static int map_file(void **state)
{
    char name[] = "/tmp/test-guard.XXXXXX";
    (void)state;
    fd = mkstemp(name);
    unlink(name);
    if (fd < 0 || ftruncate(fd, BYTES) < 0)
        return -1;
    mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    mapped[0] = 3, mapped[BYTES - 1] = 4;
    return 0;
}

static int unmap_file(void **state)
{
    (void)state;
    munmap(mapped, BYTES);
    return close(fd);
}

static void read_all(void *argument)
{
    struct reading *reading = argument;
    reading->sum = 0;
    for (size_t i = 0; i < BYTES; i++)
        reading->sum += reading->from[i];
}

static void what_is_there_is_read(void **state)
{
    struct reading reading = {.from = mapped};
    (void)state;
    assert_int_equal(guard_init(), 0); /* cmocka has put its own */
    assert_int_equal(guard_run(read_all, &reading), 0);
    assert_int_equal(reading.sum, 7);
}

/* As threads of sessions are: with all signals blocked. */
static void *read_in_thread(void *argument)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return (void *)(intptr_t)guard_run(read_all, argument);
}

static void what_is_cut_off_is_told_again_and_again(void **state)
{
    struct reading reading = {.from = mapped};
    (void)state;
    assert_int_equal(guard_init(), 0); /* cmocka has put its own */
    assert_int_equal(ftruncate(fd, 4096), 0);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(guard_run(read_all, &reading), -1);
        assert_int_equal(pthread_create(&thread, NULL, read_in_thread, &reading), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal((intptr_t)result, -1);
    }
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(guard_run(read_all, &reading), 0);
    assert_int_equal(reading.sum, 3);
}

static void elsewhere_the_signal_kills(void **state)
{
    int status;
    (void)state;
    assert_int_equal(guard_init(), 0); /* cmocka has put its own */
    assert_int_equal(ftruncate(fd, 4096), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct reading reading = {.from = mapped};
        read_all(&reading);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_there_is_read, map_file, unmap_file),
        cmocka_unit_test_setup_teardown(what_is_cut_off_is_told_again_and_again, map_file,
                                        unmap_file),
        cmocka_unit_test_setup_teardown(elsewhere_the_signal_kills, map_file, unmap_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
