/* The memory of a leaf. Distinct keys are found by a hash table for each list while rows are added, and sorted by buckets in
 * the end. */
#include "data/leaf_buffer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

enum { SLOTS_FEWEST = 1024, BUCKET_LONG = 64 };

struct numbered_key {
    uint64_t mixed;
    uint32_t number; /* in order of appearance */
};

/* The distinct keys of one list; a hash table while they are added. Mixed keys need no further hash. */
struct list_buffer {
    bool repeating;             /* keys are listed as they come: no slots, no order */
    uint32_t keys, room, slots; /* slots: a power of two, more than twice the keys */
    uint32_t *slot;             /* a key's number + 1; 0: free */
    uint64_t *came, *mixed;     /* (room) came: in order of appearance; mixed: in ascending order */
    struct numbered_key *order; /* (room) */
    uint32_t *rank;             /* (room) by number: its index in ascending order */
    uint32_t *begin;            /* (buckets + 1) indices in `order` */
    uint32_t begin_room;
};

/* A key column that one list looks up. */
struct column_buffer {
    const struct table_key *key;
    uint32_t list, width;
    uint32_t *count; /* (rows) for keys only */
    uint32_t *at;    /* (rows, width) numbers; later ranks */
    float *weight;   /* (rows, width) for keys with weights only */
};

struct leaf_buffer {
    struct leaf_form form;
    uint32_t rows, rows_max;
    uint64_t *numbers;            /* (rows_max) */
    float *x, *y, *weight;        /* (rows_max, features), (rows_max), (rows_max); NULL: not held */
    uint32_t columns, lists;      /* 0: no keys are held */
    struct column_buffer *column; /* (columns) one for each pair of a list and a key column */
    struct list_buffer *list;     /* (lists) */
    struct key_list *key_list;
    struct lookup_column *lookup; /* (schema->lookups) */
    uint32_t *column_of;          /* (schema->lookups) */
    const uint32_t **several; /* (schema->several) where a row's cells of a `keys` column begin */
    struct leaf_keys keys;
};

struct leaf_form leaf_form_of_cells(const struct table_schema *s)
{
    return (struct leaf_form){s->features, s->weighted, s};
}

/* ---- construction ---- */

static bool column_init(struct column_buffer *c, const struct table_schema *s,
                        const struct table_lookup *of, uint32_t rows)
{
    const struct table_key *key = &s->key[of->key];
    bool several = key->kind == COLUMN_KEYS;
    uint32_t width = table_key_width(key);
    *c = (struct column_buffer){.key = key,
                                .list = of->list,
                                .width = width,
                                .at = mem_zalloc((size_t)rows * width, sizeof *c->at),
                                .count = several ? mem_zalloc(rows, sizeof *c->count) : NULL};
    if (several && key->options.weights)
        c->weight = mem_zalloc((size_t)rows * width, sizeof *c->weight);
    return c->at && (c->count || !several) && (c->weight || !(several && key->options.weights));
}

/* Lookups of one column in one list share its indices. */
static bool columns_init(struct leaf_buffer *r)
{
    const struct table_schema *s = r->form.schema;
    for (uint32_t i = 0; i < s->lookups; i++) {
        const struct table_lookup *of = &s->lookup[i];
        uint32_t same = 0;
        while (same < r->columns &&
               (r->column[same].list != of->list || r->column[same].key != &s->key[of->key]))
            same++;
        r->column_of[i] = same;
        if (same == r->columns && !column_init(&r->column[r->columns++], s, of, r->rows_max))
            return false;
    }
    return true;
}

static enum err lookups_init(struct leaf_buffer *r, struct errmsg *e)
{
    const struct table_schema *s = r->form.schema;
    r->lists = s->lists;
    r->column = mem_zalloc(s->lookups, sizeof *r->column);
    r->list = mem_zalloc(s->lists, sizeof *r->list);
    r->key_list = mem_zalloc(s->lists, sizeof *r->key_list);
    r->lookup = mem_zalloc(s->lookups, sizeof *r->lookup);
    r->column_of = mem_zalloc(s->lookups, sizeof *r->column_of);
    r->several = mem_zalloc((size_t)s->several + 1, sizeof(uint32_t *));
    if (!r->several || !r->column || !r->list || !r->key_list || !r->lookup || !r->column_of ||
        !columns_init(r))
        return err_memory_for(e, "the keys of %u rows", r->rows_max);
    return ERR_OK;
}

static enum err values_init(struct leaf_buffer *r, struct errmsg *e)
{
    /* also without features there is memory */
    size_t features = r->form.features ? r->form.features : 1;
    r->x = r->rows_max <= SIZE_MAX / features ? mem_floats(r->rows_max * features) : NULL;
    r->y = mem_floats(r->rows_max);
    r->weight = r->form.weighted ? mem_floats(r->rows_max) : NULL;
    return r->x && r->y && (r->weight || !r->form.weighted)
               ? ERR_OK
               : err_memory_for(e, "%u rows", r->rows_max);
}

