/* Where the fields and rows of csv text end: found 64 bytes at a time, with the same result at every
 * SIMD level (the one that common/math/kernels.h has in use). */
#ifndef GRADWIRE_WORKER_DATA_TEXT_CSV_SCAN_H
#define GRADWIRE_WORKER_DATA_TEXT_CSV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CSV_SCAN_PAD = 64
}; /* bytes behind the text that may be read; places behind `at` that may be
                               written */

/* Write the position of each delimiter and each '\n' that is outside of double quotes, in order, and
 * return how many there are. `at` has room for `bytes` + CSV_SCAN_PAD of them. Without `quotes`
 * a '"' is a byte like any other. bytes < 2^32. Thread: any. */
size_t csv_scan(uint32_t *at, const char *text, size_t bytes, char delimiter, bool quotes);

/* How often `byte` stands in the text. */
size_t csv_count(const char *text, size_t bytes, char byte);

#endif
