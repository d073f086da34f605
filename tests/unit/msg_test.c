#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "job/keys.h"
#include "common/base/mem.h"
#include "common/wire/msg.h"

static struct layout two_tensors(void)
{
    struct layout l = {0};
    struct errmsg e;
    struct tensor a = {.name = "dense/kernel",
                       .rank = 2,
                       .shape = {5, 7},
                       .init_value = 0.5f,
                       .init = INIT_GLOROT_UNIFORM};
    struct tensor b = {.name = "dense/bias", .rank = 1, .shape = {7}};
    assert_int_equal(layout_add(&l, &a, &e), ERR_OK);
    assert_int_equal(layout_add(&l, &b, &e), ERR_OK);
    return l;
}

static void msg_knows_a_head_for_every_frame_type(void **state)
{
    (void)state;
#define X(name, message, number, to)                                                               \
    {                                                                                              \
        assert_non_null(msg_descriptor(number));                                                   \
        ProtobufCMessage *m = msg_unpack(number, NULL, 0);                                         \
        assert_non_null(m);                                                                        \
        assert_ptr_equal(m->descriptor, msg_descriptor(number));                                   \
        msg_free(m);                                                                               \
    }
    FRAME_TYPE_MAP(X)
#undef X
    assert_null(msg_descriptor(0));
    assert_null(msg_unpack(9, NULL, 0));
    assert_null(msg_descriptor(UINT16_MAX));
}

static void msg_unpack_refuses_bytes_that_do_not_parse(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x0A, 0x7F, 1}; /* a field of 127 bytes in a head of 3 */
    assert_null(msg_unpack(FRAME_PUSH, bytes, sizeof bytes));
    msg_free(NULL);
}

static void msg_copy_is_deep_and_equal(void **state)
{
    (void)state;
    Gradwire__Range range = GRADWIRE__RANGE__INIT, *at[] = {&range};
    Gradwire__Generation g = msg_generation((struct generation){7, 99});
    Gradwire__LeaseAsk m = GRADWIRE__LEASE_ASK__INIT;
    range.first = 5;
    range.count = 3;
    m.generation = &g;
    m.done = at;
    m.n_done = 1;
    m.want = 4;
    Gradwire__LeaseAsk *copy = (Gradwire__LeaseAsk *)msg_copy(&m.base);
    assert_non_null(copy);
    range.first = 0;
    g.number = 0;
    assert_int_equal(copy->done[0]->first, 5);
    assert_int_equal(copy->done[0]->count, 3);
    assert_true(generation_equal(msg_generation_get(copy->generation), (struct generation){7, 99}));
    assert_int_equal(copy->want, 4);
    msg_free(&copy->base);
    mem_fail_at(0);
    assert_null(msg_copy(&m.base));
    mem_fail_at(-1);
}

static void generations_differ_by_number_and_by_tag(void **state)
{
    (void)state;
    assert_true(generation_equal((struct generation){1, 2}, (struct generation){1, 2}));
    assert_false(generation_equal((struct generation){1, 2}, (struct generation){1, 3}));
    assert_false(generation_equal((struct generation){1, 2}, (struct generation){2, 2}));
    assert_true(generation_equal(msg_generation_get(NULL), (struct generation){0, 0}));
}

static void msg_plan_brings_the_layout_over(void **state)
{
    (void)state;
    struct layout l = two_tensors(), back = {0};
    uint32_t threads[] = {2, 3};
    Gradwire__Plan p;
    struct errmsg e;
    assert_int_equal(msg_plan_set(&p, &l, threads, 2), ERR_OK);
    assert_int_equal(p.n_threads, 2);
    assert_int_equal(p.threads[1], 3);
    assert_int_equal(msg_layout_get(&p, &back, &e), ERR_OK);
    assert_int_equal(back.elems, l.elems);
    assert_int_equal(back.tensors, 2);
    assert_memory_equal(back.tensor, l.tensor, 2 * sizeof *l.tensor);
    layout_close(&back);
    layout_close(&l);
    msg_plan_close(&p);
}

static void assert_layout_refused(Gradwire__Plan *p)
{
    struct layout l = {.elems = 77};
    struct errmsg e;
    assert_int_equal(msg_layout_get(p, &l, &e), ERR_PROTO);
    assert_int_equal(l.elems, 77);
}

