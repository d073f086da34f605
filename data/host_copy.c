/* The file, its locks, and the states of the copy; and what a data set has, which the reader writes to it, and the others take from it.
 * Rows are moved piece by piece, so they never take memory twice. */
#include "data/host_copy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/base/version.h"
#include "common/math/pool.h"
#include "common/process/cgroup.h"
#include "common/process/files.h"
#include "common/process/process_state.h"
#include "data/meaning/encoding_given.h"
#include "data/readers.h"

enum { FOLLOW_MS = 20, ALIGN = 64 };

/* Bytes of the file that are locked. fcntl's locks belong to a process, and not to the open file, which all of them have
 * inherited. */
enum place {
    PLACE_READER, /* for writing: the process that reads, or decides whether to */
    PLACE_USERS /* for reading: each process that uses the copy; for writing: the one that makes it */
};

/* All that the rows of a copy depend on. */
struct host_copy_key {
    uint8_t data[SHA256_BYTES];  /* files, job, build */
    uint8_t given[SHA256_BYTES]; /* the encoding that is given, and how it is used; zeros: none */
    uint8_t encoding[SHA256_BYTES]; /* if rows are read by it alone: of its text; else zeros */
};

enum host_copy_part {
    HOST_COPY_ALONE, /* there is no copy for this process: it reads by itself */
    HOST_COPY_READS, /* it reads for all, until copy_finish or copy_give_up */
    HOST_COPY_MAPS   /* the copy is mapped, until host_copy_leave */
};

enum state { COPY_NONE, COPY_BEGUN, COPY_THERE, COPY_REFUSED };

/* Begins the file. */
struct head {
    _Atomic uint32_t state;
    pid_t pid; /* of the reader */
    struct host_copy_key key;
    _Atomic bool encoded; /* key.encoding is set */
    /* how far the reader is */
    _Atomic uint64_t read_bytes, read_rows;
    uint64_t meta_at, meta_bytes, said_at, said_bytes, spill_bytes;
};
static_assert(sizeof(struct head) <= HOST_COPY_HEAD_BYTES, "it has its own page");

static struct {
    int fd, spill_fd;
    uint32_t processes;
    struct head *head;
    enum host_copy_part part;
    _Atomic uint64_t end; /* of what is reserved */
    uint8_t *map;         /* the whole file; NULL: not mapped */
    size_t map_bytes;
} copy = {.fd = -1, .spill_fd = -1, .processes = 1};

static struct fail_point fail = FAIL_POINT_NEVER;

void host_copy_fail_at(long n, int error)
{
    fail_point_set(&fail, n, error);
}

int host_copy_fail_fired(void)
{
    return fail_point_fired(&fail);
}

/* ---- the file ---- */

void host_copy_begin(const char *flag)
{
    int fd = -1, spill_fd = -1;
    uint32_t processes = 1;
    struct stat s;
    copy.fd = copy.spill_fd = -1;
    copy.processes = 1;
    if (copy.head)
        (void)munmap(copy.head, HOST_COPY_HEAD_BYTES);
    copy.head = NULL;
    copy.map = NULL;
    copy.part = HOST_COPY_ALONE;
    if (sscanf(flag, "%d,%d,%" SCNu32, &fd, &spill_fd, &processes) != 3 || processes < 2 ||
        fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size < HOST_COPY_HEAD_BYTES)
        return;
    void *head = mmap(NULL, HOST_COPY_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return;
    copy.fd = fd;
    copy.spill_fd = spill_fd;
    copy.processes = processes;
    copy.head = head;
}

static bool copy_there(void)
{
    return copy.fd >= 0;
}

static bool lock(enum place place, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
    return fcntl(copy.fd, F_SETLK, &l) == 0;
}

/* The rows of an earlier copy, or of a reader that died. The pages return to the system. */
static bool empty(void)
{
    return ftruncate(copy.fd, HOST_COPY_HEAD_BYTES) == 0 &&
           (copy.spill_fd < 0 || ftruncate(copy.spill_fd, 0) == 0);
}

static bool map(void)
{
    struct stat s;
    if (fstat(copy.fd, &s) != 0)
        return false;
    void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, copy.fd, 0);
    if (p == MAP_FAILED)
        return false;
    copy.map = p;
    copy.map_bytes = (size_t)s.st_size;
    return true;
}

