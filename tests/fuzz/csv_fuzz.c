/* libFuzzer: csv and libsvm text of any bytes, packed or not, is read or refused with a message, in the same way
 * by one thread and by two. Input: which job (a byte), then the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/log.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

#define LIBSVM "format: libsvm"
static const char *const columns[] = {
    "columns: [number: a, category: b, label: c]",
    "columns: [category: {name: a, encode: id}, label: {name: c, classes: ['x|y', '*']}], trim: "
    "true",
    "columns: [number: {name: b, scale: standard}, weight: w, label: a], header: names, comment: "
    "'#'",
    "columns: [number: {name: a, buckets: {quantiles: 3}}, number: {name: b, buckets: log_squared, "
    "encode: id}, label: c]",
    "columns: [ignore, category: {vocabulary: [x, y]}, number: {scale: min_max}, label: c], "
    "header: skip, quotes: false, delimiter: space, missing: ['?', '-1']",
    "columns: [key: {name: a, missing: none}, keys: {name: b, separator: ' ', max_values: 3, "
    "weights: true}, keys: {name: d, hash: false, missing: {key: 7}, buckets: 5, max_values: 2, "
    "separator: '::'}, key: {name: e, buckets: 3}, cross: {name: f, of: [e, a]}, label: c]",
    LIBSVM ", columns: [label: c, keys: {name: b, max_values: 3}]",
    LIBSVM ", columns: [keys: {name: b, max_values: 3, buckets: 5}, label: {name: c, classes: "
           "['-1', '*']}]",
    "columns: [category: a, ignore, number: b, label: c], escape: backslash, comment: '#'",
    "columns: [category: a, ignore, label: c], escape: backslash, quotes: false, delimiter: tab, "
    "trim: true",
};
enum { JOBS = sizeof columns / sizeof *columns };

static void make_jobs(struct job jobs[2 * JOBS], const char *path)
{
    char text[1024];
    struct errmsg e;
    for (size_t i = 0; i < 2 * JOBS; i++) {
        bool libsvm = strstr(columns[i / 2], LIBSVM) != NULL;
        snprintf(text, sizeof text,
                 "model: {input: {shape: auto}, layers: [%s], loss: %s}\n"
                 "optimizer: sgd\n"
                 "data: {train: %s, bad_rows: %s, %s%s}\n",
                 libsvm                          ? "linear: b, sigmoid"
                 : strstr(columns[i / 2], "key") ? "linear: {inputs: [b, d, f]}"
                                                 : "dense: 1",
                 libsvm ? "binary_crossentropy" : "mse", path, i % 2 ? "skip" : "stop",
                 libsvm ? "" : "format: csv, ", columns[i / 2]);
        must(job_parse(&jobs[i], text, strlen(text), "j", "/", NULL, 0, &e) == ERR_OK, e.text);
    }
}

static enum err load(struct dataset *d, struct job *job, uint32_t threads, struct errmsg *e)
{
    job->worker.threads = threads;
    e->text[0] = 0;
    return dataset_load(d, job, 0, 3, e);
}

static const uint32_t *cells_of(const struct dataset *d, uint64_t row, uint32_t *buffer)
{
    const uint32_t *cells;
    uint64_t n = 1;
    must(table_look(&d->table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, NULL) == ERR_OK,
         "look");
    return cells;
}

static void same(const struct dataset *a, const struct dataset *b)
{
    uint32_t a_buffer[TABLE_ROW_CELLS_MAX], b_buffer[TABLE_ROW_CELLS_MAX];
    must(a->rows == b->rows && a->bad_rows == b->bad_rows && a->features == b->features, "sizes");
    for (uint64_t row = 0; row < a->rows; row++) {
        const uint32_t *cells = cells_of(a, row, a_buffer), *others = cells_of(b, row, b_buffer);
        size_t n = table_packed_cells(a->table.schema, cells);
        must(n == table_packed_cells(b->table.schema, others) &&
                 memcmp(cells, others, n * sizeof *cells) == 0,
             "cells");
    }
}

static void gather_all(const struct dataset *d)
{
    float *x = calloc(d->features + 1, sizeof *x), y;
    struct leaf_buffer *room = NULL;
    const struct leaf_keys *keys;
    uint64_t there = 0;
    must(x != NULL, "calloc");
    if (dataset_has_keys(d))
        must(gathered_buffer(&room, d->table.schema, 1, NULL) == ERR_OK, "room");
    for (uint64_t row = 0; row < d->rows; row++) {
        uint32_t n;
        if (room)
            must(gathered_keys(d, &row, 1, room, &keys, NULL) == ERR_OK, "keys");
        must(gathered_rows(d, &row, 1, x, &y, &n, NULL) == ERR_OK, "gather");
        there += n;
    }
    must(there == d->rows - d->bad_rows && there > 0, "rows");
    leaf_buffer_free(room);
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static struct job jobs[2 * JOBS];
    if (file < 0) {
        char path[64];
        log_init("fuzz", LOG_ERROR);
        file = memfd_create("csv", 0);
        must(file >= 0, "memfd_create");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        make_jobs(jobs, path);
    }
    if (size < 1)
        return 0;
    must(ftruncate(file, 0) == 0, "ftruncate");
    must(pwrite(file, data + 1, size - 1, 0) == (ssize_t)(size - 1), "pwrite");
    struct dataset one, two;
    struct errmsg e1, e2;
    struct job *job = &jobs[data[0] % (2 * JOBS)];
    enum err err = load(&one, job, 1, &e1);
    must(load(&two, job, 2, &e2) == err && strcmp(e1.text, e2.text) == 0, "another answer");
    if (err) {
        must(e1.text[0] != '\0' && err == ERR_INPUT, "no reason given");
        return 0;
    }
    same(&one, &two);
    gather_all(&one);
    dataset_close(&one);
    dataset_close(&two);
    return 0;
}
