/* The chief by itself, async, with two ps of a shard each: when a generation is on, what a cut waits for, what is dealt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/quiet.h"
#include "worker/chief/core/chief.h"
#include "worker/chief/core/chief_state.h"

enum { PS = 2, WORKERS = 2, REJOIN_S = 30, ELEMS = 4096 };

struct said {
    uint64_t generation, fence; /* of the last ENTER; the incarnation of the last FENCE */
    enum { NO_MODE, INIT, RESTORE, TAKEOVER } mode;
    int welcomes, holds, resumes, cuts, cut_ats, published, discarded;
    uint32_t lease_worker;
    uint64_t lease_first;
    int leases, redos;
    uint64_t cut;
    int journaled, finishes;
    int awaited; /* the evaluator */
    uint64_t awaited_cut;
    int finals;         /* requests to write model/ */
    int done, ps_done;  /* DONE to a worker, to a ps */
    int done_code;      /* of the last DONE, */
    char done_why[512]; /* and its reason */
    uint32_t linger_s;  /* of the last one to a ps */
    int gone[PS];       /* GONE to this ps */
    char momentum[200]; /* the last line about momentum */
    int momenta;        /* and how many there were */
    char warned[400];   /* the last warning */
    int ended;          /* the exit code, -1: not yet */
    char why[512];      /* it ended */
    bool may_fail;      /* it is no failure of the test */
    int kept[KEPT_FAILED + 1];
    uint64_t kept_ask, kept_cut; /* of the last one */
    uint64_t begun_clocks;       /* of the last manifest, summed */
};

struct fixture {
    struct chief *chief;
    struct said said;
    struct layout layout;
    const struct manifest *base; /* the newest manifest on disk */
    enum err no_base;            /* or the error that hides it, */
    const char *why_no_base;     /* in words */
    int64_t now_ms;
};

static void note_done(struct said *said, const Gradwire__Done *m)
{
    said->done_code = m->exit_code;
    (void)snprintf(said->done_why, sizeof said->done_why, "%s", m->text);
}

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct said *said = &((struct fixture *)ctx)->said;
    said->gone[ps] += type == FRAME_GONE;
    if (type == FRAME_ENTER) {
        const Gradwire__Enter *enter = (const Gradwire__Enter *)m;
        said->generation = enter->generation->number;
        said->mode = enter->mode == GRADWIRE__ENTER_MODE__INIT      ? INIT
                     : enter->mode == GRADWIRE__ENTER_MODE__RESTORE ? RESTORE
                                                                    : TAKEOVER;
    } else if (type == FRAME_CUT) {
        said->cuts++;
        said->cut = ((const Gradwire__Cut *)m)->cut;
    } else if (type == FRAME_FENCE) {
        said->fence = ((const Gradwire__Fence *)m)->incarnation;
    }
    said->cut_ats += type == FRAME_CUT_AT;
    said->ps_done += type == FRAME_DONE;
    if (type == FRAME_DONE)
        said->linger_s = ((const Gradwire__Done *)m)->linger_s;
    if (type == FRAME_DONE)
        note_done(said, (const Gradwire__Done *)m);
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    struct said *said = &((struct fixture *)ctx)->said;
    said->done += type == FRAME_DONE;
    if (type == FRAME_DONE)
        note_done(said, (const Gradwire__Done *)m);
    said->welcomes += type == FRAME_WELCOME;
    said->holds += type == FRAME_HOLD;
    said->resumes += type == FRAME_RESUME;
    if (type == FRAME_HOLD)
        said->cut = ((const Gradwire__Hold *)m)->cut;
    if (type != FRAME_LEASE)
        return;
    const Gradwire__Lease *lease = (const Gradwire__Lease *)m;
    said->leases++;
    said->redos += lease->redo;
    said->lease_worker = worker;
    said->lease_first = lease->ranges[0]->first;
}

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    const struct fixture *f = ctx;
    if (f->no_base)
        return err_set(e, f->no_base, "%s", f->why_no_base ? f->why_no_base : "");
    if (!f->base || f->base->cut >= below)
        return ERR_NOTFOUND;
    *m = *f->base;
    m->window_bits = mem_zalloc(1, 1);
    m->window_bits[0] = f->base->window_bits ? f->base->window_bits[0] : 0;
    const struct beginnings *b = &f->base->begun;
    return beginnings_copy(&m->begun, b->runs, b->date, b->clock);
}

static void io_publish(void *ctx, const struct manifest *m)
{
    struct said *said = &((struct fixture *)ctx)->said;
    said->published++;
    said->begun_clocks = 0;
    for (uint32_t i = 0; i < m->begun.runs; i++)
        said->begun_clocks += m->begun.clock[i];
}

static void io_discard(void *ctx, uint64_t cut)
{
    (void)cut;
    ((struct fixture *)ctx)->said.discarded++;
}

static void io_kept(void *ctx, uint64_t ask, enum chief_kept what, uint64_t cut, uint64_t step)
{
    struct said *said = &((struct fixture *)ctx)->said;
    (void)step;
    said->kept[what]++;
    said->kept_ask = ask;
    said->kept_cut = cut;
}

static void io_finish(void *ctx)
{
    ((struct fixture *)ctx)->said.finishes++;
}

static void io_final(void *ctx)
{
    ((struct fixture *)ctx)->said.finals++;
}

static void io_ended(void *ctx, int exit_code, const char *text)
{
    struct said *said = &((struct fixture *)ctx)->said;
    (void)snprintf(said->why, sizeof said->why, "%s", text);
    if (((struct fixture *)ctx)->no_base || (said->awaited && exit_code == 143) ||
        (said->done && exit_code == 0) || said->may_fail) {
        said->ended = exit_code;
        return;
    }
    fail_msg("it ended with %d: %s", exit_code, text);
}

static void io_say(void *ctx, int is_warning, const char *text)
{
    struct said *said = &((struct fixture *)ctx)->said;
    if (is_warning)
        (void)snprintf(said->warned, sizeof said->warned, "%s", text);
    if (!strstr(text, "momentum"))
        return;
    assert_int_equal(is_warning, 0);
    (void)snprintf(said->momentum, sizeof said->momentum, "%s", text);
    said->momenta++;
}

static void io_journal(void *ctx, const struct journal_entry *entry)
{
    struct said *said = &((struct fixture *)ctx)->said;
    (void)entry;
    said->journaled++;
}

static void io_await_evaluator(void *ctx, uint64_t cut)
{
    struct said *said = &((struct fixture *)ctx)->said;
    said->awaited++;
    said->awaited_cut = cut;
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = io_to_worker,
                                   .find_cut = io_find_cut,
                                   .publish = io_publish,
                                   .discard = io_discard,
                                   .kept = io_kept,
                                   .finish = io_finish,
                                   .final = io_final,
                                   .ended = io_ended,
                                   .say = io_say,
                                   .restored = quiet_restored,
                                   .random = quiet_random,
                                   .journal = io_journal,
                                   .await_evaluator = io_await_evaluator};

enum { EVALUATOR_S = 40 };

static void open_with(struct fixture *f, const struct manifest *base, uint32_t evaluator_s)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {ELEMS}, .init = INIT_ZEROS};
    *f = (struct fixture){.base = base, .now_ms = 1000};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {.layout = &f->layout,
                                  .settings = GRADWIRE__SETTINGS__INIT,
                                  .ps = PS,
                                  .workers = WORKERS,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = REJOIN_S,
                                  .timeouts.ps_rejoin_s = 600,
                                  .timeouts.evaluator_s = evaluator_s};
    config.settings.update = GRADWIRE__UPDATE__ASYNC;
    config.settings.microbatches = 1;
    config.settings.batches_per_epoch = 100;
    config.settings.epochs = 1;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, f->now_ms, &e), ERR_OK);
}

static void open_fixture(struct fixture *f, const struct manifest *base)
{
    open_with(f, base, 0);
}

static void close_fixture(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

/* An empty ps, just started. */
static void ps_up(struct fixture *f, uint32_t ps)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    m.threads = 1;
    chief_on_ps_up(f->chief, ps, &m, f->now_ms);
}

static void worker_up(struct fixture *f, uint32_t worker)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    struct errmsg e;
    m.worker = worker;
    assert_int_equal(chief_on_worker_up(f->chief, worker, &m, f->now_ms, &e), ERR_OK);
}

static Gradwire__Generation generation(const struct fixture *f)
{
    return quiet_generation(f->said.generation);
}

