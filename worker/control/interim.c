#include "worker/control/interim.h"

#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "worker/control/control_http.h"
#include "worker/control/job_page.h"

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct interim *i = ctx;
    control_http_metrics(m, i->job, i->cluster);
    process_state_metrics(m, i->state);
    tls_metrics(m);
}

static json_t *on_status(void *ctx)
{
    const struct interim *i = ctx;
    json_t *all = control_http_status(i->job, i->cluster, NULL, i->state, NULL, false);
    if (json_object_set_new(all, "system", vitals_json()) ||
        json_object_set_new(all, "tls", tls_json())) {
        json_decref(all);
        return NULL;
    }
    return all;
}

/* The process needs no peers at this stage, so it is always ready. */
static const struct http_ops ops = {.metrics = on_metrics, .status = on_status};
static const struct http_ops chief_ops = {
    .metrics = on_metrics, .status = on_status, .files = job_page};

enum err interim_begin(struct interim *i, int fd, const struct job *job,
                       const struct cluster *cluster, enum process_state state, struct errmsg *e)
{
    *i = (struct interim){.job = job, .cluster = cluster, .state = state};
    return http_thread_new(&i->thread, fd, cluster->is_chief ? &chief_ops : &ops, i, e);
}

void interim_end(struct interim *i)
{
    http_thread_free(i->thread);
    i->thread = NULL;
}
