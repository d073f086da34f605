/* Checks: the final weights, every published cut, the counts. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/codec.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"
#include "common/base/rng.h"
#include "tests/lib/sim.h"

/* ---- the toy model ---- */

static uint64_t broken_where(const struct sim_config *config, uint64_t batch)
{
    return rng_u64(rng_key(config->seed, RNG_TEST, batch, 5001), 0);
}

static bool drawn_broken(const struct sim_config *config, uint64_t batch)
{
    return config->broken_one_in &&
           rng_u64(rng_key(config->seed, RNG_TEST, batch, 5000), 0) % config->broken_one_in == 0;
}

bool sim_flaw_drawn(const struct sim_config *config, uint64_t batch, uint32_t *leaf)
{
    *leaf = (uint32_t)(broken_where(config, batch) % config->settings.microbatches);
    return drawn_broken(config, batch);
}

bool sim_broken(const struct sim_config *config, uint64_t batch, const struct tree_leaves *of)
{
    uint32_t leaf = (uint32_t)(broken_where(config, batch) % config->settings.microbatches);
    bool stays = config->settings.nan_guard != NAN_GUARD_CHECK; /* else sim_flaw.c */
    return stays && !config->broken_odd && drawn_broken(config, batch) &&
           (!of || tree_has_leaf(of, leaf));
}

bool sim_broken_for(const struct sim_config *config, uint64_t batch, uint32_t worker)
{
    return config->broken_odd ? worker % 2 && drawn_broken(config, batch)
                              : sim_broken(config, batch, NULL);
}

uint32_t sim_examples(const struct sim_config *config, uint64_t batch, uint32_t leaf)
{
    uint64_t r = rng_u64(rng_key(config->seed, RNG_TEST, batch, leaf), 0);
    if (config->gradient == SIM_IDS)
        return leaf == 0 && batch % 5 != 4 ? 4 : 0; /* a power of two, so that the mean is exact */
    if (batch % 7 == 3)
        return 0; /* a batch of bad rows: no update, but the step counts */
    return r % 8 == 0 ? 0 : 1 + (uint32_t)(r >> 8) % 5;
}

uint16_t sim_mark(const struct sim_config *config, uint64_t batch, uint32_t leaf, uint32_t example)
{
    return (uint16_t)(rng_u64(rng_key(config->seed, RNG_TEST, batch, leaf + 2000), example) % 16 +
                      2000);
}

double sim_sum(const struct sim_config *config, uint64_t batch, uint32_t leaf, uint32_t which)
{
    double n = sim_examples(config, batch, leaf);
    return n * (double)rng_unit(rng_key(config->seed, RNG_TEST, batch, leaf + 1000), which);
}

static uint32_t id_value(uint64_t batch)
{
    return 1 + (uint32_t)(batch * 7 % 13);
}

/* One element of one leaf is NaN, infinite, or absurd. */
static void break_gradient(const struct sim_config *config, uint64_t batch, uint32_t leaf,
                           uint64_t elems, float *out)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e30f};
    uint64_t r = broken_where(config, batch);
    if (sim_broken(config, batch, NULL) && leaf == r % config->settings.microbatches &&
        !sim_breaks_row(config, batch, leaf))
        out[(r >> 8) % elems] = values[(r >> 4) % (config->settings.clip_norm > 0 ? 3 : 4)];
}

/* The sum of the gradients of a leaf's examples: n (w/8 + noise), or n times a number of the batch. */
void sim_leaf_gradient(const struct sim_config *config, uint64_t batch, uint32_t leaf,
                       const float *w, uint64_t elems, float *out)
{
    float n = (float)sim_examples(config, batch, leaf);
    if (config->gradient == SIM_IDS) {
        for (uint64_t i = 0; i < elems; i++)
            out[i] = n * (float)id_value(batch);
        break_gradient(config, batch, leaf, elems, out);
        return;
    }
    float slope = config->gradient == SIM_KNOWN ? 0.0f : 0.125f;
    uint32_t h = (uint32_t)rng_u64(rng_key(config->seed, RNG_TEST, batch, leaf), 1);
    for (uint64_t i = 0; i < elems; i++) {
        uint32_t x = (h ^ (uint32_t)i) * 0x9E3779B1u;
        x = (x ^ x >> 15) * 0x85EBCA77u;
        out[i] = n * (w[i] * slope + (float)(x >> 8) * 0x1p-24f - 0.5f);
    }
    break_gradient(config, batch, leaf, elems, out);
}

/* ---- the plain loop ---- */

static struct optimizer optimizer_of(const Gradwire__Settings *s)
{
    struct optimizer o = {.kind = OPT_SGD};
    if (msg_optimizer_get(s, &o, NULL))
        abort();
    return o;
}

static void leaf_gradient(const struct sim_config *c, const struct sim_leaf *l, const float *w,
                          float *out)
{
    if (l->there)
        sim_leaf_gradient(c, l->batch, l->leaf, w, c->elems, out);
    else
        memset(out, 0, c->elems * sizeof *out);
}

