/* Shared by the writers and the readers of safetensors files. Format: https://github.com/huggingface/safetensors#format */
#ifndef GRADWIRE_EXPORT_SAFETENSORS_H
#define GRADWIRE_EXPORT_SAFETENSORS_H

#include <jansson.h>

#include "common/process/files.h"

/* Write a file's first bytes: the size of the header, the header (JSON text), and spaces up to a multiple of 8.
 * Errors: as files_append. */
enum err safetensors_write_header(struct files_writer *w, const char *text,
                                  struct errmsg *e) MUST_CHECK;

/* ---- safetensors_read.c: nothing in a file is trusted ---- */

/* An open file. */
struct safetensors {
    const char *path; /* borrowed */
    int fd;
    uint64_t data_at, data_bytes; /* after the header */
    json_t *header;
};
/* Errors: as export_check_safetensors. Owns: safetensors_close. */
enum err safetensors_open(struct safetensors *s, const char *path, struct errmsg *e) MUST_CHECK;
void safetensors_close(struct safetensors *s);

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

/* The header's "__metadata__", a new reference; an empty object if the header has none. Errors:
 * as export_check_safetensors. */
enum err safetensors_metadata(const char *path, json_t **metadata, struct errmsg *e) MUST_CHECK;

#endif
