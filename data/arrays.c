#include "data/arrays.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/base/real.h"
#include "data/core/rounding.h"

/* bytes read, and then hashed while they are still in the cache */
enum { ARRAY_PIECE_BYTES = 256 << 10 };

/* The arrays of one data set: images[i] and labels[i] are a pair. */
struct array_set {
    const struct array_format *format;
    struct array_file *images, *labels;
    size_t n_images, n_labels;
    bool by_order; /* two arrays of one column: only their order says which has the labels */
};

/* ---- elements ---- */

size_t element_bytes(enum element type)
{
    switch (type) {
    case ELEMENT_U8:
    case ELEMENT_I8:
        return 1;
    case ELEMENT_I16:
    case ELEMENT_U16:
    case ELEMENT_F16:
        return 2;
    case ELEMENT_I32:
    case ELEMENT_U32:
    case ELEMENT_F32:
        return 4;
    case ELEMENT_F64:
    case ELEMENT_I64:
    case ELEMENT_U64:
        return 8;
    case ELEMENT_NONE:
        break;
    }
    return 0;
}

static uint64_t bits(const uint8_t *p, size_t bytes, bool little)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | p[little ? bytes - 1 - i : i];
    return v;
}

static float float_of(const uint8_t *p, enum element type, bool little)
{
    uint64_t v = bits(p, element_bytes(type), little);
    uint32_t low = (uint32_t)v;
    float f;
    double d;
    switch (type) {
    case ELEMENT_I8:
        return (float)(int8_t)v;
    case ELEMENT_I16:
        return (float)(int16_t)v;
    case ELEMENT_I32:
        return (float)(int32_t)low;
    case ELEMENT_F32:
        memcpy(&f, &low, sizeof f);
        return f;
    case ELEMENT_F64:
        memcpy(&d, &v, sizeof d);
        return (float)d;
    case ELEMENT_I64:
        return (float)(int64_t)v;
    case ELEMENT_F16:
        return real_of_half((uint16_t)v);
    case ELEMENT_U8:
    case ELEMENT_U16:
    case ELEMENT_U32:
    case ELEMENT_U64:
    case ELEMENT_NONE:
        break;
    }
    return (float)v;
}

double element_double(const uint8_t *p, enum element type, bool little)
{
    uint64_t v = bits(p, element_bytes(type), little);
    double d;
    if (type == ELEMENT_F64)
        memcpy(&d, &v, sizeof d);
    else if (type == ELEMENT_I32)
        d = (int32_t)(uint32_t)v;
    else if (type == ELEMENT_I64)
        d = (double)(int64_t)v;
    else if (type == ELEMENT_U32 || type == ELEMENT_U64)
        d = (double)v;
    else
        d = (double)float_of(p, type, little);
    return d;
}

size_t element_floats(float *out, const uint8_t *from, size_t n, enum element type, bool little)
{
    size_t bytes = element_bytes(type);
    for (size_t i = 0; i < n; i++) {
        float v = float_of(from + i * bytes, type, little);
        if (!isfinite(v))
            return i;
        out[i] = v;
    }
    return n;
}

/* ---- headers ---- */

enum err array_set_dims(struct array_file *f, uint32_t rank, const uint32_t *dim, struct errmsg *e)
{
    f->rank = rank;
    f->row_bytes = element_bytes(f->type);
    for (uint32_t i = 0; i < rank; i++) {
        f->dim[i] = dim[i];
        if (i && f->dim[i] == 0)
            return err_set(e, ERR_INPUT, "dimension %u is 0: it has no elements", i);
        if (i && (__builtin_mul_overflow(f->row_bytes, f->dim[i], &f->row_bytes) ||
                  f->row_bytes > UINT32_MAX))
            return err_set(e, ERR_INPUT, "a row of it would have more than 2^32 bytes");
    }
    f->bytes = f->row_bytes * f->dim[0]; /* < 2^64: both are below 2^32 */
    return ERR_OK;
}

enum err array_read_exactly(struct stream *s, uint8_t *out, size_t bytes, uint64_t before,
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

enum err array_check_size(const struct array_file *f, const struct stream *s, struct errmsg *e)
{
    uint64_t bound = stream_bound_bytes(s);
    if (bound >= f->header_bytes && bound - f->header_bytes >= f->bytes)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "truncated: its header asks for %llu + %zu bytes, %llu are there%s",
                   (unsigned long long)f->bytes, f->header_bytes, (unsigned long long)bound,
                   stream_is_compressed(s) ? " at most, decompressed" : "");
}

static enum err set_add(struct array_set *set, const char *path, struct errmsg *e)
{
    struct array_file f = {.path = path};
    struct stream *s;
    enum err err = set->format->open(&f, &s, e);
    if (err)
        return err;
    stream_close(s);
    if (f.rank == 1)
        set->labels[set->n_labels++] = f;
    else
        set->images[set->n_images++] = f;
    return ERR_OK;
}

