/* CIFAR-10's binary version (Alex Krizhevsky's page "The CIFAR-10 dataset", "Binary version"): records of a label
 * byte and 32 x 32 pixels, all reds row by row, then all greens, then all blues. A row here is (32, 32, 3), channels
 * last. */
#include "data/readers.h"

#include <stdbool.h>

#include "common/base/mem.h"
#include "common/process/paths.h"
#include "data/bytes/stream.h"
#include "data/text/text_encoding.h"

enum {
    SIDE = 32,
    PLANE = SIDE * SIDE,
    CHANNELS = 3,
    ROW_BYTES = PLANE * CHANNELS,
    RECORD_BYTES = 1 + ROW_BYTES,
    PIECE_RECORDS = 16,
    LABELS = 10,
    USUAL_ROWS = 10000 /* of one file */
};

static void channels_last(uint8_t *restrict row, const uint8_t *restrict planes)
{
    for (size_t i = 0; i < PLANE; i++)
        for (size_t c = 0; c < CHANNELS; c++)
            row[i * CHANNELS + c] = planes[c * PLANE + i];
}

/* Make room for `rows` rows in all. */
static enum err reserve(struct dataset *d, uint64_t *room, uint64_t rows, struct errmsg *e)
{
    if (rows <= *room)
        return ERR_OK;
    uint64_t wanted = rows > 2 * *room ? rows : 2 * *room;
    uint8_t *x = mem_resize(d->x, wanted, ROW_BYTES);
    if (x)
        d->x = x;
    uint8_t *labels = x ? mem_resize(d->labels, wanted, 1) : NULL;
    if (!labels)
        return err_set(e, ERR_NOMEM, "out of memory for %llu rows of %d bytes",
                       (unsigned long long)wanted, ROW_BYTES);
    d->labels = labels;
    *room = wanted;
    return ERR_OK;
}

/* The file that begins with this record is another one. */
static enum err refuse_file(const uint8_t *record, size_t bytes, struct errmsg *e)
{
    const char *advice, *format = bytes && *record >= LABELS
                                      ? text_of_other_format((const char *)record, bytes, &advice)
                                      : NULL;
    if (format)
        return err_set(e, ERR_INPUT, "it is %s, not CIFAR-10's binary version", format);
    return err_set(e, ERR_INPUT,
                   "not CIFAR-10's binary version: it does not consist of records of %d bytes",
                   RECORD_BYTES);
}

/* True for a file that is known by its size on the disk to have another size than records. */
static bool is_uneven(const struct stream *s)
{
    return !stream_is_compressed(s) && stream_bound_bytes(s) % RECORD_BYTES;
}

static enum err check_label(uint8_t label, uint64_t record, uint32_t classes, struct errmsg *e)
{
    uint32_t most = classes && classes < LABELS ? classes : LABELS;
    if (label < most)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "the label at offset %llu (record %llu, counted from 0) is %u, %s has %u "
                   "classes (labels 0 to %u)",
                   (unsigned long long)record * RECORD_BYTES, (unsigned long long)record, label,
                   most == LABELS ? "CIFAR-10" : "the model", most, most - 1);
}

static enum err add_records(struct dataset *d, const uint8_t *record, size_t n, uint32_t classes,
                            uint64_t first, struct errmsg *e)
{
    for (size_t i = 0; i < n; i++, record += RECORD_BYTES) {
        enum err err = check_label(record[0], d->rows - first, classes, e);
        if (err)
            return err;
        d->labels[d->rows] = record[0];
        channels_last(d->x + d->rows * ROW_BYTES, record + 1);
        d->rows++;
    }
    return ERR_OK;
}

static enum err read_records(struct stream *s, struct dataset *d, const struct reading *r,
                             uint64_t *room, struct errmsg *e)
{
    uint8_t piece[PIECE_RECORDS * RECORD_BYTES];
    uint64_t first = d->rows;
    size_t got = sizeof piece;
    while (got == sizeof piece) {
        enum err err = stream_read(s, piece, sizeof piece, &got, e);
        if (!err && d->rows == first && got && *piece >= LABELS && is_uneven(s))
            err = refuse_file(piece, got, e);
        if (!err)
            err = reserve(d, room, d->rows + got / RECORD_BYTES, e);
        if (!err)
            err = add_records(d, piece, got / RECORD_BYTES, r->classes, first, e);
        if (err)
            return err;
        contents_add(&d->contents, piece, got);
        contents_count(&d->contents, got);
    }
    contents_rows(&d->contents, d->rows - first);
    if (got % RECORD_BYTES)
        return err_set(
            e, ERR_INPUT,
            "not CIFAR-10's binary version: %zu bytes follow its %llu records of %d bytes",
            got % RECORD_BYTES, (unsigned long long)(d->rows - first), RECORD_BYTES);
    if (d->rows == first && !r->unlabeled)
        return err_set(e, ERR_INPUT, "it has no records");
    return ERR_OK;
}

/* Check the first record; the number of records is known for a plain file. */
static enum err look_at(struct stream *s, struct dataset *d, const struct reading *r,
                        struct errmsg *e)
{
    uint8_t record[RECORD_BYTES];
    size_t got = 0;
    uint64_t bytes = stream_bound_bytes(s);
    bool compressed = stream_is_compressed(s);
    enum err err = stream_read(s, record, sizeof record, &got, e);
    if (!err && (got < sizeof record || is_uneven(s)))
        err = refuse_file(record, got, e);
    if (!err)
        err = check_label(record[0], 0, r->classes, e);
    d->rows += compressed ? USUAL_ROWS : bytes / RECORD_BYTES;
    r->look->estimated |= compressed;
    return err;
}

static enum err read_file(const char *path, struct dataset *d, const struct reading *r,
                          uint64_t *room, struct errmsg *e)
{
    struct stream *s;
    enum err err = stream_open(&s, path, e);
    if (err)
        return err;
    contents_file(&d->contents, path);
    err = r->look ? look_at(s, d, r, e) : read_records(s, d, r, room, e);
    stream_close(s);
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

static enum err cifar10_load(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    static const uint32_t shape[] = {SIDE, SIDE, CHANNELS};
    struct paths paths;
    uint64_t room = 0;
    enum err err = dataset_alloc(d, r, "data.format: cifar10", 0, 3, shape, e);
    if (err)
        return err;
    err = reading_paths(&paths, r, e);
    if (err)
        return err;
    for (size_t i = 0; i < paths.count && !err; i++)
        err = read_file(paths.path[i], d, r, &room, e);
    if (!err)
        err = same_files_warn(r, (const char *const *)paths.path, NULL, paths.count, e);
    if (r->look)
        r->look->files = paths.count;
    paths_close(&paths);
    return err;
}

const struct reader_type reader_cifar10 = {.load = cifar10_load};
