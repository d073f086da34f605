/* The source over a data set in memory or in a file: its rows as leaves and as blocks. */
#include "data/dataset.h"

#include <assert.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/math/kernels.h"

/* ---- data.augment ---- */

enum { NOTHING = -1 }; /* a pixel outside of the image */

/* Uniform in -most to most, from 15 bits. */
static int32_t offset_of(uint64_t bits, uint32_t most)
{
    return (int32_t)(((bits & 0x7FFF) * (2 * most + 1)) >> 15) - (int32_t)most;
}

/* The source of each pixel of a side, or NOTHING. */
static void side_map(int32_t *from, uint32_t side, int32_t window, int32_t shift, bool mirrored)
{
    int32_t last = (int32_t)side - 1;
    for (int32_t i = 0; i <= last; i++) {
        int32_t at = i + window;
        if (at < 0 || at > last) {
            from[i] = NOTHING;
            continue;
        }
        at = (mirrored ? last - at : at) + shift;
        from[i] = at < 0 ? 0 : at > last ? last : at;
    }
}

static void copy_line(float *out, const uint8_t *in, float s, const int32_t *from,
                      const struct image *image)
{
    uint32_t channels = image->channels;
    for (uint32_t i = 0; i < image->cols; i++, out += channels) {
        if (from[i] == NOTHING) {
            memset(out, 0, channels * sizeof *out);
            continue;
        }
        const uint8_t *pixel = in + (size_t)from[i] * channels;
        for (uint32_t c = 0; c < channels; c++)
            out[c] = (float)pixel[c] * s;
    }
}

void augment_image(float *out, const uint8_t *in, float s, const struct image *image,
                   const struct job_augment *a, uint64_t bits)
{
    int32_t row[JOB_AUGMENT_SIDE_MAX], col[JOB_AUGMENT_SIDE_MAX];
    size_t line = (size_t)image->cols * image->channels;
    assert(image->rows <= JOB_AUGMENT_SIDE_MAX && image->cols <= JOB_AUGMENT_SIDE_MAX);
    bool mirrored = a->flip == FLIP_HORIZONTAL && bits >> 63;
    side_map(row, image->rows, offset_of(bits, a->crop), offset_of(bits >> 15, a->shift), false);
    side_map(col, image->cols, offset_of(bits >> 30, a->crop), offset_of(bits >> 45, a->shift),
             mirrored);
    for (uint32_t i = 0; i < image->rows; i++) {
        if (row[i] == NOTHING)
            memset(out + i * line, 0, line * sizeof *out);
        else
            copy_line(out + i * line, in + (size_t)row[i] * line, s, col, image);
    }
}

/* ---- rows ---- */

static void row_of(const struct dataset *d, uint64_t row, float *x)
{
    const struct kernels *k = kernels();
    float s = 1.0F / d->scale;
    if (!d->x_float)
        k->u8_to_float(x, d->x + row * d->features, s, d->features);
    for (uint32_t i = 0; d->x_float && i < d->features; i++)
        x[i] = d->x_float[row * d->features + i] * s;
}

/* Rows outside a table. */
static void add_numbers(const struct dataset *d, const uint64_t *rows, uint32_t n,
                        const uint64_t *augment, struct leaf_buffer *buffer)
{
    const struct image image = {d->shape[0], d->shape[1], d->rank == 3 ? d->shape[2] : 1};
    const bool augments = augment && augment_any(&d->augment);
    for (uint32_t i = 0; i < n; i++) {
        float *x = leaf_buffer_add_numbers(buffer, dataset_label(d, rows[i]));
        if (augments)
            augment_image(x, d->x + rows[i] * d->features, 1.0F / d->scale, &image, &d->augment,
                          rng_u64(*augment, i));
        else
            row_of(d, rows[i], x);
    }
}

static enum err add_cells(void *buffer, const uint32_t *cells, struct errmsg *e)
{
    return leaf_buffer_add(buffer, cells, e);
}

enum err dataset_gather(const struct dataset *d, const uint64_t *rows, uint32_t n,
                        const uint64_t *augment, struct leaf_buffer *buffer, struct leaf *leaf,
                        struct errmsg *e)
{
    enum err err = ERR_OK;
    leaf_buffer_clear(buffer);
    if (d->x || d->x_float)
        add_numbers(d, rows, n, augment, buffer);
    else
        err = table_visit(&d->table, rows, n, add_cells, buffer, e);
    return err ? err : leaf_buffer_finish(buffer, leaf, e);
}

struct leaf_form dataset_form(const struct dataset *d)
{
    return d->table.schema ? leaf_form_of_cells(d->table.schema)
                           : (struct leaf_form){.features = d->features};
}

static enum err gather_leaf(struct source *s, uint64_t id, uint32_t leaf,
                            struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    const struct dataset *d = ((struct dataset_source *)s)->data;
    const uint64_t augment = rng_key(s->order.seed, RNG_AUGMENT, id, leaf);
    uint64_t *rows = leaf_buffer_numbers(buffer);
    uint32_t n = order_leaf(&s->order, id, leaf, rows);
    return dataset_gather(d, rows, n, &augment, buffer, out, e);
}

static enum err gather_block(struct source *s, uint64_t first, uint32_t n,
                             struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    const struct dataset *d = ((struct dataset_source *)s)->data;
    uint64_t *rows = leaf_buffer_numbers(buffer);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = first + i;
    return dataset_gather(d, rows, n, NULL, buffer, out, e);
}

void dataset_source_init(struct dataset_source *s, const struct dataset *d,
                         const struct order *order)
{
    static const struct source_type type = {.leaf = gather_leaf, .block = gather_block};
    *s = (struct dataset_source){.source = {.type = &type,
                                            .rows = d->rows,
                                            .absent = d->bad_rows,
                                            .form = dataset_form(d),
                                            .contents = &d->contents,
                                            .spill = d->table.spill},
                                 .data = d};
    if (order)
        s->source.order = *order;
}
