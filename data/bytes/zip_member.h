/* A member of a zip archive, as in numpy's .npz. libzip reads it; this adds error texts and limits. */
#ifndef GRADWIRE_DATA_BYTES_ZIP_MEMBER_H
#define GRADWIRE_DATA_BYTES_ZIP_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

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
bool zip_member_is_packed(const struct zip_member *m);
void zip_member_close(struct zip_member *m);

/* By the file's first bytes. A file .npz or .keras with other bytes before the archive counts, so that opening it reports
 * them. Reads up to 64 KiB at the file's end. */
bool zip_is_archive(const char *path);
/* The names of all members, without ".npy", in the archive's order: (n), the caller's (mem_free). A control
 * character is shown as '?', so no member with one is found by that name. Errors: as zip_member_open. */
enum err zip_members(const char *path, char (**names)[ZIP_MEMBER_NAME_MAX], size_t *n,
                     struct errmsg *e) MUST_CHECK;

#endif
