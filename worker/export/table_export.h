/* The rows of one table as model/tables/NAME.safetensors: `keys` (U64, ascending), `rows` (F32, of each key) and `counts`
 * (U32, updates of each). Rows come in any order. They are sorted in pieces that fit the memory, and the pieces, which are
 * in a spill, are merged as the file is written: once for each of the three tensors.
 *
 * Happy path: new -> add, add, ... -> write -> free. Failure modes: no memory, no room in the spill or in model/. */
#ifndef GRADWIRE_WORKER_EXPORT_TABLE_EXPORT_H
#define GRADWIRE_WORKER_EXPORT_TABLE_EXPORT_H

#include <stdbool.h>

#include "common/rows/row_layout.h"
#include "worker/data/spill.h"

#define TABLE_EXPORT_FILE_BYTES (UINT64_C(4) << 30) /* a file has at most so many bytes of rows */

struct table_export;

/* For `rows` rows of `dim` floats, in about `memory_bytes` of memory. The spill is the caller's. Errors: ERR_NOMEM. */
enum err table_export_new(struct table_export **x, uint32_t dim, uint64_t rows, size_t memory_bytes,
                          struct spill *spill, struct errmsg *e) MUST_CHECK;
void table_export_free(struct table_export *x); /* NULL: nothing */

/* w: (dim). Not more rows than were announced, and each key once. Errors: as spill_write. */
enum err table_export_add(struct table_export *x, uint64_t key, uint32_t count, const float *w,
                          struct errmsg *e) MUST_CHECK;

/* FOLDER/NAME.safetensors; if it would have more than `file_bytes` of rows, NAME-00001-of-00003.safetensors and so on,
 * in ascending order of the keys. In the files' names a character of NAME that is no letter, digit, _, - or . is %XX.
 * Atomic, each file for itself. Once only. Errors: ERR_IO, ERR_NOMEM, ERR_DISK. */
enum err table_export_write(struct table_export *x, const char *folder, const char *name,
                            uint64_t file_bytes, struct errmsg *e) MUST_CHECK;
/* Once it is written: is `file`, a name in FOLDER, one of its files? */
bool table_export_wrote(const struct table_export *x, const char *name, const char *file);

#endif
