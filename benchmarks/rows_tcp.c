/* Rows over loopback against a real ps process with one shard thread (one_ps.h), beside the least that memory asks for
 * (raw_rows.c) in this process: pulls of STEP_ROWS distinct rows of 16 floats, drawn uniformly from all of the table, and
 * adagrad pushes of as many, `window` batches in flight. Async; a batch's push is a frame of rows with their keys, and one of
 * the block that the plan must have.
 *
 * rows_tcp --ps PATH --job FILE [--rows N] [--rounds R] [--window W]
 *
 * The table is filled by pushes of zeros. A round is STEPS batches of pulls, as many of pushes, and the same by the yardstick,
 * whose time is processor time. Told beside the rate are rows a second of the ps's own processor time, which is what the clock
 * would show if nothing else wanted its core. The check: every row is there in every answer, and both tables hold the same. */
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/one_ps.h"
#include "benchmarks/raw_rows.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "common/math/optimizer.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

enum {
    ROUNDS_MAX = 101,
    STEPS = 128,
    STEP_ROWS = 8192,
    BLOCK = 16,
    WINDOW_MAX = 64,
    SEED = 1,
    DEADLINE_S = 560,
    ROW_BYTES = sizeof(uint64_t) + RAW_DIM * sizeof(float),
    PART_HEAD_BYTES = 8,
    BODY_MAX = ROW_PARTS * PART_HEAD_BYTES + STEP_ROWS * ROW_BYTES,
    ANSWER_MAX = STEP_ROWS / 8 + STEP_ROWS * RAW_DIM * sizeof(float),
};
#define RATE 0.01F
#define ACCUMULATOR 0.1F

enum phase { FILL, PULL, PUSH, CHECK };

struct body {
    uint8_t *at; /* (BODY_MAX) */
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
    uint64_t *key;           /* (STEPS, STEP_ROWS): mixed, of each batch ascending */
    float *g, *out;          /* (STEP_ROWS, RAW_DIM) */
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
    struct rates pull, update;
    bool valid;
};

/* ---- batches ---- */

static uint64_t key_of(uint64_t row)
{
    return key_mix(row + 1); /* 0 is no key of the yardstick */
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void draw_batch(const struct rows_tcp *x, uint8_t *taken, uint64_t *at, uint64_t *key)
{
    memset(taken, 0, x->rows);
    for (size_t n = 0; n < STEP_ROWS;) {
        uint64_t row = rng_u64(rng_key(SEED, RNG_TEST, 0, 0), (*at)++) % x->rows;
        if (!taken[row])
            key[n++] = key_of(row);
        taken[row] = 1;
    }
    qsort(key, STEP_ROWS, sizeof *key, ascending);
}

/* The sections of all parts. g NULL: zeros. */
static void fill_body(struct body *b, const uint64_t *key, size_t n, const float *g)
{
    const struct bucket_range all = {0, ROW_BUCKETS};
    uint8_t *to = b->at;
    size_t first = 0;
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        size_t end = key_below(key, n, bucket_part(all, part).end);
        uint32_t head[2] = {(uint32_t)(end - first), 0};
        size_t keys = head[0] * sizeof *key, values = head[0] * RAW_DIM * sizeof *g;
        memcpy(to, head, sizeof head);
        memcpy(to + sizeof head, key + first, keys);
        if (g)
            memcpy(to + sizeof head + keys, g + first * RAW_DIM, values);
        else
            memset(to + sizeof head + keys, 0, values);
        to += sizeof head + keys + values;
        first = end;
    }
    b->bytes = (size_t)(to - b->at);
}

static size_t fill_rows(const struct rows_tcp *x, uint64_t batch)
{
    uint64_t left = x->rows - batch * STEP_ROWS;
    return left < STEP_ROWS ? (size_t)left : STEP_ROWS;
}

static const struct body *next_fill(struct rows_tcp *x)
{
    static uint64_t key[STEP_ROWS];
    struct body *b = &x->fill[x->sent % x->window]; /* the batch before it there is answered */
    size_t n = fill_rows(x, x->sent);
    for (size_t i = 0; i < n; i++)
        key[i] = key_of(x->sent * STEP_ROWS + i);
    qsort(key, n, sizeof *key, ascending);
    fill_body(b, key, n, NULL);
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
    uint32_t keys = STEP_ROWS;
    m.generation = &g;
    m.number = ++x->asks;
    m.any = true;
    m.keys = &keys;
    m.n_keys = 1;
    one_ps_send(&x->ps, FRAME_ROWS_ASK, &m.base, key, STEP_ROWS * sizeof *key);
}

