/* The evaluator: reads the directory of checkpoints, evaluates the next one, keeps its result, and asks whether the job is
 * alive. Only the thread of HTTP runs besides main. */
#include "worker/evaluator/evaluator_role.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/version.h"
#include "common/checkpoint/checkpoint.h"
#include "common/net/disk_thread.h"
#include "common/net/reach.h"
#include "common/net/tls.h"
#include "common/process/cgroup.h"
#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "common/process/process_state.h"
#include "common/process/output.h"
#include "common/serve/vitals.h"
#include "common/place/place.h"
#include "data/dataset.h"
#include "evaluate/evaluate.h"
#include "model/blas.h"
#include "worker/control/control_http.h"
#include "worker/control/progress.h"
#include "worker/evaluator/eval_log.h"
#include "worker/tensorboard/events.h"
#include "worker/warm_start/warm_start.h"

enum {
    POLL_MS = 200, /* between two reads of the directory */
    SAY_MS = 10000,
    ALIVE_EVERY_MS = 5000,  /* ps 0 is contacted at this interval */
    FAILED_EVERY_MS = 1000, /* the same after the chief has failed */
    ALIVE_CONNECT_MS = 2000,
    GONE_MS = 10000, /* the job is over if ps 0 is away for this long after a final checkpoint */
};

/* ---- HTTP: on its own thread and loop, because main reads checkpoints and computes ---- */

/* The evaluator's last result. The main thread writes it, the HTTP thread reads it. */
struct evaluator_meter {
    /* number of results of this process; 0: the other fields have no meaning */
    _Atomic uint64_t results;
    _Atomic uint64_t cut, step;
    _Atomic double loss, metric[METRICS_MAX], seconds;
    atomic_bool seen; /* a checkpoint has been found */
};

/* The caller's memory, which must not move while the thread answers. */
struct evaluator_http {
    const struct job *job;
    const struct cluster *cluster;
    const struct evaluator_meter *meter;
    struct http_thread *thread; /* NULL: no thread */
};

static enum process_state http_state(const struct evaluator_http *h)
{
    return atomic_load(&h->meter->seen) ? STATE_EVALUATING : STATE_WAITING;
}

/* The results of the last evaluation. */
static struct evaluation http_last(const struct evaluator_http *h)
{
    struct evaluation last = {.loss = atomic_load(&h->meter->loss)};
    for (uint32_t i = 0; i < h->job->model.metrics; i++)
        last.metric[i] = atomic_load(&h->meter->metric[i]);
    return last;
}

static void http_metrics(void *ctx, struct metrics *m)
{
    const struct evaluator_http *h = ctx;
    const struct evaluator_meter *of = h->meter;
    uint64_t results = atomic_load(&of->results);
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE,
                   "Always 1; the labels name this process.");
    metrics_put(m, 1, "job", h->job->name, "role", role_str(h->cluster->role), "index",
                METRICS_NUMBER(h->cluster->index), "update",
                job_update_word(h->job->training.update), NULL);
    process_state_metrics(m, http_state(h));
    tls_metrics(m);
    metrics_counter(m, "gradwire_evaluator_results_total",
                    "Checkpoints that this process has evaluated.", results);
    if (results == 0)
        return;
    metrics_gauge(m, "gradwire_evaluator_step", "Step of the checkpoint that was evaluated last.",
                  (double)atomic_load(&of->step));
    metrics_gauge(m, "gradwire_evaluator_seconds", "Duration of the last evaluation.",
                  atomic_load(&of->seconds));
    metrics_family(m, "gradwire_evaluator_result", METRICS_GAUGE,
                   "Results of the last evaluation.");
    const struct evaluation last = http_last(h);
    const struct results r = results_of(h->job, &last);
    for (uint32_t i = 0; i < r.n; i++)
        metrics_put(m, r.of[i].value, "name", r.of[i].name, NULL);
}

static json_t *last_json(const struct evaluator_http *h)
{
    const struct evaluator_meter *of = h->meter;
    if (atomic_load(&of->results) == 0)
        return json_null();
    const struct evaluation last = http_last(h);
    return evaluation_add_json(json_pack("{s:I, s:I, s:o}", "cut",
                                         (json_int_t)atomic_load(&of->cut), "step",
                                         (json_int_t)atomic_load(&of->step), "seconds",
                                         json_number(atomic_load(&of->seconds))),
                               h->job, &last);
}

