/* The rows of one table as model/tables/NAME.safetensors: `keys` (U64, ascending), `rows` (F32, of each key) and
 * `counts` (U32, updates of each). Rows are added in any order. They are sorted in pieces that fit in memory. The
 * pieces are kept in a spill, and merged as the file is written: once for each of the three tensors.
 *
 * Happy path: new -> add, add, ... -> write -> free. Failure modes: no memory, no room in the spill or in model/. */
#pragma once

#include <stdbool.h>

#include "common/checkpoint/checkpoint.h"
#include "common/parameters/layout.h"
#include "common/place/place.h"
#include "common/rows/row_layout.h"
#include "data/spill.h"
#include "job/job.h"

enum { TABLE_EXPORT_NAME_MAX = 3 * ROW_TABLE_NAME_MAX + 64 };
#define TABLE_EXPORT_FILE_BYTES (UINT64_C(4) << 30) /* the most bytes of rows in one file */

struct table_export;

/* For `rows` rows of `dim` floats, in about `memory_bytes` of memory. The spill is the caller's. Errors: ERR_NOMEM. */
enum err table_export_new(struct table_export **x, uint32_t dim, uint64_t rows, size_t memory_bytes,
                          struct spill *spill, struct errmsg *e) MUST_CHECK;
void table_export_free(struct table_export *x); /* NULL: nothing to do */

/* Add a row. w: (dim). No more rows than announced, and each key once. Errors: as spill_write. */
enum err table_export_add(struct table_export *x, uint64_t key, uint32_t count, const float *w,
                          struct errmsg *e) MUST_CHECK;

/* Write tables/NAME.safetensors in the model's place; if it would have more than `file_bytes` of rows, NAME-00001-of-00003.safetensors
 * and so on, in ascending order of the keys. In file names a character of NAME other than a letter, digit, _, - or .
 * becomes %XX. Each file is written atomically, but not all together. Call once. Errors: ERR_IO, ERR_NOMEM,
 * ERR_DISK. */
enum err table_export_write(struct table_export *x, const struct place *model, const char *name,
                            uint64_t file_bytes, struct errmsg *e) MUST_CHECK;
/* After table_export_write: true if `file`, a name in tables/, is one of its files. */
bool table_export_wrote(const struct table_export *x, const char *name, const char *file);

/* The name of file i of `files` of the table NAME. */
void table_export_file(const char *name, uint64_t i, uint64_t files,
                       char out[static TABLE_EXPORT_NAME_MAX]);

/* ---- cut_tables.c: the tables of a checkpoint ---- */

struct cut_tables {
    const struct job *job;
    const struct layout *layout; /* with rows */
    const struct place *checkpoints;
    const struct place *to; /* the model's */
    size_t memory_bytes;    /* for sorting; 0: 256 MiB */
};

/* Write tables/NAME.safetensors for each table of this cut, and compute the digest of the model with its
 * tables; the dense part is read from weights.safetensors there. digest (65): NULL: it is not wanted. Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM, ERR_DISK;
 * ERR_STATE: the checkpoint has other tables. */
enum err cut_tables_export(const struct cut_tables *t, const struct manifest *cut, char *digest,
                           struct errmsg *e) MUST_CHECK;
