/* Parquet files in pieces: a few rows of a batch of the module's, which frees it behind the last of them. The module is found where
 * the programs are. */
#include "data/arrow/parquet.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/sha256.h"

enum {
    BATCH_ROWS = 1 << 14,
    BATCH_VALUES = 1 << 21, /* of wide files a batch has fewer rows */
    PIECE_ROWS = 1 << 11,
    CHUNK_BYTES = 1 << 20,
    READ_BYTES = 1 << 18
};

/* Texts of a piece. */
struct parquet_chunk {
    struct parquet_chunk *next;
    size_t used, bytes;
    char at[];
};

/* ---- the module ---- */

#define TEXT_OF(name) #name
#define SYMBOL_OF(name) TEXT_OF(name)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct arrow_module *module;
static const char how[] = "run in gradwire's source tree: ./gradwire setup arrow; and, if gradwire "
                          "is installed: ./gradwire install";
static struct errmsg unloaded;

/* In build/arrow/ if this program is build/worker/worker, or installed: in lib/gradwire/ next to bin/. */
static void load_module(void)
{
    static const char *const place[] = {"../arrow", "../lib/gradwire"};
    char own[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof place / sizeof place[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s/gradwire-arrow.so", own, place[i]);
        if (access(path, F_OK) != 0)
            continue;
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        module = handle ? dlsym(handle, SYMBOL_OF(ARROW_MODULE)) : NULL;
        if (!module)
            (void)err_set(&unloaded, ERR_INPUT, "the module gradwire-arrow does not fit: %s; %s",
                          dlerror(), how);
        return;
    }
    (void)err_set(&unloaded, ERR_INPUT,
                  "Parquet files need the module gradwire-arrow, which is not there; %s", how);
}

static enum err load_once(const struct arrow_module **out, struct errmsg *e)
{
    (void)pthread_once(&once, load_module);
    if (!module)
        return err_set(e, ERR_INPUT, "%s", unloaded.text);
    *out = module;
    return ERR_OK;
}

/* ---- files ---- */

static enum err error_of(enum arrow_answer a, const struct arrow_why *why, struct errmsg *e)
{
    if (a == ARROW_NO_MEMORY)
        return err_memory(e);
    return err_set(e, ERR_INPUT, "%s", PRINTABLE(why->text));
}

static void file_unref(struct parquet_file *f)
{
    if (!f || atomic_fetch_sub(&f->refs, 1) > 1)
        return;
    if (f->arrow)
        f->module->close(f->arrow);
    if (f->schema.release)
        f->schema.release(&f->schema);
    if (f->fd >= 0)
        (void)close(f->fd);
    for (uint32_t i = 0; i < f->parts; i++) {
        mem_free(f->part[i].name);
        mem_free(f->part[i].value);
    }
    mem_free(f->part);
    mem_free(f->column);
    mem_free(f);
}

static struct parquet_file *file_ref(struct parquet_file *f)
{
    (void)atomic_fetch_add(&f->refs, 1);
    return f;
}

static void codes_unref(struct parquet_codes *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    for (uint32_t i = 0; i < c->columns; i++) {
        mem_free(c->of[i].key);
        mem_free(c->of[i].none);
    }
    (void)pthread_mutex_destroy(&c->lock);
    mem_free(c->of);
    mem_free(c);
}

static enum err codes_new(struct parquet_codes **out, uint32_t columns, struct errmsg *e)
{
    struct parquet_codes *c = mem_zalloc(1, sizeof *c);
    struct batch_codes *of = mem_zalloc(columns + (size_t)1, sizeof *of);
    if (!c || !of) {
        mem_free(c);
        mem_free(of);
        return err_memory(e);
    }
    *c = (struct parquet_codes){.refs = 1, .columns = columns, .of = of};
    (void)pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return ERR_OK;
}

static void batch_unref(struct parquet_batch *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    codes_unref(b->codes);
    if (b->rows.release)
        b->rows.release(&b->rows);
    file_unref(b->file);
    mem_free(b);
}

enum err parquet_new(struct parquet **out, struct errmsg *e)
{
    struct parquet *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return err_memory(e);
    enum err err = load_once(&p->module, e);
    if (err)
        mem_free(p);
    else
        *out = p;
    return err;
}

void parquet_close(struct parquet *p)
{
    batch_unref(p->batch);
    codes_unref(p->codes);
    file_unref(p->file);
    p->batch = NULL;
    p->codes = NULL;
    p->file = NULL;
}

void parquet_free(struct parquet *p)
{
    if (!p)
        return;
    parquet_close(p);
    file_unref(p->first);
    mem_free(p);
}

/* ---- partitions ---- */

/* The text, with %3A as ":". NULL: no memory. */
static char *unescape(const char *text, size_t bytes)
{
    char *out = mem_zalloc(bytes + 1, 1), *to = out;
    for (size_t i = 0; i < bytes && out; i++) {
        const char digits[] = {i + 2 < bytes ? text[i + 1] : '\0',
                               i + 2 < bytes ? text[i + 2] : '\0', '\0'};
        const bool is = text[i] == '%' && isxdigit((unsigned char)digits[0]) &&
                        isxdigit((unsigned char)digits[1]);
        *to++ = is ? (char)strtoul(digits, NULL, 16) : text[i];
        i += is ? 2 : 0;
    }
    return out;
}

static bool has_column(const struct parquet_file *f, const char *name)
{
    for (int64_t i = 0; i < f->schema.n_children; i++)
        if (strcmp(f->schema.children[i]->name, name) == 0)
            return true;
    return false;
}

/* A column that the file has is the file's. */
static enum err add_partition(struct parquet_file *f, const char *at, const char *equals,
                              const char *end, struct errmsg *e)
{
    static const char null[] = "__HIVE_DEFAULT_PARTITION__";
    struct parquet_part *parts = mem_extend(f->part, f->parts, 1, sizeof *parts);
    if (!parts)
        return err_memory(e);
    f->part = parts;
    struct parquet_part p = {.name = unescape(at, (size_t)(equals - at)),
                             .value = unescape(equals + 1, (size_t)(end - equals - 1))};
    const bool made = p.name && p.value, is = made && !has_column(f, p.name);
    if (!is || strcmp(p.value, null) == 0) {
        mem_free(p.value);
        p.value = NULL;
    }
    if (is)
        parts[f->parts++] = p;
    else
        mem_free(p.name);
    return made ? ERR_OK : err_memory(e);
}

/* Find the partitions in the path: day=2026-11-28 is a directory that names a column, as Hive and Spark write it. */
static enum err find_parts(struct parquet_file *f, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (const char *at = f->path, *end; !err && (end = strchr(at, '/')); at = end + 1) {
        const char *equals = memchr(at, '=', (size_t)(end - at));
        if (equals && equals > at)
            err = add_partition(f, at, equals, end, e);
    }
    return err;
}

static enum err open_parquet(struct parquet *p, struct parquet_file *f, struct errmsg *e)
{
    struct arrow_why why = {""};
    char magic[3];
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe may have no writer */
    if (f->fd < 0 || fstat(f->fd, &f->opened) != 0)
        return err_set(e, errno == ENOENT ? ERR_INPUT : err_of_errno(errno), "%s", strerror(errno));
    if (!S_ISREG(f->opened.st_mode))
        return err_set(e, ERR_INPUT, "%s",
                       S_ISDIR(f->opened.st_mode)
                           ? "it is a directory without a file *.parquet"
                           : "it is no regular file, and Parquet is read from its end");
    enum arrow_answer a = p->module->open(&f->arrow, f->fd, &why);
    if (a == ARROW_DONE)
        a = p->module->schema(f->arrow, &f->schema, &why);
    if (a == ARROW_WRONG && pread(f->fd, magic, sizeof magic, 0) == sizeof magic &&
        memcmp(magic, "PAR", sizeof magic) != 0)
        return err_set(e, ERR_INPUT,
                       "it is no Parquet file, which begins with PAR1: data.format must be its "
                       "format, and it must not be compressed as a whole");
    enum err err = a == ARROW_DONE ? find_parts(f, e) : error_of(a, &why, e);
    if (a != ARROW_DONE)
        return err_wrap(e, err, "its footer cannot be read: ");
    f->column = mem_zalloc((size_t)f->schema.n_children + f->parts + 1, sizeof *f->column);
    return err || f->column ? err : err_memory(e);
}

enum err parquet_open(struct parquet *p, const char *path, struct errmsg *e)
{
    struct parquet_file *f = mem_zalloc(1, sizeof *f);
    if (!f)
        return err_memory(e);
    *f = (struct parquet_file){.refs = 1, .module = p->module, .fd = -1, .path = path};
    enum err err = open_parquet(p, f, e);
    if (err) {
        file_unref(f);
        return err;
    }
    p->first = p->first ? p->first : file_ref(f);
    p->file = f;
    p->fresh = true;
    parquet_seek(p, 0);
    p->rows = p->left;
    p->left_bytes = (uint64_t)f->opened.st_size;
    return ERR_OK;
}

void parquet_seek(struct parquet *p, uint32_t group)
{
    const struct parquet_file *f = p->file;
    batch_unref(p->batch);
    p->batch = NULL;
    p->group = group;
    p->begun = false;
    p->left = 0;
    for (uint32_t i = group; i < p->module->groups(f->arrow); i++)
        p->left += p->module->rows(f->arrow, i);
}

uint64_t parquet_held(const struct parquet *p)
{
    return p->file ? p->module->held(p->file->arrow) : 0;
}

struct parquet_column *parquet_read(struct parquet *p, uint32_t column)
{
    struct parquet_file *f = p->file;
    struct parquet_column *c = &f->column[f->columns++];
    if (column < f->schema.n_children) {
        *c = (struct parquet_column){
            .of = column, .child = f->children++, .name = f->schema.children[column]->name};
        return c;
    }
    const struct parquet_part *part = &f->part[column - f->schema.n_children];
    *c = (struct parquet_column){.of = PARQUET_OF_PATH, .name = part->name, .value = part->value};
    c->type = part->absent ? (struct arrow_type){.kind = ARROW_NULL, .name = "null"}
                           : (struct arrow_type){.kind = ARROW_TEXT, .name = "text"};
    return c;
}

enum err parquet_lacks(struct parquet *p, const char *name, struct errmsg *e)
{
    struct parquet_file *f = p->file;
    const size_t columns = (size_t)f->schema.n_children + f->parts + 2;
    struct parquet_part *part = mem_extend(f->part, f->parts, 1, sizeof *part);
    if (!part)
        return err_memory(e);
    f->part = part;
    struct parquet_column *column = mem_resize(f->column, columns, sizeof *column);
    if (!column)
        return err_memory(e);
    f->column = column;
    part[f->parts] = (struct parquet_part){.name = mem_strdup(name), .absent = true};
    if (!part[f->parts].name)
        return err_memory(e);
    f->parts++;
    return ERR_OK;
}

/* ---- pieces ---- */

static uint32_t batch_rows(const struct parquet_file *f)
{
    const uint32_t rows = BATCH_VALUES / (f->children + 1);
    return rows < BATCH_ROWS ? rows : BATCH_ROWS;
}

static enum err begin_group(struct parquet *p, struct errmsg *e)
{
    struct parquet_file *f = p->file;
    struct arrow_why why = {""};
    uint32_t *column = mem_zalloc(f->children + (size_t)1, sizeof *column);
    bool *coded = mem_zalloc(f->children + (size_t)1, sizeof *coded);
    enum err err = column && coded ? ERR_OK : err_memory(e);
    for (uint32_t i = 0; i < f->columns && !err; i++)
        if (f->column[i].of != PARQUET_OF_PATH) {
            column[f->column[i].child] = f->column[i].of;
            coded[f->column[i].child] = f->column[i].coded;
        }
    codes_unref(p->codes);
    p->codes = NULL;
    if (!err)
        err = codes_new(&p->codes, f->children, e);
    if (!err) {
        const enum arrow_answer a =
            p->module->begin(f->arrow, p->group, column, f->children, coded, batch_rows(f), &why);
        err = a == ARROW_DONE ? ERR_OK : error_of(a, &why, e);
    }
    mem_free(column);
    mem_free(coded);
    p->begun = true;
    p->row = 0;
    return err;
}

/* Begin the group if it is not, and read its next batch; none at its end. */
static enum err read_batch(struct parquet *p, struct errmsg *e)
{
    struct parquet_file *f = p->file;
    struct arrow_why why = {""};
    enum err err = p->begun ? ERR_OK : begin_group(p, e);
    struct parquet_batch *b = err ? NULL : mem_zalloc(1, sizeof *b);
    if (!b)
        return err ? err : err_memory(e);
    const enum arrow_answer a = p->module->next(f->arrow, &b->rows, &why);
    if (a != ARROW_DONE || !b->rows.release) {
        mem_free(b);
        return a == ARROW_DONE ? ERR_OK : error_of(a, &why, e);
    }
    b->refs = 1;
    b->file = file_ref(f);
    b->codes = p->codes;
    (void)atomic_fetch_add(&p->codes->refs, 1);
    p->batch = b;
    p->at = 0;
    return ERR_OK;
}

/* Have a batch with rows that no piece has yet, if the file has such rows. */
static enum err find_batch(struct parquet *p, struct errmsg *e)
{
    enum err err = ERR_OK;
    while (!err && p->left && !p->batch) {
        err = read_batch(p, e);
        if (err)
            return err_wrap(e, err, "%s: row group %" PRIu32 ": ", p->file->path, p->group);
        if (!p->batch) {
            p->group++;
            p->begun = false;
            if (p->group == p->module->groups(p->file->arrow))
                return err_set(e, ERR_INPUT, "%s: it ends before its last row", p->file->path);
        } else if (p->batch->rows.length == 0) {
            batch_unref(p->batch);
            p->batch = NULL;
        }
    }
    return err;
}

/* As of a text (bytes/stream.c). */
static enum err check_unchanged(const struct parquet_file *f, struct errmsg *e)
{
    struct stat now;
    if (fstat(f->fd, &now) == 0 && now.st_size == f->opened.st_size &&
        now.st_mtim.tv_sec == f->opened.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == f->opened.st_mtim.tv_nsec)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "%s: it changed while it was read: run again when nothing writes to it, or "
                   "write to another file and rename it",
                   f->path);
}