/* Room for all keys that the rows can have. */
static enum err reserve_keys(struct leaf_buffer *r, struct errmsg *e)
{
    for (uint32_t i = 0; i < r->columns; i++) {
        struct list_buffer *l = &r->list[r->column[i].list];
        uint64_t room = l->room + (uint64_t)r->rows_max * r->column[i].width;
        if (room > UINT32_MAX - 1)
            return err_set(e, ERR_INPUT, "%u rows at a time look up too many keys", r->rows_max);
        l->room = (uint32_t)room;
    }
    for (uint32_t i = 0; i < r->lists; i++) {
        r->list[i].repeating = true;
        r->list[i].came = mem_zalloc(r->list[i].room, sizeof *r->list[i].came);
        if (!r->list[i].came)
            return err_memory_for(e, "the keys of %u rows", r->rows_max);
    }
    return ERR_OK;
}

static enum err parts_init(struct leaf_buffer *r, enum leaf_parts parts, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (!(r->numbers = mem_zalloc(r->rows_max, sizeof *r->numbers)))
        return err_memory_for(e, "%u rows", r->rows_max);
    if (parts & LEAF_VALUES)
        err = values_init(r, e);
    if (!err && (parts & LEAF_LOOKUPS) && leaf_form_has_keys(&r->form))
        err = lookups_init(r, e);
    return !err && (parts & LEAF_REPEATED) ? reserve_keys(r, e) : err;
}