/* ---- the part of this process ---- */

/* A process that restarts is given the encoding that the reader's rows have taught. */
static bool is_for(const struct host_copy_key *key)
{
    const struct head *h = copy.head;
    static const uint8_t none[SHA256_BYTES];
    if (memcmp(h->key.data, key->data, sizeof key->data) != 0)
        return false;
    return memcmp(h->key.given, key->given, sizeof key->given) == 0 ||
           (h->encoded && memcmp(key->encoding, none, sizeof none) != 0 &&
            memcmp(h->key.encoding, key->encoding, sizeof key->encoding) == 0);
}

/* No other process reads. */
static enum host_copy_part decide(const struct host_copy_key *key)
{
    struct head *h = copy.head;
    if (h->state == COPY_THERE && is_for(key)) {
        if (lock(PLACE_USERS, F_RDLCK) && map())
            return HOST_COPY_MAPS;
        (void)lock(PLACE_USERS, F_UNLCK);
        return HOST_COPY_ALONE;
    }
    if (!lock(PLACE_USERS, F_WRLCK))
        return HOST_COPY_ALONE; /* others use it */
    h->state = COPY_NONE;
    if (!empty()) {
        (void)lock(PLACE_USERS, F_UNLCK);
        return HOST_COPY_ALONE;
    }
    h->key = *key;
    h->encoded = false;
    h->pid = getpid();
    h->read_bytes = h->read_rows = 0;
    reading_keep_said(true);
    h->state = COPY_BEGUN;
    copy.end = HOST_COPY_HEAD_BYTES;
    return HOST_COPY_READS;
}

static void say_waits(bool *said)
{
    if (!*said && copy.head->state == COPY_BEGUN) {
        log_info("process %d of this host reads the rows for this one, too", (int)copy.head->pid);
        *said = true;
    }
}

static enum host_copy_part copy_enter(const struct host_copy_key *key)
{
    static _Atomic uint64_t none;
    bool said = false;
    if (copy.fd < 0 || copy.part != HOST_COPY_ALONE)
        return HOST_COPY_ALONE;
    while (!lock(PLACE_READER, F_WRLCK)) {
        if (errno != EAGAIN && errno != EACCES)
            return HOST_COPY_ALONE;
        if (!said)
            loading_share(&copy.head->read_bytes, &copy.head->read_rows);
        say_waits(&said);
        loading_read(0);
        clock_sleep_ms(FOLLOW_MS);
    }
    copy.part = decide(key);
    if (copy.part != HOST_COPY_READS)
        (void)lock(PLACE_READER, F_UNLCK);
    if (copy.part == HOST_COPY_ALONE)
        loading_share(&none, &none);
    else
        loading_share(&copy.head->read_bytes, &copy.head->read_rows);
    if (copy.part != HOST_COPY_READS) /* from here on it reads for itself */
        loading_share(NULL, NULL);
    return copy.part;
}

void host_copy_leave(void)
{
    if (copy.part == HOST_COPY_ALONE)
        return;
    assert(copy.part == HOST_COPY_MAPS);
    if (copy.map)
        (void)munmap(copy.map, copy.map_bytes);
    copy.map = NULL;
    copy.part = HOST_COPY_ALONE;
    if (lock(PLACE_READER, F_WRLCK)) { /* the last one frees the memory */
        if (lock(PLACE_USERS, F_WRLCK)) {
            copy.head->state = COPY_NONE;
            (void)empty();
        }
    }
    (void)lock(PLACE_USERS, F_UNLCK);
    (void)lock(PLACE_READER, F_UNLCK);
}

/* ---- the process that reads ---- */

