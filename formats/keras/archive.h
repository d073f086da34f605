/* A .keras archive: a zip file with metadata.json, config.json and model.weights.h5, which are stored without compression
 * and without times. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <zip.h>

#include "common/base/err.h"

/* Write the archive. weights: an open file with the bytes of model.weights.h5. Atomic. Errors: ERR_IO, ERR_NOMEM; their text
 * names the file. */
enum err archive_write(const char *path, const char *config, int weights,
                       struct errmsg *e) MUST_CHECK;

/* Read config.json (*config: the caller's, mem_free) and model.weights.h5 (*weights: an open file, the caller's; -1: the
 * archive has none). Nothing in the archive is trusted. Errors: ERR_INPUT, ERR_TOOBIG, ERR_IO, ERR_NOMEM; their text names
 * the file. */
enum err archive_read(const char *path, char **config, size_t *bytes, int *weights,
                      struct errmsg *e) MUST_CHECK;

/* Add the whole file `fd`, by a descriptor of its own, to an archive as a member without compression and time. It is read when
 * the archive is closed. False: libzip has the error. */
bool archive_add_file(zip_t *zip, const char *name, int fd, zip_flags_t encoding);
