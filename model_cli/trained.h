/* The trained model that a command's first argument names: an output directory, its model/ or best/, or a checkpoint.
 *
 * Happy path: trained_open -> a folder with job, model and weights; rows of tables by trained_rows.
 * Failure modes: the directory has no model yet (the error names what can be used now), a file is missing, damaged, or does
 * not fit the others. */
#ifndef GRADWIRE_MODEL_CLI_TRAINED_H
#define GRADWIRE_MODEL_CLI_TRAINED_H

#include "common/checkpoint/checkpoint.h"
#include "predict/folder.h"

struct trained {
    struct folder folder;
    char path[4096]; /* of the directory that has the weights */
    /* of a checkpoint, or of DIR/best with tables while the job runs: the rows are in this cut, which is held */
    bool has_cut;
    char checkpoints[4096]; /* the directory of cuts */
    struct manifest cut;
    int hold;
    uint64_t step; /* of the weights; UINT64_MAX: not known */
};

/* Open the model at `path`: DIR, DIR/model, DIR/best, DIR/checkpoints (the newest one) or DIR/checkpoints/cut-N. sets:
 * "key=value" for the job's keys about data, NULL at the end. threads: compute threads. Owns: *t is the
 * caller's (trained_close), unchanged on error. Errors: ERR_INPUT, ERR_CORRUPT, ERR_NEWER: the user must name something else;
 * ERR_IO, ERR_NOMEM. */
enum err trained_open(struct trained *t, const char *path, const char *const *sets,
                      uint32_t threads, struct errmsg *e) MUST_CHECK;
/* After trained_open, for scores: open the rows of tables that are in a checkpoint alone, by a copy in the directory of
 * data.spill that no one sees. Errors: ERR_INPUT: the copy has no room; as table_file_open. */
enum err trained_open_tables(struct trained *t, struct errmsg *e) MUST_CHECK;
void trained_close(struct trained *t);

#endif