static json_t *http_status(void *ctx)
{
    const struct evaluator_http *h = ctx;
    bool seen = atomic_load(&h->meter->seen);
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:b, s:s, s:s, s:I, s:o, s:o, s:o}", "process",
                     "evaluator 0", "version", GRADWIRE_VERSION, "role", "evaluator", "index", 0,
                     "job", h->job->name, "update", job_update_word(h->job->training.update),
                     "ready", 1, "state", process_state_word(http_state(h)), "waiting_for",
                     seen ? "the next checkpoint" : "the first checkpoint", "results",
                     (json_int_t)atomic_load(&h->meter->results), "last", last_json(h), "system",
                     vitals_json(), "tls", tls_json());
}

/* The evaluator needs no peers to begin, so it is always ready. */
static const struct http_ops http_ops_of_evaluator = {.metrics = http_metrics,
                                                      .status = http_status};

/* The last final checkpoint that was checked completely. */
struct verdict {
    uint64_t cut;
    uint32_t manifest;
    bool there, whole;
    int64_t at_ms;
};

/* Only main uses it, except for the two variables below, which the signal handler uses. */
struct watch {
    const struct evaluator_role *role;
    struct pool *pool;
    struct evaluator *evaluator;
    struct disk_thread logs_disk;
    struct events *events;
    struct evaluator_http http;
    struct evaluator_meter meter;
    bool begun; /* this process has written an event */
    float *w;
    struct eval_log log;
    /* the job's UUID, since whose first checkpoint DIR is guarded; "": none yet */
    char guarded[37];
    bool unsaved; /* eval.json lacks the last result */
    struct errmsg why_unsaved;
    uint64_t undone; /* the first step of results that were removed; UINT64_MAX: none */
    struct eval_passed passed;
    bool any_passed;
    struct verdict verdict;
    bool seen;         /* a checkpoint has been found */
    uint64_t at_start; /* the newest one then */
    bool final_seen;   /* the newest is a final one, and evaluated */
    bool last_seen;    /* and no checkpoint will follow it */
    struct reach ps;   /* ps 0, as it was when it was last tried */
    bool other_encoding;
    int failed; /* the exit code with which the chief has failed */
    int64_t began_ms, alive_ms, called_ms, said_ms, away_said_ms, tried_ms, guard_ms;
};

static atomic_int signals;
static _Atomic(struct evaluator *) running;

static void evaluator_on_signal(int number)
{
    (void)number;
    struct evaluator *v = atomic_load(&running);
    if (atomic_fetch_add(&signals, 1) > 0)
        _exit(143);
    if (v)
        evaluator_stop(v);
}

/* ---- how the chief's run ended: DIR/summary.json has it ---- */

enum { SUMMARY_MAX_BYTES = 256 << 20 };

static bool chief_end_stat(const char *output, const char *name, struct stat *st)
{
    char path[FILES_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", output, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, st) == 0;
}

static bool chief_end_is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Each summary is a new file (files_write). The lock is written when a process takes DIR. */
static bool chief_has_ended(const struct chief_end *c, const char *output)
{
    struct stat now, lock;
    if (!chief_end_stat(output, OUTPUT_SUMMARY, &now))
        return false;
    bool same = now.st_ino == c->before.st_ino && now.st_dev == c->before.st_dev &&
                now.st_size == c->before.st_size &&
                now.st_mtim.tv_sec == c->before.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == c->before.st_mtim.tv_nsec;
    return !same && !(chief_end_stat(output, OUTPUT_LOCK, &lock) &&
                      chief_end_is_older(&now.st_mtim, &lock.st_mtim));
}

static json_t *read_summary(const char *output)
{
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    struct errmsg e;
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_SUMMARY, output);
    if (files_read_regular(path, SUMMARY_MAX_BYTES, &data, &bytes, &e))
        return NULL;
    json_t *all = json_loadb((const char *)data, bytes, 0, NULL);
    mem_free(data);
    return all;
}

void chief_end_begin(struct chief_end *c, const char *output)
{
    if (!chief_end_stat(output, OUTPUT_SUMMARY, &c->before))
        *c = (struct chief_end){.before.st_ino = 0};
}

