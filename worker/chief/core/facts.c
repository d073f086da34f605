/* Counts for summaries and status pages. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/chief/core/chief_state.h"

uint64_t chief_dropped(const struct chief *c, uint32_t worker)
{
    return c->mode == &chief_sync && worker < c->workers ? c->worker[worker].sync.dropped : 0;
}

bool chief_account(const struct chief *c, uint32_t worker, struct worker_account *out)
{
    if (worker >= c->workers || !c->worker[worker].acked)
        return false;
    *out = c->worker[worker].account;
    return true;
}

struct chief_facts chief_facts(const struct chief *c)
{
    struct chief_facts f = {.running = c->entered,
                            .generation = c->generation.number,
                            .cut = c->published_cut,
                            .cut_step = c->published_step,
                            .steps = c->mode->steps(c),
                            .total = c->total,
                            .rejected = journal_rejected(&c->journal),
                            .recoveries = journal_all_recoveries(&c->journal),
                            .residuals_lost = c->residuals_lost};
    if (c->shard) {
        f.t = c->shard[0].t;
        f.clipped = c->shard[0].clipped;
        f.applied_min = c->shard[0].step;
    }
    for (uint32_t i = 0; c->shard && i < c->plan.shards; i++) {
        const struct chief_shard *s = &c->shard[i];
        if (s->step < f.applied_min)
            f.applied_min = s->step;
        if (s->step > f.applied_max)
            f.applied_max = s->step;
        f.duplicates += s->duplicates;
        f.squeezed += s->squeezed;
        for (uint32_t k = 0; k < ROW_TABLES_MAX; k++)
            row_counts_add(&f.table[k], &s->table[k]);
        codec_cost_add(&f.push, &s->push);
        codec_cost_add(&f.reply, &s->reply);
    }
    c->mode->facts(c, &f);
    memcpy(f.epoch, c->epoch, sizeof f.epoch);
    for (uint32_t i = 0; i < c->workers; i++) {
        const struct chief_worker *w = &c->worker[i];
        f.residuals_away += c->feedback && w->given && !w->up && !w->acked;
    }
    memcpy(f.uuid, c->uuid, sizeof f.uuid);
    return f;
}

const struct journal *chief_journal(const struct chief *c)
{
    return &c->journal;
}

uint32_t chief_workers(const struct chief *c)
{
    return c->workers;
}

bool chief_joined(const struct chief *c, uint32_t worker)
{
    return worker < c->workers && c->worker[worker].joined;
}

struct chief_peer chief_peer_worker(const struct chief *c, uint32_t worker, int64_t now_ms)
{
    const struct chief_worker *w = &c->worker[worker];
    return (struct chief_peer){.up = w->up,
                               .member = w->member,
                               .incarnation = w->incarnation,
                               .away_s = w->up ? 0 : (double)(now_ms - w->lost_ms) / 1000};
}

struct chief_peer chief_peer_ps(const struct chief *c, uint32_t ps, int64_t now_ms)
{
    const struct chief_ps *p = &c->ps[ps];
    return (struct chief_peer){.up = p->up,
                               .away_s = p->up ? 0 : (double)(now_ms - p->lost_ms) / 1000};
}

void chief_waits_for(const struct chief *c, int64_t now_ms, char *out, size_t bytes)
{
    uint32_t ps = chief_ps_away(c);
    char name[WORKER_NAME_BYTES];
    const struct chief_wait wait = chief_wait(c, now_ms);
    if (wait.who && c->phase >= CHIEF_RUN) {
        wait_text(c, &wait, out, bytes);
        return;
    }
    if (ps < c->config.ps) {
        bool was_up = c->ps[ps].was_up;
        (void)snprintf(out, bytes, "waiting %" PRId64 " s for ps %u, at most %u s (timeouts.%s)",
                       (now_ms - c->ps[ps].lost_ms) / 1000, ps,
                       was_up ? c->config.timeouts.ps_rejoin_s : c->config.timeouts.start_s,
                       was_up ? "ps_rejoin_s" : "start_s");
        return;
    }
    for (uint32_t i = 0; c->phase == CHIEF_ENTER && i < c->plan.shards; i++) {
        if (!c->shard[i].entered) {
            (void)snprintf(out, bytes, "waiting for shard %u on ps %u to enter generation %" PRIu64,
                           i, c->plan.shard[i].ps, c->generation.number);
            return;
        }
    }
    for (uint32_t i = 0; i < c->workers; i++) {
        if (c->worker[i].member && !c->worker[i].up) {
            (void)snprintf(out, bytes, "%s %" PRIu64 ": %s%s is away, last seen %" PRId64 " s ago",
                           c->mode->unit, c->mode->steps(c),
                           worker_name(name, i, c->config.separate_chief),
                           c->worker[i].loads ? ", which reads its data," : "",
                           (now_ms - c->worker[i].lost_ms) / 1000);
            return;
        }
    }
    static const char *const stage[] = {"", "pausing workers", "stopping shards", "saving",
                                        "publishing"};
    const char *phase = c->phase < CHIEF_RUN    ? "starting"
                        : c->phase == CHIEF_RUN ? "running"
                                                : "finishing";
    int n = snprintf(out, bytes, "%s: %s %" PRIu64 " of %" PRIu64, phase, c->mode->unit,
                     c->mode->steps(c), c->total);
    if (c->cut.stage != STAGE_NONE && n > 0 && (size_t)n < bytes)
        (void)snprintf(out + n, bytes - (size_t)n, "; checkpoint %" PRIu64 ": %s", c->cut.number,
                       stage[c->cut.stage]);
}

bool chief_staleness(const struct chief *c, uint32_t worker, struct staleness *out)
{
    *out = (struct staleness){0};
    if (c->mode->staleness)
        c->mode->staleness(c, worker, out);
    return out->count > 0;
}
