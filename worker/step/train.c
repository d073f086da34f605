#include "worker/step/train.h"

#include <errno.h>
#include <math.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/process/cgroup.h"
#include "common/base/mem.h"
#include "model/blas.h"

enum { LOADER_DEPTH_MIN = 4 };

struct train {
    struct train_config config;
    struct train_parts is;
    struct loader *loader;
    struct row_slices by; /* metrics.by */
    uint64_t task_name;
    bool tables;
    struct batch batch[2]; /* tables: the running task's, and the next one's */
    struct {               /* the last prediction for the loader */
        struct generation generation;
        uint64_t batch, end;
        uint32_t first, leaves;
    } want;
};

/* ---- a step ---- */

static void want_rows(struct train *t, const struct session_task *task)
{
    struct source *source = t->config.source;
    const struct session_terms *terms = session_terms(driver_session(t->is.driver));
    uint32_t first = task->first[0], leaves = 0;
    for (uint32_t i = 0; i < task->runs; i++)
        leaves = task->first[i] + task->count[i] - first;
    if (task->work && task->work->redo)
        return; /* gathered on request; the prediction is the next epoch */
    if (!generation_equal(terms->generation, t->want.generation) || task->batch != t->want.batch ||
        task->end != t->want.end || first != t->want.first || leaves != t->want.leaves)
        loader_want(t->loader, task->batch, task->end, first, leaves);
    if (source->type->soon)
        source->type->soon(source, task->then);
    t->want.generation = terms->generation;
    t->want.batch = task->batch + 1;
    t->want.end = task->end;
    t->want.first = first;
    t->want.leaves = leaves;
}

/* Elements [from, to) of a node are final: ranges come from the end of the block. */
static void push_range(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to)
{
    struct train *t = ctx;
    if (from == 0 && fault_breaks(&t->config.fault, t->task_name))
        n->value[0] = NAN;
    driver_range(t->is.driver, n, from, to);
}

/* Data that are read in mid-job are found to be wrong when others have been trained on. */
static void stop(struct train *t, enum err err, const struct errmsg *e)
{
    const bool trained = err == ERR_INPUT && t->task_name > 0;
    driver_stop(t->is.driver, trained ? 1 : err_exit_code(err), e->text);
}

/* Tables: the guess was wrong, or there was none: request the rows of this task, which is returned again with them. */
static void ask_rows(struct train *t, const struct session_task *task)
{
    struct errmsg e = {""};
    t->task_name = task->name;
    want_rows(t, task);
    batch_release(&t->batch[1], t->loader);
    enum err err = batch_take(&t->batch[0], t->loader, task, &e);
    if (err)
        stop(t, err, &e);
    else
        driver_ask(t->is.driver, task, &t->batch[0].rows);
}

/* Tables: the rows to request with the push of the running task. False: none. */
static bool guess(struct train *t, const struct batch *now, struct driver_ask *next, enum err *err,
                  struct errmsg *e)
{
    struct batch *other = &t->batch[now == &t->batch[0]];
    next->rows = &other->rows;
    if (!session_guess(driver_session(t->is.driver), &next->task))
        return false;
    *err = batch_take(other, t->loader, &next->task, e);
    return *err == ERR_OK;
}

/* Compute the batch, pushing ranges as they become final, then push the rest. */
static void step(struct train *t, const struct session_task *task)
{
    struct errmsg e = {""};
    struct batch *batch = t->tables ? &t->batch[batch_is(&t->batch[0], task) ? 0 : 1] : NULL;
    struct driver_ask next;
    double began_s = clock_now_s();
    t->task_name = task->name;
    want_rows(t, task);
    driver_begin(t->is.driver, task, order_batch_rows(&t->config.source->order, task->batch));
    enum err err = gradient_compute(t->is.gradient, task, t->is.w, batch, push_range, t, &e);
    bool asks = !err && batch && guess(t, batch, &next, &err, &e);
    if (err) {
        stop(t, err, &e);
        return;
    }
    /* A straggler's sleep: this thread does nothing else, as if it computed. */
    double s = fault_sleep_s(&t->config.fault, clock_now_s() - began_s);
    struct timespec time = {(time_t)s, (long)((s - floor(s)) * 1e9)};
    while (s > 0 && nanosleep(&time, &time) && errno == EINTR)
        ;
    uint32_t nodes;
    struct gradient_node *node = gradient_nodes(t->is.gradient, &nodes);
    const struct sums sums = gradient_sums(t->is.gradient);
    driver_push(t->is.driver, node, nodes, &sums, asks ? &next : NULL);
    if (batch)
        batch_release(batch, t->loader);
}

