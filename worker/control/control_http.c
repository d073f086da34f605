/* Answers HTTP for a worker's process: from the control thread while it trains, from a thread of its own before. */
#include "worker/control/control_http.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/loop.h"
#include "common/net/mailbox.h"
#include "common/net/tls.h"
#include "common/process/process_state.h"
#include "common/serve/http.h"
#include "common/serve/vitals.h"
#include "worker/control/meter.h"
#include "worker/control/page_bytes.h" /* CMake makes it */

/* The page of a job, which the chief serves: worker/control/page/ as it was when this program was built. */
static const struct http_file job_page[] = {
    {"/", "text/html; charset=utf-8", page_html, sizeof page_html},
    {"/page.css", "text/css; charset=utf-8", page_css, sizeof page_css},
    {"/page.js", "text/javascript; charset=utf-8", page_js, sizeof page_js},
    {0},
};

/* ---- a thread of its own ---- */

struct http_thread {
    struct loop loop;
    struct mailbox in; /* any letter stops the thread */
    struct http *http;
    pthread_t pthread;
};

static void on_letter(void *arg, struct mail *m)
{
    struct http_thread *t = arg;
    (void)m;
    loop_stop(&t->loop);
}

static void *http_thread_run(void *arg)
{
    struct http_thread *t = arg;
    if (loop_run(&t->loop))
        log_warn("HTTP is no longer served: the event loop failed");
    return NULL;
}

enum err http_thread_new(struct http_thread **out, int fd, const struct http_ops *ops, void *ctx,
                         struct errmsg *e)
{
    *out = NULL;
    if (fd < 0)
        return ERR_OK;
    struct http_thread *t = mem_zalloc(1, sizeof *t);
    enum err err = ERR_NOMEM;
    if (!t)
        goto no_memory;
    err = loop_init(&t->loop);
    if (err)
        goto no_loop;
    err = mailbox_init(&t->in, &t->loop, on_letter, t);
    if (err)
        goto no_mailbox;
    err = http_open_again(&t->http, &t->loop, fd, ops, ctx);
    if (err)
        goto no_http;
    if (pthread_create(&t->pthread, NULL, http_thread_run, t) == 0) {
        *out = t;
        return ERR_OK;
    }
    err = ERR_NOMEM;
    http_close(t->http);
no_http:
    mailbox_close(&t->in);
no_mailbox:
    loop_close(&t->loop);
no_loop:
    mem_free(t);
no_memory:
    return err_set(e, err, "HTTP cannot be served: %s", err_str(err));
}

void http_thread_free(struct http_thread *t)
{
    struct mail quit = {.type = 0};
    if (!t)
        return;
    if (mailbox_post(&t->in, &quit))
        log_warn("the HTTP thread cannot be stopped");
    pthread_join(t->pthread, NULL);
    http_close(t->http);
    mailbox_close(&t->in);
    loop_close(&t->loop);
    mem_free(t);
}

/* ---- the control thread ---- */

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

/* The beginning of all answers of a worker's process. not_ready: why the process is not ready; NULL: it is ready.
 * waits_for: what it waits for; NULL: nothing. going: it was asked to stop. Returns a new reference; NULL: no memory.
 * Thread: any. */
static void control_http_metrics(struct metrics *m, const struct job *job,
                                 const struct cluster *cluster)
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

static json_t *control_http_status(const struct job *job, const struct cluster *cluster,
                                   const char *not_ready, enum process_state state,
                                   const char *waits_for, bool going)
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

