/* A graph as a SavedModel of TensorFlow (https://www.tensorflow.org/guide/saved_model): a directory with the file
 * saved_model.pb, which has the tag "serve", the signature "serving_default" with the graph's inputs and its output by
 * their names, and all weights as constants.
 *
 * Tables of words are filled by the operation that the signature __saved_model_init_op names. TensorFlow and TensorFlow
 * Serving run it when they load the model. */
#pragma once

#include "common/base/err.h"
#include "formats/graph/graph.h"

/* Write the directory `path`. It appears with its file, or not at all; if only the fsync of its name failed, it is there
 * after an error. If it exists, it must be empty or have only saved_model.pb, which is replaced. The same graph gives the
 * same bytes. told: is given the file's size before it is written; NULL: nobody. Errors: ERR_INPUT: another file is there,
 * or the model is larger than protobuf allows (2 GiB); ERR_IO; ERR_NOMEM. */
enum err saved_model_write(const char *path, const struct graph *g, graph_told *told,
                           struct errmsg *e) MUST_CHECK;

/* Whether TensorFlow's Python can load such a SavedModel (tf.saved_model.load): it makes a parameter of a function of
 * each input, and changes characters of the name for that. Other programs, such as TensorFlow Serving, load any.
 * Errors: ERR_INPUT names the inputs, ERR_NOMEM. */
enum err saved_model_check_names(const struct graph *g, struct errmsg *e) MUST_CHECK;
