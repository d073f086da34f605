/* One shard by itself: steps, cuts that are asked for again, restores, memory that runs out. */
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
#include "ps/core/shard.h"

enum { CHUNK = QUIET_CHUNK, CHUNKS = 2, ELEMS = CHUNK * CHUNKS };

struct fixture {
    struct shard *shard;
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    uint64_t generation;
    bool gap; /* the first tensor has 4 elements */

    int replies, copied, saved;
    uint64_t reply_step, copied_step;
    const float *reply_body;
    bool reply_averages;
    char entered_error[256], saved_error[256];
    enum err failed;
    struct shard_image *image; /* the last one to save */
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct fixture *f = ctx;
    (void)to, (void)bytes;
    const Gradwire__Reply *head = quiet_reply(type, m);
    f->replies++;
    f->reply_step = head->step;
    f->reply_body = body;
    f->reply_averages = head->averages;
}

static struct { /* the ranges that before_write announced since it was cleared */
    const float *lo[64];
    uint64_t elems[64];
    int n;
} announced;

static void io_before_write(void *ctx, const float *lo, uint64_t elems)
{
    (void)ctx;
    assert_true(announced.n < 64);
    announced.lo[announced.n] = lo;
    announced.elems[announced.n++] = elems;
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    if (type == FRAME_ENTERED) {
        (void)snprintf(f->entered_error, sizeof f->entered_error, "%s",
                       ((const Gradwire__Entered *)m)->error);
    } else if (type == FRAME_CUT_COPIED) {
        f->copied++;
        f->copied_step = ((const Gradwire__CutCopied *)m)->status->step;
    } else if (type == FRAME_CUT_SAVED) {
        f->saved++;
        (void)snprintf(f->saved_error, sizeof f->saved_error, "%s",
                       ((const Gradwire__CutSaved *)m)->error);
    }
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct fixture *f = ctx;
    shard_image_free(f->image);
    f->image = take_image;
}

static enum err io_load(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *b,
                        struct errmsg *e)
{
    const struct fixture *f = ctx;
    if (!f->image || f->image->cut != cut)
        return err_set(e, ERR_NOTFOUND, "there is no cut %u", (unsigned)cut);
    memcpy(b->w, f->image->blocks.w, ELEMS * sizeof(float));
    for (uint32_t i = 0; i < b->slots; i++)
        memcpy(b->slot[i], f->image->blocks.slot[i], ELEMS * sizeof(float));
    *m = (struct manifest){.step = f->copied_step, .t = f->copied_step};
    return ERR_OK;
}

static bool io_fail(void *ctx, enum err code, uint64_t bytes, const char *what)
{
    struct fixture *f = ctx;
    assert_true(*what);
    f->failed = code;
    (void)bytes;
    return true;
}

static const struct shard_io io = {.send = io_send,
                                   .fail = io_fail,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = io_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_end = quiet_save_end,
                                   .load = io_load,
                                   .drop_peers = quiet_drop_peers};

static void enter(struct fixture *f, Gradwire__EnterMode mode, uint64_t cut)
{
    f->entered_error[0] = '\0';
    quiet_enter(f->shard, &f->plan, &f->settings, ++f->generation, mode, cut);
}

static void open_fixture(struct fixture *f, Gradwire__Update update, uint32_t leaves)
{
    *f = (struct fixture){.plan = GRADWIRE__PLAN__INIT, .settings = GRADWIRE__SETTINGS__INIT};
    quiet_plan(&f->layout, &f->plan, CHUNKS);
    f->settings.update = update;
    f->settings.optimizer = OPT_ADAM;
    f->settings.learning_rate = 0.5f;
    f->settings.beta_1 = 0.9f;
    f->settings.beta_2 = 0.999f;
    f->settings.epsilon = 1e-7f;
    f->settings.microbatches = leaves;
    f->settings.batches_per_epoch = 100;
    assert_int_equal(shard_new(&f->shard, 0, 0, &io, f), ERR_OK);
}

static void close_fixture(struct fixture *f)
{
    shard_free(f->shard);
    shard_image_free(f->image);
    buffer_pool_close(&f->pool);
    msg_plan_close(&f->plan);
    layout_close(&f->layout);
}

static void hello_of(struct fixture *f, struct shard_peer *peer, uint32_t worker,
                     uint64_t incarnation)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    Gradwire__Refuse refuse;
    m.generation = &g;
    m.worker = worker;
    m.incarnation = incarnation;
    assert_int_equal(shard_on_hello(f->shard, peer, &m, &refuse), ERR_OK);
}

