/* The files that a finished job's tables leave in model/, from its final checkpoint. */
#ifndef GRADWIRE_WORKER_CHIEF_TABLES_END_H
#define GRADWIRE_WORKER_CHIEF_TABLES_END_H

#include "common/checkpoint/checkpoint.h"
#include "common/job/job.h"
#include "common/parameters/layout.h"
#include "worker/evaluate/best.h"

struct tables_end {
    const struct job *job;
    const struct layout *layout;      /* with rows */
    const char *output, *checkpoints; /* DIR; where the cuts are */
    const char *folder;               /* of DIR: "model", "best" */
    size_t memory_bytes;              /* for sorting; 0: 256 MiB */
};

/* Write FOLDER/tables/NAME.safetensors of each table of this cut, and make the digest of the model with its tables: its
 * dense part is what FOLDER/weights.safetensors has.
 * Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM, ERR_DISK; ERR_STATE: the checkpoint has other tables. */
enum err tables_end_export(const struct tables_end *t, const struct manifest *cut, char digest[65],
                           struct errmsg *e) MUST_CHECK;

/* At a job's end: best/ gets the tables of the best epoch's cut, if there is one, and model/ the same if the job restores
 * the best weights; otherwise those of the final cut. t->folder is not looked at. Errors: as tables_end_export. */
enum err tables_end_export_all(const struct tables_end *t, const struct manifest *final,
                               const struct best *best, char digest[65],
                               struct errmsg *e) MUST_CHECK;

#endif
