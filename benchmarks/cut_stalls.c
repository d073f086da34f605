/* The cost of a cut for a shard with large tables: a real shard's thread, with its writer, and one worker on a socket
 * that pushes rows as fast as they are answered (async, adagrad, rows of 16 floats).
 *
 * cut_stalls [--mib N] [--seconds S] [--skew K] [--rows N] --output DIR
 *
 * The table is filled to N MiB; S seconds are trained; then a cut is taken and trained on until it is on disk. Key of a row:
 * its number is rows * u^K, u uniform: with K = 1 all rows are equally likely, unlike in any log of clicks. It prints the
 * longest time that the shard's thread copied in one go, the longest time from a push to its answer, before the cut and during
 * it, the rate of rows in both, and the additional memory of the process. The check: the file has all of the rows. */
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/optimizer.h"
#include "common/peers/hello.h"
#include "common/process/fault.h"
#include "common/rows/key.h"
#include "ps/shard_thread.h"

enum { DIM = 16, SEED = 1, CUT = 1, SAMPLES_MAX = 1 << 20 };
#define ROW_BYTES (DIM * 2 * sizeof(float) + 12 + 20) /* weights, accumulators, head, index */

enum phase { FILL, BEFORE, DURING, OVER };

struct span {
    uint64_t pushes;
    double began_s, ended_s, longest_s;
    double *took_s; /* (pushes, up to SAMPLES_MAX) */
};

struct bench {
    uint64_t rows, batch_rows;
    double seconds, skew;
    const char *output;
    struct loop loop;
    struct mailbox in;
    struct shard_thread *shard;
    struct conn *conn;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    enum phase phase;
    uint64_t filled, id, draw;
    uint64_t *key; /* (batch_rows) */
    uint8_t *body;
    double sent_s;
    struct span before, during;
    uint64_t rss_before, rss_most, cut_rows, file_bytes;
    bool reported;
    struct shard_facts facts;
    struct shard_counts counts;
};

/* ---- memory ---- */

/* VmHWM starts again from the present size. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file || fputs("5", file) < 0 || fclose(file))
        bench_die("the peak of memory cannot be reset: /proc/self/clear_refs");
}

/* The table while it grows, the additional memory that a cut may take, and the rest. */
static void demand_memory(const struct bench *b)
{
    uint64_t needed = b->rows * ROW_BYTES / 4 * 6 + (UINT64_C(1) << 30);
    uint64_t there = bench_proc_bytes("/proc/meminfo", "MemAvailable:");
    if (there < needed)
        bench_die("%.1f GiB of rows need %.1f GiB of free memory, and %.1f GiB are free; use a "
                  "smaller table",
                  (double)(b->rows * ROW_BYTES) / 0x1p30, (double)needed / 0x1p30,
                  (double)there / 0x1p30);
}

/* ---- pushes ---- */

/* Shard 1 of 2 has no chunk, and the upper half of the buckets. */
static uint64_t key_of(uint64_t row)
{
    return key_mix(row) | UINT64_C(1) << 63;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t draw_keys(struct bench *b)
{
    size_t n = 0;
    for (uint64_t i = 0; i < b->batch_rows; i++) {
        double u = rng_unit(rng_key(SEED, RNG_TEST, 0, 0), b->draw++);
        uint64_t row =
            b->phase == FILL ? b->filled++ : (uint64_t)((double)b->rows * pow(u, b->skew));
        b->key[i] = key_of(row);
    }
    qsort(b->key, b->batch_rows, sizeof *b->key, ascending);
    for (uint64_t i = 0; i < b->batch_rows; i++)
        if (i == 0 || b->key[i] != b->key[i - 1])
            b->key[n++] = b->key[i];
    return n;
}

/* The sections of all parts, of the n keys. */
static size_t fill_body(struct bench *b, size_t n)
{
    struct bucket_range all = bucket_shard(1, 2);
    size_t at = 0, k = 0;
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        size_t first = k;
        while (k < n && key_bucket(b->key[k]) < bucket_part(all, part).end)
            k++;
        uint32_t counts[2] = {(uint32_t)(k - first), 0};
        memcpy(b->body + at, counts, sizeof counts);
        at += sizeof counts;
        memcpy(b->body + at, b->key + first, counts[0] * sizeof *b->key);
        at += counts[0] * sizeof *b->key;
        float *g = (float *)(void *)(b->body + at);
        for (size_t i = 0; i < (size_t)counts[0] * DIM; i++)
            g[i] = (float)(i % 7) - 3;
        at += (size_t)counts[0] * DIM * sizeof *g;
    }
    return at;
}

static Gradwire__Generation generation(void)
{
    return msg_generation((struct generation){1, 1});
}

static void push(struct bench *b)
{
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    Gradwire__Generation g = generation();
    size_t bytes = fill_body(b, draw_keys(b));
    m.generation = &g;
    m.name = b->id++;
    m.examples = 1;
    m.parts = ROW_PARTS;
    b->sent_s = clock_now_s();
    msg_send(b->conn, FRAME_ROWS_PUSH, &m.base, b->body, bytes);
}

