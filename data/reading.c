/* The parts that the readers of all formats share: room for rows, warnings about the data, and facts about the rows seen. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digits.h"
#include "data/readers.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "data/dataset.h"
#include "data/meaning/encoding_given.h"

bool dataset_has_classes(const struct job *job)
{
    return job_loss_labels(job->model.head[0].loss) != LABELS_VALUES;
}

enum err dataset_alloc_as(struct dataset *d, const struct reading *r, const char *from,
                          uint64_t rows, uint32_t rank, const uint32_t *shape, bool float_rows,
                          bool float_labels, struct errmsg *e)
{
    uint64_t elems;
    size_t width = float_rows ? sizeof(float) : 1;
    enum err err = dataset_set_shape(d, r, from, rows, rank, shape, e);
    if (err)
        return err;
    if (float_rows && !r->eval && augment_any(&r->job->data.augment))
        return err_set(e, ERR_INPUT,
                       "%s: data.augment needs pixels that are unsigned bytes, and these are not",
                       from);
    if (__builtin_mul_overflow(rows, d->features, &elems) || elems > SIZE_MAX / 2 / width)
        return err_set(e, ERR_INPUT, "%s needs more memory than this machine can address", from);
    if (r->look) {
        r->look->bytes = elems * width + rows * (float_labels ? sizeof(float) : 1);
        return ERR_OK;
    }
    if (float_rows)
        d->x_float = mem_zalloc((size_t)elems, sizeof *d->x_float);
    else
        d->x = mem_zalloc((size_t)elems, 1);
    if (float_labels)
        d->y_float = mem_zalloc((size_t)rows, sizeof *d->y_float);
    else
        d->labels = mem_zalloc((size_t)rows, 1);
    if (!(d->x || d->x_float) || !(d->labels || d->y_float))
        return err_set(e, ERR_NOMEM, "out of memory for %llu rows of %llu bytes",
                       (unsigned long long)rows, (unsigned long long)d->features * width);
    return ERR_OK;
}

enum err dataset_alloc(struct dataset *d, const struct reading *r, const char *from, uint64_t rows,
                       uint32_t rank, const uint32_t *shape, struct errmsg *e)
{
    return dataset_alloc_as(d, r, from, rows, rank, shape, false, false, e);
}

static struct {
    pthread_mutex_t lock;
    bool keeps;
    char *text; /* lines, each with a first byte 'w' or 'i', and a NUL */
    size_t bytes, capacity;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_said(char kind, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    pthread_mutex_lock(&said.lock);
    char *grown =
        said.keeps ? mem_grow(said.text, &said.capacity, said.bytes + 1 + bytes, 1) : NULL;
    if (grown) { /* else a line of the others' logs is missing */
        said.text = grown;
        grown[said.bytes] = kind;
        memcpy(grown + said.bytes + 1, text, bytes);
        said.bytes += 1 + bytes;
    }
    pthread_mutex_unlock(&said.lock);
}

void reading_keep_said(bool keeps)
{
    mem_free(said.text);
    said.text = NULL;
    said.bytes = said.capacity = 0;
    said.keeps = keeps;
}

const char *reading_said(size_t *bytes)
{
    *bytes = said.bytes;
    return said.text;
}

void dataset_warn(const struct reading *r, const char *fmt, ...)
{
    struct errmsg text;
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text.text, sizeof text.text, fmt, args);
    va_end(args);
    log_warn("%s", text.text);
    keep_said('w', text.text);
    if (r->look && !r->look->warning.text[0])
        r->look->warning = text;
}

void dataset_info(const char *fmt, ...)
{
    struct errmsg text;
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text.text, sizeof text.text, fmt, args);
    va_end(args);
    log_info("%s", text.text);
    keep_said('i', text.text);
}

void dataset_see(struct dataset_seen *s, float label, float weight)
{
    if (isnan(label))
        return;
    const float weighed = weight > 0 ? label : NAN;
    s->min = s->any ? fminf(s->min, label) : label;
    s->max = s->any ? fmaxf(s->max, label) : label;
    s->weighed_min = s->any ? fminf(s->weighed_min, weighed) : weighed;
    s->weighed_max = s->any ? fmaxf(s->weighed_max, weighed) : weighed;
    s->any = true;
    s->weighs |= weight > 0;
    s->rows++;
    s->weights += (double)weight;
    s->weight_max = fmaxf(s->weight_max, weight);
    if (label >= 0 && label < DATASET_SEEN_CLASSES && label == floorf(label))
        s->classes[(uint32_t)label / 64] |= UINT64_C(1) << (uint32_t)label % 64;
}

