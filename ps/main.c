#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/auth.h"
#include "common/cgroup.h"
#include "common/flags.h"
#include "common/http.h"
#include "common/listen.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/signals.h"
#include "common/termination.h"
#include "common/tls.h"
#include "common/token.h"
#include "ps/server.h"

static int wrong(const struct errmsg *e)
{
    log_error("%s", e->text);
    return 2;
}

struct process {
    struct flags flags;
    struct cluster cluster;
    struct job job;
    char output[4096];
    int listen_fd, http_fd;
    struct fault fault;
    struct over over; /* the job that is done */
};

static enum err load_job(struct process *p, struct errmsg *e)
{
    enum err err = job_load(&p->job, p->flags.job, p->flags.sets, p->flags.n_sets, e);
    return err ? err : job_output(&p->job, p->flags.output, p->output, sizeof p->output, e);
}

/* Is the job over already? */
static enum ending look_back(struct process *p)
{
    char checkpoints[sizeof p->output + 16];
    struct manifest m = {0};
    (void)snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", p->output);
    enum ending ending = ending_find(checkpoints, &p->job, &m);
    if (ending == ENDING_DONE)
        over_set(&p->over, epochs_learned(m.epoch), m.run);
    manifest_close(&m);
    return ending;
}

/* The sockets stay open over all lives, so that nobody is turned away between two of them. */
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
                                         .over = &p->over};
    if (config.listen_fd >= 0)
        return server_run(&config);
    log_error("no descriptor to listen with");
    return 138;
}

static int run(struct process *p)
{
    struct errmsg e = {""};
    const struct cluster *cluster = &p->cluster;
    if (token_load(p->flags.token_fd, p->flags.token_file, &e) || tls_load(&p->flags.tls, &e))
        return wrong(&e);
    if (auth_check(p->flags.auth, &e))
        return wrong(&e);
    if (cluster_init(&p->cluster, &p->flags.cluster, getenv("TF_CONFIG"), &e))
        return wrong(&e);
    if (cluster->alone || cluster->role != ROLE_PS) {
        log_error("this is ps, and the cluster says %s: give --job_name=ps --task_index=I "
                  "--ps_hosts=H:P,.., or TF_CONFIG",
                  cluster->alone ? "nothing of it" : role_str(cluster->role));
        return 2;
    }
    if (fault_parse(&p->fault, p->flags.fault, &e))
        return wrong(&e);
    if (p->fault.kind != FAULT_NONE && p->fault.kind != FAULT_DISK) {
        log_error("--fault=%s: only a worker takes it", p->flags.fault);
        return 2;
    }
    if (tls_check_cluster(tls_own(), cluster, &e))
        return wrong(&e);
    char who[32];
    (void)snprintf(who, sizeof who, "ps %u", cluster->index);
    log_init(who, log_level_of(p->flags.log_level));
    if (load_job(p, &e))
        return wrong(&e);
    p->listen_fd = p->flags.listen_fd;
    const struct http_place http = {p->flags.http_port, p->flags.http_address, p->flags.http_fd};
    enum err err = p->listen_fd >= 0
                       ? listen_adopt(p->listen_fd, &e)
                       : listen_bind(&p->listen_fd, cluster->bind, LISTEN_TAKEN_MS, &e);
    if (!err)
        err = auth_check_listener(p->flags.auth, p->listen_fd, &e);
    if (!err)
        err = http_bind(&p->http_fd, &http, &e);
    if (err) {
        log_error("%s", e.text);
        return err == ERR_INPUT ? 2 : 1;
    }
    int exit_code = live(p, look_back(p));
    while (exit_code == SERVER_RESTS) {
        job_close(&p->job); /* the next chief may have another file: more epochs, say */
        if (load_job(p, &e))
            return wrong(&e);
        mem_give_back();
        exit_code = live(p, ENDING_DONE);
    }
    return exit_code;
}

int main(int argc, char **argv)
{
    static struct process process;
    signals_init();
    flags_parse(&process.flags, "ps", argc, argv);
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
