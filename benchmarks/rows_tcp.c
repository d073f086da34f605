/* Rows over loopback against a real ps process with one shard thread (one_ps.h), compared with the least work that memory
 * allows (raw_rows.c) in this process: pulls of BATCH_ROWS distinct rows of 16 floats, drawn uniformly from all of the table, and
 * adagrad pushes of as many, `window` batches in flight. Async; a batch's push is a frame of rows with their keys, and one of
 * the block that the plan must have.
 *
 * rows_tcp --ps PATH --job FILE [--rows N] [--rounds R] [--window W]
 *
 * The table is filled by pushes of zeros. A round is STEPS batches of pulls, as many of pushes, as many steps, and the same by
 * the yardstick, whose time is processor time. A step is a worker's exchange for a batch: its push, and the request for the
 * rows of a later batch in the same write; `a_step` has the ps's /metrics of it. Printed with the rate are rows a
 * second of the ps's own processor time, the rate that the clock would show if nothing else wanted its core. The check:
 * every row is there in every answer, a step has BATCH_ROWS rows by the ps, and both tables hold the same. */
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/one_ps.h"
#include "benchmarks/ps_rows.h"
#include "benchmarks/raw_rows.h"
#include "benchmarks/row_batches.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "common/math/optimizer.h"
#include "common/rows/row_layout.h"

enum {
    ROUNDS_MAX = 101,
    STEPS = 128,
    BLOCK = 16,
    WINDOW_MAX = 64,
    SEED = 1,
    DEADLINE_S = 560,
    ANSWER_MAX = BATCH_ROWS / 8 + BATCH_ROWS * RAW_DIM * sizeof(float),
};
#define RATE 0.01F
#define ACCUMULATOR 0.1F

enum phase { FILL, PULL, PUSH, STEP, CHECK };

struct body {
    uint8_t *at; /* (BATCH_BODY_MAX) */
    size_t bytes;
};

/* Million rows a second. */
struct rates {
    double tcp[ROUNDS_MAX], ps_cpu[ROUNDS_MAX], raw[ROUNDS_MAX];
};

struct rows_tcp {
    struct one_ps_options options;
    uint32_t rows;
    uint64_t rounds, window;
    struct one_ps ps;
    struct layout layout;
    struct raw_rows raw;
    uint64_t *key;           /* (STEPS, BATCH_ROWS): mixed, of each batch ascending */
    float *g, *out;          /* (BATCH_ROWS, RAW_DIM) */
    struct body push[STEPS]; /* of the batches */
    struct body fill[WINDOW_MAX];
    float block[BLOCK]; /* zeros: what every batch pushes of the block */
    uint8_t *answer;    /* (ANSWER_MAX) */

    enum phase phase;
    uint64_t round;
    uint64_t batches, sent, answered; /* of this phase */
    uint32_t replies;                 /* to the oldest batch in flight */
    uint64_t pushes, asks;            /* all that were sent */
    double start, cpu_start;
    struct rates pull, update, step;
    struct ps_rows before, a_step; /* the ps's counters, of the steps of a round */
    bool valid;
};

/* ---- batches ---- */

static uint64_t fill_batches(const struct rows_tcp *x)
{
    return ((uint64_t)x->rows + BATCH_ROWS - 1) / BATCH_ROWS;
}

static size_t fill_rows(const struct rows_tcp *x, uint64_t batch)
{
    uint64_t left = x->rows - batch * BATCH_ROWS;
    return left < BATCH_ROWS ? (size_t)left : BATCH_ROWS;
}

static const struct body *next_fill(struct rows_tcp *x)
{
    static uint64_t key[BATCH_ROWS];
    struct body *b = &x->fill[x->sent % x->window]; /* the batch before it there is answered */
    size_t n = fill_rows(x, x->sent);
    for (size_t i = 0; i < n; i++)
        key[i] = row_batch_key(x->sent * BATCH_ROWS + i);
    row_batch_sort(key, n);
    b->bytes = row_batch_body(b->at, key, n, NULL);
    return b;
}

/* ---- what goes out ---- */

static void send_push(struct rows_tcp *x, const struct body *b)
{
    Gradwire__Generation g = one_ps_generation();
    Gradwire__RowsPush rows = GRADWIRE__ROWS_PUSH__INIT;
    Gradwire__Push block = GRADWIRE__PUSH__INIT;
    rows.generation = block.generation = &g;
    rows.name = block.name = x->pushes++;
    rows.examples = block.examples = 1;
    rows.parts = ROW_PARTS;
    block.chunks = 1;
    block.ack_only = true;
    conn_cork(x->ps.link);
    one_ps_send(&x->ps, FRAME_PUSH, &block.base, x->block, sizeof x->block);
    one_ps_send(&x->ps, FRAME_ROWS_PUSH, &rows.base, b->at, b->bytes);
    conn_uncork(x->ps.link);
}

