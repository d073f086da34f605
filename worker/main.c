/* The life of a worker process: flags, its role, training until the chief ends the job, and the wait for the next
 * job. */
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/peers/auth.h"
#include "common/cluster/signs.h"
#include "common/cluster/descriptors.h"
#include "common/process/cgroup.h"
#include "common/process/cores.h"
#include "common/process/dirguard.h"
#include "common/process/dirlock.h"
#include "common/checkpoint/ending.h"
#include "common/parameters/epochs.h"
#include "common/math/kernels.h"
#include "common/net/listen.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/wire/msg.h"
#include "common/process/signals.h"
#include "common/process/termination.h"
#include "common/process/ulimits.h"
#include "common/net/tls.h"
#include "common/peers/token.h"
#include "worker/alone.h"
#include "worker/doctor/doctor.h"
#include "worker/evaluator/evaluator_role.h"
#include "worker/control/alive.h"
#include "worker/control/chief_link.h"
#include "worker/control/farewell.h"
#include "worker/lr_finder.h"
#include "model/blas.h"
#include "worker/process.h"

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
        return err_set(
            e, ERR_INPUT,
            "this program is worker, but the cluster gives it the role ps: start ps instead");
    if (!p->flags.find_learning_rate)
        err = signs_check(p->cluster.given, p->flags.alone, getenv, e);
    if (err)
        return err;
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
    return http_place_check(&p->flags.http, p->cluster.bind, serves, e);
}

static void say_lock_waits(const char *dir, pid_t holder)
{
    log_info("%s is in use by pid %d: waiting", dir, (int)holder);
}

enum err process_lock_output(const struct process *p, struct errmsg *e)
{
    int fd = p->flags.lock_fd; /* stays open until the process ends */
    enum err err = ERR_OK;
    if (!p->cluster.is_chief)
        return ERR_OK;
    if (fd < 0 && p->flags.progress_fd < 0)
        err = dirlock_take(p->output, &fd, say_lock_waits, e);
    return err ? err : dirguard_begin(p->output, fd, e);
}

enum err process_load_job(struct process *p, struct errmsg *e)
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

enum err process_begin_interim(struct process *p, enum process_state state, struct errmsg *e)
{
    return interim_begin(&p->interim, p->http_fd, &p->job, &p->cluster, state, e);
}

static enum err open_port(struct process *p, struct errmsg *e)
{
    p->listen_fd = p->flags.listen_fd;
    if (!p->cluster.is_chief || p->cluster.alone)
        return ERR_OK;
    if (p->listen_fd < 0 && !p->cluster.bind)
        return ERR_OK; /* a chief without an address trains by itself */
    enum err err = p->listen_fd >= 0
                       ? listen_adopt(p->listen_fd, e)
                       : listen_bind(&p->listen_fd, p->cluster.bind, LISTEN_TAKEN_MS, e);
    return err ? err : auth_check_listener(p->flags.auth, p->listen_fd, e);
}

bool process_is_first_start(const struct process *p)
{
    return p->flags.listen_fd >= 0 && !getenv(PROCESS_AGAIN);
}

/* Remember how the run ended, for a worker that waits for the next one, or that came when all was over. */
static void remember(struct process *p, const struct train *train, const struct control *control)
{
    const struct session_terms *terms = session_terms(driver_session(train_parts(train)->driver));
    if (terms->generation.number) {
        (void)snprintf(p->over.uuid, sizeof p->over.uuid, "%s", terms->uuid);
        p->over.generation = terms->generation.number;
    }
    if (control->nobody_came)
        p->over = (struct idle_run){.generation = 0}; /* any chief is new again */
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
    else if (p->done_words[0])
        log_info("%s", p->done_words);
}

/* Also with --when_done=wait: whatever started this process starts it again. */
static void leave_at_once(const struct process *p)
{
    log_warn("storage does not answer for %s: exiting without waiting for it", p->checkpoints);
    say_end(p);
    termination_end(p->flags.termination_message, p->result.exit_code);
    (void)fflush(NULL);
    _exit(p->result.exit_code);
}

