/* Data that are arrays, each of a file or a member of one: one of rank 1 holds labels, one of a higher rank holds rows. Rows
 * and labels match together and go in pairs. What a format adds is how an array says its type and shape (idx.c, npy.c). */
#ifndef GRADWIRE_WORKER_DATA_ARRAYS_H
#define GRADWIRE_WORKER_DATA_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/process/paths.h"
#include "worker/data/bytes/elements.h"
#include "worker/data/readers.h"
#include "worker/data/bytes/stream.h"

enum { ARRAY_RANK_MAX = TENSOR_RANK_MAX + 1, ARRAY_TAG_MAX = 160 };

struct array_file {
    const char *path;                   /* a view: of what was named, in messages, too */
    uint32_t rank, dim[ARRAY_RANK_MAX]; /* dim[0]: rows */
    enum element type;
    bool little;                /* its lowest byte first */
    size_t header_bytes;        /* before the elements */
    uint64_t row_bytes, bytes;  /* of one row; of all of them, without the header */
    uint8_t tag[ARRAY_TAG_MAX]; /* what the data's fingerprint has of it, before its elements */
    size_t tag_bytes;
};

struct array_format {
    const char *name; /* "idx files" */
    /* f->path is given, the rest is 0; *s then stands before the elements. Errors: ERR_INPUT and others, naming the path. */
    enum err (*open)(struct array_file *f, struct stream **s, struct errmsg *e);
    /* Name the arrays of each file, in place of it; NULL: a file is one. */
    enum err (*list)(struct paths *p, struct errmsg *e);
    bool thin_labels; /* labels may be of shape (n, 1), where none are of (n) */
};

/* Set dim[i], and what follows from all of them. Errors: ERR_INPUT a dimension of 0, a row that is too large. */
enum err array_set_dims(struct array_file *f, uint32_t rank, const uint32_t *dim,
                        struct errmsg *e) MUST_CHECK;
/* Exactly so many bytes of the header, of which `before` have been read and `total` are asked for. */
enum err array_read_exactly(struct stream *s, uint8_t *out, size_t bytes, uint64_t before,
                            uint64_t total, struct errmsg *e) MUST_CHECK;
/* Before anything is allocated: can a file of this size hold what its header asks for? */
enum err array_check_size(const struct array_file *f, const struct stream *s,
                          struct errmsg *e) MUST_CHECK;

/* A reader (readers.h). */
enum err arrays_load(struct dataset *d, const struct reading *r, const struct array_format *format,
                     struct sha256 *digest, struct errmsg *e) MUST_CHECK;

#endif
