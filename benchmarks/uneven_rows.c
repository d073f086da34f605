/* A ps's table (ps/rows) whose rows are not as a table grows them, compared with as many rows that are spread: lookups of
 * random keys, which copy the weights out, and a cut of all buckets, as a checkpoint takes it. One thread.
 *
 * uneven_rows --left N [--of T] | --bucket N [--rounds R]
 *
 * --left: N rows are left of T times as many (10). --bucket: the keys of all N rows are of one bucket. The check:
 * each key is found, and the cut has each row, in order. `grown_bytes` and `left_bytes` are the resident memory of
 * the table before and after the others went. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "benchmarks/bench.h"
#include "common/base/rng.h"
#include "ps/rows/row_cut.h"

enum { ROUNDS_MAX = 101, QUERIES = 1 << 20, BLOCK = 4096, DIM = 16, SLOTS = 16, SEED = 1 };

struct uneven {
    uint64_t rows, of;
    size_t rounds;
    bool one_bucket;
    uint64_t grown_bytes, left_bytes;
    struct row_table *ours, *spread;
    uint64_t *key; /* (QUERIES) */
    float *out;    /* (BLOCK, DIM) */
    bool valid;
};

static uint64_t spread_key(uint64_t row)
{
    return rng_u64(rng_key(SEED, RNG_TEST, 0, 0), row);
}

static uint64_t our_key(const struct uneven *u, uint64_t row)
{
    uint64_t bucket = row_bucket_first(ROW_BUCKETS / 2);
    return u->one_bucket ? bucket | spread_key(row) >> ROW_BUCKET_BITS : spread_key(row);
}

static struct row_table *new_table(void)
{
    struct row_table *t;
    if (row_table_new(&t, DIM, SLOTS, (struct bucket_range){0, ROW_BUCKETS}))
        bench_die("out of memory");
    return t;
}

static void add(struct row_table *t, uint64_t key)
{
    uint32_t row;
    if (row_table_add(t, key, &row))
        bench_die("out of memory");
    row_set_stamp(t, row, 1);
    row_weights(t, row)[0] = 1;
}

static uint64_t resident_bytes(void)
{
    return bench_proc_bytes("/proc/self/status", "VmRSS:");
}

/* A ps packs its tables with each step. */
static void pack(struct row_table *t)
{
    do
        row_table_pack(t, false);
    while (t->pack.limit != ROW_NONE);
}

static void build(struct uneven *u)
{
    uint64_t all = u->of * u->rows, before = resident_bytes();
    u->ours = new_table();
    for (uint64_t i = 0; i < all; i++)
        add(u->ours, our_key(u, i));
    u->grown_bytes = resident_bytes() - before;
    for (uint64_t i = 0; i < all; i++) /* those that stay are from all times */
        if (i % u->of != 0)
            row_table_remove(u->ours, our_key(u, i));
    pack(u->ours);
    u->left_bytes = resident_bytes() - before;
}

static void uneven_init(struct uneven *u)
{
    u->key = bench_pages(QUERIES * sizeof *u->key);
    u->out = bench_pages(BLOCK * DIM * sizeof *u->out);
    u->valid = true;
    build(u);
    u->spread = new_table();
    for (uint64_t i = 0; i < u->rows; i++)
        add(u->spread, spread_key(i));
}

static void uneven_close(struct uneven *u)
{
    row_table_free(u->ours);
    row_table_free(u->spread);
    free(u->key);
    free(u->out);
}

/* ---- what is measured: million rows a second of processor time ---- */

static double lookup(struct uneven *u, const struct row_table *t)
{
    uint64_t step = t == u->ours ? u->of : 1;
    uint32_t row[BLOCK];
    size_t found = 0;
    for (uint64_t i = 0; i < QUERIES; i++) {
        uint64_t at = rng_u64(rng_key(SEED, RNG_TEST, 1, 0), i) % u->rows * step;
        u->key[i] = t == u->ours ? our_key(u, at) : spread_key(at);
    }
    double start = bench_cpu_s();
    for (size_t i = 0; i < QUERIES; i += BLOCK) {
        found += row_table_find(t, u->key + i, BLOCK, row);
        row_table_gather(t, row, BLOCK, u->out);
    }
    double took = bench_cpu_s() - start;
    u->valid = u->valid && found == QUERIES;
    return QUERIES / took / 1e6;
}

static double cut_all(struct uneven *u, struct row_table *t)
{
    const struct row_admit admit = {.on = false};
    struct row_cut cut = {.on = false};
    struct row_cut_rows out;
    uint64_t rows = 0, last = 0;
    double start = bench_cpu_s();
    if (row_cut_begin(&cut, &t, &admit, 1, t->index.buckets, (struct row_moment){.clock = 1},
                      UINT64_MAX))
        bench_die("out of memory");
    while (!row_cut_is_out(&cut)) {
        row_cut_copy(&cut, &out);
        if (out.rows == 0)
            continue;
        u->valid = u->valid && (rows == 0 || out.mixed[0] > last);
        last = out.mixed[out.rows - 1];
        rows += out.rows;
    }
    row_cut_end(&cut);
    double took = bench_cpu_s() - start;
    row_cut_close(&cut);
    u->valid = u->valid && rows == u->rows && !cut.failed;
    return (double)rows / took / 1e6;
}

/* ---- the run ---- */

static void print_list(const char *name, const double *values, size_t n)
{
    printf("\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.4f", i ? "," : "", values[i]);
    printf("],");
}

static void uneven_run(struct uneven *u)
{
    double of[4][ROUNDS_MAX];
    for (size_t i = 0; i < u->rounds; i++) {
        of[0][i] = lookup(u, u->ours);
        of[1][i] = lookup(u, u->spread);
        of[2][i] = cut_all(u, u->ours);
        of[3][i] = cut_all(u, u->spread);
    }
    printf("{\"rows\":%lu,\"seed\":%d,", (unsigned long)u->rows, SEED);
    print_list("lookup_mrows_per_s", of[0], u->rounds);
    print_list("lookup_spread_mrows_per_s", of[1], u->rounds);
    print_list("cut_mrows_per_s", of[2], u->rounds);
    print_list("cut_spread_mrows_per_s", of[3], u->rounds);
    printf("\"payload_bytes\":%lu,\"grown_bytes\":%lu,\"left_bytes\":%lu,",
           (unsigned long)row_table_payload_bytes(u->ours), (unsigned long)u->grown_bytes,
           (unsigned long)u->left_bytes);
    printf("\"valid\":%s}\n", u->valid ? "true" : "false");
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"left", 1, NULL, 'l'},
                                          {"of", 1, NULL, 'o'},
                                          {"bucket", 1, NULL, 'b'},
                                          {"rounds", 1, NULL, 'r'},
                                          {0}};
    struct uneven u = {.rounds = 9, .of = 10};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'l' || flag == 'b')
            u.rows = bench_number(optarg);
        else if (flag == 'o')
            u.of = bench_number(optarg);
        else if (flag == 'r')
            u.rounds = bench_number(optarg);
        else
            exit(1);
        u.one_bucket |= flag == 'b';
    }
    if (!u.rows || !u.of || !u.rounds || u.rounds > ROUNDS_MAX)
        bench_die("--left N or --bucket N, at least 1, and --rounds 1 to %d", ROUNDS_MAX);
    u.of = u.one_bucket ? 1 : u.of;
    uneven_init(&u);
    uneven_run(&u);
    uneven_close(&u);
    return 0;
}
