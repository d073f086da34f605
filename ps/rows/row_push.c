#include "ps/rows/row_push.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/rows/row_codec.h"

/* The keys of one list in a part: those of the request, or the body's own. */
struct run {
    const uint64_t *mixed;
    uint32_t keys;
};

/* One part of the body. */
struct part {
    uint32_t keys[ROW_TABLES_MAX]; /* of each list: number of present keys */
    struct run of[ROW_TABLES_MAX];
    const uint64_t *bits[ROW_TABLES_MAX]; /* a bit for each requested key; NULL: none, or all */
    const uint8_t *g[ROW_TABLES_MAX];     /* of each table: the gradients of its list's keys */
    uint64_t g_bytes[ROW_TABLES_MAX];
};

/* The unread rest of a body. */
struct rest {
    const uint8_t *at;
    uint64_t bytes;
};

static void pass(struct rest *r, uint64_t bytes)
{
    r->at += bytes;
    r->bytes -= bytes;
}

static uint64_t whole_words(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

/* ---- reading ---- */

static enum err check_bits(const uint64_t *bits, struct run of, uint32_t keys, uint32_t list,
                           struct errmsg *e)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < (of.keys + 63) / 64; i++)
        n += (uint64_t)__builtin_popcountll(bits[i]);
    if (of.keys % 64 && bits[of.keys / 64] >> (of.keys % 64))
        return err_set(e, ERR_PROTO, "a bit is set beyond the %u keys of list %u", of.keys, list);
    if (n != keys)
        return err_set(e, ERR_PROTO,
                       "%" PRIu64 " bits are set for the %u keys of list %u that are announced", n,
                       keys, list);
    return ERR_OK;
}

/* Read the bits that tell which of the requested keys are present. */
static enum err read_bits(struct part *p, uint32_t list, struct rest *r, struct errmsg *e)
{
    struct run of = p->of[list];
    if (p->keys[list] > of.keys)
        return err_set(e, ERR_PROTO, "%u keys of list %u are pushed; %u were requested",
                       p->keys[list], list, of.keys);
    if (p->keys[list] == 0 || p->keys[list] == of.keys)
        return ERR_OK;
    uint64_t bytes = ((uint64_t)of.keys + 63) / 64 * sizeof(uint64_t);
    if (bytes > r->bytes)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left for the bits of %u keys", r->bytes,
                       of.keys);
    p->bits[list] = (const uint64_t *)(const void *)r->at;
    pass(r, bytes);
    return check_bits(p->bits[list], of, p->keys[list], list, e);
}

static enum err read_keys(struct part *p, uint32_t list, struct bucket_range buckets,
                          struct rest *r, struct errmsg *e)
{
    uint64_t bytes = p->keys[list] * sizeof(uint64_t);
    if (bytes > r->bytes)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left for %u keys", r->bytes,
                       p->keys[list]);
    p->of[list] = (struct run){(const uint64_t *)(const void *)r->at, p->keys[list]};
    pass(r, bytes);
    return row_keys_check(p->of[list].mixed, p->keys[list], list, buckets, e);
}

static enum err read_list(struct part *p, uint32_t list, const struct row_keys *asked,
                          struct bucket_range buckets, struct rest *r, struct errmsg *e)
{
    p->bits[list] = NULL;
    if (!asked)
        return read_keys(p, list, buckets, r, e);
    const uint64_t *mixed = asked->mixed[list];
    size_t first = key_below(mixed, asked->keys[list], buckets.first);
    size_t end = key_below(mixed, asked->keys[list], buckets.end);
    p->of[list] = (struct run){end > first ? mixed + first : NULL, (uint32_t)(end - first)};
    return read_bits(p, list, r, e);
}

static enum err read_table(struct part *p, const struct row_layout *l, uint32_t table,
                           struct rest *r, struct errmsg *e)
{
    const struct row_table_spec *t = &l->table[table];
    struct row_decoder d;
    uint32_t n = p->keys[t->list];
    enum err err = row_decoder_begin(&d, l->codecs.push[table], t->dim, n, r->at, r->bytes);
    for (uint32_t i = 0; i < n && !err; i++)
        err = row_decoder_take(&d, i, NULL);
    if (err)
        return err_set(e, ERR_PROTO,
                       "%" PRIu64 " bytes that are left are not gradients of %u rows of table %s",
                       r->bytes, n, t->name);
    p->g[table] = r->at;
    p->g_bytes[table] = r->bytes - d.left;
    pass(r, p->g_bytes[table]);
    return ERR_OK;
}