/* `corrupt`: why its part of the cut cannot be used; "": it is entered. */
static void entered_with(struct fixture *f, uint32_t shard, const char *corrupt,
                         Gradwire__ShardStatus *status)
{
    char text[200];
    Gradwire__Entered m = GRADWIRE__ENTERED__INIT;
    m.status = status;
    Gradwire__Generation g = generation(f);
    (void)snprintf(text, sizeof text, "%s", corrupt);
    m.generation = &g;
    m.shard = shard;
    m.error = text;
    m.corrupt = text[0] != 0;
    chief_on_ps(f->chief, shard, FRAME_ENTERED, &m.base, f->now_ms);
}

static void entered(struct fixture *f, uint32_t shard)
{
    entered_with(f, shard, "", NULL);
}

static void ask(struct fixture *f, uint32_t worker)
{
    Gradwire__LeaseAsk m = GRADWIRE__LEASE_ASK__INIT;
    Gradwire__Generation g = generation(f);
    m.generation = &g;
    m.want = 4;
    chief_on_worker(f->chief, worker, FRAME_LEASE_ASK, &m.base, f->now_ms);
}

static void held(struct fixture *f, uint32_t worker)
{
    Gradwire__Held m = GRADWIRE__HELD__INIT;
    Gradwire__Generation g = generation(f);
    m.generation = &g;
    m.cut = f->said.cut;
    chief_on_worker(f->chief, worker, FRAME_HELD, &m.base, f->now_ms);
}

/* A shard that has resolved the ids below `mark`. */
static void status(struct fixture *f, enum frame_type type, uint32_t shard, uint64_t mark)
{
    Gradwire__ShardStatus s = GRADWIRE__SHARD_STATUS__INIT;
    Gradwire__CutStopped stopped = GRADWIRE__CUT_STOPPED__INIT;
    Gradwire__CutCopied copied = GRADWIRE__CUT_COPIED__INIT;
    Gradwire__Generation g = generation(f);
    s.shard = shard;
    s.step = s.t = s.mark = mark;
    stopped.generation = copied.generation = &g;
    stopped.cut = copied.cut = f->said.cut;
    stopped.status = copied.status = &s;
    chief_on_ps(f->chief, shard, type, type == FRAME_CUT_STOPPED ? &stopped.base : &copied.base,
                f->now_ms);
}

/* Both ps and both workers are there, and cut 0 waits for the workers to hold. */
static void start(struct fixture *f)
{
    for (uint32_t i = 0; i < PS; i++)
        ps_up(f, i);
    for (uint32_t i = 0; i < WORKERS; i++)
        worker_up(f, i);
    for (uint32_t i = 0; i < PS; i++)
        entered(f, i);
    assert_int_equal(f->said.welcomes, WORKERS);
}

/* `m` has the rest. */
static void saved_as(struct fixture *f, uint32_t ps, Gradwire__CutSaved m)
{
    Gradwire__Generation g = generation(f);
    m.generation = &g;
    m.cut = f->said.cut;
    chief_on_ps(f->chief, ps, FRAME_CUT_SAVED, &m.base, f->now_ms);
}

/* The shard's half of the model, in its file. */
static Gradwire__CutSaved half(uint32_t shard)
{
    Gradwire__CutSaved m = GRADWIRE__CUT_SAVED__INIT;
    m.shard = shard;
    m.file = (char *)(shard ? "shard-1.gw" : "shard-0.gw");
    m.first_elem = shard * (ELEMS / PS);
    m.elems = ELEMS / PS;
    return m;
}

static void saved_with(struct fixture *f, uint32_t shard, const char *error, const char *broken)
{
    char text[64];
    Gradwire__CutSaved m = half(shard);
    (void)snprintf(text, sizeof text, "%s", error);
    m.error = text;
    m.broken = (char *)broken;
    saved_as(f, shard, m);
}

static void saved(struct fixture *f, uint32_t shard, const char *error)
{
    saved_with(f, shard, error, "");
}

/* Cut 0 is taken before the workers are welcomed; this is the next one, which they hold for. */
static void cut_with_workers(struct fixture *f)
{
    start(f);
    for (uint32_t i = 0; i < PS; i++)
        status(f, FRAME_CUT_STOPPED, i, 0);
    for (uint32_t i = 0; i < PS; i++)
        status(f, FRAME_CUT_COPIED, i, 0);
    for (uint32_t i = 0; i < PS; i++)
        saved(f, i, "");
    assert_int_equal(f->said.published, 1);
    chief_on_published(f->chief, f->said.cut, NULL, f->now_ms);
    ask(f, 0);
    ask(f, 1);
    Gradwire__Going going = GRADWIRE__GOING__INIT;
    chief_on_ps(f->chief, 0, FRAME_GOING, &going.base, f->now_ms);
    f->said.cuts = f->said.cut_ats = f->said.leases = 0;
}

/* ---- the evaluator's last word ---- */

/* All is learned, the final cut is published, and it is evaluated no more by the chief. */
static void all_is_learned_but_not_written(struct fixture *f, const struct manifest *base,
                                           uint32_t evaluator_s)
{
    open_with(f, base, evaluator_s);
    start(f);
    assert_int_equal(f->said.finishes, 1);
    chief_on_evaluated(f->chief, f->now_ms);
    assert_int_equal(f->said.finals, 1);
}

/* And model/ is written. */
static void all_is_learned(struct fixture *f, const struct manifest *base, uint32_t evaluator_s)
{
    all_is_learned_but_not_written(f, base, evaluator_s);
    chief_on_written(f->chief, NULL, f->now_ms);
}

static const struct manifest final_cut = {
    .cut = 4, .generation = 1, .uuid = "u", .final = true, .step = 100, .mark = 100};

static void the_job_is_done_when_the_evaluator_has_a_result_for_the_final_cut(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, EVALUATOR_S);
    assert_int_equal(f.said.awaited, 1);
    assert_int_equal(f.said.awaited_cut, 4);
    f.now_ms += 1000L * EVALUATOR_S;
    chief_tick(f.chief, f.now_ms);
    chief_on_judged(f.chief, 3, 0, f.now_ms); /* of another one */
    assert_int_equal(f.said.done, 0);
    chief_on_judged(f.chief, 4, 0, f.now_ms);
    assert_int_equal(f.said.done, 1);
    close_fixture(&f);
}

static void the_job_is_done_without_the_evaluator_behind_its_bound(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, EVALUATOR_S);
    f.now_ms += 1000L * EVALUATOR_S + 1;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.done, 1);
    close_fixture(&f);
    all_is_learned(&f, &final_cut, 0); /* there is none */
    assert_int_equal(f.said.awaited, 0);
    assert_int_equal(f.said.done, 1);
    close_fixture(&f);
}

static void nobody_hears_that_the_job_is_done_before_model_is_written(void **state)
{
    (void)state;
    for (int judged_first = 0; judged_first < 3; judged_first++) {
        struct fixture f;
        all_is_learned_but_not_written(&f, &final_cut, judged_first < 2 ? EVALUATOR_S : 0);
        if (judged_first == 1)
            chief_on_judged(f.chief, 4, 0, f.now_ms);
        f.now_ms += 1000L * (EVALUATOR_S - 1); /* it lasts */
        chief_tick(f.chief, f.now_ms);
        assert_int_equal(f.said.done + f.said.ps_done, 0);
        assert_int_equal(f.said.cuts, 0); /* no second final one */
        chief_on_written(f.chief, NULL, f.now_ms);
        if (judged_first == 0)
            chief_on_judged(f.chief, 4, 0, f.now_ms);
        assert_int_equal(f.said.done, 1);
        assert_int_equal(f.said.done_code, 0);
        close_fixture(&f);
    }
}

static void where_model_cannot_be_written_all_end_with_the_reason(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned_but_not_written(&f, &final_cut, 0);
    f.said.may_fail = true;
    chief_on_written(f.chief, "model/weights.safetensors: disk full", f.now_ms);
    assert_int_equal(f.said.ended, 1);
    assert_true(f.said.done == 1 && f.said.ps_done == PS);
    assert_int_equal(f.said.done_code, 1);
    assert_string_equal(f.said.done_why, "model/weights.safetensors: disk full");
    close_fixture(&f);
}

/* A writing that a rollback has overtaken says nothing about the generation that follows. */
static void a_writing_of_an_earlier_generation_does_not_end_the_next_one(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned_but_not_written(&f, &final_cut, 0);
    chief_on_ps_down(f.chief, 0, f.now_ms);
    ps_up(&f, 0);
    entered(&f, 0);
    entered(&f, 1);
    assert_int_equal(f.said.finishes, 2);
    chief_on_written(f.chief, NULL, f.now_ms);
    assert_int_equal(f.said.done, 0);
    chief_on_evaluated(f.chief, f.now_ms);
    assert_int_equal(f.said.finals, 2);
    chief_on_written(f.chief, NULL, f.now_ms);
    assert_int_equal(f.said.done, 1);
    close_fixture(&f);
}

