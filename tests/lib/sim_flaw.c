/* training.nan_guard: check. Some batches have a loss that is not finite, whoever computes them, until the job has failed by
 * it: then all start again, as a user starts them, and the batch is whole. With broken_once a batch is flawed only when it
 * is computed first, and that worker may die before it tells: others, or a cut, are to find what the shards have of it.
 * The final weights equal the plain loop's, if no cut that is not finite was published. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tests/lib/sim.h"

static bool checks(const struct sim *sim)
{
    return sim->config.settings.nan_guard == NAN_GUARD_CHECK;
}

static bool has_leaf(const struct session_task *t, uint32_t leaf)
{
    for (uint32_t i = 0; i < t->runs; i++)
        if (leaf - t->first[i] < t->count[i])
            return true;
    return false;
}

static bool is_finite(const float *w, uint64_t elems)
{
    while (elems > 0 && isfinite(w[elems - 1]))
        elems--;
    return elems == 0;
}

static bool is_flawed(const struct sim *sim, const struct session_task *t)
{
    uint32_t leaf;
    return sim_flaw_drawn(&sim->config, t->name, &leaf) && !sim->mended[t->name] &&
           has_leaf(t, leaf) && sim_examples(&sim->config, t->name, leaf) > 0;
}

/* The task's loss, and so its gradient, is not finite: pieces of it may be sent before that is known. */
void sim_flaw_take(struct sim *sim, struct sim_worker *k, const struct session_task *t)
{
    assert(!checks(sim) || t->name < SIM_LEFT_MAX);
    bool flawed = checks(sim) && is_flawed(sim, t);
    k->flawed = flawed || (checks(sim) && !is_finite(k->w, sim->config.elems));
    if (!k->flawed)
        return;
    sim->flawed[t->name] = true;
    sim->mended[t->name] = sim->mended[t->name] || sim->config.broken_once;
    for (uint32_t i = 0; i < k->nodes; i++)
        for (uint64_t e = 0; e < sim->config.elems; e++)
            k->node[i].value[e] = NAN;
}

/* Before the last piece: the first chunk, with the sums, never leaves. */
bool sim_flaw_shows(struct sim *sim, struct sim_worker *k)
{
    if (!k->flawed || (k->piece_shard > 0 && !sim_chance(sim, 4)))
        return false;
    if (sim->config.broken_once && k->proc.index && sim_chance(sim, 2)) {
        sim->last_fault_us = sim->now_us;
        return sim_kill(sim, &k->proc, 20000);
    }
    sim_trace(sim, "worker %u: the loss of %" PRIu64 " is not finite", k->proc.index, k->task_name);
    session_reject(k->session, "the loss is not finite");
    if (k->proc.index && sim_open(k->member, DIALER) && sim_chance(sim, 3))
        sim_break(sim, k->member); /* the message is lost */
    return true;
}

/* Has the job failed as it should? */
bool sim_flaw_ends(const struct sim *sim, const char *text)
{
    sim_seen.flawed_cuts += strstr(text, "the tensor") != NULL;
    return sim_flaw_is_told(sim) && strstr(text, "is not finite") &&
           strstr(text, "(training.nan_guard: check)");
}

/* Whether some process has the report: the chief may have died since. */
bool sim_flaw_is_told(const struct sim *sim)
{
    return checks(sim) && memchr(sim->flawed, true, sizeof sim->flawed);
}

void sim_flaw_mend(struct sim *sim)
{
    sim_seen.flaws++;
    for (uint32_t i = 0; i < SIM_LEFT_MAX; i++)
        sim->mended[i] = sim->mended[i] || sim->flawed[i];
    memset(sim->flawed, 0, sizeof sim->flawed);
}