bool chief_end_failed(const struct chief_end *c, const struct job *job, const char *output,
                      int *exit_code, struct errmsg *e)
{
    json_t *all = chief_has_ended(c, output) ? read_summary(output) : NULL;
    const char *status = json_string_value(json_object_get(all, "status"));
    const char *name = json_string_value(json_object_get(all, "job"));
    const char *why = json_string_value(json_object_get(all, "error"));
    json_int_t code = json_integer_value(json_object_get(all, "exit_code"));
    bool failed = status && strcmp(status, "failed") == 0 && name && strcmp(name, job->name) == 0 &&
                  code > 0 && code < 128;
    if (failed) {
        *exit_code = (int)code;
        err_set(e, ERR_CLOSED, "the chief ended the job: %s", why ? why : "its log has the reason");
    }
    json_decref(all);
    return failed;
}

/* ---- is the job alive? ---- */

static enum err check_alive(struct watch *v, int64_t now, struct errmsg *e)
{
    const struct evaluator_role *r = v->role;
    const char *ps = r->cluster->ps[0];
    bool failed = chief_end_failed(r->chief, r->job, r->output, &v->failed, e);
    if (now - v->called_ms >= (failed ? FAILED_EVERY_MS : ALIVE_EVERY_MS)) {
        v->ps = (struct reach){.address = ps};
        /* A ps serves until its job is over, so while it listens, more checkpoints may come. */
        bool there = reach_all(&v->ps, 1, ALIVE_CONNECT_MS) == ERR_OK && v->ps.is == REACH_OPEN;
        v->called_ms = now = clock_now_ms();
        if (there)
            v->alive_ms = now;
        else if (failed) /* a ps that is there waits for another process of the chief */
            return ERR_CLOSED;
    }
    if (!v->seen && now - v->began_ms > (int64_t)r->job->timeouts.start_s * 1000)
        return err_set(e, ERR_TIMEOUT,
                       "%s: no checkpoint after %u s (timeouts.start_s): the evaluator needs the "
                       "chief's output directory, on storage that both share",
                       r->checkpoints->where, r->job->timeouts.start_s);
    if (!v->seen || now - v->alive_ms <= (int64_t)r->job->timeouts.ps_rejoin_s * 1000)
        return ERR_OK;
    char state[400];
    if (v->last_seen)
        (void)snprintf(state, sizeof state,
                       "the final checkpoint is evaluated, but its result is not written: %.300s",
                       v->why_unsaved.text);
    else if (v->verdict.there && !v->verdict.whole)
        (void)snprintf(state, sizeof state, "the final checkpoint, %" PRIu64 ", cannot be used",
                       v->verdict.cut);
    else
        (void)snprintf(state, sizeof state, "the last checkpoint is not the final one");
    return err_set(e, ERR_TIMEOUT,
                   "ps 0 at %s was not available for %u s (timeouts.ps_rejoin_s)%s%s; %s", ps,
                   r->job->timeouts.ps_rejoin_s, v->ps.why[0] ? ": " : "", v->ps.why, state);
}

static void say_waiting(struct watch *v, int64_t now)
{
    if (now - v->said_ms < SAY_MS)
        return;
    v->said_ms = now;
    const struct job_timeouts *t = &v->role->job->timeouts;
    if (!v->seen)
        log_info("waiting %" PRId64
                 " s for the first checkpoint in %s, at most %u s (timeouts.start_s)",
                 (now - v->began_ms) / 1000, v->role->checkpoints->where, t->start_s);
    else if (now - v->alive_ms >= SAY_MS)
        log_warn("waiting %" PRId64 " s for ps 0, at most %u s (timeouts.ps_rejoin_s)",
                 (now - v->alive_ms) / 1000, t->ps_rejoin_s);
    else
        log_debug("waiting for the next checkpoint; ps 0 was last reached %" PRId64 " s ago",
                  (now - v->alive_ms) / 1000);
}

/* ---- one checkpoint ---- */

/* True also for a cut of an earlier release, which does not list it. */
static bool has_our_encoding(const char *text, const struct manifest_encoding *f)
{
    struct errmsg e;
    return !text || !f->bytes || !checkpoint_check_encoding(f, text, strlen(text), "", &e);
}