static void hello(struct fixture *f, struct shard_peer *peer, uint32_t worker)
{
    hello_of(f, peer, worker, 1);
}

/* One leaf of so many examples, all chunks, gradient `value`. */
static void push_of(struct fixture *f, struct shard_peer *peer, uint64_t name, uint32_t leaf,
                    uint32_t examples, float value)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    uint64_t elems;
    bool wanted;
    m.generation = &g;
    m.name = name;
    m.index = leaf;
    m.examples = examples;
    m.chunks = CHUNKS;
    assert_int_equal(shard_push_fits(f->shard, &m, ELEMS * sizeof(float), &elems, &wanted, &e),
                     ERR_OK);
    struct buffer *b = wanted ? buffer_acquire(&f->pool, ELEMS) : NULL;
    for (uint32_t i = 0; b && i < ELEMS; i++)
        b->data[i] = i >= 4 && i < LAYOUT_ALIGN_ELEMS && f->gap ? 0 : value;
    assert_int_equal(shard_on_push(f->shard, peer, &m, b, &e), ERR_OK);
    buffer_unref(b);
}

static void push(struct fixture *f, struct shard_peer *peer, uint64_t name, uint32_t leaf,
                 float value)
{
    push_of(f, peer, name, leaf, 1, value);
}

static void push_empty(struct fixture *f, struct shard_peer *peer, uint64_t name)
{
    push_of(f, peer, name, 0, 0, 0);
}

/* A push of a leaf with these marks; with `more` bytes than its examples have. */
static enum err push_marked(struct fixture *f, struct shard_peer *peer, uint64_t name,
                            uint32_t leaf, const uint8_t *marks, uint32_t examples, size_t more)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    uint64_t elems;
    bool wanted;
    double sums[] = {examples, NAN, NAN};
    m.generation = &g;
    m.name = name;
    m.index = leaf;
    m.examples = examples;
    m.chunks = CHUNKS;
    m.sums = sums;
    m.n_sums = 3;
    m.marks = (ProtobufCBinaryData){bins_marks_bytes(examples, f->settings.slices) + more,
                                    (uint8_t *)marks};
    enum err err = shard_push_fits(f->shard, &m, ELEMS * sizeof(float), &elems, &wanted, &e);
    struct buffer *b = err ? NULL : buffer_acquire(&f->pool, ELEMS);
    for (uint32_t i = 0; b && i < ELEMS; i++)
        b->data[i] = 0;
    if (!err)
        err = shard_on_push(f->shard, peer, &m, b, &e);
    buffer_unref(b);
    return err;
}

static void pull(struct fixture *f, struct shard_peer *peer, uint64_t step)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    m.generation = &g;
    m.step = step;
    assert_int_equal(shard_on_worker(f->shard, peer, FRAME_PULL, &m.base, &e), ERR_OK);
}

static void cut(struct fixture *f, uint64_t number)
{
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    m.generation = &g;
    m.cut = number;
    shard_on_chief(f->shard, FRAME_CUT, &m.base);
}

static void cut_at(struct fixture *f, uint64_t number, uint64_t step)
{
    Gradwire__CutAt m = GRADWIRE__CUT_AT__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    m.generation = &g;
    m.cut = number;
    m.step = step;
    shard_on_chief(f->shard, FRAME_CUT_AT, &m.base);
}

/* Neighbours that differ in decay, in one chunk: each by its own rule, gaps too. */
static void weight_decay_leaves_excluded_tensors_alone(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    uint64_t first, elems;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    layout_close(&f.layout);
    msg_plan_close(&f.plan);
    struct tensor t[4] = {{.name = "a/kernel", .shape = {100}},
                          {.name = "a/bias", .shape = {5}},
                          {.name = "b/bias", .shape = {CHUNK}},
                          {.name = "b/kernel", .shape = {ELEMS - 128 - CHUNK}}};
    const uint32_t threads = 1;
    for (int i = 0; i < 4; i++) {
        t[i].rank = 1;
        t[i].init = INIT_ONES;
        assert_int_equal(layout_add(&f.layout, &t[i], NULL), ERR_OK);
    }
    layout_exclude_from_decay(&f.layout, "bias");
    assert_int_equal(msg_plan_set(&f.plan, &f.layout, &threads, 1), ERR_OK);
    f.settings.optimizer = OPT_SGD;
    f.settings.weight_decay = 0.5f;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    push(&f, &peer, 0, 0, 0.25f);
    const float *w = quiet_weights(f.shard, &first, &elems);
    for (uint32_t i = 0; i < 4; i++) {
        const struct tensor *at = &f.layout.tensor[i];
        float want = 1.0f - (at->undecayed ? 0.0f : 0.25f) - 0.125f; /* rate 0.5 */
        for (uint64_t k = 0; k < at->elems; k++)
            assert_true(w[at->offset_elems + k] == want);
    }
    close_fixture(&f);
}

