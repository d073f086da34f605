#include "worker/control/interim.h"

#include <stdio.h>

#include "common/base/version.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct interim *i = ctx;
    const struct cluster *c = i->cluster;
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE, "Always 1; whose process this is.");
    metrics_put(m, 1, "job", i->job->name, "role", role_str(c->role), "index",
                METRICS_NUMBER(c->index), "worker", METRICS_NUMBER(c->worker_id), "update",
                job_update_word(i->job->training.update), NULL);
    metrics_gauge(m, "gradwire_chief", "1 where this process is the chief.", c->is_chief);
    process_state_metrics(m, i->state);
    tls_metrics(m);
}

static json_t *on_status(void *ctx)
{
    const struct interim *i = ctx;
    const struct cluster *c = i->cluster;
    char name[32];
    (void)snprintf(name, sizeof name, "%s %u", role_str(c->role), c->index);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:s, s:b, s:n, s:s, s:n, s:b, s:o, s:o}",
                     "process", name, "version", GRADWIRE_VERSION, "role", role_str(c->role),
                     "index", (int)c->index, "worker", (int)c->worker_id, "is_chief", c->is_chief,
                     "job", i->job->name, "update", job_update_word(i->job->training.update),
                     "ready", 1, "not_ready", "state", process_state_word(i->state), "waits_for",
                     "draining", 0, "system", vitals_json(), "tls", tls_json());
}

/* It listens, and nobody has to be there for that: so it is always ready. */
static const struct http_ops ops = {.metrics = on_metrics, .status = on_status};

enum err interim_begin(struct interim *i, int fd, const struct job *job,
                       const struct cluster *cluster, enum process_state state, struct errmsg *e)
{
    *i = (struct interim){.job = job, .cluster = cluster, .state = state};
    return http_thread_new(&i->thread, fd, &ops, i, e);
}

void interim_end(struct interim *i)
{
    http_thread_free(i->thread);
    i->thread = NULL;
}
