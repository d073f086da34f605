/* The elements of an ONNX tensor and the attributes of a node. Nothing in them is trusted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "proto/formats/onnx.pb-c.h"

enum { ONNX_RANK_MAX = 8 };

/* The number of elements. False: a dimension is negative, or there are too many, or the bytes do not fit them, or they are
 * in another file, or it is of another kind than numbers. */
bool onnx_tensor_elems(const Onnx__Tensor *t, uint64_t *elems);
/* The bytes of its elements, wherever they are. False: a dimension is negative, or there are too many, or it is of another
 * kind than numbers. */
bool onnx_tensor_bytes(const Onnx__Tensor *t, uint64_t *bytes);
/* Element i, below onnx_tensor_elems. */
double onnx_tensor_at(const Onnx__Tensor *t, uint64_t i);

const Onnx__Attribute *onnx_attribute(const Onnx__Node *n, const char *name);
int64_t onnx_int(const Onnx__Node *n, const char *name, int64_t otherwise);
double onnx_float(const Onnx__Node *n, const char *name, double otherwise);
/* Copies up to `room` integers. Returns their number; 0: no such attribute. */
size_t onnx_ints(const Onnx__Node *n, const char *name, int64_t *out, size_t room);
/* True if the attribute is missing or is this text. */
bool onnx_text_is(const Onnx__Node *n, const char *name, const char *text);

/* The tensors of an ONNX graph that are in other files ("external data"), as torch.onnx.export writes them today:
 * https://github.com/onnx/onnx/blob/main/docs/ExternalData.md. */

/* Read them into the graph, as if they had been in the model's file. path: of the model. Only regular files in its folder, or
 * below it, are read; neither the file nor a folder on the way to it may be a link.
 * Owns: the graph, as the rest of it. Errors: ERR_INPUT, ERR_IO, ERR_NOMEM; the text names the tensor. */
enum err onnx_external_read(Onnx__Graph *g, const char *path, struct errmsg *e) MUST_CHECK;