/* Where another process of the chief may follow, they wait for it. */
static void a_chief_that_leaves_for_good_says_why(void **state)
{
    (void)state;
    const int codes[] = {0, 1, 2, 138, 143};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct fixture f;
        open_with(&f, NULL, 0);
        start(&f);
        f.said.may_fail = true;
        bool for_good = codes[i] == 1 || codes[i] == 2;
        chief_leaves(f.chief, codes[i], "the data ended", f.now_ms);
        assert_int_equal(f.said.ps_done, for_good ? PS : 0);
        assert_int_equal(f.said.done_code, for_good ? codes[i] : 0);
        chief_leaves(f.chief, 1, "again", f.now_ms); /* only the first reason is said */
        assert_string_equal(f.said.done_why, for_good ? "the data ended" : "again");
        close_fixture(&f);
    }
}

static void ps_0_stays_for_a_worker_that_did_not_hear_why_the_chief_fails(void **state)
{
    (void)state;
    for (int away = 0; away < 2; away++) {
        struct fixture f;
        open_with(&f, NULL, 0);
        start(&f);
        f.said.may_fail = true;
        if (away)
            chief_on_worker_down(f.chief, 1, f.now_ms);
        chief_leaves(f.chief, 1, "the data ended", f.now_ms);
        assert_int_equal(f.said.linger_s, away ? REJOIN_S : 0);
        close_fixture(&f);
    }
}

static void a_ps_that_stays_does_not_hold_the_end(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, 0);
    f.said.ended = -1;
    f.now_ms += 1000L * REJOIN_S;
    chief_tick(f.chief, f.now_ms); /* the workers had their time: now the ps get the message */
    chief_on_ps_down(f.chief, 0, f.now_ms);
    ps_up(&f, 0); /* idle, and dialed again */
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.ended, -1); /* the other one is still there */
    chief_on_ps_down(f.chief, 1, f.now_ms);
    assert_int_equal(f.said.ended, 0);
    close_fixture(&f);
}

static void confirm(struct fixture *f, uint32_t worker)
{
    Gradwire__DoneAck m = GRADWIRE__DONE_ACK__INIT;
    m.worker = worker;
    chief_on_worker(f->chief, worker, FRAME_DONE_ACK, &m.base, f->now_ms);
}

static void a_member_that_was_away_at_the_end_comes_back_and_is_told(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, EVALUATOR_S);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    chief_on_judged(f.chief, 4, 0, f.now_ms);
    assert_int_equal(f.said.done, 0); /* there was nobody to tell */
    f.now_ms += 1000L * REJOIN_S - 1;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.ps_done, 0); /* ps 0 still tells who comes where the chief is */
    worker_up(&f, 1);
    assert_int_equal(f.said.done, 1);
    confirm(&f, 1);
    assert_int_equal(f.said.ps_done, PS);
    close_fixture(&f);
}

static void a_member_that_stays_away_holds_the_end_for_as_long_as_it_has_its_place(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, EVALUATOR_S);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    f.now_ms += 1000L * (REJOIN_S - 10);
    chief_on_judged(f.chief, 4, 0, f.now_ms);
    f.now_ms += 1000L * 10 - 1;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.ps_done, 0);
    f.now_ms += 1;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.ps_done, PS);
    close_fixture(&f);
}

/* The last chief was killed when all was learned: this one has its ps, and no worker but its own yet. */
static void take_over_at_the_end(struct fixture *f)
{
    open_with(f, &final_cut, 0);
    for (uint32_t i = 0; i < PS; i++)
        ps_up(f, i);
    worker_up(f, 0);
    for (uint32_t i = 0; i < PS; i++)
        entered(f, i);
    f->chief->begins = BEGINS_TAKEOVER;
    f->said.ended = -1;
    f->said.may_fail = true;
    chief_on_evaluated(f->chief, f->now_ms);
    chief_on_written(f->chief, NULL, f->now_ms);
    assert_int_equal(f->said.ps_done, 0);
    f->now_ms += CHIEF_COME_MS - 1;
    chief_tick(f->chief, f->now_ms);
    assert_int_equal(f->said.ps_done, 0);
}

static void after_a_takeover_at_the_end_workers_have_a_moment_to_come(void **state)
{
    (void)state;
    struct fixture f;
    take_over_at_the_end(&f);
    worker_up(&f, 1);
    assert_int_equal(f.said.done, 1);
    confirm(&f, 1);
    assert_int_equal(f.said.ps_done, PS);
    close_fixture(&f);
    take_over_at_the_end(&f); /* and no longer */
    chief_tick(f.chief, ++f.now_ms);
    assert_int_equal(f.said.ps_done, PS);
    close_fixture(&f);
}

static void told_to_go_the_chief_does_not_wait_for_the_evaluator(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, EVALUATOR_S);
    chief_go(f.chief, f.now_ms);
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.ended, 143);
    close_fixture(&f);
}

/* ---- generations ---- */

static void generation_is_above_that_of_the_disk(void **state)
{
    (void)state;
    struct fixture f;
    struct manifest base = {.cut = 3, .generation = 41, .uuid = "job", .total_elems = 4096};
    open_fixture(&f, &base);
    ps_up(&f, 0);
    ps_up(&f, 1);
    assert_int_equal(f.said.mode, RESTORE);
    assert_int_equal(f.said.generation, 42);
    close_fixture(&f);
}

static void a_rollback_without_a_usable_cut_names_each_with_its_reason(void **state)
{
    (void)state;
    struct fixture f;
    struct manifest base = {.cut = 7, .generation = 41, .uuid = "job", .total_elems = 4096};
    open_fixture(&f, &base);
    ps_up(&f, 0);
    ps_up(&f, 1);
    assert_int_equal(f.said.mode, RESTORE);
    f.no_base = ERR_CORRUPT;
    f.why_no_base = "cut-0000000005/manifest.gw: it is damaged";
    entered_with(&f, 1, "/jobs/a/checkpoints/cut-0000000007/shard-1.gw: its checksum is wrong",
                 NULL);
    assert_int_equal(f.said.ended, 1);
    assert_string_equal(f.said.why, "none of the job's checkpoints can be used: repair them, or "
                                    "start from scratch with --fresh: "
                                    "cut-0000000007/shard-1.gw: its checksum is wrong; "
                                    "cut-0000000005/manifest.gw: it is damaged");
    close_fixture(&f);
}

/* No path is in the word of a ps that gets its files from the chief. */
static void a_rollback_names_the_cut_that_a_shard_could_not_read(void **state)
{
    (void)state;
    struct fixture f;
    struct manifest base = {.cut = 7, .generation = 41, .uuid = "job", .total_elems = 4096};
    open_fixture(&f, &base);
    ps_up(&f, 0);
    ps_up(&f, 1);
    f.no_base = ERR_CORRUPT;
    entered_with(&f, 0, "the chief: no such file", NULL);
    assert_string_equal(f.said.why, "none of the job's checkpoints can be used: repair them, or "
                                    "start from scratch with --fresh: "
                                    "checkpoint 7: the chief: no such file");
    close_fixture(&f);
}

/* Back to the last cut, because shard 1 could not read the newest. The `base` and the error are what is on disk by then. */
static void roll_back(struct fixture *f, const struct manifest *base, enum err no_base)
{
    static const struct manifest first = {
        .cut = 7, .generation = 41, .uuid = "job", .total_elems = 4096};
    open_fixture(f, &first);
    ps_up(f, 0);
    ps_up(f, 1);
    f->said.may_fail = true;
    f->said.mode = NO_MODE;
    f->base = base;
    f->no_base = no_base;
    f->why_no_base = "checkpoint 9 belongs to another job";
    entered_with(f, 1, "its checksum is wrong", NULL);
}

static void a_rollback_to_a_cut_of_another_run_ends_the_job(void **state)
{
    (void)state;
    struct fixture f;
    struct manifest own = {.cut = 6, .generation = 41, .uuid = "job", .total_elems = 4096};
    struct manifest other = {.cut = 6, .generation = 41, .uuid = "other", .total_elems = 4096};
    roll_back(&f, &own, ERR_OK);
    assert_int_equal(f.said.mode, RESTORE);
    close_fixture(&f);
    roll_back(&f, &other, ERR_OK);
    assert_int_equal(f.said.ended, 1);
    assert_int_equal(f.said.mode, NO_MODE);
    assert_string_equal(f.said.why, "checkpoint 6 belongs to run other, which has begun in this "
                                    "job's directory; this is run job");
    close_fixture(&f);
    roll_back(&f, &other,
              ERR_STATE); /* the shell has found another identity, or another directory */
    assert_int_equal(f.said.ended, 1);
    assert_int_equal(f.said.mode, NO_MODE);
    assert_string_equal(f.said.why, "checkpoint 9 belongs to another job");
    close_fixture(&f);
}

