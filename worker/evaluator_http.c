#include "worker/evaluator_http.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/http.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/mem.h"
#include "common/vitals.h"
#include "worker/model/metric.h"

#define SET(to, value) atomic_store_explicit(&(to), (value), memory_order_relaxed)
#define GET(from) atomic_load_explicit(&(from), memory_order_relaxed)

struct evaluator_http {
    const struct job *job;
    const struct cluster *cluster;
    struct loop loop;
    struct mailbox in; /* any letter ends the thread */
    struct http *http;
    pthread_t pthread;
    /* written by main */
    struct metrics_seconds seconds;
    _Atomic uint64_t evaluated, cut, step;
    _Atomic double loss, metric[JOB_METRICS_MAX];
};

void evaluator_http_note(struct evaluator_http *h, const struct eval_result *r)
{
    if (!h)
        return;
    metrics_observe(&h->seconds, r->seconds);
    SET(h->cut, r->cut);
    SET(h->step, r->eval.step);
    SET(h->loss, r->eval.loss);
    for (uint32_t i = 0; i < h->job->model.metrics; i++)
        SET(h->metric[i], r->eval.metric[i]);
    SET(h->evaluated, GET(h->evaluated) + 1);
}

/* ---- answers ---- */

static const char *on_not_ready(void *ctx)
{
    (void)ctx;
    return NULL;
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct evaluator_http *h = ctx;
    const struct job *job = h->job;
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE, "Always 1; whose process this is.");
    metrics_put(m, 1, "job", job->name, "role", role_str(h->cluster->role), "index",
                METRICS_NUMBER(h->cluster->index), "update", job_update_word(job->training.update),
                NULL);
    metrics_family(m, "gradwire_evaluation_seconds", METRICS_HISTOGRAM, "Evaluations.");
    metrics_put_seconds(m, &h->seconds, NULL);
    if (GET(h->evaluated) == 0)
        return;
    metrics_gauge(m, "gradwire_eval_cut", "The last checkpoint that was evaluated.",
                  (double)GET(h->cut));
    metrics_gauge(m, "gradwire_eval_step", "Its step.", (double)GET(h->step));
    metrics_gauge(m, "gradwire_eval_loss", "Its loss.", GET(h->loss));
    metrics_family(m, "gradwire_eval_metric", METRICS_GAUGE, "Its metrics.");
    for (uint32_t i = 0; i < job->model.metrics; i++)
        metrics_put(m, GET(h->metric[i]), "metric", metric_name(job->model.metric[i]), NULL);
}

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *last_json(const struct evaluator_http *h)
{
    if (GET(h->evaluated) == 0)
        return json_null();
    json_t *last = json_pack("{s:I, s:I, s:o}", "cut", (json_int_t)GET(h->cut), "step",
                             (json_int_t)GET(h->step), "loss", number_json(GET(h->loss)));
    for (uint32_t i = 0; last && i < h->job->model.metrics; i++)
        (void)json_object_set_new(last, metric_name(h->job->model.metric[i]),
                                  number_json(GET(h->metric[i])));
    return last;
}

static json_t *on_status(void *ctx)
{
    const struct evaluator_http *h = ctx;
    char name[32];
    (void)snprintf(name, sizeof name, "%s %u", role_str(h->cluster->role), h->cluster->index);
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:b, s:I, s:o, s:o}", "process", name, "version",
                     GRADWIRE_VERSION, "role", role_str(h->cluster->role), "index",
                     (int)h->cluster->index, "job", h->job->name, "ready", 1, "evaluated",
                     (json_int_t)GET(h->evaluated), "last", last_json(h), "system", vitals_json());
}

static const struct http_ops evaluator_http_ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status};

/* ---- life ---- */

static void on_letter(void *arg, struct mail *m)
{
    (void)m;
    struct evaluator_http *h = arg;
    loop_stop(&h->loop);
}

static void *run(void *arg)
{
    struct evaluator_http *h = arg;
    if (loop_run(&h->loop))
        log_error("the event loop of HTTP failed");
    return NULL;
}

/* Signals are main's. */
static enum err start_thread(struct evaluator_http *h)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&h->pthread, NULL, run, h);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? ERR_NOMEM : ERR_OK;
}

static enum err open_parts(struct evaluator_http *h, int take_fd)
{
    enum err err = loop_init(&h->loop);
    if (err)
        goto no_loop;
    err = mailbox_init(&h->in, &h->loop, on_letter, h);
    if (err)
        goto no_mailbox;
    err = http_open(&h->http, &h->loop, take_fd, &evaluator_http_ops, h);
    take_fd = -1;
    if (!err)
        err = start_thread(h);
    if (!err)
        return ERR_OK;
    http_close(h->http);
    mailbox_close(&h->in);
no_mailbox:
    loop_close(&h->loop);
no_loop:
    if (take_fd >= 0)
        (void)close(take_fd);
    return err;
}

enum err evaluator_http_open(struct evaluator_http **out, int take_fd, const struct job *job,
                             const struct cluster *cluster, struct errmsg *e)
{
    *out = NULL;
    if (take_fd < 0)
        return ERR_OK;
    struct evaluator_http *h = mem_zalloc(1, sizeof *h);
    if (!h) {
        (void)close(take_fd);
        return err_set(e, ERR_NOMEM, "no memory for HTTP");
    }
    h->job = job;
    h->cluster = cluster;
    enum err err = open_parts(h, take_fd);
    if (err) {
        mem_free(h);
        return err_set(e, err, "HTTP cannot start: %s", err_str(err));
    }
    *out = h;
    return ERR_OK;
}

void evaluator_http_close(struct evaluator_http *h)
{
    struct mail end = {.type = 0};
    if (!h)
        return;
    if (mailbox_post(&h->in, &end)) {
        log_error("the thread of HTTP cannot be ended"); /* its one letter: it is not full */
        return;
    }
    (void)pthread_join(h->pthread, NULL);
    http_close(h->http);
    mailbox_close(&h->in);
    loop_close(&h->loop);
    mem_free(h);
}
