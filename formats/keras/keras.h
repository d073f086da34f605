/* Trained models as .keras archives of Keras 3, and models of Keras as a job's. */
#pragma once

#include <stdbool.h>

#include "common/base/err.h"
#include "formats/imports/imports.h"
#include "predict/folder.h"

/* ---- export.c ----
 *
 * A trained model as a .keras archive: a Functional model of Keras' own layers, which Keras 3 loads without code of ours.
 * Its inputs are what the first layers read (docs/reference/export.md): `features`, the encoded features of csv rows, or
 * `input`, rows of other data before data.scale; and for each layer that looks up a table, the layer's vectors, named as the
 * layer. */

/* Write the file. The same model gives the same bytes. Atomic. Errors: ERR_IO, ERR_NOMEM; those of hdf5_run. */
enum err keras_export(const char *path, const struct folder *f, struct errmsg *e) MUST_CHECK;

/* Called for each input and then the output: "features", "(n, 108)". */
typedef void keras_value(void *arg, const char *name, const char *shape);
/* The inputs and the output of the model that keras_export writes. Errors: ERR_NOMEM. */
enum err keras_values(const struct folder *f, keras_value *value, void *arg,
                      struct errmsg *e) MUST_CHECK;

/* ---- import.c ----
 *
 * A Keras 3 model as a job's model and its first weights. Reads .keras archives, and JSON files with the text of
 * model.to_json(), which have no weights.
 *
 * Happy path: config.json -> the layers as YAML -> the layout of our model of them -> model.weights.h5, read by
 * gradwire-hdf5 (hdf5.h), into it.
 * Failure modes: the file is damaged, or has layers or options that a job cannot have; then `refused` lists them all. */

/* True if the file is for keras_import: by its first bytes, a zip archive, a JSON object, or HDF5 (which it refuses, and says
 * what to do). */
bool keras_is_model(const char *path);

/* Owns: *m is the caller's (imported_close), unchanged on error. *refused: NULL, or with ERR_INPUT the caller's
 * (mem_free): a line for each layer or option that a job cannot have, with what to do. Errors: ERR_INPUT, ERR_CORRUPT,
 * ERR_TIMEOUT, ERR_IO, ERR_NOMEM; their text names the file. */
enum err keras_import(struct imported *m, const char *path, char **refused,
                      struct errmsg *e) MUST_CHECK;