/* Memory, and bodies on their way, were laid out by it. */
/* Without an epsilon, weight 0 with gradient 0 in a gap of the layout is 0 / 0. */
static void gaps_between_tensors_stay_0_without_an_epsilon(void **state)
{
    static const struct {
        enum optimizer_kind kind;
        bool amsgrad, centered, average;
        float momentum;
    } cases[] = {{OPT_ADAM, .average = true},     {OPT_ADAM, .amsgrad = true},
                 {OPT_ADAMW, .average = false},   {OPT_RMSPROP, .momentum = 0.5f},
                 {OPT_RMSPROP, .centered = true}, {OPT_ADAGRAD, .average = true},
                 {OPT_FTRL, .average = false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        struct shard_peer peer;
        uint64_t first, elems;
        open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
        layout_close(&f.layout);
        msg_plan_close(&f.plan);
        const struct tensor t[2] = {
            {.name = "a/kernel", .rank = 2, .shape = {4, 1}, .init = INIT_ONES},
            {.name = "b/kernel", .rank = 1, .shape = {ELEMS - 16}}};
        const uint32_t threads = 1;
        for (int k = 0; k < 2; k++)
            assert_int_equal(layout_add(&f.layout, &t[k], NULL), ERR_OK);
        assert_int_equal(msg_plan_set(&f.plan, &f.layout, &threads, 1), ERR_OK);
        f.settings.optimizer = cases[i].kind;
        f.settings.epsilon = f.settings.initial_accumulator_value = 0;
        f.settings.rho = 0.9f;
        f.settings.learning_rate_power = -0.5f;
        f.settings.amsgrad = cases[i].amsgrad;
        f.settings.centered = cases[i].centered;
        f.settings.momentum = cases[i].momentum;
        f.settings.use_ema = cases[i].average;
        f.settings.ema_momentum = 0.5f;
        f.gap = true;
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        hello(&f, &peer, 0);
        for (uint64_t step = 0; step < 3; step++)
            push(&f, &peer, step, 0, 0.25f * (float)(1 + step % 2));
        const float *w = quiet_weights(f.shard, &first, &elems);
        for (uint64_t k = 0; k < ELEMS; k++)
            if (k >= 4 && k < LAYOUT_ALIGN_ELEMS ? w[k] != 0 : !isfinite(w[k]))
                fail_msg("case %zu: weight %u is %g", i, (unsigned)k, (double)w[k]);
        close_fixture(&f);
        announced.n = 0;
    }
}

static void takeover_refuses_another_compression_by_its_key(void **state)
{
    (void)state;
    static const char *const keys[] = {"compression.push", "compression.reply or allow"};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        char wanted[128];
        open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        *(i ? &f.settings.reply_codec : &f.settings.push_codec) = CODEC_BF16;
        enter(&f, GRADWIRE__ENTER_MODE__TAKEOVER, 0);
        (void)snprintf(wanted, sizeof wanted,
                       "this ps started with another value of %s; to use this value, start all "
                       "processes again",
                       keys[i]);
        assert_string_equal(f.entered_error, wanted);
        close_fixture(&f);
    }
}

static void takeover_refuses_a_modes_own_key_that_memory_was_laid_out_by(void **state)
{
    (void)state;
    static const struct {
        Gradwire__Update update;
        const char *key;
    } cell[] = {{GRADWIRE__UPDATE__SYNC, "sync.replicas_to_aggregate"},
                {GRADWIRE__UPDATE__SYNC, "sync.dropped"},
                {GRADWIRE__UPDATE__ASYNC, "training.delay_compensation"},
                {GRADWIRE__UPDATE__SSP, "training.delay_compensation"}};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        char wanted[128];
        open_fixture(&f, cell[i].update, 1);
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        f.settings.replicas_to_aggregate = i == 0;
        f.settings.redo = i == 1;
        f.settings.delay_compensation = 0.5f;
        enter(&f, GRADWIRE__ENTER_MODE__TAKEOVER, 0);
        (void)snprintf(wanted, sizeof wanted,
                       "this ps started with another value of %s; to use this value, start all "
                       "processes again",
                       cell[i].key);
        assert_string_equal(f.entered_error, wanted);
        close_fixture(&f);
    }
}