static void set_close(struct array_set *set)
{
    mem_free(set->images);
    mem_free(set->labels);
}

static bool is_thin(const struct array_file *f)
{
    return f->rank == 2 && f->dim[1] == 1;
}

/* An array with one column has labels, if no other array does. Of two such arrays the first has the rows. */
static void take_thin_labels(struct array_set *set)
{
    size_t kept = 0;
    bool takes = set->n_labels == 0;
    const bool both = set->n_images == 2 && is_thin(&set->images[0]) && is_thin(&set->images[1]);
    set->by_order = takes && both;
    for (size_t i = 0; i < set->n_images; i++) {
        struct array_file *f = &set->images[i];
        if (!takes || !is_thin(f) || (both && i == 0)) {
            set->images[kept++] = *f;
            continue;
        }
        set->labels[set->n_labels] = *f;
        set->labels[set->n_labels++].rank = 1;
    }
    set->n_images = kept;
}

enum { SHAPE_BYTES = 12 * ARRAY_RANK_MAX, THIN_HINT_BYTES = 400 };

/* "(60000, 28, 28)" */
static const char *array_shape(const struct array_file *f, char out[static SHAPE_BYTES])
{
    char dims[SHAPE_BYTES - 2];
    (void)snprintf(out, SHAPE_BYTES, "(%s)", digits_list(dims, sizeof dims, f->dim, f->rank));
    return out;
}

static enum err check_pair(const struct array_set *set, size_t i, bool unlabeled, struct errmsg *e)
{
    const struct array_file *x = &set->images[i], *first = &set->images[0];
    const struct array_file *y = unlabeled ? NULL : &set->labels[i];
    char shape[SHAPE_BYTES], first_shape[SHAPE_BYTES];
    if (y && x->dim[0] == 0)
        return err_set(e, ERR_INPUT, "%s: dimension 0 is 0: it has no rows", x->path);
    if (y && x->dim[0] != y->dim[0])
        return err_set(e, ERR_INPUT, "%s has %u rows, %s has %u labels", x->path, x->dim[0],
                       y->path, y->dim[0]);
    if (x->rank != first->rank ||
        memcmp(x->dim + 1, first->dim + 1, (x->rank - 1) * sizeof *x->dim) != 0)
        return err_set(e, ERR_INPUT,
                       "%s has the shape %s, and %s %s: the rows have another shape than those of "
                       "the first",
                       x->path, array_shape(x, shape), first->path,
                       array_shape(first, first_shape));
    return ERR_OK;
}

/* Advice about the array of one column that is taken for rows. */
static const char *thin_hint(const struct array_set *set, char out[static THIN_HINT_BYTES])
{
    size_t i = 0;
    while (i < set->n_images && !is_thin(&set->images[i]))
        i++;
    *out = '\0';
    if (set->format->thin_labels && i < set->n_images &&
        snprintf(out, THIN_HINT_BYTES,
                 "; %s has the shape (%u, 1): if it has labels, save y.ravel()",
                 set->images[i].path, set->images[i].dim[0]) >= THIN_HINT_BYTES)
        (void)snprintf(out, THIN_HINT_BYTES,
                       "; an array has the shape (%u, 1): if it has labels, save y.ravel()",
                       set->images[i].dim[0]);
    return out;
}

static enum err check_pairs(const struct array_set *set, const struct paths *p, bool unlabeled,
                            struct errmsg *e)
{
    char thin[THIN_HINT_BYTES];
    if (set->n_images == 0 && set->n_labels && set->labels->dim[1] == 1)
        return err_set(e, ERR_INPUT,
                       "%s has the shape (%u, 1), as all %zu arrays have one column, so which are "
                       "the labels is not known: save them as y.ravel()",
                       set->labels->path, set->labels->dim[0], set->n_labels);
    if (set->n_images == 0 || (!unlabeled && set->n_labels == 0))
        return err_set(e, ERR_INPUT, "%s: %s of %s are missing%s", p->path[0], set->format->name,
                       set->n_images ? "labels (1 dimension)" : "rows (2 or more dimensions)",
                       set->n_images > 1 && set->format->thin_labels
                           ? "; if the labels are one-hot, save numpy.argmax(y, axis=1)"
                           : "");
    if (!unlabeled && set->n_images != set->n_labels)
        return err_set(e, ERR_INPUT,
                       "%zu files of rows and %zu files of labels: each file of rows needs one "
                       "file of labels%s",
                       set->n_images, set->n_labels, thin_hint(set, thin));
    enum err err = ERR_OK;
    for (size_t i = 0; i < set->n_images && !err; i++)
        err = check_pair(set, i, unlabeled, e);
    return err;
}