static enum err read_tables(struct part *p, const struct row_layout *l, struct rest *r,
                            struct errmsg *e)
{
    uint64_t before = r->bytes;
    for (uint32_t i = 0; i < l->tables; i++) {
        enum err err = read_table(p, l, i, r, e);
        if (err)
            return err;
    }
    uint64_t bytes = before - r->bytes, gap = whole_words(bytes) - bytes;
    if (gap > r->bytes)
        return err_set(e, ERR_PROTO, "a part is cut off after its gradients");
    pass(r, gap);
    return ERR_OK;
}

/* Read part number `which`, at the beginning of the rest. */
static enum err read_part(struct part *p, const struct row_push *of, uint32_t which, struct rest *r,
                          struct errmsg *e)
{
    const struct row_layout *l = of->layout;
    struct bucket_range buckets = bucket_part(of->buckets, of->first + which);
    uint64_t counts = whole_words(l->lists * sizeof(uint32_t));
    if (r->bytes < counts)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left for the counts of %u lists",
                       r->bytes, l->lists);
    memcpy(p->keys, r->at, l->lists * sizeof *p->keys);
    pass(r, counts);
    for (uint32_t i = 0; i < l->lists; i++) {
        enum err err = read_list(p, i, of->asked, buckets, r, e);
        if (err)
            return err;
    }
    return read_tables(p, l, r, e);
}

enum err row_push_check(const struct row_push *p, uint64_t *sections, struct errmsg *e)
{
    struct part part;
    struct rest rest = {p->body, p->bytes};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->parts; i++) {
        enum err err = read_part(&part, p, i, &rest, e);
        if (err)
            return err;
        bytes += row_grads_bytes(p->layout, part.keys);
    }
    if (rest.bytes)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left over after part %u", rest.bytes,
                       p->first + p->parts - 1);
    if (bytes > ROWS_BODY_MAX)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes of rows in one push; the limit is %" PRIu64,
                       bytes, ROWS_BODY_MAX);
    *sections = bytes;
    return ERR_OK;
}

/* ---- writing ---- */

static uint64_t *put_keys(uint64_t *out, const struct part *p, uint32_t list)
{
    struct run of = p->of[list];
    if (p->keys[list] == 0)
        return out;
    if (!p->bits[list]) {
        memcpy(out, of.mixed, of.keys * sizeof *out);
        return out + of.keys;
    }
    for (uint32_t w = 0; w < (of.keys + 63) / 64; w++)
        for (uint64_t bits = p->bits[list][w]; bits; bits &= bits - 1)
            *out++ = of.mixed[w * 64 + (uint32_t)__builtin_ctzll(bits)];
    return out;
}

static uint8_t *put_table(uint8_t *out, const struct part *p, const struct row_layout *l,
                          uint32_t table)
{
    const struct row_table_spec *t = &l->table[table];
    struct row_decoder d;
    uint32_t n = p->keys[t->list];
    size_t bytes = t->dim * sizeof(float);
    if (l->codecs.push[table] == ROW_CODEC_NONE) {
        if (n)
            memcpy(out, p->g[table], n * bytes);
        return out + n * bytes;
    }
    enum err err =
        row_decoder_begin(&d, l->codecs.push[table], t->dim, n, p->g[table], p->g_bytes[table]);
    for (uint32_t i = 0; i < n && !err; i++, out += bytes)
        err = row_decoder_take(&d, i, (float *)(void *)out);
    assert(err == ERR_OK); /* row_push_check has accepted it */
    return out;
}

static uint8_t *put_part(uint8_t *begin, const struct row_layout *l, const struct part *p)
{
    uint64_t counts = l->lists * sizeof *p->keys;
    memcpy(begin, p->keys, counts);
    memset(begin + counts, 0, whole_words(counts) - counts);
    uint64_t *keys = (uint64_t *)(void *)(begin + whole_words(counts));
    for (uint32_t i = 0; i < l->lists; i++)
        keys = put_keys(keys, p, i);
    uint8_t *out = (uint8_t *)keys, *end = begin + row_grads_bytes(l, p->keys);
    for (uint32_t i = 0; i < l->tables; i++)
        out = put_table(out, p, l, i);
    assert(out <= end && end - out < 8);
    memset(out, 0, (size_t)(end - out));
    return end;
}

void row_push_expand(const struct row_push *p, uint8_t *out, const float *at[ROW_PARTS])
{
    struct part part;
    struct errmsg e;
    struct rest rest = {p->body, p->bytes};
    for (uint32_t i = 0; i < p->parts; i++) {
        enum err err = read_part(&part, p, i, &rest, &e);
        assert(err == ERR_OK);
        (void)err;
        at[i] = (const float *)(const void *)out;
        out = put_part(out, p->layout, &part);
    }
}
