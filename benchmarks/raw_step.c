/* The yardstick of a sync step with parameter servers: the arithmetic of net.h in worker processes
 * of one thread, Adam in ps processes, over loopback. Bare sockets: no frames, no heads, no faults,
 * no overlap of compute and exchange, and the workers stay or everything fails.
 *
 * A step: each worker sends every ps its run of the gradient; a ps waits on epoll, and as soon as
 * every worker's prefix has grown by a `chunks`-th of its run it sums, applies and sends that part
 * to all; each worker receives the new parameters in place.
 *
 * raw_step --batch B [--job FILE] [--ps P] [--workers W] [--steps N] [--chunks C]
 *
 * The check: the loss of worker 0's last step is below a half of its first step's. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "benchmarks/mlp.h"
#include "benchmarks/net.h"
#include "common/base/clock.h"
#include "common/math/kernels.h"

enum { PROCESSES_MAX = 16, WARM_UP_STEPS = 100 };

extern void openblas_set_num_threads(int n);
extern char *openblas_get_corename(void);

struct options {
    int batch, ps, workers, steps, chunks;
    struct net *net;
    size_t elems;
};

/* One ps: its run of the block, and what each worker has sent of the running step. */
struct server {
    const struct options *options;
    int epoll, fd[PROCESSES_MAX];
    size_t elems, applied_elems;      /* of its run */
    size_t have_bytes[PROCESSES_MAX]; /* of the running step, by worker */
    float *w, *m, *v;                 /* (elems) */
    float *dw[PROCESSES_MAX];         /* (elems) each */
};

/* Border i of the block cut into `ps` runs, on whole cache lines. */
static size_t border(const struct options *o, int i)
{
    return i == o->ps ? o->elems : o->elems * (size_t)i / (size_t)o->ps & ~(size_t)15;
}

static void send_floats(int fd, float *p, size_t elems)
{
    struct iovec part = {p, elems * sizeof *p};
    bench_write(fd, &part, 1);
}

static void receive_floats(int fd, float *p, size_t elems)
{
    if (!bench_read(fd, p, elems * sizeof *p))
        bench_die("the peer is gone");
}

/* ---- ps ---- */

static void server_init(struct server *s, const struct options *o, int index, int listener)
{
    *s = (struct server){.options = o, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    s->elems = border(o, index + 1) - border(o, index);
    s->w = bench_pages(s->elems * sizeof *s->w);
    s->m = bench_pages(s->elems * sizeof *s->m);
    s->v = bench_pages(s->elems * sizeof *s->v);
    net_weights(o->net, s->w, border(o, index), s->elems);
    for (int i = 0; i < o->workers; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        s->dw[i] = bench_pages(s->elems * sizeof *s->dw[i]);
        s->fd[i] = bench_accept(listener);
        if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->fd[i], &e))
            bench_die("epoll: %s", strerror(errno));
        send_floats(s->fd[i], s->w, s->elems);
    }
}