/* Check that the checkpoint belongs to our job and our data, and that our rows were read with its encoding. */
static enum err check_manifest(struct watch *v, const struct manifest *m, struct errmsg *e)
{
    const struct evaluator_role *r = v->role;
    enum err err = job_identity_compare(m->identity_text, r->job->identity_text, e);
    if (err)
        return err_wrap(e, ERR_INPUT, "%s: checkpoint %" PRIu64 " belongs to another job: ",
                        r->checkpoints->where, m->cut);
    if (!contents_same(r->data, m->data_fingerprint, sizeof m->data_fingerprint) &&
        !contents_is_untold(r->data, m->data_fingerprint))
        return err_set(e, ERR_INPUT,
                       "%s: checkpoint %" PRIu64
                       " was trained on other data: data.train must name the same data everywhere",
                       r->checkpoints->where, m->cut);
    if (m->total_elems != model_layout(r->model)->elems)
        return err_set(
            e, ERR_INPUT,
            "%s: checkpoint %" PRIu64 " has %" PRIu64 " parameters, but the model has %" PRIu64,
            r->checkpoints->where, m->cut, m->total_elems, model_layout(r->model)->elems);
    v->other_encoding = !has_our_encoding(r->encoding, &m->encoding);
    if (v->other_encoding)
        return err_set(e, ERR_INPUT,
                       "%s: the encoding of the rows in checkpoint %" PRIu64
                       " differs from this evaluator's (words, scales or buckets): give it the "
                       "chief's data.encoding",
                       r->checkpoints->where, m->cut);
    return ERR_OK;
}

/* Results of this job must not get into the directory of another one, if DIR is removed or replaced. */
static enum err guard_output(struct watch *v, const struct manifest *m, struct errmsg *e)
{
    if (strcmp(v->guarded, m->uuid) == 0)
        return ERR_OK;
    enum err err = dirguard_check(e);
    if (err)
        return err;
    (void)snprintf(v->guarded, sizeof v->guarded, "%s", m->uuid);
    return dirguard_begin(v->role->output, -1, e);
}

/* The results of one run belong together: the curve, and the last one, which is the job's. */
static enum err check_eval_data(const struct watch *v, const struct manifest *newest,
                                struct errmsg *e)
{
    char data[CONTENTS_HEX_BYTES];
    contents_hex(v->role->eval->contents, data);
    if (!eval_log_last(&v->log, newest->uuid) || !v->log.data[0] ||
        contents_same_hex(v->role->eval->contents, v->log.data))
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "%s/eval.json: earlier checkpoints of this run were evaluated on other data "
                   "(fingerprint %.12s there, %.12s here): use the same %s, or remove the file",
                   v->role->output, v->log.data, data, dataset_eval_name(v->role->job));
}

/* The cut is held until it is evaluated: rows of tables are read when their keys are known. */
static enum err evaluate_cut(struct watch *v, const struct manifest *m, struct sums *sums,
                             struct errmsg *e)
{
    const struct evaluator_role *r = v->role;
    struct cut_rows rows = {r->checkpoints, m, r->job->training.seed};
    const bool untrained = !m->final && manifest_epochs(m, r->batches_per_epoch) == 0;
    int hold;
    enum err err = checkpoint_hold((struct cut){r->checkpoints, m->cut}, &hold, e);
    if (err)
        return err;
    err = checkpoint_read_learned(r->checkpoints, m, &r->job->optimizer, v->w, e);
    if (!err && !atomic_load(&signals)) /* a signal may have come while the weights were read */
        err = evaluator_run(v->evaluator, v->w,
                            &(struct row_reader){cut_rows_read, &rows, true, untrained}, sums, e);
    place_release(hold);
    return err;
}

static void report_result(struct watch *v, const struct eval_result *r)
{
    const struct job *job = v->role->job;
    char words[PROGRESS_WORDS_BYTES], best[64];
    progress_words(words, job, &r->eval);
    (void)progress_planted(&v->role->planted, best);
    atomic_store(&v->meter.cut, r->cut);
    atomic_store(&v->meter.step, r->eval.step);
    atomic_store(&v->meter.loss, r->eval.loss);
    atomic_store(&v->meter.seconds, r->seconds);
    for (uint32_t i = 0; i < job->model.metrics; i++)
        atomic_store(&v->meter.metric[i], r->eval.metric[i]);
    atomic_fetch_add(&v->meter.results, 1);
    log_info("checkpoint %" PRIu64 ", step %" PRIu64 "%s: eval%s%s, in %.1f s", r->cut,
             r->eval.step, r->final ? " (final)" : "", words, best, r->seconds);
    progress_say(v->role->progress_fd, "evaluator: step %" PRIu64 ": eval%s%s", r->eval.step, words,
                 best);
}

