#include "worker/evaluate/evaluate.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/model/auc.h"
#include "worker/model/metric.h"

enum { ROWS = 250 };

/* One thread's. */
struct lane {
    struct model_run *run;
    float *x, *y;
};

struct evaluator {
    const struct job *job;
    const struct model *model;
    const struct dataset *data;
    struct pool *pool;
    struct lane *lane; /* (threads) */
    const float *w;
    uint64_t blocks;
    atomic_ullong next;
    struct sums *sums;     /* a block each */
    struct scored *scored; /* a row each, where an auc is wanted */
    atomic_bool failed;    /* who sets it says why */
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
    if (wants_auc(job))
        v->scored = mem_zalloc(data->rows + 1, sizeof *v->scored);
    bool scores = !wants_auc(job) || v->scored;
    enum err err = scores && v->lane && v->sums ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; !err && i < threads; i++) {
        struct lane *l = &v->lane[i];
        l->x = mem_floats((size_t)ROWS * data->features);
        l->y = mem_floats(ROWS);
        err = l->x && l->y ? model_run_new(&l->run, model, ROWS, e) : ERR_NOMEM;
    }
    if (err) {
        evaluator_free(v);
        return err_set(e, err, "no memory for evaluation");
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
    }
    mem_free(v->lane);
    mem_free(v->sums);
    mem_free(v->scored);
    mem_free(v);
}

static void evaluate_blocks(void *ctx, uint32_t thread)
{
    struct evaluator *v = ctx;
    const struct lane *l = &v->lane[thread];
    uint64_t block;
    while ((block = atomic_fetch_add(&v->next, 1)) < v->blocks) {
        uint64_t first = block * ROWS, rows[ROWS];
        uint32_t n = 0;
        while (n < ROWS && first + n < v->data->rows) {
            rows[n] = first + n;
            n++;
        }
        struct errmsg e;
        enum err err = dataset_gather(v->data, rows, n, l->x, l->y, &n, &e);
        if (err && !atomic_exchange(&v->failed, true)) {
            v->err = err;
            v->e = e;
        }
        if (err) {
            evaluator_stop(v);
            return;
        }
        v->sums[block] = (struct sums){0};
        if (n)
            model_eval(l->run, v->w, l->x, l->y, n, &v->sums[block]);
        const float *z = model_run_outputs(l->run);
        for (uint32_t i = 0; v->scored && i < n; i++)
            v->scored[first + i] = (struct scored){z[i], l->y[i] > 0.5f};
    }
}

/* Without the gaps that bad rows leave at their blocks' ends; returns how many there are. */
static uint64_t close_gaps(struct evaluator *v)
{
    uint64_t n = 0;
    for (uint64_t block = 0; v->scored && block < v->blocks; block++) {
        uint64_t there = (uint64_t)v->sums[block].examples;
        memmove(v->scored + n, v->scored + block * ROWS, there * sizeof *v->scored);
        n += there;
    }
    return n;
}

void evaluator_stop(struct evaluator *v)
{
    atomic_store(&v->next, v->blocks);
}

enum err evaluator_run(struct evaluator *v, const float *w, struct sums *out, struct errmsg *e)
{
    struct sums all = {0};
    v->w = w;
    atomic_store(&v->next, 0);
    atomic_store(&v->failed, false);
    v->err = ERR_OK;
    pool_run(v->pool, evaluate_blocks, v);
    if (v->err)
        return err_set(e, v->err, "evaluation: %s", v->e.text);
    for (uint32_t i = 0; i < pool_threads(v->pool); i++) {
        enum err err = model_run_fault(v->lane[i].run, e);
        if (err)
            return err;
    }
    double sum[SUMS_MAX] = {0};
    for (uint64_t i = 0; i < v->blocks; i++) {
        all.examples += v->sums[i].examples;
        all.loss += v->sums[i].loss;
        for (int k = 0; k < SUMS_MAX; k++)
            sum[k] += v->sums[i].metric[k];
    }
    if (all.examples > 0)
        all.loss = all.loss / all.examples + model_penalty(v->model, w);
    uint64_t scored = close_gaps(v);
    for (uint32_t i = 0; i < v->job->model.metrics; i++)
        all.metric[i] = v->job->model.metric[i] == METRIC_AUC
                            ? auc_exact(v->scored, scored)
                            : metric_value(v->job, i, sum, all.examples);
    *out = all;
    return ERR_OK;
}
