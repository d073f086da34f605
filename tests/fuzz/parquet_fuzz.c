/* libFuzzer: Parquet files of any bytes, footers and pages, are read or refused with a message, and the rows of a good one can be
 * gathered. Input: the file. The module is where tools/fuzz.sh links it. */
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
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Of tests/data/parquet. */
static const char *const columns[] = {
    "linear: {inputs: [user, id, tags, words, town]}",
    "key: user, key: {name: id, hash: false, missing: none}, keys: {name: tags, max_values: 3}, "
    "keys: {name: words, max_values: 4}, key: town, label: y, weight: w",
    "dense: 1",
    "number: {name: age, scale: standard}, number: count, number: {name: big, buckets: {quantiles: "
    "3}}, category: flag, category: price, category: day, category: at, category: zoned, category: "
    "{name: code, encode: id}, number: {name: id, scale: min_max}, label: y",
};
enum { JOBS = sizeof columns / sizeof *columns / 2 };

static void make_jobs(struct job jobs[2 * JOBS], const char *path)
{
    char text[1024];
    struct errmsg e;
    for (size_t i = 0; i < 2 * JOBS; i++) {
        snprintf(text, sizeof text,
                 "model: {input: {shape: auto}, layers: [%s], loss: mse}\n"
                 "optimizer: sgd\n"
                 "worker: {threads: %d}\n"
                 "data: {train: %s, format: parquet, missing: ['', -7], bad_rows: %s, columns: "
                 "[%s]}\n",
                 columns[i / 2 * 2], (int)(1 + i % 2), path, i % 2 ? "skip" : "stop",
                 columns[i / 2 * 2 + 1]);
        must(job_parse(&jobs[i], text, strlen(text), "j", "/", NULL, 0, &e) == ERR_OK, e.text);
    }
}

static void gather_all(const struct dataset *d)
{
    float *x = calloc(d->features + 1, sizeof *x), y;
    struct leaf_buffer *room = NULL;
    const struct leaf_keys *keys;
    must(x != NULL, "calloc");
    if (dataset_has_keys(d))
        must(gathered_buffer(&room, d->table.schema, 1, NULL) == ERR_OK, "room");
    for (uint64_t row = 0; row < d->rows; row++) {
        uint32_t n;
        if (room)
            must(gathered_keys(d, &row, 1, room, &keys, NULL) == ERR_OK, "keys");
        must(gathered_rows(d, &row, 1, x, &y, &n, NULL) == ERR_OK, "gather");
    }
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
        file = memfd_create("parquet", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        make_jobs(jobs, path);
    }
    must(ftruncate(file, 0) == 0, "ftruncate");
    must(pwrite(file, data, size, 0) == (ssize_t)size, "pwrite");
    for (size_t i = size % 2; i < sizeof jobs / sizeof *jobs; i += 2) {
        struct dataset d;
        struct errmsg e = {""};
        const enum err err = dataset_load(&d, &jobs[i], 0, 3, &e);
        must(!err || (err == ERR_INPUT && e.text[0]), "no reason given");
        must(!strstr(e.text, "gradwire-arrow"), e.text);
        if (err)
            continue;
        gather_all(&d);
        dataset_close(&d);
    }
    return 0;
}
