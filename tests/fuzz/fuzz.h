/*
 * fuzz.h - what fuzz targets share.
 *
 * A target defines LLVMFuzzerTestOneInput, and is linked either with libFuzzer (scripts/fuzz) or with
 * replay.c, which feeds it the files of tests/fuzz/seeds/NAME. An input that shows a fault ends the
 * program with SIGABRT.
 */
#ifndef RDMAPUT_TEST_FUZZ_H
#define RDMAPUT_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds for every input. */
#define FUZZ_ASSERT(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* The input as a string, in memory of exactly its size; it ends at the first NUL. The caller's to
 * free. */
char *fuzz_text(const uint8_t *data, size_t size);

/* The string is short enough for its buffer, and not empty. */
void fuzz_assert_told(const char *text, size_t size);

#endif
