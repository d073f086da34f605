#include "worker/control/control_http.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/serve/http.h"
#include "common/process/process_state.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "worker/control/meter.h"

/* It listens, and it needs nobody for that. A worker that is not the chief, and that was told to go, is dialed by nobody
 * any more; the chief is reached to its end. */
static const char *on_not_ready(void *ctx)
{
    const struct control *c = ctx;
    return c->going && !c->config.cluster->is_chief ? "told to go: it leaves" : NULL;
}

static enum process_state state_of(const char *waits_for)
{
    return waits_for ? STATE_WAITING : STATE_TRAINING;
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct control *c = ctx;
    const struct cluster *cluster = c->config.cluster;
    const struct job *job = c->config.job;
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE, "Always 1; whose process this is.");
    metrics_put(m, 1, "job", job->name, "role", role_str(cluster->role), "index",
                METRICS_NUMBER(cluster->index), "worker", METRICS_NUMBER(cluster->worker_id),
                "update", job_update_word(job->training.update), NULL);
    metrics_gauge(m, "gradwire_chief", "1 where this process is the chief.", cluster->is_chief);
    metrics_gauge(m, "gradwire_draining", "1 after SIGTERM, until this process ends.", c->going);
    process_state_metrics(m, state_of(c->ops->waits_for(c->role)));
    meter_metrics(c->config.meter, m);
    c->ops->metrics(c->role, m);
    tls_metrics(m);
}

static json_t *training_json(const struct meter *m)
{
    double loss = atomic_load_explicit(&m->loss, memory_order_relaxed);
    return json_pack(
        "{s:I, s:I, s:I, s:f, s:I, s:o, s:I, s:I}", "generation",
        (json_int_t)atomic_load_explicit(&m->generation, memory_order_relaxed), "incarnation",
        (json_int_t)atomic_load_explicit(&m->incarnation, memory_order_relaxed), "tasks",
        (json_int_t)atomic_load_explicit(&m->tasks, memory_order_relaxed), "examples",
        atomic_load_explicit(&m->examples, memory_order_relaxed), "seen_step",
        (json_int_t)atomic_load_explicit(&m->step, memory_order_relaxed), "loss",
        isfinite(loss) ? json_real(loss) : json_null(), "sent_bytes",
        (json_int_t)atomic_load_explicit(&m->bytes_out, memory_order_relaxed), "received_bytes",
        (json_int_t)atomic_load_explicit(&m->bytes_in, memory_order_relaxed));
}

static json_t *on_status(void *ctx)
{
    const struct control *c = ctx;
    const struct cluster *cluster = c->config.cluster;
    const struct job *job = c->config.job;
    const char *not_ready = on_not_ready(ctx), *waits_for = c->ops->waits_for(c->role);
    char name[32];
    (void)snprintf(name, sizeof name, "%s %u", role_str(cluster->role), cluster->index);
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:s, s:b, s:s?, s:s, s:s?, s:b, s:o, s:o}", "process",
        name, "version", GRADWIRE_VERSION, "role", role_str(cluster->role), "index",
        (int)cluster->index, "worker", (int)cluster->worker_id, "is_chief", cluster->is_chief,
        "job", job->name, "update", job_update_word(job->training.update), "ready",
        not_ready == NULL, "not_ready", not_ready, "state", process_state_word(state_of(waits_for)),
        "waits_for", waits_for, "draining", c->going, "training", training_json(c->config.meter),
        "tls", tls_json());
    if (all &&
        (c->ops->status(c->role, all) || json_object_set_new(all, "system", vitals_json()) != 0)) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static const struct http_ops control_http_ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status};

enum err control_http_open(struct control *c)
{
    return http_open_again(&c->http, &c->loop, c->config.http_fd, &control_http_ops, c);
}

void control_http_close(struct control *c)
{
    http_close(c->http);
    c->http = NULL;
}
