/* The digests are made while the bytes pass. As contents travel between processes, neighbouring files share an entry, so that the
 * number of files does not make a message long. */
#include "common/process/contents.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/sha256.h"

struct contents_digests {
    struct sha256 *all;
    XXH3_state_t *file; /* of the last file */
    bool failed;
};

/* ---- while it is read ---- */

static void digests_free(struct contents_digests *d)
{
    if (!d)
        return;
    sha256_free(d->all);
    (void)XXH3_freeState(d->file);
    mem_free(d);
}

enum err contents_begin(struct contents *c, struct errmsg *e)
{
    struct contents_digests *d = mem_zalloc(1, sizeof *d);
    assert(!c->open && c->files == 0);
    if (!d)
        return err_memory(e);
    d->all = sha256_new();
    d->file = XXH3_createState();
    if (!d->all || !d->file || XXH3_64bits_reset(d->file) != XXH_OK) {
        digests_free(d);
        return err_memory(e);
    }
    c->open = d;
    return ERR_OK;
}

static void end_file(struct contents *c)
{
    if (c->files)
        c->file[c->files - 1].digest = XXH3_64bits_digest(c->open->file);
}

void contents_file(struct contents *c, const char *name)
{
    end_file(c);
    struct contents_file *file = mem_extend(c->file, c->files, 1, sizeof *file);
    c->file = file ? file : c->file;
    char *copy = file ? mem_strdup(name) : NULL;
    bool reset = XXH3_64bits_reset(c->open->file) == XXH_OK; /* also without a copy: bytes follow */
    c->open->failed |= !copy || !reset;
    if (copy)
        c->file[c->files++] = (struct contents_file){.name = copy};
}

void contents_add(struct contents *c, const void *data, size_t bytes)
{
    sha256_add(c->open->all, data, bytes);
    c->open->failed |= XXH3_64bits_update(c->open->file, data, bytes) != XXH_OK;
}

void contents_count(struct contents *c, uint64_t bytes)
{
    if (c->files)
        c->file[c->files - 1].bytes += bytes;
}

void contents_rows(struct contents *c, uint64_t rows)
{
    if (c->files)
        c->file[c->files - 1].rows += rows;
}

/* ---- as it travels ---- */

static size_t group_of(uint64_t files)
{
    return (size_t)(files / CONTENTS_ENTRIES_MAX + (files % CONTENTS_ENTRIES_MAX != 0));
}

/* An entry for one file has the file's own digest. */
static uint64_t join(uint64_t all, uint64_t digest, bool first)
{
    const uint64_t both[] = {all, digest};
    return first ? digest : XXH3_64bits(both, sizeof both);
}

static bool make_print(struct contents *c)
{
    struct contents_print *p = &c->print;
    size_t group = group_of(c->files);
    p->files = c->files;
    p->entries = group ? (c->files + group - 1) / group : 0;
    p->digest = mem_zalloc(p->entries + 1, sizeof *p->digest);
    p->bytes = mem_zalloc(p->entries + 1, sizeof *p->bytes);
    if (!p->digest || !p->bytes)
        return false;
    for (size_t i = 0; i < c->files; i++) {
        size_t at = i / group;
        p->digest[at] = join(p->digest[at], c->file[i].digest, i % group == 0);
        p->bytes[at] += c->file[i].bytes;
    }
    return true;
}

enum err contents_finish(struct contents *c, struct errmsg *e)
{
    end_file(c);
    bool done = !c->open->failed && !sha256_final(c->open->all, c->fingerprint) && make_print(c);
    if (done && c->fast)
        contents_mark(c->fingerprint);
    digests_free(c->open);
    c->open = NULL;
    return done ? ERR_OK : err_memory(e);
}

void contents_close(struct contents *c)
{
    digests_free(c->open);
    for (size_t i = 0; i < c->files; i++)
        mem_free(c->file[i].name);
    mem_free(c->file);
    mem_free(c->print.digest);
    mem_free(c->print.bytes);
    *c = (struct contents){.files = 0};
}

/* ---- comparison ---- */

