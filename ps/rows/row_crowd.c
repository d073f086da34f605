#include "ps/rows/row_table.h"

#include <assert.h>
#include <string.h>
#include <sys/auxv.h>

#include "common/base/mem.h"

enum {
    SLOTS_MIN = 64,
    BLOCK_ENTRIES = 64,
    AHEAD = 16 /* keys to prefetch before the first is read */
};

struct row_block {
    uint32_t entries;
    struct row_entry entry[BLOCK_ENTRIES];
};

void row_crowd_close(struct row_crowd *c)
{
    for (uint32_t i = 0; i < c->blocks; i++)
        mem_free(c->block[i]);
    mem_free(c->block);
    mem_free(c->least);
    mem_unmap(c->slot, c->slots * sizeof *c->slot);
    *c = (struct row_crowd){.next = c->next};
}

/* ---- the hash table: linear probing, at most half full, at least one sixteenth ---- */

/* The kernel gives each process 16 random bytes. Nobody who does not know them can choose keys whose slots are close
 * together. */
static void take_secret(struct row_crowd *c)
{
    memcpy(c->secret, (const void *)getauxval(AT_RANDOM), sizeof c->secret);
}

static uint64_t slot_of(const struct row_crowd *c, uint64_t mixed)
{
    uint64_t z = mixed * (c->secret[0] | 1);
    z = (z ^ (z >> 32)) * (c->secret[1] | 1);
    return (z >> 32) & (c->slots - 1);
}

static uint64_t next_slot(const struct row_crowd *c, uint64_t slot)
{
    return (slot + 1) & (c->slots - 1);
}

/* The slot of this key, or the free one at which the search for it ends. */
static uint64_t find_slot(const struct row_crowd *c, uint64_t mixed)
{
    uint64_t at = slot_of(c, mixed);
    while (c->slot[at].row_1 && c->slot[at].mixed != mixed)
        at = next_slot(c, at);
    return at;
}

static uint64_t ask_slot(const struct row_crowd *c, uint64_t mixed)
{
    uint64_t at = slot_of(c, mixed);
    __builtin_prefetch(c->slot + at);
    return at;
}

void row_crowd_find(const struct row_crowd *c, const uint64_t *mixed, size_t n, uint32_t *row)
{
    uint64_t slot[AHEAD];
    for (size_t i = 0; i < n && i < AHEAD; i++)
        slot[i] = ask_slot(c, mixed[i]);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = slot[i % AHEAD];
        if (i + AHEAD < n)
            slot[i % AHEAD] = ask_slot(c, mixed[i + AHEAD]);
        while (c->slot[at].row_1 && c->slot[at].mixed != mixed[i])
            at = next_slot(c, at);
        row[i] = c->slot[at].row_1 - 1; /* of a free slot: ROW_NONE */
    }
}

static enum err set_slots(struct row_crowd *c, uint64_t slots)
{
    struct row_crowd to = {.slots = slots};
    take_secret(&to);
    to.slot = mem_map(to.slots * sizeof *to.slot);
    if (!to.slot)
        return ERR_NOMEM;
    for (uint64_t i = 0; i < c->slots; i++)
        if (c->slot[i].row_1)
            to.slot[find_slot(&to, c->slot[i].mixed)] = c->slot[i];
    mem_unmap(c->slot, c->slots * sizeof *c->slot);
    c->slot = to.slot;
    c->slots = to.slots;
    take_secret(c);
    return ERR_OK;
}

static enum err make_slots(struct row_crowd *c)
{
    if (2 * (c->entries + 1) <= c->slots)
        return ERR_OK;
    return set_slots(c, c->slots ? 2 * c->slots : SLOTS_MIN);
}

/* Entries after the free slot move down, unless their search begins after it. */
static void free_slot(struct row_crowd *c, uint64_t at)
{
    for (uint64_t i = next_slot(c, at); c->slot[i].row_1; i = next_slot(c, i)) {
        uint64_t from = (i - slot_of(c, c->slot[i].mixed)) & (c->slots - 1);
        if (from >= ((i - at) & (c->slots - 1))) {
            c->slot[at] = c->slot[i];
            at = i;
        }
    }
    c->slot[at] = (struct row_entry){0};
}

/* ---- the sorted blocks ---- */

/* The last block whose first key is not above this one; the first block if there is none. */
static uint32_t block_of(const struct row_crowd *c, uint64_t mixed)
{
    uint32_t low = 0, high = c->blocks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->least[middle] <= mixed)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first entry of the block that is not below this key. */
static uint32_t entry_of(const struct row_block *b, uint64_t mixed)
{
    uint32_t low = 0, high = b->entries;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->entry[middle].mixed < mixed)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum err make_room(struct row_crowd *c)
{
    size_t need = (size_t)c->blocks + 1, capacity = c->capacity;
    struct row_block **block = mem_grow(c->block, &capacity, need, sizeof(struct row_block *));
    c->block = block ? block : c->block;
    uint64_t *least = block ? mem_grow(c->least, &c->capacity, need, sizeof *least) : NULL;
    c->least = least ? least : c->least;
    return least ? ERR_OK : ERR_NOMEM;
}

static enum err new_block(struct row_crowd *c, uint32_t at)
{
    struct row_block *b = make_room(c) ? NULL : mem_zalloc(1, sizeof *b);
    if (!b)
        return ERR_NOMEM;
    memmove(c->block + at + 1, c->block + at, (c->blocks - at) * sizeof(struct row_block *));
    memmove(c->least + at + 1, c->least + at, (c->blocks - at) * sizeof *c->least);
    c->block[at] = b;
    c->blocks++;
    return ERR_OK;
}

