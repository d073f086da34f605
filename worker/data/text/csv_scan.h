/* Finds the ends of the fields and rows of csv text, 64 bytes at a time, with the same result at every SIMD level
 * (common/math/kernels.h chooses the level). */
#ifndef GRADWIRE_WORKER_DATA_TEXT_CSV_SCAN_H
#define GRADWIRE_WORKER_DATA_TEXT_CSV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* bytes after the text that may be read; entries after the results in `at` that may be written */
    CSV_SCAN_PAD = 64
};

/* Write the position of each delimiter and each '\n' outside of double quotes, in order, and return how many there
 * are. `at` has room for `bytes` + CSV_SCAN_PAD entries. Without `quotes` a '"' is a byte like any other. bytes <
 * 2^32. Thread: any. */
size_t csv_scan(uint32_t *at, const char *text, size_t bytes, char delimiter, bool quotes);

/* The number of times that `byte` occurs in the text. */
size_t csv_count(const char *text, size_t bytes, char byte);

#endif
