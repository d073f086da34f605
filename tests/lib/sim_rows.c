/* Tables of the simulated job: the keys of each leaf, a toy gradient by them, and the plain loop's rows after each step. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/rows/key.h"
#include "tests/lib/sim.h"

const struct row_layout sim_row_layout = {
    .lists = 2,
    .tables = 3,
    .table = {
        {.name = "a", .dim = 2, .list = 0, .init = INIT_RANDOM_UNIFORM, .init_value = 0.5f},
        {.name = "b", .dim = 1, .list = 0, .init = INIT_ZEROS},
        {.name = "c", .dim = SIM_DIM_MAX, .list = 1, .init = INIT_RANDOM_NORMAL, .init_value = 1}}};

struct sim_rows_seen sim_rows_seen;

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void sim_rows_own_optimizers(struct row_layout *l)
{
    struct row_table_spec *b = &l->table[1], *c = &l->table[2];
    b->has_optimizer = c->has_optimizer = true;
    b->optimizer = (struct optimizer){.kind = OPT_FTRL,
                                      .learning_rate = 0.5f,
                                      .learning_rate_power = -0.5f,
                                      .initial_accumulator_value = 0.25f,
                                      .l1 = 0.01f,
                                      .schedule.warmup_steps = 5};
    c->optimizer = (struct optimizer){
        .kind = OPT_ADAGRAD,
        .learning_rate = 0.75f,
        .epsilon = 1e-6f,
        .initial_accumulator_value = 0.125f,
        .rowwise = true,
        .schedule = {.kind = SCHEDULE_EXPONENTIAL_DECAY, .decay_steps = 7, .decay_rate = 0.5f}};
}

/* ps.memory */
static bool is_bounded(const struct sim *sim)
{
    return sim->config.settings.row_memory > 0;
}

/* Of the shard, for rows. */
static uint64_t bound_of(const struct sim *sim, uint32_t shard)
{
    uint64_t shards = sim->config.threads[sim->rows.plan.shard[shard].ps];
    return sim->config.settings.row_memory / shards - SIM_TABLES * 8192;
}

/* Half of the keys lie close together, so that some parts have many and some have none. */
void sim_rows_init(struct sim *sim)
{
    const struct sim_config *c = &sim->config;
    for (uint32_t list = 0; list < sim_row_layout.lists; list++) {
        for (uint32_t i = 0; i < SIM_KEYS; i++) {
            uint64_t r = rng_u64(rng_key(c->seed, RNG_TEST, 7000 + list, 0), i);
            sim->rows.mixed[list][i] = i % 2 ? r : r >> 8;
        }
        qsort(sim->rows.mixed[list], SIM_KEYS, sizeof(uint64_t), ascending);
    }
    sim->rows.state = calloc(sim->oracle.steps + 1, sizeof *sim->rows.state);
    struct errmsg e;
    if (is_bounded(sim) && plan_init_tables(&sim->rows.plan, c->elems, c->threads, c->ps, &e))
        abort();
    for (uint32_t i = 0; is_bounded(sim) && i < sim->rows.plan.shards; i++)
        sim->rows.state[0].room[i] = bound_of(sim, i);
}

void sim_rows_close(struct sim *sim)
{
    free(sim->rows.state);
    plan_close(&sim->rows.plan);
}

bool sim_leaf_has(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t list,
                  uint32_t key)
{
    uint64_t r = rng_u64(rng_key(c->seed, RNG_TEST, batch, 8000 + leaf * 2 + list), key);
    uint32_t one_in = key == 3 ? 2 : 5;
    return sim_examples(c, batch, leaf) > 0 && r % one_in == 0;
}

/* The row whose gradient is broken in this leaf: of the keys that it has the first behind a random one. False: none. */
static bool broken_row(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t *table,
                       uint32_t *key)
{
    uint64_t r = rng_u64(rng_key(c->seed, RNG_TEST, batch, 9500), 0);
    struct tree_leaves one = {{0}};
    tree_add_leaves(&one, leaf, leaf + 1);
    if (!c->tables || r % 3 == 0 || !sim_broken(c, batch, &one))
        return false;
    *table = (uint32_t)(r >> 8) % SIM_TABLES;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        *key = ((uint32_t)(r >> 16) + i) % SIM_KEYS;
        if (sim_leaf_has(c, batch, leaf, sim_row_layout.table[*table].list, *key))
            return true;
    }
    return false;
}

