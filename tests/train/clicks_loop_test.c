/* Logistic regression over a log of clicks with 1.2 million keys: a sync job of 2 ps and 2 workers against a training loop
 * in one process, written for this test alone, with its own hash table, sums, gradient and optimizers: the same bits. It uses
 * two things of the product: the text that clicks are drawn as, and the permutation of rows.
 * starts programs */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/rng.h"
#include "job/job.h"
#include "common/math/kernels.h"
#include "tests/lib/folder.h"
#include "data/drawn/drawn.h"

enum { FIELDS = 26, NUMBERS = 13, BATCH = 1000, LEAVES = 8, SEED = 3, PATH = 256 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROWS = 10300 }; /* the last batch is short, and its leaves are not alike */
#else
enum { ROWS = 200300 };
#endif

#define JOB                                                                                        \
    "name: clicks-loop\n"                                                                          \
    "model:\n"                                                                                     \
    "  input: {shape: auto}\n"                                                                     \
    "  layers: [linear: {inputs: 'C{1..26}', name: wide}, sigmoid]\n"                              \
    "  loss: binary_crossentropy\n"                                                                \
    "data:\n"                                                                                      \
    "  format: synthetic\n"                                                                        \
    "  synthetic: clicks\n"                                                                        \
    "  synthetic_keys: 1200000\n"                                                                  \
    "  synthetic_train_rows: %d\n"                                                                 \
    "  synthetic_eval_rows: 100\n"                                                                 \
    "  delimiter: tab\n"                                                                           \
    "  columns: [label: clicked, ignore: 'I{1..13}', key: 'C{1..26}']\n"                           \
    "optimizer: {%s: {learning_rate: 0.05}}\n"                                                     \
    "training: {epochs: 1, batch_size: %d, microbatches: %d, seed: %d}\n"

/* ---- rows ---- */

struct row {
    float clicked;
    uint64_t key[FIELDS];
};

static uint64_t key_of(int field, const char *word, size_t bytes)
{
    char space[8];
    int n = snprintf(space, sizeof space, "C%d", field + 1);
    return XXH3_64bits_withSeed(word, bytes, XXH3_64bits(space, (size_t)n));
}

/* A line: the label, 13 numbers, 26 words. */
static void parse(struct row *out, const char *line)
{
    const char *at = line + 1;
    out->clicked = *line == '1';
    for (int i = 0; i < NUMBERS; i++)
        at = strchr(at + 1, '\t');
    for (int f = 0; f < FIELDS; f++) {
        const char *word = at + 1;
        size_t bytes = strcspn(word, "\t\n");
        out->key[f] = key_of(f, word, bytes);
        at = word + bytes;
    }
    assert_int_equal(*at, '\n');
}

static struct row *draw(const struct job *job)
{
    static struct clicks clicks;
    char line[CLICKS_LINE_BYTES + 1];
    struct row *rows = calloc(ROWS, sizeof *rows);
    assert_non_null(rows);
    clicks_init(&clicks, job);
    for (int i = 0; i < ROWS; i++) {
        line[clicks_write(&clicks, line, '\t', 0, (uint64_t)i)] = 0;
        parse(&rows[i], line);
    }
    return rows;
}

/* ---- a table ---- */

/* A row that no step has touched has weight 0 and the accumulator's first value. */
struct weight {
    uint64_t key;
    uint32_t count; /* 0: the place is free */
    float w, accumulator;
    /* in this step */
    uint32_t here; /* bit i: leaf i looks it up */
    float dw[LEAVES];
};
enum { PLACES = 1 << 21 };

static struct weight *find(struct weight *table, uint64_t key)
{
    size_t i = (size_t)((key ^ key >> 29) * UINT64_C(0x9E3779B97F4A7C15) >> 43);
    while ((table[i].count || table[i].here) && table[i].key != key)
        i = (i + 1) % PLACES;
    return &table[i];
}

/* ---- arithmetic ---- */

/* exp(x), Cephes's expf: 2^n exp(r), n = x / ln 2 to the nearest integer. */
static float exponential(float x)
{
    const float shift = 12582912.0f; /* 1.5 2^23: adding it rounds to an integer */
    if (x != x)
        return x;
    if (x < -87.33654f)
        return 0;
    if (x > 88.72283f)
        return INFINITY;
    float n = (x * 1.44269504088896341f + shift) - shift;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return ldexpf(p * (r * r) + r + 1.0f, (int)n);
}

