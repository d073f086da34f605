/* The yardstick of the exchange: push, pull and push-pull over loopback with nothing but what they
 * cannot do without. Two processes, blocking sockets, one 16-byte header each way. The server sums
 * from a cache-sized receive buffer straight into its store and answers from the store; the client
 * receives in place, on a second thread, with `window` requests in flight. "roundtrip" is one push
 * at a time, answered by a header alone.
 *
 * raw_exchange --mode push|pull|pushpull|roundtrip --bytes N [--window W] [--milliseconds T]
 * [--buffer B]
 *              [--chunk C]
 *
 * Every pushed value is 1, so after k pushes every value of the store is k: that is checked at the
 * end. */
#include <getopt.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "common/base/clock.h"

enum { PUSH = 1, PULL = 2, LATENCIES_MAX = 1 << 20, FLOATS_EXACT_MAX = 1 << 24 };

struct header {
    uint32_t op; /* PUSH | PULL */
    uint32_t reserved;
    uint64_t bytes; /* request: of the block; reply: that follow */
};

struct options {
    const char *mode;
    uint32_t op;
    bool roundtrip;
    uint64_t bytes, window, milliseconds, chunk_bytes;
    int buffer_bytes;
};

struct client {
    const struct options *options;
    int fd;
    float *pushed, *pulled; /* (bytes / 4) */
    sem_t window;           /* requests that may still leave */
    uint64_t requests, pushes;
};

/* ---- server ---- */

/* Not inlined: gcc forgets restrict there, and the loop stays scalar. */
static __attribute__((noinline)) void sum(float *restrict store, const float *restrict pushed,
                                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        store[i] += pushed[i];
}

/* Receive `bytes` of floats into the chunk and add them as they come: whole floats, once a quarter
 * of the chunk is there or the push ends. */
static void serve_push(int fd, float *store, uint64_t bytes, char *chunk, size_t chunk_bytes)
{
    size_t have = 0; /* in the chunk, not yet summed */
    for (uint64_t at = 0; at < bytes;) {
        size_t want = bytes - at < chunk_bytes ? (size_t)(bytes - at) : chunk_bytes;
        have += bench_read_some(fd, chunk + have, want - have);
        size_t whole = have & ~(size_t)3;
        if (whole < want && have < chunk_bytes / 4)
            continue;
        sum(store + at / 4, (const float *)(const void *)chunk, whole / 4);
        at += whole;
        have -= whole;
        memmove(chunk, chunk + whole, have);
    }
}

static void serve(int listener, const struct options *o)
{
    int fd = bench_accept(listener);
    float *store = bench_pages(o->bytes);
    char *chunk = bench_pages(o->chunk_bytes);
    struct header h;
    while (bench_read(fd, &h, sizeof h)) {
        if (h.bytes > o->bytes)
            bench_die("a block of %llu bytes", (unsigned long long)h.bytes);
        if (h.op & PUSH)
            serve_push(fd, store, h.bytes, chunk, o->chunk_bytes);
        h.bytes = h.op & PULL ? h.bytes : 0;
        struct iovec parts[2] = {{&h, sizeof h}, {store, h.bytes}};
        bench_write(fd, parts, h.bytes ? 2 : 1);
    }
    close(fd);
    free(chunk);
    free(store);
    exit(0);
}

/* ---- client ---- */

static void request(struct client *c, uint32_t op)
{
    struct header h = {.op = op, .bytes = c->options->bytes};
    struct iovec parts[2] = {{&h, sizeof h}, {c->pushed, c->options->bytes}};
    c->requests++;
    c->pushes += op & PUSH;
    bench_write(c->fd, parts, op & PUSH ? 2 : 1);
}

static bool reply(struct client *c)
{
    struct header h;
    if (!bench_read(c->fd, &h, sizeof h))
        return false;
    if (h.bytes && !bench_read(c->fd, c->pulled, h.bytes))
        bench_die("the reply ended early");
    return true;
}

static void *read_replies(void *arg)
{
    struct client *c = arg;
    while (reply(c))
        sem_post(&c->window);
    return NULL;
}

static void window_wait(struct client *c, uint64_t n)
{
    while (n--)
        while (sem_wait(&c->window))
            ;
}

/* Wait until nothing is in flight. */
static void window_drain(struct client *c)
{
    window_wait(c, c->options->window);
    for (uint64_t i = 0; i < c->options->window; i++)
        sem_post(&c->window);
}

/* Requests for so long, then until all are answered; seconds in all. */
static double run_window(struct client *c, double seconds)
{
    double start = clock_now_s();
    while (clock_now_s() - start < seconds) {
        window_wait(c, 1);
        request(c, c->options->op);
    }
    window_drain(c);
    return clock_now_s() - start;
}

