/* The life of a worker process: flags, its role, training until the chief ends the job, and the wait for the next
 * job. */
#include <cblas.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/process/cgroup.h"
#include "common/math/kernels.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/signals.h"
#include "worker/doctor/doctor.h"
#include "worker/control/progress.h"
#include "model/blas.h"
#include "worker/process.h"

static int wrong(enum err err, const struct errmsg *e)
{
    log_error("%s", e->text);
    return err_exit_code(err);
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
    p->told_over = p->nobody_came = false;
    p->result = (struct driver_result){0};
    p->learned = (struct epoch_end_result){0};
    p->done_words[0] = '\0';
    mem_give_back();
}

/* The process came when all was over, as ps 0 reported (why), or before a chief came, and rests. */
static void end_untrained(struct process *p, const struct errmsg *why)
{
    const struct idle_end end = {
        .nobody_came = true, .known_over = p->known_over, .waits = p->flags.waits};
    p->over = (struct idle_run){.generation = 0}; /* any chief is new again */
    p->rests = idle_state(&end, &p->result.exit_code);
    (void)snprintf(p->result.error, sizeof p->result.error, "%s",
                   p->flags.waits && p->told_over ? "the job is done" : why->text);
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
        err = process_listen(p, &e);
    if (!err)
        err = process_rest(p, &trains, &e);
    if (!err && trains)
        err = process_load(p, &e);
    if (err && (p->told_over || p->nobody_came)) {
        end_untrained(p, &e);
        err = ERR_OK;
        trains = false;
    }
    if (!err && trains)
        err = process_run(p, &alone, &e);
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
    process_say_end(p);
    int exit_code = p->result.exit_code;
    forget(p);
    return exit_code;
}

/* All jobs of the process; returns the exit code. */
static int work(struct process *p)
{
    struct errmsg e = {""};
    enum err err = process_begin(p, &e);
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
