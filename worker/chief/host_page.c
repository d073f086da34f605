/* The data of the job's page that the chief's core does not have: curves, warnings, the state of each process. */
#include "worker/chief/host_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/real.h"
#include "worker/control/control_http.h"
#include "worker/control/meter.h"

/* ---- health of a process ---- */

static const double newest_share = 0.3; /* weight of the newest value in a moving mean */
static const double slow_factor = 1.5;

static void move(double *mean, double value)
{
    if (isfinite(value))
        *mean = isfinite(*mean) ? *mean + newest_share * (value - *mean) : value;
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
    /* "[::1]:80" and ":8080" give "[::1]:8080". */
    const char *colon = strrchr(peer, ':');
    int host = m->http[0] == ':' && colon ? (int)(colon - peer) : 0;
    (void)snprintf(h->http, sizeof h->http, "%.*s%.*s", host < 250 ? host : 0, peer,
                   VITALS_HTTP_BYTES, m->http);
    h->resident_bytes = m->resident_bytes;
    h->warnings = m->n_warnings < LOG_KEPT ? (uint32_t)m->n_warnings : LOG_KEPT;
    for (uint32_t i = 0; i < h->warnings; i++)
        put_warning(&h->warning[i], m->warnings[i]);
    h->heard_ms = now_ms;
    h->known = true;
}

/* ---- JSON ---- */

/* Add its fields to `to`, for /status, in the format of the job's page. */
static void health_put(const struct health *h, json_t *to, int64_t now_ms)
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

