#include "worker/lr_finder.h"

#include <math.h>
#include <stdio.h>

#include "common/base/digits.h"
#include "common/base/printable.h"
#include "common/process/cgroup.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"
#include "model/blas.h"
#include "worker/step/gradient.h"
#include "worker/warm_start/first_weights.h"
#include "common/math/pool.h"

enum {
    SKIP_FIRST = 10, /* the running mean needs some points first */
    SLOPE_OVER = 4,  /* number of points on each side */
    TABLE_LINES = 20,
};
static const double RATE_FIRST = 1e-7, RATE_LAST = 10, KEEP = 0.9, ENOUGH = 4;

/* ---- evaluation of the losses ---- */

void lr_finder_judge(struct lr_found *f)
{
    double mean = 0, weight = 1, fastest = 0;
    uint32_t least = 0;
    f->steepest = f->tenth_of_least = NAN;
    for (uint32_t i = 0; i < f->points; i++) {
        mean = KEEP * mean + (1 - KEEP) * f->point[i].loss;
        weight *= KEEP;
        f->point[i].smooth = mean / (1 - weight);
        if (f->point[i].smooth < f->point[least].smooth)
            least = i;
    }
    if (f->points)
        f->tenth_of_least = f->point[least].rate / 10;
    /* After the least loss, a loss that diverges may fall again, which is not learning. */
    for (uint32_t i = SKIP_FIRST; i <= least && i + SLOPE_OVER < f->points; i++) {
        const struct lr_point *before = &f->point[i - SLOPE_OVER],
                              *after = &f->point[i + SLOPE_OVER];
        double slope = (after->smooth - before->smooth) / log(after->rate / before->rate);
        if (slope < fastest) {
            fastest = slope;
            f->steepest = f->point[i].rate;
        }
    }
}

/* ---- the training ---- */

struct run {
    const struct job *job;
    const struct layout *layout;
    struct pool *pool;
    struct loader *loader;
    struct gradient *gradient;
    float *w, *slot[OPTIMIZER_SLOTS_MAX];
};

static enum err first_values(struct run *r, struct errmsg *e)
{
    char words[FIRST_WEIGHTS_WORDS_BYTES];
    if (!r->job->model.weights) {
        layout_init_values(r->layout, r->job->training.seed, 0, r->layout->elems, r->w);
        return ERR_OK;
    }
    enum err err = first_weights_read(r->job, r->layout, r->w, words, NULL, e);
    if (!err)
        log_info("the job %s", words);
    return err;
}

static enum err run_open(struct run *r, const struct job *job, const struct model *model,
                         struct source *source, struct errmsg *e)
{
    uint32_t threads = job->worker.threads ? job->worker.threads : cores_usable();
    *r = (struct run){.job = job, .layout = model_layout(model)};
    uint64_t elems = r->layout->elems;
    bool there = (r->w = mem_floats(elems)) != NULL;
    for (uint32_t i = 0; i < optimizer_slots(&job->optimizer); i++) {
        there = there && (r->slot[i] = mem_floats(elems));
        for (uint64_t j = 0; there && j < elems; j++)
            r->slot[i][j] = optimizer_slot_initial(&job->optimizer, i);
    }
    if (!there)
        return err_memory_for(e, "the parameters");
    enum err err = first_values(r, e);
    if (!err)
        err = blas_take(threads, e);
    if (!err)
        err = pool_new(&r->pool, threads, e);
    if (!err)
        err = loader_new(&r->loader, source, 2 * job->training.microbatches, e);
    if (!err)
        err = gradient_new(&r->gradient, model, r->pool, r->loader, NULL,
                           order_leaf_rows_max(&source->order), job->training.seed, e);
    return err;
}

