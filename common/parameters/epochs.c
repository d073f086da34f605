#include "common/parameters/epochs.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

static size_t room(const struct epochs *e)
{
    return (size_t)((e->per_epoch * e->leaves + 7) / 8);
}

enum err epochs_init(struct epochs *e, uint64_t per_epoch, uint32_t leaves)
{
    if (per_epoch > EPOCHS_LEAVES_MAX / leaves)
        return ERR_TOOBIG;
    struct epochs made = {.per_epoch = per_epoch, .leaves = leaves};
    made.dropped = mem_zalloc(room(&made), 1);
    if (!made.dropped)
        return ERR_NOMEM;
    *e = made;
    return ERR_OK;
}

void epochs_close(struct epochs *e)
{
    mem_free(e->dropped);
    *e = (struct epochs){0};
}

static bool has(const struct epochs *e, uint64_t bit)
{
    return e->dropped[bit / 8] >> (bit % 8) & 1;
}

/* Checks that `step` belongs to the current epoch and that no later batch has dropped leaves. */
static void check(const struct epochs *e, uint64_t step)
{
    assert(step >= e->begin);
    uint64_t first = (step - e->begin + 1) * e->leaves, end = e->per_epoch * e->leaves;
    for (uint32_t i = 0; i < e->leaves && first + i < end; i++)
        assert(!has(e, first + i));
    (void)first;
    (void)end;
}

void epochs_start(struct epochs *e, uint64_t step)
{
    e->epoch = step / e->per_epoch;
    e->begin = e->epoch * e->per_epoch;
    e->redone = 0;
    memset(e->dropped, 0, room(e));
    check(e, step);
}

static void set(struct epochs *e, uint64_t bit, bool value)
{
    uint8_t mask = (uint8_t)(1u << (bit % 8));
    e->dropped[bit / 8] =
        (uint8_t)(value ? e->dropped[bit / 8] | mask : e->dropped[bit / 8] & ~mask);
}

static uint64_t count_dropped(const struct epochs *e)
{
    uint64_t n = 0;
    for (size_t i = 0; i < room(e); i++)
        n += (uint64_t)__builtin_popcount(e->dropped[i]);
    return n;
}

/* The number of the epoch's batches before `step`. */
static uint64_t batches_before(const struct epochs *e, uint64_t step)
{
    uint64_t in = step - e->begin;
    return in < e->per_epoch ? in : e->per_epoch;
}

static uint64_t steps_of(const struct epochs *e)
{
    return e->per_epoch + (count_dropped(e) + e->leaves - 1) / e->leaves;
}

enum err epochs_restore(struct epochs *e, uint64_t step, uint64_t epoch, uint64_t begin,
                        uint64_t redone, const uint8_t *dropped, size_t bytes)
{
    e->epoch = epoch;
    e->begin = begin;
    e->redone = redone;
    memset(e->dropped, 0, room(e));
    if (step < begin || bytes > room(e))
        return ERR_CORRUPT;
    if (bytes)
        memcpy(e->dropped, dropped, bytes);
    for (uint64_t bit = batches_before(e, step) * e->leaves; bit < 8 * (uint64_t)room(e); bit++)
        set(e, bit, false);
    return step - begin < steps_of(e) ? ERR_OK : ERR_CORRUPT;
}

size_t epochs_saved_bytes(const struct epochs *e, uint64_t step)
{
    return (size_t)((batches_before(e, step) * e->leaves + 7) / 8);
}

bool epochs_is_extra(const struct epochs *e, uint64_t step)
{
    return step - e->begin >= e->per_epoch;
}

void epochs_note(struct epochs *e, uint64_t step, const struct tree_leaves *accepted)
{
    if (epochs_is_extra(e, step))
        return;
    uint64_t first = (step - e->begin) * e->leaves;
    for (uint32_t i = 0; i < e->leaves; i++)
        set(e, first + i, !tree_has_leaf(accepted, i));
    check(e, step);
}

/* Collects the dropped leaves of extra step `extra` (0: the first): those after the ones that earlier extra steps
 * took. */
static void take_dropped(const struct epochs *e, uint64_t extra, struct epochs_work *w)
{
    uint64_t before = extra * e->leaves;
    for (size_t i = 0; i < room(e) && w->count < e->leaves; i++) {
        uint64_t here = (uint64_t)__builtin_popcount(e->dropped[i]);
        if (here <= before) {
            before -= here;
            continue;
        }
        for (uint64_t bit = 8 * (uint64_t)i; bit < 8 * (uint64_t)i + 8 && w->count < e->leaves;
             bit++) {
            if (!has(e, bit))
                continue;
            if (before)
                before--;
            else
                w->leaf[w->count++] = e->epoch * e->per_epoch * e->leaves + bit;
        }
    }
}

void epochs_work(const struct epochs *e, uint64_t step, struct epochs_work *w)
{
    uint64_t in = step - e->begin;
    w->count = 0;
    w->redo = false;
    w->leaves = e->leaves;
    w->epoch = e->epoch;
    w->begin = e->begin;
    w->steps = e->per_epoch;
    w->batch = e->epoch * e->per_epoch + in;
    if (in < e->per_epoch)
        return;
    w->steps = steps_of(e);
    if (in < w->steps) {
        w->redo = true;
        take_dropped(e, in - e->per_epoch, w);
        /* only the last extra step can be partly empty */
        assert(w->count > 0 && (w->count == e->leaves || in + 1 == w->steps));
        return;
    }
    w->epoch = e->epoch + 1;
    w->begin = step;
    w->steps = e->per_epoch;
    w->batch = w->epoch * e->per_epoch;
}

bool epochs_leaf(const struct epochs_work *w, uint64_t batch, uint32_t leaf, uint64_t *id,
                 uint32_t *of)
{
    *id = batch;
    *of = leaf;
    if (!w || !w->redo)
        return true;
    if (leaf >= w->count)
        return false;
    *id = w->leaf[leaf] / w->leaves;
    *of = (uint32_t)(w->leaf[leaf] % w->leaves);
    return true;
}

void epochs_turn(struct epochs *e, uint64_t step)
{
    uint64_t in = step - e->begin, extra = in - e->per_epoch;
    if (in >= e->per_epoch) {
        uint64_t left = count_dropped(e) - extra * e->leaves;
        assert(left > 0 && left <= count_dropped(e)); /* an extra step trains at least one leaf */
        e->redone += left < e->leaves ? left : e->leaves;
    }
    if (in + 1 < e->per_epoch || in + 1 < steps_of(e))
        return;
    e->epoch++;
    e->begin = step + 1;
    memset(e->dropped, 0, room(e));
    check(e, step + 1);
}

uint64_t epochs_regular(uint64_t per_epoch, uint64_t epoch, uint64_t begin, uint64_t step)
{
    uint64_t in = step - begin;
    return epoch * per_epoch + (in < per_epoch ? in : per_epoch);
}
