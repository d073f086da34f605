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
#include "formats/imports/imported.h"

/* Read an ONNX model: https://onnx.ai/onnx/. Owns: *m is the caller's (imported_close), unchanged on error. *refused: NULL, or
 * with ERR_INPUT the caller's (mem_free): a line for each operator or option that a job cannot have. Errors: ERR_INPUT,
 * ERR_CORRUPT, ERR_IO, ERR_NOMEM; their text names the file. */
enum err imports_onnx(struct imported *m, const char *path, char **refused,
                      struct errmsg *e) MUST_CHECK;
/* The same from memory, for tests; `path` is its name in messages. Tensors in other files are not read. */
enum err imports_onnx_bytes(struct imported *m, const char *path, const uint8_t *data, size_t bytes,
                            char **refused, struct errmsg *e) MUST_CHECK;

#endif