/* The tree, written down as its definition: what is absent is skipped. False: all is. */
static bool node_gradient(const struct sim_config *c, const struct tree_leaves *set,
                          const struct sim_leaf *leaf, uint32_t first, uint32_t leaves,
                          const float *w, float *out)
{
    if (leaves == 1) {
        if (tree_has_leaf(set, first))
            leaf_gradient(c, &leaf[first], w, out);
        return tree_has_leaf(set, first);
    }
    float *right = calloc(c->elems, sizeof *right);
    bool has_left = node_gradient(c, set, leaf, first, leaves / 2, w, out);
    bool has_right = node_gradient(c, set, leaf, first + leaves / 2, leaves / 2, w, right);
    for (uint64_t i = 0; i < c->elems && has_right; i++)
        out[i] = has_left ? out[i] + right[i] : right[i];
    free(right);
    return has_left || has_right;
}

static bool node_sum(const struct sim_config *c, const struct tree_leaves *set,
                     const struct sim_leaf *leaf, uint32_t first, uint32_t leaves, uint32_t which,
                     double *out)
{
    if (leaves == 1) {
        *out = leaf[first].there ? sim_sum(c, leaf[first].batch, leaf[first].leaf, which) : 0;
        return tree_has_leaf(set, first);
    }
    double left, right;
    bool has_left = node_sum(c, set, leaf, first, leaves / 2, which, &left);
    bool has_right = node_sum(c, set, leaf, first + leaves / 2, leaves / 2, which, &right);
    *out = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

static double step_sum(const struct sim_config *c, const struct sim_oracle *o, uint64_t step,
                       uint32_t which)
{
    double sum;
    (void)node_sum(c, &o->set[step], o->place[step].leaf, 0, c->settings.microbatches, which, &sum);
    return sum;
}

static uint32_t step_examples(const struct sim_config *c, const struct sim_oracle *o, uint64_t step)
{
    const struct sim_leaf *l = o->place[step].leaf;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->settings.microbatches; i++)
        if (l[i].there && tree_has_leaf(&o->set[step], i))
            n += sim_examples(c, l[i].batch, l[i].leaf);
    return n;
}

static bool step_broken(const struct sim_config *c, const struct sim_oracle *o, uint64_t step)
{
    const struct sim_leaf *l = o->place[step].leaf;
    bool broken = o->rejected[step];
    for (uint32_t i = 0; i < c->settings.microbatches; i++) {
        struct tree_leaves one = {{0}};
        tree_add_leaves(&one, l[i].leaf, l[i].leaf + 1);
        broken = broken ||
                 (l[i].there && tree_has_leaf(&o->set[step], i) && sim_broken(c, l[i].batch, &one));
    }
    return broken;
}

uint32_t sim_batch_examples(const struct sim_config *c, uint64_t batch)
{
    uint32_t n = 0;
    for (uint32_t leaf = 0; leaf < c->settings.microbatches; leaf++)
        n += sim_examples(c, batch, leaf);
    return n;
}

/* ---- what each step is made of ---- */

/* The leaves of a step that has a batch of its own, or the first ones of the list. */
static void fill_place(const struct sim_config *c, struct sim_place *p)
{
    for (uint32_t i = 0; i < c->settings.microbatches; i++) {
        if (p->regular < c->settings.batches_per_epoch)
            p->leaf[i] =
                (struct sim_leaf){p->epoch * c->settings.batches_per_epoch + p->regular, i, true};
        else
            p->leaf[i] = i < p->left ? p->list[i] : (struct sim_leaf){.there = false};
    }
}

static void next_place(const struct sim_config *c, struct sim_oracle *o, uint64_t step)
{
    const struct sim_place *p = &o->place[step];
    struct sim_place *next = &o->place[step + 1];
    uint32_t leaves = c->settings.microbatches;
    bool extra = p->regular == c->settings.batches_per_epoch;
    size_t trained = !extra ? 0 : p->left < leaves ? p->left : leaves;
    free(next->list);
    *next = (struct sim_place){.epoch = p->epoch, .regular = p->regular + !extra};
    next->list = calloc(p->left + leaves, sizeof *next->list);
    for (size_t i = trained; i < p->left; i++)
        next->list[next->left++] = p->list[i];
    for (uint32_t i = 0; i < leaves && !extra && c->settings.redo; i++)
        if (!tree_has_leaf(&o->set[step], i))
            next->list[next->left++] = p->leaf[i];
    if (next->regular == c->settings.batches_per_epoch && next->left == 0) {
        next->epoch++;
        next->regular = 0;
    }
    fill_place(c, next);
}

/* min(1, c / N), in the plainest way. `squares`: those of rows. */
static float clip_scale(const struct sim_config *c, const float *g, uint32_t n, long double squares)
{
    for (uint64_t i = 0; i < c->elems; i++)
        squares += (long double)g[i] * (long double)g[i];
    double norm = sqrt((double)squares) / n;
    return c->settings.clip_norm > 0 && norm > (double)c->settings.clip_norm
               ? (float)((double)c->settings.clip_norm / norm)
               : 1.0f;
}

/* The marks of the epoch's rows up to this step, in the plainest order. Returns how many there are. */
static size_t epoch_marks(const struct sim_config *c, const struct sim_oracle *o, uint64_t step,
                          uint16_t *out)
{
    size_t n = 0;
    for (uint64_t at = step + 1; at-- > 0 && o->place[at].epoch == o->place[step].epoch;) {
        const struct sim_leaf *l = o->place[at].leaf;
        for (uint32_t i = 0; i < c->settings.microbatches && !step_broken(c, o, at); i++)
            for (uint32_t k = 0; l[i].there && tree_has_leaf(&o->set[at], i) &&
                                 k < sim_examples(c, l[i].batch, l[i].leaf);
                 k++)
                out[n++] = sim_mark(c, l[i].batch, l[i].leaf, k);
    }
    return n;
}