static void enter_refuses_a_delay_compensation_that_is_none(void **state)
{
    (void)state;
    const float wrong[] = {-0.5f, NAN};
    const Gradwire__Update update[] = {GRADWIRE__UPDATE__ASYNC, GRADWIRE__UPDATE__SSP};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        open_fixture(&f, update[i % 2], 1);
        f.settings.delay_compensation = wrong[i / 2];
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        assert_string_equal(f.entered_error, "the chief's settings are out of range");
        close_fixture(&f);
    }
}

static void enter_refuses_a_codec_that_is_none(void **state)
{
    (void)state;
    const uint32_t wrong[][2] = {
        {CODECS, CODEC_RAW}, {CODEC_RAW, CODECS}, {CODEC_RAW, CODEC_TOP_K}};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
        f.settings.push_codec = wrong[i][0];
        f.settings.reply_codec = wrong[i][1];
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        assert_string_equal(f.entered_error, "the chief's settings are out of range");
        close_fixture(&f);
    }
}

/* A key that a restarted chief may change has effect from the next update; all else stays. */
static void takeover_brings_the_run_time_keys(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    uint64_t first, elems;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    f.settings.optimizer = OPT_SGD;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    push(&f, &peer, 0, 0, 1);
    assert_true(quiet_weights(f.shard, &first, &elems)[0] == -0.5f);
    f.settings.learning_rate = 0.25f;
    f.settings.momentum = 0.5f; /* identity: no other value can come, and none is taken */
    shard_peer_gone(f.shard, &peer);
    enter(&f, GRADWIRE__ENTER_MODE__TAKEOVER, 0);
    assert_string_equal(f.entered_error, "");
    hello(&f, &peer, 0);
    push(&f, &peer, 1, 0, 1);
    assert_true(quiet_weights(f.shard, &first, &elems)[0] == -0.75f);
    f.settings.schedule = SCHEDULE_PIECEWISE_CONSTANT_DECAY;
    f.settings.n_boundaries = 1;
    f.settings.boundaries = (uint32_t[]){2};
    f.settings.n_values = 2;
    f.settings.values = (float[]){8.0f, 0.125f};
    shard_peer_gone(f.shard, &peer);
    enter(&f, GRADWIRE__ENTER_MODE__TAKEOVER, 0);
    hello(&f, &peer, 0);
    push(&f, &peer, 2, 0, 1);
    assert_true(quiet_weights(f.shard, &first, &elems)[0] == -8.75f);
    push(&f, &peer, 3, 0, 1);
    assert_true(quiet_weights(f.shard, &first, &elems)[0] == -8.875f);
    shard_peer_gone(f.shard, &peer);
    close_fixture(&f);
}

/* The answer to the pull has the parameters: a run of the next step would come on top. */
static double auc_of(struct fixture *f, uint64_t epoch)
{
    const Gradwire__ShardStatus *m = shard_status(f->shard);
    for (size_t i = 0; i < m->n_epochs; i++)
        if (m->epochs[i]->epoch == epoch)
            return m->epochs[i]->metric[0];
    return -1;
}

static void shard_counts_marks_in_epochs_of_their_own_and_refuses_others(void **state)
{
    struct fixture f;
    struct shard_peer peer, again;
    uint8_t marks[3 * 4];
    const uint16_t good[] = {bins_mark(-1, 0), bins_mark(1, 1)},
                   bad[] = {bins_mark(1, 0), bins_mark(-1, 1)};
    (void)state;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    f.settings.metrics = 2;
    f.settings.batches_per_epoch = 1;
    f.settings.progressive = 2; /* the last one is the error */
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_string_equal(f.entered_error, "the chief's settings are out of range");
    f.settings.progressive = 1;
    f.settings.slices = SLICES_MAX + 1;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_string_equal(f.entered_error, "the chief's settings are out of range");
    f.settings.slices = 0;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_string_equal(f.entered_error, "");
    hello(&f, &peer, 0);
    assert_int_equal(push_marked(&f, &peer, 0, 0, marks, 2, 1), ERR_PROTO);
    assert_int_equal(push_marked(&f, &peer, 0, 0, (const uint8_t *)good, 2, 0), ERR_OK);
    assert_true(auc_of(&f, 0) == 1.0);
    for (uint64_t epoch = 1; epoch <= CHECKPOINT_EPOCHS; epoch++)
        assert_int_equal(push_marked(&f, &peer, epoch, 0, (const uint8_t *)bad, 2, 0), ERR_OK);
    assert_true(auc_of(&f, CHECKPOINT_EPOCHS) == 0.0); /* in the place of epoch 0 */
    f.settings.slices = 2;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &again, 0);
    memset(marks, 0xff, sizeof marks);
    assert_int_equal(push_marked(&f, &again, 0, 0, marks, 4, 0), ERR_OK);
    assert_true(isnan(auc_of(&f, 0)));
    announced.n = 0;
    close_fixture(&f);
}