static void drop_block(struct row_crowd *c, uint32_t at)
{
    mem_free(c->block[at]);
    c->blocks--;
    memmove(c->block + at, c->block + at + 1, (c->blocks - at) * sizeof(struct row_block *));
    memmove(c->least + at, c->least + at + 1, (c->blocks - at) * sizeof *c->least);
}

/* Keys often come in ascending order: then the block that is left behind stays full. */
static enum err split(struct row_crowd *c, uint32_t at, uint64_t mixed)
{
    struct row_block *full = c->block[at];
    enum err e = new_block(c, at + 1);
    if (e)
        return e;
    uint32_t stay =
        full->entry[BLOCK_ENTRIES - 1].mixed < mixed ? BLOCK_ENTRIES - 1 : BLOCK_ENTRIES / 2;
    struct row_block *b = c->block[at + 1];
    b->entries = BLOCK_ENTRIES - stay;
    memcpy(b->entry, full->entry + stay, b->entries * sizeof *b->entry);
    full->entries = stay;
    c->least[at + 1] = b->entry[0].mixed;
    return ERR_OK;
}

static enum err put_in_order(struct row_crowd *c, struct row_entry entry)
{
    enum err e = c->blocks ? ERR_OK : new_block(c, 0);
    uint32_t at = e ? 0 : block_of(c, entry.mixed);
    if (!e && c->block[at]->entries == BLOCK_ENTRIES) {
        e = split(c, at, entry.mixed);
        at = e ? at : block_of(c, entry.mixed);
    }
    if (e)
        return e;
    struct row_block *b = c->block[at];
    uint32_t i = entry_of(b, entry.mixed);
    memmove(b->entry + i + 1, b->entry + i, (b->entries - i) * sizeof *b->entry);
    b->entry[i] = entry;
    b->entries++;
    c->least[at] = b->entry[0].mixed;
    return ERR_OK;
}

/* Two neighbours that together fill at most three quarters of a block become one, so blocks are half full on average at
 * least. */
static void merge(struct row_crowd *c, uint32_t at)
{
    if (at + 1 >= c->blocks)
        return;
    struct row_block *b = c->block[at], *next = c->block[at + 1];
    if (b->entries + next->entries > BLOCK_ENTRIES * 3 / 4)
        return;
    memcpy(b->entry + b->entries, next->entry, next->entries * sizeof *b->entry);
    b->entries += next->entries;
    drop_block(c, at + 1);
}

static void take_from_order(struct row_crowd *c, uint64_t mixed)
{
    uint32_t at = block_of(c, mixed);
    struct row_block *b = c->block[at];
    uint32_t i = entry_of(b, mixed);
    assert(i < b->entries && b->entry[i].mixed == mixed);
    b->entries--;
    memmove(b->entry + i, b->entry + i + 1, (b->entries - i) * sizeof *b->entry);
    if (b->entries == 0) {
        drop_block(c, at);
        return;
    }
    c->least[at] = b->entry[0].mixed;
    merge(c, at);
    merge(c, at ? at - 1 : at);
}

/* ---- entries ---- */

enum err row_crowd_add(struct row_crowd *c, uint64_t mixed, uint32_t row)
{
    const struct row_entry entry = {mixed, row + 1};
    enum err e = make_slots(c);
    if (!e)
        e = put_in_order(c, entry);
    if (e)
        return e;
    uint64_t at = find_slot(c, mixed);
    assert(!c->slot[at].row_1);
    c->slot[at] = entry;
    c->entries++;
    return ERR_OK;
}

uint32_t row_crowd_remove(struct row_crowd *c, uint64_t mixed)
{
    uint64_t at = find_slot(c, mixed);
    assert(c->slot[at].row_1);
    uint32_t row = c->slot[at].row_1 - 1;
    free_slot(c, at);
    take_from_order(c, mixed);
    if (--c->entries == 0)
        row_crowd_close(c);
    else if (c->slots > SLOTS_MIN && 16 * c->entries < c->slots)
        (void)set_slots(c,
                        c->slots / 4); /* without memory for fewer slots, the present ones stay */
    return row;
}

void row_crowd_move(struct row_crowd *c, uint64_t mixed, uint32_t row)
{
    struct row_block *b = c->block[block_of(c, mixed)];
    struct row_entry *slot = &c->slot[find_slot(c, mixed)],
                     *in_order = &b->entry[entry_of(b, mixed)];
    assert(slot->row_1 && slot->row_1 == in_order->row_1);
    slot->row_1 = in_order->row_1 = row + 1;
}

struct row_crowd_at row_crowd_seek(const struct row_crowd *c, uint64_t mixed)
{
    if (!c->blocks)
        return (struct row_crowd_at){0, 0};
    uint32_t block = block_of(c, mixed), entry = entry_of(c->block[block], mixed);
    if (entry == c->block[block]->entries)
        return (struct row_crowd_at){block + 1, 0};
    return (struct row_crowd_at){block, entry};
}

const struct row_entry *row_crowd_entry(const struct row_crowd *c, struct row_crowd_at at)
{
    return at.block < c->blocks ? &c->block[at.block]->entry[at.entry] : NULL;
}

struct row_crowd_at row_crowd_next(const struct row_crowd *c, struct row_crowd_at at)
{
    bool more = at.entry + 1 < c->block[at.block]->entries;
    return more ? (struct row_crowd_at){at.block, at.entry + 1}
                : (struct row_crowd_at){at.block + 1, 0};
}

/* ---- bytes ---- */

uint64_t row_crowd_bytes(const struct row_crowd *c)
{
    return c->slots * sizeof *c->slot + c->blocks * sizeof(struct row_block) +
           c->capacity * (sizeof *c->block + sizeof *c->least);
}