enum err reading_take_given(struct table_schema *s, const struct reading *r, struct errmsg *e)
{
    bool wide = s->wide > 0;
    enum err err = encoding_given_take(s, r->given, e);
    if (!err && wide && !s->wide)
        log_info("numbers with a scale or buckets are rounded to float32 before they are encoded, "
                 "as in the "
                 "release that wrote %s; a run with data.encoding: learn encodes them in float64",
                 r->given->from);
    return err;
}

enum err reading_columns(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    enum err err = schema_of_job(&d->table.schema, r->job, e);
    if (!err && r->given)
        err = reading_take_given(d->table.schema, r, e);
    if (!err)
        err = spill_new(&d->table.spill, r->job, e);
    return err;
}

/* The shape of rows, and what it tells the job. Apart from dataset.c, so that a program that reads a trained model needs no
 * readers of files. */

/* Trailing dimensions of 1 are ignored: a grey image equals one with one channel. */
static uint32_t telling_rank(uint32_t rank, const uint32_t *shape)
{
    while (rank > 1 && shape[rank - 1] == 1)
        rank--;
    return rank;
}

static enum err check_shape(const struct job *job, const char *from, uint32_t rank,
                            const uint32_t *shape, struct errmsg *e)
{
    char is[64], wanted[64];
    if (job->model.rank == 0) /* auto */
        return ERR_OK;
    uint32_t telling = telling_rank(rank, shape);
    if (telling == telling_rank(job->model.rank, job->model.shape) &&
        memcmp(shape, job->model.shape, telling * sizeof *shape) == 0)
        return ERR_OK;
    return err_set(e, ERR_INPUT, "%s has rows of shape [%s], model.input.shape is [%s]", from,
                   digits_list(is, sizeof is, shape, rank),
                   digits_list(wanted, sizeof wanted, job->model.shape, job->model.rank));
}

enum err dataset_set_shape(struct dataset *d, const struct reading *r, const char *from,
                           uint64_t rows, uint32_t rank, const uint32_t *shape, struct errmsg *e)
{
    enum err err = r->unfitted ? ERR_OK : check_shape(r->job, from, rank, shape, e);
    if (err)
        return err;
    uint32_t features = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(features, shape[i], &features))
            return err_set(e, ERR_INPUT, "%s has rows of more than 2^32 elements", from);
    d->rows = rows;
    d->features = features;
    d->rank = rank;
    memcpy(d->shape, shape, rank * sizeof *shape);
    return ERR_OK;
}

enum err reading_check_parts(const struct reading *r, const struct dataset *d, uint64_t left,
                             struct errmsg *e)
{
    const struct job_validation *v = &r->job->data.validation;
    const char *key = v->last > 0 ? "data.validation.last" : "data.validation.share";
    const uint64_t held = d->held.rows - d->held_bad;
    if (left && held) {
        if (!r->look)
            dataset_info("%s: %" PRIu64 " of %" PRIu64 " rows of data.train are held out", key,
                         d->held.rows, d->held.noted);
        return ERR_OK;
    }
    return err_set(
        e, ERR_INPUT, "%s: of %" PRIu64 " rows that can be read it holds out %s; set a %s share%s",
        key, left + held, left ? "none" : "all, and none is left to train on",
        left ? "larger" : "smaller", v->column[0] ? ", or a column with more different keys" : "");
}

enum err dataset_check_shape(const struct dataset *d, const struct job *job, struct errmsg *e)
{
    enum err err = check_shape(job, "data.columns", d->rank, d->shape, e);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

void dataset_tell(const struct dataset *d, struct job *job)
{
    const struct table_schema *s = d->table.schema;
    uint32_t input = 0;
    if (job->model.rank == 0) {
        job->model.rank = d->rank;
        memcpy(job->model.shape, d->shape, sizeof job->model.shape);
    }
    for (uint32_t i = 0; s && i < job->data.csv.columns; i++) {
        struct job_column *c = &job->data.csv.column[i];
        if (c->kind != COLUMN_NUMBER && c->kind != COLUMN_CATEGORY)
            continue;
        c->feature = s->input[input].feature;
        c->width = s->input[input++].width;
    }
}
