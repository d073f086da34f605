/* The contents of one part of the data, as a process has read it, so that two processes, or two starts, can compare theirs:
 * a digest of all of it, and a weak one of each file, which names the files that differ. Neither depends on
 * paths or on compression. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* the most entries in a hello, whose head is bounded; more files share entries, in groups of consecutive ones */
enum { CONTENTS_ENTRIES_MAX = 2048 };

struct contents_file {
    char *name;
    uint64_t bytes, digest; /* bytes: decompressed; digest: XXH3 */
    uint64_t rows;          /* 0: none, or a file of labels */
};

/* The digests as they travel. `digest` and `bytes` (entries): of `group` files each, the last one of the rest. */
struct contents_print {
    uint64_t rows; /* that the files have; the reader sets it. 0: not known */
    uint64_t files;
    size_t entries;
    uint64_t *digest, *bytes;
};

struct contents_digests;
struct contents {
    /* Set by contents_finish, as `print` is. SHA-256 of all contents, in order. Of text: the same of the XXH3 of its pieces, and
     * with CONTENTS_FAST in place of the first two bytes and the last two: earlier releases have that of the SHA-256 of its pieces. */
    uint8_t fingerprint[32];
    bool fast;          /* it is of text */
    uint8_t before[32]; /* as these have it */
    bool knows_before;  /* it has been made */
    struct contents_print print;
    size_t files;
    struct contents_file *file;
    struct contents_digests *open; /* until contents_finish */
};

/* *c: zeros. Errors: ERR_NOMEM. */
enum err contents_begin(struct contents *c, struct errmsg *e) MUST_CHECK;
/* The next file begins; what is added from now on belongs to it. Copies the name. A failure is remembered, and
 * contents_finish returns it. */
void contents_file(struct contents *c, const char *name);
/* Add to the digests. */
void contents_add(struct contents *c, const void *data, size_t bytes);
/* Add to the size of the file. */
void contents_count(struct contents *c, uint64_t bytes);
/* Add to the rows of the file. */
void contents_rows(struct contents *c, uint64_t rows);
/* Its files are text, of whose pieces the digests of XXH3 are added. */
static inline void contents_of_text(struct contents *c)
{
    c->fast = true;
}
/* Errors: ERR_NOMEM. */
enum err contents_finish(struct contents *c, struct errmsg *e) MUST_CHECK;
void contents_close(struct contents *c); /* zeros are allowed */

/* The fingerprint as hex. */
enum { CONTENTS_HEX_BYTES = 65 };
void contents_hex(const struct contents *c, char hex[CONTENTS_HEX_BYTES]);
/* Whether another process has read the same. fingerprint_bytes: any number, from a peer. */
bool contents_same(const struct contents *c, const uint8_t *fingerprint, size_t fingerprint_bytes);
/* The same of a fingerprint as hex, or at least the first 8 digits of one. True, too, of one of an earlier release if `before` is
 * not known. */
bool contents_same_hex(const struct contents *c, const char *hex);
/* Whether a fingerprint is an earlier release's, and nothing tells if it is of the same text: `before` is not known. */
bool contents_is_untold(const struct contents *c, const uint8_t fingerprint[static 32]);
/* Mark a fingerprint as one of text. */
#define CONTENTS_FAST "x3"
void contents_mark(uint8_t fingerprint[static 32]);
/* Writes how they differ, with this process's names of files: "it has 1 rows, the chief 2; b.csv differs (4 bytes, 5 at the
 * chief)". `own`: the name of this process. *other is a peer's, and needs no valid values. */
void contents_differ(const struct contents *c, const struct contents_print *other, const char *own,
                     char *out, size_t bytes);
/* The path here of the first file that differs; NULL if the files cannot be compared one by one. It is of *c. */
const char *contents_differing(const struct contents *c, const struct contents_print *other);
/* For the process whose data are the other ones: as contents_differ, but with its own names of files. `peer`: the name of
 * the process that has compared, whose contents are *other; `path`: contents_differing there, from the peer. Writes
 * nothing and returns false if the files cannot be compared one by one. */
bool contents_differ_here(const struct contents *c, const struct contents_print *other,
                          const char *peer, const char *path, char *out, size_t bytes);