/* asked->there: the rows must be read again, for the chief. */
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
                                            .handed = process_is_first_start(p),
                                            .read_by = p->read_by.there ? &p->read_by : NULL,
                                            .meter = driver_meter(driver),
                                            .contents = &p->data.contents};
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
            p->result.exit_code = 138; /* another process must read the rows again */
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
    if (!err && fault_is_of_ps(&config.fault))
        err = err_set(e, ERR_INPUT, "--fault=%s: only a ps accepts it", p->flags.fault);
    if (err)
        return err;
    p->learned.first_step_s = NAN;
    err = train_new(&train, &config, e);
    if (err)
        return err;
    err = p->cluster.is_chief ? process_run_chief(p, train, e) : run_worker(p, train, asked, e);
    train_free(train);
    return err;
}

/* Run with the rows as they were read, and again if the chief's rows have another encoding. */
static enum err run_all(struct process *p, struct errmsg *e)
{
    struct control_encoding asked = {.there = false};
    enum err err = run(p, &asked, e);
    while (!err && asked.there) {
        const struct control_encoding by = asked;
        asked.there = false;
        err = process_read_anew(p, &by, e);
        if (!err)
            err = run(p, &asked, e);
    }
    return err;
}

/* gradwire lr-finder: no cluster; only a table is written. */
static enum err find_learning_rate(struct process *p, struct errmsg *e)
{
    struct lr_found *found = mem_zalloc(1, sizeof *found);
    if (!found)
        return err_memory(e);
    enum err err = lr_finder_run(&p->job, p->model, &p->data, &p->order, found, e);
    if (!err)
        err = lr_finder_report(found, p->output, e);
    mem_free(found);
    return err;
}

/* Report the end in the same way as a worker. */
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
                                        .http_fd = p->http_fd,
                                        .chief = &p->chief_end};
    interim_end(&p->interim);
    enum err err = evaluator_role_run(&role, end, e);
    if (err == ERR_CLOSED && end->exit_code) {
        p->result.exit_code = end->exit_code;
        (void)snprintf(p->result.error, sizeof p->result.error, "%s", e->text);
        return ERR_OK;
    }
    if (!err && end->signaled)
        p->result.exit_code = 143;
    else if (!err)
        log_info("the final checkpoint is evaluated: done");
    return err;
}

/* Run the evaluator. If the newest cut has another encoding, read the rows again with it, once. */
static enum err evaluate_all(struct process *p, struct errmsg *e)
{
    struct evaluator_end end = {.signaled = false};
    enum err err = run_evaluator(p, &end, e);
    if (!err || !end.encoding || end.signaled)
        return err;
    log_info("reading the data again, with the encoding of the newest checkpoint: %s", e->text);
    err = process_begin_interim(p, STATE_LOADING, e);
    if (!err)
        err = process_load_again(p, NULL, e);
    return err ? err : run_evaluator(p, &end, e);
}

/* The chief knows the number of workers, unless they join dynamically. */
static enum err check_workers(const struct process *p, struct errmsg *e)
{
    uint32_t workers = cluster_workers_most(&p->cluster);
    if (!p->cluster.is_chief || workers == UINT32_MAX)
        return ERR_OK;
    return job_check_workers(&p->job, workers ? workers : 1, e);
}

/* A ps without ps.threads has a thread for each of its cores, which only it can count. */
static enum err check_descriptors(const struct process *p, struct errmsg *e)
{
    const struct cluster *c = &p->cluster;
    bool starts_ps = c->n_ps == 0; /* on this host, and with the same limit */
    uint32_t ps = starts_ps ? 1 : c->n_ps, threads = p->job.ps.threads;
    if (threads == 0)
        threads = starts_ps ? cores_usable() : 1;
    uint32_t least = c->role == ROLE_EVALUATOR ? descriptors_of_worker(0, 0)
                     : c->is_chief
                         ? descriptors_of_chief(ps, ps * threads, c->n_workers + c->separate_chief)
                         : descriptors_of_worker(ps, ps * threads);
    uint32_t of_ps =
        starts_ps ? 1 + descriptors_of_ps(threads, 1) : 0; /* 1: it inherits a socket */
    return ulimits_check_descriptors(least > of_ps ? least : of_ps, e);
}

/* From here on peers and probes can connect, however long reading the data takes. */
static enum err listen_first(struct process *p, struct errmsg *e)
{
    enum process_state state = p->rests;
    if (p->flags.find_learning_rate)
        return ERR_OK;
    if (p->listens)
        return process_begin_interim(p, state, e);
    enum err err = check_descriptors(p, e);
    if (!err && p->cluster.role != ROLE_EVALUATOR)
        err = check_workers(p, e);
    if (!err && p->cluster.role != ROLE_EVALUATOR)
        err = open_port(p, e);
    if (!err)
        err = http_bind(&p->http_fd, &p->flags.http, p->cluster.bind, e);
    p->listens = err == ERR_OK;
    return err ? err : process_begin_interim(p, state, e);
}