static enum err set_open(struct array_set *out, const struct array_format *format,
                         const struct paths *p, bool unlabeled, struct errmsg *e)
{
    struct array_set set = {.format = format,
                            .images = mem_zalloc(p->count, sizeof *set.images),
                            .labels = mem_zalloc(p->count, sizeof *set.labels)};
    enum err err = set.images && set.labels ? ERR_OK : err_memory(e);
    for (size_t i = 0; i < p->count && !err; i++)
        err = set_add(&set, p->path[i], e);
    if (!err && format->thin_labels && (!unlabeled || set.n_images > 1))
        take_thin_labels(&set);
    if (!err)
        err = check_pairs(&set, p, unlabeled, e);
    if (err)
        set_close(&set);
    else
        *out = set;
    return err;
}

/* No bytes may follow; this also makes zlib and zstd compare their checksums. */
static enum err read_end(struct stream *s, const struct array_file *f, struct errmsg *e)
{
    uint8_t extra;
    size_t got;
    enum err err = stream_read(s, &extra, 1, &got, e);
    if (!err && got)
        err = err_set(e, ERR_INPUT, "bytes follow after the %llu + %zu that its header asks for",
                      (unsigned long long)f->bytes, f->header_bytes);
    return err;
}

/* ---- what float32 loses ---- */

enum {
    SAMPLE_ROWS = 4096,
    SAMPLE_COLUMNS = 256, /* images have more */
    /* behind these pieces of a file each EACH-th: noting takes half as long as reading */
    SAMPLE_PIECES = 64,
    SAMPLE_EACH = 8
};

static bool fits_float(enum element type)
{
    return element_bytes(type) < sizeof(float) || type == ELEMENT_F32;
}

/* Room to note the columns of the training part's rows, or its labels. NULL: there is nothing to note, as floats have all digits of
 * its numbers. *out is the caller's. Errors: ERR_NOMEM. */
static enum err rounding_new(struct rounding **out, const struct array_file *files, size_t n,
                             const struct reading *r, struct errmsg *e)
{
    uint64_t columns = n ? files->row_bytes / element_bytes(files->type) : 0;
    size_t i = 0;
    *out = NULL;
    while (i < n && fits_float(files[i].type))
        i++;
    if (r->eval || i == n || columns > SAMPLE_COLUMNS)
        return ERR_OK;
    *out = mem_zalloc((size_t)columns, sizeof **out);
    return *out ? ERR_OK : err_memory(e);
}

static uint64_t element_key(const uint8_t *element, const struct array_file *f)
{
    uint64_t bits;
    if (f->type != ELEMENT_I64 && f->type != ELEMENT_U64)
        return rounding_key(element_double(element, f->type, f->little));
    memcpy(&bits, element, sizeof bits); /* either byte order tells them apart */
    return rounding_key_of_integer(bits);
}

/* Note elements from the `at`-th of the file on, which are these floats. */
static void note_rounding(struct rounding *of, const struct array_file *f, const uint8_t *elements,
                          const float *floats, size_t n, uint64_t at)
{
    const size_t width = element_bytes(f->type), columns = (size_t)f->row_bytes / width;
    size_t column = (size_t)(at % columns), first = SAMPLE_ROWS * columns;
    for (size_t i = 0; i < n; i++, column = column + 1 < columns ? column + 1 : 0) {
        bool row = at + i < first;
        const float left = rounding_flushed(floats[i]);
        if (row || rounding_picks(left))
            rounding_add(&of[column], element_key(elements + i * width, f), (double)left, row);
    }
}

/* Warn if less than a tenth of the different numbers is left, and remember the first warning of a look. */
static void say_rounding(const struct rounding *of, const struct array_file *f,
                         const struct reading *r)
{
    size_t columns = (size_t)f->row_bytes / element_bytes(f->type);
    char which[48] = "its labels";
    double numbers, left;
    for (size_t i = 0; i < columns; i++) {
        if (!rounding_loses(&of[i], ROUNDING_OF_FLOATS, &numbers, &left))
            continue;
        if (f->rank > 1)
            (void)snprintf(which, sizeof which, "column %zu of its rows", i);
        dataset_warn(r,
                     "%s: %s: %s: a sample has about %.0f different numbers, but about %.0f in "
                     "float32, which has about 7 digits; subtract their mean, and divide them, "
                     "before you save them",
                     r->key, f->path, which, numbers, left);
    }
}

/* ---- the size of numbers ---- */

enum {
    RANGE_BYTES = 1 << 20,   /* noted of the beginning of a file */
    LABELS_BYTES = 16 << 20, /* a look reads all labels of a file that has no more */
    PIXEL_SCALE = 255,
    RANGE_SCALE = 10, /* a data.scale from which on it is not for numbers up to 1 */
    LARGE = 10000     /* of a number that a model is given */
};

static bool is_float(enum element type)
{
    return type == ELEMENT_F16 || type == ELEMENT_F32 || type == ELEMENT_F64;
}

