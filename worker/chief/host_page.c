/* The data of the job's page that the chief's core does not have: curves, warnings, the state of each process. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "worker/chief/host_state.h"
#include "worker/control/meter.h"

enum { WARNINGS_SHOWN = 12 };

/* The epochs of earlier processes; on the curve by step, each is a point too. */
static void add_epochs(struct host *h)
{
    const struct epoch_log *log = h->config.log;
    uint32_t metrics = h->control->config.job->model.metrics;
    for (size_t i = 0; i < log->n; i++) {
        const struct epoch_line *l = &log->line[i];
        struct history_point step = {l->epoch * h->config.batches_per_epoch,
                                     {l->trained.loss, NAN}};
        struct history_point epoch =
            history_epoch(l->epoch, metrics, &l->trained, l->has_eval ? &l->eval : NULL);
        step.value[HISTORY_LEFT] = NAN;
        memcpy(step.value + HISTORY_STEP_METRICS, l->trained.metric,
               metrics * sizeof l->trained.metric[0]);
        history_add(&h->page.steps, &step);
        history_add(&h->page.epochs, &epoch);
    }
}

enum err host_page_start(struct host *h, struct errmsg *e)
{
    h->page.worker = mem_zalloc(CHIEF_WORKERS_MAX, sizeof *h->page.worker);
    h->page.ps = mem_zalloc(h->control->config.cluster->n_ps, sizeof *h->page.ps);
    add_epochs(h);
    return h->page.worker && h->page.ps ? ERR_OK : err_memory_for(e, "the page");
}

void host_page_restored(struct host *h, const struct manifest *m)
{
    uint64_t per_epoch = h->config.batches_per_epoch;
    uint64_t epochs = m ? manifest_epochs(m, per_epoch) : 0;
    history_drop(&h->page.epochs, epochs + 1);
    history_drop(&h->page.steps, (m ? m->step : 0) + 1);
    history_drop(&h->page.judged, (m ? m->step : 0) + 1);
    if (h->page.judgement.step > (m ? m->step : 0))
        h->page.judgement.step = 0;
}

void host_page_judged(struct host *h, const struct evaluation *eval)
{
    struct history_point point = {.step = eval->step, .value = {eval->loss}};
    memcpy(point.value + 1, eval->metric, sizeof eval->metric);
    history_add(&h->page.judged, &point);
    h->page.judgement = *eval;
}

void host_page_close(struct host *h)
{
    mem_free(h->page.worker);
    mem_free(h->page.ps);
    h->page.worker = h->page.ps = NULL;
}

/* Measure the chief's own process, in the same way as others report theirs. */
void host_page_tick(struct host *h, int64_t now_ms)
{
    struct vitals_note note;
    if (now_ms - h->page.own_ms < VITALS_EVERY_MS)
        return;
    h->page.own_ms = now_ms;
    vitals_note_make(&note, h->control->config.http_fd);
    meter_vitals(h->control->config.meter, &note.message);
    health_hear(&h->page.worker[0], &note.message, "", now_ms);
}

bool host_page_on_letter(struct host *h, const struct mail *m)
{
    if (m->type == CONTROL_STEP_POINT)
        history_add(&h->page.steps, m->data);
    else if (m->type == CONTROL_EPOCH_POINT)
        history_add(&h->page.epochs, m->data);
    else
        return false;
    return true;
}

/* ---- a process ---- */

static json_t *staleness_json(const struct host *h, uint32_t worker)
{
    struct staleness s;
    if (!chief_staleness(h->chief, worker, &s))
        return json_null();
    return json_pack("{s:f, s:I}", "mean", (double)s.sum / (double)s.count, "max",
                     (json_int_t)s.max);
}

double host_page_slow_s(const struct host *h)
{
    return health_slow_s(h->page.worker, chief_workers(h->chief));
}

void host_page_put_worker(const struct host *h, uint32_t worker, double slow_s, int64_t now_ms,
                          json_t *to)
{
    const struct health *health = &h->page.worker[worker];
    health_put(health, to, now_ms);
    (void)json_object_set_new(to, "slow", json_boolean(health->known && health->task_s > slow_s));
    (void)json_object_set_new(to, "staleness", staleness_json(h, worker));
}

void host_page_put_ps(const struct host *h, uint32_t ps, int64_t now_ms, json_t *to)
{
    health_put(&h->page.ps[ps], to, now_ms);
}

