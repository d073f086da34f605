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

/* The keys [first, end) of a list that are in a range. */
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

/* ---- requests ---- */

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

static size_t keys_in(struct span span)
{
    return span.end - span.first;
}

/* Bytes of the marks that tell which keys of a list a part has: bits over the requested keys, or the keys
 * themselves. */
static size_t marks_bytes(const struct row_sums *s, const struct row_values *asked, uint32_t list,
                          struct bucket_range part)
{
    size_t keys = keys_in(sums_span(s, list, part));
    if (!asked)
        return keys * sizeof(uint64_t);
    size_t of = keys_in(values_span(asked, list, part));
    return keys == 0 || keys == of ? 0 : (of + 63) / 64 * sizeof(uint64_t);
}

size_t row_frames_part_most(const struct row_sums *s, const struct row_way *way,
                            struct bucket_range part)
{
    const struct row_layout *layout = s->layout;
    size_t bytes = whole_words(layout->lists * sizeof(uint32_t)), g = 0;
    for (uint32_t i = 0; i < layout->lists; i++)
        bytes += marks_bytes(s, way->asked, i, part);
    for (uint32_t t = 0; t < layout->tables; t++)
        g += row_codec_most(way->codec[t], keys_in(sums_span(s, layout->table[t].list, part)),
                            layout->table[t].dim);
    return bytes + whole_words(g);
}

uint64_t row_frames_largest_part(const struct row_sums *s, struct bucket_range shard)
{
    static const enum row_codec plain[ROW_TABLES_MAX];
    const struct row_way kept = {.asked = NULL, .codec = plain};
    uint64_t most = 0;
    for (uint32_t p = 0; p < ROW_PARTS; p++) {
        uint64_t bytes = row_frames_part_most(s, &kept, bucket_part(shard, p));
        most = bytes > most ? bytes : most;
    }
    return most;
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

/* bits = which of the requested keys the sums have. */
static void put_bits(uint64_t *bits, const uint64_t *asked, size_t of, const uint64_t *mixed,
                     size_t keys)
{
    size_t at = 0;
    for (size_t i = 0; i < of && at < keys; i++) {
        bool has = asked[i] == mixed[at];
        bits[i / 64] |= (uint64_t)has << (i % 64);
        at += has;
    }
    assert(at == keys);
}

static uint8_t *put_marks(uint8_t *out, const struct row_sums *s, const struct row_values *asked,
                          uint32_t list, struct bucket_range part)
{
    struct span span = sums_span(s, list, part);
    const uint64_t *mixed = s->list[list].mixed + span.first;
    size_t bytes = marks_bytes(s, asked, list, part);
    if (!asked || bytes == 0)
        return put(out, mixed, bytes);
    struct span of = values_span(asked, list, part);
    memset(out, 0, bytes);
    put_bits((uint64_t *)(void *)out, asked->list[list].mixed + of.first, keys_in(of), mixed,
             keys_in(span));
    return out + bytes;
}

static uint8_t *put_rows(uint8_t *out, const struct row_sums *s, const struct row_way *way,
                         uint32_t table, struct bucket_range part)
{
    const struct row_table_spec *t = &s->layout->table[table];
    struct span span = sums_span(s, t->list, part);
    const uint64_t *mixed = s->list[t->list].mixed + span.first;
    const float *g = s->g[table] + span.first * t->dim;
    struct row_encoder e;
    uint32_t n = (uint32_t)keys_in(span);
    if (way->codec[table] == ROW_CODEC_NONE)
        return put(out, g, n * t->dim * sizeof *g);
    row_encoder_begin(&e, way->codec[table], t, way->key, n, out);
    for (uint32_t i = 0; i < n; i++, g += t->dim)
        row_encoder_put(&e, i, mixed[i], g);
    return e.out;
}

size_t row_frames_part(const struct row_sums *s, const struct row_way *way,
                       struct bucket_range part, uint8_t *begin)
{
    const struct row_layout *layout = s->layout;
    uint8_t *out = begin;
    for (uint32_t i = 0; i < layout->lists; i++) {
        uint32_t keys = (uint32_t)keys_in(sums_span(s, i, part));
        out = put(out, &keys, sizeof keys);
    }
    out = put_zeros_up_to(begin, out);
    for (uint32_t i = 0; i < layout->lists; i++)
        out = put_marks(out, s, way->asked, i, part);
    for (uint32_t t = 0; t < layout->tables; t++)
        out = put_rows(out, s, way, t, part);
    out = put_zeros_up_to(begin, out);
    assert((size_t)(out - begin) <= row_frames_part_most(s, way, part));
    return (size_t)(out - begin);
}

/* ---- answers ---- */

static size_t whole_marks(size_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

size_t row_frames_rows_most(const struct row_values *v, const enum row_codec *codec,
                            struct bucket_range range)
{
    size_t bytes = 0;
    for (uint32_t t = 0; t < v->layout->tables; t++) {
        size_t keys = keys_in(values_span(v, v->layout->table[t].list, range));
        bytes += (keys + 31) / 32 * 4 +
                 whole_marks(row_codec_most(codec[t], keys, v->layout->table[t].dim));
    }
    return bytes;
}

/* The unread rest of a body. */
struct rest {
    const uint8_t *at;
    size_t bytes;
};

/* at may be NULL: an empty body has no address. */
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

static enum err table_rows(struct row_values *v, uint32_t table, enum row_codec codec,
                           struct span span, uint64_t seed, struct rest *r)
{
    const struct row_table_spec *spec = &v->layout->table[table];
    uint32_t keys = (uint32_t)keys_in(span);
    struct row_decoder d;
    const uint8_t *bits, *rows;
    if (!take(r, (keys + 31) / 32 * 4, &bits) ||
        row_decoder_begin(&d, codec, spec->dim, keys, r->at, r->bytes))
        return ERR_PROTO;
    float *w = v->w[table] + span.first * spec->dim;
    for (uint32_t i = 0; i < keys; i++, w += spec->dim) {
        if (!is_there(bits, i))
            row_values_miss(v, table, seed, (uint32_t)span.first + i);
        else if (row_decoder_take(&d, i, w))
            return ERR_PROTO;
        else
            v->absent[spec->list][span.first + i] = 0;
    }
    return take(r, whole_marks(r->bytes - (size_t)d.left), &rows) ? ERR_OK : ERR_PROTO;
}

enum err row_frames_rows(struct row_values *v, const enum row_codec *codec,
                         struct bucket_range range, uint64_t seed, const uint8_t *body,
                         size_t bytes)
{
    struct rest rest = {body, bytes};
    for (uint32_t t = 0; t < v->layout->tables; t++) {
        struct span span = values_span(v, v->layout->table[t].list, range);
        enum err err = table_rows(v, t, codec[t], span, seed, &rest);
        if (err)
            return err;
    }
    return rest.bytes ? ERR_PROTO : ERR_OK;
}
