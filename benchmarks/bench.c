#include "benchmarks/bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void *bench_pages(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, (bytes + 4095) / 4096 * 4096 + 4096))
        bench_die("out of memory: %zu bytes", bytes);
    memset(p, 0, bytes);
    return p;
}

double bench_cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t bench_number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    if (errno || end == text || *end)
        bench_die("not a number: %s", text);
    return n;
}

static void set_buffers(int fd, int buffer_bytes)
{
    if (buffer_bytes &&
        (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes) ||
         setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes)))
        bench_die("setsockopt: %s", strerror(errno));
}

static void set_nodelay(int fd)
{
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        bench_die("setsockopt: %s", strerror(errno));
}

int bench_listen(in_addr_t host, int buffer_bytes, uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    socklen_t bytes = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        bench_die("socket: %s", strerror(errno));
    set_buffers(fd, buffer_bytes);
    if (bind(fd, (struct sockaddr *)&a, bytes) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&a, &bytes))
        bench_die("listen: %s", strerror(errno));
    *port = ntohs(a.sin_port);
    return fd;
}

int bench_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        bench_die("accept: %s", strerror(errno));
    set_nodelay(fd);
    return fd;
}

int bench_dial(uint16_t port, int buffer_bytes)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        bench_die("socket: %s", strerror(errno));
    set_buffers(fd, buffer_bytes);
    set_nodelay(fd);
    if (connect(fd, (struct sockaddr *)&a, sizeof a))
        bench_die("connect: %s", strerror(errno));
    return fd;
}

/* Move the parts on by what the socket took. */
static void parts_advance(struct msghdr *m, size_t bytes)
{
    while (m->msg_iovlen && bytes >= m->msg_iov->iov_len) {
        bytes -= m->msg_iov->iov_len;
        m->msg_iov++;
        m->msg_iovlen--;
    }
    if (m->msg_iovlen) {
        m->msg_iov->iov_base = (char *)m->msg_iov->iov_base + bytes;
        m->msg_iov->iov_len -= bytes;
    }
}

void bench_write(int fd, struct iovec *parts, int n_parts)
{
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = (size_t)n_parts};
    while (m.msg_iovlen) {
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            bench_die("send: %s", strerror(errno));
        if (n > 0)
            parts_advance(&m, (size_t)n);
    }
}

static size_t read_or_end(int fd, void *p, size_t bytes)
{
    ssize_t n;
    do
        n = recv(fd, p, bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        bench_die("recv: %s", strerror(errno));
    return (size_t)n;
}

size_t bench_read_some(int fd, void *p, size_t bytes)
{
    size_t n = read_or_end(fd, p, bytes);
    if (!n)
        bench_die("recv: the peer is gone");
    return n;
}

int bench_read(int fd, void *p, size_t bytes)
{
    size_t have = read_or_end(fd, p, bytes);
    if (!have)
        return 0;
    while (have < bytes)
        have += bench_read_some(fd, (char *)p + have, bytes - have);
    return 1;
}

pid_t bench_fork(void)
{
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        bench_die("fork: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            exit(1);
    }
    return child;
}

void bench_reap(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
        bench_die("process %d failed", (int)child);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t n, double q)
{
    if (!n)
        return 0;
    qsort(values, n, sizeof *values, compare);
    size_t at = (size_t)(q * (double)n);
    return values[at < n ? at : n - 1];
}

uint64_t bench_proc_bytes(const char *path, const char *name)
{
    char line[256];
    uint64_t kilobytes = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            kilobytes = strtoull(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return kilobytes << 10;
}
