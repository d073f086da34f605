/* Data that consist of arrays, each a file or a member of one. An array of rank 1 has labels, one of a higher rank
 * has rows. The files of rows and those of labels are matched in pairs. A format only tells an array's type and
 * shape (idx.c, npy.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/process/paths.h"
#include "data/readers.h"
#include "data/bytes/stream.h"

/* ---- elements ---- */

enum element {
    ELEMENT_NONE, /* not a type that can be read */
    ELEMENT_U8,
    ELEMENT_I8,
    ELEMENT_I16,
    ELEMENT_I32,
    ELEMENT_F32,
    ELEMENT_F64,
    ELEMENT_U16,
    ELEMENT_U32,
    ELEMENT_U64,
    ELEMENT_I64,
    ELEMENT_F16,
};
enum { ELEMENT_BYTES_MAX = 8 };

size_t element_bytes(enum element type); /* 0 for ELEMENT_NONE */

/* An element as a double, which is nearest to an integer of 64 bits. */
double element_double(const uint8_t *p, enum element type, bool little);
/* Convert `n` elements, big-endian (little: little-endian), to the nearest floats. Returns how many are finite, up
 * to the first that is not. from: n * element_bytes(type). */
size_t element_floats(float *out, const uint8_t *from, size_t n, enum element type, bool little);

/* ---- arrays ---- */

enum { ARRAY_RANK_MAX = TENSOR_RANK_MAX + 1, ARRAY_TAG_MAX = 160 };

struct array_file {
    const char *path; /* a view: the name that the user gave, also used in messages */
    uint32_t rank, dim[ARRAY_RANK_MAX]; /* dim[0]: rows */
    enum element type;
    bool little;               /* little-endian */
    bool truth;                /* bytes, of which each that is not 0 means 1 */
    size_t header_bytes;       /* size of the part before the elements */
    uint64_t row_bytes, bytes; /* row_bytes: of one row; bytes: of all rows, without the header */
    /* the bytes that the data's fingerprint has for the array before its elements */
    uint8_t tag[ARRAY_TAG_MAX];
    size_t tag_bytes;
};

struct array_format {
    const char *name; /* "idx files" */
    /* f->path is set, all else is 0; *s is then at the first element. Errors: ERR_INPUT and others, naming the path. */
    enum err (*open)(struct array_file *f, struct stream **s, struct errmsg *e);
    /* Replace each file by the names of its arrays; NULL: a file is one array. unlabeled: as in struct reading. */
    enum err (*list)(struct paths *p, bool unlabeled, struct errmsg *e);
    /* labels can have the shape (n, 1), if no array has the shape (n); of two such arrays the first has rows */
    bool thin_labels;
};

/* Set dim[i] and all that follows from the dimensions. Errors: ERR_INPUT: a dimension of 0 within a row, or a row
 * that is too large. */
enum err array_set_dims(struct array_file *f, uint32_t rank, const uint32_t *dim,
                        struct errmsg *e) MUST_CHECK;
/* Read exactly so many bytes of the header. `before`: bytes already read; `total`: size of the header. */
enum err array_read_exactly(struct stream *s, uint8_t *out, size_t bytes, uint64_t before,
                            uint64_t total, struct errmsg *e) MUST_CHECK;
/* Before anything is allocated: check that a file of this size can have what its header claims. */
enum err array_check_size(const struct array_file *f, const struct stream *s,
                          struct errmsg *e) MUST_CHECK;

/* A reader (readers.h). */
enum err arrays_load(struct dataset *d, const struct reading *r, const struct array_format *format,
                     struct errmsg *e) MUST_CHECK;
