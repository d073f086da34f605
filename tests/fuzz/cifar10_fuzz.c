/* libFuzzer: a CIFAR-10 batch of any bytes, packed or not, is read or refused with a message.
 * Input: how many times what follows the next two bytes is written (a byte), bytes left out at its
 * end (a byte), then a part of the file: so that whole records are reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/dataset.h"

enum { CLASSES = 10, ROOM = 1 << 20 };

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static size_t repeated(uint8_t *out, const uint8_t *data, size_t size)
{
    size_t bytes = 0, part = size - 2;
    for (unsigned i = 0; i <= data[0] && bytes + part <= ROOM; i++, bytes += part)
        memcpy(out + bytes, data + 2, part);
    return bytes > data[1] ? bytes - data[1] : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    static uint8_t text[ROOM];
    if (file < 0) {
        file = memfd_create("batch", 0);
        must(file >= 0, "memfd_create");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (size < 2 || size > ROOM)
        return 0;
    size_t bytes = repeated(text, data, size);
    must(ftruncate(file, 0) == 0, "ftruncate");
    must(pwrite(file, text, bytes, 0) == (ssize_t)bytes, "pwrite");
    static struct job job;
    job.model.rank = 3;
    job.model.shape[0] = job.model.shape[1] = 32;
    job.model.shape[2] = 3;
    job.data.format = DATA_CIFAR10;
    job.data.train = path;
    job.data.scale = 255;
    struct dataset d;
    struct errmsg e = {""};
    enum err err = dataset_load(&d, &job, 0, CLASSES, &e);
    if (err) {
        must(e.text[0] != '\0' && err == ERR_INPUT, "no reason given");
        return 0;
    }
    must(d.rows > 0 && d.seen.max < CLASSES, "a label out of range");
    dataset_close(&d);
    return 0;
}