uint32_t host_copy_threads(uint32_t own)
{
    const uint64_t all = (uint64_t)own * copy.processes;
    const uint32_t cores = cores_usable(), most = all < cores ? (uint32_t)all : cores;
    return copy.part != HOST_COPY_READS || most < own ? own : most;
}

void host_copy_share(struct spill *s)
{
    if (copy.part == HOST_COPY_READS)
        spill_share(s, copy.processes, copy.spill_fd);
}

static uint64_t copy_reserve(size_t bytes)
{
    return atomic_fetch_add(&copy.end, (bytes + ALIGN - 1) / ALIGN * ALIGN);
}

static bool copy_put(uint64_t at, const void *data, size_t bytes)
{
    return !fail_point_hit(&fail) && files_put_at(copy.fd, data, bytes, at) == bytes;
}

static bool copy_get_back(uint64_t at, void *data, size_t bytes)
{
    return files_get_at(copy.fd, data, bytes, at) == (ssize_t)bytes;
}

static bool copy_finish(const void *meta, size_t bytes, uint64_t spill_bytes)
{
    struct head *h = copy.head;
    assert(copy.part == HOST_COPY_READS && h->state == COPY_BEGUN);
    h->meta_at = copy_reserve(bytes);
    h->meta_bytes = bytes;
    const char *said = reading_said(&h->said_bytes);
    h->said_at = copy_reserve(h->said_bytes);
    h->spill_bytes = spill_bytes;
    if (!copy_put(h->meta_at, meta, bytes) || !copy_put(h->said_at, said, h->said_bytes) ||
        ftruncate(copy.fd, (off_t)copy.end) != 0 || !map())
        return false;
    reading_keep_said(false);
    copy.part = HOST_COPY_MAPS;
    h->state = COPY_THERE;
    loading_share(NULL, NULL);
    (void)lock(PLACE_USERS, F_RDLCK);
    (void)lock(PLACE_READER, F_UNLCK);
    return true;
}

static void copy_give_up(bool refuses)
{
    assert(copy.part == HOST_COPY_READS);
    reading_keep_said(false);
    copy.part = HOST_COPY_ALONE;
    copy.head->state = refuses ? COPY_REFUSED : COPY_NONE;
    loading_share(NULL, NULL);
    const int left = ftruncate(copy.fd, HOST_COPY_HEAD_BYTES); /* its spill can be in use */
    (void)left;                                                /* the next reader tries again */
    if (refuses)
        copy.part = HOST_COPY_MAPS; /* it keeps its place until host_copy_leave */
    (void)lock(PLACE_USERS, refuses ? F_RDLCK : F_UNLCK);
    (void)lock(PLACE_READER, F_UNLCK);
}

/* ---- all that map it ---- */

static const void *copy_at(uint64_t at, size_t bytes)
{
    return copy.map && at <= copy.map_bytes && bytes <= copy.map_bytes - at ? copy.map + at : NULL;
}

static const void *copy_meta(size_t *bytes)
{
    *bytes = copy.head->meta_bytes;
    return copy_at(copy.head->meta_at, *bytes);
}

static uint64_t copy_spill_bytes(void)
{
    return copy.head->spill_bytes;
}

/* Log lines that another process has kept. */
static void say_again(const char *text, size_t bytes)
{
    for (const char *end = text + bytes; text < end; text += strlen(text) + 1) {
        if (text[0] == 'w')
            log_warn("%s", text + 1);
        else
            log_info("%s", text + 1);
    }
}

/* Log what the reader said. */
static void copy_repeat(void)
{
    const char *said = copy_at(copy.head->said_at, copy.head->said_bytes);
    if (said)
        say_again(said, copy.head->said_bytes);
}

void host_copy_encoded(const char *encoding)
{
    struct sha256 *hash = copy.map && encoding ? sha256_new() : NULL;
    uint8_t of[SHA256_BYTES];
    if (!hash)
        return;
    sha256_add(hash, encoding, strlen(encoding));
    if (!copy.head->encoded && sha256_final(hash, of) == 0) { /* each process has the same */
        memcpy(copy.head->key.encoding, of, sizeof of);
        copy.head->encoded = true;
    }
    sha256_free(hash);
}

