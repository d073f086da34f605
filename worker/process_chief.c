/* The chief's part of a worker process: its run, and summary.json. */
#include "worker/process.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"
#include "common/process/signals.h"
#include "worker/chief/host.h"
#include "worker/tensorboard/events.h"
#include "worker/chief/journal_file.h"
#include "worker/chief/model_end.h"
#include "worker/evaluator/eval_log.h"
#include "worker/control/idle.h"
#include "worker/summarize.h"

/* Export the tables to model/, from the final cut (which is loaded) or the best one's, and to best/. */
static enum err export_tables(struct process *p, const struct manifest *final, struct errmsg *e)
{
    struct place model;
    const struct cut_tables end = {.job = &p->job,
                                   .layout = model_layout(p->model),
                                   .to = &model,
                                   .checkpoints = &p->checkpoints};
    place_of_job(&model, p->output, OUTPUT_MODEL);
    return end.layout->rows ? model_end_tables(&end, final, &p->best, p->learned.digest, e)
                            : ERR_OK;
}

/* The same for a job that ends now. */
static enum err export_final_tables(struct process *p, struct errmsg *e)
{
    struct manifest final;
    if (!model_layout(p->model)->rows || p->result.exit_code != 0)
        return ERR_OK;
    enum err err = host_find_final(&p->checkpoints, &final, e);
    if (err)
        return err_wrap(e, err, "the final checkpoint, whose rows go to model/: ");
    err = export_tables(p, &final, e);
    manifest_close(&final);
    return err;
}

static void take_base_eval(struct process *p)
{
    p->learned.has_eval = p->base.eval.valid;
    p->learned.eval.loss = p->base.eval.loss;
    memcpy(p->learned.eval.metric, p->base.eval.metric, sizeof p->base.eval.metric);
}

/* The job was done before: complete its files from the checkpoint. */
static enum err complete(struct process *p, const struct epoch_end_config *config, struct errmsg *e)
{
    uint64_t elems = model_layout(p->model)->elems;
    float *w = mem_floats(elems);
    if (!w)
        return err_memory_for(e, "the parameters");
    bool best = epoch_end_restores_best(config);
    enum err err =
        best ? best_read(&p->best, w, e)
             : checkpoint_read_learned(&p->checkpoints, &p->base, &p->job.optimizer, w, e);
    if (!err)
        err = epoch_end_export(config, w, p->base.step, p->learned.digest, e);
    if (!err)
        err = export_tables(p, &p->base, e);
    mem_free(w);
    take_base_eval(p);
    if (best) {
        p->learned.has_eval = true;
        p->learned.eval = p->best.eval;
    }
    return err;
}

/* The job was done, but its evaluator was not: wait for its result again, within its bound. The other processes are
 * gone by now; a signal ends the wait. */
static void await_evaluator(const struct process *p)
{
    int64_t began_ms = clock_now_ms(), bound_ms = (int64_t)p->job.timeouts.evaluator_s * 1000;
    struct timespec pause = {.tv_nsec = 200000000};
    for (bool waited = false;; waited = true) {
        struct errmsg e;
        struct eval_result r;
        bool there = eval_log_judged(&p->job, p->output, &p->base, &r, &e);
        if (e.text[0])
            log_warn("%s", e.text);
        if (there || signals_held() || clock_now_ms() - began_ms > bound_ms)
            return;
        if (!waited)
            log_info("waiting for the evaluator's result of the final checkpoint, %" PRIu64,
                     p->base.cut);
        (void)nanosleep(&pause, NULL);
    }
}

/* The evaluator's results for this job's checkpoints up to the last one. */
struct judged {
    struct eval_log log;
    struct manifest last;
};

static void results_close(struct judged *r)
{
    eval_log_close(&r->log);
    manifest_close(&r->last);
}

/* The number of the last cut; UINT64_MAX: there is none. host NULL: no cut was made in this run. */
static uint64_t last_cut(const struct process *p, const struct host *host)
{
    if (host && !p->finished && host_facts(host)->running)
        return host_facts(host)->cut;
    return p->has_base ? p->base.cut : UINT64_MAX;
}

/* Results count only if they belong to the past of the last cut. On an error there are none. */
static void read_results(const struct process *p, const struct host *host, struct judged *r)
{
    struct errmsg e;
    uint64_t cut = last_cut(p, host);
    *r = (struct judged){.log.n = 0};
    if (!p->cluster.has_evaluator || cut == UINT64_MAX)
        return;
    enum err err = eval_log_read(&r->log, &p->job, p->output, &e);
    if (!err)
        err = checkpoint_load_manifest((struct cut){&p->checkpoints, cut}, &r->last, &e);
    if (!err) {
        (void)eval_log_undo(&r->log, &r->last, 1);
        return;
    }
    log_warn("the evaluator's results are not used: %s", e.text);
    results_close(r);
}

