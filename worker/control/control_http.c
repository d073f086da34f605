#include "worker/control/control_http.h"

#include <math.h>
#include <stdio.h>

#include "common/base/json.h"
#include "common/serve/http.h"
#include "common/process/process_state.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "worker/control/meter.h"
#include "worker/control/job_page.h"

/* The process is ready while it listens. A worker that is not the chief, and that is stopping, is contacted by no
 * process any more; the chief is needed to its end. */
static const char *on_not_ready(void *ctx)
{
    const struct control *c = ctx;
    return c->going && !c->config.cluster->is_chief ? "asked to stop" : NULL;
}

static enum process_state state_of(const char *waits_for)
{
    return waits_for ? STATE_WAITING : STATE_TRAINING;
}

void control_http_metrics(struct metrics *m, const struct job *job, const struct cluster *cluster)
{
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE,
                   "Always 1; the labels name this process.");
    metrics_put(m, 1, "job", job->name, "role", role_str(cluster->role), "index",
                METRICS_NUMBER(cluster->index), "worker", METRICS_NUMBER(cluster->worker_id),
                "update", job_update_word(job->training.update), NULL);
    metrics_gauge(m, "gradwire_chief", "1 if this process is the chief.", cluster->is_chief);
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct control *c = ctx;
    control_http_metrics(m, c->config.job, c->config.cluster);
    metrics_gauge(m, "gradwire_draining", "1 after SIGTERM, until this process ends.", c->going);
    process_state_metrics(m, state_of(c->ops->waits_for(c->role)));
    meter_metrics(c->config.meter, m);
    c->ops->metrics(c->role, m);
    tls_metrics(m);
}

static json_t *training_json(const struct meter *m)
{
    double loss = m->loss;
    return json_pack("{s:I, s:I, s:I, s:f, s:I, s:o, s:I, s:I}", "generation",
                     (json_int_t)m->generation, "incarnation", (json_int_t)m->incarnation, "tasks",
                     (json_int_t)m->tasks, "examples", m->examples, "seen_step",
                     (json_int_t)m->step, "loss", isfinite(loss) ? json_real(loss) : json_null(),
                     "sent_bytes", (json_int_t)m->bytes_out, "received_bytes",
                     (json_int_t)m->bytes_in);
}

json_t *control_http_status(const struct job *job, const struct cluster *cluster,
                            const char *not_ready, enum process_state state, const char *waits_for,
                            bool going)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s %u", role_str(cluster->role), cluster->index);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:s, s:b, s:s?, s:s, s:o, s:b}",
                     "process", name, "version", GRADWIRE_VERSION, "role", role_str(cluster->role),
                     "index", (int)cluster->index, "worker", (int)cluster->worker_id, "is_chief",
                     cluster->is_chief, "job", job->name, "update",
                     job_update_word(job->training.update), "ready", not_ready == NULL, "not_ready",
                     not_ready, "state", process_state_word(state), "waits_for",
                     json_text(waits_for), "draining", going);
}

/* null: the run has not ended. */
static json_t *end_json(const struct control *c)
{
    return c->ended
               ? json_pack("{s:i, s:o}", "exit_code", c->exit_code, "text", json_text(c->end_text))
               : json_null();
}

static json_t *on_status(void *ctx)
{
    const struct control *c = ctx;
    const char *waits_for = c->ops->waits_for(c->role);
    json_t *all = control_http_status(c->config.job, c->config.cluster, on_not_ready(ctx),
                                      state_of(waits_for), waits_for, c->going);
    if (json_object_set_new(all, "end", end_json(c)) ||
        json_object_set_new(all, "training", training_json(c->config.meter)) ||
        json_object_set_new(all, "tls", tls_json()) || c->ops->status(c->role, all) ||
        json_object_set_new(all, "system", vitals_json())) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static const struct http_ops control_http_ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status};
static const struct http_ops chief_http_ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status, .files = job_page};

enum err control_http_open(struct control *c)
{
    const struct http_ops *ops = c->config.cluster->is_chief ? &chief_http_ops : &control_http_ops;
    return http_open_again(&c->http, &c->loop, c->config.http_fd, ops, c);
}

void control_http_close(struct control *c)
{
    http_close(c->http);
    c->http = NULL;
}
