/* The bytes of a data file, decompressed: plain, gzip or zstd, told apart by how the file begins,
 * not by its name; or of a member of a zip archive. Every reader of a format stands on this. */
#ifndef GRADWIRE_WORKER_DATA_BYTES_STREAM_H
#define GRADWIRE_WORKER_DATA_BYTES_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct stream;

/* Open a regular file for reading from its beginning.
 * Owns: *s is the caller's; stream_close.
 * Errors: ERR_INPUT not there, not readable, not a regular file, compressed by xz or bzip2; ERR_IO the machine's fault;
 * ERR_NOMEM. */
enum err stream_open(struct stream **s, const char *path, struct errmsg *e) MUST_CHECK;

/* A member of a zip archive (zip_member.h), in the same way. */
enum err stream_open_member(struct stream **s, const char *path, const char *member,
                            struct errmsg *e) MUST_CHECK;

/* Read `bytes` decompressed bytes straight to `out`; *got is less only at the end of the file.
 * Errors: ERR_INPUT corrupt or ends inside its compressed data; ERR_IO; ERR_NOMEM. Their text does
 * not name the file. */
enum err stream_read(struct stream *s, void *out, size_t bytes, size_t *got,
                     struct errmsg *e) MUST_CHECK;

/* The most bytes that a file of this size and compression can decompress to: a limit for what its
 * header may ask for, before anything is allocated. Exact for a plain file. */
uint64_t stream_bound_bytes(const struct stream *s);
/* The likely size when decompressed, by the ratio of the bytes read so far. Exact for a plain file. */
uint64_t stream_likely_bytes(const struct stream *s);
int stream_is_compressed(const struct stream *s);

void stream_close(struct stream *s);

#endif
