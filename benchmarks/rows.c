/* A ps's table of rows (ps/rows) compared with the least work that memory allows: lookups, which copy the weights out, and
 * adagrad updates of rows of 16 floats, by random keys that exist, on one thread. The yardstick is raw_rows.c.
 *
 * rows [--rows N] [--rounds R] [--alone]
 *
 * `peak_bytes` is the most memory that the process took while the table grew (VmHWM), without its memory before;
 * `longest_add_us` the longest time that it took to add a row. --alone: no yardstick, no rounds; it is refused
 * without the memory for it. The check: the looked-up weights, and the contents of both tables after the same updates. */
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/raw_rows.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "ps/rows/row_update.h"

enum { ROUNDS_MAX = 101, QUERIES = 1 << 20, BLOCK = 4096, SEED = 1, SAMPLES = 1000 };

static const struct optimizer ADAGRAD = {.kind = OPT_ADAGRAD,
                                         .learning_rate = 0.01F,
                                         .initial_accumulator_value = 0.1F,
                                         .epsilon = 1e-8F};

struct rows {
    uint32_t rows;
    size_t rounds;
    bool alone;
    uint64_t *key; /* (QUERIES): of random rows */
    float *out;    /* (QUERIES, RAW_DIM) */
    float *g;
    struct row_table *table;
    struct raw_rows raw;
    uint64_t t, before_bytes, peak_bytes;
    double longest_add_s;
};

static uint64_t key_of(uint64_t row)
{
    return rng_u64(rng_key(SEED, RNG_TEST, 0, 0), row) | 1; /* 0 is no key of the yardstick */
}

static uint64_t row_of_query(const struct rows *r, uint64_t query)
{
    return rng_u64(rng_key(SEED, RNG_TEST, 1, 0), query) % r->rows;
}

static float weight_of(uint64_t row)
{
    return (float)(row % 1000);
}

/* ---- memory ---- */

static uint64_t peak_bytes(void)
{
    return bench_proc_bytes("/proc/self/status", "VmHWM:");
}

/* The most that the rows may take, and 2 GiB for all others. */
static void demand_memory(const struct rows *r)
{
    uint64_t needed =
        (uint64_t)r->rows * (sizeof(uint64_t) + sizeof(float) * RAW_DIM * 2) / 10 * 13 +
        (UINT64_C(2) << 30);
    uint64_t there = bench_proc_bytes("/proc/meminfo", "MemAvailable:");
    if (there < needed)
        bench_die("%u rows need %.1f GiB of free memory, and %.1f GiB are free; give fewer --rows",
                  r->rows, (double)needed / 0x1p30, (double)there / 0x1p30);
}

/* ---- both tables ---- */

static void add_row(struct rows *r, uint64_t i)
{
    uint32_t row;
    double start = clock_now_s();
    if (row_table_add(r->table, key_of(i), &row))
        bench_die("out of memory at row %lu", (unsigned long)i);
    double took = clock_now_s() - start;
    if (took > r->longest_add_s)
        r->longest_add_s = took;
    row_update_begin(r->table, &ADAGRAD, row);
    row_set_stamp(r->table, row, 1); /* all of its memory is in use */
    for (uint32_t d = 0; d < RAW_DIM; d++)
        row_weights(r->table, row)[d] = weight_of(i);
}

static void build(struct rows *r)
{
    r->before_bytes = peak_bytes();
    if (row_table_new(&r->table, RAW_DIM, row_update_slot_floats(&ADAGRAD, RAW_DIM),
                      (struct bucket_range){0, ROW_BUCKETS}))
        bench_die("out of memory");
    for (uint64_t i = 0; i < r->rows; i++)
        add_row(r, i);
    r->peak_bytes = peak_bytes() - r->before_bytes;
}

static void build_yardstick(struct rows *r)
{
    raw_rows_init(&r->raw, r->rows);
    for (uint64_t i = 0; i < r->rows; i++) {
        float *w = raw_rows_add(&r->raw, key_of(i), ADAGRAD.initial_accumulator_value);
        for (uint32_t d = 0; d < RAW_DIM; d++)
            w[d] = weight_of(i);
    }
}

static void rows_init(struct rows *r)
{
    r->key = bench_pages(QUERIES * sizeof *r->key);
    r->out = bench_pages(QUERIES * RAW_DIM * sizeof *r->out);
    r->g = bench_pages(QUERIES * RAW_DIM * sizeof *r->g);
    for (size_t i = 0; i < QUERIES; i++)
        r->key[i] = key_of(row_of_query(r, i));
    for (size_t i = 0; i < (size_t)QUERIES * RAW_DIM; i++)
        r->g[i] = rng_unit(SEED, i) - 0.5F;
    build(r);
    if (!r->alone)
        build_yardstick(r);
}

static void rows_close(struct rows *r)
{
    if (!r->alone)
        raw_rows_close(&r->raw);
    row_table_free(r->table);
    free(r->g);
    free(r->out);
    free(r->key);
}

/* ---- what is measured: million rows a second of processor time ---- */

