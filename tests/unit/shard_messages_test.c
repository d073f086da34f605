/* One shard by itself: messages that come late, twice, or from a generation or process that is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/quiet.h"
#include "ps/core/shard.h"

enum { CHUNK = QUIET_CHUNK, CHUNKS = 3, ELEMS = CHUNK * CHUNKS };

/* The shard's last messages. */
struct said {
    int replies, refusals, stopped, copied, saves;
    uint64_t reply_step;
    uint32_t reply_chunks;
    float reply_first[CHUNKS]; /* the first element of each of its chunks */
    bool reply_empty;
    Gradwire__Outcome outcome;
    Gradwire__Reason reason;
    char entered_error[128];
    float saved_w;         /* the first element */
    uint64_t warned_elems; /* that are about to be rewritten */
    float warned_first;    /* the first of the last chunk of them */
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct said *said = ctx;
    const float *values = body;
    (void)to;
    if (type == FRAME_REFUSE) {
        said->refusals++;
        said->reason = ((const Gradwire__Refuse *)m)->reason;
        return;
    }
    const Gradwire__Reply *head = quiet_reply(type, m);
    said->replies++;
    said->reply_step = head->step;
    said->reply_chunks = head->chunks;
    said->outcome = head->outcome;
    said->reply_empty = body == NULL;
    assert_int_equal(bytes, body ? head->chunks * CHUNK * sizeof *values : 0);
    for (uint32_t i = 0; body && i < head->chunks; i++)
        said->reply_first[i] = values[i * CHUNK];
}

static void io_before_write(void *ctx, const float *lo, uint64_t elems)
{
    struct said *said = ctx;
    said->warned_elems += elems;
    said->warned_first = lo[0];
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct said *said = ctx;
    if (type == FRAME_ENTERED)
        (void)snprintf(said->entered_error, sizeof said->entered_error, "%s",
                       ((const Gradwire__Entered *)m)->error);
    said->stopped += type == FRAME_CUT_STOPPED;
    said->copied += type == FRAME_CUT_COPIED;
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct said *said = ctx;
    said->saves++;
    said->saved_w = take_image->blocks.w[0];
    shard_image_free(take_image);
}

static const struct shard_io io = {.send = io_send,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = io_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = quiet_drop_peers};

/* ---- a shard of three chunks, all zeros, under sgd with a rate of 1 ---- */

struct fixture {
    struct shard *shard;
    struct said said;
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
};

static void enter(struct fixture *f, uint64_t number, Gradwire__EnterMode mode)
{
    f->said.entered_error[0] = '\0';
    quiet_enter(f->shard, &f->plan, &f->settings, number, mode, 0);
}

static void open_fixture(struct fixture *f, Gradwire__Update update, uint32_t leaves)
{
    *f = (struct fixture){.plan = GRADWIRE__PLAN__INIT, .settings = GRADWIRE__SETTINGS__INIT};
    quiet_plan(&f->layout, &f->plan, CHUNKS);
    f->settings.update = update;
    f->settings.optimizer = OPT_SGD;
    f->settings.learning_rate = 1;
    f->settings.microbatches = leaves;
    f->settings.batches_per_epoch = 100;
    assert_int_equal(shard_new(&f->shard, 0, 0, &io, &f->said), ERR_OK);
}

static void close_fixture(struct fixture *f)
{
    shard_free(f->shard);
    buffer_pool_close(&f->pool);
    msg_plan_close(&f->plan);
    layout_close(&f->layout);
}

static struct fixture *opened(struct fixture *f, Gradwire__Update update, uint32_t leaves)
{
    open_fixture(f, update, leaves);
    enter(f, 5, GRADWIRE__ENTER_MODE__INIT);
    assert_string_equal(f->said.entered_error, "");
    return f;
}

static enum err hello(struct fixture *f, struct shard_peer *peer, uint32_t worker,
                      uint64_t incarnation, uint64_t generation, Gradwire__Refuse *refuse)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = quiet_generation(generation);
    m.generation = &g;
    m.worker = worker;
    m.incarnation = incarnation;
    return shard_on_hello(f->shard, peer, &m, refuse);
}