static void send_ask(struct rows_tcp *x, const uint64_t *key)
{
    Gradwire__Generation g = one_ps_generation();
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    uint32_t keys = BATCH_ROWS;
    m.generation = &g;
    m.number = ++x->asks;
    m.any = true;
    m.keys = &keys;
    m.n_keys = 1;
    one_ps_send(&x->ps, FRAME_ROWS_ASK, &m.base, key, BATCH_ROWS * sizeof *key);
}

/* As a worker: the push of a batch, and the ask for the rows of its next one, in one write. */
static void send_step(struct rows_tcp *x, uint64_t batch)
{
    conn_cork(x->ps.link);
    send_push(x, &x->push[batch]);
    send_ask(x, x->key + (batch + x->window) % STEPS * BATCH_ROWS);
    conn_uncork(x->ps.link);
}

static void send_batch(struct rows_tcp *x)
{
    uint64_t batch = x->sent % STEPS;
    if (x->phase == FILL)
        send_push(x, next_fill(x));
    else if (x->phase == PUSH)
        send_push(x, &x->push[batch]);
    else if (x->phase == STEP)
        send_step(x, batch);
    else
        send_ask(x, x->key + batch * BATCH_ROWS);
    x->sent++;
}

static void phase_begin(struct rows_tcp *x, enum phase phase, uint64_t batches)
{
    x->phase = phase;
    x->batches = batches;
    x->sent = x->answered = 0;
    x->cpu_start = one_ps_cpu_s(&x->ps);
    x->start = clock_now_s();
    while (x->sent < x->window && x->sent < batches)
        send_batch(x);
}

/* ---- the yardstick ---- */

static const double MROWS = STEPS * BATCH_ROWS / 1e6; /* of a phase */

static double raw_lookups_s(struct rows_tcp *x)
{
    double start = bench_cpu_s();
    for (size_t i = 0; i < STEPS; i++)
        raw_rows_lookup(&x->raw, x->key + i * BATCH_ROWS, BATCH_ROWS, x->out);
    return bench_cpu_s() - start;
}

static double raw_updates_s(struct rows_tcp *x)
{
    double start = bench_cpu_s();
    for (size_t i = 0; i < STEPS; i++)
        raw_rows_update(&x->raw, x->key + i * BATCH_ROWS, BATCH_ROWS, x->g, RATE);
    return bench_cpu_s() - start;
}

/* As many updates as the ps had, and a check of both sides at the end. */
static void measure_raw(struct rows_tcp *x)
{
    double lookups_s = raw_lookups_s(x);
    x->pull.raw[x->round] = MROWS / lookups_s;
    x->update.raw[x->round] = MROWS / raw_updates_s(x);
    x->step.raw[x->round] = MROWS / (lookups_s + raw_updates_s(x));
}

/* ---- what the ps counts ---- */

static struct ps_rows counted(const struct rows_tcp *x)
{
    uint64_t fills = fill_batches(x), updates = x->pushes - fills;
    return ps_rows_of(&x->ps, x->asks * BATCH_ROWS, x->rows + updates * BATCH_ROWS);
}

/* In the last round alone: the ps's page is slow. The check: all rows are there. */
static bool counts_steps(const struct rows_tcp *x)
{
    return x->round + 1 == x->rounds;
}

static void count_steps(struct rows_tcp *x)
{
    const struct ps_rows now = counted(x);
    x->a_step = ps_rows_a_step(&now, &x->before, STEPS);
    x->valid = x->valid && x->a_step.asked == BATCH_ROWS && x->a_step.read == BATCH_ROWS &&
               x->a_step.touched == BATCH_ROWS;
}

/* ---- what comes in ---- */

static void note(struct rows_tcp *x, struct rates *r)
{
    r->tcp[x->round] = MROWS / (clock_now_s() - x->start);
    r->ps_cpu[x->round] = MROWS / (one_ps_cpu_s(&x->ps) - x->cpu_start);
}

/* Nothing is in flight. */
static void phase_over(struct rows_tcp *x)
{
    switch (x->phase) {
    case PULL:
        note(x, &x->pull);
        phase_begin(x, PUSH, STEPS);
        return;
    case PUSH:
        note(x, &x->update);
        if (counts_steps(x))
            x->before = counted(x);
        phase_begin(x, STEP, STEPS);
        return;
    case STEP:
        note(x, &x->step);
        if (counts_steps(x))
            count_steps(x);
        measure_raw(x);
        x->round++;
        break;
    case CHECK:
        one_ps_done(&x->ps);
        return;
    case FILL:
        break;
    }
    phase_begin(x, x->round < x->rounds ? PULL : CHECK, STEPS);
}