/* Pair by pair: the share that is in order, and half of the share that is in one bin. */
static struct bins_auc exact_auc(const uint16_t *mark, size_t n)
{
    double ordered = 0, tied = 0, pairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            if (!(mark[i] & 1) || mark[k] & 1)
                continue;
            pairs++;
            ordered += mark[i] / 2 > mark[k] / 2;
            tied += mark[i] / 2 == mark[k] / 2;
        }
    return pairs > 0 ? (struct bins_auc){(ordered + tied / 2) / pairs, tied / 2 / pairs}
                     : (struct bins_auc){NAN, NAN};
}

/* It is no sum: a step keeps it, until the epoch has all its batches. */
static void next_auc(const struct sim_config *c, const struct sim_oracle *o, uint64_t step,
                     const struct epoch_sums *before, struct epoch_sums *to)
{
    uint16_t mark[4096];
    struct bins_auc auc = {NAN, NAN};
    if (!c->settings.progressive)
        return;
    if (before->batches && before->epoch == to->epoch)
        auc = (struct bins_auc){before->metric[c->settings.progressive - 1],
                                before->metric[c->settings.metrics - 1]};
    if (to->batches >= c->settings.batches_per_epoch && epoch_marks(c, o, step, mark))
        auc = exact_auc(mark, epoch_marks(c, o, step, mark));
    to->metric[c->settings.progressive - 1] = auc.auc;
    to->metric[c->settings.metrics - 1] = auc.error;
}

static void next_sums(const struct sim_config *c, struct sim_oracle *o, uint64_t step)
{
    uint64_t epoch = o->place[step].epoch;
    memcpy(o->epoch[step + 1], o->epoch[step], sizeof *o->epoch);
    struct epoch_sums *to = &o->epoch[step + 1][epoch % CHECKPOINT_EPOCHS];
    if (to->batches == 0 || to->epoch != epoch)
        *to = (struct epoch_sums){.epoch = epoch};
    to->batches++;
    if (!step_broken(c, o, step)) {
        to->examples += step_examples(c, o, step);
        to->loss += step_sum(c, o, step, 0);
        for (uint32_t i = 0; i < c->settings.metrics; i++)
            to->metric[i] += step_sum(c, o, step, 1 + i);
    }
    next_auc(c, o, step, &o->epoch[step][epoch % CHECKPOINT_EPOCHS], to);
}

/* The weights that workers hold after the step. Where replies lose precision, these are the weights before it plus the
 * decoded difference. */
static void next_view(const struct sim_config *c, const struct layout *layout, struct sim_oracle *o,
                      uint64_t step)
{
    struct errmsg e;
    struct plan plan;
    struct coder *coder;
    enum codec codec = (enum codec)c->settings.reply_codec;
    uint64_t bytes;
    if (codec_is_lossless(codec)) {
        o->view[step + 1] = o->w[step + 1];
        return;
    }
    float *d = calloc(c->elems, sizeof *d), *packed = calloc(c->elems, sizeof *packed);
    const uint32_t one = 1;
    if (plan_init(&plan, c->elems, &one, 1, &e) || coder_new(&coder))
        abort();
    const struct codec_shape shape = {&plan, layout, 0};
    for (uint64_t i = 0; i < c->elems; i++)
        d[i] = o->w[step + 1][i] - o->view[step][i];
    if (codec_encode(coder, &shape, &codec, rng_key(c->settings.seed, RNG_REPLY_CODEC, step + 1, 0),
                     0, plan.chunks, d, (uint8_t *)packed, &bytes) ||
        codec_decode(coder, &shape, codec, 0, plan.chunks, (uint8_t *)packed, bytes, d))
        abort();
    for (uint64_t i = 0; i < c->elems; i++)
        d[i] += o->view[step][i];
    o->view[step + 1] = d;
    free(packed);
    coder_free(coder);
    plan_close(&plan);
}

/* lamb's ratio of one tensor, in the plainest way; 1 of any other optimizer. */
static float trust_ratio(const struct optimizer *o, uint64_t t, const float *w,
                         float *const slot[OPTIMIZER_SLOTS_MAX], const float *g, float inv_n,
                         size_t n)
{
    if (o->kind != OPT_LAMB || !g)
        return 1.0f;
    float *u = calloc(n, sizeof *u), *decayed = calloc(n, sizeof *decayed);
    long double squares[2] = {0};
    optimizer_direction(o, t, u, decayed, w, slot, g, inv_n, n);
    for (size_t i = 0; i < n; i++) {
        squares[0] += (long double)decayed[i] * (long double)decayed[i];
        squares[1] += (long double)u[i] * (long double)u[i];
    }
    free(u);
    free(decayed);
    return optimizer_ratio((double)squares[0], (double)squares[1]);
}

/* The sum that the update uses: the mean is sum * share, and it is scaled. NULL: no update is made. */
struct sim_gradient_sum {
    const float *sum;
    float share, scale;
};