/* True for a worker that a chief calls to a job. */
static bool may_rest(const struct process *p)
{
    return p->cluster.role != ROLE_EVALUATOR && !p->cluster.is_chief && !p->cluster.alone &&
           !p->flags.find_learning_rate;
}

/* Check whether the job is already over. A worker that waits asks ps 0 whether a chief continues it; others end. A
 * job that was stopped early may continue with another patience, which only the chief can know. */
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

/* The job file was read again. If it asks for more, the job is not done, even if the chief that called leaves before
 * it welcomes us. p->over stays as idle_wait set it. */
static void look_again(struct process *p)
{
    struct manifest m = {0};
    p->known_over = ending_find(p->checkpoints, &p->job, &m) != ENDING_NONE;
    manifest_close(&m);
}

/* Wait, with no part of a job, until a chief calls (*calls is true) or a signal comes. */
static enum err await_call(struct process *p, bool *calls, struct errmsg *e)
{
    interim_end(&p->interim);
    enum err err = process_begin_interim(p, p->rests, e);
    if (!err)
        err = idle_wait(&p->job, &p->cluster, &p->over, calls, e);
    interim_end(&p->interim);
    if (err)
        return err;
    if (*calls)
        log_info("a chief has connected, with generation %" PRIu64, p->over.generation);
    else
        log_info("asked to stop: %s",
                 p->rests == STATE_DONE ? "the job is done" : "no chief has connected");
    if (!*calls && p->rests == STATE_IDLE)
        p->result.exit_code = 143;
    p->rests = STATE_LOADING;
    if (!*calls)
        return ERR_OK;
    signals_last_words(p->flags.termination_message, PROCESS_BEFORE_TRAINING);
    job_close(&p->job); /* the chief may have another file, for example with more epochs */
    err = process_load_job(p, e);
    if (err)
        return err;
    look_again(p);
    return process_begin_interim(p, STATE_LOADING, e);
}

/* Decide whether there is something to train. */
static enum err rest(struct process *p, bool *trains, struct errmsg *e)
{
    enum ending ending = ENDING_NONE;
    if (may_rest(p) && p->rests == STATE_LOADING)
        ending = look_for_ending(p);
    if (ending && p->flags.waits)
        p->rests = STATE_DONE;
    *trains = ending != ENDING_DONE;
    if (ending && (!*trains || p->rests == STATE_DONE))
        farewell_say(&p->job, &p->cluster);
    return p->rests == STATE_LOADING ? ERR_OK : await_call(p, trains, e);
}

/* The role's work, once the job and its data are loaded. */
static enum err live(struct process *p, struct alone *alone, struct errmsg *e)
{
    if (p->flags.find_learning_rate)
        return find_learning_rate(p, e);
    if (p->cluster.role == ROLE_EVALUATOR)
        return evaluate_all(p, e);
    enum err err = process_look_back(p, e);
    if (!err && p->result.exit_code)
        return process_summarize_failed(p, e);
    if (!err && p->cluster.n_ps == 0)
        err = alone_start(alone, &p->cluster, &p->flags, p->output, e);
    return err ? err : run_all(p, e);
}

/* Forget the job; keep names, sockets and p->over. */
static void forget(struct process *p)
{
    epoch_log_close(&p->log);
    best_close(&p->best);
    manifest_close(&p->base);
    taught_close(&p->taught);
    journal_close(&p->journal);
    p->past[0] = '\0';
    process_forget_rows(p);
    job_close(&p->job);
    p->has_base = p->finished = false;
    p->read_by = (struct control_encoding){.there = false};
    p->encoding_tries = 0;
    p->told_over = false;
    p->result = (struct driver_result){0};
    p->learned = (struct epoch_end_result){0};
    p->done_words[0] = '\0';
    mem_give_back();
}

