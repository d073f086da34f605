/* The model of another program's file as a job's model and its first weights. Nothing in a file is trusted.
 *
 * Happy path: the file's nodes, one by one -> a sketch of layers (sketch.h) and the values of their tensors -> our model of
 * these layers, whose tensors get these values.
 * Failure modes: the file is damaged; it has operators or options that a job cannot have: all of them are listed. */
#ifndef GRADWIRE_FORMATS_IMPORTS_IMPORTS_H
#define GRADWIRE_FORMATS_IMPORTS_IMPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "worker/model/model.h"

struct imported {
    char *yaml;          /* the job's part `model:` */
    float scale;         /* the job's data.scale */
    struct model *model; /* made from it */
    float *w;            /* (elems of model_layout(model)) */
    char *notes;         /* guesses and changes: lines, each with its line feed */
};

/* Read an ONNX model: https://onnx.ai/onnx/. Owns: *m is the caller's (imported_close), unchanged on error. *refused: NULL, or
 * with ERR_INPUT the caller's (mem_free): a line for each operator or option that a job cannot have. Errors: ERR_INPUT,
 * ERR_CORRUPT, ERR_IO, ERR_NOMEM; their text names the file. */
enum err imports_onnx(struct imported *m, const char *path, char **refused,
                      struct errmsg *e) MUST_CHECK;
/* The same from memory, for tests; `path` is its name in messages. */
enum err imports_onnx_bytes(struct imported *m, const char *path, const uint8_t *data, size_t bytes,
                            char **refused, struct errmsg *e) MUST_CHECK;
void imported_close(struct imported *m);

/* Make the model of a job's part `model:`, without data. *m is the caller's (model_free). Errors: ERR_INPUT: it is no
 * model; ERR_NOMEM. */
enum err imports_model(const char *yaml, struct model **m, struct errmsg *e) MUST_CHECK;

#endif
