/* `gradwire evaluate DIR [DATA]...`: loss and metrics of a trained model, as training's own evaluation computes them. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/digits.h"
#include "common/base/json.h"
#include "common/base/printable.h"
#include "common/flags/flags.h"
#include "common/math/pool.h"
#include "model_cli/command.h"
#include "model_cli/trained.h"
#include "data/dataset.h"
#include "evaluate/evaluate.h"
#include "export/export.h"
#include "model/blas.h"
#include "model/evaluation.h"

struct evaluate {
    struct trained model;
    struct dataset train, data; /* train: has the rows that are held out of a stream */
    struct dataset_source source;
    struct sums result;
    double seconds; /* of the evaluation, without reading the data */
};

/* ---- the data ---- */

/* The fingerprint of the data that the model was trained on, as hex; "": not known, as for DIR/best before the job has ended. */
static enum err trained_on(const struct trained *t, char hex[static CONTENTS_HEX_BYTES],
                           struct errmsg *e)
{
    struct place model;
    struct contents of_cut = {.files = 0};
    place_folder(&model, NULL, t->path);
    if (!t->has_cut)
        return model_manifest_data(&model, hex, e);
    memcpy(of_cut.fingerprint, t->cut.data_fingerprint, sizeof of_cut.fingerprint);
    contents_hex(&of_cut, hex);
    return ERR_OK;
}

/* Rows of data.train are chosen by their numbers, or by texts: of other files they can be rows that the model has learned. */
static enum err check_held(struct evaluate *v, struct errmsg *e)
{
    const struct job *job = &v->model.folder.job;
    char is[CONTENTS_HEX_BYTES], was[CONTENTS_HEX_BYTES];
    if (job->data.eval || !job_holds_rows_out(job))
        return ERR_OK;
    struct dataset *whole = v->train.stream ? &v->train : &v->data;
    contents_hex(&whole->contents, is);
    enum err err = trained_on(&v->model, was, e);
    if (!err && *was && strcmp(is, was) != 0 && contents_same_hex(&whole->contents, was))
        err = dataset_know_before(whole, job, 0, e); /* it is an earlier release's */
    if (err || !*was || contents_same_hex(&whole->contents, was))
        return err;
    return err_set(
        e, ERR_INPUT,
        "data.train: its rows are others than those that the model was trained on (their "
        "fingerprint is %.12s, and was %.12s), so data.validation would hold out others, too, "
        "perhaps some that it has learned: restore the files, or name files to evaluate on after "
        "%s",
        is, was, flags_list(FLAGS_WORDS, NULL)[0]);
}

/* The rows that are held out of a stream. */
static enum err load_held(struct evaluate *v, struct errmsg *e)
{
    const struct folder *f = &v->model.folder;
    v->train.table.schema = schema_ref(f->schema);
    enum err err = dataset_begin_stream(&v->train, &f->job, NULL, e);
    if (!err)
        err = dataset_index(&v->train, NULL, e);
    if (!err)
        err = dataset_hold_stream(&v->data, &v->train, model_classes(f->model), e);
    return err ? err : check_held(v, e);
}

/* Rows are read with the words and scales of the model's columns. */
static enum err load(struct evaluate *v, struct errmsg *e)
{
    const struct folder *f = &v->model.folder;
    struct dataset plain = {.table = {.schema = f->schema}};
    if (dataset_holds_stream(&f->job))
        return load_held(v, e);
    enum err err = f->schema ? spill_new(&plain.table.spill, &f->job, e) : ERR_OK;
    if (!err)
        err = dataset_load_eval(&v->data, &f->job, &plain, model_classes(f->model), e);
    spill_unref(plain.table.spill);
    if (!err)
        err = check_held(v, e);
    return err;
}

/* ---- the evaluation ---- */

static enum err run(struct evaluate *v, struct pool *pool, struct errmsg *e)
{
    struct trained *t = &v->model;
    struct evaluator *evaluator;
    struct cut_rows cut = {&t->checkpoints, &t->cut, t->folder.job.training.seed};
    const struct row_reader rows = t->has_cut
                                       ? (struct row_reader){cut_rows_read, &cut, true, false}
                                       : folder_rows(&t->folder);
    dataset_source_init(&v->source, &v->data, NULL);
    enum err err =
        evaluator_new(&evaluator, &t->folder.job, t->folder.model, &v->source.source, pool, e);
    if (err)
        return err;
    double began_s = clock_now_s();
    err = evaluator_run(evaluator, t->folder.w, &rows, &v->result, e);
    v->seconds = clock_now_s() - began_s;
    evaluator_free(evaluator);
    return err;
}

