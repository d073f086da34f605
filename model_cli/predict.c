/* `gradwire predict DIR [DATA]...`: the scores of rows by a trained model, in the order of the rows.
 *
 * Happy path: csv and libsvm in pieces, other data in memory -> each thread scores its rows and makes their text -> it writes
 * the text when its turn comes.
 * Failure modes: a bad row (an error, or with data.bad_rows: skip a row without scores), a full disk: no file is left. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/texts.h"
#include "common/flags/flags.h"
#include "common/math/pool.h"
#include "model_cli/command.h"
#include "model_cli/array_file.h"
#include "model_cli/output.h"
#include "model_cli/score_text.h"
#include "model_cli/trained.h"
#include "data/arrow/parquet.h"
#include "data/dataset.h"
#include "model/blas.h"

enum { KEEP_MAX = 256, BLOCK_ROWS = 8 * LANE_ROWS };

/* One thread's memory. */
struct worker {
    struct lane *lane;
    struct text text; /* of the rows that it took last */
    uint64_t broken;  /* rows with a score that is not finite */
};

struct predict {
    struct trained model;
    struct score_columns columns;
    char *kept[KEEP_MAX]; /* names of columns; they are in kept_names */
    char *kept_names;
    struct csv_keep keep;
    struct worker *worker; /* (threads) */
    struct output output;
    struct parquet_writer parquet; /* of rows as csv */
    bool begun;                    /* the first line is written */
    struct dataset_streamed read;
    double seconds;
};

/* ---- the output ---- */

/* The line before the rows; for an npy file room for its header. */
static enum err put_first(struct predict *p, struct errmsg *e)
{
    struct text t = {.at = NULL};
    if (p->columns.floats)
        npy_file_header(&t, "<f4", 0, 0, NULL);
    else
        score_text_header(&p->columns, &t);
    enum err err = output_put(&p->output, &t, e);
    text_close(&t);
    p->begun = true;
    return err;
}

static bool wants(const char *wanted, const char *ending)
{
    const char *format = flags_text("format"), *path = flags_text("output");
    return *format ? strcmp(format, wanted) == 0 : text_ends(path, ending);
}

static bool wants_npy(void)
{
    return wants("npy", ".npy");
}

static bool wants_parquet(void)
{
    return wants("parquet", ".parquet");
}

/* The type of each column as a letter, as struct arrow_module has them. */
static void add_types(const struct score_columns *c, struct text *t)
{
    const char *class = c->names ? "s" : "i";
    for (uint32_t i = 0; c->keep && i < c->keep->columns; i++)
        text_add(t, "s", 1);
    for (uint32_t i = 0; c->kind == SCORE_CLASSES && i < (c->top ? c->top : 1); i++) {
        text_add(t, class, 1);
        text_add(t, "f", !c->all);
    }
    for (uint32_t i = 0; i < c->outputs && (c->all || c->kind != SCORE_CLASSES); i++)
        text_add(t, "f", 1);
    text_add(t, "", 1);
}

static enum err begin_parquet(struct predict *p, struct errmsg *e)
{
    struct text names = {.at = NULL}, types = {.at = NULL};
    score_text_header(&p->columns, &names);
    add_types(&p->columns, &types);
    enum err err =
        names.failed || types.failed
            ? err_memory(e)
            : parquet_write_begin(&p->parquet, names.at, names.bytes, types.at, "zstd", e);
    text_close(&names);
    text_close(&types);
    return err;
}

/* rows NULL: all are written. */
static enum err put_parquet(struct predict *p, const struct text *rows, struct errmsg *e)
{
    const char *bytes;
    struct text t = {.at = NULL};
    if (rows && rows->failed)
        return err_memory(e);
    if (rows && !rows->bytes)
        return ERR_OK;
    enum err err = parquet_write(&p->parquet, rows ? rows->at : NULL, rows ? rows->bytes : 0,
                                 &bytes, &t.bytes, e);
    t.at = (char *)(uintptr_t)bytes;
    return err || !t.bytes ? err : output_put(&p->output, &t, e);
}

static enum err predict_put(struct predict *p, const struct text *rows, struct errmsg *e)
{
    if (p->parquet.arrow)
        return put_parquet(p, rows, e);
    enum err err = p->begun ? ERR_OK : put_first(p, e);
    return err ? err : output_put(&p->output, rows, e);
}