static void a_pull_ends_what_was_pushed_before(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer pulls, other;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 2);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &pulls, 0);
    hello(&f, &other, 1);
    push(&f, &pulls, 0, 0, 1);
    pull(&f, &pulls, 0);
    assert_int_equal(f.replies, 1);
    push(&f, &other, 0, 1, 1);
    assert_int_equal(f.replies, 2);
    shard_peer_gone(f.shard, &pulls);
    shard_peer_gone(f.shard, &other);
    close_fixture(&f);
}

static void shard_starts_its_slots_as_the_optimizer_says(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    f.settings.optimizer = OPT_ADAGRAD;
    f.settings.initial_accumulator_value = 0.75f;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    cut(&f, 1);
    cut_at(&f, 1, 0);
    assert_int_equal(f.image->blocks.slots, 1);
    for (uint32_t i = 0; i < ELEMS; i++)
        assert_true(f.image->blocks.slot[0][i] == 0.75f);
    close_fixture(&f);
}

static void shard_refuses_an_optimizer_that_it_does_not_know(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    f.settings.optimizer = OPTIMIZER_KINDS;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_non_null(strstr(f.entered_error, "is unknown here"));
    assert_false(shard_facts(f.shard).entered);
    f.settings.optimizer = OPT_ADAM;
    f.settings.beta_2 = 1.0f;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_non_null(strstr(f.entered_error, "out of range"));
    assert_false(shard_facts(f.shard).entered);
    f.settings.beta_2 = 0.5f;
    f.settings.schedule = SCHEDULE_KINDS;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_non_null(strstr(f.entered_error, "is unknown here"));
    f.settings.schedule = SCHEDULE_COSINE_DECAY; /* of 0 steps */
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_non_null(strstr(f.entered_error, "out of range"));
    f.settings.schedule = SCHEDULE_PIECEWISE_CONSTANT_DECAY; /* without a value */
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    assert_non_null(strstr(f.entered_error, "out of range"));
    close_fixture(&f);
}

static void shard_says_again_what_it_copied_as_it_was(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    push(&f, &peer, 0, 0, 1);
    cut(&f, 4);
    cut_at(&f, 4, 1);
    assert_int_equal(f.copied_step, 1);
    push(&f, &peer, 1, 0, 1);
    push(&f, &peer, 2, 0, 1);
    cut_at(&f, 4, 1); /* the answer was lost */
    assert_int_equal(f.copied, 2);
    assert_int_equal(f.copied_step, 1);
    close_fixture(&f);
}

static void shard_says_again_that_it_could_not_save(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    cut(&f, 4);
    cut_at(&f, 4, 0);
    cut_at(&f, 4, 0);
    assert_int_equal(f.saved, 0); /* not yet */
    shard_on_saved(f.shard, 4, NULL, NULL, "No space left on device");
    f.saved_error[0] = '\0';
    cut_at(&f, 4, 0);
    assert_int_equal(f.saved, 2);
    assert_string_equal(f.saved_error, "No space left on device");
    close_fixture(&f);
}

static void shard_says_why_where_a_cut_finds_no_memory(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct fixture f;
        open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        cut(&f, 4);
        mem_fail_at(n);
        cut_at(&f, 4, 0);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        if (fired)
            assert_string_equal(f.saved_error, "no memory to copy the parameters for a checkpoint");
        else
            assert_non_null(f.image);
        close_fixture(&f);
        if (!fired) {
            assert_true(n >= 4);
            return;
        }
    }
}

static void shard_answers_a_late_push_of_who_has_pulled_since(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer a, b;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 2);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &a, 0);
    hello(&f, &b, 1);
    push(&f, &a, 0, 0, 1);
    pull(&f, &a, 0); /* the same step again: other leaves have become mine */
    assert_int_equal(f.replies, 1);
    push(&f, &b, 0, 1, 1); /* makes the step: b alone hears of it */
    assert_int_equal(f.replies, 2);
    push(&f, &a, 0, 0, 1);
    assert_int_equal(f.replies, 3);
    assert_int_equal(f.reply_step, 1);
    push(&f, &a, 0, 1, 1); /* another node of the same push: answered already */
    assert_int_equal(f.replies, 3);
    close_fixture(&f);
}