static void a_job_whose_directory_is_lost_ends_with_1_and_tells_the_reason(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    f.said.may_fail = true;
    ps_up(&f, 0);
    chief_on_dir_lost(f.chief, "out was removed", f.now_ms);
    assert_int_equal(f.said.ended, 1);
    assert_string_equal(f.said.why, "out was removed");
    close_fixture(&f);
}

/* Others wait for the next chief process: nothing is wrong with what is on disk. */
static void chief_without_memory_for_a_cut_begins_nothing(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    f.no_base = ERR_NOMEM;
    for (uint32_t ps = 0; ps < PS; ps++)
        ps_up(&f, ps);
    assert_int_equal(f.said.ended, 138);
    assert_true(f.said.mode == NO_MODE);
    assert_int_equal(f.said.ps_done, 0);
    close_fixture(&f);
}

static void chief_whose_memory_is_limited_ends_the_job_if_a_cut_does_not_fit(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    f.said.may_fail = true;
    f.no_base = ERR_NOMEM;
    f.why_no_base = "cut-7/manifest.gw: out of memory";
    err_limits_set(&(struct err_limits){.memory = "ulimit -v is 1 KiB"});
    for (uint32_t ps = 0; ps < PS; ps++)
        ps_up(&f, ps);
    err_limits_set(&(struct err_limits){.memory = ""});
    assert_int_equal(f.said.ended, 1);
    assert_true(f.said.mode == NO_MODE);
    assert_int_equal(f.said.ps_done, PS);
    assert_string_equal(f.said.why, "cut-7/manifest.gw: out of memory; ulimit -v is 1 KiB");
    close_fixture(&f);
}

static void generation_is_on_when_every_shard_has_entered(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    ps_up(&f, 0);
    assert_int_equal(f.said.mode, NO_MODE); /* all ps are asked first */
    ps_up(&f, 1);
    assert_int_equal(f.said.mode, INIT);
    worker_up(&f, 0);
    entered(&f, 1);
    assert_int_equal(f.said.welcomes, 0);
    assert_int_equal(f.said.cuts, 0);
    entered(&f, 0);
    assert_int_equal(f.said.welcomes, 1);
    assert_int_equal(f.said.cuts, PS); /* cut 0 */
    close_fixture(&f);
}

static void after_a_restore_what_the_cut_resolved_is_not_dealt(void **state)
{
    (void)state;
    struct fixture f;
    uint8_t window = 2; /* the mark is 7, and 8 is resolved */
    struct manifest base = {.cut = 3,
                            .generation = 1,
                            .uuid = "job",
                            .step = 8,
                            .mark = 7,
                            .window_bits = &window,
                            .window_bits_bytes = 1,
                            .total_elems = 4096};
    open_fixture(&f, &base);
    start(&f);
    ask(&f, 1);
    assert_int_equal(f.said.leases, 1);
    assert_int_equal(f.said.lease_worker, 1);
    assert_int_equal(f.said.lease_first, 7);
    struct chief_facts facts;
    facts = chief_facts(f.chief);
    assert_int_equal(facts.steps, 8);
    close_fixture(&f);
}

/* ---- cuts ---- */

static void cut_waits_until_what_some_shards_have_is_done_on_all(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    held(&f, 0);
    assert_int_equal(f.said.cuts, 0);
    held(&f, 1);
    assert_int_equal(f.said.cuts, PS);
    status(&f, FRAME_CUT_STOPPED, 0, 1);
    status(&f, FRAME_CUT_STOPPED, 1, 0); /* batch 0 is on the first shard only */
    assert_int_equal(f.said.cut_ats, 0);
    assert_int_equal(f.said.redos, 1);
    assert_int_equal(f.said.lease_first, 0);
    held(&f, f.said.lease_worker);
    status(&f, FRAME_CUT_STOPPED, 0, 1);
    status(&f, FRAME_CUT_STOPPED, 1, 1);
    assert_int_equal(f.said.cut_ats, PS);
    close_fixture(&f);
}

/* The cut that the workers hold for, up to its copies. */
static void copy_cut(struct fixture *f, uint64_t mark)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        held(f, i);
    for (uint32_t i = 0; i < PS; i++)
        status(f, FRAME_CUT_STOPPED, i, mark);
    for (uint32_t i = 0; i < PS; i++)
        status(f, FRAME_CUT_COPIED, i, mark);
}

static void save_cut(struct fixture *f)
{
    for (uint32_t i = 0; i < PS; i++)
        saved(f, i, "");
    chief_on_published(f->chief, f->said.cut, NULL, f->now_ms);
}

static void a_cut_that_has_not_stopped_the_shards_is_the_one_that_is_asked_for(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    uint64_t cut = f.said.cut;
    chief_keep(f.chief, 7, UINT64_MAX, f.now_ms);
    copy_cut(&f, 0);
    assert_int_equal(f.said.kept[KEPT_COPIED], 1);
    assert_int_equal(f.said.kept[KEPT_PUBLISHED], 0);
    save_cut(&f);
    assert_int_equal(f.said.kept[KEPT_PUBLISHED], 1);
    assert_true(f.said.kept_ask == 7 && f.said.kept_cut == cut);
    assert_int_equal(f.said.cut, cut); /* and no other */
    close_fixture(&f);
}

static void behind_one_that_is_copied_another_cut_is_taken(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    uint64_t cut = f.said.cut;
    copy_cut(&f, 0);
    chief_keep(f.chief, 7, UINT64_MAX, f.now_ms);
    save_cut(&f);
    assert_int_equal(f.said.kept[KEPT_COPIED] + f.said.kept[KEPT_PUBLISHED], 0);
    assert_int_equal(f.said.cut, cut + 1);
    copy_cut(&f, 0);
    save_cut(&f);
    assert_int_equal(f.said.kept[KEPT_PUBLISHED], 1);
    assert_true(f.said.kept_ask == 7 && f.said.kept_cut == cut + 1);
    close_fixture(&f);
}

/* The worker that asked waits, and the shards may need its gradients. */
static void a_cut_of_a_later_step_than_was_asked_for_fails_the_ask(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    held(&f, 0);
    chief_keep(f.chief, 7, 1, f.now_ms);
    held(&f, 1);
    for (uint32_t i = 0; i < PS; i++)
        status(&f, FRAME_CUT_STOPPED, i, 2);
    assert_int_equal(f.said.kept[KEPT_FAILED], 1);
    assert_int_equal(f.said.cut_ats, PS); /* the cut is taken */
    close_fixture(&f);
}

/* Async, ssp and geo: no step waits for the asker, and HOLD may have taken long. */
static void an_ask_that_is_of_no_step_waits_for_its_cut(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    chief_keep(f.chief, 7, UINT64_MAX, f.now_ms);
    held(&f, 0);
    held(&f, 1);
    status(&f, FRAME_CUT_STOPPED, 0, 2);
    f.now_ms += 2 * CHIEF_KEEP_MS;
    chief_tick(f.chief, f.now_ms);
    status(&f, FRAME_CUT_STOPPED, 1, 2);
    assert_int_equal(f.said.kept[KEPT_FAILED], 0);
    assert_int_equal(f.said.cut_ats, PS);
    close_fixture(&f);
}

static void a_cut_that_was_asked_for_and_fails_is_told(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    chief_keep(f.chief, 7, UINT64_MAX, f.now_ms);
    copy_cut(&f, 0);
    saved(&f, 1, "disk full");
    assert_int_equal(f.said.kept[KEPT_FAILED], 1);
    assert_int_equal(f.said.kept[KEPT_PUBLISHED], 0);
    close_fixture(&f);
}

/* The first one in the order of the model, whoever says it first. */
static void a_cut_that_is_not_finite_ends_the_job_only_where_the_guard_checks(void **state)
{
    (void)state;
    for (uint32_t guard = NAN_GUARD_OFF; guard < NAN_GUARDS; guard++) {
        struct fixture f;
        open_fixture(&f, NULL);
        f.chief->config.settings.nan_guard = guard;
        f.said.ended = -1;
        f.said.may_fail = true;
        cut_with_workers(&f);
        copy_cut(&f, 0);
        saved_with(&f, 1, "", "the tensor z");
        assert_int_equal(f.said.ended, -1);
        saved_with(&f, 0, "", "the tensor a");
        assert_int_equal(f.said.ended, guard == NAN_GUARD_CHECK ? 1 : -1);
        assert_int_equal(f.said.published, guard == NAN_GUARD_CHECK ? 1 : 2);
        if (guard == NAN_GUARD_CHECK)
            assert_string_equal(
                f.chief->failed,
                "batch 0: the tensor a is not finite (training.nan_guard: check); "
                "look for too large numbers or weights of rows in the data, and "
                "for too large first weights, or an optimizer's epsilon of 0; "
                "otherwise lower training.learning_rate, or set training.clip_norm");
        close_fixture(&f);
    }
}