/* All rows are written. */
static enum err put_last(struct predict *p, struct errmsg *e)
{
    struct text t = {.at = NULL};
    enum err err = p->parquet.arrow ? put_parquet(p, NULL, e) : p->begun ? ERR_OK : put_first(p, e);
    if (p->columns.floats)
        npy_file_header(&t, "<f4", p->read.rows, p->columns.outputs > 1, &p->columns.outputs);
    if (!err && t.failed)
        err = err_memory(e);
    else if (!err && t.bytes)
        err = output_put_first(&p->output, t.at, t.bytes, e);
    text_close(&t);
    return err ? err : output_end(&p->output, e);
}

/* kept, z: as for score_text_row. */
static void predict_add_row(const struct score_columns *c, struct worker *w,
                            const struct csv_text *kept, const float *z)
{
    bool finite = true;
    for (uint32_t i = 0; z && i < c->outputs; i++)
        finite &= isfinite(z[i]) != 0;
    w->broken += !finite;
    score_text_row(c, kept, z, &w->text);
}

static void warn_broken(const struct predict *p)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < p->model.folder.job.worker.threads; i++)
        rows += p->worker[i].broken;
    if (rows)
        (void)fprintf(stderr,
                      "gradwire: warning: the scores of %" PRIu64 " of %" PRIu64
                      " rows are not finite: the rows or the model's weights have values that are "
                      "too large, or not a number\n",
                      rows, p->read.rows);
}

static void say_misses(const struct predict *p)
{
    for (uint32_t i = 1; i < p->model.folder.job.worker.threads; i++)
        lane_join_misses(p->worker[0].lane, p->worker[i].lane);
    lane_say_misses(p->worker[0].lane);
}

/* ---- rows of csv ---- */

/* Score n rows, at most LANE_ROWS, and add their text. *cells becomes the end of the block. */
static enum err add_block(const struct predict *p, struct worker *w, const struct csv_piece *piece,
                          uint32_t row, uint32_t **cells, uint32_t n, struct errmsg *e)
{
    const struct table_schema *s = p->model.folder.schema;
    const struct csv_text *kept = piece->kept + (size_t)row * p->keep.columns;
    bool bad[LANE_ROWS];
    const struct leaf *leaf;
    const float *z;
    enum err err = ERR_OK;
    lane_clear(w->lane);
    for (uint32_t i = 0; i < n && !err; i++, *cells += schema_packed_raw_cells(s, *cells)) {
        bad[i] = !batch_bit(piece->present, row + i);
        err = bad[i] ? ERR_OK : lane_add(w->lane, *cells, e);
    }
    if (!err)
        err = lane_finish(w->lane, &leaf, e);
    if (!err)
        err = lane_score(w->lane, &z, e);
    for (uint32_t i = 0; i < n && !err; i++) {
        predict_add_row(&p->columns, w, kept + (size_t)i * p->keep.columns, bad[i] ? NULL : z);
        z += bad[i] ? 0 : p->columns.outputs;
    }
    return err;
}

static enum err score_piece(void *ctx, uint32_t thread, struct csv_piece *piece, struct errmsg *e)
{
    const struct predict *p = ctx;
    struct worker *w = &p->worker[thread];
    uint32_t *cells = piece->cells;
    enum err err = ERR_OK;
    text_clear(&w->text);
    for (uint32_t i = 0; i < piece->rows && !err; i += LANE_ROWS) {
        uint32_t left = (uint32_t)piece->rows - i;
        err = add_block(p, w, piece, i, &cells, left < LANE_ROWS ? left : LANE_ROWS, e);
    }
    return err;
}

static enum err put_piece(void *ctx, uint32_t thread, struct errmsg *e)
{
    struct predict *p = ctx;
    return predict_put(p, &p->worker[thread].text, e);
}

static enum err predict_csv(struct predict *p, struct errmsg *e)
{
    const struct dataset_sink sink = {
        .keep = p->keep.columns ? &p->keep : NULL, .take = score_piece, .put = put_piece, .ctx = p};
    return dataset_stream(&p->model.folder.job, p->model.folder.schema,
                          model_classes(p->model.folder.model), &sink, &p->read, e);
}

/* ---- rows in memory ---- */

struct rounds {
    struct predict *predict;
    struct source *source;
    atomic_ullong next; /* block */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    uint64_t due; /* the block that is written next */
    enum err err; /* the first one */
    struct errmsg e;
};

