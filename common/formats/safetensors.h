/* The format of safetensors files: the header's bytes (u64), the header (JSON: name -> dtype, shape, data_offsets; and
 * "__metadata__"), spaces up to a multiple of 8, then the tensors. Nothing in a file is trusted.
 * Format: https://github.com/huggingface/safetensors#format */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/err.h"
#include "common/place/place.h"

enum { SAFETENSORS_RANK_MAX = 8 };

/* ---- reading ---- */

struct safetensors {
    const char *path; /* borrowed; its name in messages */
    int fd;
    struct place_reader *in;      /* instead of fd; NULL: fd */
    bool borrowed;                /* the file is the caller's, and stays open */
    uint64_t data_at, data_bytes; /* of the tensors, after the header */
    json_t *header;
};

/* Errors: ERR_NOTFOUND, ERR_IO, ERR_NOMEM; ERR_CORRUPT: not a safetensors file, or two tensors have the same name or the same
 * bytes, or leave a gap. Owns: safetensors_close. */
enum err safetensors_open(struct safetensors *s, const char *path, struct errmsg *e) MUST_CHECK;
/* The same of an open file, which stays the caller's. */
enum err safetensors_open_fd(struct safetensors *s, int fd, const char *path,
                             struct errmsg *e) MUST_CHECK;
/* The same of an object. *file must outlive *s, which closes it. Errors: as place_open, too. */
enum err safetensors_open_in(struct safetensors *s, const struct place *p, const char *name,
                             struct place_reader *file, struct errmsg *e) MUST_CHECK;
void safetensors_close(struct safetensors *s);

/* Read `said`, the entry of a tensor in the header. False: `said` is NULL, or it has no type, or its shape has a value that is no
 * whole number, or more than SAFETENSORS_RANK_MAX of them. */
struct safetensors_entry {
    const char *type; /* of *said */
    uint32_t rank;
    uint64_t shape[SAFETENSORS_RANK_MAX];
};
bool safetensors_entry(const json_t *said, struct safetensors_entry *entry);
/* The tensor's offsets after the header. False: they are no two whole numbers in order. */
bool safetensors_offsets(const json_t *said, uint64_t *begin, uint64_t *end);
/* The tensor's position in the file, which must have all its bytes, `bytes` of them. Errors: ERR_CORRUPT, with `name`. */
enum err safetensors_place(const struct safetensors *s, const char *name, const json_t *said,
                           uint64_t bytes, uint64_t *at, struct errmsg *e) MUST_CHECK;
/* "(3, 4)", for messages. Returns `out`. */
enum { SAFETENSORS_SHAPE_BYTES = 160 };
const char *safetensors_shape_text(const json_t *said, char out[SAFETENSORS_SHAPE_BYTES]);

/* A tensor (rows) or (rows, cols), all of it in the file. */
struct safetensors_array {
    uint64_t at; /* offset in the file */
    uint64_t rows, cols;
};
/* Find the tensor `name` of this rank and type ("U64"), whose elements have `elem_bytes`. Errors: ERR_CORRUPT, naming the
 * file and the tensor. */
enum err safetensors_array(const struct safetensors *s, const char *name, const char *type,
                           uint32_t rank, size_t elem_bytes, struct safetensors_array *a,
                           struct errmsg *e) MUST_CHECK;

/* Read all of `bytes` at an offset of the file. Errors: ERR_IO; ERR_CORRUPT: the file ends before. */
enum err safetensors_read(const struct safetensors *s, void *out, uint64_t bytes, uint64_t at,
                          struct errmsg *e) MUST_CHECK;

/* ---- writing ---- */

/* Append a tensor to a header: its `bytes` follow *at bytes of those before, and *at then counts them, too.
 * Errors: ERR_NOMEM; ERR_STATE: the header has the name. */
enum err safetensors_add(json_t *header, const char *name, const char *type, uint32_t rank,
                         const uint64_t *shape, uint64_t bytes, uint64_t *at) MUST_CHECK;
/* The file's first bytes with this header, for mem_free; NULL: out of memory. */
char *safetensors_begin(const json_t *header, size_t *bytes);
