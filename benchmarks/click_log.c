/* A click log in Criteo's shape as text, for whole jobs that are measured: the rows of data.synthetic: clicks, 13 numbers
 * and 26 words of keys, tab-separated, without a header.
 *
 * click_log --rows N --keys K --batch B [--hot PERCENT] --output FILE
 *
 * --hot: the first key column has the same word in PERCENT of all rows, wherever chance puts them.
 * `distinct` is how many keys B successive rows have on average: what a step touches. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "common/base/rng.h"
#include "data/drawn/drawn.h"

static const char HOT_WORD[] = "hot-word"; /* as long as all words */

struct click_log {
    uint64_t rows, keys, batch, hot;
    const char *path;
    struct clicks model;
    uint64_t *seen; /* (batch * fields) field and key of each word of the running batch */
    size_t words;
    uint64_t distinct, batches;
};

static void options_parse(struct click_log *l, int argc, char **argv)
{
    static const struct option flags[] = {{"rows", 1, NULL, 'r'},   {"keys", 1, NULL, 'k'},
                                          {"batch", 1, NULL, 'b'},  {"hot", 1, NULL, 'h'},
                                          {"output", 1, NULL, 'o'}, {NULL, 0, NULL, 0}};
    int flag;
    while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        switch (flag) {
        case 'r':
            l->rows = bench_number(optarg);
            break;
        case 'k':
            l->keys = bench_number(optarg);
            break;
        case 'b':
            l->batch = bench_number(optarg);
            break;
        case 'h':
            l->hot = bench_number(optarg);
            break;
        case 'o':
            l->path = optarg;
            break;
        default:
            exit(1);
        }
    }
    if (!l->path || l->batch < 1 || l->rows < l->batch || l->hot > 100)
        bench_die(
            "--output, --batch, and --rows of at least a batch are needed; --hot is at most 100");
}

static void init_model(struct click_log *l)
{
    char text[512];
    struct errmsg e = {""};
    struct job job;
    (void)snprintf(text, sizeof text,
                   "model: {input: {shape: auto}, layers: [linear: {inputs: \"C{1..26}\"}],\n"
                   "  loss: binary_crossentropy}\n"
                   "data: {format: synthetic, synthetic: clicks, synthetic_keys: %llu,\n"
                   "  columns: [label: y, ignore: \"I{1..13}\", key: \"C{1..26}\"]}\n"
                   "optimizer: sgd\n",
                   (unsigned long long)l->keys);
    if (job_parse(&job, text, strlen(text), "click_log", "/", NULL, 0, &e))
        bench_die("%s", e.text);
    clicks_init(&l->model, &job);
    job_close(&job);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void count_batch(struct click_log *l)
{
    qsort(l->seen, l->words, sizeof *l->seen, ascending);
    for (size_t i = 0; i < l->words; i++)
        l->distinct += i == 0 || l->seen[i] != l->seen[i - 1];
    l->words = 0;
    l->batches++;
}

static bool is_hot(const struct click_log *l, uint64_t row)
{
    return rng_u64(rng_key(1, RNG_TEST, 0, 0), row) % 100 < l->hot;
}

/* Over the word of the first key column. */
static void heat(char *line)
{
    for (int field = 0; field < 1 + CLICKS_NUMBERS; line++)
        field += *line == '\t';
    memcpy(line, HOT_WORD, sizeof HOT_WORD - 1);
}

static void note(struct click_log *l, uint64_t row)
{
    struct click c;
    clicks_draw(&l->model, 0, row, &c);
    if (is_hot(l, row))
        c.key[0] = 0; /* a word that no drawn key has */
    for (uint32_t f = 0; f < l->model.fields; f++)
        l->seen[l->words++] = (uint64_t)f << 32 | c.key[f];
    if (l->words == l->batch * l->model.fields)
        count_batch(l);
}

static uint64_t write_rows(struct click_log *l)
{
    char line[CLICKS_LINE_BYTES];
    uint64_t bytes = 0;
    FILE *file = fopen(l->path, "w");
    if (!file)
        bench_die("%s: cannot be written", l->path);
    for (uint64_t row = 0; row < l->rows; row++) {
        size_t n = clicks_write(&l->model, line, '\t', 0, row);
        if (is_hot(l, row))
            heat(line);
        bytes += fwrite(line, 1, n, file);
        note(l, row);
    }
    if (fclose(file))
        bench_die("%s: cannot be written", l->path);
    return bytes;
}

int main(int argc, char **argv)
{
    struct click_log l = {.keys = 1200000, .batch = 1};
    options_parse(&l, argc, argv);
    init_model(&l);
    l.seen = bench_pages(l.batch * l.model.fields * sizeof *l.seen);
    uint64_t bytes = write_rows(&l);
    printf("{\"valid\": true, \"rows\": %llu, \"bytes\": %llu, \"distinct\": %.1f}\n",
           (unsigned long long)l.rows, (unsigned long long)bytes,
           (double)l.distinct / (double)l.batches);
    free(l.seen);
    return 0;
}