double health_slow_s(const struct health *h, uint32_t n)
{
    double *known = mem_zalloc(n ? n : 1, sizeof *known);
    uint32_t count = 0;
    for (uint32_t i = 0; known && i < n; i++)
        if (h[i].known && h[i].task_s > 0)
            known[count++] = h[i].task_s;
    if (known)
        qsort(known, count, sizeof *known, real_order);
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

/* ---- curves ---- */

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

/* The chief's evaluations by step, if there are some within epochs: as an evaluator's. */
static void add_evaluations(struct host *h)
{
    const struct epoch_log *log = h->config.log;
    for (size_t i = 0, k = 0; log->evaluations && (i < log->n || k < log->evaluations);) {
        const bool epoch =
            k == log->evaluations || (i < log->n && log->line[i].step <= log->evaluation[k].step);
        const struct epoch_line *l = epoch ? &log->line[i++] : &log->evaluation[k++];
        struct evaluation eval = l->eval;
        eval.step = l->step;
        if (l->has_eval)
            host_page_judged(h, &eval);
    }
}

enum err host_page_start(struct host *h, struct errmsg *e)
{
    h->page.worker = mem_zalloc(CHIEF_WORKERS_MAX, sizeof *h->page.worker);
    h->page.ps = mem_zalloc(h->control->config.cluster->n_ps, sizeof *h->page.ps);
    add_epochs(h);
    add_evaluations(h);
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

/* Tell the launcher, once more when no worker reads its data any more. */
static void host_page_tell_loading(struct host *h)
{
    struct loading of;
    uint32_t i = 0;
    while (i < LOADING_WORKERS && !loading_heard(i, &of))
        i++;
    bool loads = i < LOADING_WORKERS;
    if (loads || h->page.shows_loading)
        progress_loading(h->config.progress_fd, NULL, h->control->config.cluster->separate_chief);
    h->page.shows_loading = loads;
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
    host_page_tell_loading(h);
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

/* ---- warnings ---- */

struct newest {
    const struct log_kept *line[WARNINGS_SHOWN]; /* the newest first */
    char process[WARNINGS_SHOWN][WORKER_NAME_BYTES];
    uint32_t n;
};

static void add_line(struct newest *t, const struct log_kept *line, const char *process)
{
    uint32_t at = t->n < WARNINGS_SHOWN ? t->n : WARNINGS_SHOWN - 1;
    if (t->n == WARNINGS_SHOWN && line->time_ms <= t->line[at]->time_ms)
        return;
    for (; at > 0 && line->time_ms > t->line[at - 1]->time_ms; at--) {
        t->line[at] = t->line[at - 1];
        memcpy(t->process[at], t->process[at - 1], sizeof t->process[at]);
    }
    t->line[at] = line;
    (void)snprintf(t->process[at], sizeof t->process[at], "%s", process);
    t->n += t->n < WARNINGS_SHOWN;
}

static void add_lines(struct newest *t, const struct health *h, const char *process)
{
    for (uint32_t k = 0; k < h->warnings; k++)
        add_line(t, &h->warning[k], process);
}

static json_t *warnings_json(const struct host *h)
{
    struct newest newest = {.n = 0};
    json_t *all = json_array();
    const struct cluster *cluster = h->control->config.cluster;
    char name[WORKER_NAME_BYTES];
    for (uint32_t i = 0; i < chief_workers(h->chief); i++)
        add_lines(&newest, &h->page.worker[i], worker_name(name, i, cluster->separate_chief));
    for (uint32_t i = 0; i < cluster->n_ps; i++) {
        (void)snprintf(name, sizeof name, "ps %u", i);
        add_lines(&newest, &h->page.ps[i], name);
    }
    for (uint32_t i = 0; i < newest.n; i++)
        (void)json_array_append_new(all, health_warning(newest.line[i], newest.process[i]));
    return all;
}

/* ---- the job ---- */

/* The rate and the time left of the newest point, as in the launcher's line: struct eta. 0 after the last step. */
static void put_newest(const struct host *h, const struct chief_facts *f, json_t *to)
{
    const struct history *s = &h->page.steps;
    const double *newest = s->n ? s->point[s->n - 1].value : NULL;
    bool ends = f->total && f->steps >= f->total;
    double left_s = ends ? 0 : newest ? newest[HISTORY_LEFT] : (double)NAN;
    bool is_guess = !ends && !isnan(left_s);
    (void)json_object_set_new(to, "examples_per_s",
                              json_number(newest ? newest[HISTORY_RATE] : (double)NAN));
    (void)json_object_set_new(to, "eta_s", json_number(left_s));
    (void)json_object_set_new(to, "eta_early",
                              json_boolean(is_guess && newest && newest[HISTORY_EARLY] > 0));
    (void)json_object_set_new(
        to, "eta_at_most",
        json_boolean(is_guess && h->control->config.job->early_stopping.patience));
}

/* ---- metrics and /status ---- */

/* The additions of the chief's process to its HTTP: the job as a whole. */

const char *host_waits_for(void *role)
{
    struct host *h = role;
    if (chief_facts(h->chief).running && !chief_wait(h->chief, clock_now_ms()).who)
        return NULL;
    chief_waits_for(h->chief, clock_now_ms(), h->waits_for, sizeof h->waits_for);
    return h->waits_for;
}

static const struct epoch_sums *last_epoch(const struct chief_facts *f)
{
    const struct epoch_sums *last = NULL;
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        if (f->epoch[i].batches && f->epoch[i].examples > 0 &&
            (!last || f->epoch[i].epoch > last->epoch))
            last = &f->epoch[i];
    return last;
}

static uint64_t epoch_of(const struct host *h, const struct chief_facts *f)
{
    uint64_t since = f->steps > f->redo.begin ? f->steps - f->redo.begin : 0;
    if (f->redo.there) /* as the lead shard reported last, plus the steps since */
        return f->redo.epoch + since / h->config.batches_per_epoch + (f->steps < f->total);
    return f->steps / h->config.batches_per_epoch + (f->steps < f->total);
}

static void put_job(const struct host *h, const struct chief_facts *f, struct metrics *m)
{
    metrics_family(m, "gradwire_run_info", METRICS_GAUGE, "Always 1; the run's UUID.");
    metrics_put(m, 1, "run", f->uuid, NULL);
    metrics_gauge(m, "gradwire_job_steps", "Steps made (sync) or batches done, over all runs.",
                  (double)f->steps);
    metrics_gauge(m, "gradwire_job_planned_steps",
                  "Steps or batches that the job will have made at its end.", (double)f->total);
    metrics_gauge(m, "gradwire_job_epoch", "Epoch that is being trained, from 1.",
                  (double)epoch_of(h, f));
    metrics_gauge(m, "gradwire_job_generation", "The job's generation.", (double)f->generation);
    metrics_counter(m, "gradwire_job_dealt_batches_total", "Batches assigned to workers.",
                    f->dealt);
    metrics_counter(m, "gradwire_job_lost_batches_total", "Batches lost with a worker (geo).",
                    f->lost);
    metrics_counter(m, "gradwire_job_rejected_batches_total", "Batches rejected by the NaN guard.",
                    f->rejected);
    metrics_counter(m, "gradwire_job_dropped_microbatches_total",
                    "Microbatches dropped because a step did not wait for them (backup workers).",
                    f->dropped);
    metrics_counter(m, "gradwire_job_recoveries_total", "Rollbacks by the NaN guard.",
                    f->recoveries);
    metrics_counter(m, "gradwire_job_lost_residuals_total",
                    "Times that gradient parts withheld by top_k were lost, in this chief process.",
                    f->residuals_lost);
}

static void put_cuts(const struct host *h, const struct chief_facts *f, struct metrics *m)
{
    metrics_family(m, "gradwire_job_cuts_total", METRICS_COUNTER,
                   "Checkpoints by result, in this chief process.");
    metrics_put_count(m, h->published, "result", "published", NULL);
    metrics_put_count(m, h->not_published, "result", "failed", NULL);
    if (f->cut == UINT64_MAX)
        return;
    metrics_gauge(m, "gradwire_job_cut", "Number of the last published checkpoint.",
                  (double)f->cut);
    metrics_gauge(m, "gradwire_job_cut_step", "Step of the last published checkpoint.",
                  (double)f->cut_step);
    if (h->published)
        metrics_gauge(m, "gradwire_job_cut_age_seconds",
                      "Time since the last checkpoint was published.",
                      (double)(clock_now_ms() - h->published_ms) / 1000);
}

/* The newest one of the chief or of the evaluator, of which a job has one; NULL: none yet. */
static const struct evaluation *last_evaluation(const struct host *h)
{
    if (h->page.judgement.step)
        return &h->page.judgement;
    return h->has_eval ? &h->eval : NULL;
}

static void put_learned(const struct host *h, const struct chief_facts *f, struct metrics *m)
{
    const struct epoch_sums *last = last_epoch(f);
    if (last)
        metrics_gauge(m, "gradwire_job_train_loss",
                      "Mean loss of the last epoch, as the shards reported last.",
                      last->loss / last->examples);
    const struct evaluation *eval = last_evaluation(h);
    if (!eval)
        return;
    metrics_gauge(m, "gradwire_job_eval_loss", "Loss of the last evaluation.", eval->loss);
    metrics_gauge(m, "gradwire_job_eval_step", "Step of the last evaluation.", (double)eval->step);
    metrics_family(m, "gradwire_job_eval_metric", METRICS_GAUGE, "Metrics of the last evaluation.");
    const struct results r = results_of(h->control->config.job, eval);
    for (uint32_t i = 1; i < r.n; i++)
        metrics_put(m, r.of[i].value, "metric", r.of[i].name, NULL);
}

/* A family with `value`, an expression of worker or ps i, for each of the first n. */
#define PUT_PEERS(put, m, name, type, help, label, n, value)                                       \
    do {                                                                                           \
        metrics_family(m, name, type, help);                                                       \
        for (uint32_t i = 0; i < (n); i++)                                                         \
            put(m, value, label, METRICS_NUMBER(i), NULL);                                         \
    } while (0)

/* Seconds; 0: training does not wait for it. */
static double waited_s(const struct host *h, enum chief_wait_for who, uint32_t index, int64_t now)
{
    const struct chief_wait w = chief_wait(h->chief, now);
    return w.who == who && w.index == index ? w.seconds : 0;
}

static void put_peers(const struct host *h, struct metrics *m)
{
    int64_t now = clock_now_ms();
    uint32_t workers = chief_workers(h->chief), ps = h->control->config.cluster->n_ps;
    PUT_PEERS(metrics_put_count, m, "gradwire_job_worker_up", METRICS_GAUGE,
              "Whether a worker is connected.", "worker", workers,
              chief_peer_worker(h->chief, i, now).up);
    PUT_PEERS(metrics_put_count, m, "gradwire_job_worker_member", METRICS_GAUGE,
              "Whether a worker is assigned work.", "worker", workers,
              chief_peer_worker(h->chief, i, now).member);
    PUT_PEERS(metrics_put_count, m, "gradwire_job_worker_incarnation", METRICS_GAUGE,
              "Number of the worker's process; a larger one is a later one.", "worker", workers,
              chief_peer_worker(h->chief, i, now).incarnation);
    PUT_PEERS(metrics_put_count, m, "gradwire_job_worker_dropped_microbatches_total",
              METRICS_COUNTER,
              "Dropped microbatches of each worker, by decisions of this chief process.", "worker",
              workers, chief_dropped(h->chief, i));
    PUT_PEERS(metrics_put_count, m, "gradwire_job_ps_up", METRICS_GAUGE,
              "Whether a ps is connected.", "ps", ps, chief_peer_ps(h->chief, i, now).up);
    PUT_PEERS(metrics_put, m, "gradwire_job_worker_waited_seconds", METRICS_GAUGE,
              "Time that training has waited for this worker; 0: it does not wait.", "worker",
              workers, waited_s(h, WAIT_WORKER, i, now));
    PUT_PEERS(metrics_put, m, "gradwire_job_ps_waited_seconds", METRICS_GAUGE,
              "Time that training has waited for this ps; 0: it does not wait.", "ps", ps,
              waited_s(h, WAIT_PS, i, now));
}

void host_metrics(void *role, struct metrics *m)
{
    const struct host *h = role;
    const struct chief_facts f = chief_facts(h->chief);
    put_job(h, &f, m);
    put_cuts(h, &f, m);
    put_learned(h, &f, m);
    put_peers(h, m);
    loading_metrics(m, chief_workers(h->chief));
    pending_metrics(&h->pending, m);
}

/* ---- /status ---- */

static json_t *worker_json(const struct host *h, uint32_t i, double slow_s, int64_t now)
{
    const struct chief_peer p = chief_peer_worker(h->chief, i, now);
    json_t *worker =
        json_pack("{s:i, s:b, s:b, s:I, s:f}", "worker", (int)i, "up", p.up, "member", p.member,
                  "incarnation", (json_int_t)p.incarnation, "away_s", p.away_s);
    const struct health *health = &h->page.worker[i];
    struct loading of;
    (void)json_object_set_new(worker, "loading",
                              loading_heard(i, &of) ? loading_json(&of) : json_null());
    health_put(health, worker, now);
    (void)json_object_set_new(worker, "slow",
                              json_boolean(health->known && health->task_s > slow_s));
    (void)json_object_set_new(worker, "staleness", staleness_json(h, i));
    return worker;
}

/* The process that training waits for; null: none. */
static json_t *waiting_json(const struct host *h, int64_t now)
{
    static const char *const why[] = {[WAIT_AWAY] = "away",
                                      [WAIT_SILENT] = "silent",
                                      [WAIT_UNREACHED] = "unreached",
                                      [WAIT_LOADS] = "loading"};
    const struct chief_wait w = chief_wait(h->chief, now);
    if (!w.who)
        return json_null();
    json_t *to = json_pack("{s:s, s:i, s:s, s:f}", "role", w.who == WAIT_PS ? "ps" : "worker",
                           "index", (int)w.index, "why", why[w.why], "seconds", w.seconds);
    if (to && w.why == WAIT_UNREACHED)
        (void)json_object_set_new(to, "ps", json_integer(w.ps));
    return to;
}

static json_t *eval_json(const struct host *h)
{
    const struct evaluation *last = last_evaluation(h);
    if (!last)
        return json_null();
    return evaluation_add_json(json_pack("{s:I}", "step", (json_int_t)last->step),
                               h->control->config.job, last);
}

static void host_page_put_job(const struct host *h, const struct chief_facts *f, json_t *to)
{
    const struct job *job = h->control->config.job;
    (void)json_object_set_new(to, "epochs", json_integer(job->training.epochs));
    const struct results r = results_of(job, NULL);
    json_t *names = json_array();
    for (uint32_t i = 1; i < r.n; i++)
        (void)json_array_append_new(names, json_string(r.of[i].name));
    (void)json_object_set_new(to, "metrics", names);
    put_newest(h, f, to);
    double age_s = (double)((clock_now_ms() - h->published_ms) / 1000);
    (void)json_object_set_new(to, "cuts",
                              json_pack("{s:I, s:I, s:o}", "published", (json_int_t)h->published,
                                        "failed", (json_int_t)h->not_published, "age_s",
                                        h->published ? json_real(age_s) : json_null()));
    (void)json_object_set_new(to, "warnings", warnings_json(h));
    /* [step, loss, examples/s, metrics], and [epoch, loss, metrics, loss and metrics of the evaluation] */
    uint32_t metrics = job->model.metrics;
    (void)json_object_set_new(to, "curve",
                              history_json(&h->page.steps, HISTORY_STEP_METRICS + metrics));
    (void)json_object_set_new(to, "epoch_curve", history_json(&h->page.epochs, 2 * (1 + metrics)));
    (void)json_object_set_new(to, "evaluator_curve", history_json(&h->page.judged, 1 + metrics));
}

enum err host_status(void *role, json_t *to)
{
    struct host *h = role;
    const struct chief_facts f = chief_facts(h->chief);
    int64_t now = clock_now_ms();
    json_t *workers = json_array(), *ps = json_array();
    const char *waits_for = host_waits_for(role);
    /* seconds for each step: a worker above this is slow */
    double slow_s = health_slow_s(h->page.worker, chief_workers(h->chief));
    for (uint32_t i = 0; i < chief_workers(h->chief); i++)
        (void)json_array_append_new(workers, worker_json(h, i, slow_s, now));
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++) {
        const struct chief_peer p = chief_peer_ps(h->chief, i, now);
        json_t *one = json_pack("{s:i, s:b, s:f}", "ps", (int)i, "up", p.up, "away_s", p.away_s);
        health_put(&h->page.ps[i], one, now);
        (void)json_array_append_new(ps, one);
    }
    json_t *job =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o}", "run",
                  f.uuid, "generation", (json_int_t)f.generation, "steps", (json_int_t)f.steps,
                  "planned_steps", (json_int_t)f.total, "epoch", (json_int_t)epoch_of(h, &f),
                  "dealt", (json_int_t)f.dealt, "lost", (json_int_t)f.lost, "rejected",
                  (json_int_t)f.rejected, "recoveries", (int)f.recoveries, "cut",
                  f.cut == UINT64_MAX ? json_null()
                                      : json_pack("{s:I, s:I}", "number", (json_int_t)f.cut, "step",
                                                  (json_int_t)f.cut_step),
                  "waits_for", json_text(waits_for), "waiting", waiting_json(h, now), "workers",
                  workers, "ps", ps);
    host_page_put_job(h, &f, job);
    if (!job || json_object_set_new(job, "eval", eval_json(h)) != 0) {
        json_decref(job);
        return ERR_NOMEM;
    }
    return json_object_set_new(to, "whole_job", job) == 0 ? ERR_OK : ERR_NOMEM;
}