/* The process came when all was over; why: ps 0 reported that. */
static void end_untrained(struct process *p, const struct errmsg *why)
{
    const struct idle_end end = {
        .nobody_came = true, .known_over = p->known_over, .waits = p->flags.waits};
    p->over = (struct idle_run){.generation = 0}; /* any chief is new again */
    p->rests = idle_state(&end, &p->result.exit_code);
    (void)snprintf(p->result.error, sizeof p->result.error, "%s",
                   p->flags.waits ? "the job is done" : why->text);
}

/* One job, from its file to its end; returns the exit code. */
static int attend(struct process *p)
{
    struct alone alone = {.pid = 0};
    struct errmsg e = {""};
    bool trains = true;
    enum err err = process_load_job(p, &e);
    if (!err)
        chief_end_begin(&p->chief_end, p->output);
    if (!err && p->cluster.is_chief)
        alive_begin(p->flags.progress_fd);
    if (!err)
        err = listen_first(p, &e);
    if (!err)
        err = rest(p, &trains, &e);
    if (!err && trains)
        err = process_load(p, &e);
    if (err && p->told_over) {
        end_untrained(p, &e);
        err = ERR_OK;
        trains = false;
    }
    if (!err && trains)
        err = live(p, &alone, &e);
    interim_end(&p->interim);
    if (err) {
        process_note_failed(p, err_exit_code(err), e.text);
        process_tell_failed(p, err_exit_code(err), e.text);
    } else {
        process_tell_failed(p, p->result.exit_code, p->result.error);
    }
    alone_stop(&alone);
    /* the summary could not be written; the reason of the job's end is logged last */
    if (err && p->result.exit_code)
        log_error("%s", e.text);
    else if (err)
        return wrong(err, &e);
    say_end(p);
    int exit_code = p->result.exit_code;
    forget(p);
    return exit_code;
}

/* All jobs of the process; returns the exit code. */
static int work(struct process *p)
{
    struct errmsg e = {""};
    enum err err = token_load(p->flags.token_fd, p->flags.token_file, &e);
    if (!err) {
        token_warn_readable(p->flags.token_file);
        err = tls_load(&p->flags.tls, &e);
    }
    if (!err)
        err = auth_check(p->flags.auth, &e);
    if (!err)
        err = who_am_i(p, &e);
    if (!err && p->flags.waits && !may_rest(p))
        err = err_set(&e, ERR_INPUT,
                      "--when_done=wait is for a ps, and for a worker that is not the chief: the "
                      "chief and the evaluator end with the job");
    if (!err && p->flags.grace_s)
        err = err_set(&e, ERR_INPUT, "--grace_s=%d: only a ps accepts it", p->flags.grace_s);
    if (err)
        return wrong(err, &e);
    int exit_code = attend(p);
    while (exit_code == 0 && p->flags.waits && p->rests != STATE_LOADING) {
        signals_last_words(p->flags.termination_message,
                           p->rests == STATE_DONE ? "asked to stop: the job is done"
                                                  : "asked to stop: no chief has connected");
        exit_code = attend(p);
    }
    cluster_close(&p->cluster);
    return exit_code;
}

/* OpenBLAS makes its threads when it is loaded, so this must run before. */
static void (*const before_libraries)(int argc, char **argv, char **envp)
    __attribute__((section(".preinit_array"), used)) = blas_one_thread;

int main(int argc, char **argv)
{
    static struct process process = {.http_fd = -1, .rests = STATE_LOADING};
    struct process *p = &process;
    mem_init();
    ulimits_init();
    signals_init();
    const char *first = argc > 1 ? argv[1] : "";
    flags_parse(strcmp(first, "--doctor") == 0               ? "doctor"
                : strcmp(first, "--find_learning_rate") == 0 ? "lr-finder"
                                                             : "worker",
                argc, argv);
    flags_process(&p->flags);
    signals_last_words(p->flags.termination_message, PROCESS_BEFORE_TRAINING);
    cgroup_set_root(p->flags.cgroup_root);
    if (p->flags.log_json)
        log_json();
    openblas_set_num_threads(1);
    if (p->flags.doctor)
        return p->flags.doctor_crew[0] ? doctor_run_crew(&p->flags) : doctor_run(&p->flags);
    kernels_flush_denormals();
    int exit_code = work(p);
    termination_end(p->flags.termination_message, exit_code);
    /* out of memory: exit handlers may wait for memory for ever */
    if (exit_code == err_exit_code(ERR_NOMEM)) {
        (void)fflush(NULL);
        _exit(exit_code);
    }
    return exit_code;
}