/* Raise *most to the largest size of these numbers. A double that is 0 as a float counts as a denormal float. */
static void note_most(float *most, const struct array_file *f, const uint8_t *elements,
                      const float *floats, size_t n)
{
    const size_t width = element_bytes(f->type);
    float largest = *most;
    for (size_t i = 0; i < n; i++)
        largest = fabsf(floats[i]) > largest ? fabsf(floats[i]) : largest;
    *most = largest;
    for (size_t i = 0; i < n && *most == 0; i++)
        if (element_double(elements + i * width, f->type, f->little) != 0)
            *most = FLT_TRUE_MIN;
}

static void note_most_byte(float *most, const uint8_t *bytes, size_t n)
{
    uint8_t largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = bytes[i] > largest ? bytes[i] : largest;
    *most = largest > *most ? largest : *most;
}

/* Warn of the numbers of a file, if the largest of them has a size that is a sign of a mistake. */
static void say_most(const struct array_file *f, float most, const struct reading *r)
{
    const double scale = (double)r->job->data.scale;
    if (most == 0)
        return;
    if (most < FLT_MIN)
        dataset_warn(r,
                     "%s: %s: all its numbers are 0 or below 1.2e-38, as if their bytes were not "
                     "in the order of the file, which is %s-endian",
                     r->key, f->path, f->little ? "little" : "big");
    else if (f->rank > 1 && f->type == ELEMENT_I8 && scale >= PIXEL_SCALE)
        dataset_warn(r,
                     "%s: %s: it has integers from -128 to 127, and data.scale: %g is for pixels "
                     "up to 255, of which those above 127 are then negative: save them as uint8",
                     r->key, f->path, scale);
    else if (f->rank > 1 && most <= 1 && scale >= RANGE_SCALE)
        dataset_warn(r,
                     "%s: %s: it has %s up to %.3g, and data.scale: %g divides them again; "
                     "remove data.scale if they are scaled already, else save them as they were",
                     r->key, f->path, is_float(f->type) ? "floats" : "integers", (double)most,
                     scale);
    else if (f->rank > 1 && most > 1 && scale < 1 && (double)most > LARGE * scale)
        dataset_warn(
            r,
            "%s: %s: it has numbers up to %.3g, and data.scale: %.3g, which divides them, "
            "makes them up to %.3g; if they are to be multiplied by it, use data.scale: %.3g",
            r->key, f->path, (double)most, scale, (double)most / scale, 1 / scale);
    else if (f->rank > 1 && f->type == ELEMENT_U16 && scale == PIXEL_SCALE &&
             most > RANGE_SCALE * PIXEL_SCALE)
        dataset_warn(r,
                     "%s: %s: it has integers of 16 bits up to %.0f, and data.scale: %g is for "
                     "pixels up to 255; if they are pixels, use data.scale: 65535",
                     r->key, f->path, (double)most, scale);
}

/* ---- elements ---- */

/* The destination of a file's elements: bytes, unchanged, or floats. */
struct array_out {
    uint8_t *bytes; /* NULL: floats */
    float *floats;
    struct rounding *rounding; /* (columns) of floats; NULL: not noted */
    float *most;               /* the largest size; NULL: not noted */
    const char *whole; /* "an id": a number that float32 rounds is not one. NULL: not checked */
};

/* An id or a class must be a whole number before float32 rounds it. */
static enum err check_whole(const struct array_file *f, struct array_out out, const uint8_t *piece,
                            const float *floats, size_t n, uint64_t offset, struct errmsg *e)
{
    const size_t width = element_bytes(f->type);
    for (size_t i = 0; i < n && out.whole && !fits_float(f->type); i++) {
        double number = element_double(piece + i * width, f->type, f->little);
        if (number != (double)floats[i])
            return err_set(e, ERR_INPUT,
                           "the number at offset %llu, %.17g, is not %s: a float32 would be %.9g",
                           (unsigned long long)(f->header_bytes + offset + i * width),
                           digits_printed(number), out.whole, digits_printed((double)floats[i]));
    }
    return ERR_OK;
}

/* The element at this offset of the file's elements is no float. */
static enum err refuse_infinite(const struct array_file *f, uint64_t at, struct errmsg *e)
{
    const size_t width = element_bytes(f->type);
    return err_set(e, ERR_INPUT,
                   "the number at offset %llu is not finite, or beyond 32-bit floats (row %llu, "
                   "number %llu of it, both counted from 0)",
                   (unsigned long long)(f->header_bytes + at),
                   (unsigned long long)(at / f->row_bytes),
                   (unsigned long long)(at % f->row_bytes / width));
}