static double run_windowed(struct client *c, double seconds, uint64_t *requests)
{
    pthread_t reader;
    if (sem_init(&c->window, 0, (unsigned)c->options->window) ||
        pthread_create(&reader, NULL, read_replies, c))
        bench_die("no thread");
    run_window(c, seconds / 5);
    uint64_t before = c->requests;
    double took = run_window(c, seconds);
    *requests = c->requests - before;
    window_wait(c, 1);
    request(c, PULL);
    window_drain(c);
    shutdown(c->fd, SHUT_WR);
    pthread_join(reader, NULL);
    sem_destroy(&c->window);
    return took;
}

static double run_roundtrips(struct client *c, double seconds, double *latency, uint64_t *requests)
{
    uint64_t n = 0;
    double start = clock_now_s(), measured = start + seconds / 5, now = start, before;
    while (now - start < seconds * 1.2) {
        before = now;
        request(c, PUSH);
        if (!reply(c))
            bench_die("the server is gone");
        now = clock_now_s();
        if (before >= measured && n < LATENCIES_MAX)
            latency[n++] = now - before;
    }
    *requests = n;
    request(c, PULL);
    if (!reply(c))
        bench_die("the server is gone");
    return now - measured;
}

/* Every value of the store is the number of pushes. */
static bool check(const struct client *c)
{
    if (c->pushes >= FLOATS_EXACT_MAX)
        return true;
    for (uint64_t i = 0; i < c->options->bytes / 4; i++)
        if (c->pulled[i] != (float)c->pushes)
            return false;
    return true;
}

static void print_result(const struct options *o, uint64_t n, double took, double *latency,
                         bool valid)
{
    double per_s = (double)n / took;
    printf("{\"mode\":\"%s\",\"bytes\":%llu,\"window\":%llu,\"per_s\":%.1f,\"gb_per_s\":%.4f",
           o->mode, (unsigned long long)o->bytes, (unsigned long long)o->window, per_s,
           per_s * (double)o->bytes / 1e9);
    if (o->roundtrip)
        printf(",\"p50_us\":%.2f,\"p99_us\":%.2f", bench_quantile(latency, n, .5) * 1e6,
               bench_quantile(latency, n, .99) * 1e6);
    printf(",\"valid\":%s}\n", valid ? "true" : "false");
}

static void run_client(const struct options *o, uint16_t port)
{
    struct client c = {.options = o, .fd = bench_dial(port, o->buffer_bytes)};
    c.pushed = bench_pages(o->bytes);
    c.pulled = bench_pages(o->bytes);
    double *latency = bench_pages(o->roundtrip ? LATENCIES_MAX * sizeof *latency : 1);
    for (uint64_t i = 0; i < o->bytes / 4; i++)
        c.pushed[i] = 1;
    double seconds = (double)o->milliseconds / 1e3;
    uint64_t n;
    double took =
        o->roundtrip ? run_roundtrips(&c, seconds, latency, &n) : run_windowed(&c, seconds, &n);
    print_result(o, n, took, latency, check(&c));
    close(c.fd);
    free(latency);
    free(c.pulled);
    free(c.pushed);
}

static uint32_t mode_op(const char *mode)
{
    if (!strcmp(mode, "push") || !strcmp(mode, "roundtrip"))
        return PUSH;
    if (!strcmp(mode, "pull"))
        return PULL;
    if (!strcmp(mode, "pushpull"))
        return PUSH | PULL;
    bench_die("--mode is push, pull, pushpull or roundtrip, not %s", mode);
}

static struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"mode", 1, NULL, 'm'},   {"bytes", 1, NULL, 'b'},
                                          {"window", 1, NULL, 'w'}, {"milliseconds", 1, NULL, 't'},
                                          {"buffer", 1, NULL, 's'}, {"chunk", 1, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.mode = "push",
                        .bytes = 4 << 20,
                        .window = 4,
                        .milliseconds = 1000,
                        .chunk_bytes = 256 << 10,
                        .buffer_bytes = BENCH_BUFFER_BYTES};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'm')
            o.mode = optarg;
        else if (flag == 'b')
            o.bytes = bench_number(optarg) & ~UINT64_C(3);
        else if (flag == 'w')
            o.window = bench_number(optarg);
        else if (flag == 't')
            o.milliseconds = bench_number(optarg);
        else if (flag == 's')
            o.buffer_bytes = (int)bench_number(optarg);
        else if (flag == 'c')
            o.chunk_bytes = bench_number(optarg);
        else
            exit(1);
    }
    if (!o.bytes || !o.window || o.chunk_bytes < 64)
        bench_die("--bytes, --window and --chunk are positive");
    o.op = mode_op(o.mode);
    o.roundtrip = !strcmp(o.mode, "roundtrip");
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    uint16_t port;
    int listener = bench_listen(INADDR_LOOPBACK, o.buffer_bytes, &port);
    pid_t server = bench_fork();
    if (!server)
        serve(listener, &o);
    close(listener);
    run_client(&o, port);
    bench_reap(server);
    return 0;
}