/* The averages of a weight and of a statistic, as they come. */
static enum err pull_averages(struct fixture *f, struct shard_peer *peer, uint64_t step)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    m.generation = &g;
    m.step = step;
    m.averages = true;
    return shard_on_worker(f->shard, peer, FRAME_PULL, &m.base, &e);
}

static void check_averages(struct fixture *f, struct shard_peer *peer, uint64_t asked,
                           uint64_t step, float weight, float statistic)
{
    assert_int_equal(pull_averages(f, peer, asked), ERR_OK);
    assert_true(f->reply_averages && f->reply_step == step);
    assert_true(f->reply_body[0] == weight && f->reply_body[CHUNK] == statistic);
}

/* The first chunk is a weight, the second a statistic. */
static void plan_statistic(struct fixture *f, enum init_kind weight, enum init_kind statistic)
{
    layout_close(&f->layout);
    msg_plan_close(&f->plan);
    struct tensor t[2] = {{.name = "w", .rank = 1, .shape = {CHUNK}, .init = weight},
                          {.name = "mean",
                           .rank = 1,
                           .shape = {CHUNK},
                           .init = statistic,
                           .role = TENSOR_STATISTIC,
                           .momentum = 0.5f}};
    const uint32_t threads = 1;
    for (int i = 0; i < 2; i++)
        assert_int_equal(layout_add(&f->layout, &t[i], NULL), ERR_OK);
    assert_int_equal(msg_plan_set(&f->plan, &f->layout, &threads, 1), ERR_OK);
}

static void shard_has_the_averages_of_a_step_as_long_as_its_weights(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    plan_statistic(&f, INIT_ONES, INIT_ZEROS);
    f.settings.optimizer = OPT_SGD;
    f.settings.use_ema = true;
    f.settings.ema_momentum = 0.75f;
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    check_averages(&f, &peer, 0, 0, 1.0f, 0.0f); /* of the initial weights */
    push(&f, &peer, 0, 0, 1);                    /* w 0.5, mean 0.5 */
    check_averages(&f, &peer, 1, 1, 0.5f, 0.5f); /* the first update's weights */
    check_averages(&f, &peer, 0, 0, 1.0f, 0.0f); /* a new chief may hold step 0's weights */
    push(&f, &peer, 1, 0, 1);                    /* w 0, mean 0.75, which is not averaged */
    check_averages(&f, &peer, 2, 2, 0.375f, 0.75f);
    check_averages(&f, &peer, 0, 2, 0.375f, 0.75f); /* gone */
    push_empty(&f, &peer, 2);
    check_averages(&f, &peer, 3, 3, 0.375f, 0.75f);
    check_averages(&f, &peer, 2, 2, 0.375f, 0.75f);
    push(&f, &peer, 3, 0, 1); /* w -0.5 */
    check_averages(&f, &peer, 4, 4, 0.375f * 0.75f - 0.125f, 0.875f);
    close_fixture(&f);
}

static void shard_has_no_averages_where_none_are_kept(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    assert_int_equal(pull_averages(&f, &peer, 0), ERR_PROTO);
    close_fixture(&f);
}

/* ---- geo ---- */

/* A round of one batch, both chunks or the first alone, all of it `value`. */
static enum err push_value(struct fixture *f, struct shard_peer *peer, uint64_t round,
                           uint32_t chunks, uint64_t batch, float value, uint32_t updates)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    Gradwire__Range range = GRADWIRE__RANGE__INIT, *ids[] = {&range};
    struct errmsg e = {""};
    range.first = batch;
    range.count = 1;
    m.generation = &g;
    m.name = round;
    m.chunks = chunks;
    m.ids = ids;
    m.n_ids = 1;
    m.updates = updates;
    struct buffer *b = buffer_acquire(&f->pool, ELEMS);
    for (uint32_t i = 0; i < ELEMS; i++)
        b->data[i] = value;
    enum err err = shard_on_push(f->shard, peer, &m, b, &e);
    buffer_unref(b);
    return err;
}

static enum err push_round(struct fixture *f, struct shard_peer *peer, uint64_t round,
                           uint32_t chunks, uint64_t batch)
{
    return push_value(f, peer, round, chunks, batch, 1, 1);
}

static float first_weight(struct fixture *f)
{
    uint64_t first, elems;
    return quiet_weights(f->shard, &first, &elems)[0];
}