static void forget_rows(struct parquet_piece *q)
{
    batch_unref(q->batch);
    file_unref(q->file);
    q->batch = NULL;
    q->file = NULL;
    q->rows = 0;
}

enum err parquet_next(struct parquet *p, struct parquet_piece **piece, bool *last, struct errmsg *e)
{
    struct parquet_piece *q = *piece = *piece ? *piece : mem_zalloc(1, sizeof *q);
    if (!q)
        return err_memory(e);
    forget_rows(q);
    enum err err = find_batch(p, e);
    if (err)
        return err;
    q->file = file_ref(p->file);
    q->begins_file = p->fresh;
    p->fresh = false;
    q->begins_group = p->batch && p->row == 0;
    if (p->batch) {
        const int64_t more = p->batch->rows.length - p->at;
        q->rows = more < PIECE_ROWS ? (uint32_t)more : PIECE_ROWS;
        q->batch = p->batch;
        (void)atomic_fetch_add(&q->batch->refs, 1);
        q->first = p->at;
        q->group = p->group;
        q->row = p->row;
        p->at += q->rows;
        p->row += q->rows;
        p->left = p->left > q->rows ? p->left - q->rows : 0;
        if (p->at == p->batch->rows.length) {
            batch_unref(p->batch);
            p->batch = NULL;
        }
    }
    p->left_bytes =
        p->left ? (uint64_t)((double)p->file->opened.st_size * (double)p->left / (double)p->rows)
                : 0;
    *last = p->left == 0;
    return *last ? check_unchanged(p->file, e) : ERR_OK;
}