/* Convert `bytes` of elements, which are at `offset` of the file's elements. */
static enum err put_floats(const struct array_file *f, struct array_out out, const uint8_t *piece,
                           size_t bytes, uint64_t offset, struct errmsg *e)
{
    size_t width = element_bytes(f->type), n = bytes / width;
    float *floats = out.floats + offset / width;
    size_t good = element_floats(floats, piece, n, f->type, f->little);
    const uint64_t number = offset / ARRAY_PIECE_BYTES;
    if (good == n && out.rounding && (number < SAMPLE_PIECES || number % SAMPLE_EACH == 0))
        note_rounding(out.rounding, f, piece, floats, n, offset / width);
    if (good == n && out.most)
        note_most(out.most, f, piece, floats, n);
    if (good == n)
        return check_whole(f, out, piece, floats, n, offset, e);
    return refuse_infinite(f, offset + good * width, e);
}

static enum err read_elements(struct stream *s, const struct array_file *f, struct array_out out,
                              struct contents *contents, struct errmsg *e)
{
    uint8_t *piece = out.bytes ? NULL : mem_zalloc(ARRAY_PIECE_BYTES, 1);
    enum err err = out.bytes || piece ? ERR_OK : err_memory(e);
    contents_file(contents, f->path);
    contents_add(contents, f->tag, f->tag_bytes);
    contents_count(contents, f->bytes);
    for (uint64_t done = 0; done < f->bytes && !err;) {
        size_t n =
            f->bytes - done < ARRAY_PIECE_BYTES ? (size_t)(f->bytes - done) : ARRAY_PIECE_BYTES;
        uint8_t *to = out.bytes ? out.bytes + done : piece;
        err = array_read_exactly(s, to, n, f->header_bytes + done, f->header_bytes + f->bytes, e);
        if (!err)
            contents_add(contents, to, n);
        for (size_t i = 0; i < n && f->truth && !err; i++)
            to[i] = to[i] != 0;
        if (!err && piece)
            err = put_floats(f, out, piece, n, done, e);
        else if (!err && out.most)
            note_most_byte(out.most, to, n);
        done += n;
    }
    mem_free(piece);
    return err ? err : read_end(s, f, e);
}

/* Read the elements of *f to `out`, which has room for the size that its header had at the first opening. */
static enum err array_read(const struct array_format *format, const struct array_file *f,
                           struct array_out out, struct contents *contents, struct errmsg *e)
{
    struct array_file now = {.path = f->path};
    struct stream *s;
    enum err err = format->open(&now, &s, e);
    if (err)
        return err;
    if (now.header_bytes != f->header_bytes || now.tag_bytes != f->tag_bytes ||
        memcmp(now.tag, f->tag, f->tag_bytes) != 0)
        err = err_set(e, ERR_INPUT, "it changed while it was read");
    else
        err = read_elements(s, f, out, contents, e);
    stream_close(s);
    return err ? err_wrap(e, err, "%s: ", f->path) : ERR_OK;
}

static enum err check_labels(const struct array_file *f, struct array_out labels, uint32_t classes,
                             struct errmsg *e)
{
    for (uint32_t i = 0; classes && i < f->dim[0]; i++) {
        float label = labels.bytes ? (float)labels.bytes[i] : labels.floats[i];
        if (label < 0 || label >= (float)classes || label != truncf(label))
            return err_set(e, ERR_INPUT,
                           "%s: the label at offset %llu (item %u, counted from 0) is %g, the "
                           "model has %u classes (labels 0 to %u)%s",
                           f->path,
                           (unsigned long long)(f->header_bytes + i * element_bytes(f->type)), i,
                           digits_printed((double)label), classes, classes - 1,
                           label == (float)classes ? "; if they start at 1, save y - 1" : "");
    }
    return ERR_OK;
}

/* Refuse a number that is no row of the embedding that reads it. */
static enum err check_ids(const struct array_file *f, const struct dataset *d, struct array_out x,
                          const struct job *job, struct errmsg *e)
{
    const uint32_t ids = job_input_ids(job);
    const float scale = 1.0F / d->scale;
    uint64_t elems = (uint64_t)f->dim[0] * d->features;
    for (uint64_t i = 0; ids && i < elems; i++) {
        float id = (x.bytes ? (float)x.bytes[i] : x.floats[i]) * scale;
        if (!job_is_id(id, ids))
            return err_set(
                e, ERR_INPUT,
                "%s: row %llu, number %llu of it (both counted from 0): %.9g is not an id: "
                "the embedding that reads it has rows 0 to %u",
                f->path, (unsigned long long)(i / d->features),
                (unsigned long long)(i % d->features), digits_printed((double)id), ids - 1);
    }
    return ERR_OK;
}

static struct array_out rows_out(const struct dataset *d, uint64_t row)
{
    size_t at = (size_t)(row * d->features);
    return d->x ? (struct array_out){.bytes = d->x + at}
                : (struct array_out){.floats = d->x_float + at};
}

static struct array_out labels_out(const struct dataset *d, uint64_t row)
{
    return d->labels ? (struct array_out){.bytes = d->labels + row}
                     : (struct array_out){.floats = d->y_float + row};
}

static const uint8_t *bytes_at(struct array_out out, size_t row, size_t elems)
{
    return out.bytes ? out.bytes + row * elems : (const uint8_t *)(out.floats + row * elems);
}