static void take_final_cut(struct fixture *f, const char *broken, double loss)
{
    open_with(f, &final_cut, 0);
    start(f);
    f->said.ended = -1;
    f->said.may_fail = true;
    f->chief->published_final = false;
    chief_on_evaluated(f->chief, f->now_ms);
    copy_cut(f, 100);
    f->chief->epoch[0] = (struct epoch_sums){.epoch = 2, .batches = 1, .examples = 1, .loss = 1};
    f->chief->epoch[1] = (struct epoch_sums){.epoch = 3, .batches = 1, .examples = 1, .loss = loss};
    saved(f, 0, "");
    saved_with(f, 1, "", broken);
}

static void a_final_cut_that_is_not_finite_is_not_published_without_the_guard_either(void **state)
{
    (void)state;
    const struct {
        const char *broken;
        double loss;
        int published, ended;
    } all[] = {{"", 1, 1, -1}, {"the tensor z", 1, 0, 1}, {"", NAN, 0, 1}, {"", INFINITY, 0, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct fixture f;
        take_final_cut(&f, all[i].broken, all[i].loss);
        assert_int_equal(f.said.published, all[i].published);
        assert_int_equal(f.said.ended, all[i].ended);
        close_fixture(&f);
    }
}

/* The final cut that is due is taken and fails. */
static void fail_final_cut(struct fixture *f)
{
    copy_cut(f, 100);
    saved(f, 1, "disk full");
}

static void all_is_learned_and_not_published(struct fixture *f)
{
    open_with(f, &final_cut, 0);
    start(f);
    f->said.ended = -1;
    f->said.may_fail = true;
    f->chief->published_final = false;
    chief_on_evaluated(f->chief, f->now_ms);
}

static void three_attempts_at_the_final_cut_are_each_the_bound_apart(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned_and_not_published(&f);
    for (int attempt = 1; attempt < CHIEF_FINAL_CUT_TRIES; attempt++) {
        uint64_t cut = f.said.cut;
        fail_final_cut(&f);
        f.now_ms += CHIEF_CUT_RETRY_MS - 1;
        chief_tick(f.chief, f.now_ms);
        assert_int_equal(f.said.cut, cut);
        chief_tick(f.chief, ++f.now_ms);
        assert_int_equal(f.said.cut, cut + 1);
        assert_int_equal(f.said.ended, -1);
    }
    fail_final_cut(&f);
    assert_int_equal(f.said.ended, 1);
    assert_string_equal(f.said.why, "the final checkpoint failed: disk full");
    close_fixture(&f);
}

/* As the disk has room again in the meantime. */
static void a_job_is_done_when_a_later_attempt_at_its_final_cut_succeeds(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned_and_not_published(&f);
    fail_final_cut(&f);
    f.now_ms += CHIEF_CUT_RETRY_MS;
    chief_tick(f.chief, f.now_ms);
    copy_cut(&f, 100);
    save_cut(&f);
    chief_on_written(f.chief, NULL, f.now_ms);
    assert_int_equal(f.said.done, 1);
    close_fixture(&f);
}

static void told_to_go_the_chief_does_not_wait_to_try_the_final_cut_again(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned_and_not_published(&f);
    uint64_t cut = f.said.cut;
    fail_final_cut(&f);
    chief_go(f.chief, f.now_ms);
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.cut, cut + 1);
    fail_final_cut(&f);
    assert_int_equal(f.said.ended, 143);
    close_fixture(&f);
}

/* A cut for a ps that was asked to stop is no attempt at the final one, and takes none away. */
static void a_cut_in_between_does_not_count_the_attempts_anew(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned_and_not_published(&f);
    for (int attempt = 1; attempt < CHIEF_FINAL_CUT_TRIES; attempt++) {
        fail_final_cut(&f);
        Gradwire__Going going = GRADWIRE__GOING__INIT;
        chief_on_ps(f.chief, 0, FRAME_GOING, &going.base, f.now_ms);
        fail_final_cut(&f);
        assert_int_equal(f.said.ended, -1);
        f.now_ms += CHIEF_CUT_RETRY_MS;
        chief_tick(f.chief, f.now_ms);
    }
    fail_final_cut(&f);
    assert_int_equal(f.said.ended, 1);
    close_fixture(&f);
}

/* A new chief, behind the final cut, asks for one more. */
static void the_last_cut_of_a_job_that_is_done_is_the_final_one(void **state)
{
    (void)state;
    struct fixture f;
    open_with(&f, &final_cut, 0);
    start(&f);
    chief_keep(f.chief, 7, UINT64_MAX, f.now_ms);
    chief_on_evaluated(f.chief, f.now_ms);
    assert_int_equal(f.said.done, 0);
    copy_cut(&f, 100);
    save_cut(&f);
    assert_int_equal(f.said.kept[KEPT_PUBLISHED], 1);
    assert_int_equal(f.said.done, 0);
    copy_cut(&f, 100);
    save_cut(&f);
    chief_on_written(f.chief, NULL, f.now_ms);
    assert_int_equal(f.said.done, 1);
    close_fixture(&f);
}

static void a_new_generation_drops_what_was_asked_for(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    chief_keep(f.chief, 7, UINT64_MAX, f.now_ms);
    chief_on_ps_down(f.chief, 0, f.now_ms);
    ps_up(&f, 0); /* empty */
    for (uint32_t i = 0; i < PS; i++)
        entered(&f, i);
    copy_cut(&f, 0);
    save_cut(&f);
    assert_int_equal(f.said.kept[KEPT_COPIED] + f.said.kept[KEPT_PUBLISHED], 0);
    close_fixture(&f);
}

/* The list comes from the cut with which the generation began. */
static void a_cut_says_when_the_runs_before_it_began(void **state)
{
    (void)state;
    uint64_t date[] = {1000, 2000}, clock[] = {60, 63};
    struct manifest base = {.cut = 3,
                            .generation = 41,
                            .uuid = "job",
                            .total_elems = 4096,
                            .begun = {.runs = 2, .date = date, .clock = clock}};
    const struct manifest *const bases[] = {NULL, &base};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        open_fixture(&f, bases[i]);
        start(&f);
        Gradwire__Going going = GRADWIRE__GOING__INIT;
        chief_on_ps(f.chief, 0, FRAME_GOING, &going.base, f.now_ms);
        chief_tick(f.chief, f.now_ms);
        copy_cut(&f, 0);
        save_cut(&f);
        assert_int_equal(f.said.published, 1);
        assert_int_equal(f.said.begun_clocks, i == 0 ? 0 : 60 + 63);
        close_fixture(&f);
    }
}

/* Shards could not read cut 7; what is published later is what the next generation begins with. */
static void a_published_cut_is_looked_for_again_whatever_was_unusable_before(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    f.chief->usable_below = 7;
    (void)snprintf(f.chief->unusable, sizeof f.chief->unusable, "checkpoint 7: damaged");
    copy_cut(&f, 1);
    save_cut(&f);
    assert_int_equal(f.said.published, 2);
    assert_true(f.chief->usable_below == UINT64_MAX);
    assert_string_equal(f.chief->unusable, "");
    close_fixture(&f);
}

/* A push that nobody waited for any more reached one of them between its two reports. */
static void cut_is_dropped_where_the_copies_differ(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    held(&f, 0);
    held(&f, 1);
    status(&f, FRAME_CUT_STOPPED, 0, 1);
    status(&f, FRAME_CUT_STOPPED, 1, 1);
    status(&f, FRAME_CUT_COPIED, 0, 1);
    f.said.resumes = 0;
    status(&f, FRAME_CUT_COPIED, 1, 2);
    assert_int_equal(f.said.discarded, 1);
    assert_int_equal(f.said.resumes, WORKERS); /* and training goes on */
    assert_int_equal(f.said.published, 1);     /* cut 0 */
    close_fixture(&f);
}