/* Write the manifest of the trained model, if this run or an earlier one has written the model. */
static enum err end_model(const struct process *p, const struct epoch_end_config *config,
                          const struct host *host, struct errmsg *e)
{
    struct judged results;
    if (p->result.exit_code != 0 || !p->learned.digest[0])
        return ERR_OK;
    read_results(p, host, &results);
    const struct model_end end = {.config = config,
                                  .learned = &p->learned,
                                  .evaluator = p->cluster.has_evaluator ? &results.log : NULL,
                                  .final = &results.last};
    enum err err = model_end_write(&end, e);
    results_close(&results);
    return err;
}

/* For write_rest. */
struct rest {
    struct process *p;
    const struct epoch_end_config *config;
};

/* All that can fail is written before ps and workers hear that the job is done. The manifest waits for the evaluator's
 * result, if the job has an evaluator. */
static enum err write_rest(void *arg, struct errmsg *e)
{
    const struct rest *r = arg;
    enum err err = export_final_tables(r->p, e);
    return err || r->p->cluster.has_evaluator ? err : end_model(r->p, r->config, NULL, e);
}

/* True: DIR is no longer this job's, so nothing can be written there. */
static bool lost_output(struct process *p)
{
    struct errmsg e;
    if (!dirguard_check(&e))
        return false;
    if (p->result.exit_code == 0) {
        p->result.exit_code = 1;
        (void)snprintf(p->result.error, sizeof p->result.error, "%s", e.text);
    }
    return true;
}

static enum err summarize_run(struct process *p, const struct host *host, struct errmsg *e)
{
    struct judged results;
    read_results(p, host, &results);
    const struct summarize what = {.evaluator = p->cluster.has_evaluator ? &results.log : NULL,
                                   .job = &p->job,
                                   .journal = &p->journal,
                                   .cluster = &p->cluster,
                                   .result = &p->result,
                                   .learned = &p->learned,
                                   .log = &p->log,
                                   .base = p->has_base ? &p->base : NULL,
                                   .finished = p->finished,
                                   .launched = p->flags.progress_fd >= 0,
                                   .batches_per_epoch = order_batches(&p->rows->order),
                                   .rows = p->data.rows,
                                   .planted = p->planted,
                                   .output = p->output,
                                   .exports = &p->exports,
                                   .host = host,
                                   .words = p->done_words};
    enum err err = summarize(&what, e);
    results_close(&results);
    return err;
}

/* The run ends with an error from here on, which the summary has. */
static void fail_run(struct process *p, enum err err, const struct errmsg *why)
{
    p->result.exit_code = err_exit_code(err);
    (void)snprintf(p->result.error, sizeof p->result.error, "%s", why->text);
}

/* The job's training failed before this run. */
enum err process_summarize_failed(struct process *p, struct errmsg *e)
{
    p->learned.first_step_s = NAN;
    take_base_eval(p);
    return summarize_run(p, NULL, e);
}

/* In other modes than sync no job is exact, whatever multiplies. */
static const char *blas_of(const struct process *p)
{
    return p->job.training.update == UPDATE_SYNC ? model_blas(p->model) : "";
}

static void warn_of_kernels(const struct process *p)
{
    const char *blas = blas_of(p), *other = journal_blas_other(&p->journal, blas);
    if (*blas && other)
        log_warn("this job is not exact: the chief multiplies with OpenBLAS's kernels for %s, and "
                 "the job did so earlier with others (%s); set the same OPENBLAS_CORETYPE in the "
                 "environment of every process",
                 blas, other);
}

/* A name that no other journal has. */
static struct journal_entry new_name(const struct process *p)
{
    char name[UUID_BYTES];
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        random[0] = (uint64_t)clock_wall_ms();
        random[1] = (uint64_t)getpid();
    }
    uuid_make(name, random[0], random[1]);
    return journal_name_entry(
        name, p->has_base ? manifest_epochs(&p->base, order_batches(&p->rows->order)) : 0);
}

/* The reason why the job is not exact any more, found before it trains; "": none. */
static struct journal_entry inexact_at_start(const struct process *p)
{
    struct journal_entry entry = {.kind = JOURNAL_INEXACT, .cut = UINT64_MAX};
    if (p->past[0])
        (void)snprintf(entry.what, sizeof entry.what, "%s", p->past);
    else if (p->best.lost && !p->finished)
        (void)snprintf(entry.what, sizeof entry.what,
                       "the best epoch was damaged or missing when the job started again");
    return entry;
}

static bool is_news(const struct process *p, const struct journal_entry *inexact)
{
    return inexact->what[0] && p->job.training.update == UPDATE_SYNC &&
           !journal_inexact(&p->journal);
}