static void note(struct span *s, double took_s)
{
    if (s->pushes < SAMPLES_MAX)
        s->took_s[s->pushes] = took_s;
    s->pushes++;
    s->longest_s = took_s > s->longest_s ? took_s : s->longest_s;
}

static void tell(struct bench *b, enum frame_type type, const ProtobufCMessage *m)
{
    if (shard_thread_tell(b->shard, type, m))
        bench_die("the shard's thread takes no letter");
}

static void begin_cut(struct bench *b)
{
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    Gradwire__Generation g = generation();
    m.generation = &g;
    m.cut = CUT;
    b->rss_before = bench_proc_bytes("/proc/self/status", "VmRSS:");
    forget_peak();
    b->phase = DURING;
    b->during.began_s = clock_now_s();
    tell(b, FRAME_CUT, &m.base);
}

static void on_answer(struct bench *b)
{
    double now = clock_now_s(), took = now - b->sent_s;
    if (b->phase == FILL && b->filled >= b->rows) {
        b->phase = BEFORE;
        b->before.began_s = now;
    } else if (b->phase == BEFORE) {
        note(&b->before, took);
        b->before.ended_s = now;
        if (now - b->before.began_s >= b->seconds)
            begin_cut(b);
    } else if (b->phase == DURING) {
        note(&b->during, took);
    }
    if (b->phase != OVER)
        push(b);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct bench *b = owner;
    (void)c, (void)head;
    if (f->type != FRAME_REPLY && f->type != FRAME_HELLO_REPLY)
        bench_die("the shard answers with %s", frame_type_str(f->type));
    (void)b;
    return ERR_OK;
}

static enum err on_frame(struct conn *c, void *owner)
{
    (void)c;
    on_answer(owner);
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct bench *b = owner;
    (void)c, (void)code;
    if (b->phase != OVER)
        bench_die("the connection is closed: %s", why);
}

static const struct conn_ops ops = {.on_head = on_head, .on_frame = on_frame, .on_close = on_close};

/* ---- the shard's words ---- */

static void connect_worker(struct bench *b)
{
    int fd[2];
    struct conn_handover end = {.fd = -1};
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = generation();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
        bench_die("no pair of sockets");
    end.fd = fd[1];
    hello.generation = &g;
    hello.incarnation = 1;
    Gradwire__Hello *copy = (Gradwire__Hello *)msg_copy(&hello.base);
    if (!copy || conn_new(&b->conn, &b->loop, fd[0], "the shard", &ops, b) ||
        shard_thread_take(b->shard, &end, copy))
        bench_die("out of memory");
}

static void on_tells(struct bench *b, enum frame_type type, const ProtobufCMessage *m)
{
    const Gradwire__CutSaved *saved = (const Gradwire__CutSaved *)m;
    if (type == FRAME_ENTERED) {
        if (((const Gradwire__Entered *)m)->error[0])
            bench_die("%s", ((const Gradwire__Entered *)m)->error);
        connect_worker(b);
    } else if (type == FRAME_CUT_STOPPED) {
        Gradwire__CutAt at = GRADWIRE__CUT_AT__INIT;
        Gradwire__Generation g = generation();
        at.generation = &g;
        at.cut = CUT;
        tell(b, FRAME_CUT_AT, &at.base);
    } else if (type == FRAME_CUT_SAVED) {
        if (saved->error[0])
            bench_die("the cut: %s", saved->error);
        b->during.ended_s = clock_now_s();
        b->rss_most = bench_proc_bytes("/proc/self/status", "VmHWM:");
        b->cut_rows = saved->rows;
        b->file_bytes = saved->bytes;
        b->phase = OVER;
        if (shard_thread_ask(b->shard, SHARD_MEASURED))
            bench_die("the shard's thread takes no letter");
    }
}

static void on_letter(void *arg, struct mail *m)
{
    struct bench *b = arg;
    if (m->type == SHARD_TELLS)
        on_tells(b, (enum frame_type)m->number, m->data);
    if (m->type != SHARD_MEASURED)
        return;
    b->facts = ((const struct shard_report *)m->data)->facts;
    b->counts = ((const struct shard_report *)m->data)->counts;
    loop_stop(&b->loop);
}

/* ---- all of it ---- */

static void enter(struct bench *b)
{
    const uint32_t threads = 2;
    struct tensor t = {.name = "w",
                       .rank = 1,
                       .shape = {PLAN_CHUNK_MIN_BYTES / sizeof(float)},
                       .init = INIT_ZEROS};
    struct errmsg e = {""};
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = generation();
    b->layout.rows = mem_zalloc(1, sizeof *b->layout.rows);
    b->layout.rows->lists = b->layout.rows->tables = 1;
    b->layout.rows->table[0] = (struct row_table_spec){.name = "t", .dim = DIM};
    if (layout_add(&b->layout, &t, &e) || msg_plan_set(&b->plan, &b->layout, &threads, 1))
        bench_die("no plan: %s", e.text);
    gradwire__settings__init(&b->settings);
    b->settings.update = GRADWIRE__UPDATE__ASYNC;
    b->settings.optimizer = OPT_ADAGRAD;
    b->settings.learning_rate = 0.01f;
    b->settings.initial_accumulator_value = 0.1f;
    b->settings.microbatches = 1;
    b->settings.batches_per_epoch = 1000;
    m.generation = &g;
    m.uuid = (char *)"bench";
    m.mode = GRADWIRE__ENTER_MODE__INIT;
    m.plan = &b->plan;
    m.settings = &b->settings;
    tell(b, FRAME_ENTER, &m.base);
}