bool sim_breaks_row(const struct sim_config *c, uint64_t batch, uint32_t leaf)
{
    uint32_t table, key;
    return broken_row(c, batch, leaf, &table, &key);
}

static void break_row(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t table,
                      uint32_t key, float *g)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e30f};
    uint64_t r = rng_u64(rng_key(c->seed, RNG_TEST, batch, 9501), 0);
    uint32_t of_table, of_key;
    if (broken_row(c, batch, leaf, &of_table, &of_key) && of_table == table && of_key == key)
        g[r % sim_row_layout.table[table].dim] =
            values[(r >> 4) % (c->settings.clip_norm > 0 ? 3 : 4)];
}

static void gradient(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t table,
                     uint32_t key, const float *w, float *g)
{
    uint64_t stream = rng_key(c->seed, RNG_TEST, batch, 9000 + leaf);
    float n = (float)sim_examples(c, batch, leaf);
    for (uint32_t i = 0; i < sim_row_layout.table[table].dim; i++) {
        float noise = rng_unit(stream, (table * SIM_KEYS + key) * SIM_DIM_MAX + i) - 0.5f;
        g[i] =
            c->gradient == SIM_IDS ? n * (float)(1 + batch * 7 % 13) : n * (w[i] * 0.125f + noise);
    }
    break_row(c, batch, leaf, table, key, g);
}

bool sim_row_gradient(const struct sim_config *c, struct sim_leaves of, struct tree_node node,
                      uint32_t table, uint32_t key, const float *w, float *g)
{
    uint32_t list = sim_row_layout.table[table].list;
    if (node.level == 0) {
        const struct sim_leaf *l = &of.leaf[node.index];
        if (!l->there || (of.set && !tree_has_leaf(of.set, node.index)) ||
            !sim_leaf_has(c, l->batch, l->leaf, list, key))
            return false;
        gradient(c, l->batch, l->leaf, table, key, w, g);
        return true;
    }
    float right[SIM_DIM_MAX];
    struct tree_node l = {node.level - 1, node.index * 2}, r = {node.level - 1, node.index * 2 + 1};
    bool has_left = sim_row_gradient(c, of, l, table, key, w, g);
    bool has_right = sim_row_gradient(c, of, r, table, key, w, right);
    for (uint32_t i = 0; has_right && i < sim_row_layout.table[table].dim; i++)
        g[i] = has_left ? g[i] + right[i] : right[i];
    return has_left || has_right;
}

/* ---- the plain loop ---- */

static uint32_t bucket_of(const struct sim *sim, uint32_t table, uint32_t key)
{
    return key_bucket(sim->rows.mixed[sim_row_layout.table[table].list][key]);
}

/* The shard that has the key's row in this table. */
static uint32_t shard_of(const struct sim *sim, uint32_t table, uint32_t key)
{
    uint32_t i = 0;
    while (bucket_of(sim, table, key) >= bucket_shard(i, sim->rows.plan.shards).end)
        i++;
    return i;
}

/* The part of this shard that has it. */
static uint32_t part_of(const struct sim *sim, uint32_t shard, uint32_t table, uint32_t key)
{
    uint32_t i = 0;
    struct bucket_range of = bucket_shard(shard, sim->rows.plan.shards);
    while (bucket_of(sim, table, key) >= bucket_part(of, i).end)
        i++;
    return i;
}

/* After so many steps. */
static bool is_there(const struct sim *sim, uint32_t table, uint32_t key, const struct sim_row *r,
                     uint64_t step)
{
    uint32_t unseen = sim->config.unseen_steps[table];
    uint64_t floor = is_bounded(sim) ? sim->rows.state[step].floor[shard_of(sim, table, key)] : 0;
    return r->there && r->stamp > floor && (unseen == 0 || step < r->stamp + unseen);
}

static void read_row(const struct sim *sim, uint32_t table, uint32_t key, const struct sim_row *r,
                     uint64_t step, float *w)
{
    const struct row_table_spec *spec = &sim->layout.rows->table[table];
    if (is_there(sim, table, key, r, step))
        memcpy(w, r->w, spec->dim * sizeof *w);
    else
        row_absent_value(spec, sim->config.settings.seed, sim->rows.mixed[spec->list][key], w);
}