static void server_read(struct server *s, uint32_t worker)
{
    size_t have = s->have_bytes[worker], left = s->elems * sizeof(float) - have;
    if (!left)
        return;
    ssize_t n = recv(s->fd[worker], (char *)s->dw[worker] + have, left, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        bench_die("worker %u is gone", worker);
    s->have_bytes[worker] += (size_t)n;
}

/* Elements that every worker has sent, in whole cache lines unless it is all. */
static size_t server_ready(const struct server *s)
{
    size_t least = s->have_bytes[0];
    for (int i = 1; i < s->options->workers; i++)
        least = s->have_bytes[i] < least ? s->have_bytes[i] : least;
    return least == s->elems * sizeof(float) ? s->elems : least / sizeof(float) & ~(size_t)15;
}

static void server_apply(struct server *s, size_t upto, uint64_t step)
{
    size_t first = s->applied_elems, n = upto - first;
    const float *parts[PROCESSES_MAX];
    for (int i = 0; i < s->options->workers; i++)
        parts[i] = s->dw[i] + first;
    mlp_adam(s->w + first, s->m + first, s->v + first, parts, s->options->workers,
             net_scale(s->options->net, s->options->batch), step, n);
    for (int i = 0; i < s->options->workers; i++)
        send_floats(s->fd[i], s->w + first, n);
    s->applied_elems = upto;
}

static void server_step(struct server *s, uint64_t step)
{
    struct epoll_event event[PROCESSES_MAX];
    memset(s->have_bytes, 0, sizeof s->have_bytes);
    s->applied_elems = 0;
    while (s->applied_elems < s->elems) {
        int n = epoll_wait(s->epoll, event, PROCESSES_MAX, -1);
        for (int i = 0; i < n; i++)
            server_read(s, event[i].data.u32);
        size_t upto = server_ready(s);
        bool enough = upto - s->applied_elems >= s->elems / (size_t)s->options->chunks;
        if (upto > s->applied_elems && (enough || upto == s->elems))
            server_apply(s, upto, step);
    }
}

static void server_run(const struct options *o, int index, int listener)
{
    struct server s;
    kernels_flush_denormals();
    server_init(&s, o, index, listener);
    for (int step = 0; step < o->steps + WARM_UP_STEPS; step++)
        server_step(&s, (uint64_t)step + 1);
    exit(0); /* its memory and sockets end with it */
}

/* ---- worker ---- */

static void exchange(const struct options *o, const int *fd, float *w, float *dw)
{
    for (int p = 0; p < o->ps; p++)
        send_floats(fd[p], dw + border(o, p), border(o, p + 1) - border(o, p));
    for (int p = 0; p < o->ps; p++)
        receive_floats(fd[p], w + border(o, p), border(o, p + 1) - border(o, p));
}

static void print_result(const struct options *o, double seconds, double exchange_s,
                         double first_loss, double last_loss)
{
    printf("{\"batch\":%d,\"ps\":%d,\"workers\":%d,\"chunks\":%d,\"steps\":%d,\"blas_core\":\"%s\","
           "\"examples_per_s\":%.0f,\"step_us\":%.1f,\"exchange_us\":%.1f,\"first_loss\":%.4f,"
           "\"last_loss\":%.4f,\"valid\":%s}\n",
           o->batch, o->ps, o->workers, o->chunks, o->steps, openblas_get_corename(),
           (double)o->batch * o->steps / seconds, 1e6 * seconds / o->steps,
           1e6 * exchange_s / o->steps, first_loss, last_loss,
           last_loss < first_loss / 2 ? "true" : "false");
}

static void worker_run(const struct options *o, int index, const uint16_t *port)
{
    int fd[PROCESSES_MAX];
    float *w = bench_pages(o->elems * sizeof *w), *dw = bench_pages(o->elems * sizeof *dw);
    kernels_flush_denormals();
    openblas_set_num_threads(1);
    const int rows = o->batch / o->workers;
    struct net_thread *share = net_thread_new(o->net, rows, o->batch, (uint64_t)index);
    for (int p = 0; p < o->ps; p++) {
        fd[p] = bench_dial(port[p], BENCH_BUFFER_BYTES);
        receive_floats(fd[p], w + border(o, p), border(o, p + 1) - border(o, p));
    }
    double start = 0, exchange_s = 0, first_loss = 0, last_loss = 0;
    for (int step = 0; step < o->steps + WARM_UP_STEPS; step++) {
        if (step == WARM_UP_STEPS) {
            start = clock_now_s();
            exchange_s = 0;
        }
        last_loss = net_gradient(share, dw, w) / rows;
        first_loss = step ? first_loss : last_loss;
        double before = clock_now_s();
        exchange(o, fd, w, dw);
        exchange_s += clock_now_s() - before;
    }
    if (!index)
        print_result(o, clock_now_s() - start, exchange_s, first_loss, last_loss);
    exit(0);
}

/* ---- all ---- */

static struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"batch", 1, NULL, 'b'}, {"job", 1, NULL, 'j'},
                                          {"ps", 1, NULL, 'p'},    {"workers", 1, NULL, 'w'},
                                          {"steps", 1, NULL, 's'}, {"chunks", 1, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.batch = 64, .ps = 2, .workers = 2, .steps = 1000, .chunks = 2};
    const char *job = NULL;
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'b')
            o.batch = (int)bench_number(optarg);
        else if (flag == 'j')
            job = optarg;
        else if (flag == 'p')
            o.ps = (int)bench_number(optarg);
        else if (flag == 'w')
            o.workers = (int)bench_number(optarg);
        else if (flag == 's')
            o.steps = (int)bench_number(optarg);
        else if (flag == 'c')
            o.chunks = (int)bench_number(optarg);
        else
            exit(1);
    }
    if (o.ps < 1 || o.ps > PROCESSES_MAX || o.workers < 1 || o.workers > PROCESSES_MAX ||
        o.batch < o.workers || o.steps < 1 || o.chunks < 1)
        bench_die("--ps and --workers are 1 to %d, --batch at least --workers, the others positive",
                  PROCESSES_MAX);
    o.batch -= o.batch % o.workers;
    o.net = net_new(job);
    o.elems = net_elems(o.net);
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    int listener[PROCESSES_MAX], n = 0;
    uint16_t port[PROCESSES_MAX];
    pid_t child[2 * PROCESSES_MAX];
    for (int p = 0; p < o.ps; p++)
        listener[p] = bench_listen(INADDR_LOOPBACK, BENCH_BUFFER_BYTES, &port[p]);
    for (int p = 0; p < o.ps; p++)
        if (!(child[n++] = bench_fork()))
            server_run(&o, p, listener[p]);
    for (int i = 0; i < o.workers; i++)
        if (!(child[n++] = bench_fork()))
            worker_run(&o, i, port);
    for (int i = 0; i < n; i++)
        bench_reap(child[i]);
    return 0;
}