static enum err keep_result(struct watch *v, const struct manifest *m, const struct eval_result *r,
                            struct errmsg *e)
{
    bool again;
    enum err err = eval_log_add(&v->log, m->uuid, r, &again);
    if (err)
        return err_set(e, err, "out of memory");
    if (again || !v->begun || v->undone != UINT64_MAX)
        events_restart(v->events, EVENTS_EVAL, v->undone < r->eval.step ? v->undone : r->eval.step);
    v->begun = v->unsaved = true;
    v->undone = UINT64_MAX;
    contents_hex(v->role->eval->contents, v->log.data);
    eval_log_add_blas(&v->log, model_blas(v->role->model));
    uint64_t per_epoch = v->role->batches_per_epoch;
    bool ends = m->redo.there ? m->redo.begin == m->step : m->step % per_epoch == 0;
    curves_put_evaluation(v->events, v->role->job, r->eval.step, r->eval.step > 0 && ends,
                          &r->eval);
    report_result(v, r);
    return ERR_OK;
}

/* ERR_CLOSED: a signal interrupted it. */
static enum err evaluate_checkpoint(struct watch *v, const struct manifest *m, struct errmsg *e)
{
    double began_s = clock_now_s();
    struct sums sums;
    enum err err = check_manifest(v, m, e);
    if (!err)
        err = evaluate_cut(v, m, &sums, e);
    /* removed, or written again after a rollback */
    if (err == ERR_NOTFOUND || err == ERR_CORRUPT) {
        log_warn("checkpoint %" PRIu64 " is skipped: %s", m->cut, e->text);
        v->passed = (struct eval_passed){m->generation, m->cut, m->crc};
        v->any_passed = true;
        return ERR_OK;
    }
    if (atomic_load(&signals))
        return ERR_CLOSED;
    if (err)
        return err;
    struct eval_result r = {.cut = m->cut,
                            .generation = m->generation,
                            .manifest = m->crc,
                            .final = m->final,
                            .examples = sums.examples,
                            .seconds = clock_now_s() - began_s,
                            .eval = {.step = m->step, .loss = sums.loss}};
    memcpy(r.eval.metric, sums.metric, sizeof r.eval.metric);
    return keep_result(v, m, &r, e);
}

/* ---- the directory ---- */

struct found {
    size_t n;
    struct manifest *m; /* newest first */
    bool partly;        /* a manifest could not be read */
};

static void found_close(struct found *f)
{
    for (size_t i = 0; i < f->n; i++)
        manifest_close(&f->m[i]);
    mem_free(f->m);
    *f = (struct found){.n = 0};
}

/* Find the readable manifests; the chief logs what is wrong with others. If the newest is from a newer release:
 * ERR_INPUT, because later ones will be too. */
static enum err found_read(const struct watch *v, struct found *f, struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(v->role->checkpoints, &cuts, &n, e);
    if (err)
        return err;
    *f = (struct found){.m = mem_zalloc(n + 1, sizeof *f->m)};
    for (size_t i = 0; f->m && i < n && err != ERR_NEWER; i++) {
        enum err one =
            checkpoint_load_manifest((struct cut){v->role->checkpoints, cuts[i]}, &f->m[f->n], e);
        f->n += one == ERR_OK;
        f->partly |= one != ERR_OK && one != ERR_CORRUPT;
        err = i == 0 && one == ERR_NEWER ? one : ERR_OK;
    }
    mem_free(cuts);
    if (err) {
        found_close(f);
        return err_wrap(e, ERR_INPUT, "start the release that wrote it: ");
    }
    /* Leave out the cuts of the earlier job (checkpoint.run), which the chief removes when it has started. */
    size_t kept = 0;
    bool over = f->n > 0 && warm_start_is_due(v->role->job, &f->m[0]);
    while (!over && kept < f->n && strcmp(f->m[kept].uuid, f->m[0].uuid) == 0)
        kept++;
    for (size_t i = kept; i < f->n; i++)
        manifest_close(&f->m[i]);
    f->n = kept;
    return f->m ? ERR_OK : err_memory(e);
}

static const struct eval_passed *passed(const struct watch *v)
{
    return v->any_passed ? &v->passed : NULL;
}

