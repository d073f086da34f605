/* The worker process: reads its flags, job and data, trains until the chief ends the job, and, as the chief, leaves
 * summary.json. */
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/peers/auth.h"
#include "common/process/cgroup.h"
#include "common/base/clock.h"
#include "common/process/dirlock.h"
#include "common/checkpoint/ending.h"
#include "common/parameters/epochs.h"
#include "common/flags/flags.h"
#include "common/math/kernels.h"
#include "common/net/listen.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/wire/msg.h"
#include "common/process/process_state.h"
#include "common/process/signals.h"
#include "common/process/termination.h"
#include "common/net/tls.h"
#include "common/peers/token.h"
#include "worker/alone.h"
#include "worker/chief/ended.h"
#include "worker/chief/epoch_end.h"
#include "worker/chief/host.h"
#include "worker/data/planted.h"
#include "worker/tensorboard/curves.h"
#include "worker/doctor/doctor.h"
#include "worker/chief/journal_file.h"
#include "worker/chief/resume.h"
#include "worker/chief/tables_end.h"
#include "worker/evaluate/eval_log.h"
#include "worker/evaluate/evaluator_role.h"
#include "worker/control/cut_reader.h"
#include "worker/control/idle.h"
#include "worker/control/interim.h"
#include "worker/control/chief_link.h"
#include "worker/control/progress.h"
#include "worker/lr_finder.h"
#include "worker/model/blas.h"
#include "worker/model/growth.h"
#include "worker/warm_start/warm_start.h"
#include "worker/summarize.h"
#include "worker/taught/taught.h"
#include "worker/tables_ahead.h"

enum {
    ENCODING_TRIES = 3, /* to read a cut's encoding.json from the chief */
    ENCODING_PAUSE_MS = 1000
};

static const char BEFORE_TRAINING[] = "told to go before training began";

struct process {
    struct flags flags;
    struct cluster cluster;
    struct job job;
    char output[4096], checkpoints[4200], logs[4200];
    struct model *model;
    struct dataset data, eval;
    bool has_eval;
    struct planted planted;
    struct order order;
    int listen_fd, http_fd;
    bool listens;
    struct interim interim; /* answers by HTTP while no loop of ours does */
    /* DONE, IDLE: before it trains (again), it waits to be called; else LOADING. */
    enum process_state rests;
    struct idle_run over; /* what it trained last, or has found to be over */
    bool known_over;      /* the job, as its file was read last, was done when we looked */
    bool told_over;       /* ps 0 said so, while the rows did not fit the model as they are */
    struct manifest base; /* the chief: the newest usable cut */
    bool has_base, finished;
    struct taught taught;            /* by the newest cut: what rows mean */
    struct control_encoding read_by; /* a worker: there: taught is what the chief has said */
    uint32_t encoding_tries;         /* that failed */
    char *encoding;         /* what they mean, for the cuts that follow; NULL: the format says it */
    struct journal journal; /* the chief: of the runs before */
    struct disk_thread logs_disk; /* DIR/logs, and eval.json */
    struct driver_result result;
    struct epoch_end_result learned;
    struct epoch_log log; /* the chief's, and best */
    struct best best;
};

static int wrong(enum err err, const struct errmsg *e)
{
    log_error("%s", e->text);
    return err_exit_code(err);
}

static enum err who_am_i(struct process *p, struct errmsg *e)
{
    enum log_level level = log_level_of(p->flags.log_level);
    log_init("worker", level);
    enum err err = cluster_init(&p->cluster, &p->flags.cluster, getenv("TF_CONFIG"), e);
    if (err)
        return err;
    if (p->cluster.role == ROLE_PS)
        return err_set(e, ERR_INPUT,
                       "this is worker, and the cluster says ps: start ps for that role");
    char who[32];
    if (p->cluster.role == ROLE_CHIEF || p->cluster.role == ROLE_EVALUATOR)
        (void)snprintf(who, sizeof who, "%s", role_str(p->cluster.role));
    else
        (void)snprintf(who, sizeof who, "worker %u", p->cluster.index);
    log_init(who, level);
    err = tls_check_cluster(tls_own(), &p->cluster, e);
    if (err)
        return err;
    bool serves = p->cluster.is_chief && !p->cluster.alone && p->flags.listen_fd < 0;
    return http_place_check(&p->flags.http, serves ? p->cluster.bind : NULL, e);
}

static void say_lock_waits(const char *dir, pid_t holder)
{
    log_info("%s is in use by pid %d: waiting", dir, (int)holder);
}

/* A chief that no launcher started holds DIR by itself, to its end; a launcher's lock is its own. */
static enum err lock_output(const struct process *p, struct errmsg *e)
{
    int fd; /* stays open as long as the process */
    if (!p->cluster.is_chief || p->flags.progress_fd >= 0)
        return ERR_OK;
    return dirlock_take(p->output, &fd, say_lock_waits, e);
}

/* None: has_base is false. */
static enum err newest_cut(struct process *p, struct errmsg *e)
{
    enum err err = host_find_cut(p->checkpoints, UINT64_MAX, &p->base, e);
    p->has_base = err == ERR_OK;
    if (err == ERR_OK || err == ERR_NOTFOUND)
        return ERR_OK;
    if (err == ERR_NOMEM)
        return err;
    if (err == ERR_NEWER) {
        const struct errmsg what = *e;
        return err_set(e, ERR_INPUT, "%.400s: start that release, or begin anew with --fresh",
                       what.text);
    }
    const struct errmsg each = *e;
    return err_set(e, err,
                   "none of its cuts can be used: mend them, or start anew with --fresh: %.360s",
                   each.text);
}

