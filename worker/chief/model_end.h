/* The chief's last work on a finished job's model: the tables and the manifest of model/, and those of best/. */
#pragma once

#include "export/table_export.h"
#include "worker/chief/epoch_end.h"
#include "worker/evaluator/eval_log.h"
#include "job/job.h"

/* At a job's end: best/ gets the tables of the best epoch's cut, if that exists. model/ gets the same tables if the
 * job restores the best weights, otherwise those of the final cut. t->to: model/. Errors: as
 * cut_tables_export. */
enum err model_end_tables(const struct cut_tables *t, const struct manifest *final,
                          const struct best *best, char digest[65], struct errmsg *e) MUST_CHECK;

struct model_end {
    const struct epoch_end_config *config;
    const struct epoch_end_result *learned;
    const struct eval_log *evaluator; /* the evaluator's results; NULL: the chief evaluates */
    const struct manifest *final;     /* the final cut; unused without `evaluator` */
};

/* Write manifest.json, when all other files of model/ and best/ are complete. Errors: as model_manifest_write;
 * ERR_CORRUPT: weights.safetensors was changed. */
enum err model_end_write(const struct model_end *end, struct errmsg *e) MUST_CHECK;

/* The exports of a finished job: `gradwire-model export` writes the model in each format of the job's key `export`. */

struct exports_end {
    uint32_t n;       /* formats that were tried; 0: the job asks for none, or has not ended */
    bool interrupted; /* a signal came before all were there: the next run exports again */
    struct {
        enum export_format format;
        char error[512]; /* ""; or why the file is not there */
    } of[EXPORT_FORMATS];
};

/* Check what a job with `export` needs before it trains: the program is installed. Errors: ERR_INPUT, with the key. */
enum err exports_end_check(const struct job *job, struct errmsg *e) MUST_CHECK;

/* Write DIR/export, when model/ is complete; earlier exports of the same formats are replaced. A failure is logged, and told
 * to people at `progress_fd`; the job is done all the same. A signal (signals_held) ends it, and is noted in *out. Waits for the
 * programs. */
void exports_end_run(const struct job *job, const char *output, int progress_fd,
                     struct exports_end *out);
