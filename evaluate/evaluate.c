#include "evaluate/evaluate.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "evaluate/eval_rows.h"
#include "evaluate/ranking.h"
#include "model/metric.h"

enum { ROWS = 250 };

/* One thread's memory. */
struct lane {
    struct model_run *run;
    float *x, *y, *weight; /* weight: NULL: the set has none */
};

struct evaluator {
    const struct job *job;
    const struct model *model;
    const struct dataset *data;
    struct pool *pool;
    struct lane *lane; /* (threads) */
    const float *w;
    struct eval_rows *rows; /* NULL: the model has no tables */
    uint64_t blocks, end;   /* end: of the blocks whose rows are read */
    atomic_ullong next;
    atomic_bool stopped;
    struct sums *sums;       /* one for each block */
    struct ranking *ranking; /* NULL: auc is not wanted */
    bool said_no_auc;
    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};

static bool wants_auc(const struct job *job)
{
    for (uint32_t i = 0; i < job->model.metrics; i++)
        if (job->model.metric[i] == METRIC_AUC)
            return true;
    return false;
}

static enum err make_lanes(struct evaluator *v, uint32_t threads, struct errmsg *e)
{
    bool weighted = dataset_is_weighted(v->data);
    enum err err = v->lane && v->sums ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; !err && i < threads; i++) {
        struct lane *l = &v->lane[i];
        l->x = mem_floats((size_t)ROWS * v->data->features);
        l->y = mem_floats(ROWS);
        l->weight = weighted ? mem_floats(ROWS) : NULL;
        err = l->x && l->y && (l->weight || !weighted) ? model_run_new(&l->run, v->model, ROWS, e)
                                                       : ERR_NOMEM;
    }
    return err ? err_set(e, err, "no memory for evaluation") : ERR_OK;
}

static enum err make(struct evaluator *v, uint32_t threads, struct errmsg *e)
{
    const struct row_layout *rows = model_layout(v->model)->rows;
    enum err err = make_lanes(v, threads, e);
    if (!err && rows)
        err = eval_rows_new(&v->rows, rows, v->data, v->pool, ROWS, e);
    if (err || !wants_auc(v->job))
        return err;
    return ranking_new(&v->ranking, v->data->rows, threads, v->data->table.spill,
                       RANKING_ROOM_BYTES, e);
}

enum err evaluator_new(struct evaluator **out, const struct job *job, const struct model *model,
                       const struct dataset *data, struct pool *pool, struct errmsg *e)
{
    struct evaluator *v = mem_zalloc(1, sizeof *v);
    uint32_t threads = pool_threads(pool);
    if (!v)
        return err_set(e, ERR_NOMEM, "no memory for evaluation");
    v->job = job;
    v->model = model;
    v->data = data;
    v->pool = pool;
    v->blocks = (data->rows + ROWS - 1) / ROWS;
    v->lane = mem_zalloc(threads, sizeof *v->lane);
    v->sums = mem_zalloc(v->blocks, sizeof *v->sums);
    enum err err = make(v, threads, e);
    if (err) {
        evaluator_free(v);
        return err;
    }
    *out = v;
    return ERR_OK;
}

void evaluator_free(struct evaluator *v)
{
    if (!v)
        return;
    for (uint32_t i = 0; v->lane && i < pool_threads(v->pool); i++) {
        model_run_free(v->lane[i].run);
        mem_free(v->lane[i].x);
        mem_free(v->lane[i].y);
        mem_free(v->lane[i].weight);
    }
    mem_free(v->lane);
    mem_free(v->sums);
    eval_rows_free(v->rows);
    ranking_free(v->ranking);
    mem_free(v);
}

/* Gather the good rows of a block into the lane; *n is their number. */
static enum err gather_block(const struct evaluator *v, const struct lane *l, uint64_t block,
                             uint32_t *n, struct errmsg *e)
{
    uint64_t first = block * ROWS, rows[ROWS];
    uint32_t wanted = 0;
    while (wanted < ROWS && first + wanted < v->data->rows) {
        rows[wanted] = first + wanted;
        wanted++;
    }
    return dataset_gather_weighted(v->data, rows, wanted, l->x, l->y, l->weight, n, e);
}

/* Add the scores of the lane's last pass, over n rows. */
static enum err rank_block(struct evaluator *v, uint32_t thread, uint32_t n, struct errmsg *e)
{
    const struct lane *l = &v->lane[thread];
    const float *z = model_run_outputs(l->run);
    struct scored scored[ROWS];
    for (uint32_t i = 0; i < n; i++)
        scored[i] = (struct scored){z[i], l->weight ? l->weight[i] : 1.0f, l->y[i] > 0.5f};
    return ranking_add(v->ranking, thread, scored, n, e);
}

