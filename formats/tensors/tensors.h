/* A list of named float32 tensors in a safetensors file without gaps: how gradwire-hdf5 and its callers exchange weights. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/formats/safetensors.h"

enum { TENSORS_RANK_MAX = SAFETENSORS_RANK_MAX, TENSORS_MAX = 1 << 16, TENSORS_NAME_MAX = 1024 };
#define TENSORS_BYTES_MAX (UINT64_C(1) << 40) /* of all tensors */

struct tensor_entry {
    char *name;
    uint32_t rank;
    uint64_t shape[TENSORS_RANK_MAX];
    uint64_t bytes, at; /* at: offset of its floats, after the header */
};

struct tensors { /* zeros: an empty list */
    size_t n;
    uint64_t bytes; /* of all */
    struct tensor_entry *entry;
};

/* Append a tensor, whose floats follow those of the one before. The list is unchanged on error. Errors: ERR_NOMEM;
 * ERR_INPUT: the name is not UTF-8; ERR_TOOBIG, naming the tensor: its name, rank or size, or the list, is over the limits
 * above. */
enum err tensors_add(struct tensors *t, const char *name, uint32_t rank, const uint64_t *shape,
                     struct errmsg *e) MUST_CHECK;
/* NULL: the list has no such name. */
const struct tensor_entry *tensors_find(const struct tensors *t, const char *name);
void tensors_close(struct tensors *t);

/* Read and write the header of the file `fd`; `path` is its name in messages. *data_at is the offset of the floats,
 * after the header. Errors: ERR_IO, ERR_NOMEM; ERR_CORRUPT: no safetensors file, or one with other types than F32 or with
 * gaps. *t is the caller's (tensors_close), unchanged on error. */
enum err tensors_read_header(struct tensors *t, int fd, const char *path, uint64_t *data_at,
                             struct errmsg *e) MUST_CHECK;
enum err tensors_write_header(const struct tensors *t, int fd, const char *path, uint64_t *data_at,
                              struct errmsg *e) MUST_CHECK;

/* Read all of `bytes` at an offset of the file. Errors: ERR_IO; ERR_CORRUPT: the file ends before. */
enum err tensors_read_values(int fd, const char *path, void *out, uint64_t bytes, uint64_t at,
                             struct errmsg *e) MUST_CHECK;
