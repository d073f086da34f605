/* The decompressed bytes of a data file: plain, gzip or zstd, recognized by the file's first bytes, not by its name;
 * or of a member of a zip archive. All readers of formats use it. */
#ifndef GRADWIRE_DATA_BYTES_STREAM_H
#define GRADWIRE_DATA_BYTES_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct stream;

#define STREAM_STDIN "-"

/* Open a regular file for reading from its beginning. STREAM_STDIN is stdin, of which the first bytes are awaited. Owns: *s is
 * the caller's; stream_close. Errors: ERR_INPUT: not there, not readable, not a regular file, or compressed by xz or bzip2;
 * ERR_IO: the machine's fault; ERR_NOMEM. */
enum err stream_open(struct stream **s, const char *path, struct errmsg *e) MUST_CHECK;

/* The same for a member of a zip archive (zip_member.h). */
enum err stream_open_member(struct stream **s, const char *path, const char *member,
                            struct errmsg *e) MUST_CHECK;

/* Read `bytes` decompressed bytes to `out`; *got is less only at the end of the file. Members of gzip and frames of zstd
 * follow each other; zeros can follow the last member. Errors: ERR_INPUT: corrupt, the file ends inside its compressed data,
 * other data follow them, or at the end: the file has changed since it was opened; ERR_IO; ERR_NOMEM. Their text does not name
 * the file. */
enum err stream_read(struct stream *s, void *out, size_t bytes, size_t *got,
                     struct errmsg *e) MUST_CHECK;

/* The most bytes that a file of this size and compression can decompress to: a limit for what its header can claim,
 * before anything is allocated. Exact for a plain file. */
uint64_t stream_bound_bytes(const struct stream *s);
/* The likely decompressed size, by the ratio of the bytes read so far. Exact for a plain file. */
uint64_t stream_likely_bytes(const struct stream *s);
int stream_is_compressed(const struct stream *s);

void stream_close(struct stream *s);

#endif