/* Does this touch make the row? Counts are each key's own: the few keys of a bucket share no four counters. */
static bool is_admitted(const struct sim *sim, uint32_t table, uint32_t key, uint64_t clock,
                        struct sim_rows_state *s)
{
    struct sim_row *r = &s->row[table][key];
    const struct row_table_spec *spec = &sim->layout.rows->table[table];
    const struct row_admission *a = &spec->admission;
    uint64_t coins = rng_key(sim->config.settings.seed, RNG_ADMISSION, rng_name(spec->name), 0);
    r->touches++;
    bool made = a->probability > 0 ? rng_unit(coins ^ key_mix(sim->rows.mixed[spec->list][key]),
                                              clock) < a->probability
                                   : r->touches >= a->min_count;
    sim_rows_seen.admitted += made;
    sim_rows_seen.dropped += !made;
    s->admitted[table] += made;
    s->dropped[table] += !made;
    return made;
}

/* The table's optimizer at the rate of update t. */
static struct optimizer optimizer_at(const struct sim *sim, uint32_t table,
                                     const struct optimizer *of_job, uint64_t t)
{
    const struct row_table_spec *spec = &sim->layout.rows->table[table];
    struct optimizer o = spec->has_optimizer ? spec->optimizer : *of_job;
    o.learning_rate = (float)optimizer_rate(&o, t);
    o.schedule = (struct schedule){.kind = SCHEDULE_CONSTANT};
    return o;
}

/* One accumulator a row; then sgd at a rate of its own. */
static void update_rowwise(const struct optimizer *o, struct sim_row *r, const float *g,
                           struct optimizer_factors f, uint32_t dim)
{
    struct optimizer sgd = {.kind = OPT_SGD};
    double squares = 0;
    for (uint32_t i = 0; i < dim; i++)
        squares += (double)g[i] * (double)g[i];
    double inv_n = (double)(f.inv_n * f.scale);
    r->slots[0] += (float)(squares * inv_n * inv_n / dim);
    sgd.learning_rate = o->learning_rate / (sqrtf(r->slots[0]) + o->epsilon);
    optimizer_apply(&sgd, 1, f, r->w, r->w, NULL, g, dim);
}

/* One update of one row, the part's update t: the first one makes it. */
static void update_row(const struct sim *sim, const struct optimizer *of_job, uint64_t t,
                       uint32_t table, uint32_t key, const float *g, struct optimizer_factors f,
                       uint64_t clock, struct sim_row *r)
{
    uint32_t dim = sim_row_layout.table[table].dim;
    const struct optimizer o = optimizer_at(sim, table, of_job, t);
    float *slot[OPTIMIZER_SLOTS_MAX] = {0};
    const struct row_table_spec *spec = &sim->layout.rows->table[table];
    if (!r->there)
        row_first_value(spec, sim->config.settings.seed, sim->rows.mixed[spec->list][key], r->w);
    for (uint32_t k = 0; k < optimizer_slots(&o); k++) {
        slot[k] = r->slots + (size_t)k * dim;
        for (uint32_t i = 0; i < dim && !r->there; i++)
            slot[k][i] = optimizer_slot_initial(&o, k);
    }
    r->there = true;
    r->count++;
    r->stamp = clock;
    if (o.rowwise)
        update_rowwise(&o, r, g, f, dim);
    else
        optimizer_apply(&o, r->count, f, r->w, r->w, slot, g, dim);
}

static struct sim_leaves leaves_of_step(const struct sim *sim, uint64_t step)
{
    return (struct sim_leaves){sim->oracle.place[step].leaf, &sim->oracle.set[step]};
}

static struct tree_node root_of(const struct sim_config *c)
{
    return (struct tree_node){(uint32_t)__builtin_ctz(c->settings.microbatches), 0};
}

