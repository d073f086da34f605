/* The tensors of an ONNX graph that are in other files ("external data"), as torch.onnx.export writes them today:
 * https://github.com/onnx/onnx/blob/main/docs/ExternalData.md. */
#ifndef GRADWIRE_FORMATS_IMPORTS_ONNX_EXTERNAL_H
#define GRADWIRE_FORMATS_IMPORTS_ONNX_EXTERNAL_H

#include "common/base/err.h"
#include "proto/formats/onnx.pb-c.h"

/* Read them into the graph, as if they had been in the model's file. path: of the model. Only regular files in its folder, or
 * below it, are read; neither the file nor a folder on the way to it may be a link.
 * Owns: the graph, as the rest of it. Errors: ERR_INPUT, ERR_IO, ERR_NOMEM; the text names the tensor. */
enum err onnx_external_read(Onnx__Graph *g, const char *path, struct errmsg *e) MUST_CHECK;

#endif