static void let_in(struct fixture *f, struct shard_peer *peer, uint32_t worker)
{
    Gradwire__Refuse refuse;
    assert_int_equal(hello(f, peer, worker, 1, 5, &refuse), ERR_OK);
}

struct push {
    uint64_t generation, name;
    uint32_t leaf, first, chunks;
};

/* One example; chunk c has the gradient c + 1 in every element. */
static enum err push(struct fixture *f, struct shard_peer *peer, struct push p)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(p.generation);
    struct errmsg e;
    m.generation = &g;
    m.name = p.name;
    m.index = p.leaf;
    m.examples = 1;
    m.first_chunk = p.first;
    m.chunks = p.chunks;
    struct buffer *body = buffer_acquire(&f->pool, (size_t)p.chunks * CHUNK);
    for (size_t i = 0; i < (size_t)p.chunks * CHUNK; i++)
        body->data[i] = (float)(p.first + i / CHUNK + 1);
    enum err err = shard_on_push(f->shard, peer, &m, body, &e);
    buffer_unref(body);
    return err;
}

static float weight(const struct fixture *f, uint32_t chunk)
{
    uint64_t first, elems;
    return quiet_weights(f->shard, &first, &elems)[chunk * CHUNK];
}

static uint64_t step(const struct fixture *f)
{
    return shard_status(f->shard)->step;
}

/* ---- late and double pushes ---- */

/* Its body was wanted when it began to arrive, and the step was made meanwhile. */
static void a_push_that_ends_after_its_step_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a, b;
    opened(&f, GRADWIRE__UPDATE__SYNC, 1);
    let_in(&f, &a, 0);
    let_in(&f, &b, 1);
    assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    assert_int_equal(step(&f), 1);
    f.said.replies = 0;
    assert_int_equal(push(&f, &b, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    assert_int_equal(step(&f), 1);
    assert_true(weight(&f, 0) == -1.0f);
    assert_int_equal(f.said.replies, 1); /* the present parameters */
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__DUPLICATE);
    assert_int_equal(f.said.reply_step, 1);
    close_fixture(&f);
}

static void async_applies_each_chunk_of_a_push_to_its_own_place_once(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a;
    opened(&f, GRADWIRE__UPDATE__ASYNC, 1);
    let_in(&f, &a, 0);
    assert_int_equal(push(&f, &a, (struct push){5, 3, 0, 1, 2}), ERR_OK);
    assert_int_equal(step(&f), 0);
    assert_int_equal(push(&f, &a, (struct push){5, 3, 0, 0, 3}), ERR_OK);
    assert_int_equal(step(&f), 1);
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__APPLIED);
    assert_int_equal(push(&f, &a, (struct push){5, 3, 0, 0, 3}), ERR_OK);
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__DUPLICATE);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        assert_true(weight(&f, c) == -(float)(c + 1));
        assert_true(f.said.reply_first[c] == -(float)(c + 1));
    }
    close_fixture(&f);
}

static void pull(struct fixture *f, struct shard_peer *peer, uint64_t wanted)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = quiet_generation(5);
    struct errmsg e;
    m.generation = &g;
    m.step = wanted;
    assert_int_equal(shard_on_worker(f->shard, peer, FRAME_PULL, &m.base, &e), ERR_OK);
}

/* Step k is kept until the first chunk of k + 2 is made over it. */
static void a_pull_gets_the_step_before_only_while_it_is_whole(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a, b;
    opened(&f, GRADWIRE__UPDATE__SYNC, 1);
    let_in(&f, &a, 0);
    let_in(&f, &b, 1);
    assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    pull(&f, &b, 0);
    assert_int_equal(f.said.reply_step, 0);
    assert_true(f.said.reply_first[0] == 0.0f);
    assert_int_equal(push(&f, &a, (struct push){5, 1, 0, 0, 1}), ERR_OK); /* one chunk of three */
    assert_int_equal(step(&f), 1);
    pull(&f, &b, 0);
    assert_int_equal(f.said.reply_step, 1);
    assert_true(f.said.reply_first[0] == -1.0f);
    close_fixture(&f);
}

