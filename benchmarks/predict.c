/* How fast the C library scores rows in memory.
 *
 * predict MODEL ROWS FOLDER
 *
 * MODEL is a trained model's directory. The rows are drawn from a seed: features from 0 to 1, or, if rows have columns,
 * normal numbers and keys of the model's tables. The program writes them to FOLDER with their scores, as another program
 * reads them: features.f32 (ROWS, features), keys.i64 (ROWS, key columns), scores.f32 (ROWS, outputs).
 * Then it reads lines "THREADS BATCH MILLISECONDS" and answers each with a line of JSON. Each thread scores batches of its
 * own, from values of columns, or from features, to scores. `seconds` is the median time of a batch, divided by the threads; with one thread it is the
 * time of the thread itself, so other programs disturb it little. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/pool.h"
#include "predict/folder.h"
#include "predict/gradwire-predict.h"

enum { THREADS_MAX = 64, CALLS_MAX = 1 << 20, SEED = 1 };

struct lane {
    struct gradwire_scorer *scorer;
    float *out;
    double *seconds; /* (CALLS_MAX) of each call */
    size_t calls;
};

struct predict {
    struct gradwire_model *model;
    uint32_t rows, columns, features, outputs;
    float *x;                     /* (rows, features), without columns */
    struct gradwire_value *value; /* (rows, columns) */
    float *scores;                /* (rows, outputs) */
    struct lane lane[THREADS_MAX];
    uint32_t threads, batch;
    double budget_s;
};

static void must(enum gradwire_status status, const struct gradwire_error *e)
{
    if (status)
        bench_die("%s", e->text);
}

static void *must_have(void *p)
{
    if (!p)
        bench_die("out of memory");
    return p;
}

/* ---- rows ---- */

static void draw_features(struct predict *p)
{
    size_t n = (size_t)p->rows * p->features;
    p->x = must_have(mem_floats(n));
    for (size_t i = 0; i < n; i++)
        p->x[i] = rng_unit(SEED, i);
}

/* Sum of 12 uniform numbers: nearly normal. */
static float draw_normal(uint64_t i)
{
    float sum = -6.0f;
    for (uint64_t k = 0; k < 12; k++)
        sum += rng_unit(SEED + 1, 12 * i + k);
    return sum;
}

/* Columns are numbers or keys of table 0. */
static void draw_values(struct predict *p, const char *path)
{
    struct folder f;
    struct errmsg e;
    if (folder_open(&f, path, &e))
        bench_die("%s", e.text);
    uint64_t keys = f.table[0] ? table_file_rows(f.table[0]) : 0;
    uint32_t dim = keys ? model_layout(f.model)->rows->table[0].dim : 0;
    float *w = must_have(mem_floats(dim + 1));
    p->value = must_have(mem_zalloc((size_t)p->rows * p->columns, sizeof *p->value));
    for (size_t i = 0; i < (size_t)p->rows * p->columns; i++) {
        struct gradwire_value *v = &p->value[i];
        enum gradwire_kind kind = gradwire_column_kind(p->model, (uint32_t)(i % p->columns));
        if (kind == GRADWIRE_NUMBER)
            *v = (struct gradwire_value){GRADWIRE_VALUE_NUMBER, 1, {.number = draw_normal(i)}};
        else if (kind != GRADWIRE_KEY || keys == 0)
            bench_die("a column is neither a number nor a key");
        else {
            *v = (struct gradwire_value){.type = GRADWIRE_VALUE_KEY, .count = 1};
            table_file_row(f.table[0], rng_u64(SEED + 2, i) % keys, &v->as.key, w);
        }
    }
    mem_free(w);
    folder_close(&f);
}

/* Score rows [first, first + n) into out. */
static void score(const struct predict *p, struct gradwire_scorer *s, uint32_t first, uint32_t n,
                  float *out)
{
    struct gradwire_error e;
    if (!p->value) {
        must(gradwire_scorer_score_features(s, p->x + (size_t)first * p->features, n, out, &e), &e);
        return;
    }
    gradwire_scorer_clear(s);
    for (uint32_t i = first; i < first + n; i++)
        must(gradwire_scorer_add_values(s, p->value + (size_t)i * p->columns, &e), &e);
    must(gradwire_scorer_score(s, out, &e), &e);
}

/* ---- the files ---- */

static void write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        bench_die("%s: %s", path, strerror(errno));
}

static void write_keys(const struct predict *p, const char *folder)
{
    uint64_t *keys = must_have(mem_zalloc((size_t)p->rows * p->columns, sizeof *keys));
    size_t n = 0;
    for (size_t i = 0; i < (size_t)p->rows * p->columns; i++)
        if (p->value[i].type == GRADWIRE_VALUE_KEY)
            keys[n++] = p->value[i].as.key;
    write_file(folder, "keys.i64", keys, n * sizeof *keys);
    mem_free(keys);
}

