#include "worker/evaluator_http.h"

#include <math.h>
#include <pthread.h>

#include "common/http.h"
#include "common/json_number.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/mem.h"
#include "common/msg.h"
#include "common/process_state.h"
#include "common/vitals.h"
#include "worker/model/metric.h"

struct evaluator_http {
    const struct job *job;
    const struct cluster *cluster;
    const struct evaluator_meter *meter;
    struct loop loop;
    struct mailbox in; /* any letter ends it */
    struct http *http;
    pthread_t pthread;
};

/* It listens, and it needs nobody to begin. */
static const char *on_not_ready(void *ctx)
{
    (void)ctx;
    return NULL;
}

static enum process_state state_of(const struct evaluator_http *h)
{
    return atomic_load(&h->meter->seen) ? STATE_EVALUATING : STATE_WAITING;
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct evaluator_http *h = ctx;
    const struct evaluator_meter *of = h->meter;
    uint64_t results = atomic_load(&of->results);
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE, "Always 1; whose process this is.");
    metrics_put(m, 1, "job", h->job->name, "role", role_str(h->cluster->role), "index",
                METRICS_NUMBER(h->cluster->index), "update",
                job_update_word(h->job->training.update), NULL);
    process_state_metrics(m, state_of(h));
    metrics_counter(m, "gradwire_evaluator_results_total",
                    "Checkpoints that this process has evaluated.", results);
    if (results == 0)
        return;
    metrics_gauge(m, "gradwire_evaluator_step", "Of the checkpoint that was evaluated last.",
                  (double)atomic_load(&of->step));
    metrics_gauge(m, "gradwire_evaluator_seconds", "What its evaluation took.",
                  atomic_load(&of->seconds));
    metrics_family(m, "gradwire_evaluator_result", METRICS_GAUGE, "What it came to.");
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
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:b, s:s, s:s, s:I, s:o, s:o}", "process",
                     "evaluator 0", "version", GRADWIRE_VERSION, "role", "evaluator", "index", 0,
                     "job", h->job->name, "update", job_update_word(h->job->training.update),
                     "ready", 1, "state", process_state_word(state_of(h)), "waiting_for",
                     seen ? "the next checkpoint" : "the first checkpoint", "results",
                     (json_int_t)atomic_load(&h->meter->results), "last", last_json(h), "system",
                     vitals_json());
}

static const struct http_ops ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status};

static void on_letter(void *arg, struct mail *m)
{
    struct evaluator_http *h = arg;
    (void)m;
    loop_stop(&h->loop);
}

static void *run(void *arg)
{
    struct evaluator_http *h = arg;
    if (loop_run(&h->loop))
        log_warn("HTTP answers no more: the event loop failed");
    return NULL;
}

enum err evaluator_http_new(struct evaluator_http **out, int fd, const struct job *job,
                            const struct cluster *cluster, const struct evaluator_meter *meter,
                            struct errmsg *e)
{
    *out = NULL;
    if (fd < 0)
        return ERR_OK;
    struct evaluator_http *h = mem_zalloc(1, sizeof *h);
    if (!h)
        goto no_memory;
    h->job = job;
    h->cluster = cluster;
    h->meter = meter;
    if (loop_init(&h->loop))
        goto no_loop;
    if (mailbox_init(&h->in, &h->loop, on_letter, h))
        goto no_mailbox;
    if (http_open_again(&h->http, &h->loop, fd, &ops, h))
        goto no_http;
    if (pthread_create(&h->pthread, NULL, run, h) == 0) {
        *out = h;
        return ERR_OK;
    }
    http_close(h->http);
no_http:
    mailbox_close(&h->in);
no_mailbox:
    loop_close(&h->loop);
no_loop:
    mem_free(h);
no_memory:
    return err_set(e, ERR_NOMEM, "no memory for HTTP");
}

void evaluator_http_free(struct evaluator_http *h)
{
    struct mail quit = {.type = 0};
    if (!h)
        return;
    if (mailbox_post(&h->in, &quit))
        log_warn("the thread of HTTP cannot be told to end");
    pthread_join(h->pthread, NULL);
    http_close(h->http);
    mailbox_close(&h->in);
    loop_close(&h->loop);
    mem_free(h);
}