static void msg_layout_refuses_tensors_that_do_not_fit(void **state)
{
    (void)state;
    struct layout l = two_tensors();
    uint32_t threads[] = {1};
    Gradwire__Plan p;
    assert_int_equal(msg_plan_set(&p, &l, threads, 1), ERR_OK);
    Gradwire__Tensor *t = p.tensors[1];
    Gradwire__Tensor was = *t;
    t->offset = 3; /* inside the first */
    assert_layout_refused(&p);
    *t = was;
    t->elems = UINT64_MAX;
    assert_layout_refused(&p);
    *t = was;
    t->offset = p.elems; /* behind the end */
    assert_layout_refused(&p);
    *t = was;
    t->shape[0]++;
    assert_layout_refused(&p);
    t->shape[0]--; /* `was` shares it */
    t->init = INIT_TRUNCATED_NORMAL + 1;
    assert_layout_refused(&p);
    *t = was;
    t->n_shape = TENSOR_RANK_MAX + 1;
    assert_layout_refused(&p);
    *t = was;
    t->name = (char *)"";
    assert_layout_refused(&p);
    *t = was;
    p.tensors[0]->offset = 1; /* elements before the first belong to no tensor */
    assert_layout_refused(&p);
    p.tensors[0]->offset = 0;
    msg_plan_close(&p);
    layout_close(&l);
}

static void add_a_table(struct layout *l)
{
    l->rows = mem_zalloc(1, sizeof *l->rows);
    *l->rows = (struct row_layout){
        .lists = 1,
        .tables = 1,
        .table = {{.name = "ids",
                   .dim = 3,
                   .init = INIT_CONSTANT,
                   .init_value = 2,
                   .unseen_steps = 99,
                   .admission = {.min_count = 3, .initial = true, .sketch_mb = 5}}}};
}

static void msg_plan_brings_tables_over(void **state)
{
    (void)state;
    struct layout l = two_tensors(), back = {0};
    uint32_t threads[] = {1};
    Gradwire__Plan p;
    struct errmsg e;
    add_a_table(&l);
    assert_int_equal(msg_plan_set(&p, &l, threads, 1), ERR_OK);
    assert_int_equal(msg_layout_get(&p, &back, &e), ERR_OK);
    assert_memory_equal(back.rows, l.rows, sizeof *l.rows);
    layout_close(&back);
    Gradwire__Table *t = p.tables[0];
    const Gradwire__Table was = *t;
    t->min_count = ROW_MIN_COUNT_MAX + 1;
    assert_layout_refused(&p);
    *t = was;
    t->sketch_mb = ROW_SKETCH_MB_MAX + 1;
    assert_layout_refused(&p);
    t->sketch_mb = 0; /* where are touches counted? */
    assert_layout_refused(&p);
    *t = was;
    t->unseen_steps = ROW_UNSEEN_STEPS_MAX + 1;
    assert_layout_refused(&p);
    *t = was;
    t->probability = 1;
    assert_layout_refused(&p);
    t->probability = NAN;
    assert_layout_refused(&p);
    *t = was;
    layout_close(&l);
    msg_plan_close(&p);
}

static void msg_plan_says_so_when_memory_runs_out(void **state)
{
    (void)state;
    struct layout l = two_tensors();
    uint32_t threads[] = {1};
    long n = 0;
    for (;; n++) {
        Gradwire__Plan p;
        struct layout back = {0};
        struct errmsg e;
        mem_fail_at(n);
        enum err err = msg_plan_set(&p, &l, threads, 1);
        if (!err)
            err = msg_layout_get(&p, &back, &e);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        layout_close(&back);
        msg_plan_close(&p);
        if (!fired)
            break;
    }
    assert_true(n > 4);
    layout_close(&l);
}

static bool fits(const struct job_key *key, ProtobufCType type)
{
    switch (key->type) {
    case KEY_BOOL:
        return type == PROTOBUF_C_TYPE_BOOL;
    case KEY_REAL:
        return type == PROTOBUF_C_TYPE_FLOAT;
    case KEY_U64:
        return type == PROTOBUF_C_TYPE_UINT64;
    case KEY_U32:
        return type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_UINT64;
    case KEY_WORD:
    case KEY_CHOICE:
        return type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_ENUM;
    default:
        return key->type == KEY_CODECS && type == PROTOBUF_C_TYPE_UINT32;
    }
}

static void a_key_that_travels_has_a_field_of_the_settings_that_fits(void **state)
{
    int n = 0;
    (void)state;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        if (!key->setting)
            continue;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
            &gradwire__settings__descriptor, key->setting);
        if (!field || field->label == PROTOBUF_C_LABEL_REPEATED || !fits(key, field->type))
            fail_msg("%s: Settings.%s does not hold it", key->path, key->setting);
        n++;
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_travels_has_a_field_of_the_settings_that_fits),
        cmocka_unit_test(msg_knows_a_head_for_every_frame_type),
        cmocka_unit_test(msg_unpack_refuses_bytes_that_do_not_parse),
        cmocka_unit_test(msg_copy_is_deep_and_equal),
        cmocka_unit_test(generations_differ_by_number_and_by_tag),
        cmocka_unit_test(msg_plan_brings_the_layout_over),
        cmocka_unit_test(msg_plan_brings_tables_over),
        cmocka_unit_test(msg_layout_refuses_tensors_that_do_not_fit),
        cmocka_unit_test(msg_plan_says_so_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