static double lookup(struct rows *r)
{
    uint32_t row[BLOCK];
    double start = bench_cpu_s();
    for (size_t i = 0; i < QUERIES; i += BLOCK) {
        (void)row_table_find(r->table, r->key + i, BLOCK, row);
        row_table_gather(r->table, row, BLOCK, r->out + i * RAW_DIM);
    }
    return QUERIES / (bench_cpu_s() - start) / 1e6;
}

static double lookup_yardstick(struct rows *r)
{
    double start = bench_cpu_s();
    raw_rows_lookup(&r->raw, r->key, QUERIES, r->out);
    return QUERIES / (bench_cpu_s() - start) / 1e6;
}

static double update(struct rows *r)
{
    uint32_t row[BLOCK];
    double start = bench_cpu_s();
    r->t++;
    for (size_t i = 0; i < QUERIES; i += BLOCK) {
        const struct row_update u = {.t = r->t, .inv_n = 1.0F, .scale = 1.0F, .stamp = r->t};
        (void)row_table_find(r->table, r->key + i, BLOCK, row);
        row_update_apply(r->table, &ADAGRAD, &u, row, BLOCK, r->g + i * RAW_DIM);
    }
    return QUERIES / (bench_cpu_s() - start) / 1e6;
}

static double update_yardstick(struct rows *r)
{
    double start = bench_cpu_s();
    raw_rows_update(&r->raw, r->key, QUERIES, r->g, ADAGRAD.learning_rate);
    return QUERIES / (bench_cpu_s() - start) / 1e6;
}

/* ---- the check ---- */

static bool looked_up_are_first_values(struct rows *r)
{
    memset(r->out, 0, QUERIES * RAW_DIM * sizeof *r->out);
    (void)lookup(r);
    for (size_t i = 0; i < QUERIES; i++)
        for (uint32_t d = 0; d < RAW_DIM; d++)
            if (r->out[i * RAW_DIM + d] != weight_of(row_of_query(r, i)))
                return false;
    return true;
}

static bool near(float a, float b)
{
    return fabsf(a - b) <= 1e-4F * (1.0F + fabsf(b));
}

static bool both_hold_the_same(struct rows *r)
{
    float ours[RAW_DIM], theirs[RAW_DIM];
    uint32_t row;
    for (size_t i = 0; i < QUERIES; i += QUERIES / SAMPLES) {
        if (row_table_find(r->table, r->key + i, 1, &row) != 1)
            return false;
        row_table_gather(r->table, &row, 1, ours);
        raw_rows_lookup(&r->raw, r->key + i, 1, theirs);
        for (uint32_t d = 0; d < RAW_DIM; d++)
            if (!near(ours[d], theirs[d]))
                return false;
    }
    return row_table_rows(r->table) == r->rows;
}

/* ---- the run ---- */

static void print_list(const char *name, const double *values, size_t n)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.4f", i ? "," : "", values[i]);
    printf("]");
}

static bool rows_measure(struct rows *r)
{
    double ours[2][ROUNDS_MAX], raw[2][ROUNDS_MAX];
    (void)lookup_yardstick(r);
    for (size_t i = 0; i < r->rounds; i++) {
        ours[0][i] = lookup(r);
        raw[0][i] = lookup_yardstick(r);
        ours[1][i] = update(r);
        raw[1][i] = update_yardstick(r);
    }
    print_list("lookup_mrows_per_s", ours[0], r->rounds);
    print_list("lookup_raw_mrows_per_s", raw[0], r->rounds);
    print_list("update_mrows_per_s", ours[1], r->rounds);
    print_list("update_raw_mrows_per_s", raw[1], r->rounds);
    return both_hold_the_same(r);
}

static void rows_run(struct rows *r)
{
    uint64_t payload = row_table_payload_bytes(r->table);
    bool valid = looked_up_are_first_values(r);
    printf("{\"rows\":%u,\"dim\":%d,\"seed\":%d", r->rows, RAW_DIM, SEED);
    if (!r->alone)
        valid = rows_measure(r) && valid;
    printf(",\"payload_bytes\":%lu,\"peak_bytes\":%lu,\"peak_to_payload\":%.3f",
           (unsigned long)payload, (unsigned long)r->peak_bytes,
           (double)r->peak_bytes / (double)payload);
    printf(",\"longest_add_us\":%.1f,\"valid\":%s}\n", r->longest_add_s * 1e6,
           valid ? "true" : "false");
}

static struct rows options_parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"rows", 1, NULL, 'n'}, {"rounds", 1, NULL, 'r'}, {"alone", 0, NULL, 'a'}, {0}};
    struct rows r = {.rows = 10000000, .rounds = 9};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'n')
            r.rows = (uint32_t)bench_number(optarg);
        else if (flag == 'r')
            r.rounds = bench_number(optarg);
        else if (flag == 'a')
            r.alone = true;
        else
            exit(1);
    }
    if (!r.rows || !r.rounds || r.rounds > ROUNDS_MAX)
        bench_die("--rows is at least 1, --rounds 1 to %d", ROUNDS_MAX);
    return r;
}

int main(int argc, char **argv)
{
    struct rows r = options_parse(argc, argv);
    kernels_flush_denormals();
    demand_memory(&r);
    rows_init(&r);
    rows_run(&r);
    rows_close(&r);
    return 0;
}