/* ---- what the rows depend on ---- */

static void add_text(struct sha256 *h, const char *text)
{
    if (text)
        sha256_add(h, text, strlen(text));
    sha256_add(h, "", 1);
}

/* The files, and what changes if their bytes do. */
static void add_files(struct sha256 *h, const struct paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        char file[FILES_PATH_MAX];
        struct stat s;
        (void)paths_member(paths->path[i], file, sizeof file);
        if (stat(file, &s) != 0)
            s = (struct stat){.st_ino = 0};
        const int64_t is[] = {(int64_t)s.st_dev, (int64_t)s.st_ino, s.st_size, s.st_mtim.tv_sec,
                              s.st_mtim.tv_nsec};
        add_text(h, paths->path[i]);
        sha256_add(h, is, sizeof is);
    }
}

static bool digest(uint8_t out[static SHA256_BYTES], struct sha256 *take)
{
    const bool done = take && sha256_final(take, out) == 0;
    sha256_free(take);
    return done;
}

static bool data_key(uint8_t out[static SHA256_BYTES], const struct reading *r)
{
    const struct job *job = r->job;
    const uint32_t is[] = {(uint32_t)job->data.format,
                           (uint32_t)job->data.csv.bad_rows,
                           job->data.csv.bad_rows_max,
                           (uint32_t)job->data.csv.absent_columns,
                           r->classes,
                           sizeof(struct dataset)};
    struct sha256 *h = sha256_new();
    struct paths paths = {.count = 0};
    struct errmsg e;
    if (!h)
        return false;
    if (job->data.format != DATA_SYNTHETIC && reading_paths(&paths, r, &e)) {
        sha256_free(h);
        return false; /* reading tells why */
    }
    add_text(h, GRADWIRE_HELLO);
    sha256_add(h, job->identity, sizeof job->identity);
    sha256_add(h, is, sizeof is);
    add_files(h, &paths);
    paths_close(&paths);
    return digest(out, h);
}

static bool copy_key(struct host_copy_key *key, const struct reading *r)
{
    const struct encoding_given *g = r->given;
    *key = (struct host_copy_key){.given = {0}};
    if (!data_key(key->data, r))
        return false;
    if (!g)
        return true;
    struct sha256 *h = sha256_new(), *text = g->text && !g->extends ? sha256_new() : NULL;
    if (text)
        sha256_add(text, g->text, g->bytes);
    if (h) {
        add_text(h, !g->text ? "rounds" : g->extends ? "extends" : "teaches");
        sha256_add(h, g->text, g->text ? g->bytes : 0);
    }
    const bool there = !g->text || g->extends || digest(key->encoding, text);
    return digest(key->given, h) && there;
}

/* ---- what a data set has ---- */

/* Rows in memory: one allocation, whose owner is *p. */
struct piece {
    void **p;
    size_t bytes, moved;
    uint64_t at;
};

/* Writes to `data`, or reads from it; one description serves both. */
struct pass {
    bool writes, failed;
    uint8_t *data; /* of a pass that writes: its own */
    const uint8_t *from;
    size_t at, bytes; /* bytes: allocated, or there are */
    struct piece *piece;
    size_t pieces;
};

static void field(struct pass *p, void *value, size_t bytes)
{
    if (bytes == 0 || p->failed)
        return;
    if (p->writes) {
        uint8_t *grown = mem_grow(p->data, &p->bytes, p->at + bytes, 1);
        p->data = grown ? grown : p->data;
        p->failed = !grown;
    } else {
        p->failed = bytes > p->bytes - p->at;
    }
    if (p->failed)
        return;
    if (p->writes)
        memcpy(p->data + p->at, value, bytes);
    else
        memcpy(value, p->from + p->at, bytes);
    p->at += bytes;
}

