/* idx, the format of MNIST (Yann LeCun's page "The MNIST database", "the IDX file format"):
 * big-endian; two zero bytes, the type of an element, the rank, a u32 for each dimension, then the
 * elements. A file of rank 1 holds labels, one of a higher rank holds rows. */
#include "worker/data/readers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/process/paths.h"
#include "worker/data/elements.h"
#include "worker/data/stream.h"

enum {
    IDX_MAGIC_BYTES = 4,
    IDX_RANK_MAX = TENSOR_RANK_MAX + 1,
    IDX_HEADER_MAX_BYTES = IDX_MAGIC_BYTES + 4 * IDX_RANK_MAX,
    IDX_PIECE_BYTES = 256 << 10 /* read, then hashed while it is still in the cache */
};

struct idx_file {
    const char *path;
    uint32_t rank, dim[IDX_RANK_MAX]; /* dim[0]: rows */
    enum element type;
    size_t header_bytes;
    uint64_t row_bytes, bytes; /* of one row; of all of them, without the header */
    uint8_t header[IDX_HEADER_MAX_BYTES];
};

/* The files of one data set: images[i] and labels[i] belong together. */
struct idx_set {
    struct idx_file *images, *labels;
    size_t n_images, n_labels;
};

static enum element type_of(uint8_t code)
{
    static const enum element types[] = {
        [0x08] = ELEMENT_U8,  [0x09] = ELEMENT_I8,  [0x0B] = ELEMENT_I16,
        [0x0C] = ELEMENT_I32, [0x0D] = ELEMENT_F32, [0x0E] = ELEMENT_F64};
    return code < sizeof types / sizeof *types ? types[code] : ELEMENT_NONE;
}

static enum err check_magic(const uint8_t m[static IDX_MAGIC_BYTES], struct errmsg *e)
{
    if (m[0] != 0 || m[1] != 0 || !type_of(m[2]))
        return err_set(e, ERR_INPUT,
                       "not an idx file: it begins with %02x %02x %02x %02x, not with 00 00 and a "
                       "type: 08, 09, 0b, 0c, 0d or 0e",
                       m[0], m[1], m[2], m[3]);
    if (m[3] == 0 || m[3] > IDX_RANK_MAX)
        return err_set(e, ERR_INPUT, "it has %u dimensions, not 1 (labels) or 2 to %d (rows)", m[3],
                       IDX_RANK_MAX);
    return ERR_OK;
}

/* "60000 x 28 x 28" in words of the header; sizes are checked one by one. */
static enum err parse_dims(struct idx_file *f, struct errmsg *e)
{
    f->row_bytes = element_bytes(f->type);
    for (uint32_t i = 0; i < f->rank; i++) {
        const uint8_t *b = f->header + IDX_MAGIC_BYTES + 4 * i;
        f->dim[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        if (f->dim[i] == 0)
            return err_set(e, ERR_INPUT, "dimension %u is 0: it holds nothing", i);
        if (i && (__builtin_mul_overflow(f->row_bytes, f->dim[i], &f->row_bytes) ||
                  f->row_bytes > UINT32_MAX))
            return err_set(e, ERR_INPUT, "a row of it would have more than 2^32 bytes");
    }
    f->bytes = f->row_bytes * f->dim[0]; /* < 2^64: both are below 2^32 */
    return ERR_OK;
}

static enum err read_exactly(struct stream *s, uint8_t *out, size_t bytes, uint64_t before,
                             uint64_t total, struct errmsg *e)
{
    size_t got;
    enum err err = stream_read(s, out, bytes, &got, e);
    if (err)
        return err_wrap(e, err, "its header asks for %llu bytes: ", (unsigned long long)total);
    if (got < bytes)
        return err_set(e, ERR_INPUT, "truncated: %llu bytes expected, %llu there",
                       (unsigned long long)total, (unsigned long long)(before + got));
    return ERR_OK;
}

static enum err read_header(struct idx_file *f, struct stream *s, struct errmsg *e)
{
    size_t got;
    enum err err = stream_read(s, f->header, IDX_MAGIC_BYTES, &got, e);
    if (!err && got < IDX_MAGIC_BYTES)
        err = err_set(e, ERR_INPUT, "not an idx file: it has %zu bytes, less than a header", got);
    if (!err)
        err = check_magic(f->header, e);
    if (err)
        return err;
    f->type = type_of(f->header[2]);
    f->rank = f->header[3];
    f->header_bytes = IDX_MAGIC_BYTES + 4 * (size_t)f->rank;
    err = read_exactly(s, f->header + IDX_MAGIC_BYTES, 4 * (size_t)f->rank, IDX_MAGIC_BYTES,
                       f->header_bytes, e);
    return err ? err : parse_dims(f, e);
}

/* Before anything is allocated: can a file of this size hold what its header asks for? */
static enum err check_size(const struct idx_file *f, const struct stream *s, struct errmsg *e)
{
    uint64_t bound = stream_bound_bytes(s);
    if (bound >= f->header_bytes && bound - f->header_bytes >= f->bytes)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "truncated: its header asks for %llu + %zu bytes, %llu are there%s",
                   (unsigned long long)f->bytes, f->header_bytes, (unsigned long long)bound,
                   stream_is_compressed(s) ? " at most, decompressed" : "");
}