static bool are_zeros(struct array_out out, size_t row, size_t elems)
{
    const size_t bytes = elems * (out.bytes ? 1 : sizeof *out.floats);
    const uint8_t *at = bytes_at(out, row, elems);
    return *at == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* A file that was made with its size, as numpy's memmap is, and not written to its end. */
static void say_zeros(const struct array_file *f, struct array_out rows, struct array_out labels,
                      uint32_t features, const struct reading *r)
{
    enum { FEW = 20, TENTH = 10 };
    uint32_t zeros = 0;
    while (zeros < f->dim[0] && are_zeros(rows, f->dim[0] - zeros - 1, features) &&
           are_zeros(labels, f->dim[0] - zeros - 1, 1))
        zeros++;
    if (zeros >= FEW && zeros >= f->dim[0] / TENTH && zeros < f->dim[0])
        dataset_warn(
            r, "%s: %s: its last %u of %u rows are zeros alone%s: was it written to its end?",
            r->key, f->path, zeros, f->dim[0], r->unlabeled ? "" : ", and so are their labels");
}

/* The notes of an array set. NULL: none are made. */
struct notes {
    struct rounding *rows, *labels;
};

static enum err set_read(const struct array_set *set, struct dataset *d, const struct reading *r,
                         const struct notes *notes, struct errmsg *e)
{
    const bool ids = job_input_ids(r->job) > 0;
    const struct array_file *bytes = NULL, *shares = NULL; /* bytes above 1; floats up to 1 */
    uint64_t row = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < set->n_images && !err; i++) {
        float most_label = 0, most = 0;
        struct array_out labels = labels_out(d, row);
        labels.most = &most_label;
        labels.rounding = notes->labels;
        labels.whole = dataset_has_classes(r->job) ? "a class" : NULL;
        if (!r->unlabeled)
            err = array_read(set->format, &set->labels[i], labels, &d->contents, e);
        if (!err && !r->unlabeled)
            say_most(&set->labels[i], most_label, r);
        if (!err && !r->unlabeled)
            err = check_labels(&set->labels[i], labels, r->classes, e);
        struct array_out rows = rows_out(d, row);
        rows.rounding = notes->rows;
        rows.most = &most;
        rows.whole = ids ? "an id" : NULL;
        if (!err)
            err = array_read(set->format, &set->images[i], rows, &d->contents, e);
        if (!err) {
            contents_rows(&d->contents, set->images[i].dim[0]);
            say_most(&set->images[i], most, r);
            say_zeros(&set->images[i], rows, labels, d->features, r);
            if (set->images[i].type == ELEMENT_U8 && most > 1)
                bytes = &set->images[i];
            if (is_float(set->images[i].type) && most > 0 && most <= 1)
                shares = &set->images[i];
            err = check_ids(&set->images[i], d, rows, r->job, e);
        }
        row += set->images[i].dim[0];
    }
    d->bytes = bytes != NULL;
    d->shares = shares != NULL;
    const struct dataset *of = r->learned;
    const struct array_file *other = NULL; /* in another unit than those of data.train */
    if (of && of->shares && !of->bytes && !shares)
        other = bytes;
    else if (of && of->bytes && !of->shares && !bytes)
        other = shares;
    if (!err && other)
        dataset_warn(r,
                     "%s: %s has %s, and data.train has %s: is one of them divided by 255? write "
                     "both in one unit",
                     r->key, other->path, bytes ? "bytes up to 255" : "floats up to 1",
                     bytes ? "floats up to 1" : "bytes up to 255");
    if (!err && bytes && shares)
        dataset_warn(r,
                     "%s: %s has bytes up to 255, and %s floats up to 1: is one of them divided by "
                     "255? write both in one unit",
                     r->key, bytes->path, shares->path);
    return err;
}

/* Check and note the beginning of a file. of: NULL: only the sizes of its numbers. */
static enum err look_at(const struct array_set *set, const struct array_file *file,
                        struct rounding *of, const struct reading *r, struct errmsg *e)
{
    struct array_file f = {.path = file->path};
    struct stream *s;
    enum err err = set->format->open(&f, &s, e);
    if (err)
        return err;
    const uint64_t most_bytes = of ? SAMPLE_ROWS * f.row_bytes : RANGE_BYTES;
    size_t bytes = (size_t)(f.bytes < most_bytes ? f.bytes : most_bytes);
    size_t elems = bytes / element_bytes(f.type);
    float most = 0;
    uint8_t *rows = mem_zalloc(bytes, 1);
    float *floats = mem_floats(elems);
    err = rows && floats
              ? array_read_exactly(s, rows, bytes, f.header_bytes, f.header_bytes + f.bytes, e)
              : err_memory(e);
    if (!err) {
        const size_t good = element_floats(floats, rows, elems, f.type, f.little);
        err = good < elems ? refuse_infinite(&f, good * element_bytes(f.type), e) : ERR_OK;
        if (of)
            note_rounding(of, &f, rows, floats, elems, 0);
        note_most(&most, &f, rows, floats, elems);
        say_most(file, most, r);
    }
    mem_free(rows);
    mem_free(floats);
    stream_close(s);
    return err ? err_wrap(e, err, "%s: ", f.path) : ERR_OK;
}

