#include "worker/tensorboard/curves.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/math/optimizer.h"

static const double every_s = 1; /* interval of points within an epoch, in seconds */

static void forget(struct curves *c, uint64_t step, double now_s)
{
    c->seen = c->epoch_step = step;
    c->window = (struct sums){0};
    c->examples = 0;
    c->epoch_s = c->window_s = now_s;
    c->paused_s = 0;
}

/* Write all points from `step` on again. The first step of a run shows where it resumes: a chief that takes over
 * continues at the shards' step, not at its last cut. */
static void begin(struct curves *c, uint64_t step, double now_s)
{
    forget(c, step - 1, now_s);
    events_restart(c->events, EVENTS_TRAIN, step);
    if (c->begun)
        return;
    c->begun = true;
    struct events_note *n = events_note(EVENTS_TRAIN, step);
    events_text(n, "job", c->job->canonical);
    events_post(c->events, n);
}

/* ---- life ---- */

void curves_init(struct curves *c, const struct job *job, const struct layout *layout,
                 uint64_t batches_per_epoch, uint64_t rows, const char *logs,
                 struct disk_thread *disk)
{
    *c = (struct curves){.job = job,
                         .layout = layout,
                         .batches_per_epoch = batches_per_epoch,
                         .rows = rows,
                         .events = job->logs.tensorboard ? events_new(logs, disk) : NULL};
    struct events_note *session = c->events ? events_note(EVENTS_SESSION, 0) : NULL;
    events_session(session, job);
    events_post(c->events, session);
}

void curves_close(struct curves *c, bool success)
{
    struct events_note *end = c->events ? events_note(EVENTS_SESSION, 0) : NULL;
    events_session_end(end, success);
    events_post(c->events, end);
    events_free(c->events);
    c->events = NULL;
}

/* ---- training ---- */

static void put_results(struct events_note *n, const struct job *job, const char *prefix,
                        const char *suffix, const struct evaluation *found)
{
    const struct results r = results_of(job, found);
    for (uint32_t i = 0; i < r.n; i++)
        events_scalar(n, prefix, r.of[i].name, suffix, r.of[i].value);
}

static void put_means(struct events_note *n, const struct job *job, const char *prefix,
                      const struct sums *sums)
{
    const struct evaluation means =
        evaluation_of_sums(job, sums->examples, sums->loss, sums->metric);
    if (sums->examples > 0)
        put_results(n, job, prefix, "", &means);
}

void curves_step(struct curves *c, uint64_t step, const struct sums *sums, double examples_per_s,
                 double now_s)
{
    if (!c->events)
        return;
    bool rolled_back = step <= c->seen && c->job->training.update == UPDATE_SYNC;
    if (!c->begun || rolled_back)
        begin(c, step, now_s);
    c->seen = step > c->seen ? step : c->seen;
    c->examples += sums->examples;
    sums_add(&c->window, sums);
    if (now_s - c->window_s < every_s)
        return;
    struct events_note *n = events_note(EVENTS_TRAIN, c->seen);
    put_means(n, c->job, "batch_", &c->window);
    if (isfinite(examples_per_s))
        events_scalar(n, "batch_", "examples_per_second", "", examples_per_s);
    events_post(c->events, n);
    c->window = (struct sums){0};
    c->window_s = now_s;
}

void curves_paused(struct curves *c, double seconds)
{
    c->paused_s += seconds;
    c->window_s += seconds;
}

static void put_histograms(const struct curves *c, struct events_note *n, const float *w,
                           const struct events_values *gradient, struct pool *pool)
{
    const struct layout *l = c->layout;
    const struct events_values weights = {&w, 1, 1};
    struct events_histogram *h = c->job->logs.histograms ? mem_zalloc(l->tensors, sizeof *h) : NULL;
    if (!h)
        return;
    events_histograms(h, l, &weights, pool);
    for (uint32_t i = 0; i < l->tensors; i++)
        events_histogram(n, l->tensor[i].name, "", &h[i]);
    if (gradient->blocks)
        events_histograms(h, l, gradient, pool);
    for (uint32_t i = 0; gradient->blocks && i < l->tensors; i++)
        if (l->tensor[i].role == TENSOR_WEIGHT) /* a push for a statistic is not a gradient */
            events_histogram(n, l->tensor[i].name, "_grad", &h[i]);
    mem_free(h);
}

/* Examples of all workers: in async the chief has only seen its own batches. */
static double examples_of_epoch(const struct curves *c, uint64_t step)
{
    if (c->job->training.update == UPDATE_SYNC)
        return c->examples;
    return (double)(step - c->epoch_step) / (double)c->batches_per_epoch * (double)c->rows;
}

void curves_epoch(struct curves *c, uint64_t step, const struct sums *trained, const float *w,
                  const struct events_values *gradient, struct pool *pool, double now_s)
{
    if (!c->events || step <= c->epoch_step || !(c->examples > 0))
        return; /* the epoch was made before this run began */
    const struct optimizer *o = &c->job->optimizer;
    uint64_t updates = optimizer_updates(o, step);
    double seconds = now_s - c->epoch_s - c->paused_s;
    struct events_note *n = events_note(EVENTS_TRAIN, step);
    put_means(n, c->job, "epoch_", trained);
    events_scalar(n, "epoch_", "learning_rate", "", optimizer_rate(o, updates ? updates : 1));
    if (seconds > 0)
        events_scalar(n, "epoch_", "examples_per_second", "", examples_of_epoch(c, step) / seconds);
    if (n)
        put_histograms(c, n, w, gradient, pool);
    events_post(c->events, n);
    uint64_t seen = c->seen > step ? c->seen : step;
    forget(c, step, now_s);
    c->seen = seen;
}

/* ---- evaluation ---- */

void curves_put_evaluation(struct events *ev, const struct job *job, uint64_t step, bool ends_epoch,
                           const struct evaluation *eval)
{
    static const char *const before[] = {"evaluation_", "epoch_"};
    static const char *const after[] = {"_vs_iterations", ""};
    struct events_note *n = ev ? events_note(EVENTS_EVAL, step) : NULL;
    for (int which = 0; which < 1 + ends_epoch; which++)
        put_results(n, job, before[which], after[which], eval);
    events_post(ev, n);
}

void curves_evaluated(struct curves *c, uint64_t step, const struct evaluation *eval)
{
    if (!c->events)
        return;
    /* For the first evaluation of this run, and for a step that was evaluated before: drop its points, and all later
     * ones. */
    if (step <= c->evaluated || c->evaluated == 0)
        events_restart(c->events, EVENTS_EVAL, step);
    c->evaluated = step;
    curves_put_evaluation(c->events, c->job, step, true, eval);
}
