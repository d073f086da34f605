/* Rows of tables in a session. They are requested with the push of the task before or, if the guess was wrong,
 * before the task.
 *
 * Happy path: while a task is computed, session_guess predicts the next one -> its rows are requested after the push
 * -> the replies, and the rows -> the task begins. One exchange a step. In ssp the request names the clock of the
 * pull that follows it.
 * Failure modes: the task is another one than was guessed (requested again: one more exchange), a connection breaks
 * (requested again when it is up), sync: the step is gone (the newest parameters are pulled, and a new task is
 * taken). */
#include <assert.h>

#include "worker/core/session_inner.h"

/* ---- requests ---- */

static void ask(struct session *s, enum session_ask which, bool any, uint64_t step)
{
    s->rows.ask[which] = (struct session_rows_ask){
        .there = true, .any = any, .number = ++s->rows.number, .step = step};
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        s->link[i].rows[which] = false;
}

void session_ask_task(struct session *s, const struct session_task *task)
{
    session_check(s);
    assert(s->terms.tables && task->runs > 0);
    s->rows.of = *task;
    ask(s, ASK_TASK, !s->terms.sync, task->name);
    struct session_rows_ask *a = &s->rows.ask[ASK_TASK];
    a->bounded = s->mode->reads_at && s->mode->reads_at(s, &a->clock);
    session_check(s);
}

void session_ask_look(struct session *s)
{
    session_check(s);
    assert(s->terms.tables);
    ask(s, ASK_LOOK, !s->terms.sync, s->step);
    session_check(s);
}

static void note_asked(struct session_link *l, uint64_t number)
{
    if (l->asked[1] == number)
        return;
    l->asked[0] = l->asked[1];
    l->asked[1] = number;
}

bool session_ask_head(struct session *s, uint32_t shard, enum session_ask which,
                      Gradwire__RowsAsk *m)
{
    const struct session_rows_ask *a = &s->rows.ask[which];
    /* A read at a clock must contain this worker's own batch, so the request is sent after the push, which this
     * connection gets when the batch is computed. */
    if (!a->there || s->link[shard].rows[which] || s->link[shard].state == LINK_DOWN ||
        (a->bounded && s->phase == SESSION_COMPUTING && s->link[shard].state != LINK_STREAMS))
        return false;
    m->generation = &s->generation;
    m->number = a->number;
    m->any = a->any;
    m->step = a->any ? 0 : a->step;
    m->bounded = a->bounded;
    m->clock = a->clock;
    m->once = which == ASK_LOOK;
    if (which == ASK_TASK)
        note_asked(&s->link[shard], a->number);
    return true;
}

void rows_link_up(struct session *s, uint32_t shard)
{
    for (enum session_ask which = 0; which < SESSION_ASKS; which++)
        if (s->rows.ask[which].there && !s->link[shard].rows[which])
            s->io->ask_again(s->ctx, shard, which);
}

void rows_push_left(struct session *s, uint32_t shard)
{
    const struct session_rows_ask *a = &s->rows.ask[ASK_TASK];
    if (a->there && s->link[shard].asked[1] != a->number)
        s->io->ask_again(s->ctx, shard, ASK_TASK);
}

bool session_guess(const struct session *s, struct session_task *next)
{
    return s->terms.tables && s->phase == SESSION_COMPUTING && s->mode->guess &&
           s->mode->guess(s, next);
}

/* ---- answers ---- */

static bool all_here(const struct session *s, enum session_ask which)
{
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        if (!s->link[i].rows[which])
            return false;
    return s->rows.ask[which].there;
}

bool session_look_is_here(const struct session *s)
{
    return s->phase != SESSION_NEW && all_here(s, ASK_LOOK);
}

/* The request that this message answers; SESSION_ASKS: none. */
static enum session_ask answered(const struct session *s, uint32_t shard, const Gradwire__Rows *m)
{
    enum session_ask which = SESSION_ASKS;
    bool ours = generation_equal(msg_generation_get(m->generation), s->terms.generation);
    for (enum session_ask i = 0; i < SESSION_ASKS && ours; i++) {
        const struct session_rows_ask *a = &s->rows.ask[i];
        if (a->there && m->number == a->number && !s->link[shard].rows[i])
            which = i;
    }
    return which;
}

bool session_rows_fit(const struct session *s, uint32_t shard, const Gradwire__Rows *m,
                      enum session_ask *which)
{
    *which = answered(s, shard, m);
    return *which < SESSION_ASKS && !m->gone &&
           (s->rows.ask[*which].any || m->step == s->rows.ask[*which].step);
}

/* The step of the request is gone: the other workers made it and the next one without this worker. An evaluation then
 * reads the rows as they are. */
static void step_is_gone(struct session *s, uint32_t shard, enum session_ask which)
{
    if (which == ASK_LOOK) {
        s->rows.ask[ASK_LOOK].any = true;
        s->io->ask_again(s->ctx, shard, ASK_LOOK);
        return;
    }
    s->rows.ask[ASK_TASK].there = false;
    if (s->phase == SESSION_ROWS)
        s->mode->pull_newest(s);
}

void session_on_rows(struct session *s, uint32_t shard, const Gradwire__Rows *m)
{
    enum session_ask which;
    session_check(s);
    bool fits = session_rows_fit(s, shard, m, &which);
    if (fits)
        s->link[shard].rows[which] = true;
    else if (which < SESSION_ASKS)
        step_is_gone(s, shard, which);
    session_check(s);
}

/* ---- a task that was taken ---- */

static bool same_leaves(const struct session_task *a, const struct session_task *b)
{
    if (a->name != b->name || a->batch != b->batch || a->runs != b->runs)
        return false;
    for (uint32_t i = 0; i < a->runs; i++)
        if (a->first[i] != b->first[i] || a->count[i] != b->count[i])
            return false;
    return true;
}

struct session_task rows_task(struct session *s)
{
    struct session_task t = s->rows.task;
    if (!s->rows.ask[ASK_TASK].there || !same_leaves(&s->rows.of, &t)) {
        t.kind = TASK_ROWS;
        return t;
    }
    if (!all_here(s, ASK_TASK)) {
        t.kind = TASK_NONE;
        return t;
    }
    s->rows.ask[ASK_TASK].there = false; /* the rows belong to this task alone */
    s->rows.own = s->rows.ask[ASK_TASK].number;
    return t;
}

uint64_t session_push_ask(const struct session *s, uint32_t shard)
{
    const struct session_link *l = &s->link[shard];
    return s->rows.own == l->asked[0] || s->rows.own == l->asked[1] ? s->rows.own : 0;
}