static void fenced(struct fixture *f, uint32_t ps, uint64_t incarnation)
{
    Gradwire__Fenced m = GRADWIRE__FENCED__INIT;
    Gradwire__Generation g = generation(f);
    m.generation = &g;
    m.ps = ps;
    m.worker = 1;
    m.incarnation = incarnation;
    chief_on_ps(f->chief, ps, FRAME_FENCED, &m.base, f->now_ms);
}

static void worker_counts_as_held_when_every_ps_has_fenced_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    held(&f, 0);
    f.now_ms += CHIEF_HOLD_MS;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.fence, 0);
    f.now_ms++;
    chief_tick(f.chief, f.now_ms);
    assert_int_not_equal(f.said.fence, 0);
    fenced(&f, 0, f.said.fence - 1); /* an answer to an older one */
    fenced(&f, 0, f.said.fence);
    assert_int_equal(f.said.cuts, 0);
    fenced(&f, 1, f.said.fence);
    assert_int_equal(f.said.cuts, PS);
    close_fixture(&f);
}

/* The chief's own worker is waited for while it may evaluate, and not when it does not reach a ps. */
static void the_own_worker_is_fenced_for_a_cut_only_when_it_is_parked(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    held(&f, 1);
    f.now_ms += 20000;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.fence, 0);
    Gradwire__Unreached m = GRADWIRE__UNREACHED__INIT;
    Gradwire__Generation g = generation(&f);
    m.generation = &g;
    m.any = true;
    m.ps = 1;
    m.away_ms = REJOIN_S * 1000;
    chief_on_worker(f.chief, 0, FRAME_UNREACHED, &m.base, f.now_ms);
    f.now_ms++;
    chief_tick(f.chief, f.now_ms);
    assert_false(f.chief->worker[0].member);
    f.now_ms += CHIEF_HOLD_DOWN_MS + 1;
    chief_tick(f.chief, f.now_ms);
    assert_int_not_equal(f.said.fence, 0);
    close_fixture(&f);
}

/* ---- which process has a worker's place ---- */

static bool is_replaced(const struct fixture *f, uint64_t incarnation)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    m.uuid = f->chief->uuid;
    m.incarnation = incarnation;
    return chief_is_replaced(f->chief, 1, &m);
}

/* Worker 1 says hello over a new connection, with this incarnation. Returns that which it then has. */
static uint64_t come(struct fixture *f, uint64_t incarnation, bool turned_away)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = generation(f);
    struct errmsg e;
    m.worker = 1;
    m.uuid = f->chief->uuid;
    m.generation = &g;
    m.incarnation = incarnation;
    m.turned_away = turned_away;
    if (f->chief->worker[1].up)
        chief_on_worker_down(f->chief, 1, f->now_ms);
    assert_int_equal(chief_on_worker_up(f->chief, 1, &m, f->now_ms, &e), ERR_OK);
    return f->chief->worker[1].incarnation;
}

static void a_worker_that_is_fenced_for_a_cut_goes_on_under_a_new_incarnation(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    const uint64_t first = f.chief->worker[1].incarnation;
    held(&f, 0);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    f.now_ms += CHIEF_HOLD_DOWN_MS + 1;
    chief_tick(f.chief, f.now_ms);
    assert_int_not_equal(f.said.fence, 0);
    assert_false(is_replaced(&f, first));
    const uint64_t second = come(&f, first, false);
    assert_true(second > f.said.fence);
    assert_false(is_replaced(&f, first)); /* its WELCOME may be lost */
    assert_true(come(&f, first, true) > second);
    close_fixture(&f);
}

static void a_process_whose_place_another_one_took_is_turned_away(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    start(&f);
    const uint64_t first = f.chief->worker[1].incarnation;
    const uint64_t second = come(&f, 0, false);
    assert_true(is_replaced(&f, first));
    assert_false(is_replaced(&f, second));
    assert_false(is_replaced(&f, 0)); /* the next process */
    const uint64_t third = come(&f, second, true);
    assert_true(third > second);
    assert_true(is_replaced(&f, first));
    assert_false(is_replaced(&f, second));
    close_fixture(&f);
}

/* The last chief fenced it, and this one does not know. */
static void a_worker_that_a_shard_turned_away_is_given_another_incarnation(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    start(&f);
    const uint64_t first = f.chief->worker[1].incarnation;
    assert_int_equal(come(&f, first, false), first);
    const uint64_t second = come(&f, first, true);
    assert_true(second > first);
    assert_int_equal(come(&f, second, false), second);
    close_fixture(&f);
}

/* The last chief gave both of them theirs. */
static void of_two_processes_the_later_one_has_the_place(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    start(&f);
    const uint64_t own = f.chief->worker[1].incarnation;
    assert_int_equal(come(&f, own + 5, false), own + 5);
    assert_true(is_replaced(&f, own + 4));
    assert_false(is_replaced(&f, own + 5));
    close_fixture(&f);
}

/* It was given by a chief of the same generation number, which died together with all ps. */
static void a_worker_keeps_no_incarnation_that_is_above_its_next_one(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    cut_with_workers(&f);
    const uint64_t first = f.chief->worker[1].incarnation + 7;
    assert_int_equal(come(&f, first, false), first);
    held(&f, 0);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    f.now_ms += CHIEF_HOLD_DOWN_MS + 1;
    chief_tick(f.chief, f.now_ms);
    assert_true(f.said.fence > first);
    close_fixture(&f);
}

/* A new chief does not know who has a batch, and deals it again; then its owner comes. In geo it would be trained twice. */
static void a_batch_that_was_dealt_again_is_not_its_former_owners_any_more(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    open_fixture(&f, NULL);
    cut_with_workers(&f); /* worker 0 has 0 .. 3, worker 1 has 4 .. 7 */
    chief_on_worker_down(f.chief, 1, f.now_ms);
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = generation(&f);
    Gradwire__Range of[] = {GRADWIRE__RANGE__INIT, GRADWIRE__RANGE__INIT}, *at[] = {&of[0], &of[1]};
    of[0].first = 2;
    of[0].count = 2;
    of[1].first = 4;
    of[1].count = 1;
    m.worker = 1;
    m.uuid = f.chief->uuid;
    m.generation = &g;
    m.incarnation = f.chief->worker[1].incarnation;
    m.leases = at;
    m.n_leases = 2;
    assert_int_equal(chief_on_worker_up(f.chief, 1, &m, f.now_ms, &e), ERR_OK);
    const uint32_t *owner = f.chief->async.leases.owner;
    assert_int_equal(owner[2], OWNER_WORKER + 0);
    assert_int_equal(owner[4], OWNER_WORKER + 1);
    close_fixture(&f);
}

/* Where workers come and go: worker 5 died with the last chief, from whom ps 0 has what was dealt. `resolved`: that many batches
 * are, when the shards enter the generation. */
static void take_over_from_worker_5_with(struct fixture *f, const struct chief_mode *mode,
                                         uint64_t resolved)
{
    open_fixture(f, NULL);
    f->chief->mode = mode;
    Gradwire__Generation g = quiet_generation(7);
    Gradwire__Range range = GRADWIRE__RANGE__INIT;
    Gradwire__WorkerLease lease = GRADWIRE__WORKER_LEASE__INIT, *at = &lease;
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    range.count = 3;
    lease.worker = 5;
    lease.range = &range;
    m.generation = &g;
    m.uuid = "a-run";
    m.entered = true;
    m.threads = 1;
    m.leases = &at;
    m.n_leases = 1;
    f->now_ms += 1000;
    for (uint32_t i = 0; i < PS; i++)
        chief_on_ps_up(f->chief, i, &m, f->now_ms);
    worker_up(f, 0);
    f->now_ms += 1000;
    for (uint32_t i = 0; i < PS; i++) {
        Gradwire__ShardStatus status = GRADWIRE__SHARD_STATUS__INIT;
        status.shard = i;
        status.mark = resolved;
        entered_with(f, i, "", &status);
    }
    assert_int_equal(f->said.mode, TAKEOVER);
}

static void take_over_from_worker_5(struct fixture *f, const struct chief_mode *mode)
{
    take_over_from_worker_5_with(f, mode, 0);
}

/* A push of the last generation can come after the shard's hello, and before it enters this one. */
static void what_a_shard_has_resolved_when_it_enters_a_generation_is_not_dealt_again(void **state)
{
    (void)state;
    struct fixture f;
    take_over_from_worker_5_with(&f, &chief_geo, 2);
    const uint32_t *owner = f.chief->async.leases.owner;
    assert_int_equal(owner[0], OWNER_NONE);
    assert_int_equal(owner[1], OWNER_NONE);
    assert_int_equal(owner[2], OWNER_WORKER + 5);
    assert_int_equal(f.chief->async.leases.done.mark, 2);
    close_fixture(&f);
}

