/* A Keras 3 model as a job's model and its first weights. Reads .keras archives, and JSON files with the text of
 * model.to_json(), which have no weights.
 *
 * Happy path: config.json -> the layers as YAML -> the layout of our model of them -> model.weights.h5, read by
 * gradwire-hdf5 (hdf5.h), into it.
 * Failure modes: the file is damaged, or has layers or options that a job cannot have; then `refused` lists them all. */
#ifndef GRADWIRE_FORMATS_KERAS_IMPORT_H
#define GRADWIRE_FORMATS_KERAS_IMPORT_H

#include <stdbool.h>

#include "common/base/err.h"
#include "formats/imports/imports.h"

/* True if the file is for keras_import: by its first bytes, a zip archive, a JSON object, or HDF5 (which it refuses, and says
 * what to do). */
bool keras_is_model(const char *path);

/* Owns: *m is the caller's (imported_close), unchanged on error. *refused: NULL, or with ERR_INPUT the caller's
 * (mem_free): a line for each layer or option that a job cannot have, with what to do. Errors: ERR_INPUT, ERR_CORRUPT,
 * ERR_TIMEOUT, ERR_IO, ERR_NOMEM; their text names the file. */
enum err keras_import(struct imported *m, const char *path, char **refused,
                      struct errmsg *e) MUST_CHECK;

#endif