/* ---- warnings ---- */

struct newest {
    const struct log_kept *line[WARNINGS_SHOWN]; /* the newest first */
    char process[WARNINGS_SHOWN][24];
    uint32_t n;
};

static void add_line(struct newest *t, const struct log_kept *line, const char *role, uint32_t i)
{
    uint32_t at = t->n < WARNINGS_SHOWN ? t->n : WARNINGS_SHOWN - 1;
    if (t->n == WARNINGS_SHOWN && line->time_ms <= t->line[at]->time_ms)
        return;
    for (; at > 0 && line->time_ms > t->line[at - 1]->time_ms; at--) {
        t->line[at] = t->line[at - 1];
        memcpy(t->process[at], t->process[at - 1], sizeof t->process[at]);
    }
    t->line[at] = line;
    (void)snprintf(t->process[at], sizeof t->process[at], "%s %u", role, i);
    t->n += t->n < WARNINGS_SHOWN;
}

static void add_lines(struct newest *t, const struct health *h, uint32_t n, const char *role)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < h[i].warnings; k++)
            add_line(t, &h[i].warning[k], role, i);
}

static json_t *warnings_json(const struct host *h)
{
    struct newest newest = {.n = 0};
    json_t *all = json_array();
    add_lines(&newest, h->page.worker, chief_workers(h->chief), "worker");
    add_lines(&newest, h->page.ps, h->control->config.cluster->n_ps, "ps");
    for (uint32_t i = 0; i < newest.n; i++)
        (void)json_array_append_new(all, health_warning(newest.line[i], newest.process[i]));
    return all;
}

/* ---- the job ---- */

/* The rate of the newest point, as in the launcher's line. */
static double rate_of(const struct host *h)
{
    const struct history *s = &h->page.steps;
    return s->n ? s->point[s->n - 1].value[HISTORY_RATE] : (double)NAN;
}

/* The time left, as in the launcher's line: struct eta. 0 after the last step. */
static void put_eta(const struct host *h, const struct chief_facts *f, json_t *to)
{
    const struct history *s = &h->page.steps;
    const double *newest = s->n ? s->point[s->n - 1].value : NULL;
    bool ends = f->total && f->steps >= f->total;
    double left_s = ends ? 0 : newest ? newest[HISTORY_LEFT] : (double)NAN;
    bool is_guess = !ends && !isnan(left_s);
    (void)json_object_set_new(to, "eta_s", json_number(left_s));
    (void)json_object_set_new(to, "eta_early",
                              json_boolean(is_guess && newest && newest[HISTORY_EARLY] > 0));
    (void)json_object_set_new(
        to, "eta_at_most",
        json_boolean(is_guess && h->control->config.job->early_stopping.patience));
}

static json_t *cuts_json(const struct host *h)
{
    double age_s = (double)((clock_now_ms() - h->published_ms) / 1000);
    return json_pack("{s:I, s:I, s:o}", "published", (json_int_t)h->published, "failed",
                     (json_int_t)h->not_published, "age_s",
                     h->published ? json_real(age_s) : json_null());
}

static json_t *metrics_json(const struct job *job)
{
    const struct results r = results_of(job, NULL);
    json_t *names = json_array();
    for (uint32_t i = 1; i < r.n; i++)
        (void)json_array_append_new(names, json_string(r.of[i].name));
    return names;
}

void host_page_put_job(const struct host *h, const struct chief_facts *f, json_t *to)
{
    const struct job *job = h->control->config.job;
    (void)json_object_set_new(to, "epochs", json_integer(job->training.epochs));
    (void)json_object_set_new(to, "metrics", metrics_json(job));
    (void)json_object_set_new(to, "examples_per_s", json_number(rate_of(h)));
    put_eta(h, f, to);
    (void)json_object_set_new(to, "cuts", cuts_json(h));
    (void)json_object_set_new(to, "warnings", warnings_json(h));
    /* [step, loss, examples/s, metrics], and [epoch, loss, metrics, loss and metrics of the evaluation] */
    uint32_t metrics = job->model.metrics;
    (void)json_object_set_new(to, "curve",
                              history_json(&h->page.steps, HISTORY_STEP_METRICS + metrics));
    (void)json_object_set_new(to, "epoch_curve", history_json(&h->page.epochs, 2 * (1 + metrics)));
    (void)json_object_set_new(to, "evaluator_curve", history_json(&h->page.judged, 1 + metrics));
}