static bool verdict_is_of(const struct verdict *last, const struct manifest *m)
{
    return last->there && last->cut == m->cut && last->manifest == m->crc;
}

/* Check a final checkpoint completely, as the chief does before it believes that the job is done: from a damaged one the
 * job goes back. A damaged one is checked again later, since its storage may have failed. */
static enum err check_final(struct watch *v, const struct manifest *m, bool *whole,
                            struct errmsg *e)
{
    struct verdict *last = &v->verdict;
    int64_t now = clock_now_ms();
    struct manifest read = {0};
    bool checked = verdict_is_of(last, m);
    *whole = checked && last->whole;
    if (*whole || (checked && now - last->at_ms < SAY_MS))
        return ERR_OK;
    enum err err = checkpoint_load_whole((struct cut){v->role->checkpoints, m->cut}, &read, e);
    manifest_close(&read);
    if (err && err != ERR_CORRUPT && err != ERR_NOTFOUND)
        return err;
    *whole = err == ERR_OK;
    if (err && !checked)
        log_warn("the final checkpoint, %" PRIu64
                 ", cannot be used, so the job resumes from an older one: %s",
                 m->cut, e->text);
    *last = (struct verdict){m->cut, m->crc, true, *whole, now};
    return ERR_OK;
}

/* True if the next chief looks at this checkpoint before it believes that the job is done. A living chief has published the later
 * ones; and a result must not wait for the check. */
static bool needs_check(const struct watch *v, const struct manifest *m)
{
    return m->final && m->cut <= v->at_start &&
           (verdict_is_of(&v->verdict, m) || eval_log_knows(&v->log, m, passed(v)));
}

/* Leave out a final checkpoint that is damaged: the chief goes back, and another one will follow. */
static enum err leave_damaged(struct watch *v, struct found *f, struct errmsg *e)
{
    bool whole = false;
    while (f->n > 0 && needs_check(v, &f->m[0])) {
        enum err err = check_final(v, &f->m[0], &whole, e);
        if (err || whole)
            return err;
        manifest_close(&f->m[0]);
        memmove(f->m, f->m + 1, --f->n * sizeof *f->m);
    }
    return ERR_OK;
}

/* Forget the results of a history that was rolled back. */
static void undo_results(struct watch *v, const struct found *f)
{
    uint64_t first = f->partly ? UINT64_MAX : eval_log_undo(&v->log, f->m, f->n);
    if (first == UINT64_MAX)
        return;
    log_info("the job went back: results from step %" PRIu64 " on are removed", first);
    v->undone = first < v->undone ? first : v->undone;
}

/* Read the directory once, and evaluate the next checkpoint. *done: the final checkpoint is evaluated. */
static enum err evaluate_next(struct watch *v, bool *done, bool *more, struct errmsg *e)
{
    struct found f;
    enum err err = found_read(v, &f, e);
    if (err)
        return err;
    if (f.n > 0 && !v->seen) {
        v->alive_ms = clock_now_ms();
        v->at_start = f.m[0].cut;
    }
    v->seen |= f.n > 0;
    atomic_store(&v->meter.seen, v->seen);
    err = leave_damaged(v, &f, e);
    if (!err)
        undo_results(v, &f);
    long next = eval_log_choose(&v->log, f.m, f.n, passed(v));
    if (!err && f.n > 0)
        err = guard_output(v, &f.m[0], e);
    if (!err && f.n > 0)
        err = check_eval_data(v, &f.m[0], e);
    if (!err && next >= 0)
        err = evaluate_checkpoint(v, &f.m[next], e);
    *more = !err && next > 0;
    v->final_seen = !err && next < 0 && f.n > 0 && f.m[0].final && eval_log_of(&v->log, &f.m[0]);
    *done = v->last_seen =
        v->final_seen && /* no checkpoint will follow this one */
        manifest_epochs(&f.m[0], v->role->batches_per_epoch) >= v->role->job->training.epochs;
    found_close(&f);
    return err;
}

/* A full disk must not end the evaluator, because the chief waits for the file: the write is tried again. */
static void save_log(struct watch *v, int64_t now)
{
    struct errmsg *why = &v->why_unsaved;
    if (!v->unsaved || now - v->tried_ms < 1000)
        return;
    v->tried_ms = now;
    v->unsaved = eval_log_write(&v->log, v->role->job, v->role->output, why) != ERR_OK;
    if (v->unsaved && now - v->said_ms >= SAY_MS) {
        log_warn("the result is not written yet, and the write will be tried again: %s", why->text);
        v->said_ms = now;
    } else if (!v->unsaved) {
        v->tried_ms = 0;
    }
}