static void report_span(const char *name, struct span *s, const struct bench *b)
{
    size_t n = s->pushes < SAMPLES_MAX ? s->pushes : SAMPLES_MAX;
    double seconds = s->ended_s - s->began_s;
    printf("\"%s\": {\"seconds\": %.3f, \"rows_per_s\": %.0f, \"answer_p50_ms\": %.3f, "
           "\"answer_p99_ms\": %.3f, \"answer_longest_ms\": %.3f}, ",
           name, seconds, (double)(s->pushes * b->batch_rows) / seconds,
           bench_quantile(s->took_s, n, 0.5) * 1e3, bench_quantile(s->took_s, n, 0.99) * 1e3,
           s->longest_s * 1e3);
}

static void report(struct bench *b)
{
    printf("{\"rows\": %lu, \"row_bytes\": %lu, \"skew\": %g, \"push_rows\": %lu, ",
           (unsigned long)b->cut_rows, (unsigned long)b->facts.state_bytes, b->skew,
           (unsigned long)b->batch_rows);
    report_span("before", &b->before, b);
    report_span("during", &b->during, b);
    printf("\"longest_copy_ms\": %.3f, \"longest_copy_cpu_ms\": %.3f, \"copy_s\": %.3f, "
           "\"copy_cpu_s\": %.3f, \"held_s\": %.3f, \"holds\": %lu, "
           "\"kept_rows\": %lu, \"kept_most_bytes\": %lu, \"beside_bytes\": %lu, "
           "\"file_bytes\": %lu, \"valid\": %s}\n",
           b->counts.longest_copy_s * 1e3, b->counts.longest_copy_cpu_s * 1e3, b->counts.copy_s,
           b->counts.copy_cpu_s, b->counts.held_s, (unsigned long)b->facts.holds,
           (unsigned long)b->facts.kept_rows, (unsigned long)b->facts.kept_most_bytes,
           (unsigned long)(b->rss_most > b->rss_before ? b->rss_most - b->rss_before : 0),
           (unsigned long)b->file_bytes, b->cut_rows == b->filled ? "true" : "false");
}

static void run(struct bench *b)
{
    static const struct fault no_fault;
    struct errmsg e = {""};
    if (loop_init(&b->loop) || mailbox_init(&b->in, &b->loop, on_letter, b))
        bench_die("no loop");
    if (shard_thread_new(&b->shard, 0, 1, b->output, NULL, &no_fault, &b->in, &e))
        bench_die("%s", e.text);
    enter(b);
    if (loop_run(&b->loop))
        bench_die("the loop failed");
    report(b);
    conn_close(b->conn, ERR_CLOSED, "over");
    shard_thread_free(b->shard);
    mailbox_close(&b->in);
    loop_close(&b->loop);
    msg_plan_close(&b->plan);
    layout_close(&b->layout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"mib", required_argument, NULL, 'm'},    {"seconds", required_argument, NULL, 's'},
        {"skew", required_argument, NULL, 'k'},   {"rows", required_argument, NULL, 'r'},
        {"output", required_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
    struct bench b = {.batch_rows = 8192, .seconds = 5, .skew = 4};
    uint64_t mib = 1024;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'm')
            mib = bench_number(optarg);
        else if (c == 's')
            b.seconds = (double)bench_number(optarg);
        else if (c == 'k')
            b.skew = (double)bench_number(optarg);
        else if (c == 'r')
            b.batch_rows = bench_number(optarg);
        else if (c == 'o')
            b.output = optarg;
        else
            return 1;
    }
    if (!b.output || mib == 0 || b.batch_rows == 0 || b.skew < 1)
        bench_die("cut_stalls [--mib N] [--seconds S] [--skew K] [--rows N] --output DIR");
    b.rows = (mib << 20) / ROW_BYTES / b.batch_rows * b.batch_rows;
    demand_memory(&b);
    b.key = bench_pages(b.batch_rows * sizeof *b.key);
    b.body = bench_pages(b.batch_rows * (sizeof *b.key + DIM * sizeof(float)) + ROW_PARTS * 16);
    b.before.took_s = bench_pages(SAMPLES_MAX * sizeof(double));
    b.during.took_s = bench_pages(SAMPLES_MAX * sizeof(double));
    run(&b);
    free(b.key);
    free(b.body);
    free(b.before.took_s);
    free(b.during.took_s);
    return 0;
}
