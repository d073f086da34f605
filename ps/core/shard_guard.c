/* The NaN guard of a shard in a commit round: finds values that are not finite or too large, in a step's summed gradient and
 * in the slots that the step would change. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/math/kernels.h"
#include "common/parameters/norm.h"
#include "ps/core/shard_state.h"
#include "ps/rows/row_tables.h"

/* Keep the finding of the lowest entry of the gate. */
static void found(struct shard *s, uint32_t entry, const char *what, const char *of,
                  const char *whose, double squares)
{
    struct shard_round *r = &s->sync.round;
    if (r->broken[0] && entry >= r->broken_entry)
        return;
    r->broken_entry = entry;
    (void)snprintf(r->broken, sizeof r->broken, "%s%s of %s is %s", what, of, whose,
                   isfinite(squares) ? "absurdly large" : "not finite");
}

/* ---- a chunk ---- */

static void check_gradient(struct shard *s, uint32_t chunk, uint64_t first, const float *g,
                           size_t n, struct norm_sums sums)
{
    const struct shard_round *r = &s->sync.round;
    double examples = (double)gate_examples(&s->sync.gate, chunk);
    double most = norm_most(r->clip_norm, examples);
    if (sums.weights + sums.statistics <= most)
        return;
    const char *tensor = norm_broken_tensor(&s->layout, first, g, n, most);
    if (tensor)
        found(s, chunk, "the gradient", "", tensor, sums.weights + sums.statistics);
}

/* Check the slots before the step: an update that uses a broken slot makes no sense, whatever broke it. */
static void check_slots(struct shard *s, uint32_t chunk, uint64_t at, size_t n)
{
    for (uint32_t i = 0; i < s->slots; i++) {
        const float *slot = s->slot[i] + at;
        double squares = kernels()->sum_squares(slot, n);
        if (squares <= NORM_SLOT_MOST)
            continue;
        const char *tensor =
            norm_broken_tensor(&s->layout, s->me.first_elem + at, slot, n, NORM_SLOT_MOST);
        if (tensor)
            found(s, chunk, "slot ", optimizer_slot_name(&s->optimizer, i), tensor, squares);
    }
}

void shard_guard_chunk(struct shard *s, uint32_t chunk, uint64_t at, const float *g, size_t n,
                       struct norm_sums sums)
{
    if (!s->sync.round.guard)
        return;
    check_gradient(s, chunk, s->me.first_elem + at, g, n, sums);
    check_slots(s, chunk, at, n);
}

/* ---- a part ---- */

static void found_row(struct shard *s, uint32_t entry, const char *what, const char *of,
                      const struct row_broken *b)
{
    char whose[ROW_TABLE_NAME_MAX + 48];
    (void)snprintf(whose, sizeof whose, "key %" PRIu64 " of table %s", key_unmix(b->mixed),
                   s->layout.rows->table[b->table].name);
    found(s, entry, what, of, whose, b->squares);
}

void shard_guard_part(struct shard *s, uint32_t part, const struct row_grads *g,
                      const double *squares)
{
    struct bucket_range of = bucket_part(s->rows.tables.buckets, part);
    uint32_t entry = s->me.chunks + part;
    double most = norm_most(s->sync.round.clip_norm, (double)gate_examples(&s->sync.gate, entry));
    struct row_broken b;
    bool within = true;
    if (!s->sync.round.guard)
        return;
    for (uint32_t i = 0; i < of.end - of.first; i++)
        within = within && squares[i] <= most;
    if (!within && row_norm_broken(s->layout.rows, g, most, &b))
        found_row(s, entry, "the gradient", "", &b);
    if (row_norm_broken_slot(&s->rows.tables, g, NORM_SLOT_MOST, &b))
        found_row(s, entry, "slot ",
                  optimizer_slot_name(&s->rows.tables.optimizer[b.table], b.slot), &b);
}
