/* Exports the tables of a finished job to model/, from its final checkpoint. */
#ifndef GRADWIRE_WORKER_CHIEF_TABLES_END_H
#define GRADWIRE_WORKER_CHIEF_TABLES_END_H

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/parameters/layout.h"
#include "worker/evaluator/best.h"

struct tables_end {
    const struct job *job;
    const struct layout *layout;      /* with rows */
    const char *output, *checkpoints; /* output: DIR; checkpoints: the directory of cuts */
    const char *folder;               /* the subdirectory of DIR: "model", "best" */
    size_t memory_bytes;              /* for sorting; 0: 256 MiB */
};

/* Write FOLDER/tables/NAME.safetensors for each table of this cut, and compute the digest of the model with its
 * tables; the dense part is read from FOLDER/weights.safetensors. Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM, ERR_DISK;
 * ERR_STATE: the checkpoint has other tables. */
enum err tables_end_export(const struct tables_end *t, const struct manifest *cut, char digest[65],
                           struct errmsg *e) MUST_CHECK;

/* The same without the digest: FOLDER/weights.safetensors is not read. */
enum err tables_end_rows(const struct tables_end *t, const struct manifest *cut,
                         struct errmsg *e) MUST_CHECK;

/* At a job's end: best/ gets the tables of the best epoch's cut, if that exists. model/ gets the same tables if the
 * job restores the best weights, otherwise those of the final cut. t->folder is ignored. Errors: as
 * tables_end_export. */
enum err tables_end_export_all(const struct tables_end *t, const struct manifest *final,
                               const struct best *best, char digest[65],
                               struct errmsg *e) MUST_CHECK;

#endif
