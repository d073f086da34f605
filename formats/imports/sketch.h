/* The layers that an import has found so far: their text in the job file, the values of their tensors, and everything that
 * a job cannot have. If memory runs out, the sketch keeps the error, and all further calls do nothing. */
#ifndef GRADWIRE_FORMATS_IMPORTS_SKETCH_H
#define GRADWIRE_FORMATS_IMPORTS_SKETCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"
#include "job/job.h"
#include "job/keys.h"
#include "formats/imports/imports.h"

struct sketch_part { /* the values of one tensor */
    char name[TENSOR_NAME_MAX];
    uint64_t elems;
    float *value; /* (elems) */
};

struct sketch {
    bool failed; /* out of memory */
    FILE *layer_lines, *refused_lines, *note_lines;
    char *layer_text, *refused_text, *note_text;
    size_t layer_bytes, refused_bytes, note_bytes;
    uint32_t layers, refusals;
    char name[JOB_LAYERS_MAX][JOB_NAME_MAX]; /* of the layers */
    uint32_t parts;
    struct sketch_part *part;
};

/* Owns: sketch_close, also after a failure. */
void sketch_init(struct sketch *s);
void sketch_close(struct sketch *s);

/* Add a layer. wanted: a name from the file, of which the layer's own is made, or ""; input: names of `inputs` layers or
 * "input"; options: "units: 3, use_bias: false", or "". Returns the layer's name, which stays valid; NULL: out of memory,
 * or there are too many layers, which is refused. */
const char *sketch_layer(struct sketch *s, const char *word, const char *wanted,
                         const char *const *input, uint32_t inputs, const char *options, ...)
    PRINTF_LIKE(6, 7);
/* Returns zeros (elems) for the tensor LAYER/WHAT; NULL: out of memory. */
float *sketch_part(struct sketch *s, const char *layer, const char *what, uint64_t elems);
/* Note something that a job cannot have, or a guess. Bytes of the file that are not printable become '?'. */
void sketch_refuse(struct sketch *s, const char *format, ...) PRINTF_LIKE(2, 3);
void sketch_note(struct sketch *s, const char *format, ...) PRINTF_LIKE(2, 3);

/* Make the model. input_shape: "28, 28"; tail: lines of the part `model:` after the layers ("  loss: mse\n"). Fills *m
 * except scale. *refused: as imports_onnx. Errors: ERR_INPUT, ERR_NOMEM. */
enum err sketch_finish(struct sketch *s, const char *input_shape, const char *tail,
                       struct imported *m, char **refused, struct errmsg *e) MUST_CHECK;

#endif