#define FIELD(p, lvalue) field(p, &(lvalue), sizeof(lvalue))

/* An array of `count` elements, which a pass that reads allocates. */
static void array(struct pass *p, void **values, uint64_t count, size_t size)
{
    if (!p->writes && !p->failed)
        *values = mem_zalloc((size_t)count + 1, size);
    p->failed |= !*values && count > 0;
    if (!p->failed)
        field(p, *values, (size_t)count * size);
}

/* The bytes at *values, if there are any: a pass that reads finds them in the copy. */
static void copy_piece_at(struct pass *p, void **values, size_t bytes)
{
    uint64_t at = 0;
    bool there = *values != NULL && bytes > 0;
    FIELD(p, there);
    if (p->failed || !there)
        return;
    if (p->writes) {
        struct piece *grown = mem_extend(p->piece, p->pieces, 1, sizeof *grown);
        p->piece = grown ? grown : p->piece;
        p->failed = !grown;
        if (!grown)
            return;
        at = copy_reserve(bytes);
        p->piece[p->pieces++] = (struct piece){values, bytes, 0, at};
    }
    FIELD(p, at);
    FIELD(p, bytes);
    if (!p->writes && !p->failed) {
        *values = (void *)(uintptr_t)copy_at(at, bytes);
        p->failed = !*values;
    }
}

static void copy_words(struct pass *p, struct vocabulary *v)
{
    uint32_t count = v->count, number;
    FIELD(p, count);
    if (!p->writes)
        vocabulary_close(v);
    for (uint32_t i = 0; i < count && !p->failed; i++) {
        size_t bytes = 0;
        const char *word = p->writes ? vocabulary_text(v, i, &bytes) : NULL;
        FIELD(p, bytes);
        if (p->writes) {
            field(p, (void *)(uintptr_t)word, bytes);
        } else if (!p->failed && bytes <= p->bytes - p->at) {
            p->failed = vocabulary_add(v, (const char *)p->from + p->at, bytes, &number) != ERR_OK;
            p->at += bytes;
        } else {
            p->failed = true;
        }
    }
}

/* A column, as the training part or a checkpoint has taught it. */
static void copy_input(struct pass *p, struct schema_input *in)
{
    struct buckets *b = &in->buckets;
    bool borders = b->border != NULL;
    if (!p->writes)
        buckets_close(b); /* those that the job gives are in the copy, too */
    FIELD(p, in->missing_value);
    FIELD(p, in->complete);
    FIELD(p, in->needs_double);
    FIELD(p, in->shift);
    FIELD(p, in->divisor);
    FIELD(p, in->fill);
    FIELD(p, in->feature);
    FIELD(p, in->width);
    FIELD(p, b->count);
    FIELD(p, b->log_squared);
    FIELD(p, b->first);
    FIELD(p, borders);
    if (borders)
        array(p, (void **)&b->border, b->count - 1, sizeof *b->border);
    if (in->kind == COLUMN_CATEGORY)
        copy_words(p, &in->words);
}

static void copy_table(struct pass *p, struct table *t)
{
    FIELD(p, t->schema->features);
    for (uint32_t i = 0; i < t->schema->inputs && !p->failed; i++)
        copy_input(p, &t->schema->input[i]);
    for (uint32_t i = 0; i < t->schema->keys && !p->failed; i++)
        FIELD(p, t->schema->key[i].complete);
    FIELD(p, t->rows);
    FIELD(p, t->chunks);
    FIELD(p, t->chunk_rows);
    FIELD(p, t->scaled);
    if (!p->writes && !p->failed)
        t->chunk = mem_zalloc((size_t)t->chunks + 1, sizeof *t->chunk);
    p->failed |= !t->chunk && t->chunks > 0;
    for (uint64_t i = 0; i < t->chunks && !p->failed; i++) {
        struct table_chunk *c = &t->chunk[i];
        size_t begins = p->writes && c->begin ? t->chunk_rows + 1 : 0;
        FIELD(p, c->at);
        copy_piece_at(p, (void **)&c->begin, begins * sizeof *c->begin);
        copy_piece_at(p, (void **)&c->cells,
                      p->writes ? table_chunk_cells(t, i) * sizeof *c->cells : 0);
    }
}

