#include <stdio.h>
#include <stdlib.h>

#include "common/auth.h"
#include "common/cgroup.h"
#include "common/flags.h"
#include "common/http.h"
#include "common/listen.h"
#include "common/log.h"
#include "common/signals.h"
#include "common/termination.h"
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
};

static int run(struct process *p)
{
    struct errmsg e = {""};
    const struct cluster *cluster = &p->cluster;
    if (token_load(p->flags.token_fd, p->flags.token_file, &e))
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
    if (p->flags.fault[0]) {
        log_error("--fault=%s: only a worker takes it", p->flags.fault);
        return 2;
    }
    char who[32], output[4096];
    (void)snprintf(who, sizeof who, "ps %u", cluster->index);
    log_init(who, log_level_of(p->flags.log_level));
    if (job_load(&p->job, p->flags.job, p->flags.sets, p->flags.n_sets, &e))
        return wrong(&e);
    (void)snprintf(output, sizeof output, "runs/%s", p->job.name);
    int fd = p->flags.listen_fd, http_fd = -1;
    const struct http_place http = {p->flags.http_port, p->flags.http_address, p->flags.http_fd};
    enum err err =
        fd >= 0 ? listen_adopt(fd, &e) : listen_bind(&fd, cluster->bind, LISTEN_TAKEN_MS, &e);
    if (!err)
        err = auth_check_listener(p->flags.auth, fd, &e);
    if (!err)
        err = http_bind(&http_fd, &http, &e);
    if (err) {
        log_error("%s", e.text);
        return err == ERR_INPUT ? 2 : 1;
    }
    const struct server_config config = {.job = &p->job,
                                         .cluster = cluster,
                                         .output = p->flags.output[0] ? p->flags.output : output,
                                         .listen_fd = fd,
                                         .http_fd = http_fd};
    return server_run(&config);
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