long double sim_rows_squares(const struct sim *sim, uint64_t step)
{
    const struct sim_config *c = &sim->config;
    long double squares = 0;
    for (uint32_t i = 0; i < SIM_TABLES * SIM_KEYS && c->tables; i++) {
        uint32_t t = i / SIM_KEYS, key = i % SIM_KEYS;
        float w[SIM_DIM_MAX], g[SIM_DIM_MAX];
        read_row(sim, t, key, &sim->rows.state[step].row[t][key], step, w);
        bool has = sim_row_gradient(c, leaves_of_step(sim, step), root_of(c), t, key, w, g);
        for (uint32_t k = 0; has && k < sim_row_layout.table[t].dim; k++)
            squares += (long double)g[k] * (long double)g[k];
    }
    return squares;
}

/* Bytes of a row: values, stamp and count, and 25 of the index. */
static uint64_t row_bytes(const struct sim *sim, const struct optimizer *o, uint32_t table)
{
    const struct optimizer of = optimizer_at(sim, table, o, 1);
    uint32_t dim = sim_row_layout.table[table].dim;
    return (dim + optimizer_row_slots(&of, dim)) * sizeof(float) + 12 + 25;
}

/* Is there room for the row? The parts of a shard share the room after `step` steps evenly, in rows of the widest table. */
static bool has_room(const struct sim *sim, const struct optimizer *o, uint32_t table, uint32_t key,
                     uint64_t step, struct sim_rows_state *s)
{
    uint32_t shard = shard_of(sim, table, key), part = part_of(sim, shard, table, key);
    uint64_t widest = 0, bytes = row_bytes(sim, o, table);
    for (uint32_t t = 0; t < SIM_TABLES; t++)
        widest = row_bytes(sim, o, t) > widest ? row_bytes(sim, o, t) : widest;
    uint64_t rows = s->room[shard] / widest, mine = rows / ROW_PARTS;
    mine += (part + step) % ROW_PARTS < rows % ROW_PARTS;
    bool has = !s->closed[shard] && s->taken[shard][part] + bytes <= mine * widest;
    s->lacked[shard] |= !has;
    s->taken[shard][part] += has ? bytes : 0;
    return has;
}

/* A touch of a row that is not there after `step` steps. */
static bool is_made(const struct sim *sim, const struct optimizer *o, uint32_t table, uint32_t key,
                    uint64_t step, struct sim_rows_state *s)
{
    if (!is_admitted(sim, table, key, step + 1, s))
        return false;
    if (!is_bounded(sim) || has_room(sim, o, table, key, step, s))
        return true;
    s->admitted[table]--;
    s->refused[table]++;
    sim_rows_seen.refused++;
    return false;
}

/* Bytes of the shard's rows after so many steps, of those with a stamp up to this one. */
static uint64_t bytes_of(const struct sim *sim, const struct optimizer *o, uint32_t shard,
                         uint64_t step, uint64_t stamp, uint64_t *rows)
{
    uint64_t bytes = 0;
    *rows = 0;
    for (uint32_t t = 0; t < SIM_TABLES; t++) {
        for (uint32_t key = 0; key < SIM_KEYS; key++) {
            const struct sim_row *r = &sim->rows.state[step].row[t][key];
            if (shard_of(sim, t, key) != shard || !is_there(sim, t, key, r, step) ||
                r->stamp > stamp)
                continue;
            ++*rows;
            bytes += row_bytes(sim, o, t);
        }
    }
    return bytes;
}

/* The shard's treatment of its rows after step `step`: it evicts none up to 95 % of the bound. */
static void evict_or_close(const struct sim *sim, const struct optimizer *o, uint32_t shard,
                           uint64_t step)
{
    struct sim_rows_state *s = &sim->rows.state[step];
    uint64_t rows, bound = bound_of(sim, shard);
    uint64_t bytes = bytes_of(sim, o, shard, step, UINT64_MAX, &rows), fits = bound * 95 / 100;
    uint64_t wanted = bound * 5 / 100;
    bool full = bytes > fits, evicts = sim->config.settings.row_full == ROW_FULL_EVICT;
    if (bytes > fits + wanted)
        wanted = bytes - fits;
    s->closed[shard] = full && !evicts;
    if (!evicts || !(full || s->lacked[shard]))
        return;
    uint64_t floor = s->floor[shard] + 1;
    while (floor < step - 1 && bytes_of(sim, o, shard, step, floor, &rows) < wanted)
        floor++;
    if (floor >= step)
        return;
    (void)bytes_of(sim, o, shard, step, floor, &rows);
    s->floor[shard] = floor;
    s->squeezed += rows;
    sim_rows_seen.squeezed += rows;
}

