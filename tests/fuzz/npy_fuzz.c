/* libFuzzer: numpy's arrays of any bytes, in files or in an archive, are read or refused with a message.
 * Input: a byte: odd: an archive follows, with x and y. Even: the length of the file of labels (a byte), that file, then the
 * file of rows. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { CLASSES = 10, SIDE = 2 };

static struct {
    int labels, rows, archive;
    char name[64], files[160], members[160];
} io;

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static void remove_archive(void)
{
    (void)unlink(io.name);
}

static void open_files(void)
{
    io.labels = memfd_create("labels", 0);
    io.rows = memfd_create("rows", 0);
    snprintf(io.name, sizeof io.name, "/tmp/gradwire-npy-fuzz-%d.npz", (int)getpid());
    io.archive = open(io.name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(io.labels >= 0 && io.rows >= 0 && io.archive >= 0, "open");
    atexit(remove_archive);
    snprintf(io.files, sizeof io.files, "/proc/self/fd/%d\n/proc/self/fd/%d", io.labels, io.rows);
    snprintf(io.members, sizeof io.members, "%s:x\n%s:y", io.name, io.name);
}

static void put(int fd, const uint8_t *data, size_t bytes)
{
    must(ftruncate(fd, 0) == 0, "ftruncate");
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes, "pwrite");
}

static void check(const struct dataset *d)
{
    uint64_t row = d->rows - 1;
    float x[SIDE * SIDE], y;
    uint32_t there;
    must(d->rows > 0 && dataset_check_classes(d, CLASSES, NULL) == ERR_OK, "a label out of range");
    must(d->features == SIDE * SIDE, "another shape");
    must(gathered_rows(d, &row, 1, x, &y, &there, NULL) == ERR_OK, "gather");
}

/* NULL: the input is no file. */
static char *write_input(const uint8_t *data, size_t size)
{
    if (size < 2)
        return NULL;
    if (data[0] % 2) {
        put(io.archive, data + 1, size - 1);
        return io.members;
    }
    if (size - 2 < data[1])
        return NULL;
    put(io.labels, data + 2, data[1]);
    put(io.rows, data + 2 + data[1], size - 2 - data[1]);
    return io.files;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!io.name[0])
        open_files();
    struct job job = {.model = {.rank = 2, .shape = {SIDE, SIDE}},
                      .data = {.format = DATA_NPY, .scale = 1}};
    job.data.train = write_input(data, size);
    if (!job.data.train)
        return 0;
    struct dataset d;
    struct errmsg e = {""};
    enum err err = dataset_load(&d, &job, 0, CLASSES, &e);
    if (err) {
        must(e.text[0] != '\0' && (err == ERR_INPUT || err == ERR_NOMEM), "no reason given");
        return 0;
    }
    check(&d);
    dataset_close(&d);
    return 0;
}
