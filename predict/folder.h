/* A trained model as files: DIR/model, DIR/best, or another directory with the same files (docs/reference/files.md).
 * Nothing in the files is trusted.
 *
 * Happy path: folder_open -> the job, its model, the weights and the encoding of csv rows are in memory. The rows of tables
 * stay in their files (table_file.h).
 * Failure modes: a file is missing, damaged, or does not fit the others: ERR_INPUT or ERR_CORRUPT, naming the file. */
#pragma once

#include "common/base/err.h"
#include "common/rows/row_values.h"
#include "data/leaf_buffer.h"
#include "job/job.h"
#include "model/model.h"
#include "predict/table_file.h"

struct folder {
    char path[4096];             /* the directory with weights.safetensors */
    struct job job;              /* job.yaml; the input shape and the columns' features are known */
    char *encoding;              /* text of encoding.json; NULL: the rows have no columns */
    struct table_schema *schema; /* made from it; NULL: the same */
    struct model *model;         /* of the job */
    float *w;                    /* (elems of the model's layout) */
    struct packed *packed; /* made from w; NULL: folder_options.job_alone, and no folder_pack */
    /* in the order of the model's row layout; NULL: the model has none, or folder_options.job_alone */
    struct table_file *table[ROW_TABLES_MAX];
    /* 1 + the index of an earlier table of the same list that has the same keys; 0: none is known */
    uint32_t like[ROW_TABLES_MAX];
};

/* Open `path`, or path/model if that has the weights. job.yaml and encoding.json can also be in the directory above, or
 * in its directory checkpoints/ or model/ (as for DIR/best). Owns: *f is the caller's (folder_close), unchanged on error.
 * Errors: as above; ERR_IO, ERR_NOMEM. */
enum err folder_open(struct folder *f, const char *path, struct errmsg *e) MUST_CHECK;

/* How a folder is opened; all zeros: as by folder_open. */
struct folder_options {
    const char *const *sets; /* (n_sets) "key=value": change keys of job.yaml */
    size_t n_sets;
    /* The weights and the encoding are elsewhere, such as in a checkpoint. f->w is all zeros, no table is opened, and
     * `encoding` (NULL: the rows have no columns) replaces encoding.json. encoding_from names it in messages. */
    bool job_alone;
    const char *encoding, *encoding_from;
};
enum err folder_open_as(struct folder *f, const char *path, const struct folder_options *o,
                        struct errmsg *e) MUST_CHECK;
void folder_close(struct folder *f);

/* After folder_options.job_alone, when f->w has the weights: make f->packed. Errors: ERR_NOMEM. */
enum err folder_pack(struct folder *f, struct errmsg *e) MUST_CHECK;

/* The rows of the folder's tables, for an evaluation (worker/evaluator). The folder is borrowed. */
struct row_reader folder_rows(const struct folder *f);

/* Scores of rows: one thread's memory for passes over a trained model, which any number of scorers share.
 *
 * Happy path: scorer_new -> scorer_run, scorer_run, ... -> scorer_free.
 * Failure modes: a row has an invalid value (the number of a row that an embedding does not have): ERR_INPUT. Other calls
 * are not affected. */
/* The form of rows, encoded and scaled. */
struct leaf_form folder_form(const struct folder *f);

struct scorer;

/* For up to rows_max rows at a time. The folder is borrowed, and has its packed weights (folder_pack). Errors: ERR_INPUT:
 * too many rows for the model; ERR_NOMEM. Thread: any; not while another thread opens or closes the folder. */
enum err scorer_new(struct scorer **s, const struct folder *f, uint32_t rows_max,
                    struct errmsg *e) MUST_CHECK;
void scorer_free(struct scorer *s);

/* Score n rows. x: (n, model_features), encoded and scaled; NULL: the model has no features. keys: the keys that the rows
 * look up, of their leaf; NULL: the model has no tables. They are at most as many as rows_max rows can
 * have. out: (n, model_outputs), as by model_predict. Allocates nothing, and takes no lock. Errors: ERR_INPUT as above; `out`
 * is then meaningless. Thread: one at a time. */
enum err scorer_run(struct scorer *s, uint32_t n, const float *x, const struct leaf_keys *keys,
                    float *out, struct errmsg *e) MUST_CHECK;

/* From now on count what the lookups of scorer_run, and of lookup layer 0, find. misses: (lookups of the schema); they must
 * outlive the scorer. Errors: ERR_NOMEM. */
enum err scorer_watch(struct scorer *s, struct row_misses *misses, struct errmsg *e) MUST_CHECK;

/* The output of lookup layer i (model_lookup) for n rows. out: (n, width). */
void scorer_lookup(struct scorer *s, uint32_t n, const struct leaf_keys *keys, uint32_t i,
                   float *out);