void train_run(struct train *t, struct control *control, const struct driver_chief *chief,
               void *ctx, struct driver_result *result)
{
    struct session_task task;
    driver_start(t->is.driver, control, chief, ctx, result);
    while (driver_next(t->is.driver, &task)) /* waits, and pulls */
        task.kind == TASK_ROWS ? ask_rows(t, &task) : step(t, &task);
}

/* ---- life ---- */

const struct train_parts *train_parts(const struct train *t)
{
    return &t->is;
}

static enum err new_parts(struct train *t, struct errmsg *e)
{
    const struct train_config *c = &t->config;
    const struct job *job = c->job;
    struct train_parts *is = &t->is;
    const struct layout *layout = model_layout(c->model);
    bool averages = job->optimizer.use_ema && c->cluster->is_chief;
    uint32_t threads = job->worker.threads ? job->worker.threads : cores_usable();
    /* tables: the microbatches of two tasks are held */
    uint32_t depth = (layout->rows ? 5 : 3) * job->training.microbatches;
    is->w = mem_floats(layout->elems);
    t->tables = layout->rows != NULL;
    for (int i = 0; i < 2; i++)
        batch_init(&t->batch[i], layout->rows);
    if (averages)
        is->averages = mem_floats(layout->elems);
    if (!is->w || (averages && !is->averages))
        return err_memory_for(e, "the parameters");
    enum err err = blas_take(threads, e);
    if (!err)
        err = pool_new(&is->pool, threads, e);
    if (!err)
        err = loader_new(&t->loader, c->source, depth < LOADER_DEPTH_MIN ? LOADER_DEPTH_MIN : depth,
                         e);
    if (!err)
        err = row_slices_init(&t->by, job, e);
    if (!err)
        err = gradient_new(&is->gradient, c->model, is->pool, t->loader, &t->by,
                           order_leaf_rows_max(&c->source->order), job->training.seed, e);
    if (err)
        return err;
    const struct driver_config driver = {.job = job,
                                         .cluster = c->cluster,
                                         .layout = layout,
                                         .contents = c->source->contents,
                                         .blas = model_blas(c->model),
                                         .batches_per_epoch = order_batches(&c->source->order),
                                         .threads = pool_threads(is->pool),
                                         .delays = fault_delays(&c->fault),
                                         .w = is->w,
                                         .averages = is->averages};
    return driver_new(&is->driver, &driver, e);
}

enum err train_new(struct train **out, const struct train_config *config, struct errmsg *e)
{
    struct train *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return err_set(e, ERR_NOMEM, "no memory to train");
    t->config = *config;
    enum err err = new_parts(t, e);
    if (err) {
        train_free(t);
        return err;
    }
    *out = t;
    return ERR_OK;
}

void train_free(struct train *t)
{
    if (!t)
        return;
    driver_free(t->is.driver); /* first: its unsent parts are in the gradient's blocks */
    gradient_free(t->is.gradient);
    for (int i = 0; t->loader && i < 2; i++)
        batch_release(&t->batch[i], t->loader);
    for (int i = 0; i < 2; i++)
        batch_close(&t->batch[i]);
    loader_free(t->loader);
    pool_free(t->is.pool);
    mem_free(t->is.w);
    mem_free(t->is.averages);
    mem_free(t);
}
