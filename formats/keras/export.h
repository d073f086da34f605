/* A trained model as a .keras archive: a Functional model of Keras' own layers, which Keras 3 loads without code of ours.
 * Its inputs are what the first layers read (docs/reference/export.md): `features`, the encoded features of csv rows, or
 * `input`, rows of other data before data.scale; and for each layer that looks up a table, the layer's vectors, named as the
 * layer. */
#ifndef GRADWIRE_FORMATS_KERAS_EXPORT_H
#define GRADWIRE_FORMATS_KERAS_EXPORT_H

#include "common/base/err.h"
#include "predict/folder.h"

/* Write the file. The same model gives the same bytes. Atomic. Errors: ERR_IO, ERR_NOMEM; those of hdf5_run. */
enum err keras_export(const char *path, const struct folder *f, struct errmsg *e) MUST_CHECK;

/* Called for each input and then the output: "features", "(n, 108)". */
typedef void keras_value(void *arg, const char *name, const char *shape);
/* The inputs and the output of the model that keras_export writes. Errors: ERR_NOMEM. */
enum err keras_values(const struct folder *f, keras_value *value, void *arg,
                      struct errmsg *e) MUST_CHECK;

#endif