/* Tensor by tensor, in place; the gaps stay. */
static void apply_tensors(const struct sim *sim, const struct optimizer *o, uint64_t t, float *w,
                          float *const slot[OPTIMIZER_SLOTS_MAX], const float *g, float inv_n,
                          struct sim_gradient_sum all)
{
    for (uint32_t i = 0; i < sim->layout.tensors; i++) {
        uint64_t at = sim->layout.tensor[i].offset_elems;
        size_t n = (size_t)(layout_end(&sim->layout, i) - at);
        float *part[OPTIMIZER_SLOTS_MAX] = {0};
        for (uint32_t k = 0; k < optimizer_slots(o); k++)
            part[k] = slot[k] + at;
        float ratio = trust_ratio(o, t, w + at, part, all.sum ? all.sum + at : NULL,
                                  all.share * all.scale, n);
        optimizer_apply(o, t, (struct optimizer_factors){inv_n, all.scale, ratio}, w + at, w + at,
                        part, g + at, n);
    }
}

/* Gradient t, the sum over n examples; `squares` of its rows. Returns what it is scaled by. */
static float apply(const struct sim *sim, const struct optimizer *o, uint64_t t, float *w,
                   float *const slot[OPTIMIZER_SLOTS_MAX], const float *g, uint32_t n,
                   long double squares)
{
    const struct sim_config *c = &sim->config;
    uint32_t steps = o->accumulation_steps;
    struct sim_gradient_sum all = {g, 1.0f / (float)n, 1.0f};
    float *sum = calloc(c->elems, sizeof *sum);
    for (uint64_t i = 0; steps > 1 && i < c->elems; i++)
        sum[i] = slot[optimizer_slots(o) - 1][i] + g[i] * (1.0f / (float)n);
    if (steps > 1)
        all = (struct sim_gradient_sum){t % steps ? NULL : sum, 1.0f / (float)steps, 1.0f};
    if (all.sum)
        all.scale = clip_scale(c, all.sum, steps > 1 ? steps : n, squares);
    apply_tensors(sim, o, t, w, slot, g, 1.0f / (float)n, all);
    free(sum);
    return all.scale;
}

static bool breaks_row(const struct sim_config *c, const struct sim_oracle *o, uint64_t step)
{
    const struct sim_leaf *l = o->place[step].leaf;
    bool broken = false;
    for (uint32_t i = 0; i < c->settings.microbatches; i++)
        broken = broken || (l[i].there && tree_has_leaf(&o->set[step], i) &&
                            sim_breaks_row(c, l[i].batch, l[i].leaf));
    return broken;
}

static void next_step(const struct sim *sim, struct sim_oracle *o, uint64_t step)
{
    const struct sim_config *c = &sim->config;
    struct optimizer optimizer = optimizer_of(&c->settings);
    const struct tree_leaves *set = &o->set[step];
    uint32_t n = step_broken(c, o, step) ? 0 : step_examples(c, o, step);
    float *g = calloc(c->elems, sizeof *g), *slot[OPTIMIZER_SLOTS_MAX] = {0}, scale = 1;
    o->w[step + 1] = malloc(c->elems * sizeof(float));
    memcpy(o->w[step + 1], o->w[step], c->elems * sizeof(float));
    for (uint32_t k = 0; k < o->slots; k++) {
        slot[k] = o->slot[k][step + 1] = malloc(c->elems * sizeof(float));
        memcpy(slot[k], o->slot[k][step], c->elems * sizeof(float));
    }
    o->t[step + 1] = o->t[step] + (n > 0);
    if (n) {
        (void)node_gradient(c, set, o->place[step].leaf, 0, c->settings.microbatches, o->view[step],
                            g);
        scale = apply(sim, &optimizer, o->t[step + 1], o->w[step + 1], slot, g, n,
                      sim_rows_squares(sim, step));
    }
    if (c->tables) {
        sim_rows_next_step((struct sim *)sim, &optimizer, step, n, scale);
        sim_rows_seen.clipped += scale < 1;
        sim_rows_seen.broken += breaks_row(c, o, step);
    }
    next_sums(c, o, step);
    next_place(c, o, step);
    next_view(c, &sim->layout, o, step);
    free(g);
}

void sim_oracle_init(struct sim *sim)
{
    const struct sim_config *c = &sim->config;
    struct sim_oracle *o = &sim->oracle;
    struct optimizer optimizer = optimizer_of(&c->settings);
    bool sync = c->settings.update == GRADWIRE__UPDATE__SYNC;
    o->steps = sync ? sim_steps_max(c) : 0;
    o->slots = optimizer_slots(&optimizer);
    o->w = calloc(o->steps + 1, sizeof *o->w);
    o->view = calloc(o->steps + 1, sizeof *o->view);
    o->set = calloc(o->steps + 1, sizeof *o->set);
    o->rejected = calloc(o->steps + 1, sizeof *o->rejected);
    o->place = calloc(o->steps + 1, sizeof *o->place);
    fill_place(c, &o->place[0]);
    o->t = calloc(o->steps + 1, sizeof *o->t);
    sim->agreed = calloc(o->steps + 1, sizeof *sim->agreed);
    o->epoch = calloc(o->steps + 1, sizeof *o->epoch);
    o->w[0] = malloc(c->elems * sizeof(float));
    layout_init_values(&sim->layout, c->settings.seed, 0, c->elems, o->w[0]);
    o->view[0] = o->w[0];
    for (uint32_t k = 0; k < o->slots; k++) {
        o->slot[k] = calloc(o->steps + 1, sizeof *o->slot[k]);
        o->slot[k][0] = calloc(c->elems, sizeof(float));
        for (uint64_t i = 0; i < c->elems; i++)
            o->slot[k][0][i] = optimizer_slot_initial(&optimizer, k);
        if (k == optimizer_average_slot(&optimizer))
            memcpy(o->slot[k][0], o->w[0], c->elems * sizeof(float));
    }
    sim_rows_init(sim);
    bool backed = c->settings.replicas_to_aggregate > 0; /* known when it is decided */
    for (uint64_t step = 0; step < o->steps && !backed; step++) {
        tree_add_leaves(&o->set[step], 0, c->settings.microbatches);
        next_step(sim, o, step);
    }
}