static void shard_adds_a_round_once_and_in_turn(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    assert_int_equal(push_round(&f, &peer, 2, CHUNKS, 0), ERR_PROTO); /* out of turn */
    assert_int_equal(push_round(&f, &peer, 1, CHUNKS, IDS_WINDOW), ERR_PROTO);
    assert_true(first_weight(&f) == 0.0f);                    /* and what is refused is not added */
    assert_int_equal(push_round(&f, &peer, 1, 1, 7), ERR_OK); /* a connection broke on the way */
    assert_int_equal(shard_status(f.shard)->step, 0);         /* so its batch is not resolved */
    assert_int_equal(push_round(&f, &peer, 1, CHUNKS, 7), ERR_OK);
    assert_true(first_weight(&f) == 1.0f);
    assert_int_equal(shard_status(f.shard)->step, 1);
    assert_int_equal(push_round(&f, &peer, 1, CHUNKS, 7), ERR_OK);
    assert_int_equal(push_round(&f, &peer, 2, CHUNKS, 8), ERR_OK);
    assert_true(first_weight(&f) == 2.0f);
    assert_int_equal(shard_status(f.shard)->duplicates, 1);
    close_fixture(&f);
}

static void shard_counts_the_rounds_of_a_new_process_from_1(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer;
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    assert_int_equal(push_round(&f, &peer, 1, CHUNKS, 0), ERR_OK);
    assert_int_equal(push_round(&f, &peer, 2, 1, 1), ERR_OK); /* it dies in the middle */
    shard_peer_gone(f.shard, &peer);
    hello_of(&f, &peer, 0, 2);
    assert_int_equal(push_round(&f, &peer, 1, CHUNKS, 2), ERR_OK);
    assert_true(first_weight(&f) == 3.0f);
    assert_int_equal(shard_status(f.shard)->step, 2);
    close_fixture(&f);
}

/* Each batch of both workers has a variance of 0.125. The second worker last saw the average of before the first one's rounds. */
static void shard_keeps_a_variance_above_0_whoever_is_late(void **state)
{
    (void)state;
    struct fixture f;
    struct shard_peer peer, late;
    uint64_t first, elems;
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 1);
    plan_statistic(&f, INIT_ZEROS, INIT_ONES);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    hello(&f, &late, 1);
    const float *variance = quiet_weights(f.shard, &first, &elems) + CHUNK;
    assert_true(*variance == 1.0f);
    assert_int_equal(push_value(&f, &peer, 1, CHUNKS, 0, 0.0625f, 1), ERR_OK);
    assert_true(*variance == 0.5625f); /* 0.5 * 1 + 0.5 * 0.125 */
    assert_int_equal(push_value(&f, &late, 1, CHUNKS, 1, 0.09375f, 2), ERR_OK);
    assert_true(*variance == 0.25f * 0.5625f + 0.09375f); /* two more such batches */
    assert_int_equal(push_value(&f, &late, 1, CHUNKS, 1, 0.09375f, 2), ERR_OK); /* pushed again */
    assert_true(*variance == 0.25f * 0.5625f + 0.09375f);
    assert_int_equal(push_value(&f, &peer, 2, CHUNKS, 2, 0, 0), ERR_OK); /* of an empty batch */
    assert_true(*variance == 0.25f * 0.5625f + 0.09375f);
    assert_true(first_weight(&f) == 0.0625f + 0.09375f); /* those are added as usual */
    close_fixture(&f);
}

static bool was_announced(const float *at)
{
    for (int i = 0; i < announced.n; i++)
        if (at >= announced.lo[i] && at < announced.lo[i] + announced.elems[i])
            return true;
    return false;
}

