#include "launch/local/local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"

static enum err local_start(struct process *p, struct errmsg *e)
{
    struct local_place *place = p->place;
    int log_fd;
    enum err err = process_open_log(p, &log_fd, e);
    if (err)
        return err;
    struct child c = {
        .argv = p->argv, .handed = place->handed, .out_fd = log_fd, .again = place->started};
    err = child_start(&p->pid, &c, place->guardian, e);
    (void)close(log_fd);
    if (err)
        return err_wrap(e, err, "%s: ", p->name);
    p->state = PROCESS_RUNS;
    p->started_ms = clock_now_ms();
    place->started = true;
    return ERR_OK;
}

static void local_signal(struct process *p, int sig)
{
    child_signal(p->pid, sig);
}

static const struct process_ops local_ops = {.start = local_start, .signal = local_signal};

/* Make a listening socket on a free port of 127.0.0.1. Errors: ERR_IO; *fd is unchanged. */
static enum err local_listen(const struct process *p, int *out, char address[PROCESS_ADDRESS_BYTES],
                             struct errmsg *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: socket: %s", p->name, strerror(errno));
    if (bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        enum err err =
            err_set(e, ERR_IO, "%s: cannot bind a port on 127.0.0.1: %s", p->name, strerror(errno));
        (void)close(fd);
        return err;
    }
    (void)snprintf(address, PROCESS_ADDRESS_BYTES, "127.0.0.1:%u", ntohs(at.sin_port));
    *out = fd;
    return ERR_OK;
}

enum err local_settle(struct process *p, struct local_place *place, const struct guardian *guardian,
                      struct errmsg *e)
{
    *place = (struct local_place){.guardian = guardian,
                                  .handed = {.listen = -1, .http = -1, .progress = -1, .lock = -1}};
    enum err err = local_listen(p, &place->handed.listen, p->address, e);
    if (!err)
        err = local_listen(p, &place->handed.http, p->http, e);
    p->ops = &local_ops;
    p->place = place;
    return err;
}

void local_leave(struct local_place *place)
{
    if (place->handed.listen >= 0)
        (void)close(place->handed.listen);
    if (place->handed.http >= 0)
        (void)close(place->handed.http);
}

bool local_reaped(struct process *p, pid_t pid, uint64_t peak_rss_bytes)
{
    if (p->host || p->pid != pid)
        return false;
    process_peak_rss(p, peak_rss_bytes);
    p->pid = 0;
    p->state = PROCESS_ENDED;
    return true;
}
