/* Arrays that grow row by row, each in a file that no one sees; at the end an npz archive, or an npy file, of them. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "model_cli/output.h"

/* The header of an npy file, in NPY_HEADER_BYTES, so that it can be written again when the number of rows is known. Format:
 * numpy's NEP 1, version 1.0. */
enum { NPY_HEADER_BYTES = 192 };

/* descr: the type of the elements, such as "<f4". The array has the shape (rows, dim[0], ..), of 1 + rank dimensions; rank is
 * at most NPY_RANK_MAX. */
enum { NPY_RANK_MAX = 4 };
void npy_file_header(struct text *t, const char *descr, uint64_t rows, uint32_t rank,
                     const uint32_t *dim);

enum array_kind {
    ARRAY_F32,
    ARRAY_F64,
    ARRAY_I64,
    ARRAY_WORDS /* UTF-8: a row is array_word; numpy's type is <U */
};

struct array_file {
    char *name; /* the caller's */
    enum array_kind kind;
    uint32_t rank, dim[NPY_RANK_MAX]; /* of a row; rank 0: one element */
    int fd;                           /* -1: not open */
    const char *path;                 /* of the output, for errors */
    uint32_t longest;                 /* ARRAY_WORDS: characters of the longest word */
};

/* Open the array's file next to `path`, which must stay; the other fields are set. Errors: ERR_INPUT: it cannot be made. */
enum err array_file_open(struct array_file *a, const char *path, struct errmsg *e) MUST_CHECK;
void array_file_close(struct array_file *a);

/* A word, as the text that array_file_put expects. */
void array_word(struct text *t, const char *word, size_t bytes);

/* Add rows: their elements, or words. Errors: ERR_IO; ERR_INPUT: a word is not UTF-8; ERR_NOMEM. */
enum err array_file_put(struct array_file *a, const struct text *t, struct errmsg *e) MUST_CHECK;

/* Write the archive; `rows` were put into each array. Atomic, and the same arrays give the same bytes. Errors: ERR_IO,
 * ERR_NOMEM. */
enum err array_file_npz(struct array_file *a, uint32_t n, uint64_t rows, const char *path,
                        struct errmsg *e) MUST_CHECK;
/* The same for one array as an npy file. */
enum err array_file_npy(struct array_file *a, uint64_t rows, const char *path,
                        struct errmsg *e) MUST_CHECK;