static void forget_step(struct sim_oracle *o, uint64_t step)
{
    if (o->view[step] != o->w[step])
        free(o->view[step]);
    free(o->w[step]);
    o->w[step] = o->view[step] = NULL;
    for (uint32_t k = 0; k < o->slots; k++) {
        free(o->slot[k][step]);
        o->slot[k][step] = NULL;
    }
}

/* Backup workers: make the plain loop go through the steps that this generation has made. */
static bool follow(struct sim *sim, uint64_t generation, uint64_t steps)
{
    struct sim_oracle *o = &sim->oracle;
    const struct sim_history *h = sim_backup_history(sim, generation);
    const struct tree_leaves *set = h ? h->set : NULL;
    if (sim->config.settings.replicas_to_aggregate == 0)
        return true;
    for (uint64_t step = 0; step < steps; step++) {
        if (!set || tree_count_leaves(&set[step]) == 0) {
            sim_fail(sim, "nobody was told what step %" PRIu64 " is made of", step);
            return false;
        }
        if (step < o->known && memcmp(&o->set[step], &set[step], sizeof *set) == 0 &&
            o->rejected[step] == h->rejected[step])
            continue;
        for (; o->known > step; o->known--)
            forget_step(o, o->known);
        o->set[step] = set[step];
        o->rejected[step] = h->rejected[step];
        if (o->place[step].regular == sim->config.settings.batches_per_epoch &&
            tree_count_leaves(&set[step]) < sim->config.settings.microbatches) {
            sim_fail(sim, "step %" PRIu64 " is an extra one, and drops some leaves", step);
            return false;
        }
        next_step(sim, o, step);
        o->known = step + 1;
    }
    return true;
}

void sim_oracle_close(struct sim *sim)
{
    struct sim_oracle *o = &sim->oracle;
    for (uint64_t i = 0; o->w && i <= o->steps; i++) {
        forget_step(o, i);
        free(o->place[i].list);
    }
    sim_rows_close(sim);
    free(o->place);
    free(o->set);
    free(o->rejected);
    for (uint32_t k = 0; k < o->slots; k++)
        free(o->slot[k]);
    free(o->w);
    free(o->view);
    free(sim->agreed);
    free(o->t);
    free(o->epoch);
}

/* ---- cuts ---- */

static bool same(struct sim *sim, const char *what, uint64_t step, const float *is,
                 const float *want)
{
    if (memcmp(is, want, sim->config.elems * sizeof(float)) == 0)
        return true;
    uint64_t i = 0;
    while (memcmp(&is[i], &want[i], sizeof *is) == 0)
        i++;
    sim_fail(sim, "%s of step %" PRIu64 ": element %" PRIu64 " is %a, it should be %a", what, step,
             i, (double)is[i], (double)want[i]);
    return false;
}

static uint64_t hash_of(const float *w, uint64_t elems)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < elems; i++) {
        uint32_t bits;
        memcpy(&bits, &w[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x100000001b3);
    }
    return h;
}

void sim_check_parameters(struct sim *sim, struct generation g, uint64_t step, const float *w)
{
    uint64_t hash = hash_of(w, sim->config.elems);
    struct sim_agreed *agreed = &sim->agreed[step];
    if (generation_equal(agreed->generation, g) && agreed->hash != hash)
        sim_fail(sim, "two workers begin step %" PRIu64 " with different parameters", step);
    *agreed = (struct sim_agreed){g, hash};
    if (sim->config.settings.replicas_to_aggregate == 0 || !follow(sim, g.number, step))
        return;
    if (codec_is_lossless((enum codec)sim->config.settings.reply_codec) || !sim->restored)
        (void)same(sim, "what a worker begins with", step, w, sim->oracle.view[step]);
}

/* A push that loses, by the node that was pushed; what a restore leaves of replies that lose is another history. */
static bool is_known(const struct sim *sim)
{
    const Gradwire__Settings *s = &sim->config.settings;
    return codec_is_lossless((enum codec)s->push_codec) &&
           (!sim->restored || codec_is_lossless((enum codec)s->reply_codec));
}

void sim_check_averages(struct sim *sim, struct generation g, uint64_t step, const float *averages)
{
    struct optimizer optimizer = optimizer_of(&sim->config.settings);
    if (is_known(sim) && !sim_flaw_is_told(sim) && follow(sim, g.number, step))
        (void)same(sim, "the averages", step, averages,
                   sim->oracle.slot[optimizer_average_slot(&optimizer)][step]);
}

