/* libFuzzer: files of other programs that gradwire import and model.weights read: ONNX and safetensors. They are taken over,
 * or refused with a message.
 * Input: a byte, then the file: 0 modulo 4: ONNX; 1: safetensors with names of PyTorch; 2: first weights of a job; 3: the list
 * that gradwire-hdf5 exchanges, and the arrays of a table. */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/formats/safetensors.h"
#include "formats/imports/imports.h"
#include "formats/tensors/tensors.h"
#include "export/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void must(int ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0, "no file");
    must(write(fd, data, size) == (ssize_t)size && close(fd) == 0, "the file is not written");
}

static void must_refuse(enum err err, const struct errmsg *e)
{
    must(err != ERR_OK && e->text[0] != 0, "no reason given");
}

/* A job whose layers have every kind of tensor. */
static const struct job *job(void)
{
    static const char text[] =
        "model: {input: {shape: [4, 4, 2]}, loss: mse, layers: [{conv2d: {filters: 2, kernel_size: "
        "2, "
        "name: c}}, {batch_normalization: {name: n}}, flatten, {dense: {units: 2, name: d}}, "
        "{layer_normalization: {name: l}}, {dense: {units: 1, name: e}}]}\n"
        "optimizer: sgd\n"
        "data: {format: synthetic}\n";
    static struct job made;
    struct errmsg e;
    if (!made.name[0]) {
        log_init("fuzz", LOG_ERROR);
        (void)snprintf(path, sizeof path, "/tmp/gradwire-import-fuzz-%d", (int)getpid());
        (void)atexit(remove_file);
        must(job_parse(&made, text, sizeof text - 1, "job.yaml", "/", NULL, 0, &e) == ERR_OK,
             e.text);
    }
    return &made;
}

static void import_onnx(const uint8_t *data, size_t size)
{
    struct imported m;
    struct errmsg e = {""};
    char *refused = NULL;
    enum err err = imports_onnx_bytes(&m, "fuzz.onnx", data, size, &refused, &e);
    mem_free(refused);
    if (err) {
        must_refuse(err, &e);
        return;
    }
    must(m.w && m.model && m.yaml && isfinite(m.scale) && m.scale > 0, "half a model");
    imported_close(&m);
}

static void import_named(void)
{
    static const char *const renames[] = {"a.=c.", "b=d", NULL};
    struct named m;
    struct errmsg e = {""};
    enum err err = named_read(&m, path, job(), renames, 2, &e);
    if (err) {
        must_refuse(err, &e);
        return;
    }
    must(m.n > 0, "no tensor");
    named_close(&m);
}

static void find_first_weights(void)
{
    struct model *m = NULL;
    struct errmsg e = {""};
    struct export_found found = {.n = 0};
    must(model_new(&m, job(), &e) == ERR_OK, e.text);
    const struct layout *l = model_layout(m);
    float *w = mem_floats(l->elems);
    enum err err = export_find_safetensors(path, l, w, &found, &e);
    if (err)
        must_refuse(err, &e);
    else
        must(found.n > 0, "no tensor");
    mem_free(found.tensor);
    mem_free(w);
    model_free(m);
}

/* A list that is read is written again, and read the same. */
static void write_again(const struct tensors *list)
{
    struct tensors again = {0};
    struct errmsg e = {""};
    uint64_t at = 0, read_at = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0, "no file");
    must(tensors_write_header(list, fd, path, &at, &e) == ERR_OK, e.text);
    must(ftruncate(fd, (off_t)(at + list->bytes)) == 0, "no data");
    must(tensors_read_header(&again, fd, path, &read_at, &e) == ERR_OK, e.text);
    must(read_at == at && again.n == list->n && again.bytes == list->bytes, "another list");
    for (size_t i = 0; i < again.n; i++)
        must(strcmp(again.entry[i].name, list->entry[i].name) == 0, "another name");
    tensors_close(&again);
    (void)close(fd);
}

static void read_list(void)
{
    struct tensors list = {0};
    struct errmsg e = {""};
    uint64_t at;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0, "no file");
    enum err err = tensors_read_header(&list, fd, path, &at, &e);
    (void)close(fd);
    if (err)
        must_refuse(err, &e);
    else
        write_again(&list);
    tensors_close(&list);
}

static void read_arrays(void)
{
    static const struct {
        const char *name, *type;
        uint32_t rank, bytes;
    } of[] = {{"keys", "U64", 1, 8}, {"rows", "F32", 2, 4}};
    struct safetensors s;
    struct errmsg e = {""};
    enum err err = safetensors_open(&s, path, &e);
    if (err) {
        must_refuse(err, &e);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        struct safetensors_array a;
        err = safetensors_array(&s, of[i].name, of[i].type, of[i].rank, of[i].bytes, &a, &e);
        if (err)
            must_refuse(err, &e);
        else
            must(a.at >= s.data_at && a.at - s.data_at <= s.data_bytes &&
                     a.rows * a.cols * of[i].bytes <= s.data_at + s.data_bytes - a.at,
                 "an array beyond the file");
    }
    safetensors_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    (void)job();
    if (data[0] % 4 == 0) {
        import_onnx(data + 1, size - 1);
        return 0;
    }
    write_file(data + 1, size - 1);
    if (data[0] % 4 == 1) {
        import_named();
    } else if (data[0] % 4 == 2) {
        find_first_weights();
    } else {
        read_arrays();
        read_list();
    }
    return 0;
}