/* Parts of a block that are still to be sent must be copied before they change. */
static void a_chunk_is_announced_before_it_is_rewritten(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a;
    const Gradwire__Update update[] = {GRADWIRE__UPDATE__SYNC, GRADWIRE__UPDATE__ASYNC};
    const float rewritten[] = {0.0f,
                               -CHUNKS}; /* by the second push: step 0's block, the only block */
    for (int i = 0; i < 2; i++) {
        opened(&f, update[i], 1);
        let_in(&f, &a, 0);
        assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
        assert_int_equal(f.said.warned_elems, ELEMS);
        assert_int_equal(push(&f, &a, (struct push){5, 1, 0, 0, 3}), ERR_OK);
        assert_int_equal(f.said.warned_elems, 2 * ELEMS);
        assert_true(f.said.warned_first == rewritten[i]);
        assert_true(weight(&f, CHUNKS - 1) == -2.0f * CHUNKS);
        close_fixture(&f);
    }
}

/* ---- generations and incarnations ---- */

static void another_generation_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a, b;
    Gradwire__Refuse refuse;
    const Gradwire__Update update[] = {GRADWIRE__UPDATE__SYNC, GRADWIRE__UPDATE__ASYNC};
    for (int i = 0; i < 2; i++) {
        opened(&f, update[i], 1);
        let_in(&f, &a, 0);
        assert_int_equal(push(&f, &a, (struct push){4, 0, 0, 0, 3}), ERR_OK);
        assert_int_equal(push(&f, &a, (struct push){6, 0, 0, 0, 3}), ERR_OK);
        assert_int_equal(f.said.refusals, 2);
        assert_int_equal(f.said.reason, GRADWIRE__REASON__OTHER_GENERATION);
        assert_int_equal(f.said.replies, 0);
        assert_int_equal(step(&f), 0);
        assert_true(weight(&f, 0) == 0.0f);
        assert_int_equal(hello(&f, &b, 1, 1, 4, &refuse), ERR_REFUSED);
        assert_int_equal(refuse.reason, GRADWIRE__REASON__OTHER_GENERATION);
        close_fixture(&f);
    }
}

