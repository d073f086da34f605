/* The program `ps`: it checks flags and job file, opens its ports, and runs the server (ps/server.h), again after each job
 * if it stays for the next chief. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster/cluster.h"
#include "common/process/cgroup.h"
#include "common/flags/flags.h"
#include "common/serve/http.h"
#include "common/net/listen.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/signals.h"
#include "common/process/output.h"
#include "common/net/tls.h"
#include "common/peers/token.h"
#include "common/place/place.h"
#include "ps/server.h"

static int wrong(enum err err, const struct errmsg *e)
{
    log_error("%s", e->text);
    return err_exit_code(err);
}

struct process {
    struct flags flags;
    struct cluster cluster;
    struct job job;
    char output[4096];
    int listen_fd, http_fd;
    struct fault fault;
    struct over over;  /* facts about the finished job */
    uint32_t linger_s; /* how long to stay for workers that have not learned of the end */
};

static enum err load_job(struct process *p, struct errmsg *e)
{
    enum err err = job_load(&p->job, p->flags.job, p->flags.sets, p->flags.n_sets, e);
    return err ? err : job_output(&p->job, p->flags.output, p->output, sizeof p->output, e);
}

/* Find out from DIR if the job has already finished. */
static enum ending look_back(struct process *p)
{
    struct place checkpoints;
    struct manifest m = {0};
    place_of_job(&checkpoints, p->output, OUTPUT_CHECKPOINTS);
    enum ending ending = ending_find(&checkpoints, &p->job, &m);
    if (ending == ENDING_DONE)
        over_set(&p->over, epochs_learned(m.epoch), m.run);
    manifest_close(&m);
    return ending;
}

/* Run the server once. The sockets stay open between two runs, so that no connection is refused in between. */
static int live(struct process *p, enum ending ending)
{
    const struct server_config config = {.job = &p->job,
                                         .cluster = &p->cluster,
                                         .output = p->output,
                                         .listen_fd = fcntl(p->listen_fd, F_DUPFD_CLOEXEC, 3),
                                         .http_fd = p->http_fd,
                                         .waits = p->flags.waits,
                                         .grace_s = (uint32_t)p->flags.grace_s,
                                         .fault = p->fault,
                                         .ending = ending,
                                         .over = &p->over,
                                         .linger_s = &p->linger_s};
    struct errmsg e = {""};
    if (config.listen_fd >= 0)
        return server_run(&config);
    return wrong(err_set(&e, err_of_errno(errno), "the listening socket: %s", strerror(errno)), &e);
}

/* Check flags and job file: everything that can be wrong is found before the process changes anything. */
static enum err begin(struct process *p, struct errmsg *e)
{
    const struct cluster *cluster = &p->cluster;
    const struct flags *f = &p->flags;
    enum err err = auth_load(f->auth, f->token_fd, f->token_file, &f->tls, e);
    if (!err)
        err = cluster_init(&p->cluster, &p->flags.cluster, getenv("TF_CONFIG"), e);
    if (err)
        return err;
    if (cluster->alone || cluster->role != ROLE_PS)
        return err_set(e, ERR_INPUT,
                       "this is ps, and the cluster says %s: give --job_name=ps --task_index=I "
                       "--ps_hosts=H:P,.., or TF_CONFIG",
                       cluster->alone ? "nothing of it" : role_str(cluster->role));
    err = fault_parse(&p->fault, p->flags.fault, e);
    if (!err && p->fault.kind != FAULT_NONE && !fault_is_of_ps(&p->fault))
        err =
            err_set(e, ERR_INPUT, "--fault=%s: only a worker supports this fault", p->flags.fault);
    if (!err)
        err = tls_check_cluster(tls_own(), cluster, e);
    if (!err)
        err = http_place_check(&p->flags.http, cluster->bind, p->flags.listen_fd < 0, e);
    if (err)
        return err;
    char who[32];
    (void)snprintf(who, sizeof who, "ps %u", cluster->index);
    log_init(who, log_level_of(p->flags.log_level));
    err = load_job(p, e);
    if (err)
        return err;
    uint32_t threads = p->job.ps.threads ? p->job.ps.threads : cores_usable();
    uint32_t trainers = p->cluster.n_workers + p->cluster.separate_chief;
    return ulimits_check_descriptors(descriptors_of_ps(threads, trainers), e);
}

static enum err open_ports(struct process *p, struct errmsg *e)
{
    p->listen_fd = p->flags.listen_fd;
    enum err err = p->listen_fd >= 0
                       ? listen_adopt(p->listen_fd, e)
                       : listen_bind(&p->listen_fd, p->cluster.bind, LISTEN_TAKEN_MS, e);
    if (!err)
        err = auth_check_listener(p->flags.auth, p->listen_fd, e);
    return err ? err : http_bind(&p->http_fd, &p->flags.http, p->cluster.bind, e);
}

static int run(struct process *p)
{
    struct errmsg e = {""};
    enum err err = begin(p, &e);
    if (!err)
        err = open_ports(p, &e);
    if (err)
        return wrong(err, &e);
    int exit_code = live(p, look_back(p));
    while (exit_code == SERVER_RESTS) {
        signals_last_words(p->flags.termination_message, "asked to stop: the job is done");
        if (p->flags.waits) { /* the job file can have changed for the next chief */
            job_close(&p->job);
            err = load_job(p, &e);
        }
        if (err)
            return wrong(err, &e);
        mem_give_back();
        exit_code = live(p, ENDING_DONE);
    }
    return exit_code;
}

int main(int argc, char **argv)
{
    static struct process process;
    mem_init();
    ulimits_init();
    signals_init();
    flags_parse("ps", argc, argv);
    flags_process(&process.flags);
    signals_last_words(process.flags.termination_message, "asked to stop before training began");
    cgroup_set_root(process.flags.cgroup_root);
    if (process.flags.log_json)
        log_json();
    log_init("ps", log_level_of(process.flags.log_level));
    int exit_code = run(&process);
    termination_end(process.flags.termination_message, exit_code);
    job_close(&process.job);
    cluster_close(&process.cluster);
    return exit_code;
}
