/* The parts that the readers of all formats share: room for rows, warnings about the data, and facts about the rows seen. */
#include "data/readers.h"

#include <math.h>
#include <stdarg.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"

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

void dataset_warn(const struct reading *r, const char *fmt, ...)
{
    struct errmsg text;
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text.text, sizeof text.text, fmt, args);
    va_end(args);
    log_warn("%s", text.text);
    if (r->look && !r->look->warning.text[0])
        r->look->warning = text;
}

void dataset_see(struct dataset_seen *s, float label, float weight)
{
    if (isnan(label))
        return;
    struct dataset_seen row = {true, weight > 0, label, label, {0}};
    if (label >= 0 && label < DATASET_SEEN_CLASSES && label == floorf(label))
        row.classes[(uint32_t)label / 64] = UINT64_C(1) << (uint32_t)label % 64;
    dataset_see_also(s, &row);
}

void dataset_see_also(struct dataset_seen *s, const struct dataset_seen *next)
{
    if (!s->any || !next->any) {
        *s = next->any ? *next : *s;
        return;
    }
    s->weighs |= next->weighs;
    s->min = fminf(s->min, next->min);
    s->max = fmaxf(s->max, next->max);
    for (size_t i = 0; i < DATASET_SEEN_CLASSES / 64; i++)
        s->classes[i] |= next->classes[i];
}
