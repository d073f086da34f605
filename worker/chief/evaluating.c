/* An evaluation by the chief: the weights it is of, its rows, its time, and the letter with its result. */
#include "worker/chief/evaluating.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

bool evaluating_is_ready(const struct evaluating *v)
{
    struct session *session = driver_session(v->parts->driver);
    if (!v->parts->averages || session_take_averages(session))
        return true;
    session_pull_averages(session);
    return false;
}

/* Reads rows of tables from the shards. */
static enum err look_rows(void *ctx, struct row_values *v, struct errmsg *e)
{
    const struct evaluating *of = ctx;
    return driver_look(of->parts->driver, v, e);
}

enum err evaluating_run(struct evaluating *v, struct evaluation *out, struct errmsg *e)
{
    struct driver *driver = v->parts->driver;
    const struct row_reader rows = {.read = look_rows, .ctx = v};
    double began = clock_now_s();
    struct sums sums;
    e->text[0] = '\0';
    enum err err = evaluator_run(v->evaluator, evaluating_weights(v), &rows, &sums, e);
    if (err)
        return err;
    struct evaluation *copy = mem_zalloc(1, sizeof *copy);
    if (!copy) /* the next checkpoint would have an earlier evaluation */
        return err_memory_for(e, "an evaluation");
    uint64_t step = session_step(driver_session(driver));
    *copy = (struct evaluation){.step = step, .loss = sums.loss};
    memcpy(copy->metric, sums.metric, sizeof copy->metric);
    *out = *copy;
    control_post(driver_control(driver), CONTROL_EVALUATED, step, copy, mem_free);
    double took_s = clock_now_s() - began;
    driver_paused(driver, took_s);
    metrics_observe(&driver_meter(driver)->evaluation, took_s);
    return ERR_OK;
}
