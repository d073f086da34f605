/* A graph as an ONNX file (https://onnx.ai/onnx/operators/), with the standard operators of version 18 and LabelEncoder
 * of ai.onnx.ml version 2, which onnxruntime runs from release 1.15 on. The graph's inputs and its output keep their
 * names; all weights are in the file. */
#pragma once

#include "common/base/err.h"
#include "formats/graph/graph.h"

/* Write the file. Atomic. The same graph gives the same bytes. told: is given the file's size before it is written; NULL:
 * nobody. Errors: ERR_INPUT: the model is larger than protobuf allows (2 GiB); ERR_IO; ERR_NOMEM. */
enum err onnx_write(const char *path, const struct graph *g, graph_told *told,
                    struct errmsg *e) MUST_CHECK;

/* The bytes that a key and the number of its row take in the file: graph_options.key_bytes. */
uint64_t onnx_key_bytes(uint64_t key, uint64_t number);