static void batches_of_a_worker_that_died_with_the_last_chief_are_dealt_again(void **state)
{
    (void)state;
    static const struct chief_mode *const mode[] = {&chief_async, &chief_ssp, &chief_geo};
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        struct fixture f;
        char text[200];
        take_over_from_worker_5(&f, mode[i]);
        const uint32_t *owner = f.chief->async.leases.owner;
        assert_int_equal(owner[0], OWNER_WORKER + 5);
        f.chief->worker[1].member = false; /* it is away, too */
        chief_waits_for(f.chief, f.now_ms, text, sizeof text);
        assert_string_equal(text, "batch 0: worker 5 is away, last seen 0 s ago");
        f.now_ms += REJOIN_S * 1000;
        chief_tick(f.chief, f.now_ms);
        assert_int_equal(owner[0], OWNER_WORKER + 5);
        chief_tick(f.chief, ++f.now_ms);
        assert_string_equal(f.said.warned,
                            "worker 5 was away for 30 s: the others take over its work");
        /* in geo they are lost when every shard refuses the worker */
        assert_int_equal(owner[0], mode[i] == &chief_geo ? OWNER_DYING + 5 : OWNER_REDO);
        close_fixture(&f);
    }
}

/* In ssp, where a shard does not wait for a worker that is gone. */
static void ps_that_is_connected_again_is_told_who_is_gone(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    f.chief->config.settings.update = GRADWIRE__UPDATE__SSP;
    f.chief->mode = &chief_ssp;
    start(&f);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    f.now_ms += 30001;
    chief_tick(f.chief, f.now_ms);
    assert_int_not_equal(f.said.fence, 0);
    fenced(&f, 0, f.said.fence);
    assert_int_equal(f.said.gone[0] + f.said.gone[1], 0);
    fenced(&f, 1, f.said.fence);
    assert_int_equal(f.said.gone[0], 1);
    assert_int_equal(f.said.gone[1], 1);
    chief_on_ps_down(f.chief, 0, f.now_ms);
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__Generation g = generation(&f);
    m.generation = &g;
    m.entered = true;
    m.threads = 1;
    chief_on_ps_up(f.chief, 0, &m, f.now_ms);
    assert_int_equal(f.said.gone[0], 2);
    assert_int_equal(f.said.gone[1], 1);
    close_fixture(&f);
}

/* The line about momentum when a generation begins, and when one begins again after a ps came back empty. */
static void assert_momentum(Gradwire__Update update, float momentum, const char *text)
{
    struct fixture f;
    open_fixture(&f, NULL);
    f.chief->config.settings.momentum = momentum;
    f.chief->config.settings.update = update;
    f.chief->mode = update == GRADWIRE__UPDATE__SYNC  ? &chief_sync
                    : update == GRADWIRE__UPDATE__SSP ? &chief_ssp
                    : update == GRADWIRE__UPDATE__GEO ? &chief_geo
                                                      : &chief_async;
    for (int i = 0; i < 2; i++) {
        for (uint32_t ps = 0; ps < PS; ps++)
            ps_up(&f, ps);
        for (uint32_t shard = 0; shard < PS; shard++)
            entered(&f, shard);
    }
    assert_int_equal(f.said.momenta, text ? 1 : 0);
    if (text)
        assert_non_null(strstr(f.said.momentum, text));
    close_fixture(&f);
}

static void chief_says_once_what_momentum_async_and_ssp_add(void **state)
{
    (void)state;
    assert_momentum(GRADWIRE__UPDATE__ASYNC, 0.9f,
                    "async adds momentum of about 0.5 (1 - 1/2 workers) to the optimizer's 0.9;");
    assert_momentum(GRADWIRE__UPDATE__SSP, 0.5f, "ssp adds momentum of about 0.5");
    assert_momentum(GRADWIRE__UPDATE__ASYNC, 0, NULL);
    assert_momentum(GRADWIRE__UPDATE__SYNC, 0.9f, NULL);
    assert_momentum(GRADWIRE__UPDATE__GEO, 0.9f, NULL);
}

/* Of this generation: an older one's was another job's state. */
static void a_shard_that_has_no_room_for_rows_ends_the_job(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    start(&f);
    f.no_base = ERR_NOTFOUND; /* it may end */
    Gradwire__Entered m = GRADWIRE__ENTERED__INIT;
    Gradwire__Generation g = generation(&f), old = g;
    old.number--;
    m.shard = 1;
    m.error = (char *)"table ids: no room for another row";
    m.ends = true;
    m.generation = &old;
    chief_on_ps(f.chief, 1, FRAME_ENTERED, &m.base, f.now_ms);
    assert_int_equal(f.said.ps_done, 0);
    m.generation = &g;
    chief_on_ps(f.chief, 1, FRAME_ENTERED, &m.base, f.now_ms);
    assert_int_equal(f.said.ps_done, PS);
    assert_int_equal(f.said.ended, 1);
    close_fixture(&f);
}

/* Its next process has read on disk that the job is done. */
static void a_worker_that_found_the_job_done_is_not_waited_for(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, 0);
    assert_true(f.said.done > 0);
    assert_int_equal(f.said.ps_done, 0);
    chief_on_worker_idle(f.chief, 1,
                         f.now_ms); /* another process has the number, and is connected */
    assert_int_equal(f.said.ps_done, 0);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    assert_int_equal(f.said.ps_done, 0);
    chief_on_worker_idle(f.chief, 1, f.now_ms);
    assert_int_equal(f.said.ps_done, PS);
    close_fixture(&f);
}

/* The final cut is on disk, and the evaluator still works. */
static void a_worker_may_find_the_job_done_before_the_chief_says_so(void **state)
{
    (void)state;
    struct fixture f;
    all_is_learned(&f, &final_cut, EVALUATOR_S);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    chief_on_worker_idle(f.chief, 1, f.now_ms);
    assert_int_equal(f.said.ps_done, 0);
    chief_on_judged(f.chief, 4, 0, f.now_ms);
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.ps_done, PS);
    close_fixture(&f);
}

/* ---- a ps that is not what it says ---- */

/* Cut 0, up to what the shards have saved. */
static void copied_by_all(struct fixture *f)
{
    open_fixture(f, NULL);
    start(f);
    for (uint32_t i = 0; i < PS; i++)
        status(f, FRAME_CUT_STOPPED, i, 0);
    for (uint32_t i = 0; i < PS; i++)
        status(f, FRAME_CUT_COPIED, i, 0);
    saved(f, 0, "");
}

static void a_shard_that_is_saved_as_another_part_fails_the_cut_and_its_ps_is_named(void **state)
{
    (void)state;
    struct fixture f;
    for (int what = 0; what < 9; what++) {
        Gradwire__CutSaved m = half(what == 0 ? 0 : 1); /* 0: what is of the other ps */
        if (what == 1)
            m.file = (char *)"shard-0.gw"; /* twice */
        else if (what == 2)
            m.file = (char *)"../../shard-1.gw";
        else if (what == 3)
            m.elems = UINT64_MAX;
        else if (what == 4)
            m.first_elem = UINT64_MAX - 1;
        else if (what == 5)
            m.elems = m.first_elem = 0;
        else if (what == 6)
            m.first_bucket = m.end_bucket = 5;
        else if (what == 7)
            m.rows = UINT64_MAX;
        else if (what == 8)
            m.file = (char *)"manifest.gw";
        copied_by_all(&f);
        saved_as(&f, 1, m);
        assert_int_equal(f.said.published, 0);
        assert_int_equal(f.said.discarded, 1);
        if (!strstr(f.said.warned, "checkpoint 0 at step 0 failed: ps 1 says that shard "))
            fail_msg("%d: \"%s\"", what, f.said.warned);
        close_fixture(&f);
    }
}

static void a_ps_speaks_for_its_own_shards_only(void **state)
{
    (void)state;
    struct fixture f;
    Gradwire__Entered entered_as = GRADWIRE__ENTERED__INIT;
    open_fixture(&f, NULL);
    for (uint32_t i = 0; i < PS; i++)
        ps_up(&f, i);
    Gradwire__Generation g = generation(&f);
    entered_as.generation = &g;
    entered(&f, 0);
    for (uint32_t shard = 1; shard < 4; shard++) { /* 2 and 3 are not in the plan */
        entered_as.shard = shard;
        chief_on_ps(f.chief, 0, FRAME_ENTERED, &entered_as.base, f.now_ms);
        assert_false(chief_facts(f.chief).running);
    }
    entered(&f, 1);
    assert_true(chief_facts(f.chief).running);
    Gradwire__ShardStatus s = GRADWIRE__SHARD_STATUS__INIT;
    Gradwire__CutStopped stopped = GRADWIRE__CUT_STOPPED__INIT;
    s.shard = 1;
    stopped.generation = &g;
    stopped.cut = f.said.cut;
    stopped.status = &s;
    status(&f, FRAME_CUT_STOPPED, 0, 0);
    chief_on_ps(f.chief, 0, FRAME_CUT_STOPPED, &stopped.base, f.now_ms);
    assert_int_equal(f.said.cut_ats, 0);
    close_fixture(&f);
}