static void copy_contents(struct pass *p, struct contents *c)
{
    FIELD(p, c->fingerprint);
    FIELD(p, c->fast);
    FIELD(p, c->before);
    FIELD(p, c->knows_before);
    FIELD(p, c->print.rows);
    FIELD(p, c->print.files);
    FIELD(p, c->print.entries);
    array(p, (void **)&c->print.digest, c->print.entries, sizeof *c->print.digest);
    array(p, (void **)&c->print.bytes, c->print.entries, sizeof *c->print.bytes);
    FIELD(p, c->files);
    if (!p->writes && !p->failed)
        c->file = mem_zalloc(c->files + 1, sizeof *c->file);
    p->failed |= !c->file && c->files > 0;
    for (size_t i = 0; i < c->files && !p->failed; i++) {
        struct contents_file *f = &c->file[i];
        size_t bytes = p->writes ? strlen(f->name) + 1 : 0;
        FIELD(p, f->bytes);
        FIELD(p, f->digest);
        FIELD(p, f->rows);
        FIELD(p, bytes);
        array(p, (void **)&f->name, bytes, 1);
    }
}

static void copy_set(struct pass *p, struct dataset *d)
{
    const size_t elems = (size_t)d->rows * d->features, labels = (size_t)d->rows;
    FIELD(p, d->rows);
    FIELD(p, d->seen);
    FIELD(p, d->bad_rows);
    FIELD(p, d->held_bad);
    FIELD(p, d->held_seen);
    FIELD(p, d->held.noted);
    FIELD(p, d->held.rows);
    FIELD(p, d->features);
    FIELD(p, d->rank);
    FIELD(p, d->shape);
    FIELD(p, d->bytes);
    FIELD(p, d->shares);
    copy_contents(p, &d->contents);
    copy_piece_at(p, (void **)&d->held.bits, (size_t)(d->held.noted + 7) / 8);
    copy_piece_at(p, (void **)&d->x, elems);
    copy_piece_at(p, (void **)&d->x_float, elems * sizeof *d->x_float);
    copy_piece_at(p, (void **)&d->labels, labels);
    copy_piece_at(p, (void **)&d->y_float, labels * sizeof *d->y_float);
    if (d->table.schema)
        copy_table(p, &d->table);
}

/* ---- moving ---- */

struct moving {
    struct piece *piece;
    size_t pieces;
    _Atomic size_t next;
    _Atomic bool failed;
    _Atomic int error;
};

/* Whole pages return to the system; they are not read any more. */
static void give_pages(char *begin, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)begin + page - 1) / page * page,
              end = ((uintptr_t)begin + bytes) / page * page;
    if (first < end)
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

static bool move_piece(struct piece *p)
{
    enum { BLOCK = 8 << 20 };
    while (p->moved < p->bytes) {
        size_t left = p->bytes - p->moved, n = left < BLOCK ? left : BLOCK;
        char *from = (char *)*p->p + p->moved;
        if (!copy_put(p->at + p->moved, from, n))
            return false;
        give_pages(from, n);
        p->moved += n;
    }
    return true;
}

static void move_pieces(void *ctx, uint32_t thread)
{
    struct moving *m = ctx;
    size_t i;
    (void)thread;
    while (!m->failed && (i = atomic_fetch_add(&m->next, 1)) < m->pieces)
        if (!move_piece(&m->piece[i])) {
            m->error = errno;
            m->failed = true;
        }
}

/* Move back what was moved. Errors: ERR_NOMEM. */
static enum err move_back(struct piece *piece, size_t pieces, struct errmsg *e)
{
    for (size_t i = 0; i < pieces; i++)
        if (piece[i].moved && !copy_get_back(piece[i].at, *piece[i].p, piece[i].moved))
            return err_memory_for(e, "the rows");
    return ERR_OK;
}

