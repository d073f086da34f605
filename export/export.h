/* The files of a trained model, in a place: DIR/model, DIR/best, or a user's folder. */
#pragma once

#include <jansson.h>

#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/parameters/layout.h"
#include "common/place/place.h"
#include "data/dataset.h"
#include "data/table.h"
#include "job/job.h"
#include "model/evaluation.h"
#include "model/model.h"

/* An entry of the header's "__metadata__". */
enum { EXPORT_NOTE_BYTES = 80 }; /* room for a name, a digest, a number */
struct export_note {
    const char *key;
    char value[EXPORT_NOTE_BYTES];
};

/* Write weights.safetensors: the tensors in the order of the layout, F32, shapes as in the layout. Atomic. w:
 * (l->elems). Format: https://github.com/huggingface/safetensors#format Errors: ERR_IO, ERR_NOMEM; ERR_STATE: two
 * tensors have the same name. */
#define EXPORT_WEIGHTS "weights.safetensors"
enum err export_safetensors(const struct place *model, const struct layout *l, const float *w,
                            const struct export_note *notes, size_t n_notes,
                            struct errmsg *e) MUST_CHECK;

/* Write the file again with one more note, or with another value of one. l, w: its contents. Errors: as
 * export_safetensors and export_read_safetensors. */
enum err export_add_note(const struct place *model, const struct layout *l, const float *w,
                         const struct export_note *note, struct errmsg *e) MUST_CHECK;

/* Read the file, from any program and in any order, into w (l->elems, gaps zero; NULL: only check it). It must have all of the
 * layout's tensors, F32, with their shapes and bytes, and no others. Errors: ERR_NOTFOUND, ERR_IO, ERR_NOMEM; ERR_CORRUPT,
 * naming the file and the tensor. */
enum err export_read_safetensors(const struct place *model, const struct layout *l, float *w,
                                 struct errmsg *e) MUST_CHECK;
/* The tensors of a layout that a file has. */
struct export_found {
    bool *tensor;    /* (l->tensors) the file has it */
    uint32_t n;      /* number of these */
    uint32_t others; /* number of the file's other tensors */
};
/* Read the tensors of the layout that such a file, at any path, has into w (l->elems); the rest of w is unchanged. The caller owns
 * found->tensor (mem_free), NULL on error. Errors: as above; ERR_INPUT: a tensor of another type or shape, or with a
 * value that is not finite; or the file has no tensor of the layout. */
enum err export_find_safetensors(const char *path, const struct layout *l, float *w,
                                 struct export_found *found, struct errmsg *e) MUST_CHECK;
/* All of the file's notes, a new reference; an empty object if it has none. Errors: as export_read_safetensors. */
enum err export_notes(const struct place *model, json_t **notes, struct errmsg *e) MUST_CHECK;
/* Read the note `key` of the file; *there is false if it has none that fits. Errors: as above; ERR_NOTFOUND: no file. */
enum err export_note(const struct place *model, const char *key, char *out, size_t bytes,
                     bool *there, struct errmsg *e) MUST_CHECK;

/* SHA-256 over name (without a NUL), shape (u32 rank then u32 dims, little-endian) and little-endian bytes of each
 * tensor in the order of weights.safetensors. hex: 64 characters and a NUL; empty if OpenSSL has no memory. w:
 * (l->elems). With tables the digest continues with name (without a NUL), dimension (u32) and table[i] of each table
 * i of l->rows, in ascending order of their names; NULL: without tables. */
void export_digest(const struct layout *l, const float *w, const uint8_t (*table)[SHA256_BYTES],
                   char hex[65]);

/* encoding.json, next to a model that was trained on a csv; docs/reference/encoding.md defines its contents. */

/* Make the file's text; *text is the caller's (free). The same schema gives the same bytes. Errors: ERR_NOMEM. */
enum err export_encoding_text(const struct job *job, const struct table_schema *s, char **text,
                              struct errmsg *e) MUST_CHECK;
/* Write the file. `s`: as the training part has taught it. Atomic. Errors: ERR_IO, ERR_NOMEM. */
enum err export_encoding(const struct place *model, const struct job *job,
                         const struct table_schema *s, struct errmsg *e) MUST_CHECK;

/* manifest.json of a model's directory: what made the model, and what it is, for programs that read no YAML.
 * docs/reference/files.md defines its contents. The same model gives the same bytes. */
#define MODEL_MANIFEST "manifest.json"

/* The evaluation data of another process. */
struct model_manifest_evaluator {
    uint64_t rows;
    const char *fingerprint; /* hexadecimal */
};

struct model_manifest {
    const struct job *job; /* input shape and features are known (dataset_tell) */
    const struct model *model;
    const struct dataset *data;
    const struct source *eval;                        /* NULL: this process has no eval data */
    const struct model_manifest_evaluator *evaluator; /* then: of its data; NULL: there is none */
    uint64_t step, epoch;                             /* of the weights; epoch 0: not known */
    const struct evaluation *trained, *evaluated;     /* of that epoch; NULL: not known */
    const char *digest;                               /* of the weights and tables */
};

/* Write manifest.json, with the size and the SHA-256 of each file that is in the place and its folder `tables`: so call it
 * when they are complete. Atomic. Errors: ERR_IO, ERR_NOMEM, ERR_INPUT (the job's text cannot be read back). */
enum err model_manifest_write(const struct model_manifest *m, const struct place *at,
                              struct errmsg *e) MUST_CHECK;

/* Compare the files of the place and of its folder `tables` with their SHA-256 in manifest.json, but not job.yaml, which a person may
 * change. *there: there is a manifest that has them. Reads all of their bytes. Errors: ERR_CORRUPT, naming the file whose content
 * is another one, or the manifest if it is no JSON, or has a key twice; ERR_IO, ERR_NOMEM. */
enum err model_manifest_check(const struct place *at, bool *there, struct errmsg *e) MUST_CHECK;

/* The same for one file, if a manifest next to it has its SHA-256. Errors: as model_manifest_check. */
enum err model_manifest_check_file(const char *path, struct errmsg *e) MUST_CHECK;

/* The fingerprint of the data that the model was trained on, in hexadecimal; "": there is no manifest that has it. Errors:
 * ERR_CORRUPT: the manifest is no JSON, or has a key twice. */
enum err model_manifest_data(const struct place *at, char hex[static CONTENTS_HEX_BYTES],
                             struct errmsg *e) MUST_CHECK;

/* Remove the file: the other files are about to change. A missing file is no error. Errors: ERR_IO. */
enum err model_manifest_remove(const struct place *at, struct errmsg *e) MUST_CHECK;