static enum err evaluate_block(struct evaluator *v, uint32_t thread, uint64_t block,
                               struct errmsg *e)
{
    const struct lane *l = &v->lane[thread];
    uint32_t n;
    enum err err = gather_block(v, l, block, &n, e);
    if (err)
        return err;
    v->sums[block] = (struct sums){0};
    if (n == 0)
        return ERR_OK;
    struct examples x = {.n = n, .x = l->x, .y = l->y, .weight = l->weight};
    if (v->rows)
        err = eval_rows_take(v->rows, thread, block, &x, e);
    if (err)
        return err;
    model_eval(l->run, v->w, &x, &v->sums[block]);
    return v->ranking ? rank_block(v, thread, n, e) : ERR_OK;
}

static void evaluate_blocks(void *ctx, uint32_t thread)
{
    struct evaluator *v = ctx;
    uint64_t block;
    while (!atomic_load(&v->stopped) && (block = atomic_fetch_add(&v->next, 1)) < v->end) {
        struct errmsg e;
        enum err err = evaluate_block(v, thread, block, &e);
        if (err && !atomic_exchange(&v->failed, true)) {
            v->err = err;
            v->e = e;
        }
        if (err)
            evaluator_stop(v);
    }
}

void evaluator_stop(struct evaluator *v)
{
    atomic_store(&v->stopped, true);
}

/* Add all blocks' sums, in their order. */
static struct sums join_blocks(const struct evaluator *v)
{
    struct sums all = {0};
    for (uint64_t i = 0; i < v->blocks; i++)
        sums_add(&all, &v->sums[i]);
    return all;
}

/* Logged once, because it is the same in each epoch. */
static void say_no_auc(struct evaluator *v, const struct sums *sums, double auc)
{
    if (!v->ranking || !isnan(auc) || !isfinite(sums->loss) || sums->examples == 0 ||
        v->said_no_auc)
        return;
    log_warn("eval: auc is not defined, and shown as \"-\": all %.0f rows of data.eval have one "
             "class; it needs rows of both",
             sums->examples);
    v->said_no_auc = true;
}

/* Compute the job's metrics from the sums over all rows. */
static enum err make_metrics(struct evaluator *v, const struct sums *sums, double *metric,
                             struct errmsg *e)
{
    double auc = NAN;
    enum err err = v->ranking ? ranking_auc(v->ranking, &auc, e) : ERR_OK;
    for (uint32_t i = 0; i < v->job->model.metrics; i++)
        metric[i] = v->job->model.metric[i] == METRIC_AUC
                        ? auc
                        : metric_value(v->job, i, sums->metric, sums->examples);
    if (!err)
        say_no_auc(v, sums, auc);
    return err ? err_wrap(e, err, "evaluation: ") : ERR_OK;
}

/* Run window by window if rows are read, otherwise all blocks. */
static enum err run_windows(struct evaluator *v, const struct row_reader *rows, struct errmsg *e)
{
    uint64_t window = v->rows ? eval_rows_window(rows, v->blocks) : v->blocks;
    for (uint64_t first = 0; first < v->blocks && !atomic_load(&v->stopped); first = v->end) {
        v->end = v->blocks - first < window ? v->blocks : first + window;
        enum err err = v->rows ? eval_rows_read(v->rows, rows, first, v->end, e) : ERR_OK;
        if (err)
            return err_wrap(e, err, "evaluation: ");
        atomic_store(&v->next, first);
        pool_run(v->pool, evaluate_blocks, v);
    }
    return v->err ? err_set(e, v->err, "evaluation: %s", v->e.text) : ERR_OK;
}

enum err evaluator_run(struct evaluator *v, const float *w, const struct row_reader *rows,
                       struct sums *out, struct errmsg *e)
{
    assert(!v->rows || rows);
    v->w = w;
    if (v->ranking)
        ranking_begin(v->ranking);
    atomic_store(&v->stopped, false);
    atomic_store(&v->failed, false);
    v->err = ERR_OK;
    enum err err = run_windows(v, rows, e);
    for (uint32_t i = 0; i < pool_threads(v->pool) && !err; i++)
        err = model_run_fault(v->lane[i].run, e);
    if (err)
        return err;
    const struct sums sums = join_blocks(v);
    struct sums all = {.examples = sums.examples, .loss = sums.loss};
    if (all.examples > 0)
        all.loss = all.loss / all.examples + model_penalty(v->model, w);
    err = make_metrics(v, &sums, all.metric, e);
    if (!err)
        *out = all;
    return err;
}
