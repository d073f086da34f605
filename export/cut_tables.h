/* Exports the tables of a checkpoint as files of safetensors. */
#ifndef GRADWIRE_EXPORT_CUT_TABLES_H
#define GRADWIRE_EXPORT_CUT_TABLES_H

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/parameters/layout.h"

struct cut_tables {
    const struct job *job;
    const struct layout *layout;      /* with rows */
    const char *output, *checkpoints; /* output: DIR; checkpoints: the directory of cuts */
    const char *folder;               /* the subdirectory of DIR: "model", "best" */
    size_t memory_bytes;              /* for sorting; 0: 256 MiB */
};

/* Write FOLDER/tables/NAME.safetensors for each table of this cut, and compute the digest of the model with its
 * tables; the dense part is read from FOLDER/weights.safetensors. Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM, ERR_DISK;
 * ERR_STATE: the checkpoint has other tables. */
enum err cut_tables_export(const struct cut_tables *t, const struct manifest *cut, char digest[65],
                           struct errmsg *e) MUST_CHECK;

/* The same without the digest: FOLDER/weights.safetensors is not read. */
enum err cut_tables_rows(const struct cut_tables *t, const struct manifest *cut,
                         struct errmsg *e) MUST_CHECK;

#endif