enum err leaf_buffer_new(struct leaf_buffer **out, const struct leaf_form *form, uint32_t rows,
                         enum leaf_parts parts, struct errmsg *e)
{
    struct leaf_buffer *r = mem_zalloc(1, sizeof *r);
    assert(rows > 0);
    if (!r)
        return err_memory_for(e, "rows");
    r->form = *form;
    r->rows_max = rows;
    enum err err = parts_init(r, parts, e);
    if (err) {
        leaf_buffer_free(r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

static void list_close(struct list_buffer *l)
{
    mem_free(l->slot);
    mem_free(l->came);
    mem_free(l->mixed);
    mem_free(l->order);
    mem_free(l->rank);
    mem_free(l->begin);
}

void leaf_buffer_free(struct leaf_buffer *r)
{
    if (!r)
        return;
    mem_free(r->numbers);
    mem_free(r->x);
    mem_free(r->y);
    mem_free(r->weight);
    for (uint32_t i = 0; i < r->columns; i++) {
        mem_free(r->column[i].at);
        mem_free(r->column[i].count);
        mem_free(r->column[i].weight);
    }
    for (uint32_t i = 0; i < r->lists && r->list; i++)
        list_close(&r->list[i]);
    mem_free(r->column);
    mem_free(r->list);
    mem_free(r->key_list);
    mem_free(r->lookup);
    mem_free(r->column_of);
    mem_free(r->several);
    mem_free(r);
}

/* ---- adding keys ---- */

void leaf_buffer_clear(struct leaf_buffer *r)
{
    r->rows = 0;
    for (uint32_t i = 0; i < r->lists; i++) {
        r->list[i].keys = 0;
        if (r->list[i].slots)
            memset(r->list[i].slot, 0, r->list[i].slots * sizeof *r->list[i].slot);
    }
}

/* The slot that has the key, or the free slot for it. */
static uint32_t slot_of(const struct list_buffer *l, uint64_t mixed)
{
    uint32_t mask = l->slots - 1, i = (uint32_t)mixed & mask;
    while (l->slot[i] && l->came[l->slot[i] - 1] != mixed)
        i = (i + 1) & mask;
    return i;
}

/* Double the slots, with arrays for half of them. */
static bool grow(struct list_buffer *l)
{
    uint32_t slots = l->slots ? 2 * l->slots : SLOTS_FEWEST, room = slots / 2;
    uint32_t *slot = slots ? mem_zalloc(slots, sizeof *slot) : NULL;
    uint64_t *came = slot ? mem_resize(l->came, room, sizeof *came) : NULL;
    if (came)
        l->came = came;
    if (!came) {
        mem_free(slot);
        return false;
    }
    mem_free(l->slot);
    l->slot = slot;
    l->slots = slots;
    for (uint32_t i = 0; i < l->keys; i++)
        l->slot[slot_of(l, l->came[i])] = i + 1;
    return true;
}

static bool number_of(struct list_buffer *l, uint64_t mixed, uint32_t *number)
{
    if (l->repeating) {
        assert(l->keys < l->room);
        l->came[l->keys] = mixed;
        *number = l->keys++;
        return true;
    }
    if (2 * (uint64_t)l->keys + 2 > l->slots && !grow(l))
        return false;
    uint32_t i = slot_of(l, mixed);
    if (!l->slot[i]) {
        l->came[l->keys] = mixed;
        l->slot[i] = ++l->keys;
    }
    *number = l->slot[i] - 1;
    return true;
}

static uint64_t key_at(const uint32_t *cells)
{
    return cells[0] | (uint64_t)cells[1] << 32;
}

static bool add_key(struct list_buffer *l, const struct column_buffer *c, const uint32_t *cells,
                    uint32_t *at)
{
    bool there = c->key->options.missing != KEY_MISSING_NONE || cells[SCHEMA_KEY_CELLS];
    *at = LOOKUP_NONE;
    return !there || number_of(l, key_at(cells), at);
}

static bool add_keys(struct list_buffer *l, const struct column_buffer *c, const uint32_t *cells,
                     uint32_t row)
{
    uint32_t each = SCHEMA_KEY_CELLS + (c->weight != NULL), n = cells[0];
    size_t first = (size_t)row * c->width;
    assert(n <= c->width);
    c->count[row] = n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *value = cells + 1 + (size_t)i * each;
        if (!number_of(l, key_at(value), &c->at[first + i]))
            return false;
        if (c->weight)
            c->weight[first + i] = schema_float(value[SCHEMA_KEY_CELLS]);
    }
    return true;
}

/* A row of weight 0 has no keys: its loss is 0 whatever it reads. */
static void add_nothing(struct leaf_buffer *r)
{
    for (uint32_t i = 0; i < r->columns; i++)
        if (r->column[i].count)
            r->column[i].count[r->rows] = 0;
        else
            r->column[i].at[r->rows] = LOOKUP_NONE;
}

static bool add_column(struct leaf_buffer *r, struct column_buffer *c, const uint32_t *cells)
{
    const uint32_t *at =
        c->count ? r->several[c->key->nth] : table_key_cells(r->form.schema, c->key, cells);
    return c->count ? add_keys(&r->list[c->list], c, at, r->rows)
                    : add_key(&r->list[c->list], c, at, &c->at[r->rows]);
}

/* In one walk over the row. */
static void find_several(struct leaf_buffer *r, const uint32_t *cells)
{
    const struct table_schema *s = r->form.schema;
    const uint32_t *at = table_several_cells(s, 0, cells);
    for (uint32_t i = 0; i < s->several; i++) {
        r->several[i] = at;
        at += 1 + (size_t)at[0] * s->each[i];
    }
}

static bool add_lookups(struct leaf_buffer *r, const uint32_t *cells)
{
    bool ok = true;
    if (r->form.weighted && !(schema_float(cells[r->form.schema->inputs + 1]) > 0.0f)) {
        add_nothing(r);
        return true;
    }
    find_several(r, cells);
    for (uint32_t i = 0; i < r->columns && ok; i++)
        ok = add_column(r, &r->column[i], cells);
    return ok;
}

enum err leaf_buffer_add(struct leaf_buffer *r, const uint32_t *cells, struct errmsg *e)
{
    const struct table_schema *s = r->form.schema;
    assert(r->rows < r->rows_max);
    if (isnan(schema_float(cells[s->inputs])))
        return ERR_OK;
    if (r->x) {
        table_features(s, cells, r->x + (size_t)r->rows * r->form.features);
        r->y[r->rows] = schema_float(cells[s->inputs]);
    }
    if (r->weight)
        r->weight[r->rows] = schema_float(cells[s->inputs + 1]);
    bool ok = r->columns == 0 || add_lookups(r, cells);
    r->rows++;
    return ok ? ERR_OK : err_memory_for(e, "keys");
}

float *leaf_buffer_add_numbers(struct leaf_buffer *r, float label)
{
    assert(r->rows < r->rows_max && !r->weight && r->columns == 0);
    r->y[r->rows] = label;
    return r->x + (size_t)r->rows++ * r->form.features;
}

uint32_t leaf_buffer_rows(const struct leaf_buffer *r)
{
    return r->rows;
}

uint64_t *leaf_buffer_numbers(struct leaf_buffer *r)
{
    return r->numbers;
}

/* ---- sorting ---- */

static int ascending(const void *a, const void *b)
{
    const struct numbered_key *x = a, *y = b;
    return (x->mixed > y->mixed) - (x->mixed < y->mixed);
}

/* As many buckets as keys, so that a bucket has a key or two; the top bits are the bucket's number. */
static uint32_t bits_for(uint32_t keys)
{
    uint32_t bits = 1;
    while (bits < 31 && UINT32_C(1) << bits < keys)
        bits++;
    return bits;
}

static bool reserve_order(struct list_buffer *l)
{
    uint32_t room = l->slots / 2, buckets = UINT32_C(1) << bits_for(l->keys);
    if (l->room < room) {
        uint64_t *mixed = mem_resize(l->mixed, room, sizeof *mixed);
        l->mixed = mixed ? mixed : l->mixed;
        struct numbered_key *order = mem_resize(l->order, room, sizeof *order);
        l->order = order ? order : l->order;
        uint32_t *rank = mem_resize(l->rank, room, sizeof *rank);
        l->rank = rank ? rank : l->rank;
        if (!mixed || !order || !rank)
            return false;
        l->room = room;
    }
    if (l->begin_room < buckets + 1) {
        uint32_t *begin = mem_resize(l->begin, (size_t)buckets + 1, sizeof *begin);
        if (!begin)
            return false;
        l->begin = begin;
        l->begin_room = buckets + 1;
    }
    return true;
}

static void sort_bucket(struct numbered_key *k, uint32_t n)
{
    if (n > BUCKET_LONG) {
        qsort(k, n, sizeof *k, ascending);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        struct numbered_key one = k[i];
        uint32_t j = i;
        for (; j > 0 && k[j - 1].mixed > one.mixed; j--)
            k[j] = k[j - 1];
        k[j] = one;
    }
}

/* begin[b]: the index in `order` where bucket b begins; each key is put at its bucket's next index. */
static void fill_buckets(struct list_buffer *l, uint32_t bits)
{
    uint32_t buckets = UINT32_C(1) << bits, at = 0, shift = 64 - bits;
    memset(l->begin, 0, ((size_t)buckets + 1) * sizeof *l->begin);
    for (uint32_t i = 0; i < l->keys; i++)
        l->begin[l->came[i] >> shift]++;
    for (uint32_t b = 0; b <= buckets; b++) {
        uint32_t n = l->begin[b];
        l->begin[b] = at;
        at += n;
    }
    for (uint32_t i = 0; i < l->keys; i++)
        l->order[l->begin[l->came[i] >> shift]++] = (struct numbered_key){l->came[i], i};
}

static bool sort_list(struct list_buffer *l)
{
    if (l->keys == 0 || l->repeating)
        return true;
    if (!reserve_order(l))
        return false;
    uint32_t bits = bits_for(l->keys), buckets = UINT32_C(1) << bits;
    fill_buckets(l, bits);
    for (uint32_t b = 0, from = 0; b < buckets; from = l->begin[b++])
        sort_bucket(l->order + from, l->begin[b] - from);
    for (uint32_t i = 0; i < l->keys; i++) {
        l->mixed[i] = l->order[i].mixed;
        l->rank[l->order[i].number] = i;
    }
    return true;
}

static void rank_places(const struct leaf_buffer *r, const struct column_buffer *c)
{
    const uint32_t *rank = r->list[c->list].rank;
    if (r->list[c->list].repeating)
        return;
    for (uint32_t row = 0; row < r->rows; row++) {
        uint32_t *at = c->at + (size_t)row * c->width, n = c->count ? c->count[row] : c->width;
        for (uint32_t i = 0; i < n; i++)
            at[i] = at[i] == LOOKUP_NONE ? LOOKUP_NONE : rank[at[i]];
    }
}

static enum err finish_keys(struct leaf_buffer *r, struct errmsg *e)
{
    for (uint32_t i = 0; i < r->lists; i++) {
        if (!sort_list(&r->list[i]))
            return err_memory_for(e, "keys");
        const struct list_buffer *l = &r->list[i];
        r->key_list[i] = (struct key_list){l->keys, l->repeating ? l->came : l->mixed};
    }
    for (uint32_t i = 0; i < r->columns; i++)
        rank_places(r, &r->column[i]);
    for (uint32_t i = 0; i < r->form.schema->lookups; i++) {
        const struct column_buffer *c = &r->column[r->column_of[i]];
        r->lookup[i] = (struct lookup_column){c->width, c->count, c->at, c->weight};
    }
    r->keys = (struct leaf_keys){r->lists, r->key_list, r->form.schema->lookups, r->lookup};
    return ERR_OK;
}

enum err leaf_buffer_finish(struct leaf_buffer *r, struct leaf *leaf, struct errmsg *e)
{
    enum err err = r->columns ? finish_keys(r, e) : ERR_OK;
    leaf->n = r->rows;
    leaf->x = r->x;
    leaf->y = r->y;
    leaf->present = NULL;
    leaf->weight = r->weight;
    leaf->keys = r->columns ? &r->keys : NULL;
    leaf->rows = NULL;
    return err;
}
