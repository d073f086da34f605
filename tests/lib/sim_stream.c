/* data.order: stream in the simulated cluster: each worker has a real source over rows that are their own numbers. Of each leaf
 * that it computes, the rows are those of the contract, written down as lists (semantics.md, "The order of a stream"). */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "tests/lib/numbered.h"
#include "tests/lib/sim.h"

struct sim_stream_seen sim_stream_seen;

/* ---- the contract ---- */

static uint64_t window_of(const struct sim_config *c)
{
    const uint64_t w = c->stream.rows / (4 * (uint64_t)c->settings.microbatches);
    return w == 0 ? 1 : w < c->stream.window ? w : c->stream.window;
}

/* Windows are dealt to the lanes in turn; what is left is cut into as many pieces. out: the rows of the lane in the order of the
 * data. Returns how many. */
static uint64_t deal(const struct sim_config *c, uint32_t lane, uint64_t *out)
{
    const uint64_t rows = c->stream.rows, w = window_of(c), m = c->settings.microbatches;
    uint64_t n = 0, next = 0;
    for (; rows - next >= m * w; next += m * w)
        for (uint64_t i = 0; i < w; i++)
            out[n++] = next + lane * w + i;
    const uint64_t rest = rows - next;
    for (uint64_t j = 0; j < m; j++)
        for (uint64_t i = 0; i < rest / m + (j < rest % m); i++, next++)
            if (j == lane)
                out[n++] = next;
    return n;
}

/* The most batches of a window that is leased. */
static uint64_t batches_of_window(const struct sim_config *c)
{
    uint64_t rows = c->stream.rows / 8, n = 0;
    if (c->stream.window * c->stream.mix < rows)
        rows = c->stream.window * c->stream.mix;
    while (n < 64 && (n + 1) * c->settings.batch_size <= rows)
        n++;
    return n ? n : 1;
}

/* As plain_leaf, of batches that are leased. */
static uint32_t leased_leaf(const struct sim_config *c, uint64_t batch, uint32_t leaf,
                            uint64_t *out)
{
    const Gradwire__Settings *s = &c->settings;
    const uint64_t at = batch % s->batches_per_epoch, of_window = batches_of_window(c);
    const uint64_t window = at / of_window, first = window * of_window * s->batch_size;
    const uint64_t left = c->stream.rows - first, all = of_window * s->batch_size;
    const uint64_t key = rng_key(s->seed, RNG_SHUFFLE, batch / s->batches_per_epoch, window);
    uint64_t rows = c->stream.rows - at * s->batch_size;
    rows = rows < s->batch_size ? rows : s->batch_size;
    uint32_t n = 0;
    for (uint64_t i = rows * leaf / s->microbatches; i < rows * (leaf + 1) / s->microbatches; i++)
        out[n++] =
            first + rng_permute(key, at % of_window * s->batch_size + i, left < all ? left : all);
    return n;
}

/* The rows of a leaf, in their order. Returns how many. */
static uint32_t plain_leaf(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint64_t *out)
{
    const Gradwire__Settings *s = &c->settings;
    if (s->update != GRADWIRE__UPDATE__SYNC)
        return leased_leaf(c, batch, leaf, out);
    const uint64_t epoch = batch / s->batches_per_epoch, each = s->batch_size / s->microbatches;
    const uint64_t group = c->stream.mix * window_of(c),
                   first = batch % s->batches_per_epoch * each;
    uint64_t *lane = calloc(c->stream.rows, sizeof *lane), n = deal(c, leaf, lane);
    uint32_t rows = 0;
    for (uint64_t at = first; at < n && at < first + each; at++) {
        const uint64_t begin = at / group * group, of = n - begin < group ? n - begin : group;
        const uint64_t key =
            rng_key(s->seed, RNG_SHUFFLE, epoch, at / group * s->microbatches + leaf);
        out[rows++] = lane[begin + rng_permute(key, at - begin, of)];
    }
    free(lane);
    return rows;
}

/* ---- a worker's source ---- */

static struct numbered_config config_of(const struct sim_config *c)
{
    return (struct numbered_config){.rows = c->stream.rows,
                                    .batch_size = c->settings.batch_size,
                                    .seed = c->settings.seed,
                                    .microbatches = c->settings.microbatches,
                                    .window = c->stream.window,
                                    .mix = c->stream.mix,
                                    .leased = c->settings.update != GRADWIRE__UPDATE__SYNC,
                                    .times = 1 + (uint32_t)(c->seed % 2)};
}

uint32_t sim_stream_window(const struct sim_config *c)
{
    const struct numbered_config config = config_of(c);
    return c->stream.rows ? numbered_window_batches(&config) : 0;
}

void sim_stream_start(struct sim_worker *k)
{
    const struct sim_config *c = &k->proc.sim->config;
    struct errmsg e = {""};
    const struct numbered_config config = config_of(c);
    k->stream = c->stream.rows ? numbered_new(&config, &e) : NULL;
    if (c->stream.rows && !k->stream)
        sim_fail(k->proc.sim, "worker %u: %s", k->proc.index, e.text);
}

void sim_stream_stop(struct sim_worker *k)
{
    numbered_free(k->stream);
    k->stream = NULL;
}

static void check_leaf(struct sim_worker *k, uint64_t batch, uint32_t leaf)
{
    struct sim *sim = k->proc.sim;
    struct errmsg e = {""};
    const float *is = NULL;
    uint32_t rows = 0;
    uint64_t *row = calloc(sim->config.settings.batch_size, sizeof *row);
    const uint32_t n = plain_leaf(&sim->config, batch, leaf, row);
    if (numbered_leaf(k->stream, batch, leaf, &is, &rows, &e))
        sim_fail(sim, "worker %u: %s", k->proc.index, e.text);
    else if (rows != n)
        sim_fail(sim, "leaf %u of batch %" PRIu64 " has %u rows, it should have %u", leaf, batch,
                 rows, n);
    for (uint32_t i = 0; i < n && !sim->failed; i++)
        if (is[i] != (float)row[i])
            sim_fail(sim,
                     "row %u of leaf %u of batch %" PRIu64 " is row %g of the data, it should be "
                     "%" PRIu64,
                     i, leaf, batch, (double)is[i], row[i]);
    sim_stream_seen.rows += n;
    free(row);
}

void sim_stream_take(struct sim_worker *k, const struct session_task *t)
{
    const uint32_t last = t->runs - 1;
    if (!k->stream)
        return;
    numbered_want(k->stream, t->batch, t->end, t->first[0],
                  t->first[last] + t->count[last] - t->first[0]);
    numbered_soon(k->stream, t->then);
    for (uint32_t r = 0; r < t->runs; r++)
        for (uint32_t i = 0; i < t->count[r]; i++)
            check_leaf(k, t->batch, t->first[r] + i);
}

void sim_stream_random(struct sim_config *c)
{
    const uint64_t key = rng_key(c->seed, RNG_TEST, 700, 0);
    const uint64_t batch = c->settings.batch_size;
    const bool sync = c->settings.update == GRADWIRE__UPDATE__SYNC;
    c->settings.batches_per_epoch = 1 + rng_u64(key, 0) % (sync || c->broken_one_in ? 16 : 64);
    c->stream.rows = c->settings.batches_per_epoch * batch - rng_u64(key, 1) % batch;
    c->stream.window = 1 + (uint32_t)(rng_u64(key, 2) % (sync ? 12 : 8 * batch));
    c->stream.mix = 1 + (uint32_t)(rng_u64(key, 3) % 3);
}