void sim_check_epoch(struct sim *sim, struct generation g, uint64_t step, uint64_t epoch,
                     const struct session *s)
{
    struct sums sums;
    if (!follow(sim, g.number, step))
        return;
    const struct epoch_sums *want = &sim->oracle.epoch[step][epoch % CHECKPOINT_EPOCHS];
    bool told = session_epoch(s, epoch, &sums);
    if (!told || want->epoch != epoch || sums.examples != want->examples ||
        sums.loss != want->loss || memcmp(sums.metric, want->metric, sizeof sums.metric) != 0)
        sim_fail(sim,
                 "the chief shows of epoch %" PRIu64 " at step %" PRIu64
                 " %g examples, loss %a; should be %g, %a",
                 epoch, step, sums.examples, sums.loss, want->examples, want->loss);
}

/* Where what is dropped is trained again: how much of it was, and where in its epoch the cut stands. */
static void check_redone(struct sim *sim, const struct manifest *m, uint64_t dropped)
{
    const struct sim_place *p = &sim->oracle.place[m->step];
    uint64_t begin = m->step;
    while (begin > 0 && sim->oracle.place[begin - 1].epoch == p->epoch)
        begin--;
    if (m->redo.there != sim->config.settings.redo)
        sim_fail(sim, "a cut of step %" PRIu64 " does not say where in its epoch it is", m->step);
    else if (m->redo.there && (m->redo.epoch != p->epoch || m->redo.begin != begin ||
                               m->redo.redone != dropped - p->left))
        sim_fail(sim,
                 "a cut of step %" PRIu64 ": epoch %" PRIu64 " from step %" PRIu64 ", %" PRIu64
                 " trained again; should be %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                 m->step, m->redo.epoch, m->redo.begin, m->redo.redone, p->epoch, begin,
                 dropped - (uint64_t)p->left);
}

/* The weights have moved by the rate times the sum of the mean gradients of all batches in the cut, except for gradients that
 * died with their worker, in whatever order and by whichever worker they were sent. */
static void check_known(struct sim *sim, const struct manifest *m, const float *w)
{
    const struct sim_config *c = &sim->config;
    double lr = (double)c->settings.learning_rate;
    double *moved = calloc(c->elems, sizeof *moved), *size = calloc(c->elems, sizeof *size);
    float *g = calloc(c->elems, sizeof *g);
    struct ids done = {.mark = m->step};
    struct tree_leaves all = {0};
    tree_add_leaves(&all, 0, c->settings.microbatches);
    for (uint32_t i = 1; i < SIM_WORKERS_MAX; i++) /* nobody waits for a worker that is away */
        if (sim->worker[i].proc.up && (sim->worker[i].proc.frozen_us > sim->now_us ||
                                       !sim_open(sim->worker[i].member, DIALER)))
            sim_worker_lose_withheld(&sim->worker[i]);
    if (c->settings.update != GRADWIRE__UPDATE__SYNC &&
        ids_unpack(&done, m->mark, m->window_bits, m->window_bits_bytes))
        sim_fail(sim, "cut %" PRIu64 ": its resolved ids do not unpack", m->cut);
    for (uint64_t b = 0; b < ids_end(&done); b++) {
        struct sim_leaf leaf[SIM_LEAVES_MAX];
        uint32_t n = sim_batch_examples(c, b);
        if (!ids_has(&done, b) || sim_broken(c, b, NULL) || n == 0)
            continue;
        memset(g, 0, c->elems * sizeof *g);
        for (uint32_t i = 0; i < c->settings.microbatches; i++)
            leaf[i] = (struct sim_leaf){b, i, true};
        (void)node_gradient(c, &all, leaf, 0, c->settings.microbatches, sim->oracle.w[0], g);
        for (uint64_t i = 0; i < c->elems; i++) {
            moved[i] += lr * (double)g[i] / n;
            size[i] += fabs(lr * (double)g[i] / n);
        }
    }
    for (uint64_t i = 0; i < c->elems && !sim->failed; i++) {
        double is = (double)sim->oracle.w[0][i] - (double)w[i];
        double most = 1e-5 * (1 + size[i]) + lr * sim->withheld[i];
        if (!(fabs(is - moved[i]) <= most))
            sim_fail(sim,
                     "cut %" PRIu64 " of step %" PRIu64 ": element %" PRIu64
                     " has moved by %.9g, it should have by %.9g, give or take %.3g",
                     m->cut, m->step, i, is, moved[i], most);
    }
    free(moved);
    free(size);
    free(g);
}