/* Score all rows, and write them. */
static void write_all(struct predict *p, const char *folder)
{
    struct gradwire_scorer *s;
    struct gradwire_error e;
    size_t features = (size_t)p->rows * p->features, outputs = (size_t)p->rows * p->outputs;
    p->scores = must_have(mem_floats(outputs));
    must(gradwire_scorer_new(&s, p->model, p->rows, &e), &e);
    score(p, s, 0, p->rows, p->scores);
    write_file(folder, "scores.f32", p->scores, outputs * sizeof *p->scores);
    if (p->value) {
        float *encoded = must_have(mem_floats(features));
        gradwire_scorer_features(s, encoded);
        write_file(folder, "features.f32", encoded, features * sizeof *encoded);
        mem_free(encoded);
        write_keys(p, folder);
    } else
        write_file(folder, "features.f32", p->x, features * sizeof *p->x);
    gradwire_scorer_free(s);
}

/* ---- a measurement ---- */

static void run_lane(void *ctx, uint32_t thread)
{
    struct predict *p = ctx;
    struct lane *l = &p->lane[thread];
    double (*clock)(void) = p->threads == 1 ? clock_thread_s : clock_now_s;
    uint32_t batches = p->rows / p->batch, i = thread;
    double begin = clock(), before = begin;
    l->calls = 0;
    while (l->calls < CALLS_MAX && (l->calls < 2 || before - begin < p->budget_s)) {
        score(p, l->scorer, i++ % batches * p->batch, p->batch, l->out);
        double after = clock();
        l->seconds[l->calls++] = after - before;
        before = after;
    }
}

/* True if the scores of each thread's last call are those in the file, except for the last bits. */
static bool is_right(const struct predict *p)
{
    for (uint32_t t = 0; t < p->threads; t++) {
        const struct lane *l = &p->lane[t];
        size_t at = (t + l->calls - 1) % (p->rows / p->batch) * p->batch * p->outputs;
        for (size_t i = 0; i < (size_t)p->batch * p->outputs; i++)
            if (!(fabsf(l->out[i] - p->scores[at + i]) <= 1e-6f * fmaxf(1, fabsf(l->out[i]))))
                return false;
    }
    return true;
}

static void measure(struct predict *p)
{
    struct pool *pool;
    struct errmsg e;
    struct gradwire_error error;
    size_t calls = 0;
    if (pool_new(&pool, p->threads, &e))
        bench_die("%s", e.text);
    for (uint32_t t = 0; t < p->threads; t++) {
        struct lane *l = &p->lane[t];
        must(gradwire_scorer_new(&l->scorer, p->model, p->batch, &error), &error);
        l->out = must_have(mem_floats((size_t)p->batch * p->outputs));
        l->seconds = must_have(mem_zalloc(CALLS_MAX, sizeof *l->seconds));
    }
    pool_run(pool, run_lane, p);
    double *all = must_have(mem_zalloc(p->threads * (size_t)CALLS_MAX, sizeof *all));
    for (uint32_t t = 0; t < p->threads; t++) {
        memcpy(all + calls, p->lane[t].seconds, p->lane[t].calls * sizeof *all);
        calls += p->lane[t].calls;
    }
    printf("{\"valid\": %s, \"calls\": %zu, \"seconds\": %.9g}\n", is_right(p) ? "true" : "false",
           calls, bench_quantile(all, calls, 0.5) / p->threads);
    (void)fflush(stdout);
    mem_free(all);
    for (uint32_t t = 0; t < p->threads; t++) {
        gradwire_scorer_free(p->lane[t].scorer);
        mem_free(p->lane[t].out);
        mem_free(p->lane[t].seconds);
    }
    pool_free(pool);
}

int main(int argc, char **argv)
{
    struct predict p = {0};
    struct gradwire_error e;
    unsigned milliseconds;
    if (argc != 4)
        bench_die("predict MODEL ROWS FOLDER");
    must(gradwire_model_open(&p.model, argv[1], &e), &e);
    p.rows = (uint32_t)bench_number(argv[2]);
    p.columns = gradwire_model_columns(p.model);
    p.features = gradwire_model_features(p.model);
    p.outputs = gradwire_model_outputs(p.model);
    if (p.columns)
        draw_values(&p, argv[1]);
    else
        draw_features(&p);
    write_all(&p, argv[3]);
    printf("{\"valid\": true, \"rows\": %u}\n", p.rows);
    (void)fflush(stdout);
    while (scanf("%u %u %u", &p.threads, &p.batch, &milliseconds) == 3) {
        if (p.threads < 1 || p.threads > THREADS_MAX || p.batch < 1 || p.batch > p.rows)
            bench_die("THREADS is 1 to %d, BATCH 1 to ROWS", THREADS_MAX);
        p.budget_s = milliseconds / 1e3;
        measure(&p);
    }
    return 0;
}