static void run_close(struct run *r)
{
    gradient_free(r->gradient);
    loader_free(r->loader);
    pool_free(r->pool);
    mem_free(r->w);
    for (int i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        mem_free(r->slot[i]);
}

static void nobody_waits(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to)
{
    (void)ctx, (void)n, (void)from, (void)to;
}

/* All leaves of batch `id` make one node. Layers' statistics do not affect training, and stay unchanged. */
static enum err one_step(struct run *r, uint64_t id, float rate, double *loss, struct errmsg *e)
{
    const struct session_task task = {.kind = TASK_COMPUTE,
                                      .name = id,
                                      .batch = id,
                                      .count = {r->job->training.microbatches},
                                      .runs = 1};
    enum err err = gradient_compute(r->gradient, &task, r->w, NULL, nobody_waits, NULL, e);
    if (err)
        return err;
    uint32_t nodes;
    const struct gradient_node *node = gradient_nodes(r->gradient, &nodes);
    struct sums sums = gradient_sums(r->gradient);
    struct optimizer optimizer = r->job->optimizer;
    optimizer.learning_rate = rate;
    /* also disables a warm-up */
    optimizer.schedule = (struct schedule){.kind = SCHEDULE_CONSTANT};
    *loss = sums.loss / sums.examples;
    for (uint32_t i = 0; i < r->layout->tensors; i++) {
        const struct tensor *t = &r->layout->tensor[i];
        float *slot[OPTIMIZER_SLOTS_MAX] = {0}, *w = r->w + t->offset_elems;
        for (uint32_t k = 0; k < optimizer_slots(&optimizer); k++)
            slot[k] = r->slot[k] + t->offset_elems;
        if (t->role == TENSOR_WEIGHT)
            optimizer_apply(&optimizer, id + 1,
                            (struct optimizer_factors){1.0f / (float)sums.examples, 1, 1}, w, w,
                            slot, node->value + t->offset_elems, t->elems);
    }
    return ERR_OK;
}

static enum err find_rates(const struct job *job, const struct model *model, struct source *source,
                           struct lr_found *found, struct errmsg *e)
{
    struct run r;
    double least = INFINITY;
    *found = (struct lr_found){.points = 0};
    if (model_layout(model)->rows)
        return err_set(e, ERR_INPUT,
                       "lr-finder does not support embedding tables yet: train with rates a factor "
                       "of 3 apart, and compare");
    enum err err = run_open(&r, job, model, source, e);
    while (!err && found->points < LR_FINDER_STEPS) {
        uint32_t i = found->points;
        struct lr_point *p = &found->point[i];
        p->rate = RATE_FIRST * pow(RATE_LAST / RATE_FIRST, (double)i / (LR_FINDER_STEPS - 1));
        err = one_step(&r, i, (float)p->rate, &p->loss, e);
        if (err || !isfinite(p->loss))
            break;
        found->points++;
        lr_finder_judge(found);
        least = fmin(least, p->smooth);
        if (i >= SKIP_FIRST && p->smooth > ENOUGH * least)
            break;
    }
    run_close(&r);
    if (err && e && !e->text[0])
        err_set(e, err, "the learning-rate finder: %s", err_str(err));
    return err;
}

/* ---- the report ---- */

static enum err write_csv(const struct lr_found *f, const char *path, struct errmsg *e)
{
    struct files_writer file;
    char line[128];
    enum err err = files_begin(&file, path, e);
    if (err)
        return err;
    err = files_append(&file, "rate,loss,smooth\n", 17, e);
    for (uint32_t i = 0; i < f->points && !err; i++) {
        int n = snprintf(line, sizeof line, "%.6g,%.9g,%.9g\n", f->point[i].rate,
                         digits_printed(f->point[i].loss), digits_printed(f->point[i].smooth));
        err = files_append(&file, line, (size_t)n, e);
    }
    if (!err)
        return files_commit(&file, e);
    files_abort(&file);
    return err;
}

enum err lr_finder_report(const struct lr_found *f, const char *output, struct errmsg *e)
{
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_RATES, output);
    enum err err = files_mkdirs(output, e);
    if (!err)
        err = write_csv(f, path, e);
    if (err)
        return err;
    uint32_t every = f->points / TABLE_LINES + 1;
    (void)printf("%12s %10s %10s\n", "rate", "loss", "smoothed");
    for (uint32_t i = 0; i < f->points; i += every)
        (void)printf("%12.3g %10.4f %10.4f\n", f->point[i].rate, digits_printed(f->point[i].loss),
                     digits_printed(f->point[i].smooth));
    if (isnan(f->steepest))
        (void)printf("the loss never fell: no rate is suggested\n");
    else
        (void)printf("suggested training.learning_rate: %.2g, at which the loss falls fastest, or "
                     "%.2g, a tenth of the rate with the lowest loss\n",
                     f->steepest, digits_printed(f->tenth_of_least));
    (void)printf("%s\n", PRINTABLE(path));
    return ERR_OK;
}

enum err lr_finder_run(const struct job *job, const struct model *model, struct source *source,
                       const char *output, struct errmsg *e)
{
    struct lr_found *found = mem_zalloc(1, sizeof *found);
    if (!found)
        return err_memory(e);
    enum err err = find_rates(job, model, source, found, e);
    if (!err)
        err = lr_finder_report(found, output, e);
    mem_free(found);
    return err;
}