/* The memory that a reply is sent from never changes without an announcement. */
static void announces(Gradwire__Update update)
{
    struct fixture f;
    struct shard_peer peer;
    static float before[ELEMS];
    open_fixture(&f, update, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    uint64_t first, elems;
    for (uint64_t name = 0; name < 3; name++)
        push(&f, &peer, name, 0, 1);
    const float *w = quiet_weights(f.shard, &first, &elems);
    memcpy(before, w, sizeof before);
    announced.n = 0;
    for (uint64_t name = 3; name < 5; name++) /* in sync the block comes up again at the second */
        push(&f, &peer, name, 0, 1);
    for (uint32_t i = 0; i < ELEMS; i++) {
        assert_true(memcmp(&w[i], &before[i], sizeof *w) != 0);
        assert_true(was_announced(&w[i]));
    }
    close_fixture(&f);
}

static void shard_says_what_it_is_about_to_rewrite(void **state)
{
    (void)state;
    announces(GRADWIRE__UPDATE__SYNC);
    announces(GRADWIRE__UPDATE__ASYNC);
}

static void shard_goes_on_from_a_cut_as_if_never_stopped(void **state)
{
    (void)state;
    static float undisturbed[ELEMS];
    struct fixture f;
    struct shard_peer peer;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC, 1);
    enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
    hello(&f, &peer, 0);
    for (uint64_t step = 0; step < 3; step++)
        push(&f, &peer, step, 0, 1.5f);
    cut(&f, 0);
    cut_at(&f, 0, 3);
    for (uint64_t step = 3; step < 6; step++)
        push(&f, &peer, step, 0, -0.5f);
    uint64_t first, elems;
    memcpy(undisturbed, quiet_weights(f.shard, &first, &elems), sizeof undisturbed);
    shard_peer_gone(f.shard, &peer);

    enter(&f, GRADWIRE__ENTER_MODE__RESTORE, 0);
    assert_string_equal(f.entered_error, "");
    hello(&f, &peer, 0);
    for (uint64_t step = 3; step < 6; step++)
        push(&f, &peer, step, 0, -0.5f);
    assert_memory_equal(quiet_weights(f.shard, &first, &elems), undisturbed, sizeof undisturbed);
    close_fixture(&f);
}

/* A restart can help, so the process ends. Where its memory is limited it cannot, and the chief hears the reason. */
static void without_memory_to_enter(Gradwire__Update update, const char *limit)
{
    struct err_limits limits = {.memory = ""};
    struct fixture f;
    int fired = 1;
    open_fixture(&f, update, 2);
    (void)snprintf(limits.memory, sizeof limits.memory, "%s", limit);
    err_limits_set(&limits);
    for (long n = 0; fired; n++) {
        f.failed = ERR_OK;
        mem_fail_at(n);
        enter(&f, GRADWIRE__ENTER_MODE__INIT, 0);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(shard_facts(f.shard).entered, !fired);
        assert_int_equal(f.failed, fired && !*limit ? ERR_NOMEM : ERR_OK);
        assert_int_equal(f.entered_error[0] != '\0', fired && *limit);
        assert_true(fired || n > 4);
    }
    limits.memory[0] = '\0';
    err_limits_set(&limits);
    close_fixture(&f);
}

static void a_shard_that_cannot_enter_for_memory_ends_its_process_or_says_so(void **state)
{
    (void)state;
    for (int update = GRADWIRE__UPDATE__SYNC; update <= GRADWIRE__UPDATE__ASYNC; update++) {
        without_memory_to_enter((Gradwire__Update)update, "");
        without_memory_to_enter((Gradwire__Update)update, "ulimit -v is 65536 KiB");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_decay_leaves_excluded_tensors_alone),
        cmocka_unit_test(gaps_between_tensors_stay_0_without_an_epsilon),
        cmocka_unit_test(takeover_refuses_another_compression_by_its_key),
        cmocka_unit_test(takeover_refuses_a_modes_own_key_that_memory_was_laid_out_by),
        cmocka_unit_test(enter_refuses_a_delay_compensation_that_is_none),
        cmocka_unit_test(enter_refuses_a_codec_that_is_none),
        cmocka_unit_test(takeover_brings_the_run_time_keys),
        cmocka_unit_test(shard_counts_marks_in_epochs_of_their_own_and_refuses_others),
        cmocka_unit_test(a_pull_ends_what_was_pushed_before),
        cmocka_unit_test(shard_starts_its_slots_as_the_optimizer_says),
        cmocka_unit_test(shard_refuses_an_optimizer_that_it_does_not_know),
        cmocka_unit_test(shard_says_again_what_it_copied_as_it_was),
        cmocka_unit_test(shard_says_again_that_it_could_not_save),
        cmocka_unit_test(shard_says_why_where_a_cut_finds_no_memory),
        cmocka_unit_test(shard_answers_a_late_push_of_who_has_pulled_since),
        cmocka_unit_test(shard_has_the_averages_of_a_step_as_long_as_its_weights),
        cmocka_unit_test(shard_has_no_averages_where_none_are_kept),
        cmocka_unit_test(shard_adds_a_round_once_and_in_turn),
        cmocka_unit_test(shard_counts_the_rounds_of_a_new_process_from_1),
        cmocka_unit_test(shard_keeps_a_variance_above_0_whoever_is_late),
        cmocka_unit_test(shard_says_what_it_is_about_to_rewrite),
        cmocka_unit_test(shard_goes_on_from_a_cut_as_if_never_stopped),
        cmocka_unit_test(a_shard_that_cannot_enter_for_memory_ends_its_process_or_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
