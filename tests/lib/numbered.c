#include "tests/lib/numbered.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/readers.h"

struct numbered {
    struct row_reader reader;
    struct source *source;
    struct leaf_buffer *buffer;
};

static atomic_ullong rows_read;

uint64_t numbered_read(void)
{
    return atomic_load(&rows_read);
}

static void init_lanes(struct lanes *l, const struct numbered_config *c)
{
    (c->leased ? lanes_init_leased : lanes_init)(l, c->rows, c->batch_size, c->microbatches,
                                                 c->window, c->mix, c->seed);
}

uint32_t numbered_window_batches(const struct numbered_config *c)
{
    struct lanes lanes;
    init_lanes(&lanes, c);
    return lanes_window_batches(&lanes);
}

static enum err read_rows(struct row_reader *r, uint64_t first, uint64_t end, row_visitor *visit,
                          void *ctx, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint64_t row = first; row < end && !err; row++) {
        const float number = (float)row;
        uint32_t cell;
        memcpy(&cell, &number, sizeof cell);
        err = visit(ctx, &cell, 1, row >= r->rows, e);
    }
    atomic_fetch_add(&rows_read, end - first);
    return err;
}

struct numbered *numbered_new(const struct numbered_config *c, struct errmsg *e)
{
    static struct table_schema label_alone;
    static const struct contents contents;
    static const struct row_reader_type type = {read_rows, NULL};
    struct numbered *n = calloc(1, sizeof *n);
    const struct order order = {.rows = c->rows,
                                .batch_size = c->batch_size,
                                .seed = c->seed,
                                .microbatches = c->microbatches};
    struct lanes lanes;
    if (!n)
        abort();
    n->reader = (struct row_reader){.type = &type, .schema = &label_alone, .rows = c->rows};
    init_lanes(&lanes, c);
    const struct stream_config config = {.reader = &n->reader,
                                         .lanes = &lanes,
                                         .order = &order,
                                         .contents = &contents,
                                         .budget_bytes = c->times * lanes.lanes * lanes.mix *
                                                         lanes.window * sizeof(uint32_t)};
    if (!stream_source_new(&n->source, &config, e) &&
        !leaf_buffer_new(&n->buffer, &n->source->form, order_leaf_rows_max(&order), LEAF_ALL, e))
        return n;
    numbered_free(n);
    return NULL;
}

void numbered_free(struct numbered *n)
{
    if (n && n->buffer)
        leaf_buffer_free(n->buffer);
    if (n && n->source)
        stream_source_free(n->source);
    free(n);
}

void numbered_want(struct numbered *n, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                   uint32_t leaves)
{
    n->source->type->want(n->source, id, end_id, first_leaf, leaves);
}

void numbered_soon(struct numbered *n, uint64_t id)
{
    n->source->type->soon(n->source, id);
}

enum err numbered_leaf(struct numbered *n, uint64_t id, uint32_t leaf, const float **out,
                       uint32_t *rows, struct errmsg *e)
{
    struct leaf got;
    enum err err = n->source->type->leaf(n->source, id, leaf, n->buffer, &got, e);
    if (err)
        return err;
    *out = got.y;
    *rows = got.n;
    return ERR_OK;
}
