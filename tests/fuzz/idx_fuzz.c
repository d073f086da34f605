/* libFuzzer: a pair of idx files of any bytes, packed or not, is read or refused with a message.
 * Input: rows and columns of the model (a byte each), the length of the labels' file (a byte), that
 * file, then the images' file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { CLASSES = 10 };

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static void put(int fd, const uint8_t *data, size_t bytes)
{
    must(ftruncate(fd, 0) == 0, "ftruncate");
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes, "pwrite");
}

static void check(const struct dataset *d)
{
    uint64_t rows[1] = {d->rows - 1};
    float *x = calloc(d->features, sizeof *x), y;
    must(x != NULL, "calloc");
    must(d->rows > 0 && dataset_check_classes(d, CLASSES, NULL) == ERR_OK, "a label out of range");
    uint32_t there;
    must(gathered_rows(d, rows, 1, x, &y, &there, NULL) == ERR_OK, "gather");
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int labels = -1, images = -1;
    static char patterns[64];
    if (labels < 0) {
        labels = memfd_create("labels", 0);
        images = memfd_create("images", 0);
        must(labels >= 0 && images >= 0, "memfd_create");
        snprintf(patterns, sizeof patterns, "/proc/self/fd/%d\n/proc/self/fd/%d", labels, images);
    }
    if (size < 3 || size - 3 < data[2])
        return 0;
    put(labels, data + 3, data[2]);
    put(images, data + 3 + data[2], size - 3 - data[2]);
    static struct job job;
    job.model.rank = 2;
    job.model.shape[0] = data[0];
    job.model.shape[1] = data[1];
    job.data.format = DATA_IDX;
    job.data.train = patterns;
    job.data.scale = 255;
    struct dataset d;
    struct errmsg e = {""};
    enum err err = dataset_load(&d, &job, 0, CLASSES, &e);
    if (err)
        must(e.text[0] != '\0' && (err == ERR_INPUT || err == ERR_NOMEM), "no reason given");
    else {
        check(&d);
        dataset_close(&d);
    }
    return 0;
}