static void check_sync(struct sim *sim, const struct manifest *m, const float *w,
                       float *const *slot)
{
    const struct sim_oracle *o = &sim->oracle;
    if (m->step > o->steps) {
        sim_fail(sim, "a cut of step %" PRIu64 " of %" PRIu64, m->step, o->steps);
        return;
    }
    const struct sim_config *c = &sim->config;
    if (!follow(sim, m->generation, m->step))
        return;
    uint64_t dropped = 0;
    for (uint64_t i = 0; i < m->step; i++)
        dropped += c->settings.microbatches - tree_count_leaves(&o->set[i]);
    check_redone(sim, m, dropped);
    if (m->dropped != dropped)
        sim_fail(sim, "a cut of step %" PRIu64 " says %" PRIu64 " dropped, it should be %" PRIu64,
                 m->step, m->dropped, dropped);
    bool known = is_known(sim);
    const struct sim_agreed *agreed = &sim->agreed[m->step];
    if (known && !same(sim, "a cut's weights", m->step, w, o->view[m->step]))
        return;
    /* a job that lost everything begins again, with a lower generation; with backup workers it learns something else then */
    bool held = agreed->generation.number == sim->entered &&
                agreed->generation.tag == sim->entered_tag &&
                agreed->generation.number == m->generation;
    if (held && agreed->hash != hash_of(w, c->elems))
        sim_fail(sim, "a cut's weights of step %" PRIu64 " are not what workers held", m->step);
    if (c->gradient == SIM_KNOWN)
        check_known(sim, m, w);
    for (uint32_t k = 0; known && k < o->slots; k++)
        if (!same(sim, "a cut's slot", m->step, slot[k], o->slot[k][m->step]))
            return;
    if (m->t != o->t[m->step])
        sim_fail(sim, "a cut's t is %" PRIu64 ", it should be %" PRIu64, m->t, o->t[m->step]);
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        if (memcmp(&m->epoch[i], &o->epoch[m->step][i], sizeof m->epoch[i]) != 0)
            sim_fail(sim,
                     "a cut's sums of epoch %" PRIu64 " at step %" PRIu64 ": %" PRIu64
                     " batches, loss %a; should be %" PRIu64 ", %a",
                     m->epoch[i].epoch, m->step, m->epoch[i].batches, m->epoch[i].loss,
                     o->epoch[m->step][i].batches, o->epoch[m->step][i].loss);
}

/* Where no worker was given up all that moved is there: rounds take parts, so sums are not exact, but a batch that is missing or
 * doubled moves far more. */
static void check_geo(struct sim *sim, const struct manifest *m, const float *w, float moved)
{
    if (m->lost > m->step)
        sim_fail(sim, "cut %" PRIu64 ": %" PRIu64 " lost of %" PRIu64, m->cut, m->lost, m->step);
    bool died = sim->died || sim->fenced;
    for (uint32_t i = 0; i < sim->config.faults; i++)
        died = died || (sim->config.fault[i].kind != FAULT_BREAK &&
                        sim->config.fault[i].kind != FAULT_BREAK_ALL);
    if (died)
        return;
    if (m->lost)
        sim_fail(sim, "cut %" PRIu64 ": %" PRIu64 " lost, and nobody died", m->cut, m->lost);
    for (uint64_t i = 0; i < sim->config.elems; i++) {
        float is = sim->oracle.w[0][i] - w[i], by = is - moved;
        if (by > 0.01f || by < -0.01f) {
            sim_fail(sim,
                     "cut %" PRIu64 ": element %" PRIu64 " has moved by %g, it should have by %g",
                     m->cut, i, (double)is, (double)moved);
            return;
        }
    }
}

/* The shards' copies have exactly the batches that the cut calls resolved; each update in them was recomputed when it was
 * made. */
static void check_saved(struct sim *sim, const struct manifest *m, const struct ids *done)
{
    for (uint64_t id = 0; id < 64 && sim->saved_cut == m->cut; id++)
        if (ids_has(done, id) != (sim->saved_ids >> id & 1))
            sim_fail(sim, "cut %" PRIu64 ": batch %" PRIu64 " is %sresolved, and %sin the weights",
                     m->cut, id, ids_has(done, id) ? "" : "not ",
                     sim->saved_ids >> id & 1 ? "" : "not ");
}

static float left_out(const struct sim *sim, uint64_t batch)
{
    return batch < SIM_LEFT_MAX ? sim->left[batch] : 0;
}

/* Every id that the cut calls resolved is in every element once, and no other one. */
static void check_async(struct sim *sim, const struct manifest *m, const float *w)
{
    const struct sim_config *c = &sim->config;
    struct ids done;
    float moved = 0,
          open = 0; /* open: by batches that some found not finite, in part or not at all */
    uint64_t t = 0, open_t = 0;
    if (ids_unpack(&done, m->mark, m->window_bits, m->window_bits_bytes)) {
        sim_fail(sim, "cut %" PRIu64 ": its resolved ids do not unpack", m->cut);
        return;
    }
    uint64_t end = ids_end(&done);
    for (uint64_t id = 0; id < end; id++) {
        if (!ids_has(&done, id) || sim_broken(c, id, NULL) || sim_batch_examples(c, id) == 0)
            continue;
        bool differs = sim_broken_for(c, id, 1);
        *(differs ? &open : &moved) +=
            (float)id_value(id) * c->settings.learning_rate * (1 - left_out(sim, id));
        *(differs ? &open_t : &t) += 1;
    }
    if (c->settings.update == GRADWIRE__UPDATE__GEO)
        t = done.count; /* there it counts batches */
    if (m->step != done.count || m->t < t || m->t > t + open_t)
        sim_fail(sim,
                 "cut %" PRIu64 ": step %" PRIu64 ", t %" PRIu64 "; should be %" PRIu64 ", %" PRIu64
                 "..%" PRIu64,
                 m->cut, m->step, m->t, done.count, t, t + open_t);
    if (c->settings.update == GRADWIRE__UPDATE__GEO) {
        check_geo(sim, m, w, moved);
        return;
    }
    if (sim_stale_on(c)) {
        check_saved(sim, m, &done);
        return;
    }
    if (c->gradient == SIM_KNOWN) {
        check_known(sim, m, w);
        return;
    }
    for (uint64_t i = 0; i < c->elems; i++) {
        float want = sim->oracle.w[0][i] - moved;
        if (!(w[i] <= want && w[i] >= want - open)) {
            sim_fail(sim,
                     "cut %" PRIu64 " of %" PRIu64 " ids: element %" PRIu64
                     " has moved by %g, it should have by %g",
                     m->cut, done.count, i, (double)(sim->oracle.w[0][i] - w[i]), (double)moved);
            return;
        }
    }
}

