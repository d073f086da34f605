#include "worker/chief/health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/mem.h"

static const double newest = 0.3; /* weight of the newest value in a moving mean */
static const double slow_factor = 1.5;

static void move(double *mean, double value)
{
    if (isfinite(value))
        *mean = isfinite(*mean) ? *mean + newest * (value - *mean) : value;
}

/* "[::1]:80" and ":8080" give "[::1]:8080". */
static void put_http(struct health *h, const char *told, const char *peer)
{
    const char *colon = strrchr(peer, ':');
    int host = told[0] == ':' && colon ? (int)(colon - peer) : 0;
    (void)snprintf(h->http, sizeof h->http, "%.*s%.*s", host < 250 ? host : 0, peer,
                   VITALS_HTTP_BYTES, told);
}

static void put_work(struct health *h, const Gradwire__Vitals *m, int64_t now_ms)
{
    double seconds = (double)(now_ms - h->heard_ms) / 1000;
    double computed_s = m->computed_s - h->computed_s, waited_s = m->waited_s - h->waited_s;
    /* false after the process was replaced */
    bool on = h->known && seconds > 0 && m->tasks >= h->tasks;
    if (!on)
        h->task_s = h->examples_s = h->wait_share = NAN;
    if (on && m->tasks > h->tasks) {
        move(&h->task_s, computed_s / (double)(m->tasks - h->tasks));
        move(&h->wait_share, waited_s / (computed_s + waited_s));
    }
    if (on)
        move(&h->examples_s, (m->examples - h->examples) / seconds);
    h->tasks = m->tasks;
    h->examples = m->examples;
    h->computed_s = m->computed_s;
    h->waited_s = m->waited_s;
}

static void put_warning(struct log_kept *to, const Gradwire__Warning *m)
{
    size_t n = m->text.len < LOG_KEPT_BYTES ? m->text.len : LOG_KEPT_BYTES - 1;
    *to = (struct log_kept){.time_ms = m->time_ms, .level = m->error ? LOG_ERROR : LOG_WARN};
    if (n)
        memcpy(to->text, m->text.data, n);
}

void health_hear(struct health *h, const Gradwire__Vitals *m, const char *peer, int64_t now_ms)
{
    put_work(h, m, now_ms);
    put_http(h, m->http, peer);
    h->resident_bytes = m->resident_bytes;
    h->warnings = m->n_warnings < LOG_KEPT ? (uint32_t)m->n_warnings : LOG_KEPT;
    for (uint32_t i = 0; i < h->warnings; i++)
        put_warning(&h->warning[i], m->warnings[i]);
    h->heard_ms = now_ms;
    h->known = true;
}

/* ---- JSON ---- */

void health_put(const struct health *h, json_t *to, int64_t now_ms)
{
    if (!h->known)
        return;
    (void)json_object_set_new(to, "resident_bytes", json_integer((json_int_t)h->resident_bytes));
    (void)json_object_set_new(to, "http", h->http[0] ? json_text(h->http) : json_null());
    (void)json_object_set_new(to, "heard_s", json_integer((now_ms - h->heard_ms) / 1000));
    if (h->tasks == 0)
        return;
    (void)json_object_set_new(to, "tasks", json_integer((json_int_t)h->tasks));
    (void)json_object_set_new(to, "task_s", json_number(h->task_s));
    (void)json_object_set_new(to, "examples_per_s", json_number(h->examples_s));
    (void)json_object_set_new(to, "wait_share", json_number(h->wait_share));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double health_slow_s(const struct health *h, uint32_t n)
{
    double *known = mem_zalloc(n ? n : 1, sizeof *known);
    uint32_t count = 0;
    for (uint32_t i = 0; known && i < n; i++)
        if (h[i].known && h[i].task_s > 0)
            known[count++] = h[i].task_s;
    if (known)
        qsort(known, count, sizeof *known, by_size);
    double slow_s = count > 1 ? slow_factor * known[(count - 1) / 2] : (double)INFINITY;
    mem_free(known);
    return slow_s;
}

json_t *health_warning(const struct log_kept *w, const char *process)
{
    return json_pack("{s:I, s:s, s:s, s:o}", "time_ms", (json_int_t)w->time_ms, "process", process,
                     "level", w->level == LOG_ERROR ? "error" : "warning", "text",
                     json_text(w->text));
}
