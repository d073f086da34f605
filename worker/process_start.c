/* A worker process before it has data: who it is, its job file, the lock of DIR, and its ports. */
#include "worker/process.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cluster/cluster.h"
#include "common/net/listen.h"
#include "common/net/tls.h"
#include "common/base/log.h"
#include "common/peers/token.h"
#include "common/process/cgroup.h"
#include "common/process/output.h"
#include "common/process/dirlock.h"
#include "data/host_copy.h"

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

enum err process_begin(struct process *p, struct errmsg *e)
{
    const struct flags *f = &p->flags;
    host_copy_begin(f->rows);
    enum err err = auth_load(f->auth, f->token_fd, f->token_file, &f->tls, e);
    if (!err)
        err = who_am_i(p, e);
    if (!err && p->flags.waits && !process_may_rest(p))
        err = err_set(e, ERR_INPUT,
                      "--when_done=wait is for a ps, and for a worker that is not the chief: the "
                      "chief and the evaluator end with the job");
    if (!err && p->flags.grace_s)
        err = err_set(e, ERR_INPUT, "--grace_s=%d: only a ps accepts it", p->flags.grace_s);
    return err;
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
    place_of_job(&p->checkpoints, p->output, OUTPUT_CHECKPOINTS);
    if (p->flags.logs[0])
        (void)snprintf(p->logs, sizeof p->logs, "%s", p->flags.logs);
    else
        (void)snprintf(p->logs, sizeof p->logs, "%s/" OUTPUT_LOGS, p->output);
    if (p->cluster.role == ROLE_EVALUATOR || (p->cluster.is_chief && p->cluster.has_evaluator))
        err = job_check_evaluator(&p->job, e);
    return err;
}

enum err process_begin_interim(struct process *p, enum process_state state, struct errmsg *e)
{
    return interim_begin(&p->interim, p->http_fd, &p->job, &p->cluster, state, e);
}

bool process_is_first_start(const struct process *p)
{
    return p->flags.listen_fd >= 0 && !getenv(PROCESS_AGAIN);
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

enum err process_listen(struct process *p, struct errmsg *e)
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
