#include "launch/local/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/signals.h"

/* ---- the launcher's side ---- */

static enum err guardian_send(int socket, int pidfd, char byte, struct errmsg *e)
{
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr msg = {.msg_iov = &io,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &pidfd, sizeof pidfd);
    ssize_t n = TEMP_FAILURE_RETRY(sendmsg(socket, &msg, MSG_NOSIGNAL));
    return n == 1 ? ERR_OK : err_set(e, ERR_IO, "guardian: %s", strerror(errno));
}

enum err guardian_register(const struct guardian *g, pid_t pid, enum ward_kind kind,
                           struct errmsg *e)
{
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0)
        return err_set(e, ERR_IO, "pidfd_open: %s", strerror(errno));
    enum err err = guardian_send(g->fd, pidfd, (char)kind, e);
    (void)close(pidfd);
    return err;
}

/* In the forked process: become the guardian, with another process name. */
static _Noreturn void guardian_become(int fd)
{
    (void)setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; null >= 0 && i <= STDERR_FILENO; i++)
        (void)dup2(null, i);
    (void)fcntl(fd, F_SETFD, 0);
    char number[16];
    (void)snprintf(number, sizeof number, "%d", fd);
    char *argv[] = {(char[]){GUARDIAN_NAME}, number, NULL};
    execv("/proc/self/exe", argv);
    _exit(guardian_main(fd)); /* without /proc: the same, with the launcher's name */
}

enum err guardian_start(struct guardian *g, struct errmsg *e)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return err_set(e, ERR_IO, "guardian: socketpair: %s", strerror(errno));
    pid_t pid = signals_fork();
    if (pid == 0) {
        (void)close(pair[0]);
        guardian_become(pair[1]);
    }
    int why = errno;
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return err_set(e, ERR_IO, "guardian: fork: %s", strerror(why));
    }
    *g = (struct guardian){.pid = pid, .fd = pair[0]};
    return ERR_OK;
}

void guardian_close(struct guardian *g)
{
    if (g->pid <= 0)
        return;
    (void)close(g->fd);
    (void)TEMP_FAILURE_RETRY(waitpid(g->pid, NULL, 0));
    *g = (struct guardian){.fd = -1};
}

/* ---- the guardian ---- */

/* The descriptors to poll: [0] is the launcher's socket, the others are pidfds. */
struct wards {
    struct pollfd *fd;
    bool *is_link;
    nfds_t n;
};

static bool wards_add(struct wards *w, int fd, bool is_link)
{
    struct pollfd *fds = mem_resize(w->fd, w->n + 1, sizeof *fds);
    w->fd = fds ? fds : w->fd;
    bool *links = mem_resize(w->is_link, w->n + 1, sizeof *links);
    w->is_link = links ? links : w->is_link;
    if (!fds || !links)
        return false;
    w->is_link[w->n] = is_link;
    w->fd[w->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return true;
}

static void wards_forget_ended(struct wards *w)
{
    for (nfds_t i = 1; i < w->n;) {
        if (w->fd[i].revents) {
            (void)close(w->fd[i].fd);
            w->fd[i] = w->fd[--w->n];
            w->is_link[i] = w->is_link[w->n];
        } else {
            i++;
        }
    }
}

static void wards_signal(const struct wards *w, int sig, bool links_too)
{
    for (nfds_t i = 1; i < w->n; i++)
        if (links_too || !w->is_link[i])
            (void)pidfd_send_signal(w->fd[i].fd, sig, NULL, 0);
}

/* Receive one pidfd from the socket. False at the end of the socket: the launcher has ended. */
static bool guardian_take(struct wards *w)
{
    char byte;
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &io,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(w->fd[0].fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS) {
        int pidfd;
        memcpy(&pidfd, CMSG_DATA(c), sizeof pidfd);
        /* Without memory to guard the process, kill it rather than risk that it outlives the launcher. */
        if (!wards_add(w, pidfd, byte == WARD_LINK)) {
            (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
            (void)close(pidfd);
        }
    }
    return n > 0;
}

/* Wait until all children have ended, or until that time. */
static void guardian_wait(struct wards *w, int64_t until_ms)
{
    int64_t left_ms;
    while (w->n > 1 && (left_ms = until_ms - clock_now_ms()) > 0)
        if (poll(w->fd, w->n, (int)left_ms) > 0)
            wards_forget_ended(w);
}

static void guardian_end_all(struct wards *w)
{
    int64_t began_ms = clock_now_ms();
    w->fd[0].fd = -1; /* poll skips it */
    wards_signal(w, SIGTERM, false);
    guardian_wait(w, began_ms + GUARDIAN_GRACE_MS);
    wards_signal(w, SIGKILL, false);
    guardian_wait(w, began_ms + GUARDIAN_LINK_MS);
    wards_signal(w, SIGKILL, true);
    while (w->n > 1) /* hold the lock until all have ended */
        if (poll(w->fd, w->n, -1) > 0)
            wards_forget_ended(w);
}

int guardian_main(int fd)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        (void)signal(ignored[i], SIG_IGN);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    struct wards w = {0};
    if (!wards_add(&w, fd, false))
        return 1;
    bool launcher_lives = true;
    while (launcher_lives) {
        if (poll(w.fd, w.n, -1) <= 0)
            continue;
        if (w.fd[0].revents)
            launcher_lives = guardian_take(&w);
        else
            wards_forget_ended(&w);
    }
    guardian_end_all(&w);
    mem_free(w.fd);
    mem_free(w.is_link);
    return 0;
}
