#include "worker/control/interim.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/wire/msg.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "worker/control/http_thread.h"

struct interim {
    const struct job *job;
    const struct cluster *cluster;
    enum process_state state;
    struct http_thread *thread;
};

/* It listens: nobody has to be there for that. */
static const char *on_not_ready(void *ctx)
{
    (void)ctx;
    return NULL;
}

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

static const struct http_ops ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status};

enum err interim_new(struct interim **out, int fd, const struct job *job,
                     const struct cluster *cluster, enum process_state state, struct errmsg *e)
{
    *out = NULL;
    if (fd < 0)
        return ERR_OK;
    struct interim *i = mem_zalloc(1, sizeof *i);
    if (!i)
        return err_set(e, ERR_NOMEM, "no memory for HTTP");
    i->job = job;
    i->cluster = cluster;
    i->state = state;
    enum err err = http_thread_new(&i->thread, fd, &ops, i, e);
    if (err)
        mem_free(i);
    else
        *out = i;
    return err;
}

void interim_free(struct interim *i)
{
    if (!i)
        return;
    http_thread_free(i->thread);
    mem_free(i);
}