static void hold_to_bound(const struct sim *sim, const struct optimizer *o, uint32_t shard,
                          uint64_t step)
{
    struct sim_rows_state *s = &sim->rows.state[step];
    uint64_t rows, bound = bound_of(sim, shard);
    evict_or_close(sim, o, shard, step);
    uint64_t bytes = bytes_of(sim, o, shard, step, UINT64_MAX, &rows);
    if (bytes > bound)
        abort();
    s->room[shard] = bound - bytes;
    memset(s->taken[shard], 0, sizeof s->taken[shard]);
    s->lacked[shard] = false;
}

void sim_rows_next_step(struct sim *sim, const struct optimizer *o, uint64_t step,
                        uint32_t examples, float scale)
{
    const struct sim_config *c = &sim->config;
    const struct optimizer_factors f = {1.0f / (float)examples, scale, 1.0f};
    sim->rows.state[step + 1] = sim->rows.state[step];
    for (uint32_t t = 0; t < sim_row_layout.tables && examples; t++) {
        for (uint32_t key = 0; key < SIM_KEYS; key++) {
            struct sim_row *r = &sim->rows.state[step + 1].row[t][key];
            float w[SIM_DIM_MAX], g[SIM_DIM_MAX];
            read_row(sim, t, key, r, step, w);
            if (r->there && !is_there(sim, t, key, r, step)) {
                *r = (struct sim_row){.touches = r->touches};
                sim_rows_seen.evicted++;
            }
            if (sim_row_gradient(c, leaves_of_step(sim, step), root_of(c), t, key, w, g) &&
                (r->there || is_made(sim, o, t, key, step, &sim->rows.state[step + 1])))
                update_row(sim, o, sim->oracle.t[step + 1], t, key, g, f, step + 1, r);
        }
    }
    for (uint32_t i = 0; is_bounded(sim) && i < sim->rows.plan.shards; i++)
        hold_to_bound(sim, o, i, step + 1);
}

/* ---- what is right ---- */

uint32_t sim_rows_place(const struct sim *sim, uint32_t list, uint64_t mixed)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (sim->rows.mixed[list][key] == mixed)
            return key;
    return SIM_KEYS;
}

/* All leaves of one batch; *leaf has room for them. */
static struct sim_leaves leaves_of_batch(const struct sim_config *c, uint64_t batch,
                                         struct sim_leaf *leaf)
{
    for (uint32_t i = 0; i < c->settings.microbatches; i++)
        leaf[i] = (struct sim_leaf){batch, i, true};
    return (struct sim_leaves){leaf, NULL};
}

/* Async: is it applied with its examples? */
static bool has_rows(const struct sim_config *c, uint64_t batch)
{
    return !sim_broken(c, batch, NULL);
}

/* A row that some of the batches may have made, each once. */
static bool is_possible(const struct sim *sim, uint32_t table, uint32_t key, float first, float is)
{
    const struct sim_config *c = &sim->config;
    float most = 0, w[SIM_DIM_MAX] = {0}, g[SIM_DIM_MAX];
    struct sim_leaf leaf[SIM_LEAVES_MAX];
    for (uint64_t id = 0; id < c->settings.epochs * c->settings.batches_per_epoch; id++)
        if (has_rows(c, id) &&
            sim_row_gradient(c, leaves_of_batch(c, id, leaf), root_of(c), table, key, w, g))
            most += c->settings.learning_rate * g[0] / (float)sim_batch_examples(c, id);
    float by = (first - is) / c->settings.learning_rate;
    return by >= 0 && first - is <= most && (sim_stale_on(c) || by == (float)(uint32_t)by);
}

