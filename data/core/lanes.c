/* A lane is a sequence of places: those of its windows, one behind the other, of which only the last one, its piece, is
 * shorter. So a group of windows is a range of places, and a permutation of that range gives the order of its rows. */
#include "data/core/order.h"

#include <assert.h>

#include "common/base/rng.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void lanes_init(struct lanes *l, uint64_t rows, uint64_t batch_size, uint32_t microbatches,
                uint32_t window, uint32_t mix, uint64_t seed)
{
    enum { WINDOWS_LEAST = 4 }; /* of a lane, if there are rows for them */
    assert(rows && microbatches && window && mix && batch_size % microbatches == 0);
    uint64_t size = min_u64(window, rows / WINDOWS_LEAST / microbatches);
    if (size > LANES_ALIGN_ROWS)
        size -= size % LANES_ALIGN_ROWS;
    if (!size)
        size = 1;
    const uint64_t turns = rows / size / microbatches;
    const uint64_t rest = rows - turns * size * microbatches;
    *l = (struct lanes){.rows = rows,
                        .seed = seed,
                        .lanes = microbatches,
                        .leaves = 1,
                        .mix = mix,
                        .window = size,
                        .turns = turns,
                        .piece = rest / microbatches,
                        .longer = rest % microbatches,
                        .batch_rows = batch_size / microbatches};
    assert(l->batch_rows && l->piece + (l->longer > 0) <= l->window);
}

void lanes_init_leased(struct lanes *l, uint64_t rows, uint64_t batch_size, uint32_t microbatches,
                       uint32_t window, uint32_t mix, uint64_t seed)
{
    enum { WINDOWS_LEAST = 8 }; /* of an epoch, if there are batches for them */
    assert(rows && batch_size && microbatches && window && mix);
    uint64_t batches = min_u64((uint64_t)window * mix, rows / WINDOWS_LEAST) / batch_size;
    batches = batches ? min_u64(batches, LANES_WINDOW_BATCHES) : 1;
    const uint64_t size = batches * batch_size;
    *l = (struct lanes){.rows = rows,
                        .seed = seed,
                        .lanes = 1,
                        .leaves = microbatches,
                        .leased = true,
                        .mix = 1,
                        .window = size,
                        .turns = rows / size,
                        .piece = rows % size,
                        .batch_rows = batch_size};
}

uint64_t lanes_length(const struct lanes *l, uint32_t lane)
{
    assert(lane < l->lanes);
    return l->turns * l->window + l->piece + (lane < l->longer);
}

uint64_t lanes_batches(const struct lanes *l)
{
    const uint64_t longest = lanes_length(l, 0);
    return longest / l->batch_rows + (longest % l->batch_rows != 0);
}

uint32_t lanes_window_batches(const struct lanes *l)
{
    return l->leased ? (uint32_t)(l->window / l->batch_rows) : 0;
}

struct lanes_span lanes_window_rows(const struct lanes *l, uint32_t lane, uint64_t window)
{
    uint64_t first = (window * l->lanes + lane) * l->window, rows = l->window;
    if (window == l->turns) {
        first = l->turns * l->lanes * l->window + lane * l->piece + min_u64(lane, l->longer);
        rows = l->piece + (lane < l->longer);
    }
    assert(lane < l->lanes && window <= l->turns && first + rows <= l->rows);
    return (struct lanes_span){first, first + rows};
}

/* The places of its lane that the microbatch has. */
static struct lanes_span places_of(const struct lanes *l, uint64_t id, uint32_t leaf)
{
    const uint64_t length = lanes_length(l, leaf / l->leaves);
    const uint64_t first = min_u64(id % lanes_batches(l) * l->batch_rows, length);
    const uint64_t rows = min_u64(l->batch_rows, length - first), part = leaf % l->leaves;
    return (struct lanes_span){first + rows * part / l->leaves,
                               first + rows * (part + 1) / l->leaves};
}

static uint64_t group_rows(const struct lanes *l)
{
    return l->mix * l->window;
}

static uint64_t row_of_place(const struct lanes *l, uint32_t lane, uint64_t place)
{
    return lanes_window_rows(l, lane, place / l->window).first + place % l->window;
}

uint32_t lanes_leaf(const struct lanes *l, uint64_t id, uint32_t leaf, uint64_t *out)
{
    const struct lanes_span all = places_of(l, id, leaf);
    const uint32_t lane = leaf / l->leaves;
    const uint64_t epoch = id / lanes_batches(l), length = lanes_length(l, lane);
    uint64_t *to = out;
    for (uint64_t place = all.first; place < all.end;) {
        const uint64_t group = place / group_rows(l), first = group * group_rows(l);
        const uint64_t rows = min_u64(group_rows(l), length - first);
        const uint64_t key = rng_key(l->seed, RNG_SHUFFLE, epoch, group * l->lanes + lane);
        for (; place < all.end && place - first < rows; place++)
            *to++ = row_of_place(l, lane, first + rng_permute(key, place - first, rows));
    }
    assert((uint64_t)(to - out) == all.end - all.first);
    return (uint32_t)(to - out);
}

struct lanes_span lanes_windows(const struct lanes *l, uint64_t id, uint32_t leaf)
{
    const struct lanes_span all = places_of(l, id, leaf);
    const uint32_t lane = leaf / l->leaves;
    const uint64_t windows = l->turns + (l->piece + (lane < l->longer) > 0);
    if (all.first == all.end)
        return (struct lanes_span){0, 0};
    return (struct lanes_span){all.first / group_rows(l) * l->mix,
                               min_u64(((all.end - 1) / group_rows(l) + 1) * l->mix, windows)};
}
