/* Async where an update depends on when it comes: delay compensation (DC-ASGD, eq. 10) and rates by staleness. The final
 * weights are then no sum of what was pushed, so each update is recomputed when it is made, from the parameters that the
 * worker computed the batch of, the shard's weights right before, the gradient, and how many updates came in between; and
 * nothing else may move a weight. A copy for a cut must have these weights, and each batch once. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ps/core/shard_state.h"
#include "tests/lib/quiet.h"
#include "tests/lib/sim.h"

enum { IDS_MAX = 64, CHUNKS_MAX = 64 }; /* as bits */

struct sim_mirror {
    float *w;                                     /* (elems) after the last update */
    uint64_t t[CHUNKS_MAX];                       /* updates of each chunk */
    uint64_t sent_t[SIM_WORKERS_MAX][CHUNKS_MAX]; /* when the worker was sent it last */
    uint64_t has[IDS_MAX];                        /* of each batch: the chunks that have it */
    uint64_t loaded;                              /* the batches of the cut that was loaded */
    bool pushing;                                 /* a reply that is sent meanwhile has this push */
    uint32_t answered, first, end;                /* the worker and the chunks that were */
};

bool sim_stale_on(const struct sim_config *config)
{
    return config->settings.delay_compensation > 0 || config->settings.staleness_rate;
}

static uint64_t all_chunks(const struct shard *s)
{
    return s->me.chunks == 64 ? UINT64_MAX : (UINT64_C(1) << s->me.chunks) - 1;
}

/* ---- what workers compute of ---- */

void sim_stale_computed(struct sim_worker *k, uint64_t id)
{
    struct sim *sim = k->proc.sim;
    uint64_t bytes = sim->config.elems * sizeof(float);
    if (!sim_stale_on(&sim->config))
        return;
    struct sim_computed *c = calloc(1, sizeof *c);
    *c = (struct sim_computed){.next = sim->computed,
                               .generation = k->terms->generation,
                               .worker = k->proc.index,
                               .incarnation = k->terms->incarnation,
                               .id = id,
                               .w = malloc(bytes)};
    memcpy(c->w, k->w, bytes);
    sim->computed = c;
}

static const struct sim_computed *find(const struct sim *sim, const struct shard_peer *p,
                                       struct generation g, uint64_t id)
{
    const struct sim_computed *c = sim->computed;
    while (c && (c->worker != p->worker || c->incarnation != p->incarnation || c->id != id ||
                 !generation_equal(c->generation, g)))
        c = c->next;
    return c;
}

void sim_stale_close(struct sim *sim)
{
    while (sim->computed) {
        struct sim_computed *c = sim->computed;
        sim->computed = c->next;
        free(c->w);
        free(c);
    }
}

/* ---- a shard ---- */

void sim_stale_thread_close(struct sim_thread *t)
{
    if (t->mirror)
        free(t->mirror->w);
    free(t->mirror);
    t->mirror = NULL;
}

static struct sim_mirror *mirror_of(struct sim_thread *t)
{
    if (!t->mirror)
        t->mirror = calloc(1, sizeof *t->mirror);
    return t->mirror;
}

void sim_stale_loaded(struct sim_thread *t, const struct manifest *m)
{
    struct ids done;
    if (!sim_stale_on(&t->sim->config) ||
        ids_unpack(&done, m->mark, m->window_bits, m->window_bits_bytes))
        return;
    struct sim_mirror *k = mirror_of(t);
    k->loaded = 0;
    for (uint64_t id = 0; id < IDS_MAX; id++)
        k->loaded |= (uint64_t)ids_has(&done, id) << id;
}

void sim_stale_entered(struct sim_thread *t, struct generation before, const Gradwire__Enter *m)
{
    uint64_t first, n;
    if (!sim_stale_on(&t->sim->config) || !shard_facts(t->core).entered ||
        t->core->me.chunks == 0 || generation_equal(before, shard_facts(t->core).generation) ||
        m->mode == GRADWIRE__ENTER_MODE__TAKEOVER)
        return;
    t->sim->saved_cut = UINT64_MAX; /* a chief that is gone may have had this number, too */
    struct sim_mirror *k = mirror_of(t);
    uint64_t loaded = m->mode == GRADWIRE__ENTER_MODE__RESTORE ? k->loaded : 0;
    const float *w = quiet_weights(t->core, &first, &n);
    sim_stale_thread_close(t);
    k = mirror_of(t);
    k->w = malloc(n * sizeof *k->w);
    memcpy(k->w, w, n * sizeof *k->w);
    for (uint64_t id = 0; id < IDS_MAX; id++)
        k->has[id] = loaded >> id & 1 ? all_chunks(t->core) : 0;
}

static void note_sent(struct sim_mirror *k, uint32_t worker, uint32_t first, uint32_t end)
{
    for (uint32_t c = first; c < end; c++)
        k->sent_t[worker][c] = k->t[c];
}