static void batch_answered(struct rows_tcp *x)
{
    x->replies = 0;
    x->answered++;
    if (x->sent < x->batches)
        send_batch(x);
    else if (x->answered == x->batches)
        phase_over(x);
}

static bool near(float a, float b)
{
    return fabsf(a - b) <= 1e-4F * (1.0F + fabsf(b));
}

static void check_answer(struct rows_tcp *x)
{
    const float *w = (const float *)(const void *)(x->answer + BATCH_ROWS / 8);
    raw_rows_lookup(&x->raw, x->key + x->answered * BATCH_ROWS, BATCH_ROWS, x->out);
    for (size_t i = 0; i < BATCH_ROWS * RAW_DIM; i++)
        x->valid = x->valid && near(w[i], x->out[i]);
}

static enum err fits(void *owner, const struct frame *f, const ProtobufCMessage *m)
{
    (void)owner, (void)m;
    if (f->type == FRAME_ROWS && f->body_bytes != ANSWER_MAX)
        bench_die("an answer has %lu bytes of rows: %d are wanted, all are there",
                  (unsigned long)f->body_bytes, ANSWER_MAX);
    return f->type == FRAME_REPLY && f->body_bytes ? ERR_PROTO : ERR_OK;
}

static enum err space(void *owner, const ProtobufCMessage *m, uint64_t at, uint64_t left, void **p,
                      size_t *bytes)
{
    struct rows_tcp *x = owner;
    (void)m;
    *p = x->answer + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

static void check_reply(const Gradwire__Reply *m)
{
    if (m->outcome != GRADWIRE__OUTCOME__APPLIED || (m->parts != ROW_PARTS && m->chunks != 1))
        bench_die("a push is not applied");
}

/* To a batch: a push's block and its rows are answered each by itself. */
static uint32_t answers_of(enum phase phase)
{
    return phase == STEP ? 3 : phase == PUSH || phase == FILL ? 2 : 1;
}

static void answer(void *owner, enum frame_type type, const ProtobufCMessage *m)
{
    struct rows_tcp *x = owner;
    bool pulls = x->phase == PULL || x->phase == CHECK;
    if (x->phase != STEP && pulls != (type == FRAME_ROWS))
        bench_die("%s was not asked for", frame_type_str((uint16_t)type));
    if (x->phase == CHECK)
        check_answer(x);
    if (type != FRAME_ROWS)
        check_reply((const Gradwire__Reply *)m);
    if (++x->replies == answers_of(x->phase))
        batch_answered(x);
}

static void joined(void *owner)
{
    struct rows_tcp *x = owner;
    phase_begin(x, FILL, fill_batches(x));
}

static const struct one_ps_ops OPS = {
    .joined = joined, .fits = fits, .space = space, .answer = answer};

/* ---- the process ---- */

/* Both tables, the ps's while it grows, and 2 GiB for all others. */
static void demand_memory(const struct rows_tcp *x)
{
    uint64_t payload = (uint64_t)x->rows * (sizeof(uint64_t) + sizeof(float) * RAW_DIM * 2);
    uint64_t needed = payload / 10 * 28 + (UINT64_C(2) << 30);
    uint64_t there = bench_proc_bytes("/proc/meminfo", "MemAvailable:");
    if (there < needed)
        bench_die("%u rows need %.1f GiB of free memory, and %.1f GiB are free; give fewer --rows",
                  x->rows, (double)needed / 0x1p30, (double)there / 0x1p30);
}

static void make_layout(struct layout *l)
{
    const struct tensor t = {.name = "w", .rank = 1, .shape = {BLOCK}, .init = INIT_ZEROS};
    struct errmsg e;
    l->rows = mem_zalloc(1, sizeof *l->rows);
    if (!l->rows)
        bench_die("out of memory");
    l->rows->lists = l->rows->tables = 1;
    l->rows->table[0] = (struct row_table_spec){.name = "t", .dim = RAW_DIM, .init = INIT_ZEROS};
    if (layout_add(l, &t, &e))
        bench_die("%s", e.text);
}

static void make_batches(struct rows_tcp *x)
{
    x->key = bench_pages((size_t)STEPS * BATCH_ROWS * sizeof *x->key);
    x->g = bench_pages(BATCH_ROWS * RAW_DIM * sizeof *x->g);
    x->out = bench_pages(BATCH_ROWS * RAW_DIM * sizeof *x->out);
    x->answer = bench_pages(ANSWER_MAX);
    for (size_t i = 0; i < BATCH_ROWS * RAW_DIM; i++)
        x->g[i] = rng_unit(SEED, i) - 0.5F;
    row_batches_draw(x->key, STEPS, x->rows, SEED);
    for (size_t i = 0; i < STEPS; i++) {
        const uint64_t *key = x->key + i * BATCH_ROWS;
        x->push[i].at = bench_pages(BATCH_BODY_MAX);
        x->push[i].bytes = row_batch_body(x->push[i].at, key, BATCH_ROWS, x->g);
    }
    for (size_t i = 0; i < x->window; i++)
        x->fill[i].at = bench_pages(BATCH_BODY_MAX);
}

static void make_yardstick(struct rows_tcp *x)
{
    raw_rows_init(&x->raw, x->rows);
    for (uint64_t i = 0; i < x->rows; i++)
        memset(raw_rows_add(&x->raw, row_batch_key(i), ACCUMULATOR), 0, RAW_DIM * sizeof(float));
}

static void rows_tcp_init(struct rows_tcp *x)
{
    make_layout(&x->layout);
    make_batches(x);
    make_yardstick(x);
    one_ps_init(&x->ps, &x->options, &OPS, x, &x->layout);
    x->ps.settings.optimizer = OPT_ADAGRAD;
    x->ps.settings.learning_rate = RATE;
    x->ps.settings.initial_accumulator_value = ACCUMULATOR;
    x->ps.settings.epsilon = 1e-8F;
    x->ps.settings.seed = SEED;
    x->valid = true;
}

static void rows_tcp_close(struct rows_tcp *x)
{
    one_ps_close(&x->ps);
    raw_rows_close(&x->raw);
    for (size_t i = 0; i < x->window; i++)
        free(x->fill[i].at);
    for (size_t i = 0; i < STEPS; i++)
        free(x->push[i].at);
    free(x->answer);
    free(x->out);
    free(x->g);
    free(x->key);
    layout_close(&x->layout);
}

static void print_list(const char *what, const char *whose, const double *values, size_t n)
{
    printf(",\"%s%s_mrows_per_s\":[", what, whose);
    for (size_t i = 0; i < n; i++)
        printf("%s%.4f", i ? "," : "", values[i]);
    printf("]");
}

static void print_rates(const char *what, const struct rates *r, size_t n)
{
    print_list(what, "", r->tcp, n);
    print_list(what, "_ps_cpu", r->ps_cpu, n);
    print_list(what, "_raw", r->raw, n);
}

static void print_a_step(const struct ps_rows *s)
{
    printf(",\"a_step\":{\"asked\":%lu,\"read\":%lu,\"read_bytes\":%lu,\"touched\":%lu,\"touched_"
           "bytes\":%lu}",
           (unsigned long)s->asked, (unsigned long)s->read, (unsigned long)s->read_bytes,
           (unsigned long)s->touched, (unsigned long)s->touched_bytes);
}

static void options_parse(struct rows_tcp *x, int argc, char **argv)
{
    static const struct option known[] = {{"ps", 1, NULL, 'p'},     {"job", 1, NULL, 'j'},
                                          {"rows", 1, NULL, 'n'},   {"rounds", 1, NULL, 'r'},
                                          {"window", 1, NULL, 'w'}, {NULL, 0, NULL, 0}};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'p')
            x->options.ps = optarg;
        else if (flag == 'j')
            x->options.job = optarg;
        else if (flag == 'n')
            x->rows = (uint32_t)bench_number(optarg);
        else if (flag == 'r')
            x->rounds = bench_number(optarg);
        else if (flag == 'w')
            x->window = bench_number(optarg);
        else
            exit(1);
    }
    if (!x->options.ps || !x->options.job)
        bench_die("--ps and --job are wanted");
    if (x->rows < 2 * BATCH_ROWS || !x->rounds || x->rounds > ROUNDS_MAX || !x->window ||
        x->window > WINDOW_MAX)
        bench_die("--rows is at least %d, --rounds 1 to %d, --window 1 to %d", 2 * BATCH_ROWS,
                  ROUNDS_MAX, WINDOW_MAX);
}

int main(int argc, char **argv)
{
    static struct rows_tcp x = {
        .options = {.deadline_s = DEADLINE_S}, .rows = 10000000, .rounds = 9, .window = 4};
    options_parse(&x, argc, argv);
    log_init("bench", LOG_WARN);
    kernels_flush_denormals();
    demand_memory(&x);
    rows_tcp_init(&x);
    one_ps_run(&x.ps);
    printf("{\"rows\":%u,\"dim\":%d,\"seed\":%d,\"window\":%lu,\"batch_rows\":%d", x.rows, RAW_DIM,
           SEED, (unsigned long)x.window, BATCH_ROWS);
    print_rates("pull", &x.pull, x.rounds);
    print_rates("push", &x.update, x.rounds);
    print_rates("step", &x.step, x.rounds);
    print_a_step(&x.a_step);
    printf(",\"valid\":%s}\n", x.valid ? "true" : "false");
    rows_tcp_close(&x);
    return 0;
}