static enum err idx_file_open(struct idx_file *f, const char *path, struct stream **out,
                              struct errmsg *e)
{
    struct stream *s;
    enum err err = stream_open(&s, path, e);
    if (err)
        return err;
    *f = (struct idx_file){.path = path};
    err = read_header(f, s, e);
    if (!err)
        err = check_size(f, s, e);
    if (err) {
        stream_close(s);
        return err_wrap(e, err, "%s: ", path);
    }
    *out = s;
    return ERR_OK;
}

static enum err set_add(struct idx_set *set, const char *path, struct errmsg *e)
{
    struct idx_file f;
    struct stream *s;
    enum err err = idx_file_open(&f, path, &s, e);
    if (err)
        return err;
    stream_close(s);
    if (f.rank == 1)
        set->labels[set->n_labels++] = f;
    else
        set->images[set->n_images++] = f;
    return ERR_OK;
}

static void set_close(struct idx_set *set)
{
    mem_free(set->images);
    mem_free(set->labels);
}

static enum err check_pair(const struct idx_set *set, size_t i, struct errmsg *e)
{
    const struct idx_file *x = &set->images[i], *y = &set->labels[i], *first = &set->images[0];
    if (x->dim[0] != y->dim[0])
        return err_set(e, ERR_INPUT, "%s has %u rows, %s has %u labels", x->path, x->dim[0],
                       y->path, y->dim[0]);
    if (x->rank != first->rank ||
        memcmp(x->dim + 1, first->dim + 1, (x->rank - 1) * sizeof *x->dim) != 0)
        return err_set(e, ERR_INPUT, "the rows of %s have another shape than those of %s", x->path,
                       first->path);
    return ERR_OK;
}

static enum err check_pairs(const struct idx_set *set, const struct paths *p, struct errmsg *e)
{
    if (set->n_images == 0 || set->n_labels == 0)
        return err_set(e, ERR_INPUT, "%s: idx files of %s are needed too", p->path[0],
                       set->n_images ? "labels (1 dimension)" : "rows (2 or more dimensions)");
    if (set->n_images != set->n_labels)
        return err_set(e, ERR_INPUT, "%zu files of rows and %zu files of labels: they go in pairs",
                       set->n_images, set->n_labels);
    enum err err = ERR_OK;
    for (size_t i = 0; i < set->n_images && !err; i++)
        err = check_pair(set, i, e);
    return err;
}

static enum err set_open(struct idx_set *out, const struct paths *p, struct errmsg *e)
{
    struct idx_set set = {.images = mem_zalloc(p->count, sizeof *set.images),
                          .labels = mem_zalloc(p->count, sizeof *set.labels)};
    enum err err = set.images && set.labels ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < p->count && !err; i++)
        err = set_add(&set, p->path[i], e);
    if (!err)
        err = check_pairs(&set, p, e);
    if (err)
        set_close(&set);
    else
        *out = set;
    return err;
}

/* Nothing may follow; this also makes zlib and zstd compare their checksums. */
static enum err read_end(struct stream *s, const struct idx_file *f, struct errmsg *e)
{
    uint8_t extra;
    size_t got;
    enum err err = stream_read(s, &extra, 1, &got, e);
    if (!err && got)
        err = err_set(e, ERR_INPUT, "bytes follow after the %llu + %zu that its header asks for",
                      (unsigned long long)f->bytes, f->header_bytes);
    return err;
}

/* Where the elements of a file go: bytes as they are, or floats. */
struct idx_out {
    uint8_t *bytes; /* NULL: floats */
    float *floats;
};

/* `bytes` of elements, which stand at `offset` in the file. */
static enum err put_floats(const struct idx_file *f, float *out, const uint8_t *piece, size_t bytes,
                           uint64_t offset, struct errmsg *e)
{
    size_t width = element_bytes(f->type), n = bytes / width;
    size_t good = element_floats(out, piece, n, f->type);
    if (good == n)
        return ERR_OK;
    return err_set(e, ERR_INPUT, "the number at offset %llu is not finite, or beyond 32-bit floats",
                   (unsigned long long)(f->header_bytes + offset + good * width));
}

