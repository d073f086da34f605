/* The shape of rows, and what it tells the job. Apart from dataset.c, so that a program that reads a trained model needs no
 * readers of files. */
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

#include "data/readers.h"

/* "[28, 28]" */
static const char *shape_text(char out[static 64], uint32_t rank, const uint32_t *shape)
{
    size_t at = 0;
    for (uint32_t i = 0; i < rank && at < 64; i++)
        at += (size_t)snprintf(out + at, 64 - at, "%s%u", i ? ", " : "[", shape[i]);
    if (at < 64)
        snprintf(out + at, 64 - at, "]");
    return out;
}

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
    return err_set(e, ERR_INPUT, "%s has rows of shape %s, model.input.shape is %s", from,
                   shape_text(is, rank, shape),
                   shape_text(wanted, job->model.rank, job->model.shape));
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
