/* The additions of the chief's process to its HTTP: the job as a whole. */
#include "common/base/json.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "worker/chief/host_state.h"

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
#define PUT_PEERS(m, name, type, help, label, n, value)                                            \
    do {                                                                                           \
        metrics_family(m, name, type, help);                                                       \
        for (uint32_t i = 0; i < (n); i++)                                                         \
            metrics_put_count(m, value, label, METRICS_NUMBER(i), NULL);                           \
    } while (0)

/* Seconds; 0: training does not wait for it. */
static double waited_s(const struct host *h, enum chief_wait_for who, uint32_t index, int64_t now)
{
    const struct chief_wait w = chief_wait(h->chief, now);
    return w.who == who && w.index == index ? w.seconds : 0;
}

static void put_waits(const struct host *h, struct metrics *m)
{
    int64_t now = clock_now_ms();
    metrics_family(m, "gradwire_job_worker_waited_seconds", METRICS_GAUGE,
                   "Time that training has waited for this worker; 0: it does not wait.");
    for (uint32_t i = 0; i < chief_workers(h->chief); i++)
        metrics_put(m, waited_s(h, WAIT_WORKER, i, now), "worker", METRICS_NUMBER(i), NULL);
    metrics_family(m, "gradwire_job_ps_waited_seconds", METRICS_GAUGE,
                   "Time that training has waited for this ps; 0: it does not wait.");
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++)
        metrics_put(m, waited_s(h, WAIT_PS, i, now), "ps", METRICS_NUMBER(i), NULL);
}

static void put_peers(const struct host *h, struct metrics *m)
{
    int64_t now = clock_now_ms();
    uint32_t workers = chief_workers(h->chief), ps = h->control->config.cluster->n_ps;
    PUT_PEERS(m, "gradwire_job_worker_up", METRICS_GAUGE, "Whether a worker is connected.",
              "worker", workers, chief_peer_worker(h->chief, i, now).up);
    PUT_PEERS(m, "gradwire_job_worker_member", METRICS_GAUGE, "Whether a worker is assigned work.",
              "worker", workers, chief_peer_worker(h->chief, i, now).member);
    PUT_PEERS(m, "gradwire_job_worker_incarnation", METRICS_GAUGE,
              "Number of the worker's process; a larger one is a later one.", "worker", workers,
              chief_peer_worker(h->chief, i, now).incarnation);
    PUT_PEERS(m, "gradwire_job_worker_dropped_microbatches_total", METRICS_COUNTER,
              "Dropped microbatches of each worker, by decisions of this chief process.", "worker",
              workers, chief_dropped(h->chief, i));
    PUT_PEERS(m, "gradwire_job_ps_up", METRICS_GAUGE, "Whether a ps is connected.", "ps", ps,
              chief_peer_ps(h->chief, i, now).up);
}

void host_metrics(void *role, struct metrics *m)
{
    const struct host *h = role;
    const struct chief_facts f = chief_facts(h->chief);
    put_job(h, &f, m);
    put_cuts(h, &f, m);
    put_learned(h, &f, m);
    put_peers(h, m);
    put_waits(h, m);
    pending_metrics(&h->pending, m);
}

/* ---- /status ---- */

static json_t *worker_json(const struct host *h, uint32_t i, double slow_s, int64_t now)
{
    const struct chief_peer p = chief_peer_worker(h->chief, i, now);
    json_t *worker =
        json_pack("{s:i, s:b, s:b, s:I, s:f}", "worker", (int)i, "up", p.up, "member", p.member,
                  "incarnation", (json_int_t)p.incarnation, "away_s", p.away_s);
    host_page_put_worker(h, i, slow_s, now, worker);
    return worker;
}

static json_t *ps_json(const struct host *h, uint32_t i, int64_t now)
{
    const struct chief_peer p = chief_peer_ps(h->chief, i, now);
    json_t *ps = json_pack("{s:i, s:b, s:f}", "ps", (int)i, "up", p.up, "away_s", p.away_s);
    host_page_put_ps(h, i, now, ps);
    return ps;
}

/* The process that training waits for; null: none. */
static json_t *waiting_json(const struct host *h, int64_t now)
{
    static const char *const why[] = {
        [WAIT_AWAY] = "away", [WAIT_SILENT] = "silent", [WAIT_UNREACHED] = "unreached"};
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

enum err host_status(void *role, json_t *to)
{
    struct host *h = role;
    const struct chief_facts f = chief_facts(h->chief);
    int64_t now = clock_now_ms();
    json_t *workers = json_array(), *ps = json_array();
    const char *waits_for = host_waits_for(role);
    double slow_s = host_page_slow_s(h);
    for (uint32_t i = 0; i < chief_workers(h->chief); i++)
        (void)json_array_append_new(workers, worker_json(h, i, slow_s, now));
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++)
        (void)json_array_append_new(ps, ps_json(h, i, now));
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
