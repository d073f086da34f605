/* The cost of a step for a ps (ps/rows) as its table grows: the table has --rows rows of 16 floats with adagrad, and a step
 * reads BATCH_ROWS distinct ones, drawn uniformly from all of them, sets their old values aside, and updates them part by
 * part. The yardstick of rows.c does the same lookups and updates.
 *
 * full_table [--rows N] [--rounds R]
 *
 * Times are the thread's processor time, which others on the machine disturb less. `asked`, `touched` and their bytes come
 * from the ps's own counters for a step. The check: they are BATCH_ROWS a step. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/raw_rows.h"
#include "benchmarks/row_batches.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "ps/rows/row_tables.h"
#include "ps/rows/row_update.h"

enum { ROUNDS_MAX = 101, STEPS = 128, SEED = 1 };

static const struct optimizer ADAGRAD = {.kind = OPT_ADAGRAD,
                                         .learning_rate = 0.01F,
                                         .initial_accumulator_value = 0.1F,
                                         .epsilon = 1e-8F};

struct full {
    uint32_t rows;
    size_t rounds;
    struct row_layout layout;
    struct buffer_pool pool;
    struct row_tables tables;
    struct raw_rows raw;
    uint64_t *key; /* (STEPS, BATCH_ROWS): mixed, of each step ascending */
    float *g;      /* (BATCH_ROWS, RAW_DIM) */
    float *out;    /* an answer */
    uint64_t t;
};

/* ---- set up ---- */

static void build(struct full *f)
{
    const struct bucket_range all = {0, ROW_BUCKETS};
    f->layout.lists = f->layout.tables = 1;
    f->layout.table[0] = (struct row_table_spec){.name = "t", .dim = RAW_DIM};
    if (row_tables_init(&f->tables, &f->layout, all, &ADAGRAD, SEED, &f->pool))
        bench_die("out of memory");
    raw_rows_init(&f->raw, f->rows);
    for (uint64_t i = 0; i < f->rows; i++) {
        uint32_t row;
        if (row_table_add(f->tables.table[0], row_batch_key(i), &row))
            bench_die("out of memory at row %lu", (unsigned long)i);
        row_update_begin(f->tables.table[0], &ADAGRAD, row);
        row_set_stamp(f->tables.table[0], row, 0); /* all of its memory is in use */
        memset(raw_rows_add(&f->raw, row_batch_key(i), ADAGRAD.initial_accumulator_value), 0,
               RAW_DIM * sizeof(float));
    }
}

static void full_init(struct full *f)
{
    f->key = bench_pages((size_t)STEPS * BATCH_ROWS * sizeof *f->key);
    f->g = bench_pages(BATCH_ROWS * RAW_DIM * sizeof *f->g);
    f->out = bench_pages(BATCH_ROWS * (RAW_DIM + 1) * sizeof *f->out);
    for (size_t i = 0; i < BATCH_ROWS * RAW_DIM; i++)
        f->g[i] = rng_unit(SEED, i) - 0.5F;
    build(f);
    row_batches_draw(f->key, STEPS, f->rows, SEED);
}

static void full_close(struct full *f)
{
    raw_rows_close(&f->raw);
    row_tables_close(&f->tables);
    buffer_pool_close(&f->pool);
    free(f->out);
    free(f->g);
    free(f->key);
}

/* ---- a step ---- */

static void update_part(struct full *f, uint32_t part, const uint64_t *key, size_t first,
                        size_t end)
{
    const struct row_grads g = {
        .keys = {(uint32_t)(end - first)}, .mixed = {key + first}, .g = {f->g + first * RAW_DIM}};
    const struct row_step u = {.t = f->t, .inv_n = 1.0F, .clock = f->t, .aside = true};
    if (row_tables_update(&f->tables, part, &g, &u))
        bench_die("out of memory");
}

static void step(struct full *f, const uint64_t *key)
{
    const struct row_keys of = {.keys = {BATCH_ROWS}, .mixed = {key}};
    size_t first = 0;
    const struct row_clocks at = {.floor = 0}; /* no row goes */
    (void)row_tables_read(&f->tables, &of, (struct row_reading){.at = &at}, f->out);
    row_tables_forget_aside(&f->tables);
    f->t++;
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        size_t end = key_below(key, BATCH_ROWS, bucket_part(f->tables.buckets, part).end);
        update_part(f, part, key, first, end);
        first = end;
    }
}

static double steps_per_s(struct full *f)
{
    double start = bench_cpu_s();
    for (size_t i = 0; i < STEPS; i++)
        step(f, f->key + i * BATCH_ROWS);
    return STEPS / (bench_cpu_s() - start);
}

static double raw_steps_per_s(struct full *f)
{
    double start = bench_cpu_s();
    for (size_t i = 0; i < STEPS; i++) {
        raw_rows_lookup(&f->raw, f->key + i * BATCH_ROWS, BATCH_ROWS, f->out);
        raw_rows_update(&f->raw, f->key + i * BATCH_ROWS, BATCH_ROWS, f->g, ADAGRAD.learning_rate);
    }
    return STEPS / (bench_cpu_s() - start);
}

/* ---- the run ---- */

static void print_list(const char *name, const double *values, size_t n)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.3f", i ? "," : "", values[i]);
    printf("]");
}

static void full_run(struct full *f)
{
    double ours[ROUNDS_MAX], raw[ROUNDS_MAX];
    for (size_t i = 0; i < f->rounds; i++) {
        ours[i] = steps_per_s(f);
        raw[i] = raw_steps_per_s(f);
    }
    const struct row_traffic *traffic = &f->tables.traffic;
    uint64_t rows = f->t * BATCH_ROWS;
    bool valid = traffic->asked == rows && traffic->read == rows && traffic->touched == rows;
    printf("{\"rows\":%u,\"dim\":%d,\"seed\":%d", f->rows, RAW_DIM, SEED);
    print_list("steps_per_s", ours, f->rounds);
    print_list("raw_steps_per_s", raw, f->rounds);
    printf(",\"a_step\":{\"asked\":%lu,\"read_bytes\":%lu,\"touched\":%lu,\"touched_bytes\":%lu}",
           (unsigned long)(traffic->asked / f->t), (unsigned long)(traffic->read_bytes / f->t),
           (unsigned long)(traffic->touched / f->t),
           (unsigned long)(traffic->touched_bytes / f->t));
    printf(",\"valid\":%s}\n", valid ? "true" : "false");
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"rows", 1, NULL, 'n'}, {"rounds", 1, NULL, 'r'}, {0}};
    static struct full f = {.rows = 10000000, .rounds = 9};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'n')
            f.rows = (uint32_t)bench_number(optarg);
        else if (flag == 'r')
            f.rounds = bench_number(optarg);
        else
            exit(1);
    }
    if (f.rows < 2 * BATCH_ROWS || !f.rounds || f.rounds > ROUNDS_MAX)
        bench_die("--rows is at least %d, --rounds 1 to %d", 2 * BATCH_ROWS, ROUNDS_MAX);
    kernels_flush_denormals();
    full_init(&f);
    full_run(&f);
    full_close(&f);
    return 0;
}