/* Errors: ERR_STATE, DIR is no longer this job's. */
static enum err check_dir(struct watch *v, int64_t now, struct errmsg *e)
{
    if (now - v->guard_ms < DIRGUARD_EVERY_MS)
        return ERR_OK;
    v->guard_ms = now;
    return dirguard_check(e);
}

static enum err watch_run(struct watch *v, struct errmsg *e)
{
    struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    enum err err = ERR_OK;
    while (!atomic_load(&signals)) {
        bool done = false, more = false;
        err = evaluate_next(v, &done, &more, e);
        int64_t now = clock_now_ms();
        if (tls_own()) /* no connection uses it, but /metrics reports it */
            (void)tls_look(tls_own(), now);
        if (err == ERR_IO && now - v->away_said_ms >= SAY_MS) { /* the storage is unavailable */
            log_warn("%s", e->text);
            v->away_said_ms = now;
        }
        err = err == ERR_IO ? ERR_OK : err;
        if (err)
            return err == ERR_CLOSED ? ERR_OK : err;
        save_log(v, now);
        err = check_dir(v, now, e);
        if (err)
            return err;
        if (done && !v->unsaved)
            return ERR_OK;
        if (v->final_seen && !v->unsaved && now - v->alive_ms > GONE_MS)
            return ERR_OK;
        if (more)
            continue;
        err = check_alive(v, now, e);
        if (err)
            return err;
        say_waiting(v, now);
        (void)nanosleep(&pause, NULL);
    }
    return ERR_OK;
}

/* ---- life ---- */

static enum err watch_make(struct watch *v, struct errmsg *e)
{
    const struct evaluator_role *r = v->role;
    uint32_t threads = r->job->worker.threads ? r->job->worker.threads : cores_usable();
    v->http = (struct evaluator_http){.job = r->job, .cluster = r->cluster, .meter = &v->meter};
    enum err err =
        http_thread_new(&v->http.thread, r->http_fd, &http_ops_of_evaluator, &v->http, e);
    if (err)
        return err;
    v->w = mem_floats(model_layout(r->model)->elems);
    if (!v->w)
        return err_memory_for(e, "the parameters");
    err = blas_take(threads, e);
    if (!err)
        err = pool_new(&v->pool, threads, e);
    if (!err)
        err = evaluator_new(&v->evaluator, r->job, r->model, r->eval, v->pool, e);
    if (err)
        return err;
    err = eval_log_read(&v->log, r->job, r->output, e);
    if (err == ERR_CORRUPT) {
        log_warn("%s: starting with an empty one", e->text);
        err = ERR_OK;
    }
    if (!err && r->job->logs.tensorboard)
        v->events = events_new(r->logs, &v->logs_disk);
    return err;
}

enum err evaluator_role_run(const struct evaluator_role *role, struct evaluator_end *end,
                            struct errmsg *e)
{
    int64_t now = clock_now_ms();
    struct watch v = {.role = role,
                      .began_ms = now,
                      .alive_ms = now,
                      .undone = UINT64_MAX,
                      .said_ms = now - SAY_MS,
                      .away_said_ms = now - SAY_MS};
    disk_thread_init(&v.logs_disk);
    enum err err = watch_make(&v, e);
    if (!err) {
        atomic_store(&running, v.evaluator);
        struct sigaction action = {.sa_handler = evaluator_on_signal};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(SIGTERM, &action, NULL);
        (void)sigaction(SIGINT, &action, NULL);
        log_info("evaluating the checkpoints of %s on %" PRIu64 " examples",
                 role->checkpoints->where, role->eval->rows);
        err = watch_run(&v, e);
        atomic_store(&running, NULL);
    }
    *end = (struct evaluator_end){
        .signaled = atomic_load(&signals) > 0, .encoding = v.other_encoding, .exit_code = v.failed};
    if (end->signaled)
        log_info("asked to stop");
    http_thread_free(v.http.thread);
    events_free(v.events);
    disk_thread_close(&v.logs_disk);
    eval_log_close(&v.log);
    evaluator_free(v.evaluator);
    pool_free(v.pool);
    mem_free(v.w);
    return err;
}
