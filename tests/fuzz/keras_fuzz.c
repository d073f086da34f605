/* libFuzzer: config.json of a Keras model, and .keras archives. They are imported, or refused with a message.
 * Input: a byte, then the file: of odd bytes a config.json; otherwise an archive, of which the weights are not read: they are
 * gradwire-hdf5's work, and tests/e2e/hdf5_test.py throws mutated files at that. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "formats/keras/archive.h"
#include "formats/keras/config.h"
#include "formats/keras/keras.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (!path[0]) {
        log_init("fuzz", LOG_ERROR);
        (void)snprintf(path, sizeof path, "/tmp/gradwire-keras-fuzz-%d", (int)getpid());
        (void)atexit(remove_file);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    must(write(fd, data, size) == (ssize_t)size && close(fd) == 0, path);
}

static void check_refused(enum err err, const struct errmsg *e)
{
    must(e->text[0] != '\0' && err != ERR_OK, "no reason given");
}

/* A model that is imported is one of ours, with all its tensors. */
static void import(void)
{
    struct imported k;
    struct errmsg e = {""};
    char *refused = NULL;
    enum err err = keras_import(&k, path, &refused, &e);
    mem_free(refused);
    if (err) {
        check_refused(err, &e);
        return;
    }
    must(k.model && k.yaml && k.notes && model_layout(k.model), "incomplete");
    imported_close(&k);
}

static void open_archive(void)
{
    struct config c;
    struct errmsg e = {""};
    char *text = NULL, *refused = NULL;
    size_t bytes = 0;
    int weights = -1;
    enum err err = archive_read(path, &text, &bytes, &weights, &e);
    if (err) {
        check_refused(err, &e);
        return;
    }
    err = config_read(&c, text, bytes, path, weights >= 0, &refused, &e);
    if (err)
        check_refused(err, &e);
    else
        imported_close(&c.m);
    mem_free(refused);
    mem_free(text);
    if (weights >= 0)
        (void)close(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    write_file(data + 1, size - 1);
    if (data[0] % 2)
        import();
    else
        open_archive();
    return 0;
}