static enum err evaluate(struct evaluate *v, struct errmsg *e)
{
    struct pool *pool = NULL;
    struct job *job = &v->model.folder.job;
    enum err err = command_name_data(job, true, e);
    if (!err)
        err = load(v, e);
    if (!err)
        err = blas_take(job->worker.threads, e);
    if (!err)
        err = pool_new(&pool, job->worker.threads, e);
    if (!err)
        err = run(v, pool, e);
    pool_free(pool);
    return err;
}

/* ---- the result ---- */

/* The path from the current directory on, if it is below. */
static const char *shown(const char *path)
{
    char here[PATH_MAX];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && strncmp(path, here, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

static struct evaluation found_of(const struct evaluate *v)
{
    struct evaluation found = {.loss = isnan(v->result.loss) ? (double)NAN /* not "-nan" */
                                                             : v->result.loss};
    memcpy(found.metric, v->result.metric, sizeof found.metric);
    return found;
}

static void print_text(const struct evaluate *v)
{
    const struct trained *t = &v->model;
    const struct job *job = &t->folder.job;
    printf("%s: %s", PRINTABLE(job->name), PRINTABLE(shown(t->path)));
    if (t->step != UINT64_MAX)
        printf(", step %" PRIu64, t->step);
    const struct evaluation found = found_of(v);
    const struct results r = results_of(job, &found);
    printf("\n  eval: %s %s", r.of[0].name,
           digits_shown(r.of[0].value, (char[DIGITS_SHOWN_BYTES]){""}));
    for (uint32_t i = 1; i < r.n; i++)
        if (isfinite(r.of[i].value))
            printf(", %s %s", r.of[i].name,
                   digits_shown(r.of[i].value, (char[DIGITS_SHOWN_BYTES]){""}));
        else if (isfinite(r.of[0].value)) /* undefined, as the evaluator said */
            printf(", %s -", r.of[i].name);
    printf("\n  %" PRIu64 " rows, %.0f rows/s\n", v->data.rows - v->data.bad_rows,
           (double)v->data.rows / v->seconds);
    if (v->data.bad_rows)
        printf("  %" PRIu64 " bad rows left out\n", v->data.bad_rows);
}

/* The key `eval` is that of summary.json. */
static enum err print_json(const struct evaluate *v, struct errmsg *e)
{
    const struct trained *t = &v->model;
    const struct job *job = &t->folder.job;
    const struct evaluation found = found_of(v);
    json_t *all = json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:o, s:o}", "job", job->name, "model", t->path, "step",
        t->step != UINT64_MAX ? json_integer((json_int_t)t->step) : json_null(), "rows",
        (json_int_t)(v->data.rows - v->data.bad_rows), "bad_rows", (json_int_t)v->data.bad_rows,
        "seconds", json_number(v->seconds), "eval", evaluation_json(job, &found));
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
    if (!text)
        return err_memory(e);
    printf("%s\n", text);
    free(text);
    return ERR_OK;
}

static enum err print(const struct evaluate *v, struct errmsg *e)
{
    enum err err = flags_on("json") ? print_json(v, e) : ERR_OK;
    if (!flags_on("json"))
        print_text(v);
    if (!isfinite(v->result.loss))
        (void)fprintf(stderr, "gradwire: warning: the loss is not finite: the rows or the model's "
                              "weights have values that are too large, or not a number\n");
    return err ? err : command_flush(e);
}

int evaluate_main(int argc, char **argv)
{
    struct errmsg e;
    struct evaluate v = {.seconds = 0};
    flags_parse("evaluate", argc, argv);
    enum err err = trained_open(&v.model, flags_list(FLAGS_WORDS, NULL)[0], flags_list("set", NULL),
                                command_threads(), &e);
    if (!err)
        err = evaluate(&v, &e);
    if (!err)
        err = print(&v, &e);
    dataset_close(&v.data);
    dataset_close(&v.train);
    trained_close(&v.model);
    return err ? command_failed(err, &e) : 0;
}