static bool copy_move(struct piece *piece, size_t pieces, struct pool *pool)
{
    struct moving m = {.piece = piece, .pieces = pieces};
    pool_run(pool, move_pieces, &m);
    errno = m.error;
    return !m.failed;
}

/* ---- the parts ---- */

/* All rows are in the copy: this process uses them there, too. */
static void use_copy(struct dataset *d, const struct pass *p)
{
    for (size_t i = 0; i < p->pieces; i++) {
        mem_free(*p->piece[i].p);
        *p->piece[i].p = (void *)(uintptr_t)copy_at(p->piece[i].at, p->piece[i].bytes);
    }
    if (d->table.schema) {
        rows_lend(&d->table);
        spill_shared(d->table.spill, copy_spill_bytes());
    }
    d->copied = true;
    mem_give_back();
}

static enum err copy_publish(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    struct pass p = {.writes = true};
    struct pool *pool = NULL;
    const uint64_t spilled = d->table.spill ? spill_bytes(d->table.spill) : 0;
    const bool apart = spilled && copy.spill_fd < 0; /* a file of this process has them */
    const uint32_t threads = r->job->worker.threads ? r->job->worker.threads : cores_usable();
    enum err err = pool_new(&pool, host_copy_threads(threads), e);
    if (err) {
        copy_give_up(false);
        return err;
    }
    copy_set(&p, d);
    const bool done = !apart && !p.failed && copy_move(p.piece, p.pieces, pool) &&
                      copy_finish(p.data, p.at, spilled);
    const int error = errno;
    if (done) {
        use_copy(d, &p);
    } else {
        log_warn("the processes of this host have no common copy of the rows, and each reads them "
                 "by itself: %s",
                 apart      ? "data.spill cannot be written"
                 : p.failed ? err_str(ERR_NOMEM)
                            : strerror(error));
        err = move_back(p.piece, p.pieces, e);
        copy_give_up(true);
        d->refused = true;
    }
    pool_free(pool);
    mem_free(p.piece);
    mem_free(p.data);
    return err;
}

static enum err copy_use(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    struct pass p = {.writes = false};
    *d = (struct dataset){
        .scale = r->job->data.scale, .augment = r->job->data.augment, .copied = true};
    p.from = copy_meta(&p.bytes);
    p.failed = !p.from;
    enum err err = job_reads_columns(r->job) ? reading_columns(d, r, e) : ERR_OK;
    if (!err) {
        if (d->table.schema)
            spill_share(d->table.spill, copy.processes, copy.spill_fd);
        d->table.lent = d->table.schema != NULL;
        copy_set(&p, d);
        if (p.failed)
            err = err_memory_for(e, "the rows that another process has read");
    }
    if (!err && d->table.schema) {
        rows_lend(&d->table);
        spill_shared(d->table.spill, copy_spill_bytes());
    }
    if (!err)
        err = dataset_set_shape(d, r, d->table.schema ? "data.columns" : "data.train", d->rows,
                                d->rank, d->shape, e);
    if (err)
        return err_wrap(e, err, "%s: ", r->key);
    copy_repeat();
    return ERR_OK;
}

enum err host_copy_load(struct dataset *d, const struct reading *r,
                        enum err (*load)(struct dataset *d, const struct reading *r,
                                         struct errmsg *e),
                        struct errmsg *e)
{
    struct host_copy_key key;
    const bool shared = copy_there() && copy_key(&key, r);
    enum host_copy_part part = shared ? copy_enter(&key) : HOST_COPY_ALONE;
    if (part == HOST_COPY_MAPS)
        return copy_use(d, r, e);
    enum err err = load(d, r, e);
    if (part == HOST_COPY_READS && err)
        copy_give_up(false);
    else if (part == HOST_COPY_READS) {
        err = copy_publish(d, r, e);
    }
    return err;
}