static float sigmoid(float z)
{
    return 1.0f / (1.0f + exponential(-z));
}

/* The sum over leaves [first, first + n) by the tree of halves; a leaf that has none is left out. */
static float sum_of_leaves(const float *dw, uint32_t here, uint32_t first, uint32_t n)
{
    uint32_t half = n / 2, left = (1u << half) - 1;
    if (n == 1)
        return dw[first];
    uint32_t there = here >> first;
    if (!(there & left))
        return sum_of_leaves(dw, here, first + half, half);
    if (!(there >> half & left))
        return sum_of_leaves(dw, here, first, half);
    return sum_of_leaves(dw, here, first, half) + sum_of_leaves(dw, here, first + half, half);
}

struct loop {
    bool adagrad;
    const struct row *rows;
    struct weight *table; /* (PLACES) */
    struct weight bias;
    struct weight **touched; /* (BATCH * FIELDS) in this step */
    size_t touches, keys;
};

static void update(const struct loop *l, struct weight *w, float examples)
{
    const float rate = 0.05f, epsilon = 1e-7f;
    float g = sum_of_leaves(w->dw, w->here, 0, LEAVES) * (1.0f / examples);
    w->accumulator = w->count ? w->accumulator : 0.1f;
    if (l->adagrad) {
        w->accumulator += g * g;
        w->w -= g * rate / sqrtf(w->accumulator + epsilon);
    } else {
        w->w -= g * rate;
    }
    w->count++;
    w->here = 0;
    memset(w->dw, 0, sizeof w->dw);
}

static void learn_row(struct loop *l, const struct row *row, uint32_t leaf)
{
    struct weight *at[FIELDS];
    float z = l->bias.w;
    for (int f = 0; f < FIELDS; f++) {
        at[f] = find(l->table, row->key[f]);
        if (!at[f]->here) {
            at[f]->key = row->key[f];
            l->touched[l->touches++] = at[f];
            l->keys += !at[f]->count;
        }
        at[f]->here |= 1u << leaf;
        z += at[f]->w;
    }
    float dz = sigmoid(z) - row->clicked;
    l->bias.dw[leaf] += dz;
    for (int f = 0; f < FIELDS; f++)
        at[f]->dw[leaf] += dz;
}

static void learn_batch(struct loop *l, uint64_t first, uint64_t n)
{
    uint64_t order = rng_key(SEED, RNG_SHUFFLE, 0, 0);
    l->touches = 0;
    for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        for (uint64_t i = n * leaf / LEAVES; i < n * (leaf + 1) / LEAVES; i++)
            learn_row(l, &l->rows[rng_permute(order, first + i, ROWS)], leaf);
    for (size_t i = 0; i < l->touches; i++)
        update(l, l->touched[i], (float)n);
    l->bias.here = (1u << LEAVES) - 1;
    update(l, &l->bias, (float)n);
}

static void learn_in_one_process(struct loop *l)
{
    l->table = calloc(PLACES, sizeof *l->table);
    l->touched = calloc((size_t)BATCH * FIELDS, sizeof(struct weight *));
    assert_true(l->table && l->touched);
    for (uint64_t first = 0; first < ROWS; first += BATCH)
        learn_batch(l, first, ROWS - first < BATCH ? ROWS - first : BATCH);
}

/* ---- the job ---- */

static void learn_in_processes(const char *folder)
{
    char command[4 * PATH];
    const char *build = getenv("GRADWIRE_BUILD");
    snprintf(
        command, sizeof command,
        "%s/launch/launch train %s/job.yaml --ps=2 --workers=2 --output=%s/out > %s/log 2>&1 || "
        "{ cat %s/log; exit 1; }",
        build ? build : "build", folder, folder, folder, folder);
    assert_int_equal(system(command), 0);
}

/* A file of safetensors, as it stands. */
struct file {
    char *bytes;
    const char *data;
    json_t *header;
};