static void the_chief_waits_for_a_shards_file_only_while_its_ps_saves_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, NULL);
    start(&f);
    assert_false(chief_expects_file(f.chief, 1, 0, "shard-1.gw"));
    close_fixture(&f);
    copied_by_all(&f);
    assert_true(chief_expects_file(f.chief, 1, 0, "shard-1.gw"));
    assert_false(chief_expects_file(f.chief, 0, 0, "shard-1.gw"));
    assert_false(chief_expects_file(f.chief, 1, 0, "shard-0.gw"));
    assert_false(chief_expects_file(f.chief, 1, 1, "shard-1.gw"));
    assert_false(chief_expects_file(f.chief, 1, 0, "shard-2.gw"));
    assert_false(chief_expects_file(f.chief, 1, 0, "manifest.gw"));
    saved(&f, 1, "");
    assert_int_equal(f.said.published, 1); /* now nothing may change in it */
    assert_false(chief_expects_file(f.chief, 1, 0, "shard-1.gw"));
    close_fixture(&f);
}

static void a_ps_without_tables_that_counts_rows_leaves_the_manifest_readable(void **state)
{
    (void)state;
    struct fixture f;
    Gradwire__TableCounts rows = GRADWIRE__TABLE_COUNTS__INIT, *table[] = {&rows};
    Gradwire__ShardStatus s = GRADWIRE__SHARD_STATUS__INIT;
    Gradwire__CutStopped stopped = GRADWIRE__CUT_STOPPED__INIT;
    open_fixture(&f, NULL);
    start(&f);
    Gradwire__Generation g = generation(&f);
    rows.rows = 5;
    s.n_table = 1;
    s.table = table;
    stopped.generation = &g;
    stopped.cut = f.said.cut;
    stopped.status = &s;
    chief_on_ps(f.chief, 0, FRAME_CUT_STOPPED, &stopped.base, f.now_ms);
    assert_int_equal(f.chief->shard[0].tables, 0);
    close_fixture(&f);
}

static void a_ps_whose_numbers_leave_no_room_for_the_next_ends_the_job(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        struct fixture f;
        Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
        Gradwire__Generation g = GRADWIRE__GENERATION__INIT;
        open_fixture(&f, NULL);
        f.said.may_fail = true;
        m.threads = 1;
        m.generation = &g;
        g.number = what ? UINT64_MAX : 1;
        m.cut = what ? 1 : UINT64_MAX;
        ps_up(&f, 0);
        chief_on_ps_up(f.chief, 1, &m, f.now_ms);
        assert_int_equal(f.said.ended, 1);
        assert_non_null(strstr(f.said.why, "ps 1 reports generation "));
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_that_is_saved_as_another_part_fails_the_cut_and_its_ps_is_named),
        cmocka_unit_test(a_ps_speaks_for_its_own_shards_only),
        cmocka_unit_test(the_chief_waits_for_a_shards_file_only_while_its_ps_saves_it),
        cmocka_unit_test(a_ps_without_tables_that_counts_rows_leaves_the_manifest_readable),
        cmocka_unit_test(a_ps_whose_numbers_leave_no_room_for_the_next_ends_the_job),
        cmocka_unit_test(chief_says_once_what_momentum_async_and_ssp_add),
        cmocka_unit_test(the_job_is_done_when_the_evaluator_has_a_result_for_the_final_cut),
        cmocka_unit_test(the_job_is_done_without_the_evaluator_behind_its_bound),
        cmocka_unit_test(nobody_hears_that_the_job_is_done_before_model_is_written),
        cmocka_unit_test(where_model_cannot_be_written_all_end_with_the_reason),
        cmocka_unit_test(a_writing_of_an_earlier_generation_does_not_end_the_next_one),
        cmocka_unit_test(a_chief_that_leaves_for_good_says_why),
        cmocka_unit_test(ps_0_stays_for_a_worker_that_did_not_hear_why_the_chief_fails),
        cmocka_unit_test(a_ps_that_stays_does_not_hold_the_end),
        cmocka_unit_test(a_member_that_was_away_at_the_end_comes_back_and_is_told),
        cmocka_unit_test(a_member_that_stays_away_holds_the_end_for_as_long_as_it_has_its_place),
        cmocka_unit_test(after_a_takeover_at_the_end_workers_have_a_moment_to_come),
        cmocka_unit_test(told_to_go_the_chief_does_not_wait_for_the_evaluator),
        cmocka_unit_test(generation_is_above_that_of_the_disk),
        cmocka_unit_test(chief_without_memory_for_a_cut_begins_nothing),
        cmocka_unit_test(chief_whose_memory_is_limited_ends_the_job_if_a_cut_does_not_fit),
        cmocka_unit_test(a_rollback_without_a_usable_cut_names_each_with_its_reason),
        cmocka_unit_test(a_rollback_names_the_cut_that_a_shard_could_not_read),
        cmocka_unit_test(a_rollback_to_a_cut_of_another_run_ends_the_job),
        cmocka_unit_test(a_job_whose_directory_is_lost_ends_with_1_and_tells_the_reason),
        cmocka_unit_test(generation_is_on_when_every_shard_has_entered),
        cmocka_unit_test(a_shard_that_has_no_room_for_rows_ends_the_job),
        cmocka_unit_test(after_a_restore_what_the_cut_resolved_is_not_dealt),
        cmocka_unit_test(cut_waits_until_what_some_shards_have_is_done_on_all),
        cmocka_unit_test(a_cut_that_has_not_stopped_the_shards_is_the_one_that_is_asked_for),
        cmocka_unit_test(behind_one_that_is_copied_another_cut_is_taken),
        cmocka_unit_test(a_cut_of_a_later_step_than_was_asked_for_fails_the_ask),
        cmocka_unit_test(an_ask_that_is_of_no_step_waits_for_its_cut),
        cmocka_unit_test(a_cut_that_was_asked_for_and_fails_is_told),
        cmocka_unit_test(a_cut_that_is_not_finite_ends_the_job_only_where_the_guard_checks),
        cmocka_unit_test(a_final_cut_that_is_not_finite_is_not_published_without_the_guard_either),
        cmocka_unit_test(three_attempts_at_the_final_cut_are_each_the_bound_apart),
        cmocka_unit_test(a_job_is_done_when_a_later_attempt_at_its_final_cut_succeeds),
        cmocka_unit_test(told_to_go_the_chief_does_not_wait_to_try_the_final_cut_again),
        cmocka_unit_test(a_cut_in_between_does_not_count_the_attempts_anew),
        cmocka_unit_test(the_last_cut_of_a_job_that_is_done_is_the_final_one),
        cmocka_unit_test(a_new_generation_drops_what_was_asked_for),
        cmocka_unit_test(a_published_cut_is_looked_for_again_whatever_was_unusable_before),
        cmocka_unit_test(cut_is_dropped_where_the_copies_differ),
        cmocka_unit_test(a_cut_says_when_the_runs_before_it_began),
        cmocka_unit_test(worker_counts_as_held_when_every_ps_has_fenced_it),
        cmocka_unit_test(the_own_worker_is_fenced_for_a_cut_only_when_it_is_parked),
        cmocka_unit_test(a_worker_that_is_fenced_for_a_cut_goes_on_under_a_new_incarnation),
        cmocka_unit_test(a_process_whose_place_another_one_took_is_turned_away),
        cmocka_unit_test(a_worker_that_a_shard_turned_away_is_given_another_incarnation),
        cmocka_unit_test(a_worker_keeps_no_incarnation_that_is_above_its_next_one),
        cmocka_unit_test(of_two_processes_the_later_one_has_the_place),
        cmocka_unit_test(a_batch_that_was_dealt_again_is_not_its_former_owners_any_more),
        cmocka_unit_test(what_a_shard_has_resolved_when_it_enters_a_generation_is_not_dealt_again),
        cmocka_unit_test(batches_of_a_worker_that_died_with_the_last_chief_are_dealt_again),
        cmocka_unit_test(ps_that_is_connected_again_is_told_who_is_gone),
        cmocka_unit_test(a_worker_that_found_the_job_done_is_not_waited_for),
        cmocka_unit_test(a_worker_may_find_the_job_done_before_the_chief_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