/* Score a block of rows, and make their text. */
static enum err score_rows(struct rounds *r, struct worker *w, uint64_t block, struct errmsg *e)
{
    const struct score_columns *columns = &r->predict->columns;
    uint64_t at = block * BLOCK_ROWS, end = at + BLOCK_ROWS;
    const struct leaf *leaf;
    const float *z;
    enum err err = ERR_OK;
    end = end < r->source->rows ? end : r->source->rows;
    text_clear(&w->text);
    for (; at < end && !err; at += LANE_ROWS) {
        uint32_t n = end - at < LANE_ROWS ? (uint32_t)(end - at) : LANE_ROWS;
        err = lane_gather(w->lane, r->source, at, n, &leaf, e);
        if (!err)
            err = lane_score(w->lane, &z, e);
        for (uint32_t i = 0; i < n && !err; i++)
            predict_add_row(columns, w, NULL, z + (size_t)i * columns->outputs);
    }
    return err;
}

static void write_in_turn(struct rounds *r, struct worker *w, uint64_t block, enum err err,
                          struct errmsg *e)
{
    pthread_mutex_lock(&r->lock);
    while (r->due != block)
        pthread_cond_wait(&r->turn, &r->lock);
    if (!err && !r->err)
        err = predict_put(r->predict, &w->text, e);
    if (err && !r->err) {
        r->err = err;
        r->e = *e;
        atomic_store(&r->next, UINT64_MAX / 2); /* no more blocks */
    }
    r->due++;
    pthread_cond_broadcast(&r->turn);
    pthread_mutex_unlock(&r->lock);
}

static void work_on_rows(void *ctx, uint32_t thread)
{
    struct rounds *r = ctx;
    struct worker *w = &r->predict->worker[thread];
    struct errmsg e;
    uint64_t block;
    while ((block = atomic_fetch_add(&r->next, 1)) <
           (r->source->rows + BLOCK_ROWS - 1) / BLOCK_ROWS)
        write_in_turn(r, w, block, score_rows(r, w, block, &e), &e);
}

static enum err predict_rows(struct predict *p, struct errmsg *e)
{
    struct dataset data = {.rows = 0};
    struct dataset_source source;
    struct rounds r = {.predict = p, .source = &source.source};
    struct pool *pool = NULL;
    const struct job *job = &p->model.folder.job;
    enum err err = dataset_load_unlabeled(&data, job, e);
    dataset_source_init(&source, &data, NULL);
    if (!err)
        err = pool_new(&pool, job->worker.threads, e);
    if (!err) {
        pthread_mutex_init(&r.lock, NULL);
        pthread_cond_init(&r.turn, NULL);
        pool_run(pool, work_on_rows, &r);
        pthread_cond_destroy(&r.turn);
        pthread_mutex_destroy(&r.lock);
        p->read.rows = data.rows;
        err = r.err ? err_set(e, r.err, "%s", r.e.text) : ERR_OK;
    }
    pool_free(pool);
    dataset_close(&data);
    return err;
}

/* ---- what is wanted ---- */

/* Split the values of --keep at their commas. */
static enum err keep_columns(struct predict *p, struct errmsg *e)
{
    size_t n, bytes = 1, at = 0;
    const char *const *values = flags_list("keep", &n);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(values[i]) + 1;
    p->kept_names = mem_zalloc(bytes, 1);
    if (!p->kept_names)
        return err_memory(e);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(p->kept_names + at, bytes - at, "%s%s", i ? "," : "", values[i]);
    for (char *rest = p->kept_names, *name; n && (name = strsep(&rest, ","));) {
        for (uint32_t i = 0; i < p->keep.columns; i++)
            if (strcmp(p->kept[i], name) == 0)
                return err_set(e, ERR_INPUT, "--keep: \"%s\" is there twice", name);
        if (p->keep.columns == KEEP_MAX || !*name)
            return err_set(e, ERR_INPUT, "--keep: give the names of 1 to %d columns, as in a,b",
                           KEEP_MAX);
        p->kept[p->keep.columns++] = name;
    }
    p->keep.key = "--keep";
    p->keep.name = (const char *const *)p->kept;
    return ERR_OK;
}