static void send_batch(struct rows_tcp *x)
{
    uint64_t batch = x->sent % STEPS;
    if (x->phase == FILL)
        send_push(x, next_fill(x));
    else if (x->phase == PUSH)
        send_push(x, &x->push[batch]);
    else
        send_ask(x, x->key + batch * STEP_ROWS);
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

static const double MROWS = STEPS * STEP_ROWS / 1e6; /* of a phase */

static void measure_raw(struct rows_tcp *x)
{
    double start = bench_cpu_s();
    for (size_t i = 0; i < STEPS; i++)
        raw_rows_lookup(&x->raw, x->key + i * STEP_ROWS, STEP_ROWS, x->out);
    double between = bench_cpu_s();
    for (size_t i = 0; i < STEPS; i++)
        raw_rows_update(&x->raw, x->key + i * STEP_ROWS, STEP_ROWS, x->g, RATE);
    x->pull.raw[x->round] = MROWS / (between - start);
    x->update.raw[x->round] = MROWS / (bench_cpu_s() - between);
}

/* ---- what comes in ---- */

static void note(struct rows_tcp *x, struct rates *r)
{
    r->tcp[x->round] = MROWS / (clock_now_s() - x->start);
    r->ps_cpu[x->round] = MROWS / (one_ps_cpu_s(&x->ps) - x->cpu_start);
}

static void phase_over(struct rows_tcp *x)
{
    if (x->phase == PULL)
        note(x, &x->pull);
    if (x->phase == PUSH) {
        note(x, &x->update);
        measure_raw(x);
        x->round++;
    }
    if (x->phase == CHECK)
        one_ps_done(&x->ps);
    else if (x->phase == PULL)
        phase_begin(x, PUSH, STEPS);
    else
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
    const float *w = (const float *)(const void *)(x->answer + STEP_ROWS / 8);
    raw_rows_lookup(&x->raw, x->key + x->answered * STEP_ROWS, STEP_ROWS, x->out);
    for (size_t i = 0; i < STEP_ROWS * RAW_DIM; i++)
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

static void on_reply(struct rows_tcp *x, const Gradwire__Reply *m)
{
    if (m->outcome != GRADWIRE__OUTCOME__APPLIED || (m->parts != ROW_PARTS && m->chunks != 1))
        bench_die("a push is not applied");
    if (++x->replies == 2) /* to the block and to the rows */
        batch_answered(x);
}

static void answer(void *owner, enum frame_type type, const ProtobufCMessage *m)
{
    struct rows_tcp *x = owner;
    bool pulls = x->phase == PULL || x->phase == CHECK;
    if (pulls != (type == FRAME_ROWS))
        bench_die("%s was not asked for", frame_type_str((uint16_t)type));
    if (x->phase == CHECK)
        check_answer(x);
    if (pulls)
        batch_answered(x);
    else
        on_reply(x, (const Gradwire__Reply *)m);
}

static void joined(void *owner)
{
    struct rows_tcp *x = owner;
    phase_begin(x, FILL, (x->rows + STEP_ROWS - 1) / STEP_ROWS);
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
    uint8_t *taken = bench_pages(x->rows);
    uint64_t at = 0;
    x->key = bench_pages((size_t)STEPS * STEP_ROWS * sizeof *x->key);
    x->g = bench_pages(STEP_ROWS * RAW_DIM * sizeof *x->g);
    x->out = bench_pages(STEP_ROWS * RAW_DIM * sizeof *x->out);
    x->answer = bench_pages(ANSWER_MAX);
    for (size_t i = 0; i < STEP_ROWS * RAW_DIM; i++)
        x->g[i] = rng_unit(SEED, i) - 0.5F;
    for (size_t i = 0; i < STEPS; i++) {
        uint64_t *key = x->key + i * STEP_ROWS;
        draw_batch(x, taken, &at, key);
        x->push[i].at = bench_pages(BODY_MAX);
        fill_body(&x->push[i], key, STEP_ROWS, x->g);
    }
    for (size_t i = 0; i < x->window; i++)
        x->fill[i].at = bench_pages(BODY_MAX);
    free(taken);
}

static void make_yardstick(struct rows_tcp *x)
{
    raw_rows_init(&x->raw, x->rows);
    for (uint64_t i = 0; i < x->rows; i++)
        memset(raw_rows_add(&x->raw, key_of(i), ACCUMULATOR), 0, RAW_DIM * sizeof(float));
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
    if (x->rows < 2 * STEP_ROWS || !x->rounds || x->rounds > ROUNDS_MAX || !x->window ||
        x->window > WINDOW_MAX)
        bench_die("--rows is at least %d, --rounds 1 to %d, --window 1 to %d", 2 * STEP_ROWS,
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
           SEED, (unsigned long)x.window, STEP_ROWS);
    print_rates("pull", &x.pull, x.rounds);
    print_rates("push", &x.update, x.rounds);
    printf(",\"valid\":%s}\n", x.valid ? "true" : "false");
    rows_tcp_close(&x);
    return 0;
}