void sim_check_manifest(struct sim *sim, const struct manifest *m)
{
    const struct sim_config *c = &sim->config;
    struct optimizer optimizer = optimizer_of(&c->settings);
    float *w = malloc(c->elems * sizeof *w), *slot[OPTIMIZER_SLOTS_MAX] = {0};
    for (uint32_t k = 0; k < sim->oracle.slots; k++)
        slot[k] = malloc(c->elems * sizeof **slot);
    if (m->slots != sim->oracle.slots || m->total_elems != c->elems)
        sim_fail(sim, "cut %" PRIu64 " has %u slots, %" PRIu64 " elements", m->cut, m->slots,
                 m->total_elems);
    else if (sim_disk_read(sim, m, 0, c->elems, w, slot))
        sim_fail(sim, "cut %" PRIu64 " of step %" PRIu64 " is published and not complete", m->cut,
                 m->step);
    else if (c->settings.update == GRADWIRE__UPDATE__SYNC)
        check_sync(sim, m, w, slot);
    else
        check_async(sim, m, w);
    if (c->tables && !sim->failed)
        sim_check_cut_rows(sim, m, &optimizer);
    for (uint32_t k = 0; k < sim->oracle.slots; k++)
        free(slot[k]);
    free(w);
}

/* ---- the end ---- */

static void check_facts(struct sim *sim, uint64_t total)
{
    const struct chief_facts *f = &sim->facts;
    if (f->steps != total || f->dealt != total || f->applied_min + f->lost != total ||
        f->applied_max + f->lost != total)
        sim_fail(sim,
                 "at the end: steps %" PRIu64 ", dealt %" PRIu64 ", applied %" PRIu64 "..%" PRIu64
                 " and lost %" PRIu64 "; all should be %" PRIu64,
                 f->steps, f->dealt, f->applied_min, f->applied_max, f->lost, total);
    if (f->lost && sim->config.settings.update != GRADWIRE__UPDATE__GEO)
        sim_fail(sim, "at the end %" PRIu64 " batches are lost", f->lost);
    if (f->dropped && sim->config.settings.replicas_to_aggregate == 0)
        sim_fail(sim, "at the end %" PRIu64 " microbatches are dropped", f->dropped);
}

/* The job evaluated and exported the weights of the final cut. */
static void check_learned(struct sim *sim, const struct manifest *m)
{
    struct optimizer optimizer = optimizer_of(&sim->config.settings);
    uint32_t average = optimizer_average_slot(&optimizer);
    float *w = malloc(sim->config.elems * sizeof *w), *slot[OPTIMIZER_SLOTS_MAX] = {0};
    if (average != UINT32_MAX)
        slot[average] = w;
    if (sim_disk_read(sim, m, 0, sim->config.elems, average == UINT32_MAX ? w : NULL, slot) ==
        ERR_OK)
        (void)same(sim, "what was evaluated", m->step, sim->learned, w);
    free(w);
}

/* Every microbatch of every epoch is in one step, of that epoch. */
static void check_once(struct sim *sim, uint64_t steps)
{
    const struct sim_oracle *o = &sim->oracle;
    const Gradwire__Settings *s = &sim->config.settings;
    uint64_t batches = s->epochs * s->batches_per_epoch;
    uint32_t *times = calloc(batches * s->microbatches, sizeof *times);
    for (uint64_t step = 0; step < steps; step++) {
        const struct sim_place *p = &o->place[step];
        for (uint32_t i = 0; i < s->microbatches; i++)
            if (tree_has_leaf(&o->set[step], i) && p->leaf[i].there &&
                p->leaf[i].batch / s->batches_per_epoch == p->epoch)
                times[p->leaf[i].batch * s->microbatches + p->leaf[i].leaf]++;
        sim_backup_seen.redone += p->regular == s->batches_per_epoch;
    }
    for (uint64_t i = 0; i < batches * s->microbatches && !sim->failed; i++)
        if (times[i] != 1)
            sim_fail(sim, "leaf %" PRIu64 " of batch %" PRIu64 " was trained %u times in its epoch",
                     i % s->microbatches, i / s->microbatches, times[i]);
    free(times);
}

/* The job said that all is well. */
void sim_check_end(struct sim *sim)
{
    const struct sim_manifest *last = sim_disk_newest(sim);
    const Gradwire__Settings *s = &sim->config.settings;
    uint64_t total = s->epochs * s->batches_per_epoch;
    if (s->redo && last && last->m.redo.epoch == s->epochs)
        total = last->m.redo.begin;
    if (sim->shortened && last && last->m.step > total)
        total = last->m.step;
    if (!last || !last->m.final || last->m.step != total)
        sim_fail(sim, "the job is done and its last cut is not the final one");
    else if (last->m.dealt != total)
        sim_fail(sim, "the final cut says %" PRIu64 " dealt of %" PRIu64, last->m.dealt, total);
    else
        sim_check_manifest(sim, &last->m);
    if (!sim->failed && s->redo)
        check_once(sim, total);
    if (!sim->failed && sim->has_learned)
        check_learned(sim, &last->m);
    if (sim->facts.running)
        check_facts(sim, total);
}
