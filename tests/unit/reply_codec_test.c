/* Encoded replies at a worker: which are let in, and what they do to the parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/core/session.h"
#include "worker/driver/push_codec.h"

enum { CHUNK = PLAN_CHUNK_MIN_BYTES / 4, CHUNKS = 2, ELEMS = CHUNKS * CHUNK };

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ctx, (void)shard, (void)type, (void)m;
}
static void io_push_again(void *ctx, uint32_t shard)
{
    (void)ctx, (void)shard;
}
static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ctx, (void)type, (void)m;
}
static const struct session_io io = {
    .to_shard = io_to_shard, .push_again = io_push_again, .to_chief = io_to_chief};

struct fixture {
    struct session *session;
    struct layout layout;
    struct coder *codec;
    Gradwire__Generation g;
    float w[ELEMS];
    uint8_t body[ELEMS * 4];
    uint64_t bytes;
};

/* One ps, one shard of two chunks; sync, one leaf, and it is mine; replies are int8. */
static void fixture_open(struct fixture *f)
{
    struct errmsg e;
    uint32_t threads = 1;
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    Gradwire__Part part = GRADWIRE__PART__INIT, *parts[] = {&part};
    Gradwire__Deal deal = GRADWIRE__DEAL__INIT;
    memset(f, 0, sizeof *f);
    assert_int_equal(layout_add(&f->layout, &(struct tensor){.rank = 1, .shape = {ELEMS}}, &e),
                     ERR_OK);
    assert_int_equal(coder_new(&f->codec), ERR_OK);
    f->g = msg_generation((struct generation){5, 7});
    plan.elems = ELEMS;
    plan.threads = &threads;
    plan.n_threads = 1;
    settings.microbatches = 1;
    settings.batches_per_epoch = 100;
    settings.epochs = 1;
    settings.reply_codec = CODEC_INT8;
    m.generation = &f->g;
    m.uuid = (char *)"job";
    m.incarnation = 1;
    m.plan = &plan;
    m.settings = &settings;
    bool anew;
    assert_int_equal(session_new(&f->session, &io, f, &f->layout), ERR_OK);
    assert_int_equal(session_on_welcome(f->session, &m, &anew, &e), ERR_OK);
    session_on_link_up(f->session, 0);
    part.leaves = 1;
    deal.generation = &f->g;
    deal.version = 1;
    deal.parts = parts;
    deal.n_parts = 1;
    session_on_chief(f->session, FRAME_DEAL, &deal.base);
}

static void fixture_close(struct fixture *f)
{
    session_free(f->session);
    layout_close(&f->layout);
    coder_free(f->codec);
}

static void body_of(struct fixture *f, float value)
{
    float x[ELEMS];
    struct coder *coder;
    enum codec codec = CODEC_INT8;
    const struct codec_shape shape = session_shape(f->session);
    for (int i = 0; i < ELEMS; i++)
        x[i] = value;
    assert_int_equal(coder_new(&coder), ERR_OK);
    assert_int_equal(codec_encode(coder, &shape, &codec, 1, 0, CHUNKS, x, f->body, &f->bytes),
                     ERR_OK);
    coder_free(coder);
}

static enum err fits(struct fixture *f, Gradwire__Reply *m, uint64_t bytes, bool *wanted)
{
    struct errmsg e;
    uint64_t first;
    m->generation = &f->g;
    m->chunks = CHUNKS;
    return session_reply_fits(f->session, 0, m, bytes, &first, wanted, &e);
}

static Gradwire__Reply reply_of(uint64_t step, enum codec codec, bool difference)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.step = step;
    m.codec = (Gradwire__Codec)codec;
    m.difference = difference;
    return m;
}

/* Parameters of step 3 by a pull, then the session waits for step 4. */
static void hold_step_3_and_push(struct fixture *f)
{
    bool wanted;
    Gradwire__Reply m = reply_of(3, CODEC_RAW, false);
    m.pulled = true;
    assert_int_equal(fits(f, &m, sizeof f->w, &wanted), ERR_OK);
    assert_true(wanted);
    session_on_reply(f->session, 0, &m, true);
    assert_int_equal(session_task(f->session).kind, TASK_COMPUTE);
    session_computed(f->session);
    assert_int_equal(session_phase(f->session), SESSION_PUSHED);
}

static enum err store(struct fixture *f, const Gradwire__Reply *m)
{
    const struct codec_shape shape = session_shape(f->session);
    return reply_codec_store(f->codec, &shape, m, f->body, f->bytes, f->w);
}

static void a_difference_is_added_to_what_is_held(void **state)
{
    (void)state;
    static struct fixture f;
    bool wanted;
    fixture_open(&f);
    hold_step_3_and_push(&f);
    for (int i = 0; i < ELEMS; i++)
        f.w[i] = (float)i;
    body_of(&f, 127.0f);
    Gradwire__Reply m = reply_of(4, CODEC_INT8, true);
    assert_int_equal(fits(&f, &m, f.bytes, &wanted), ERR_OK);
    assert_true(wanted);
    assert_int_equal(store(&f, &m), ERR_OK);
    for (int i = 0; i < ELEMS; i++)
        assert_true(f.w[i] == (float)i + 127.0f);
    m.difference = false;
    assert_int_equal(store(&f, &m), ERR_OK);
    assert_true(f.w[5] == 127.0f);
    fixture_close(&f);
}

static void a_difference_to_what_is_not_held_is_refused(void **state)
{
    (void)state;
    static struct fixture f;
    bool wanted;
    fixture_open(&f);
    hold_step_3_and_push(&f);
    Gradwire__Reply other = reply_of(5, CODEC_INT8, true), next = reply_of(4, CODEC_INT8, true);
    body_of(&f, 1.0f);
    assert_int_equal(fits(&f, &other, f.bytes, &wanted), ERR_STATE);
    assert_int_equal(fits(&f, &next, f.bytes, &wanted), ERR_OK);
    session_on_link_down(f.session, 0); /* a reply over the old connection does not count */
    session_on_link_up(f.session, 0);
    assert_int_equal(fits(&f, &next, f.bytes, &wanted), ERR_STATE);
    fixture_close(&f);
}

static void a_body_is_as_long_as_its_codec_makes_it(void **state)
{
    (void)state;
    static struct fixture f;
    bool wanted;
    fixture_open(&f);
    hold_step_3_and_push(&f);
    body_of(&f, 1.0f);
    Gradwire__Reply m = reply_of(4, CODEC_INT8, true);
    assert_int_equal(fits(&f, &m, f.bytes + 1, &wanted), ERR_PROTO);
    assert_int_equal(fits(&f, &m, f.bytes - 1, &wanted), ERR_PROTO);
    assert_int_equal(fits(&f, &m, sizeof f.w, &wanted), ERR_PROTO);
    m.codec = (Gradwire__Codec)CODEC_FP16; /* not what the settings say */
    assert_int_equal(fits(&f, &m, sizeof f.w / 2, &wanted), ERR_PROTO);
    m.codec = (Gradwire__Codec)99;
    assert_int_equal(fits(&f, &m, f.bytes, &wanted), ERR_PROTO);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_difference_is_added_to_what_is_held),
        cmocka_unit_test(a_difference_to_what_is_not_held_is_refused),
        cmocka_unit_test(a_body_is_as_long_as_its_codec_makes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