static void free_chunks(struct parquet_chunk *c)
{
    for (struct parquet_chunk *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
}

void parquet_piece_free(struct parquet_piece *q)
{
    if (!q)
        return;
    forget_rows(q);
    free_chunks(q->chunk);
    mem_free(q);
}

/* ---- the digest ---- */

static bool add_bytes(const struct parquet_file *f, struct arrow_span span, struct sha256 *hash,
                      char *into)
{
    while (span.bytes) {
        const size_t wanted = span.bytes < READ_BYTES ? (size_t)span.bytes : READ_BYTES;
        const ssize_t n = pread(f->fd, into, wanted, (off_t)span.at);
        if (n <= 0)
            return false;
        sha256_add(hash, into, (size_t)n);
        span.at += (uint64_t)n;
        span.bytes -= (uint64_t)n;
    }
    return true;
}

/* The footer: its length, 4 bytes, and "PAR1" are behind it. */
static struct arrow_span footer_of(const struct parquet_file *f)
{
    enum { END_BYTES = 8 };
    uint8_t end[END_BYTES];
    const off_t size = f->opened.st_size;
    if (size < END_BYTES || pread(f->fd, end, END_BYTES, size - END_BYTES) != END_BYTES)
        return (struct arrow_span){0, 0};
    const uint64_t bytes =
        end[0] | (uint64_t)end[1] << 8 | (uint64_t)end[2] << 16 | (uint64_t)end[3] << 24;
    const uint64_t most = (uint64_t)size - END_BYTES, n = bytes < most ? bytes : most;
    return (struct arrow_span){most - n, n};
}

static void digest_path(const struct parquet_column *c, struct sha256 *hash)
{
    sha256_add(hash, c->name, strlen(c->name) + 1);
    sha256_add(hash, c->value ? "v" : "n", 1);
    if (c->value)
        sha256_add(hash, c->value, strlen(c->value) + 1);
}

enum err parquet_digest(const struct parquet_piece *q, uint8_t digest[static 32], size_t *bytes,
                        struct errmsg *e)
{
    const struct parquet_file *f = q->file;
    *bytes = 0;
    if (!q->begins_file && !q->begins_group)
        return ERR_OK;
    struct sha256 *hash = sha256_new();
    char *buffer = mem_zalloc(READ_BYTES, 1);
    bool read = true;
    size_t all = 0;
    if (q->begins_file && buffer && hash) {
        const struct arrow_span footer = footer_of(f);
        all += footer.bytes;
        read = footer.bytes && add_bytes(f, footer, hash, buffer);
    }
    for (uint32_t i = 0; q->begins_file && hash && i < f->columns; i++)
        if (f->column[i].of == PARQUET_OF_PATH)
            digest_path(&f->column[i], hash);
    for (uint32_t i = 0; q->begins_group && buffer && hash && read && i < f->columns; i++) {
        if (f->column[i].of == PARQUET_OF_PATH)
            continue;
        const struct arrow_span span = f->module->chunk(f->arrow, q->group, f->column[i].of);
        all += span.bytes;
        read = add_bytes(f, span, hash, buffer);
    }
    const bool done = buffer && hash && read && !sha256_final(hash, digest);
    sha256_free(hash);
    mem_free(buffer);
    if (!read)
        return err_set(e, ERR_INPUT, "row group %" PRIu32 ": its bytes cannot be read", q->group);
    *bytes = all;
    return done ? ERR_OK : err_memory(e);
}

/* ---- writing ---- */

enum err parquet_write_begin(struct parquet_writer *w, const char *names, size_t bytes,
                             const char *types, const char *codec, struct errmsg *e)
{
    struct arrow_why why = {""};
    enum err err = load_once(&w->module, e);
    if (err)
        return err;
    const enum arrow_answer a = w->module->write_new(&w->arrow, names, bytes, types, codec, &why);
    return a == ARROW_DONE ? ERR_OK : error_of(a, &why, e);
}

enum err parquet_write(struct parquet_writer *w, const char *lines, size_t bytes, const char **out,
                       size_t *out_bytes, struct errmsg *e)
{
    struct arrow_why why = {""};
    const enum arrow_answer a = w->module->write(w->arrow, lines, bytes, out, out_bytes, &why);
    return a == ARROW_DONE ? ERR_OK : error_of(a, &why, e);
}

enum err parquet_write_group(struct parquet_writer *w, struct ArrowArray *take_rows,
                             const char **out, size_t *out_bytes, struct errmsg *e)
{
    struct arrow_why why = {""};
    const enum arrow_answer a = w->module->write_group(w->arrow, take_rows, out, out_bytes, &why);
    return a == ARROW_DONE ? ERR_OK : error_of(a, &why, e);
}

void parquet_write_close(struct parquet_writer *w)
{
    if (w->arrow)
        w->module->write_free(w->arrow);
    w->arrow = NULL;
}

/* ---- bytes ---- */

void *parquet_hold(struct parquet_piece *q, size_t bytes)
{
    enum { ALIGN_BYTES = 16 };
    struct parquet_chunk *c = q->chunk;
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (!c || c->bytes - c->used < bytes) {
        const size_t most = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = mem_resize(NULL, sizeof *c + most, 1);
        if (!c) {
            q->starved = true;
            return NULL;
        }
        *c = (struct parquet_chunk){.next = q->chunk, .bytes = most};
        q->chunk = c;
    }
    c->used += bytes;
    return c->at + c->used - bytes;
}

/* Keep one chunk. */
void parquet_let_go(struct parquet_piece *q)
{
    q->starved = false;
    if (!q->chunk)
        return;
    free_chunks(q->chunk->next);
    q->chunk->next = NULL;
    q->chunk->used = 0;
}