/* The same with labels, all of them unless they are many: a class that the model does not have is refused. */
static enum err note_labels(const struct array_set *set, struct rounding *of,
                            const struct reading *r, struct errmsg *e)
{
    const struct array_file *f = set->labels;
    struct contents unused = {.files = 0};
    float most = 0, *labels = NULL;
    if (f->bytes > LABELS_BYTES)
        return look_at(set, f, of, r, e);
    enum err err = contents_begin(&unused, e);
    if (!err)
        err = (labels = mem_floats(f->bytes / element_bytes(f->type))) ? ERR_OK : err_memory(e);
    const struct array_out out = {.floats = labels,
                                  .rounding = of,
                                  .most = &most,
                                  .whole = dataset_has_classes(r->job) ? "a class" : NULL};
    if (!err)
        err = array_read(set->format, f, out, &unused, e);
    if (!err) {
        say_most(f, most, r);
        err = check_labels(f, out, r->classes, e);
    }
    contents_close(&unused);
    mem_free(labels);
    return err;
}

/* If one file has elements other than bytes, all become floats. */
static bool has_wide(const struct array_file *file, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (file[i].type != ELEMENT_U8)
            return true;
    return false;
}

static enum err set_load(const struct array_set *set, struct dataset *d, const struct reading *r,
                         struct errmsg *e)
{
    const struct array_file *first = &set->images[0];
    uint64_t rows = 0; /* at most PATHS_MAX * 2^32 */
    for (size_t i = 0; i < set->n_images; i++)
        rows += set->images[i].dim[0];
    enum err err = dataset_alloc_as(d, r, first->path, rows, first->rank - 1, first->dim + 1,
                                    has_wide(set->images, set->n_images),
                                    has_wide(set->labels, set->n_labels), e);
    struct notes notes = {NULL, NULL};
    if (!err)
        err = rounding_new(&notes.rows, set->images, set->n_images, r, e);
    if (!err && !r->classes && !r->unlabeled)
        err = rounding_new(&notes.labels, set->labels, set->n_labels, r, e);
    if (!err && !r->look)
        err = set_read(set, d, r, &notes, e);
    else if (!err)
        err = look_at(set, first, notes.rows, r, e);
    if (!err && r->look && !r->unlabeled)
        err = note_labels(set, notes.labels, r, e);
    if (!err && notes.rows)
        say_rounding(notes.rows, first, r);
    if (!err && notes.labels)
        say_rounding(notes.labels, set->labels, r);
    mem_free(notes.rows);
    mem_free(notes.labels);
    return err;
}

/* ---- names of pairs ---- */

static bool name_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char name_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* The part of a name between the beginning and the end that all names of its list have: a view. */
struct pair_name {
    const char *text;
    size_t bytes;
};

/* The bytes that all names of a list begin and end with. Neither ends within a number. */
struct stem {
    size_t head, tail;
};

static size_t common_head(const char *a, const char *b, size_t most)
{
    size_t n = 0;
    while (n < most && a[n] && name_lower(a[n]) == name_lower(b[n]))
        n++;
    return n;
}

static size_t common_tail(const char *a, const char *b, size_t most)
{
    const char *p = a + strlen(a), *q = b + strlen(b);
    size_t n = 0;
    while (n < most && p > a && q > b && name_lower(p[-1]) == name_lower(q[-1])) {
        p--;
        q--;
        n++;
    }
    return n;
}

static struct stem stem_of(const char *const *name, size_t n)
{
    size_t shortest = strlen(name[0]), bytes = shortest;
    struct stem s = {bytes, bytes};
    for (size_t i = 1; i < n; i++) {
        s.head = common_head(name[0], name[i], s.head);
        s.tail = common_tail(name[0], name[i], s.tail);
        shortest = strlen(name[i]) < shortest ? strlen(name[i]) : shortest;
    }
    while (s.head > 0 && name_digit(name[0][s.head - 1]))
        s.head--;
    s.tail = s.tail < shortest - s.head ? s.tail : shortest - s.head;
    while (s.tail > 0 && name_digit(name[0][bytes - s.tail]))
        s.tail--;
    return s;
}

static struct pair_name without_stem(const char *name, struct stem s)
{
    return (struct pair_name){name + s.head, strlen(name) - s.head - s.tail};
}

/* Go to the first digit of a number that is not 0. */
static const char *skip_zeros(const char *at, const char *end)
{
    while (at + 1 < end && *at == '0' && name_digit(at[1]))
        at++;
    return at;
}