/* Before the chief trains, the journal has a name, its kernels, and the reason why the job is not exact any more. */
static void note_start(struct process *p)
{
    const struct journal_entry blas = journal_blas_entry("chief", blas_of(p));
    const struct journal_entry inexact = inexact_at_start(p);
    struct journal_entry entry[3];
    size_t n = 0;
    struct errmsg e = {"no memory"};
    if (!*journal_name(&p->journal))
        entry[n++] = new_name(p);
    if (*blas_of(p) && !journal_has_blas(&p->journal, &blas))
        entry[n++] = blas;
    if (is_news(p, &inexact))
        entry[n++] = inexact;
    enum err err = n ? journal_append(&p->checkpoints, entry, n, &e) : ERR_OK;
    if (!err && !p->has_base)
        err = process_mark_begin(p, &e);
    for (size_t i = 0; i < n; i++)
        if (journal_add(&p->journal, &entry[i]))
            err = ERR_NOMEM;
    if (err)
        log_warn("the journal lacks its name, OpenBLAS's kernels or the reason why the job is not "
                 "exact, so a later chief does not know them: %s",
                 e.text);
}

/* After a signal the job is done, but lacks a file that it is to have: a supervisor must start it again. */
static void export_all(struct process *p)
{
    exports_end_run(&p->job, p->output, p->flags.progress_fd, &p->exports);
    if (!p->exports.interrupted)
        return;
    p->result.exit_code = 143;
    (void)snprintf(p->result.error, sizeof p->result.error,
                   "asked to stop while it exported: the next run exports again");
}

/* Write what DIR has of a run that has ended. */
static enum err write_end(struct process *p, const struct epoch_end_config *config,
                          const struct host *host, struct errmsg *e)
{
    enum err err = p->cluster.has_evaluator ? end_model(p, config, host, e) : ERR_OK;
    if (err)
        fail_run(p, err, e);
    else if (p->result.exit_code == 0 && p->learned.digest[0])
        export_all(p);
    return summarize_run(p, host, e);
}

/* The job was done before: write its model and its summary again. Errors: ERR_INPUT the summary stays as it was. */
static enum err write_again(struct process *p, const struct epoch_end_config *config,
                            struct errmsg *e)
{
    enum err err = complete(p, config, e);
    if (!err)
        err = end_model(p, config, NULL, e);
    if (!err)
        return summarize_run(p, NULL, e);
    if (err == ERR_INPUT)
        return err;
    fail_run(p, err, e);
    return process_summarize_failed(p, e);
}

/* Connect the processes of the job, and train until the end, which p->result has. */
static enum err meet_and_train(struct process *p, struct host *host, struct train *train,
                               struct epoch_end *end, struct errmsg *e)
{
    struct driver *driver = train_parts(train)->driver;
    struct control control;
    struct control_config control_config = {.job = &p->job,
                                            .cluster = &p->cluster,
                                            .train = driver_mailbox(driver),
                                            .http_fd = p->http_fd,
                                            .handed = process_is_first_start(p),
                                            .meter = driver_meter(driver)};
    interim_end(&p->interim);
    enum err err = control_init(&control, &control_config, &host_ops, host, e);
    p->introduced = err == ERR_OK;
    if (err)
        return err;
    train_run(train, &control, &epoch_end_ops, end, &p->result);
    /* a launcher that learned of the end from another process sends SIGTERM now */
    signals_hold();
    control_post(&control, CONTROL_LEAVES, (uint64_t)p->result.exit_code,
                 mem_strdup(p->result.error), mem_free);
    control_close(&control);
    /* the exports, and the wait for the evaluator, can take longer than a probe waits */
    if (p->result.exit_code == 0 && process_begin_interim(p, STATE_DONE, e))
        log_warn("%s", e->text);
    return ERR_OK;
}

/* The job was done before: only report that to the others. The result stays that of the run that did it. */
static enum err run_done(struct process *p, const struct epoch_end_config *config,
                         struct host *host, struct train *train, struct epoch_end *end,
                         struct errmsg *e)
{
    const struct driver_result before = p->result;
    const struct epoch_end_result learned = p->learned;
    enum err err = meet_and_train(p, host, train, end, e);
    if (err)
        return err;
    int exit_code = p->result.exit_code;
    p->learned = learned;
    p->result = before;
    p->result.exit_code = exit_code;
    if (p->cluster.has_evaluator)
        await_evaluator(p);
    return lost_output(p) ? ERR_OK : write_end(p, config, host, e);
}

