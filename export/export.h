/* The files of a trained model in DIR/model. */
#ifndef GRADWIRE_EXPORT_EXPORT_H
#define GRADWIRE_EXPORT_EXPORT_H

#include <jansson.h>

#include "common/base/err.h"
#include "common/base/sha256.h"
#include "job/job.h"
#include "common/parameters/layout.h"

/* An entry of the header's "__metadata__". */
enum { EXPORT_NOTE_BYTES = 80 }; /* room for a name, a digest, a number */
struct export_note {
    const char *key;
    char value[EXPORT_NOTE_BYTES];
};

/* Write weights.safetensors: the tensors in the order of the layout, F32, shapes as in the layout. Atomic. w:
 * (l->elems). Format: https://github.com/huggingface/safetensors#format Errors: ERR_IO, ERR_NOMEM; ERR_STATE: two
 * tensors have the same name. */
enum err export_safetensors(const char *path, const struct layout *l, const float *w,
                            const struct export_note *notes, size_t n_notes,
                            struct errmsg *e) MUST_CHECK;

/* Write such a file again with one more note, or with another value of one. l, w: its contents. Errors: as
 * export_safetensors and export_check_safetensors. */
enum err export_add_note(const char *path, const struct layout *l, const float *w,
                         const struct export_note *note, struct errmsg *e) MUST_CHECK;

/* Check that such a file, from any program and in any order, has all of the layout's tensors:
 * F32, with their shapes and bytes. It may have other tensors too. Errors: ERR_NOTFOUND, ERR_IO, ERR_NOMEM;
 * ERR_CORRUPT, naming the file and the tensor. */
enum err export_check_safetensors(const char *path, const struct layout *l,
                                  struct errmsg *e) MUST_CHECK;
/* The same, and read the values into w (l->elems, gaps zero). */
enum err export_read_safetensors(const char *path, const struct layout *l, float *w,
                                 struct errmsg *e) MUST_CHECK;
/* The tensors of a layout that a file has. */
struct export_found {
    bool *tensor;    /* (l->tensors) the file has it */
    uint32_t n;      /* number of these */
    uint32_t others; /* number of the file's other tensors */
};
/* Read the tensors of the layout that the file has into w (l->elems); the rest of w is unchanged. The caller owns
 * found->tensor (mem_free), NULL on error. Errors: as above; ERR_INPUT: a tensor of another type or shape, or with a
 * value that is not finite; or the file has no tensor of the layout. */
enum err export_find_safetensors(const char *path, const struct layout *l, float *w,
                                 struct export_found *found, struct errmsg *e) MUST_CHECK;
/* All of the file's notes, a new reference; an empty object if it has none. Errors: as export_check_safetensors. */
enum err export_notes(const char *path, json_t **notes, struct errmsg *e) MUST_CHECK;
/* Read the note `key` of the file; *there is false if it has none that fits. Errors: as above; ERR_NOTFOUND: no file. */
enum err export_note(const char *path, const char *key, char *out, size_t bytes, bool *there,
                     struct errmsg *e) MUST_CHECK;

/* SHA-256 over name (without a NUL), shape (u32 rank then u32 dims, little-endian) and little-endian bytes of each
 * tensor in the order of weights.safetensors. hex: 64 characters and a NUL; empty if OpenSSL has no memory. w:
 * (l->elems). With tables the digest continues with name (without a NUL), dimension (u32) and table[i] of each table
 * i of l->rows, in ascending order of their names; NULL: without tables. */
void export_digest(const struct layout *l, const float *w, const uint8_t (*table)[SHA256_BYTES],
                   char hex[65]);

#endif