static bool names_agree(struct pair_name a, struct pair_name b)
{
    const char *p = a.text, *q = b.text, *p_end = p + a.bytes, *q_end = q + b.bytes;
    bool within = false; /* a number: its zeros count */
    while (p < p_end && q < q_end) {
        p = within ? p : skip_zeros(p, p_end);
        q = within ? q : skip_zeros(q, q_end);
        if (name_lower(*p) != name_lower(*q))
            return false;
        within = name_digit(*p);
        p++;
        q++;
    }
    return p == p_end && q == q_end;
}

/* Does a name of the list agree with it? */
static bool is_among(const char *const *name, size_t n, struct stem s, struct pair_name with)
{
    for (size_t i = 0; i < n; i++)
        if (names_agree(without_stem(name[i], s), with))
            return true;
    return false;
}

/* The first pair whose names have different numbers or words between what is common to their lists, as x_10 and y_02; n: none.
 * Numbers are compared by value, and words without case. Names that have nothing in common say nothing: then it is n, too. The
 * pair's are in *row and *label. */
static size_t names_differ(const char *const *rows, const char *const *labels, size_t n,
                           struct pair_name *row, struct pair_name *label)
{
    if (n < 2) /* a single name has no end of its own */
        return n;
    const struct stem of_rows = stem_of(rows, n), of_labels = stem_of(labels, n);
    size_t differs = n, same = 0;
    for (size_t i = 0; i < n; i++) {
        bool is = names_agree(without_stem(rows[i], of_rows), without_stem(labels[i], of_labels));
        same += is;
        differs = is || differs < n ? differs : i;
    }
    if (differs == n)
        return n;
    *row = without_stem(rows[differs], of_rows);
    *label = without_stem(labels[differs], of_labels);
    return same || is_among(labels, n, of_labels, *row) || is_among(rows, n, of_rows, *label)
               ? differs
               : n;
}

/* ---- warnings ---- */

/* The patterns are these files: their order is the user's, not that of a glob or an archive. */
static bool is_named(const char *patterns, const struct paths *p)
{
    for (size_t i = 0; i < p->count; i++) {
        size_t n = strlen(p->path[i]);
        if (strncmp(patterns, p->path[i], n) != 0 || patterns[n] != (i + 1 < p->count ? '\n' : 0))
            return false;
        patterns += n + 1;
    }
    return true;
}

/* Pairs are by order, and "10" is before "2". */
static void say_pairs(const struct reading *r, const char *const *rows, const char *const *labels,
                      size_t n)
{
    struct pair_name row, label;
    size_t i = names_differ(rows, labels, n, &row, &label);
    if (i < n)
        dataset_warn(r,
                     "%s: the rows of %s have the labels of %s, by the order of the names, which "
                     "differ in \"%.*s\" and \"%.*s\"; rename the files, with all numbers of one "
                     "width, or list them in pairs",
                     r->key, rows[i], labels[i], (int)row.bytes, row.text, (int)label.bytes,
                     label.text);
}

/* Names can have another order than their numbers, and rows can be there twice with the same labels. */
static enum err warn_of_pairs(const struct array_set *set, const struct paths *p,
                              const struct reading *r, struct errmsg *e)
{
    const size_t n = set->n_images;
    const char **path = mem_zalloc(2 * n, sizeof *path);
    if (!path)
        return err_memory(e);
    for (size_t i = 0; i < n; i++) {
        path[i] = set->images[i].path;
        path[n + i] = i < set->n_labels ? set->labels[i].path : path[i];
    }
    if (!r->unlabeled && !is_named(r->patterns, p))
        say_pairs(r, path, path + n, n);
    enum err err = same_files_warn(r, path, path + n, n, e);
    mem_free(path);
    return err;
}

static void say_order(const struct array_set *set, const struct paths *p, const struct reading *r)
{
    if (set->by_order && !is_named(r->patterns, p))
        dataset_warn(r,
                     "%s: %s and %s both have the shape (n, 1): the first is read as the rows, the "
                     "second as the labels; name them in this order, or save the labels with the "
                     "shape (n)",
                     r->key, p->path[0], p->path[1]);
}

enum err arrays_load(struct dataset *d, const struct reading *r, const struct array_format *format,
                     struct errmsg *e)
{
    struct paths paths;
    struct array_set set;
    enum err err = reading_paths(&paths, r, e);
    if (err)
        return err;
    if (r->look)
        r->look->files = paths.count;
    if (format->list)
        err = format->list(&paths, r->unlabeled, e);
    if (!err)
        err = set_open(&set, format, &paths, r->unlabeled, e);
    if (!err) {
        say_order(&set, &paths, r);
        err = set_load(&set, d, r, e);
        if (!err)
            err = warn_of_pairs(&set, &paths, r, e);
        set_close(&set);
    }
    paths_close(&paths);
    return err;
}