static enum err run_host(struct process *p, const struct epoch_end_config *config,
                         struct train *train, struct epoch_end *end, struct errmsg *e)
{
    struct host *host = NULL;
    struct host_config host_config = {.layout = model_layout(p->model),
                                      .batches_per_epoch = order_batches(&p->rows->order),
                                      .window_batches = p->rows->order.window_batches,
                                      .output = p->output,
                                      .contents = &p->data.contents,
                                      .base_cut = p->has_base ? p->base.cut : UINT64_MAX,
                                      .encoding = p->encoding,
                                      .listen_fd = p->listen_fd,
                                      .progress_fd = p->flags.progress_fd,
                                      .journal = &p->journal,
                                      .blas = blas_of(p),
                                      .logs_disk = &p->logs_disk,
                                      .seconds_before = p->learned.seconds_before,
                                      .log = &p->log,
                                      .finished = p->finished,
                                      .learned_epochs = epochs_learned(p->base.epoch),
                                      .unkept_step = config->unkept_step};
    enum err err = host_new(&host, &host_config, e);
    if (!err && p->finished)
        err = run_done(p, config, host, train, end, e);
    else if (!err)
        err = meet_and_train(p, host, train, end, e);
    if (!err && !p->finished && !lost_output(p))
        err = write_end(p, config, host, e);
    host_free(host);
    return err;
}

/* Write an object next to the checkpoints. text NULL: none. */
static enum err put(const struct process *p, const char *name, const char *text, struct errmsg *e)
{
    return text ? place_put(&p->checkpoints, name, text, strlen(text), e) : ERR_OK;
}

/* Write what best/ and the checkpoints need, apart from weights, to be used while the job runs. The job does not need it. */
static void describe(const struct process *p)
{
    struct errmsg e;
    enum err err = put(p, "job.yaml", p->job.canonical, &e);
    if (!err)
        err = put(p, "encoding.json", p->encoding, &e);
    if (err)
        log_warn("best/ and the checkpoints cannot be evaluated before the job ends: %s", e.text);
}

enum err process_run_chief(struct process *p, struct train *train, struct errmsg *e)
{
    struct curves curves = {.events = NULL};
    const struct epoch_line *unkept = process_unkept_line(p);
    struct rest rest = {.p = p};
    const struct epoch_end_config config = {.job = &p->job,
                                            .model = p->model,
                                            .data = &p->data,
                                            .eval = p->has_eval ? &p->eval_rows.source : NULL,
                                            .planted = p->planted,
                                            .best = &p->best,
                                            .curves = &curves,
                                            .log = &p->log,
                                            .finished = p->finished,
                                            .unkept_step = unkept ? unkept->step : 0,
                                            .output = p->output,
                                            .progress_fd = p->flags.progress_fd,
                                            .write_rest = write_rest,
                                            .rest = &rest};
    struct epoch_end *end = NULL;
    rest.config = &config;
    enum err err = epoch_end_new(&end, &config, train_parts(train), &p->learned, e);
    if (err)
        return err;
    disk_thread_init(&p->logs_disk);
    p->exports.n = 0;
    if (p->finished) {
        /* A job that is done trains no more: the reason is for its summary alone. */
        const struct journal_entry inexact = inexact_at_start(p);
        if (is_news(p, &inexact) && journal_add(&p->journal, &inexact))
            log_warn("no memory to note why the job is not exact: %s", inexact.what);
        err = write_again(p, &config, e);
    } else {
        describe(p);
        warn_of_kernels(p);
        note_start(p);
        curves_init(&curves, &p->job, model_layout(p->model), order_batches(&p->rows->order),
                    p->data.rows, p->logs, &p->logs_disk);
    }
    if (!err && p->result.exit_code == 0)
        err = run_host(p, &config, train, end, e);
    curves_close(&curves, !err && p->result.exit_code == 0);
    disk_thread_close(&p->logs_disk);
    epoch_end_free(end);
    return err;
}

void process_note_failed(const struct process *p, int exit_code, const char *why)
{
    struct errmsg e;
    bool begun = !p->owns_output || p->introduced; /* by another process, or by this one */
    if (begun || p->flags.progress_fd >= 0 || exit_code <= 0 || exit_code >= 128)
        return;
    if (dirguard_check(&e) || summary_write_failed(&p->job, p->output, exit_code, why, &e))
        log_warn("%s", e.text);
}

void process_tell_failed(const struct process *p, int exit_code, const char *why)
{
    Gradwire__Done what = GRADWIRE__DONE__INIT;
    what.exit_code = exit_code;
    what.text = (char *)why;
    what.linger_s = p->job.timeouts.worker_rejoin_s;
    bool waited_for = p->owns_output && !p->introduced && p->cluster.n_ps && !p->cluster.alone;
    if (waited_for && p->flags.progress_fd < 0 && exit_code > 0 && exit_code < 128)
        failed_start_tell(&p->job, &p->cluster, &what);
}