void sim_stale_sent(struct sim_thread *t, const struct shard_peer *to, const Gradwire__Reply *m)
{
    struct sim_mirror *k = t->mirror;
    if (!k || m->averages)
        return;
    uint32_t first = m->first_chunk - t->core->me.first_chunk, end = first + m->chunks;
    if (k->pushing) {
        k->answered = to->worker;
        k->first = first;
        k->end = end;
    } else {
        note_sent(k, to->worker, first, end);
    }
}

void sim_stale_pushing(struct sim_thread *t)
{
    if (!t->mirror)
        return;
    t->mirror->pushing = true;
    t->mirror->first = t->mirror->end = 0;
}

/* One chunk, elements [at, at + n) of the shard. */
static void check_chunk(struct sim_thread *t, const struct shard_peer *from,
                        const Gradwire__Push *m, uint32_t chunk, uint64_t at, uint64_t n,
                        const float *g, const float *pulled)
{
    const Gradwire__Settings *s = &t->sim->config.settings;
    struct sim_mirror *k = t->mirror;
    const float *w = t->core->block[0] + at;
    uint64_t tau = k->t[chunk] - k->sent_t[from->worker][chunk];
    double rate = (double)s->learning_rate, lambda = (double)s->delay_compensation;
    if (s->staleness_rate && tau > 1)
        rate /= (double)tau;
    for (uint64_t i = 0; i < n; i++) {
        double mean = (double)g[i] / m->examples, now = (double)k->w[at + i];
        double mended = mean + lambda * mean * mean * (now - (double)pulled[i]);
        double want = now - rate * mended;
        if (fabs((double)w[i] - want) <= 1e-6 * (1 + fabs(want)))
            continue;
        sim_fail(t->sim,
                 "worker %u's batch %" PRIu64 ", staleness %" PRIu64 ": element %" PRIu64
                 " is %.9g, it should be %.9g",
                 from->worker, (uint64_t)m->name, tau, at + i, (double)w[i], want);
        return;
    }
    k->t[chunk]++;
    sim_seen.recomputed++;
    sim_seen.stale += tau > 0;
}

static void take_chunks(struct sim_thread *t, const struct shard_peer *from,
                        const Gradwire__Push *m, const float *g, const float *pulled)
{
    struct shard *s = t->core;
    struct sim_mirror *k = t->mirror;
    for (uint32_t c = m->first_chunk - s->me.first_chunk;
         c < m->first_chunk - s->me.first_chunk + m->chunks; c++) {
        uint64_t at = plan_chunk_elem(&s->plan, s->me.first_chunk + c) - s->me.first_elem;
        uint64_t n = plan_run_elems(&s->plan, s->me.first_chunk + c, 1);
        if (!(k->has[m->name] >> c & 1) && m->examples) {
            check_chunk(t, from, m, c, at, n, g, pulled + s->me.first_elem + at);
            memcpy(k->w + at, s->block[0] + at, n * sizeof *k->w);
        }
        k->has[m->name] |= UINT64_C(1) << c;
        g += n;
    }
}

static void check_rest(struct sim_thread *t)
{
    const struct shard *s = t->core;
    if (memcmp(t->mirror->w, s->block[0], s->me.elems * sizeof(float)) != 0)
        sim_fail(t->sim, "shard %u: weights have moved by no batch", s->index);
}

void sim_stale_pushed(struct sim_thread *t, const struct shard_peer *from, const Gradwire__Push *m,
                      const float *g)
{
    struct sim_mirror *k = t->mirror;
    if (k)
        k->pushing = false;
    if (!k || !k->w || m->name >= IDS_MAX ||
        !generation_equal(msg_generation_get(m->generation), shard_facts(t->core).generation))
        return;
    const struct sim_computed *c = find(t->sim, from, shard_facts(t->core).generation, m->name);
    if (!c)
        sim_fail(t->sim, "worker %u pushes batch %" PRIu64 " that it has not computed",
                 from->worker, (uint64_t)m->name);
    else if (g)
        take_chunks(t, from, m, g, c->w);
    note_sent(k, k->answered, k->first, k->end);
    if (!t->sim->failed)
        check_rest(t);
}

void sim_stale_saved(struct sim_thread *t, const struct shard_image *image)
{
    struct sim *sim = t->sim;
    struct sim_mirror *k = t->mirror;
    uint64_t ids = 0;
    if (!k || !k->w)
        return;
    if (memcmp(k->w, image->blocks.w, t->core->me.elems * sizeof(float)) != 0)
        sim_fail(sim, "cut %" PRIu64 ": a copy is not the weights", image->cut);
    for (uint64_t id = 0; id < IDS_MAX; id++) {
        if (k->has[id] && k->has[id] != all_chunks(t->core))
            sim_fail(sim, "cut %" PRIu64 ": batch %" PRIu64 " is in some chunks only", image->cut,
                     id);
        ids |= (uint64_t)(k->has[id] != 0) << id;
    }
    if (sim->saved_cut == image->cut && sim->saved_generation == image->blocks.generation &&
        sim->saved_ids != ids)
        sim_fail(sim, "cut %" PRIu64 ": two shards have copied other batches", image->cut);
    sim->saved_generation = image->blocks.generation;
    sim->saved_cut = image->cut;
    sim->saved_ids = ids;
}