static struct file read_file(const char *folder, const char *name)
{
    char path[PATH];
    struct file f = {0};
    uint64_t header;
    snprintf(path, sizeof path, "%s/out/model/%s", folder, name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    size_t n = (size_t)ftell(in);
    rewind(in);
    f.bytes = malloc(n);
    assert_true(f.bytes && fread(f.bytes, 1, n, in) == n);
    fclose(in);
    memcpy(&header, f.bytes, sizeof header);
    f.header = json_loadb(f.bytes + sizeof header, header, 0, NULL);
    f.data = f.bytes + sizeof header + header;
    assert_non_null(f.header);
    return f;
}

static const void *tensor(const struct file *f, const char *name, size_t each, size_t *n)
{
    json_t *offsets = json_object_get(json_object_get(f->header, name), "data_offsets");
    assert_int_equal(json_array_size(offsets), 2);
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    *n = ((size_t)json_integer_value(json_array_get(offsets, 1)) - begin) / each;
    return f->data + begin;
}

static void close_file(struct file *f)
{
    json_decref(f->header);
    free(f->bytes);
}

static void assert_same_rows(const struct loop *l, const char *folder)
{
    struct file f = read_file(folder, "tables/wide.safetensors");
    size_t keys, rows, counts, wrong = 0;
    const char *key = tensor(&f, "keys", sizeof(uint64_t), &keys);
    const char *row = tensor(&f, "rows", sizeof(float), &rows);
    const char *count = tensor(&f, "counts", sizeof(uint32_t), &counts);
    assert_true(keys == rows && keys == counts);
    assert_int_equal(keys, l->keys);
    for (size_t i = 0; i < keys; i++) {
        uint64_t k;
        memcpy(&k, key + i * sizeof k, sizeof k);
        const struct weight *w = find(l->table, k);
        wrong += !w->count || memcmp(row + i * sizeof w->w, &w->w, sizeof w->w) != 0 ||
                 memcmp(count + i * sizeof w->count, &w->count, sizeof w->count) != 0;
    }
    print_message("%zu keys, %u examples\n", keys, ROWS);
    assert_int_equal(wrong, 0);
    close_file(&f);
}

static void assert_same_bias(const struct loop *l, const char *folder)
{
    struct file f = read_file(folder, "weights.safetensors");
    size_t n;
    const void *bias = tensor(&f, "wide/bias", sizeof(float), &n);
    assert_int_equal(n, 1);
    assert_memory_equal(bias, &l->bias.w, sizeof l->bias.w);
    close_file(&f);
}

static void assert_equal_learning(const char *optimizer)
{
    char folder[FOLDER_BYTES], path[PATH], text[2048];
    struct errmsg e;
    struct job job;
    assert_int_equal(folder_make(folder), 0);
    int bytes = snprintf(text, sizeof text, JOB, ROWS, optimizer, BATCH, LEAVES, SEED);
    snprintf(path, sizeof path, "%s/job.yaml", folder);
    FILE *out = fopen(path, "w");
    assert_true(out && fwrite(text, 1, (size_t)bytes, out) == (size_t)bytes && !fclose(out));
    if (job_load(&job, path, NULL, 0, &e))
        fail_msg("%s", e.text);
    struct row *rows = draw(&job);
    struct loop loop = {.adagrad = strcmp(optimizer, "adagrad") == 0, .rows = rows};
    learn_in_one_process(&loop);
    learn_in_processes(folder);
    assert_same_rows(&loop, folder);
    assert_same_bias(&loop, folder);
    free(rows);
    free(loop.table);
    free(loop.touched);
    job_close(&job);
    assert_int_equal(folder_remove(folder), 0);
}

static void two_ps_and_two_workers_equal_a_plain_loop_to_the_bit_with_adagrad(void **state)
{
    (void)state;
    assert_equal_learning("adagrad");
}

static void two_ps_and_two_workers_equal_a_plain_loop_to_the_bit_with_sgd(void **state)
{
    (void)state;
    assert_equal_learning("sgd");
}

int main(void)
{
    kernels_flush_denormals();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ps_and_two_workers_equal_a_plain_loop_to_the_bit_with_adagrad),
        cmocka_unit_test(two_ps_and_two_workers_equal_a_plain_loop_to_the_bit_with_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