static void a_generation_that_is_not_larger_is_not_entered(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a;
    opened(&f, GRADWIRE__UPDATE__SYNC, 1);
    let_in(&f, &a, 0);
    assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    enter(&f, 4, GRADWIRE__ENTER_MODE__INIT);
    assert_non_null(strstr(f.said.entered_error, "not above the present one, 5"));
    assert_int_equal(shard_facts(f.shard).generation.number, 5);
    enter(&f, 5, GRADWIRE__ENTER_MODE__INIT); /* sent again, answered again */
    assert_string_equal(f.said.entered_error, "");
    assert_int_equal(step(&f), 1);
    enter(&f, 6, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(f.said.entered_error, "");
    assert_int_equal(step(&f), 1);
    enter(&f, 7, GRADWIRE__ENTER_MODE__INIT);
    assert_int_equal(step(&f), 0);
    close_fixture(&f);
}

static void an_empty_shard_cannot_be_taken_over(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    enter(&f, 5, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(f.said.entered_error, "this shard has no parameters to take over");
    assert_false(shard_facts(f.shard).entered);
    close_fixture(&f);
}

static void a_fence_only_rises_and_stops_who_is_connected(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a, b, c;
    Gradwire__Refuse refuse;
    opened(&f, GRADWIRE__UPDATE__ASYNC, 1);
    let_in(&f, &a, 1);
    let_in(&f, &b, 2);
    assert_false(shard_peer_fenced(f.shard, &a));
    shard_fence(f.shard, 1, 5);
    shard_fence(f.shard, 1, 3);
    assert_true(shard_peer_fenced(f.shard, &a));
    assert_false(shard_peer_fenced(f.shard, &b));
    assert_int_equal(hello(&f, &c, 1, 4, 5, &refuse), ERR_REFUSED);
    assert_int_equal(refuse.reason, GRADWIRE__REASON__OLD_INCARNATION);
    assert_int_equal(hello(&f, &c, WORKERS_MAX, 9, 5, &refuse), ERR_REFUSED);
    assert_int_equal(refuse.reason, GRADWIRE__REASON__BAD_MESSAGE);
    assert_int_equal(hello(&f, &c, 1, 5, 5, &refuse), ERR_OK);
    assert_int_equal(shard_facts(f.shard).max_incarnation, 5);
    close_fixture(&f);
}

/* ---- cuts ---- */

static void cut(struct fixture *f, uint64_t generation, uint64_t number)
{
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    Gradwire__Generation g = quiet_generation(generation);
    m.generation = &g;
    m.cut = number;
    shard_on_chief(f->shard, FRAME_CUT, &m.base);
}

static void cut_at(struct fixture *f, uint64_t number, uint64_t at)
{
    Gradwire__CutAt m = GRADWIRE__CUT_AT__INIT;
    Gradwire__Generation g = quiet_generation(5);
    m.generation = &g;
    m.cut = number;
    m.step = at;
    shard_on_chief(f->shard, FRAME_CUT_AT, &m.base);
}

static void cut_of_another_generation_does_not_stop_the_shard(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a;
    opened(&f, GRADWIRE__UPDATE__SYNC, 1);
    let_in(&f, &a, 0);
    cut(&f, 4, 1);
    assert_int_equal(f.said.stopped, 0);
    assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    assert_int_equal(step(&f), 1);
    close_fixture(&f);
}

/* The other shards have made one more step: go on to it, then copy. */
static void cut_copies_the_step_that_it_names(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a;
    opened(&f, GRADWIRE__UPDATE__SYNC, 1);
    let_in(&f, &a, 0);
    cut(&f, 5, 1);
    assert_int_equal(f.said.stopped, 1);
    assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    assert_int_equal(step(&f), 0); /* held, complete */
    cut_at(&f, 1, 1);
    assert_int_equal(step(&f), 1);
    assert_int_equal(f.said.copied, 1);
    assert_int_equal(f.said.saves, 1);
    assert_true(f.said.saved_w == -1.0f);
    close_fixture(&f);
}

static void cut_that_is_called_off_lets_the_shard_go_on(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a;
    opened(&f, GRADWIRE__UPDATE__SYNC, 1);
    let_in(&f, &a, 0);
    cut(&f, 5, 1);
    assert_int_equal(push(&f, &a, (struct push){5, 0, 0, 0, 3}), ERR_OK);
    assert_int_equal(step(&f), 0);
    Gradwire__CutEnded m = GRADWIRE__CUT_ENDED__INIT;
    Gradwire__Generation g = quiet_generation(5);
    m.generation = &g;
    m.cut = 1;
    shard_on_chief(f.shard, FRAME_CUT_ENDED, &m.base);
    assert_int_equal(step(&f), 1);
    assert_int_equal(f.said.saves, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_that_ends_after_its_step_changes_nothing),
        cmocka_unit_test(async_applies_each_chunk_of_a_push_to_its_own_place_once),
        cmocka_unit_test(a_pull_gets_the_step_before_only_while_it_is_whole),
        cmocka_unit_test(a_chunk_is_announced_before_it_is_rewritten),
        cmocka_unit_test(another_generation_is_refused_and_changes_nothing),
        cmocka_unit_test(a_generation_that_is_not_larger_is_not_entered),
        cmocka_unit_test(an_empty_shard_cannot_be_taken_over),
        cmocka_unit_test(a_fence_only_rises_and_stops_who_is_connected),
        cmocka_unit_test(cut_of_another_generation_does_not_stop_the_shard),
        cmocka_unit_test(cut_copies_the_step_that_it_names),
        cmocka_unit_test(cut_that_is_called_off_lets_the_shard_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