void sim_check_rows(struct sim *sim, uint64_t step, const struct row_values *v)
{
    bool sync = sim->config.settings.update == GRADWIRE__UPDATE__SYNC;
    const struct sim_row absent = {.there = false};
    for (uint32_t t = 0; t < sim_row_layout.tables; t++) {
        uint32_t list = sim_row_layout.table[t].list, dim = sim_row_layout.table[t].dim;
        for (uint32_t i = 0; i < v->list[list].keys; i++) {
            float want[SIM_DIM_MAX];
            const float *is = v->w[t] + (size_t)i * dim;
            uint32_t key = sim_rows_place(sim, list, v->list[list].mixed[i]);
            read_row(sim, t, key, sync ? &sim->rows.state[step].row[t][key] : &absent, step, want);
            sim_rows_seen.reads += !sync;
            for (uint32_t k = 0; k < dim && !sync && is_possible(sim, t, key, want[k], is[k]); k++)
                want[k] = is[k];
            if (memcmp(want, is, dim * sizeof *want) != 0)
                sim_fail(sim, "step %" PRIu64 ": key %u of table %s is %a, it should be %a", step,
                         key, sim_row_layout.table[t].name, (double)is[0], (double)want[0]);
        }
    }
}

/* ---- cuts ---- */

struct cut_rows {
    struct sim *sim;
    const struct manifest *m;
    uint32_t slots[SIM_TABLES]; /* floats of a row in addition to its weights */
    bool sync;
    struct sim_rows_state want;
    bool found[SIM_TABLES][SIM_KEYS];
};

/* Async: the rows that the resolved batches make, each once; sums are exact in any order. */
static void rows_of_ids(struct cut_rows *c, const struct optimizer *o)
{
    struct sim *sim = c->sim;
    struct ids done;
    if (ids_unpack(&done, c->m->mark, c->m->window_bits, c->m->window_bits_bytes))
        sim_fail(sim, "cut %" PRIu64 ": its resolved ids do not unpack", c->m->cut);
    for (uint64_t id = 0; id < ids_end(&done) && !sim->failed; id++) {
        bool there = ids_has(&done, id) && has_rows(&sim->config, id);
        for (uint32_t i = 0; there && i < SIM_TABLES * SIM_KEYS; i++) {
            uint32_t t = i / SIM_KEYS, key = i % SIM_KEYS;
            struct sim_row *r = &c->want.row[t][key];
            float w[SIM_DIM_MAX], g[SIM_DIM_MAX];
            struct sim_leaf leaf[SIM_LEAVES_MAX];
            struct optimizer_factors f = {1.0f / (float)sim_batch_examples(&sim->config, id), 1.0f,
                                          1.0f};
            read_row(sim, t, key, r, 0, w);
            if (sim_row_gradient(&sim->config, leaves_of_batch(&sim->config, id, leaf),
                                 root_of(&sim->config), t, key, w, g))
                update_row(sim, o, id + 1, t, key, g, f, id + 1, r);
        }
    }
}

/* Async: batches come in any order, so the stamp names a batch at least as late as the row has updates. */
static bool same_row(const struct cut_rows *c, uint32_t t, const struct sim_row *want,
                     const struct row_group *g, uint32_t i)
{
    uint32_t dim = sim_row_layout.table[t].dim;
    uint32_t slots = c->slots[t];
    const float *is = g->values + (size_t)i * (dim + slots);
    bool same =
        is_there(c->sim, t, sim_rows_place(c->sim, sim_row_layout.table[t].list, g->mixed[i]), want,
                 c->m->step) &&
        g->count[i] == want->count &&
        (sim_stale_on(&c->sim->config) || /* each update was recomputed as it was made */
         memcmp(is, want->w, dim * sizeof *is) == 0) &&
        memcmp(is + dim, want->slots, slots * sizeof *is) == 0 &&
        (c->sync ? g->stamp[i] == want->stamp
                 : g->stamp[i] >= want->count && g->stamp[i] <= c->m->step);
    return same;
}

static enum err take_group(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct cut_rows *c = ctx;
    const struct row_table_spec *spec = &sim_row_layout.table[g->table];
    for (uint32_t i = 0; i < g->rows; i++) {
        uint32_t key = sim_rows_place(c->sim, spec->list, g->mixed[i]);
        if (key == SIM_KEYS || c->found[g->table][key] || key_bucket(g->mixed[i]) != g->bucket)
            return err_set(e, ERR_CORRUPT, "a key of table %s that is none, or is there twice",
                           spec->name);
        c->found[g->table][key] = true;
        const struct sim_row *want = &c->want.row[g->table][key];
        if (!same_row(c, g->table, want, g, i))
            return err_set(e, ERR_CORRUPT,
                           "key %u of table %s: %u updates, stamp %" PRIu64
                           ", %a; should be %u, %" PRIu64 ", %a",
                           key, spec->name, g->count[i], g->stamp[i],
                           (double)g->values[(size_t)i * (spec->dim + c->slots[g->table])],
                           want->count, want->stamp, (double)want->w[0]);
    }
    sim_rows_seen.cut_rows += g->rows;
    return ERR_OK;
}

