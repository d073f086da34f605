#include "worker/driver/row_frames.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

enum err row_room_reserve(struct row_room *r, size_t bytes)
{
    if (bytes <= r->room)
        return ERR_OK;
    size_t room = bytes + bytes / 4;
    mem_free(r->data);
    r->data = mem_zalloc(room, 1);
    r->room = r->data ? room : 0;
    return r->data ? ERR_OK : ERR_NOMEM;
}

void row_room_close(struct row_room *r)
{
    mem_free(r->data);
    *r = (struct row_room){0};
}

/* The keys [first, end) of a list that lie in a range. */
struct span {
    size_t first, end;
};

static struct span span_of(const uint64_t *mixed, size_t keys, struct bucket_range range)
{
    return (struct span){key_below(mixed, keys, range.first), key_below(mixed, keys, range.end)};
}

static struct span values_span(const struct row_values *v, uint32_t list, struct bucket_range range)
{
    return span_of(v->list[list].mixed, v->list[list].keys, range);
}

/* ---- asks ---- */

size_t row_frames_ask_bytes(const struct row_values *v, struct bucket_range range, uint32_t *keys)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < v->layout->lists; i++) {
        struct span span = values_span(v, i, range);
        keys[i] = (uint32_t)(span.end - span.first);
        bytes += keys[i] * sizeof(uint64_t);
    }
    return bytes;
}

void row_frames_ask(const struct row_values *v, struct bucket_range range, uint8_t *out)
{
    for (uint32_t i = 0; i < v->layout->lists; i++) {
        struct span span = values_span(v, i, range);
        size_t bytes = (span.end - span.first) * sizeof(uint64_t);
        if (bytes)
            memcpy(out, v->list[i].mixed + span.first, bytes);
        out += bytes;
    }
}

/* ---- pushes ---- */

static size_t whole_words(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static struct span sums_span(const struct row_sums *s, uint32_t list, struct bucket_range part)
{
    return span_of(s->list[list].mixed, s->list[list].keys, part);
}

size_t row_frames_part_bytes(const struct row_sums *s, struct bucket_range part)
{
    size_t bytes = whole_words(s->layout->lists * sizeof(uint32_t)), floats = 0;
    for (uint32_t i = 0; i < s->layout->lists; i++) {
        struct span span = sums_span(s, i, part);
        bytes += (span.end - span.first) * sizeof(uint64_t);
        floats += (span.end - span.first) * row_layout_list_dim(s->layout, i);
    }
    return bytes + whole_words(floats * sizeof(float));
}

static uint8_t *put(uint8_t *out, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(out, from, bytes);
    return out + bytes;
}

static uint8_t *put_zeros_up_to(uint8_t *begin, uint8_t *out)
{
    size_t gap = whole_words((size_t)(out - begin)) - (size_t)(out - begin);
    memset(out, 0, gap);
    return out + gap;
}

size_t row_frames_part(const struct row_sums *s, struct bucket_range part, uint8_t *begin)
{
    const struct row_layout *layout = s->layout;
    uint8_t *out = begin;
    for (uint32_t i = 0; i < layout->lists; i++) {
        struct span span = sums_span(s, i, part);
        uint32_t keys = (uint32_t)(span.end - span.first);
        out = put(out, &keys, sizeof keys);
    }
    out = put_zeros_up_to(begin, out);
    for (uint32_t i = 0; i < layout->lists; i++) {
        struct span span = sums_span(s, i, part);
        out = put(out, s->list[i].mixed + span.first, (span.end - span.first) * sizeof(uint64_t));
    }
    for (uint32_t t = 0; t < layout->tables; t++) {
        struct span span = sums_span(s, layout->table[t].list, part);
        size_t dim = layout->table[t].dim;
        out = put(out, s->g[t] + span.first * dim, (span.end - span.first) * dim * sizeof(float));
    }
    out = put_zeros_up_to(begin, out);
    assert((size_t)(out - begin) == row_frames_part_bytes(s, part));
    return (size_t)(out - begin);
}

/* ---- answers ---- */

size_t row_frames_rows_most(const struct row_values *v, struct bucket_range range)
{
    size_t bytes = 0;
    for (uint32_t t = 0; t < v->layout->tables; t++) {
        struct span span = values_span(v, v->layout->table[t].list, range);
        size_t keys = span.end - span.first;
        bytes += (keys + 31) / 32 * 4 + keys * v->layout->table[t].dim * sizeof(float);
    }
    return bytes;
}

/* What is left of a body. */
struct rest {
    const uint8_t *at;
    size_t bytes;
};

/* An empty body has no address. */
static bool take(struct rest *r, size_t bytes, const uint8_t **at)
{
    *at = r->at;
    if (bytes > r->bytes)
        return false;
    if (bytes)
        r->at += bytes;
    r->bytes -= bytes;
    return true;
}

static bool is_there(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> (i % 8) & 1; /* little-endian words of 32 */
}

static enum err table_rows(struct row_values *v, uint32_t table, struct span span, uint64_t seed,
                           struct rest *r)
{
    const struct row_table_spec *spec = &v->layout->table[table];
    const uint64_t *mixed = v->list[spec->list].mixed + span.first;
    size_t keys = span.end - span.first, bytes = spec->dim * sizeof(float);
    const uint8_t *bits, *row;
    if (!take(r, (keys + 31) / 32 * 4, &bits))
        return ERR_PROTO;
    float *w = v->w[table] + span.first * spec->dim;
    for (size_t i = 0; i < keys; i++, w += spec->dim) {
        if (!is_there(bits, i))
            row_first_value(spec, seed, mixed[i], w);
        else if (take(r, bytes, &row))
            memcpy(w, row, bytes);
        else
            return ERR_PROTO;
    }
    return ERR_OK;
}

enum err row_frames_rows(struct row_values *v, struct bucket_range range, uint64_t seed,
                         const uint8_t *body, size_t bytes)
{
    struct rest rest = {body, bytes};
    for (uint32_t t = 0; t < v->layout->tables; t++) {
        enum err err =
            table_rows(v, t, values_span(v, v->layout->table[t].list, range), seed, &rest);
        if (err)
            return err;
    }
    return rest.bytes ? ERR_PROTO : ERR_OK;
}