void contents_hex(const struct contents *c, char hex[CONTENTS_HEX_BYTES])
{
    for (size_t i = 0; i < sizeof c->fingerprint; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", c->fingerprint[i]);
}

bool contents_same(const struct contents *c, const uint8_t *fingerprint, size_t fingerprint_bytes)
{
    return fingerprint_bytes == sizeof c->fingerprint &&
           (memcmp(fingerprint, c->fingerprint, fingerprint_bytes) == 0 ||
            (c->knows_before && memcmp(fingerprint, c->before, fingerprint_bytes) == 0));
}

enum { MARK_BYTES = sizeof CONTENTS_FAST - 1 };

void contents_mark(uint8_t fingerprint[static 32])
{
    memcpy(fingerprint, CONTENTS_FAST, MARK_BYTES);
    memcpy(fingerprint + 32 - MARK_BYTES, CONTENTS_FAST, MARK_BYTES);
}

bool contents_is_untold(const struct contents *c, const uint8_t fingerprint[static 32])
{
    uint8_t marked[32];
    memcpy(marked, fingerprint, sizeof marked);
    contents_mark(marked);
    return c->fast && !c->knows_before && memcmp(marked, fingerprint, sizeof marked) != 0;
}

bool contents_same_hex(const struct contents *c, const char *hex)
{
    char own[CONTENTS_HEX_BYTES];
    struct contents before = {.files = 0};
    contents_hex(c, own);
    if (strncmp(hex, own, strlen(hex)) == 0)
        return true;
    if (!c->fast || strncmp(hex, own, (size_t)2 * MARK_BYTES) == 0)
        return false;
    memcpy(before.fingerprint, c->before, sizeof before.fingerprint);
    contents_hex(&before, own);
    return !c->knows_before || strncmp(hex, own, strlen(hex)) == 0;
}

struct text {
    char *out;
    size_t bytes, at;
};

static void put(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct text *t, const char *fmt, ...)
{
    va_list args;
    if (t->at >= t->bytes)
        return;
    va_start(args, fmt);
    t->at += printable_vformat(t->out + t->at, t->bytes - t->at, fmt, args);
    va_end(args);
}

/* The end of a long path tells more than its beginning. */
static const char *shown(const char *name)
{
    enum { SHOWN_MAX = 100 };
    return printable_end(name, SHOWN_MAX);
}

static void put_name(struct text *t, const struct contents *c, size_t entry)
{
    size_t group = group_of(c->files), first = entry * group;
    size_t last = first + group < c->files ? first + group - 1 : c->files - 1;
    put(t, "%s", shown(c->file[first].name));
    if (last > first)
        put(t, " or a file up to %s", shown(c->file[last].name));
}

static bool has(const uint64_t *digest, size_t n, uint64_t wanted)
{
    for (size_t i = 0; i < n; i++)
        if (digest[i] == wanted)
            return true;
    return false;
}

enum { NAMED_MAX = 3 };

/* "and 4 more", if more than NAMED_MAX were found. */
static void put_rest(struct text *t, size_t found)
{
    if (found > NAMED_MAX)
        put(t, ", and %zu more", found - NAMED_MAX);
}

/* Files of ours that the other has not read, wherever they are in its order. Returns how many there are. */
static size_t put_lacking(struct text *t, const struct contents *c,
                          const struct contents_print *other)
{
    size_t found = 0;
    for (size_t i = 0; i < c->print.entries; i++) {
        if (has(other->digest, other->entries, c->print.digest[i]) || found++ >= NAMED_MAX)
            continue;
        put(t, found == 1 ? ", and not " : ", ");
        put_name(t, c, i);
    }
    put_rest(t, found);
    return found;
}

/* The sizes at the process with the other data, and at `judge`, which has compared them. `path`: the file's there, if
 * that is not the name in the text; or NULL. */
static void put_sizes(struct text *t, uint64_t bytes, uint64_t right, const char *judge,
                      const char *path)
{
    const char *in = path ? " in " : "", *file = path ? path : "";
    if (bytes == right)
        put(t, " differs (%" PRIu64 " bytes, as at %s%s%s, but other ones)", bytes, judge, in,
            file);
    else
        put(t, " differs (%" PRIu64 " bytes, %" PRIu64 " at %s%s%s)", bytes, right, judge, in,
            file);
}

/* of: the contents at the process with the other data; right: those at `judge`. One of them is c->print. */
static void put_different(struct text *t, const struct contents *c, const struct contents_print *of,
                          const struct contents_print *right, const char *judge, const char *path)
{
    size_t found = 0;
    for (size_t i = 0; i < of->entries; i++) {
        if (of->digest[i] == right->digest[i] || found++ >= NAMED_MAX)
            continue;
        put(t, found == 1 ? "" : ", ");
        put_name(t, c, i);
        put_sizes(t, of->bytes[i], right->bytes[i], judge, found == 1 ? path : NULL);
    }
    put_rest(t, found);
    if (!found)
        put(t, "its contents differ");
}

/* They have the same number of entries. */
static bool reordered(const struct contents_print *a, const struct contents_print *b)
{
    bool moved = false;
    for (size_t i = 0; i < a->entries; i++)
        if (!has(b->digest, b->entries, a->digest[i]) || !has(a->digest, a->entries, b->digest[i]))
            return false;
        else
            moved |= a->digest[i] != b->digest[i];
    return moved;
}

/* of: at the process with the other data; right: at `judge`. */
static void put_rows(struct text *t, uint64_t of, uint64_t right, const char *judge)
{
    if (of && right && of != right)
        put(t, "it has %" PRIu64 " rows, %s %" PRIu64 "; ", of, judge, right);
}

void contents_differ(const struct contents *c, const struct contents_print *other, const char *own,
                     char *out, size_t bytes)
{
    struct text t = {out, bytes, 0};
    const struct contents_print *p = &c->print;
    if (bytes)
        out[0] = '\0';
    put_rows(&t, other->rows, p->rows, own);
    if (other->files != p->files || other->entries != p->entries) {
        put(&t, "it has read %" PRIu64 " files, %s %" PRIu64, other->files, own, p->files);
        if (group_of(other->files) <= 1 && group_of(p->files) == 1)
            (void)put_lacking(&t, c, other);
    } else if (reordered(p, other)) {
        put(&t, "it has read the same files in another order");
    } else {
        put_different(&t, c, other, p, own, NULL);
    }
}

/* Both have the same number of files, in the same order. */
static bool one_by_one(const struct contents_print *a, const struct contents_print *b)
{
    return a->files == b->files && a->entries == b->entries && !reordered(a, b);
}

const char *contents_differing(const struct contents *c, const struct contents_print *other)
{
    if (!one_by_one(&c->print, other))
        return NULL;
    for (size_t i = 0; i < other->entries; i++)
        if (other->digest[i] != c->print.digest[i])
            return c->file[i * group_of(c->files)].name;
    return NULL;
}

bool contents_differ_here(const struct contents *c, const struct contents_print *other,
                          const char *peer, const char *path, char *out, size_t bytes)
{
    struct text t = {out, bytes, 0};
    const char *own = contents_differing(c, other);
    if (!own)
        return false;
    put_rows(&t, c->print.rows, other->rows, peer);
    put_different(&t, c, &c->print, other, peer, *path && strcmp(path, own) ? shown(path) : NULL);
    return true;
}