/* The manifest's counts: each row that was made exists, or has gone. In async, without admission and eviction. */
static void check_counts(const struct cut_rows *c)
{
    struct sim *sim = c->sim;
    const struct manifest *m = c->m;
    for (uint32_t t = 0; t < SIM_TABLES; t++) {
        struct row_counts want = {.rows = 0};
        for (uint32_t key = 0; key < SIM_KEYS; key++)
            want.rows += c->found[t][key];
        want.admitted = c->sync ? c->want.admitted[t] : want.rows;
        want.dropped = c->sync ? c->want.dropped[t] : 0;
        want.refused = c->sync ? c->want.refused[t] : 0;
        want.evicted = want.admitted - want.rows;
        if (m->counted != SIM_TABLES || m->squeezed != (c->sync ? c->want.squeezed : 0) ||
            memcmp(&m->table[t], &want, sizeof want) != 0)
            sim_fail(sim,
                     "cut %" PRIu64 " of step %" PRIu64 ", table %u: %" PRIu64 " rows, %" PRIu64
                     " made, %" PRIu64 " dropped, %" PRIu64 " gone; should be %" PRIu64 ", %" PRIu64
                     ", %" PRIu64 ", %" PRIu64,
                     m->cut, m->step, t, m->table[t].rows, m->table[t].admitted,
                     m->table[t].dropped, m->table[t].evicted, want.rows, want.admitted,
                     want.dropped, want.evicted);
    }
}

static bool all_buckets(const struct manifest *m)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < m->files; i++) {
        if (m->file[i].first_bucket != end || m->file[i].clock != m->step)
            return false;
        end = m->file[i].end_bucket;
    }
    return end == ROW_BUCKETS;
}

void sim_check_cut_rows(struct sim *sim, const struct manifest *m, const struct optimizer *o)
{
    struct cut_rows c = {.sim = sim, .m = m};
    struct checkpoint_table table[SIM_TABLES];
    struct checkpoint_rows_wanted w = {.buckets = {0, ROW_BUCKETS},
                                       .tables = SIM_TABLES,
                                       .table = table,
                                       .sink = {.rows = take_group, .ctx = &c}};
    struct errmsg e = {""};
    for (uint32_t t = 0; t < SIM_TABLES; t++) {
        const struct row_table_spec *spec = &sim_row_layout.table[t];
        const struct optimizer of = optimizer_at(sim, t, o, 1);
        c.slots[t] = of.rowwise ? 1 : spec->dim * optimizer_slots(&of);
        table[t] = (struct checkpoint_table){
            .dim = spec->dim,
            .slots = c.slots[t],
            .sketch_bytes = (sim->config.admission[t].sketch_mb << 20) / ROW_BUCKETS};
        memcpy(table[t].name, spec->name, sizeof table[t].name);
    }
    c.sync = sim->config.settings.update == GRADWIRE__UPDATE__SYNC;
    if (c.sync)
        c.want = sim->rows.state[m->step];
    else
        rows_of_ids(&c, o);
    if (!all_buckets(m) || sim_disk_read_rows(sim, m, &w, &e))
        sim_fail(sim, "cut %" PRIu64 " of step %" PRIu64 ": %s", m->cut, m->step,
                 e.text[0] ? e.text : "its files have other buckets, or another clock");
    for (uint32_t i = 0; i < SIM_TABLES * SIM_KEYS && !sim->failed; i++)
        if (is_there(sim, i / SIM_KEYS, i % SIM_KEYS, &c.want.row[i / SIM_KEYS][i % SIM_KEYS],
                     m->step) &&
            !c.found[i / SIM_KEYS][i % SIM_KEYS])
            sim_fail(sim, "cut %" PRIu64 " of step %" PRIu64 " has no key %u of table %s", m->cut,
                     m->step, i % SIM_KEYS, sim_row_layout.table[i / SIM_KEYS].name);
    if (!sim->failed)
        check_counts(&c);
    sim_rows_seen.cuts++;
}