static enum err check_flags(const struct predict *p, struct errmsg *e)
{
    const struct job *job = &p->model.folder.job;
    bool npy = wants_npy();
    if (p->keep.columns && !job_reads_values(job))
        return err_set(e, ERR_INPUT,
                       "--keep is for csv and Parquet: rows of another format have no columns");
    if (strcmp(flags_text("output"), "-") == 0)
        return err_set(e, ERR_INPUT, "--output=-: without --output the rows go to stdout");
    if (npy && !*flags_text("output"))
        return err_set(e, ERR_INPUT, "--format=npy needs --output=FILE");
    if (wants_parquet() && !*flags_text("output"))
        return err_set(e, ERR_INPUT, "--format=parquet needs --output=FILE");
    if (npy && (p->keep.columns || flags_on("scores") || flags_number("top") > 0))
        return err_set(e, ERR_INPUT,
                       "an npy file has all scores and nothing else: leave --keep, --scores and "
                       "--top out");
    return ERR_OK;
}

/* Programs that find columns by their names take one of the two. */
static void say_same_names(const struct predict *p)
{
    for (uint32_t i = 0; i < p->keep.columns; i++)
        if (score_text_named(&p->columns, p->kept[i]))
            log_warn("--keep: two columns of the output have the name %s: the first is the input's",
                     p->kept[i]);
    if (score_text_named(&p->columns, "class") > 1)
        log_warn("--scores: two columns of the output have the name class: the first is the best "
                 "class, the other has the scores of the class of this name");
}

static enum err prepare(struct predict *p, struct errmsg *e)
{
    struct folder *f = &p->model.folder;
    int64_t top = flags_number("top");
    enum err err = command_check_output(&f->job, p->model.path, flags_given("output"), e);
    if (!err)
        err = command_name_data(&f->job, false, e);
    if (!err)
        err = keep_columns(p, e);
    if (!err)
        err = check_flags(p, e);
    if (!err)
        err =
            score_columns_init(&p->columns, f, flags_on("scores"), top > 0 ? (uint32_t)top : 0, e);
    if (!err)
        say_same_names(p);
    if (!err)
        err = trained_open_tables(&p->model, e);
    p->columns.keep = p->keep.columns ? &p->keep : NULL;
    p->columns.floats = wants_npy();
    p->worker = mem_zalloc(f->job.worker.threads, sizeof *p->worker);
    if (!err && !p->worker)
        err = err_memory(e);
    for (uint32_t i = 0; i < f->job.worker.threads && !err; i++)
        err = lane_new(&p->worker[i].lane, f, e);
    return err ? err : blas_take(f->job.worker.threads, e);
}

/* ---- the command ---- */

static enum err predict(struct predict *p, struct errmsg *e)
{
    enum err err = prepare(p, e);
    if (!err && wants_parquet())
        err = begin_parquet(p, e);
    if (!err)
        err = output_begin(&p->output, flags_given("output"), e);
    if (err)
        return err;
    double began_s = clock_now_s();
    err = p->model.folder.schema ? predict_csv(p, e) : predict_rows(p, e);
    p->seconds = clock_now_s() - began_s;
    if (!err)
        err = put_last(p, e);
    return err;
}

static void close_all(struct predict *p)
{
    output_abort(&p->output);
    for (uint32_t i = 0; p->worker && i < p->model.folder.job.worker.threads; i++) {
        lane_free(p->worker[i].lane);
        text_close(&p->worker[i].text);
    }
    parquet_write_close(&p->parquet);
    mem_free(p->worker);
    mem_free(p->kept_names);
    trained_close(&p->model);
}

int predict_main(int argc, char **argv)
{
    static struct predict p = {.output.file.fd = -1};
    struct errmsg e;
    flags_parse("predict", argc, argv);
    enum err err = trained_open(&p.model, flags_list(FLAGS_WORDS, NULL)[0], flags_list("set", NULL),
                                command_threads(), &e);
    if (!err)
        err = predict(&p, &e);
    if (!err && p.read.unread.text[0])
        (void)fprintf(stderr, "gradwire: %s\n", p.read.unread.text);
    if (!err) {
        say_misses(&p);
        warn_broken(&p);
    }
    if (!err)
        (void)fprintf(stderr, "gradwire: %" PRIu64 " rows in %.1f s, %.0f rows/s\n", p.read.rows,
                      p.seconds, (double)p.read.rows / p.seconds);
    close_all(&p);
    return err ? command_failed(err, &e) : 0;
}
