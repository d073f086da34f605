#include "worker/evaluator/evaluator_http.h"

#include "common/base/json.h"
#include "common/process/process_state.h"
#include "common/base/version.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "model/metric.h"

static enum process_state state_of(const struct evaluator_http *h)
{
    return atomic_load(&h->meter->seen) ? STATE_EVALUATING : STATE_WAITING;
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct evaluator_http *h = ctx;
    const struct evaluator_meter *of = h->meter;
    uint64_t results = atomic_load(&of->results);
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE,
                   "Always 1; the labels name this process.");
    metrics_put(m, 1, "job", h->job->name, "role", role_str(h->cluster->role), "index",
                METRICS_NUMBER(h->cluster->index), "update",
                job_update_word(h->job->training.update), NULL);
    process_state_metrics(m, state_of(h));
    tls_metrics(m);
    metrics_counter(m, "gradwire_evaluator_results_total",
                    "Checkpoints that this process has evaluated.", results);
    if (results == 0)
        return;
    metrics_gauge(m, "gradwire_evaluator_step", "Step of the checkpoint that was evaluated last.",
                  (double)atomic_load(&of->step));
    metrics_gauge(m, "gradwire_evaluator_seconds", "Duration of the last evaluation.",
                  atomic_load(&of->seconds));
    metrics_family(m, "gradwire_evaluator_result", METRICS_GAUGE,
                   "Results of the last evaluation.");
    metrics_put(m, atomic_load(&of->loss), "name", "loss", NULL);
    for (uint32_t i = 0; i < h->job->model.metrics; i++)
        metrics_put(m, atomic_load(&of->metric[i]), "name", metric_name(h->job->model.metric[i]),
                    NULL);
}

static json_t *last_json(const struct evaluator_http *h)
{
    const struct evaluator_meter *of = h->meter;
    if (atomic_load(&of->results) == 0)
        return json_null();
    json_t *last = json_pack("{s:I, s:I, s:o, s:o}", "cut", (json_int_t)atomic_load(&of->cut),
                             "step", (json_int_t)atomic_load(&of->step), "seconds",
                             json_number(atomic_load(&of->seconds)), "loss",
                             json_number(atomic_load(&of->loss)));
    for (uint32_t i = 0; last && i < h->job->model.metrics; i++)
        (void)json_object_set_new(last, metric_name(h->job->model.metric[i]),
                                  json_number(atomic_load(&of->metric[i])));
    return last;
}

static json_t *on_status(void *ctx)
{
    const struct evaluator_http *h = ctx;
    bool seen = atomic_load(&h->meter->seen);
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:b, s:s, s:s, s:I, s:o, s:o, s:o}", "process",
                     "evaluator 0", "version", GRADWIRE_VERSION, "role", "evaluator", "index", 0,
                     "job", h->job->name, "update", job_update_word(h->job->training.update),
                     "ready", 1, "state", process_state_word(state_of(h)), "waiting_for",
                     seen ? "the next checkpoint" : "the first checkpoint", "results",
                     (json_int_t)atomic_load(&h->meter->results), "last", last_json(h), "system",
                     vitals_json(), "tls", tls_json());
}

/* The evaluator needs no peers to begin, so it is always ready. */
static const struct http_ops ops = {.metrics = on_metrics, .status = on_status};

enum err evaluator_http_begin(struct evaluator_http *h, int fd, const struct job *job,
                              const struct cluster *cluster, const struct evaluator_meter *meter,
                              struct errmsg *e)
{
    *h = (struct evaluator_http){.job = job, .cluster = cluster, .meter = meter};
    return http_thread_new(&h->thread, fd, &ops, h, e);
}
