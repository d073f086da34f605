/* The decompressed bytes of a data file: plain, gzip or zstd, recognized by the file's first bytes, not by its name;
 * or of a member of a zip archive. All readers of formats use it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* A member of a zip archive, as in numpy's .npz. libzip reads it; this adds error texts and limits. */
enum { ZIP_MEMBER_NAME_MAX = 256, ZIP_MEMBERS_MAX = 1000 };

struct zip_member;

/* `name`: of the member, with or without ".npy". Owns: *m is the caller's; zip_member_close. Errors: ERR_INPUT: no
 * such file or member, not an archive, or a member that is encrypted or compressed in another way than numpy's;
 * ERR_NOMEM; ERR_IO. Their text names the file. */
enum err zip_member_open(struct zip_member **m, const char *path, const char *name,
                         struct errmsg *e) MUST_CHECK;
/* As stream_read. */
enum err zip_member_read(struct zip_member *m, void *out, size_t bytes, size_t *got,
                         struct errmsg *e) MUST_CHECK;
/* The most bytes that it can have, by the archive's size. */
uint64_t zip_member_bound_bytes(const struct zip_member *m);
void zip_member_close(struct zip_member *m);

/* By the file's first bytes. A file .npz or .keras with other bytes before the archive counts, so that opening it reports
 * them. Reads up to 64 KiB at the file's end. */
bool zip_is_archive(const char *path);
/* The names of all members, without ".npy", in the archive's order: (n), the caller's (mem_free). A control
 * character is shown as '?', so no member with one is found by that name. Errors: as zip_member_open. */
enum err zip_members(const char *path, char (**names)[ZIP_MEMBER_NAME_MAX], size_t *n,
                     struct errmsg *e) MUST_CHECK;

struct stream;

#define STREAM_STDIN "-"

/* Open a regular file for reading from its beginning. STREAM_STDIN is stdin, of which the first bytes are awaited. Owns: *s is
 * the caller's; stream_close. Errors: ERR_INPUT: not there, not readable, not a regular file, or compressed by xz or bzip2;
 * ERR_IO: the machine's fault; ERR_NOMEM. */
enum err stream_open(struct stream **s, const char *path, struct errmsg *e) MUST_CHECK;

/* The same for a member of a zip archive. */
enum err stream_open_member(struct stream **s, const char *path, const char *member,
                            struct errmsg *e) MUST_CHECK;

/* Read `bytes` decompressed bytes to `out`; *got is less only at the end of the file. Members of gzip and frames of zstd
 * follow each other; zeros can follow the last member. Errors: ERR_INPUT: corrupt, the file ends inside its compressed data,
 * other data follow them, or at the end: the file has changed since it was opened; ERR_IO; ERR_NOMEM. Their text does not name
 * the file. */
enum err stream_read(struct stream *s, void *out, size_t bytes, size_t *got,
                     struct errmsg *e) MUST_CHECK;

/* ---- from the middle of a compressed file ---- */

enum { STREAM_FRAME_MOST_BYTES = 64 << 20 };
/* Places in a compressed file at which decompression can begin, in their order, as bytes to be kept or sent. Zeros: none yet. */
struct stream_points {
    uint8_t *data; /* the caller's (mem_free) */
    size_t bytes, capacity;
};
/* Before the first read: add to *to, which must outlive *s, the places that are found while the stream is read to its end. Those within
 * members of gzip, which take about 12 KiB, are every_bytes of text from each other, or 1 MiB if it is less. From then on
 * stream_read refuses a frame of zstd of more than STREAM_FRAME_MOST_BYTES, as it has no place in it. */
void stream_note_points(struct stream *s, struct stream_points *to, uint64_t every_bytes);
/* As stream_open, at the byte `at` of the decompressed ones. points: of a file with the same bytes, or a peer's. Their text does not
 * name the file. Errors: also those of stream_read. */
enum err stream_open_at(struct stream **s, const char *path, const uint8_t *points,
                        size_t points_bytes, uint64_t at, struct errmsg *e) MUST_CHECK;

/* The most bytes that a file of this size and compression can decompress to: a limit for what its header can claim,
 * before anything is allocated. Exact for a plain file. */
uint64_t stream_bound_bytes(const struct stream *s);
/* The likely decompressed size, by the ratio of the bytes read so far. Exact for a plain file. */
uint64_t stream_likely_bytes(const struct stream *s);
int stream_is_compressed(const struct stream *s);

void stream_close(struct stream *s);
