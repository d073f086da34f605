#include "worker/core/unreached.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

void patience_begin(struct patience *p, int64_t now_ms)
{
    p->since_ms = now_ms;
    p->say_ms = PATIENCE_FIRST_MS;
}

bool patience_over(struct patience *p, int64_t now_ms, int64_t *waited_s)
{
    int64_t waited_ms = now_ms - p->since_ms;
    if (waited_ms < p->say_ms)
        return false;
    while (p->say_ms <= waited_ms) /* after a jump of the clock, report only once */
        p->say_ms *= 2;
    *waited_s = waited_ms / 1000;
    return true;
}

/* ---- connections that are away ---- */

enum err unreached_begin(struct unreached *u, uint32_t shards, int64_t now_ms)
{
    struct unreached new = {.shards = shards,
                            .lost_ms = mem_zalloc(shards, sizeof *new.lost_ms),
                            .before_ms = mem_zalloc(shards, sizeof *new.before_ms),
                            .doubted = mem_zalloc(shards, sizeof *new.doubted)};
    if (!new.lost_ms || !new.before_ms || !new.doubted) {
        unreached_close(&new);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < shards; i++)
        new.lost_ms[i] = now_ms;
    unreached_close(u);
    *u = new;
    return ERR_OK;
}

void unreached_close(struct unreached *u)
{
    mem_free(u->lost_ms);
    mem_free(u->before_ms);
    mem_free(u->doubted);
    *u = (struct unreached){0};
}

void unreached_greeted(struct unreached *u, uint32_t shard)
{
    assert(shard < u->shards);
    if (u->doubted[shard] || !u->lost_ms[shard])
        return;
    u->before_ms[shard] = u->lost_ms[shard];
    u->lost_ms[shard] = 0;
}

void unreached_up(struct unreached *u, uint32_t shard)
{
    assert(shard < u->shards);
    u->lost_ms[shard] = u->before_ms[shard] = 0;
    u->doubted[shard] = false;
}

void unreached_down(struct unreached *u, uint32_t shard, int64_t now_ms, int64_t silent_ms,
                    bool asked)
{
    assert(shard < u->shards && silent_ms >= 0);
    if (u->before_ms[shard] && asked) {
        u->doubted[shard] = true;
        u->lost_ms[shard] = u->before_ms[shard];
    }
    if (!u->lost_ms[shard])
        u->lost_ms[shard] = now_ms > silent_ms ? now_ms - silent_ms : 1;
}

bool unreached_longest(const struct unreached *u, const struct plan *plan, int64_t now_ms,
                       uint32_t *ps, int64_t *away_ms)
{
    *away_ms = 0;
    for (uint32_t i = 0; i < u->shards; i++) {
        int64_t ms = u->lost_ms[i] ? now_ms - u->lost_ms[i] : 0;
        if (ms < UNREACHED_AFTER_MS || ms <= *away_ms)
            continue;
        *ps = plan->shard[i].ps;
        *away_ms = ms;
    }
    return *away_ms > 0;
}

bool unreached_is_news(struct unreached *u, const struct plan *plan, int64_t now_ms)
{
    uint32_t ps = 0;
    int64_t away_ms;
    bool any = unreached_longest(u, plan, now_ms, &ps, &away_ms);
    bool news = any != u->any || (any && ps != u->told);
    u->any = any;
    u->told = ps;
    return news;
}

/* True if each shard has answered since we were parked, even with a refusal. */
static bool all_answer(const struct unreached *u, int64_t now_ms, int64_t answers_ms)
{
    for (uint32_t i = 0; i < u->shards; i++) {
        int64_t lost_ms = u->lost_ms[i];
        if (lost_ms &&
            (lost_ms < u->parked_ms || now_ms - lost_ms > answers_ms + UNREACHED_AFTER_MS))
            return false;
    }
    return true;
}

enum unreached_act unreached_look(struct unreached *u, const struct plan *plan, int64_t now_ms,
                                  uint32_t ps_rejoin_s, int64_t answers_ms,
                                  struct unreached_seen *seen)
{
    bool late = now_ms - u->looked_ms > UNREACHED_LATE_MS;
    *seen = (struct unreached_seen){.any = false};
    u->looked_ms = now_ms;
    if (late)
        return UNREACHED_NOTHING;
    seen->any = unreached_longest(u, plan, now_ms, &seen->ps, &seen->away_ms);
    int64_t bound_ms = (int64_t)ps_rejoin_s * 1000 + (u->park == PARKED ? 0 : UNREACHED_MORE_MS);
    if (seen->any && seen->away_ms > bound_ms)
        return UNREACHED_GIVE_UP;
    if (u->park == PARKED && all_answer(u, now_ms, answers_ms)) {
        u->park = PARK_IS_OVER;
        return UNREACHED_BACK;
    }
    bool tells = u->park == UNPARKED && unreached_is_news(u, plan, now_ms);
    return tells ? UNREACHED_TELL : UNREACHED_NOTHING;
}

void unreached_park(struct unreached *u, int64_t now_ms)
{
    u->park = PARKED;
    u->parked_ms = now_ms;
    /* a parked worker asks nothing that could be answered */
    memset(u->doubted, 0, u->shards * sizeof *u->doubted);
}

void unreached_welcomed(struct unreached *u)
{
    u->any = false;
    u->park = UNPARKED;
}