static json_t *on_status(void *ctx)
{
    const struct control *c = ctx;
    const char *waits_for = c->ops->waits_for(c->role);
    json_t *all = control_http_status(c->config.job, c->config.cluster, on_not_ready(ctx),
                                      state_of(waits_for), waits_for, c->going);
    json_t *end = c->ended ? json_pack("{s:i, s:o}", "exit_code", c->exit_code, "text",
                                       json_text(c->end_text))
                           : json_null();
    if (json_object_set_new(all, "end", end) ||
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

/* ---- before and after training ---- */

static void put_loading(struct metrics *m)
{
    struct loading now;
    if (!loading_now(&now))
        return;
    metrics_gauge(m, "gradwire_loading_bytes", "Bytes of the data that were read.",
                  (double)now.bytes);
    metrics_gauge(m, "gradwire_loading_total_bytes", "Bytes of the files of the data.",
                  (double)now.of_bytes);
    metrics_gauge(m, "gradwire_loading_rows", "Rows of the data that were read.", (double)now.rows);
    metrics_gauge(m, "gradwire_loading_left_seconds", "Time left until the data are read.",
                  now.left_s);
}

/* One family: a member of struct loading, of each worker that tells it. */
#define PUT_LOADING(m, workers, name, help, member)                                                \
    do {                                                                                           \
        metrics_family(m, "gradwire_job_worker_loading_" name, METRICS_GAUGE, help);               \
        struct loading of;                                                                         \
        for (uint32_t i = 0; i < (workers) && i < LOADING_WORKERS; i++)                            \
            if (loading_heard(i, &of))                                                             \
                metrics_put(m, (double)of.member, "worker", METRICS_NUMBER(i), NULL);              \
    } while (0)

void loading_metrics(struct metrics *m, uint32_t workers)
{
    PUT_LOADING(m, workers, "bytes", "Bytes of its data that a worker has read.", bytes);
    PUT_LOADING(m, workers, "total_bytes", "Bytes of the files of the data that a worker reads.",
                of_bytes);
    PUT_LOADING(m, workers, "rows", "Rows of its data that a worker has read.", rows);
    PUT_LOADING(m, workers, "left_seconds", "Time left until a worker has read its data.", left_s);
}

json_t *loading_json(const struct loading *now)
{
    return json_pack("{s:I, s:I, s:I, s:o}", "bytes", (json_int_t)now->bytes, "of_bytes",
                     (json_int_t)now->of_bytes, "rows", (json_int_t)now->rows, "left_s",
                     json_number(now->left_s));
}

/* The workers that read their data while this chief does. */
static json_t *arrivals_json(void)
{
    struct loading now;
    json_t *all = json_array();
    for (uint32_t i = 0; i < LOADING_WORKERS; i++) {
        if (!loading_heard(i, &now))
            continue;
        json_t *one = loading_json(&now);
        (void)json_object_set_new(one, "worker", json_integer(i));
        (void)json_array_append_new(all, one);
    }
    return all;
}

static void on_interim_metrics(void *ctx, struct metrics *m)
{
    const struct interim *i = ctx;
    control_http_metrics(m, i->job, i->cluster);
    process_state_metrics(m, i->state);
    put_loading(m);
    if (i->cluster->is_chief)
        loading_metrics(m, i->cluster->n_workers + i->cluster->separate_chief);
    tls_metrics(m);
}

static json_t *on_interim_status(void *ctx)
{
    const struct interim *i = ctx;
    struct loading now;
    json_t *all = control_http_status(i->job, i->cluster, NULL, i->state, NULL, false);
    json_t *loading = loading_now(&now) ? loading_json(&now) : json_null();
    if (json_object_set_new(all, "loading", loading) ||
        (i->cluster->is_chief && json_object_set_new(all, "arrivals", arrivals_json())) ||
        json_object_set_new(all, "system", vitals_json()) ||
        json_object_set_new(all, "tls", tls_json())) {
        json_decref(all);
        return NULL;
    }
    return all;
}

/* The process needs no peers at this stage, so it is always ready. */
static const struct http_ops interim_ops = {.metrics = on_interim_metrics,
                                            .status = on_interim_status};
static const struct http_ops chief_interim_ops = {
    .metrics = on_interim_metrics, .status = on_interim_status, .files = job_page};

enum err interim_begin(struct interim *i, int fd, const struct job *job,
                       const struct cluster *cluster, enum process_state state, struct errmsg *e)
{
    *i = (struct interim){.job = job, .cluster = cluster, .state = state};
    return http_thread_new(&i->thread, fd, cluster->is_chief ? &chief_interim_ops : &interim_ops, i,
                           e);
}

void interim_end(struct interim *i)
{
    http_thread_free(i->thread);
    i->thread = NULL;
}
