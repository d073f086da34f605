/* Shared by the writers of safetensors files. Format: https://github.com/huggingface/safetensors#format */
#ifndef GRADWIRE_WORKER_EXPORT_SAFETENSORS_H
#define GRADWIRE_WORKER_EXPORT_SAFETENSORS_H

#include <jansson.h>

#include "common/process/files.h"

/* Write a file's first bytes: the size of the header, the header (JSON text), and spaces up to a multiple of 8.
 * Errors: as files_append. */
enum err safetensors_write_header(struct files_writer *w, const char *text,
                                  struct errmsg *e) MUST_CHECK;

/* safetensors_read.c: the header's "__metadata__", a new reference; an empty object if the header has none. Errors:
 * as export_check_safetensors. */
enum err safetensors_metadata(const char *path, json_t **metadata, struct errmsg *e) MUST_CHECK;

#endif
