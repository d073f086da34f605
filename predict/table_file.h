/* The rows of one table of a trained model: tables/NAME.safetensors, or the files NAME-00001-of-00003.safetensors and so on,
 * mapped into memory and shared by all processes that read them. An index finds the row of a key.
 *
 * Happy path: table_file_open -> table_file_read, from any number of threads -> table_file_close.
 * Failure modes: a file is missing, or its header, its keys or the order of its keys is wrong: an error that names it. If
 * another process shortens an open file in place, a read ends this process by SIGBUS; gradwire replaces files by renaming. */
#pragma once

#include "common/base/err.h"
#include "common/rows/row_layout.h"

struct table_file;

/* Open the files of the table `of` in the directory `folder`. It reads all keys once, to check their order and to make the
 * index, which takes 4 to 8 bytes a row. of: borrowed; seed: of the job. Errors: ERR_NOTFOUND, ERR_IO, ERR_NOMEM; ERR_CORRUPT:
 * keys that do not ascend, another length of rows, a file of the table that is missing. */
enum err table_file_open(struct table_file **t, const char *folder, const struct row_table_spec *of,
                         uint64_t seed, struct errmsg *e) MUST_CHECK;
void table_file_close(struct table_file *t); /* NULL: nothing to do */

/* Write the rows of n mixed keys, in any order: w (n, dim). A key without a row has row_absent_value, as in an evaluation.
 * absent: (n) becomes 0 for a key with a row, and is otherwise unchanged; NULL: not wanted. Allocates nothing, and takes no
 * lock. Thread: any. */
void table_file_read(const struct table_file *t, const uint64_t *mixed, uint32_t n, float *w,
                     uint8_t *absent);

/* The same from `tables` tables that have the same keys (table_file_is_like): w[i] (n, dim) is for t[i]. Each key is found
 * once. */
void table_file_read_like(const struct table_file *const *t, uint32_t tables, const uint64_t *mixed,
                          uint32_t n, float *const *w, uint8_t *absent);
/* True if they have the same keys in the same files. Reads all keys. */
bool table_file_is_like(const struct table_file *a, const struct table_file *b);

uint64_t table_file_rows(const struct table_file *t);
/* Row i, in the order of the keys. key: as in the data, not mixed; w: (dim). Thread: any. */
void table_file_row(const struct table_file *t, uint64_t i, uint64_t *key, float *w);
