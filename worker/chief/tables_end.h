/* The files that a finished job's tables leave in model/, from its final checkpoint. */
#ifndef GRADWIRE_WORKER_CHIEF_TABLES_END_H
#define GRADWIRE_WORKER_CHIEF_TABLES_END_H

#include "common/checkpoint/checkpoint.h"
#include "common/job/job.h"
#include "common/parameters/layout.h"

struct tables_end {
    const struct job *job;
    const struct layout *layout;      /* with rows */
    const char *output, *checkpoints; /* DIR; where the cuts are */
    size_t memory_bytes;              /* for sorting; 0: 256 MiB */
};

/* Write model/tables/NAME.safetensors of each table, and make the digest of the model with its tables: its dense part is
 * what model/weights.safetensors has.
 * Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM, ERR_DISK; ERR_STATE: the checkpoint has other tables. */
enum err tables_end_export(const struct tables_end *t, const struct manifest *final,
                           char digest[65], struct errmsg *e) MUST_CHECK;

#endif
