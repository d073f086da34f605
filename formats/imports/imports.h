/* The model of another program's file as a job's model and its first weights. Nothing in a file is trusted.
 *
 * Happy path: the file's nodes, one by one -> a sketch of layers (sketch.h) and the values of their tensors -> our model of
 * these layers, whose tensors get these values.
 * Failure modes: the file is damaged; it has operators or options that a job cannot have: all of them are listed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"
#include "model/model.h"

/* The result of an import of another program's model: the model of a job, and its first weights. */
struct imported {
    char *yaml;          /* the job's part `model:` */
    float scale;         /* the job's data.scale */
    struct model *model; /* made from it */
    float *w;            /* (elems of model_layout(model)); NULL: the file has no weights */
    /* For the job's parts optimizer and training: "optimizer: {sgd: {momentum: 0.9}}\n", "  learning_rate: 0.1\n". NULL: the
     * file does not say. */
    char *optimizer, *training;
    char *notes; /* guesses and changes: lines, each with its line feed; "": nothing */
};

void imported_close(struct imported *m);

/* The model of a job with this part `model:`; `name` is the text's name in messages. chose: import chose its loss, and this
 * is what the user can do if the loss does not fit; NULL: the file has the loss. Owns: *m is the caller's (model_free).
 * Errors: ERR_INPUT, ERR_NOMEM. */
enum err imported_model(struct model **m, const char *name, const char *yaml, const char *chose,
                        struct errmsg *e) MUST_CHECK;

/* Append "  metrics: [..]" to the yaml, with those that fit m->model. The others are noted: neither predictions nor training
 * depend on them. Errors: ERR_NOMEM. */
enum err imported_add_metrics(struct imported *m, const enum metric_kind *kind,
                              uint32_t n) MUST_CHECK;

/* Read an ONNX model: https://onnx.ai/onnx/. Owns: *m is the caller's (imported_close), unchanged on error. *refused: NULL, or
 * with ERR_INPUT the caller's (mem_free): a line for each operator or option that a job cannot have. Errors: ERR_INPUT,
 * ERR_CORRUPT, ERR_IO, ERR_NOMEM; their text names the file. */
enum err imports_onnx(struct imported *m, const char *path, char **refused,
                      struct errmsg *e) MUST_CHECK;
/* The same from memory, for tests; `path` is its name in messages. Tensors in other files are not read. */
enum err imports_onnx_bytes(struct imported *m, const char *path, const uint8_t *data, size_t bytes,
                            char **refused, struct errmsg *e) MUST_CHECK;

/* Weights of a safetensors file by the names of a job's tensors, or by the names that PyTorch gives: the first weights of a
 * model whose layers a job file has. Nothing in the file is trusted.
 *
 * PyTorch's LAYER.weight, LAYER.bias, LAYER.running_mean and LAYER.running_var become kernel, bias, gamma and so on, as the
 * kind of layer needs. A matrix (out, in) becomes (in, out), a kernel (out, in, height, width) becomes (height, width, in,
 * out). The rows of a matrix after images that were flattened with channels first are brought into the job's order. */
struct named {
    struct model *model;
    float *w;        /* (elems of model_layout(model)) */
    bool *found;     /* (tensors) the file has it */
    uint32_t n;      /* number of these */
    uint32_t others; /* number of the file's other tensors */
};

/* True if the file begins as a safetensors file. */
bool named_is_safetensors(const char *path);

/* renames: "OLD=NEW" each: a tensor whose name begins with OLD counts as one that begins with NEW. The job's input shape is
 * known. Owns: *m is the caller's (named_close), unchanged on error. Errors: ERR_INPUT, ERR_CORRUPT, naming the file and the
 * tensor; ERR_IO, ERR_NOMEM. */
enum err named_read(struct named *m, const char *path, const struct job *job,
                    const char *const *renames, size_t n_renames, struct errmsg *e) MUST_CHECK;
void named_close(struct named *m);
