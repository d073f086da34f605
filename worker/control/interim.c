#include "worker/control/interim.h"

#include "common/base/json.h"
#include "common/process/loading.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "worker/control/control_http.h"
#include "worker/control/job_page.h"

static void put_loading(struct metrics *m)
{
    struct loading now;
    if (!loading_look(&now))
        return;
    metrics_gauge(m, "gradwire_loading_bytes", "Bytes of the data that were read.",
                  (double)now.bytes);
    metrics_gauge(m, "gradwire_loading_total_bytes", "Bytes of the files of the data.",
                  (double)now.of_bytes);
    metrics_gauge(m, "gradwire_loading_rows", "Rows of the data that were read.", (double)now.rows);
    metrics_gauge(m, "gradwire_loading_left_seconds", "Time left until the data are read.",
                  now.left_s);
}

/* null: it does not load. */
static json_t *loading_json(void)
{
    struct loading now;
    if (!loading_look(&now))
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:o}", "bytes", (json_int_t)now.bytes, "of_bytes",
                     (json_int_t)now.of_bytes, "rows", (json_int_t)now.rows, "left_s",
                     json_number(now.left_s));
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct interim *i = ctx;
    control_http_metrics(m, i->job, i->cluster);
    process_state_metrics(m, i->state);
    put_loading(m);
    tls_metrics(m);
}

static json_t *on_status(void *ctx)
{
    const struct interim *i = ctx;
    json_t *all = control_http_status(i->job, i->cluster, NULL, i->state, NULL, false);
    if (json_object_set_new(all, "loading", loading_json()) ||
        json_object_set_new(all, "system", vitals_json()) ||
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