static enum err read_elements(struct stream *s, const struct idx_file *f, struct idx_out out,
                              struct sha256 *digest, struct errmsg *e)
{
    uint8_t *piece = out.bytes ? NULL : mem_zalloc(IDX_PIECE_BYTES, 1);
    enum err err = out.bytes || piece ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
    sha256_add(digest, f->header, f->header_bytes);
    for (uint64_t done = 0; done < f->bytes && !err;) {
        size_t n = f->bytes - done < IDX_PIECE_BYTES ? (size_t)(f->bytes - done) : IDX_PIECE_BYTES;
        uint8_t *to = out.bytes ? out.bytes + done : piece;
        err = read_exactly(s, to, n, f->header_bytes + done, f->header_bytes + f->bytes, e);
        if (!err)
            sha256_add(digest, to, n);
        if (!err && piece)
            err = put_floats(f, out.floats + done / element_bytes(f->type), piece, n, done, e);
        done += n;
    }
    mem_free(piece);
    return err ? err : read_end(s, f, e);
}

/* Read the elements of *f to `out`, which has room for what its header said when it was opened
 * first. */
static enum err idx_file_read(const struct idx_file *f, struct idx_out out, struct sha256 *digest,
                              struct errmsg *e)
{
    struct idx_file now;
    struct stream *s;
    enum err err = idx_file_open(&now, f->path, &s, e);
    if (err)
        return err;
    if (now.header_bytes != f->header_bytes || memcmp(now.header, f->header, f->header_bytes) != 0)
        err = err_set(e, ERR_INPUT, "it was changed while it was read");
    else
        err = read_elements(s, f, out, digest, e);
    stream_close(s);
    return err ? err_wrap(e, err, "%s: ", f->path) : ERR_OK;
}

static enum err check_labels(const struct idx_file *f, struct idx_out labels, uint32_t classes,
                             struct errmsg *e)
{
    for (uint32_t i = 0; classes && i < f->dim[0]; i++) {
        float label = labels.bytes ? (float)labels.bytes[i] : labels.floats[i];
        if (label < 0 || label >= (float)classes || label != truncf(label))
            return err_set(e, ERR_INPUT,
                           "%s: the label at offset %llu (item %u, counted from 0) is %g, the "
                           "model has %u classes (labels 0 to %u)",
                           f->path,
                           (unsigned long long)(f->header_bytes + i * element_bytes(f->type)), i,
                           (double)label, classes, classes - 1);
    }
    return ERR_OK;
}

static struct idx_out rows_out(const struct dataset *d, uint64_t row)
{
    size_t at = (size_t)(row * d->features);
    return d->x ? (struct idx_out){d->x + at, NULL} : (struct idx_out){NULL, d->x_float + at};
}

static struct idx_out labels_out(const struct dataset *d, uint64_t row)
{
    return d->labels ? (struct idx_out){d->labels + row, NULL}
                     : (struct idx_out){NULL, d->y_float + row};
}

static enum err set_read(const struct idx_set *set, struct dataset *d, const struct reading *r,
                         struct sha256 *digest, struct errmsg *e)
{
    uint64_t row = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < set->n_images && !err; i++) {
        struct idx_out labels = labels_out(d, row);
        err = idx_file_read(&set->labels[i], labels, digest, e);
        if (!err)
            err = check_labels(&set->labels[i], labels, r->classes, e);
        if (!err)
            err = idx_file_read(&set->images[i], rows_out(d, row), digest, e);
        row += set->images[i].dim[0];
    }
    return err;
}

/* One that is no bytes makes floats of all. */
static bool has_wide(const struct idx_file *file, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (file[i].type != ELEMENT_U8)
            return true;
    return false;
}

static enum err set_load(const struct idx_set *set, struct dataset *d, const struct reading *r,
                         struct sha256 *digest, struct errmsg *e)
{
    const struct idx_file *first = &set->images[0];
    uint64_t rows = 0; /* at most PATHS_MAX * 2^32 */
    for (size_t i = 0; i < set->n_images; i++)
        rows += set->images[i].dim[0];
    enum err err = dataset_alloc_as(d, r, first->path, rows, first->rank - 1, first->dim + 1,
                                    has_wide(set->images, set->n_images),
                                    has_wide(set->labels, set->n_labels), e);
    return err || r->look ? err : set_read(set, d, r, digest, e);
}

enum err idx_load(struct dataset *d, const struct reading *r, struct sha256 *digest,
                  struct errmsg *e)
{
    struct paths paths;
    struct idx_set set;
    enum err err = paths_expand(&paths, r->patterns, e);
    if (err)
        return err;
    if (r->look)
        r->look->files = paths.count;
    err = set_open(&set, &paths, e);
    if (!err) {
        err = set_load(&set, d, r, digest, e);
        set_close(&set);
    }
    paths_close(&paths);
    return err;
}