/* A worker that sees no checkpoint: the chief may have one that says more of its rows than they teach alone. */
static bool may_ask(const struct process *p)
{
    return p->cluster.role == ROLE_WORKER && !p->cluster.is_chief && !p->cluster.alone &&
           !p->flags.find_learning_rate && job_reads_columns(&p->job) && !p->taught.there;
}

/* The model first, which says what labels may be; the data first, where they say what the model is. */
static enum err load_model_and_data(struct process *p, struct errmsg *e)
{
    struct job *job = &p->job;
    bool data_first = job_needs_data(job);
    enum err err = ERR_OK;
    if (data_first) {
        err = dataset_load_given(&p->data, job, taught_given(&p->taught), 0, e);
        if (err)
            return err;
        dataset_tell(&p->data, job);
    }
    err = model_new(&p->model, job, e);
    if (err)
        return err;
    if (!data_first && may_ask(p))
        return dataset_load_unfitted(&p->data, job, model_classes(p->model), e);
    if (!data_first)
        return dataset_load_given(&p->data, job, taught_given(&p->taught), model_classes(p->model),
                                  e);
    err = dataset_check_classes(&p->data, model_classes(p->model), e);
    if (err == ERR_INPUT)
        return dataset_name_label(job, taught_given(&p->taught), model_classes(p->model), e);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

static enum err load_job(struct process *p, struct errmsg *e)
{
    enum err err = job_load(&p->job, p->flags.job, p->flags.sets, p->flags.n_sets, e);
    if (!err)
        err = job_output(&p->job, p->flags.output, p->output, sizeof p->output, e);
    if (err)
        return err;
    (void)snprintf(p->checkpoints, sizeof p->checkpoints, "%s/checkpoints", p->output);
    if (p->flags.logs[0])
        (void)snprintf(p->logs, sizeof p->logs, "%s", p->flags.logs);
    else
        (void)snprintf(p->logs, sizeof p->logs, "%s/logs", p->output);
    if (p->cluster.role == ROLE_EVALUATOR || (p->cluster.is_chief && p->cluster.has_evaluator))
        err = job_check_evaluator(&p->job, e);
    return err;
}

/* The chief says it in summary.json, also where an evaluator reads the rows. */
static enum err measure_planted(struct process *p, struct errmsg *e)
{
    if (!job_draws_clicks(&p->job) || !(p->cluster.is_chief || p->cluster.role == ROLE_EVALUATOR))
        return ERR_OK;
    p->planted.known = true;
    return planted_measure(&p->job, &p->planted.auc, &p->planted.logloss, e);
}

/* The chief's newest cut stays its base. */
static enum err find_taught(struct process *p, struct errmsg *e)
{
    const struct manifest *base = NULL;
    if (p->flags.find_learning_rate || p->read_by.there)
        return ERR_OK;
    enum err err = ERR_OK;
    if (p->cluster.is_chief) {
        err = lock_output(p, e);
        if (!err)
            err = newest_cut(p, e);
        base = p->has_base ? &p->base : NULL;
        if (err || !base)
            return err;
    }
    return taught_find(&p->taught, &p->job, p->output, p->checkpoints, base, e);
}

/* Who would not stay waits for a chief that trains on, as elsewhere. */
static int64_t over_ms(const struct process *p)
{
    int64_t start_ms = (int64_t)p->job.timeouts.start_s * 1000;
    if (p->flags.waits)
        return 0;
    return start_ms < ENDING_ALONE_MS ? start_ms : ENDING_ALONE_MS;
}

/* What the chief's last cut says. Tries that failed count up to ENCODING_TRIES, within timeouts.start_s. */
static enum err ask_last_cut(struct process *p, struct errmsg *e)
{
    int64_t began_ms = clock_now_ms(), start_ms = (int64_t)p->job.timeouts.start_s * 1000;
    for (;;) {
        enum err err = taught_ask(&p->taught, &p->job, &p->cluster, NULL, CUT_READER_ANY,
                                  p->data.fingerprint, over_ms(p), e);
        if (!err || err == ERR_STATE)
            return err;
        log_warn("%s", e->text);
        if (err == ERR_NOTFOUND || err == ERR_INPUT || ++p->encoding_tries >= ENCODING_TRIES ||
            clock_now_ms() - began_ms >= start_ms)
            return err;
        clock_sleep_ms(ENCODING_PAUSE_MS);
    }
}

/* Fewer words than the model has features: those of the chief's last cut may be all. Errors: ERR_STATE the job is done. */
static enum err fit_rows(struct process *p, struct errmsg *e)
{
    struct errmsg why = {""};
    enum err err = may_ask(p) ? dataset_check_shape(&p->data, &p->job, e) : ERR_OK;
    if (!err)
        return ERR_OK;
    log_info("asking the chief for what a checkpoint says of the rows: %s", e->text);
    enum err got = ask_last_cut(p, &why);
    p->told_over = got == ERR_STATE;
    if (p->told_over)
        return err_set(e, got, "%s", why.text);
    if (got)
        return err;
    dataset_close(&p->data);
    return dataset_load_given(&p->data, &p->job, taught_given(&p->taught), model_classes(p->model),
                              e);
}

/* And what its rows mean from here on. */
static enum err load_rows(struct process *p, struct errmsg *e)
{
    enum err err = find_taught(p, e);
    if (!err)
        err = load_model_and_data(p, e);
    if (!err)
        err = fit_rows(p, e);
    if (!err)
        err = taught_agree(&p->taught, &p->job, &p->data, p->flags.progress_fd, &p->encoding, e);
    return err;
}

static enum err load(struct process *p, struct errmsg *e)
{
    enum err err = load_rows(p, e);
    if (!err && p->cluster.is_chief && !p->flags.find_learning_rate)
        tables_ahead_say(&p->job, &p->cluster, &p->data, p->flags.progress_fd);
    if (!err)
        err = measure_planted(p, e);
    if (err)
        return err;
    p->order = (struct order){.rows = p->data.rows,
                              .batch_size = p->job.training.batch_size,
                              .seed = p->job.training.seed,
                              .microbatches = p->job.training.microbatches};
    if (p->job.sync.dropped == DROPPED_REDO &&
        order_batches(&p->order) > EPOCHS_LEAVES_MAX / p->order.microbatches)
        return job_blame(
            &p->job, PLACE_DROPPED,
            err_set(e, ERR_INPUT,
                    "sync.dropped: redo keeps a list of an epoch's microbatches, and %" PRIu64
                    " batches of %u are too many: at most %" PRIu64 "; lost would do",
                    order_batches(&p->order), p->order.microbatches, EPOCHS_LEAVES_MAX),
            e);
    bool has_eval = p->job.data.eval || p->job.data.format == DATA_SYNTHETIC;
    if (p->cluster.role != ROLE_EVALUATOR &&
        (!has_eval || !p->cluster.is_chief || p->cluster.has_evaluator))
        return ERR_OK;
    err = dataset_load_eval(&p->eval, &p->job, &p->data, model_classes(p->model), e);
    p->has_eval = err == ERR_OK;
    return err;
}

static enum err begin_interim(struct process *p, enum process_state state, struct errmsg *e)
{
    return interim_begin(&p->interim, p->http_fd, &p->job, &p->cluster, state, e);
}

static enum err open_port(struct process *p, struct errmsg *e)
{
    p->listen_fd = p->flags.listen_fd;
    if (!p->cluster.is_chief || p->cluster.alone)
        return ERR_OK;
    if (p->listen_fd < 0 && !p->cluster.bind)
        return ERR_OK; /* a chief that nobody can dial: it trains by itself */
    enum err err = p->listen_fd >= 0
                       ? listen_adopt(p->listen_fd, e)
                       : listen_bind(&p->listen_fd, p->cluster.bind, LISTEN_TAKEN_MS, e);
    return err ? err : auth_check_listener(p->flags.auth, p->listen_fd, e);
}

/* A run of another name begins: its first cut is made. */
static enum err begin_run(struct process *p, struct errmsg *e)
{
    uint8_t *fresh = NULL;
    struct model_growth growth = {.tensors = 0};
    enum err err = taught_fresh(&p->taught, p->data.table.schema, &fresh, e);
    if (!err && fresh)
        err = model_growth_init(&growth, p->model, fresh, e);
    const struct warm_start start = {.job = &p->job,
                                     .data_fingerprint = p->data.fingerprint,
                                     .output = p->output,
                                     .checkpoints = p->checkpoints,
                                     .layout = model_layout(p->model),
                                     .fresh = growth.fresh,
                                     .encoding = p->encoding};
    if (!err)
        err = warm_start_begin(&start, &p->base, e);
    model_growth_close(&growth);
    mem_free(fresh);
    return err;
}

/* The newest cut that can be used; of a job that is done, and of another run, the first cut that is made of it. */
static enum err find_base(struct process *p, struct errmsg *e)
{
    bool begins = !p->has_base || warm_start_is_due(&p->job, &p->base);
    enum err err = job_settle_merge(&p->job, begins ? NULL : p->base.identity_text, e);
    if (!err && p->job.training.update == UPDATE_GEO)
        log_info("rounds merge by training.geo_merge: %s",
                 job_geo_merge_word(p->job.training.geo_merge));
    if (err || !p->has_base)
        return err;
    if (!begins) {
        warm_start_settle(&p->job, p->checkpoints, &p->base);
        return ERR_OK;
    }
    err = begin_run(p, e);
    if (err)
        return err;
    manifest_close(&p->base);
    return newest_cut(p, e);
}

/* Of a job that changed. */
static const char *ways_out(const struct process *p)
{
    struct errmsg e;
    return resume_ways(
        p->base.final &&
        job_identity_compare_model(p->base.identity_text, p->job.identity_text, &e) == ERR_OK);
}

static void say_done(const struct process *p, uint64_t per_epoch, uint64_t epochs)
{
    char text[RESUME_WORDS_BYTES];
    bool early = epochs < p->job.training.epochs;
    resume_words_done(text, &p->base, &p->job, per_epoch,
                      early ? best_waited(&p->best, epochs) : 0);
    log_info("%s", text);
    progress_untrained(p->flags.progress_fd, text);
}

/* Is the cut that the chief found of this job? */
static enum err check_base(const struct process *p, uint64_t per_epoch, struct errmsg *e)
{
    if (job_identity_compare(p->base.identity_text, p->job.identity_text, e)) {
        const struct errmsg what = *e;
        return err_set(e, ERR_INPUT,
                       "%.150s: the job differs from that of its checkpoint %" PRIu64
                       ": %.150s; give it back what it had%s",
                       p->output, p->base.cut, what.text, ways_out(p));
    }
    if (memcmp(p->base.data_fingerprint, p->data.fingerprint, sizeof p->data.fingerprint) != 0)
        return err_set(e, ERR_INPUT,
                       "%.150s: the data differ from those of its checkpoint %" PRIu64
                       ": give it the same%s",
                       p->output, p->base.cut, ways_out(p));
    uint64_t epochs = manifest_epochs(&p->base, per_epoch);
    if (p->base.redo.there && p->job.sync.dropped != DROPPED_REDO &&
        epochs_regular(per_epoch, epochs, p->base.redo.begin, p->base.step) != p->base.step)
        return err_set(e, ERR_INPUT,
                       "%.150s goes on from checkpoint %" PRIu64
                       ", whose steps are not all of a batch of their own: sync.dropped must be "
                       "redo, as it was%s",
                       p->output, p->base.cut, resume_ways(false));
    return ERR_OK;
}

/* Of training, in former runs. A chief that was killed has trained longer than its last checkpoint says. */
static double seconds_before(const struct process *p)
{
    double told = p->log.n ? p->log.line[p->log.n - 1].seconds : 0;
    if (!p->has_base)
        return 0;
    return strcmp(p->log.uuid, p->base.uuid) == 0 && told > p->base.seconds ? told
                                                                            : p->base.seconds;
}

/* Of a job that is done. One whose final checkpoint is not finite, as an earlier release left it, has failed. */
static enum err look_at_end(struct process *p, uint64_t per_epoch, uint64_t epochs,
                            struct errmsg *e)
{
    char words[ENDED_WORDS_BYTES];
    enum err err = ended_look(p->checkpoints, &p->base, model_layout(p->model), words, e);
    if (err)
        return err;
    if (words[0]) {
        p->result.exit_code = 1;
        (void)snprintf(p->result.error, sizeof p->result.error, "%s", words);
    } else {
        say_done(p, per_epoch, epochs);
    }
    return ERR_OK;
}

/* The chief: is there something to go on from, and is it of this job? */
static enum err look_back(struct process *p, struct errmsg *e)
{
    if (!p->cluster.is_chief)
        return ERR_OK;
    enum err err = find_base(p, e);
    if (!err)
        err = best_init(&p->best, &p->job, model_layout(p->model), p->output, p->checkpoints, e);
    if (!err)
        err = journal_read(&p->journal, p->checkpoints, e);
    if (!err)
        err = epoch_log_read(&p->log, &p->job, p->output, e);
    p->learned.seconds_before = seconds_before(p);
    if (err || !p->has_base)
        return err;
    uint64_t per_epoch = order_batches(&p->order), epochs = manifest_epochs(&p->base, per_epoch);
    err = check_base(p, per_epoch, e);
    if (err)
        return err;
    p->finished =
        p->base.final && (epochs >= p->job.training.epochs || best_stops(&p->best, epochs));
    return p->finished ? look_at_end(p, per_epoch, epochs, e) : ERR_OK;
}

/* The tables' part of model/, from the final cut, which is loaded, or the best one's; and that of best/. */
static enum err export_tables(struct process *p, const struct manifest *final, struct errmsg *e)
{
    const struct tables_end end = {.job = &p->job,
                                   .layout = model_layout(p->model),
                                   .output = p->output,
                                   .checkpoints = p->checkpoints};
    return end.layout->rows ? tables_end_export_all(&end, final, &p->best, p->learned.digest, e)
                            : ERR_OK;
}

/* The same when the job ends now. */
static enum err export_final_tables(struct process *p, struct errmsg *e)
{
    struct manifest final;
    if (!model_layout(p->model)->rows || p->result.exit_code != 0)
        return ERR_OK;
    enum err err = host_find_cut(p->checkpoints, UINT64_MAX, &final, e);
    if (err)
        return err;
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

/* The job was done before: what it leaves behind is made whole from the checkpoint. */
static enum err complete(struct process *p, const struct epoch_end_config *config, struct errmsg *e)
{
    uint64_t elems = model_layout(p->model)->elems;
    float *w = mem_floats(elems);
    if (!w)
        return err_set(e, ERR_NOMEM, "no memory for the parameters");
    bool best = epoch_end_restores_best(config);
    enum err err = best
                       ? best_read(&p->best, w, e)
                       : checkpoint_read_learned(p->checkpoints, &p->base, &p->job.optimizer, w, e);
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

/* A job that was done before its evaluator was: it has its bound again. The other processes have gone by now; a signal
 * ends the wait. */
static void await_evaluator(const struct process *p)
{
    int64_t began_ms = clock_now_ms(), bound_ms = (int64_t)p->job.timeouts.evaluator_s * 1000;
    struct timespec pause = {.tv_nsec = 200000000};
    for (bool waited = false;; waited = true) {
        struct errmsg e;
        struct eval_result r;
        bool there =
            eval_log_judged(&p->job, p->output, p->base.uuid, p->base.cut, &r, &e) && r.final;
        if (e.text[0])
            log_warn("%s", e.text);
        if (there || signals_held() || clock_now_ms() - began_ms > bound_ms)
            return;
        if (!waited)
            log_info("waiting for the evaluator's result of the final checkpoint, cut %" PRIu64,
                     p->base.cut);
        (void)nanosleep(&pause, NULL);
    }
}

static enum err summarize_run(const struct process *p, const struct host *host, struct errmsg *e)
{
    struct eval_log log = {.n = 0};
    if (p->cluster.has_evaluator && eval_log_read(&log, &p->job, p->output, e))
        log_warn("%s", e->text);
    const struct summarize what = {.evaluator = p->cluster.has_evaluator ? &log : NULL,
                                   .job = &p->job,
                                   .journal = &p->journal,
                                   .cluster = &p->cluster,
                                   .result = &p->result,
                                   .learned = &p->learned,
                                   .log = &p->log,
                                   .base = p->has_base ? &p->base : NULL,
                                   .finished = p->finished,
                                   .batches_per_epoch = order_batches(&p->order),
                                   .rows = p->data.rows,
                                   .planted = p->planted,
                                   .output = p->output,
                                   .host = host};
    enum err err = summarize(&what, e);
    eval_log_close(&log);
    return err;
}

/* What was learned has failed before this run. */
static enum err summarize_failed(struct process *p, struct errmsg *e)
{
    p->learned.first_step_s = NAN;
    take_base_eval(p);
    return summarize_run(p, NULL, e);
}

static bool is_first_start(const struct process *p)
{
    return p->flags.listen_fd >= 0 && !getenv(PROCESS_AGAIN);
}

static enum err run_host(struct process *p, const struct epoch_end_config *config,
                         struct train *train, struct epoch_end *end, struct errmsg *e)
{
    struct host *host = NULL;
    struct driver *driver = train_parts(train)->driver;
    struct control control;
    struct host_config host_config = {.layout = model_layout(p->model),
                                      .batches_per_epoch = order_batches(&p->order),
                                      .output = p->output,
                                      .data_fingerprint = p->data.fingerprint,
                                      .base_cut = p->has_base ? p->base.cut : UINT64_MAX,
                                      .encoding = p->encoding,
                                      .listen_fd = p->listen_fd,
                                      .progress_fd = p->flags.progress_fd,
                                      .journal = &p->journal,
                                      .logs_disk = &p->logs_disk,
                                      .seconds_before = p->learned.seconds_before,
                                      .log = &p->log,
                                      .finished = p->finished,
                                      .learned_epochs = epochs_learned(p->base.epoch)};
    struct control_config control_config = {.job = &p->job,
                                            .cluster = &p->cluster,
                                            .train = driver_mailbox(driver),
                                            .http_fd = p->http_fd,
                                            .handed = is_first_start(p),
                                            .meter = driver_meter(driver)};
    enum err err = p->finished ? complete(p, config, e) : ERR_OK;
    if (!err && p->finished)
        err = summarize_run(p, NULL, e);
    if (!err)
        err = host_new(&host, &host_config, e);
    if (err)
        return err;
    interim_end(&p->interim);
    err = control_init(&control, &control_config, &host_ops, host, e);
    if (!err) {
        const struct driver_result before = p->result;
        const struct epoch_end_result learned = p->learned;
        train_run(train, &control, &epoch_end_ops, end, &p->result);
        signals_hold(); /* a launcher that heard of the end from another process says SIGTERM now */
        control_close(&control);
        if (p->finished) {
            int exit_code = p->result.exit_code;
            p->learned = learned;
            p->result = before;
            p->result.exit_code = exit_code;
            if (p->cluster.has_evaluator && begin_interim(p, STATE_DONE, e))
                log_warn("%s", e->text);
            if (p->cluster.has_evaluator)
                await_evaluator(p);
        } else {
            err = export_final_tables(p, e);
        }
        if (!err)
            err = summarize_run(p, host, e);
    }
    host_free(host);
    return err;
}

static enum err run_chief(struct process *p, struct train *train, struct errmsg *e)
{
    struct curves curves = {.events = NULL};
    const struct epoch_end_config config = {.job = &p->job,
                                            .model = p->model,
                                            .data = &p->data,
                                            .eval = p->has_eval ? &p->eval : NULL,
                                            .planted = p->planted,
                                            .best = &p->best,
                                            .curves = &curves,
                                            .log = &p->log,
                                            .finished = p->finished,
                                            .output = p->output,
                                            .progress_fd = p->flags.progress_fd};
    struct epoch_end *end = NULL;
    enum err err = epoch_end_new(&end, &config, train_parts(train), &p->learned, e);
    if (err)
        return err;
    disk_thread_init(&p->logs_disk);
    if (!p->finished)
        curves_init(&curves, &p->job, model_layout(p->model), order_batches(&p->order),
                    p->data.rows, p->logs, &p->logs_disk);
    err = run_host(p, &config, train, end, e);
    curves_close(&curves, !err && p->result.exit_code == 0);
    disk_thread_close(&p->logs_disk);
    epoch_end_free(end);
    return err;
}

/* How it ended, for a worker that stays, or that came when all was over. */
static void remember(struct process *p, const struct train *train, const struct control *control)
{
    const struct session_terms *terms = session_terms(driver_session(train_parts(train)->driver));
    if (terms->generation.number) {
        (void)snprintf(p->over.uuid, sizeof p->over.uuid, "%s", terms->uuid);
        p->over.generation = terms->generation.number;
    }
    if (control->nobody_came)
        p->over = (struct idle_run){.generation = 0}; /* who called is news again */
    const struct idle_end end = {.exit_code = p->result.exit_code,
                                 .nobody_came = control->nobody_came,
                                 .known_over = p->known_over,
                                 .waits = p->flags.waits,
                                 .going = control->going};
    p->rests = idle_state(&end, &p->result.exit_code);
}

static void say_end(const struct process *p)
{
    if (p->result.exit_code && p->result.exit_code != 143)
        log_error("%s", p->result.error);
    else if (p->result.error[0])
        log_info("%s", p->result.error);
}

/* Also with --when_done=wait: who started it starts it again. */
static void leave_at_once(const struct process *p)
{
    log_warn("storage does not answer for %s: leaving without", p->checkpoints);
    say_end(p);
    termination_end(p->flags.termination_message, p->result.exit_code);
    (void)fflush(NULL);
    _exit(p->result.exit_code);
}

/* *asked: there: the chief wants the rows to be read anew. */
static enum err run_worker(struct process *p, struct train *train, struct control_encoding *asked,
                           struct errmsg *e)
{
    struct chief_link *link = NULL;
    struct driver *driver = train_parts(train)->driver;
    struct control control;
    struct control_config control_config = {.job = &p->job,
                                            .cluster = &p->cluster,
                                            .train = driver_mailbox(driver),
                                            .http_fd = p->http_fd,
                                            .waits = p->flags.waits,
                                            .checkpoints = p->checkpoints,
                                            .handed = is_first_start(p),
                                            .read_by = p->read_by.there ? &p->read_by : NULL,
                                            .meter = driver_meter(driver)};
    enum err err = chief_link_new(&link, e);
    if (err)
        return err;
    interim_end(&p->interim);
    err = control_init(&control, &control_config, &chief_link_ops, link, e);
    if (!err) {
        train_run(train, &control, NULL, NULL, &p->result);
        control_close(&control);
        *asked = control.encoding;
        if (!asked->there)
            remember(p, train, &control);
        if (asked->there && chief_link_hangs(link))
            p->result.exit_code = 138; /* the rows are to be read anew: by another process */
        if (chief_link_hangs(link))
            leave_at_once(p);
    }
    chief_link_free(link);
    return err;
}

static enum err run(struct process *p, struct control_encoding *asked, struct errmsg *e)
{
    struct train *train = NULL;
    struct train_config config = {.job = &p->job,
                                  .cluster = &p->cluster,
                                  .model = p->model,
                                  .data = &p->data,
                                  .order = &p->order};
    enum err err = fault_parse(&config.fault, p->flags.fault, e);
    if (!err && config.fault.kind == FAULT_DISK)
        err = err_set(e, ERR_INPUT, "--fault=%s: only a ps takes it", p->flags.fault);
    if (err)
        return err;
    p->learned.first_step_s = NAN;
    err = train_new(&train, &config, e);
    if (err)
        return err;
    err = p->cluster.is_chief ? run_chief(p, train, e) : run_worker(p, train, asked, e);
    train_free(train);
    return err;
}

static void forget_rows(struct process *p)
{
    free(p->encoding);
    p->encoding = NULL;
    dataset_close(&p->data);
    dataset_close(&p->eval);
    model_free(p->model);
    p->model = NULL;
    p->has_eval = false;
    mem_give_back();
}

/* By the chief's cut: this process does not see it. What cannot be had now is asked for again: the chief may have been
 * started anew. */
static enum err ask_chief(struct process *p, const struct control_encoding *asked, bool *had,
                          struct errmsg *e)
{
    enum err err = taught_ask(&p->taught, &p->job, &p->cluster, asked->chief, asked->cut,
                              p->data.fingerprint, 0, e);
    *had = err == ERR_OK;
    if (err == ERR_OK || err == ERR_INPUT || err == ERR_NOMEM)
        return err;
    if (++p->encoding_tries >= ENCODING_TRIES)
        return err_wrap(e, err, "the encoding of the chief's rows cannot be had: ");
    log_warn("the encoding of the chief's rows cannot be had, asking again: %s", e->text);
    return ERR_OK;
}

/* By the chief's cut, in taught; NULL: by the newest one that is seen. */
static enum err load_again(struct process *p, const struct control_encoding *read_by,
                           struct errmsg *e)
{
    forget_rows(p);
    job_close(&p->job); /* the data have told it what they are */
    if (read_by)
        p->read_by = *read_by;
    else
        taught_close(&p->taught);
    enum err err = load_job(p, e);
    return err ? err : load(p, e);
}

static enum err read_anew(struct process *p, const struct control_encoding *asked, struct errmsg *e)
{
    bool had = false;
    p->result = (struct driver_result){0};
    signals_last_words(p->flags.termination_message, BEFORE_TRAINING);
    enum err err = begin_interim(p, STATE_LOADING, e);
    if (!err)
        err = ask_chief(p, asked, &had, e);
    if (err || !had)
        return err;
    log_info("reading the data again, by the encoding of the chief's cut %" PRIu64, asked->cut);
    return load_again(p, asked, e);
}

/* As the rows are, and anew if the chief reads them otherwise. */
static enum err run_all(struct process *p, struct errmsg *e)
{
    struct control_encoding asked = {.there = false};
    enum err err = run(p, &asked, e);
    while (!err && asked.there) {
        const struct control_encoding by = asked;
        asked.there = false;
        err = read_anew(p, &by, e);
        if (!err)
            err = run(p, &asked, e);
    }
    return err;
}

/* gradwire lr-finder: no cluster, nothing is kept but a table. */
static enum err find_learning_rate(struct process *p, struct errmsg *e)
{
    struct lr_found *found = mem_zalloc(1, sizeof *found);
    if (!found)
        return err_set(e, ERR_NOMEM, "out of memory");
    enum err err = lr_finder_run(&p->job, p->model, &p->data, &p->order, found, e);
    if (!err)
        err = lr_finder_report(found, p->output, e);
    mem_free(found);
    return err;
}

/* What ends it is said as of a worker. */
static enum err run_evaluator(struct process *p, struct evaluator_end *end, struct errmsg *e)
{
    const struct evaluator_role role = {.job = &p->job,
                                        .cluster = &p->cluster,
                                        .model = p->model,
                                        .data = &p->data,
                                        .eval = &p->eval,
                                        .encoding = p->encoding,
                                        .planted = p->planted,
                                        .batches_per_epoch = order_batches(&p->order),
                                        .output = p->output,
                                        .checkpoints = p->checkpoints,
                                        .logs = p->logs,
                                        .progress_fd = p->flags.progress_fd,
                                        .http_fd = p->http_fd};
    interim_end(&p->interim);
    enum err err = evaluator_role_run(&role, end, e);
    if (!err && end->told)
        p->result.exit_code = 143;
    else if (!err)
        log_info("the final checkpoint is evaluated: done");
    return err;
}

/* The evaluator. The newest cut says what its rows mean: they are read anew by it, once. */
static enum err evaluate_all(struct process *p, struct errmsg *e)
{
    struct evaluator_end end = {.told = false};
    enum err err = run_evaluator(p, &end, e);
    if (!err || !end.encoding || end.told)
        return err;
    log_info("reading the data again, by the newest cut: %s", e->text);
    err = begin_interim(p, STATE_LOADING, e);
    if (!err)
        err = load_again(p, NULL, e);
    return err ? err : run_evaluator(p, &end, e);
}

/* How many workers there are is known to the chief, unless they come and go. */
static enum err check_workers(const struct process *p, struct errmsg *e)
{
    uint32_t workers = p->cluster.n_workers + p->cluster.separate_chief;
    if (!p->cluster.is_chief || p->cluster.sparse)
        return ERR_OK;
    return job_check_workers(&p->job, workers ? workers : 1, e);
}

/* Peers and probes find it from here on, however long its data take to read. */
static enum err listen_first(struct process *p, struct errmsg *e)
{
    enum process_state state = p->rests;
    if (p->flags.find_learning_rate)
        return ERR_OK;
    if (p->listens)
        return begin_interim(p, state, e);
    enum err err = p->cluster.role == ROLE_EVALUATOR ? ERR_OK : check_workers(p, e);
    if (!err && p->cluster.role != ROLE_EVALUATOR)
        err = open_port(p, e);
    if (!err)
        err = http_bind(&p->http_fd, &p->flags.http, e);
    p->listens = err == ERR_OK;
    return err ? err : begin_interim(p, state, e);
}

/* A worker that is told when to begin, and by whom. */
static bool may_rest(const struct process *p)
{
    return p->cluster.role != ROLE_EVALUATOR && !p->cluster.is_chief && !p->cluster.alone &&
           !p->flags.find_learning_rate;
}

/* Is the job over already? Whoever stays asks ps 0 whether a chief trains on; others leave. A job that was stopped early
 * may go on with another patience, which the chief alone would know. */
static enum ending look_for_ending(struct process *p)
{
    struct manifest m = {0};
    enum ending ending = ending_find(p->checkpoints, &p->job, &m);
    if (ending) {
        (void)snprintf(p->over.uuid, sizeof p->over.uuid, "%s", m.uuid);
        p->over.generation = m.generation;
        p->known_over = true;
    }
    manifest_close(&m);
    return ending;
}

/* By a job file that was read again: where more is asked for, and the chief that called goes before it has us, the job
 * is not done. What is over stays what idle_wait has heard. */
static void look_again(struct process *p)
{
    struct manifest m = {0};
    p->known_over = ending_find(p->checkpoints, &p->job, &m) != ENDING_NONE;
    manifest_close(&m);
}

/* Wait, holding nothing, until a chief calls, which *calls says, or until it is told to go. */
static enum err await_call(struct process *p, bool *calls, struct errmsg *e)
{
    interim_end(&p->interim);
    enum err err = begin_interim(p, p->rests, e);
    if (!err)
        err = idle_wait(&p->job, &p->cluster, &p->over, calls, e);
    interim_end(&p->interim);
    if (err)
        return err;
    if (*calls)
        log_info("a chief is there, with generation %" PRIu64, p->over.generation);
    else
        log_info("told to go: %s",
                 p->rests == STATE_DONE ? "the job is done" : "no chief has come");
    if (!*calls && p->rests == STATE_IDLE)
        p->result.exit_code = 143;
    p->rests = STATE_LOADING;
    if (!*calls)
        return ERR_OK;
    signals_last_words(p->flags.termination_message, BEFORE_TRAINING);
    job_close(&p->job); /* the chief may have another file: more epochs, say */
    err = load_job(p, e);
    if (err)
        return err;
    look_again(p);
    return begin_interim(p, STATE_LOADING, e);
}

/* Is there something to train? */
static enum err rest(struct process *p, bool *trains, struct errmsg *e)
{
    enum ending ending = ENDING_NONE;
    if (may_rest(p) && p->rests == STATE_LOADING)
        ending = look_for_ending(p);
    if (ending && p->flags.waits)
        p->rests = STATE_DONE;
    *trains = ending != ENDING_DONE;
    return p->rests == STATE_LOADING ? ERR_OK : await_call(p, trains, e);
}

/* The role's whole life, once the job and its data are there. */
static enum err live(struct process *p, struct alone *alone, struct errmsg *e)
{
    if (p->flags.find_learning_rate)
        return find_learning_rate(p, e);
    if (p->cluster.role == ROLE_EVALUATOR)
        return evaluate_all(p, e);
    enum err err = look_back(p, e);
    if (!err && p->result.exit_code)
        return summarize_failed(p, e);
    if (!err && p->cluster.n_ps == 0)
        err = alone_start(alone, &p->cluster, &p->flags, p->output, e);
    return err ? err : run_all(p, e);
}

/* Of the job nothing stays; names, sockets and what is over do. */
static void forget(struct process *p)
{
    epoch_log_close(&p->log);
    best_close(&p->best);
    manifest_close(&p->base);
    taught_close(&p->taught);
    journal_close(&p->journal);
    forget_rows(p);
    job_close(&p->job);
    p->has_base = p->finished = false;
    p->read_by = (struct control_encoding){.there = false};
    p->encoding_tries = 0;
    p->told_over = false;
    p->result = (struct driver_result){0};
    p->learned = (struct epoch_end_result){0};
    mem_give_back();
}

/* It came when all was over; why: so ps 0 said. */
static void end_untrained(struct process *p, const struct errmsg *why)
{
    const struct idle_end end = {
        .nobody_came = true, .known_over = p->known_over, .waits = p->flags.waits};
    p->over = (struct idle_run){.generation = 0}; /* who called is news again */
    p->rests = idle_state(&end, &p->result.exit_code);
    (void)snprintf(p->result.error, sizeof p->result.error, "%s",
                   p->flags.waits ? "the job is done" : why->text);
}

/* A job, from its file to its end; returns the exit code. */
static int attend(struct process *p)
{
    struct alone alone = {.pid = 0};
    struct errmsg e = {""};
    bool trains = true;
    enum err err = load_job(p, &e);
    if (!err)
        err = listen_first(p, &e);
    if (!err)
        err = rest(p, &trains, &e);
    if (!err && trains)
        err = load(p, &e);
    if (err && p->told_over) {
        end_untrained(p, &e);
        err = ERR_OK;
        trains = false;
    }
    if (!err && trains)
        err = live(p, &alone, &e);
    interim_end(&p->interim);
    alone_stop(&alone);
    if (err && p->result.exit_code)
        log_error("%s", e.text); /* a summary that could not be written: what ended the job is said
                                    last */
    else if (err)
        return wrong(err, &e);
    say_end(p);
    int exit_code = p->result.exit_code;
    forget(p);
    return exit_code;
}

/* To the end; returns the exit code. */
static int work(struct process *p)
{
    struct errmsg e = {""};
    enum err err = token_load(p->flags.token_fd, p->flags.token_file, &e);
    if (!err)
        err = tls_load(&p->flags.tls, &e);
    if (!err)
        err = auth_check(p->flags.auth, &e);
    if (!err)
        err = who_am_i(p, &e);
    if (!err && p->flags.waits && !may_rest(p))
        err = err_set(&e, ERR_INPUT,
                      "--when_done=wait is for a ps, and for a worker that has a chief: with the "
                      "chief the job ends, and so does the evaluator");
    if (!err && p->flags.grace_s)
        err = err_set(&e, ERR_INPUT, "--grace_s=%d: only a ps takes it", p->flags.grace_s);
    if (err)
        return wrong(err, &e);
    int exit_code = attend(p);
    while (exit_code == 0 && p->flags.waits && p->rests != STATE_LOADING) {
        signals_last_words(p->flags.termination_message, p->rests == STATE_DONE
                                                             ? "told to go: the job is done"
                                                             : "told to go: no chief has come");
        exit_code = attend(p);
    }
    cluster_close(&p->cluster);
    return exit_code;
}

/* OpenBLAS makes its threads when it is loaded. */
static void (*const before_libraries)(int argc, char **argv, char **envp)
    __attribute__((section(".preinit_array"), used)) = blas_one_thread;

int main(int argc, char **argv)
{
    static struct process process = {.http_fd = -1, .rests = STATE_LOADING};
    struct process *p = &process;
    mem_init();
    signals_init();
    flags_parse(argc > 1 && strcmp(argv[1], "--doctor") == 0 ? "doctor" : "worker", argc, argv);
    flags_process(&p->flags);
    signals_last_words(p->flags.termination_message, BEFORE_TRAINING);
    cgroup_set_root(p->flags.cgroup_root);
    if (p->flags.log_json)
        log_json();
    openblas_set_num_threads(1);
    if (p->flags.doctor)
        return p->flags.doctor_crew[0] ? doctor_run_crew(&p->flags) : doctor_run(&p->flags);
    kernels_flush_denormals();
    int exit_code = work(p);
    termination_end(p->flags.termination_message, exit_code);
    if (exit_code ==
        err_exit_code(
            ERR_NOMEM)) { /* out of memory: what runs at exit may wait for some for ever */
        (void)fflush(NULL);
        _exit(exit_code);
    }
    return exit_code;
}
