/* The plan and the settings of a job with tables: codecs and optimizers of each table, and those that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/row_model.h"

/* ---- codecs ---- */

static void set_codecs(struct rig *c, enum row_codec push, enum row_codec reply)
{
    for (uint32_t i = 0; i < RIG_TABLES; i++) {
        c->plan.tables[i]->push_codec = push;
        c->plan.tables[i]->reply_codec = reply;
    }
}

/* Gradients that bf16 has make the same rows; what is read for a task is bf16, and for an evaluation what the shard has. */
static void rows_travel_as_the_plan_says_and_an_evaluations_as_they_are(void **state)
{
    (void)state;
    static struct row_model model;
    static uint8_t body[1 << 16];
    struct errmsg e = {""};
    struct rig *c = rig_new(1);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 2);
    set_codecs(c, ROW_CODEC_BF16, ROW_CODEC_BF16);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    uint8_t *at = body;
    for (uint32_t p = 0; p < ROW_PARTS; p++) { /* the floats of a section, by their upper halves */
        static uint8_t plain[1 << 14];
        uint32_t keys[RIG_LISTS];
        size_t bytes = rig_section(c, &g, bucket_part(bucket_shard(0, 1), p), plain);
        memcpy(keys, plain, sizeof keys);
        size_t head = sizeof keys + (keys[0] + keys[1]) * sizeof(uint64_t), from = head;
        memcpy(at, plain, head);
        uint8_t *out = at + head;
        for (uint32_t t = 0; t < RIG_TABLES; t++) {
            uint32_t n = keys[rig_list[t]];
            memset(out, 0, (n + 31) / 32 * 4);
            out += (n + 31) / 32 * 4;
            for (uint32_t i = 0; i < n * rig_dim[t]; i++, from += sizeof(float), out += 2)
                memcpy(out, plain + from + 2, 2);
        }
        assert_true(from <= bytes);
        while ((out - at) % 8)
            *out++ = 0;
        at = out;
    }
    Gradwire__Generation generation = quiet_generation(c->generation);
    Gradwire__RowsPush m = rig_push_head(&generation, 0, rig_root, 1, 0, ROW_PARTS);
    assert_int_equal(rig_send_push(c, 0, 0, &m, body, (uint64_t)(at - body), &e), ERR_OK);
    rig_push_block(c, 0, 0, rig_root, 1);
    assert_int_equal(rig_step(c, 0), 1);
    memset(&model, 0, sizeof model);
    row_model_step(c, &model, &g, 1);
    rig_ask(c, 0, 0, 1, 1);
    uint64_t encoded = rig_last(c, 0)->bytes;
    assert_int_equal(rig_ask_once(c, 0, 0, 2, true, 0, true, &e), ERR_OK);
    row_model_check(c, 0, rig_last(c, 0), &model);
    assert_true(encoded < rig_last(c, 0)->bytes * 2 / 3);
    set_codecs(c, ROW_CODEC_NONE, ROW_CODEC_NONE); /* run-time keys of a new chief */
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    rig_hellos(c);
    rig_ask(c, 0, 0, 1, 1);
    row_model_check(c, 0, rig_last(c, 0), &model);
    rig_make_step(c, 1, &g);
    rig_end(c);
}

/* ---- settings ---- */

static void settings_that_tables_do_not_go_with_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const what[] = {
        "lamb", "top_k", "use_ema", "gradient_accumulation_steps", "geo", "delay_compensation"};
    for (int i = 0; i < 6; i++) {
        char wanted[128];
        struct rig *c = rig_new(1);
        c->settings.optimizer = i == 0 ? OPT_LAMB : OPT_SGD;
        c->settings.push_codec = i == 1 ? CODEC_TOP_K : CODEC_RAW;
        c->settings.push_ratio = 0.01f;
        c->settings.use_ema = i == 2;
        c->settings.ema_momentum = 0.5f;
        c->settings.gradient_accumulation_steps = i == 3 ? 2 : 0;
        if (i >= 4)
            c->settings.update = i == 4 ? GRADWIRE__UPDATE__GEO : GRADWIRE__UPDATE__ASYNC;
        c->settings.delay_compensation = i == 5 ? 0.5f : 0.0f;
        rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
        (void)snprintf(wanted, sizeof wanted,
                       "the chief's plan has %s in a job with tables, which is not possible",
                       what[i]);
        assert_string_equal(c->node[0].entered_error, wanted);
        rig_end(c);
    }
}

static void a_takeover_brings_no_setting_that_tables_do_not_go_with(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    c->settings.use_ema = true;
    c->settings.ema_momentum = 0.5f;
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(c->node[0].entered_error,
                        "the chief's plan has use_ema in a job with tables, which is not possible");
    rig_end(c);
}

/* ---- optimizers of tables ---- */

static void own_optimizer(struct rig *c, uint32_t table, float of_rate, float of_momentum)
{
    struct row_table_spec *t = &c->layout.rows->table[table];
    t->has_optimizer = true;
    t->optimizer = (struct optimizer){.learning_rate = of_rate, .momentum = of_momentum};
    rig_plan_anew(c);
}

static void each_table_is_updated_by_its_own_optimizer(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig *c = rig_new(2);
    struct rig_grads g[] = {rig_touch(0, RIG_KEYS, 1), rig_touch(0, RIG_KEYS / 2, 2),
                            rig_touch(RIG_KEYS / 4, RIG_KEYS, 3)};
    own_optimizer(c, 1, 0.7f, 0);
    own_optimizer(c, 2, 0.1f, 0.2f);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    memset(&model, 0, sizeof model);
    for (uint32_t step = 0; step < 3; step++) {
        rig_make_step(c, step, &g[step]);
        row_model_step(c, &model, &g[step], 1);
        row_model_check_now(c, &model);
    }
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        assert_int_equal(c->node[0].shard->rows.tables.table[i]->slot_floats,
                         i == 1 ? 0 : rig_dim[i]);
    rig_end(c);
}

static void a_takeover_brings_the_rates_of_each_table(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig *c = rig_new(1);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    own_optimizer(c, 1, 0.7f, 0);
    own_optimizer(c, 2, 0.1f, 0.2f);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    memset(&model, 0, sizeof model);
    rig_make_step(c, 0, &g);
    row_model_step(c, &model, &g, 1);
    c->settings.learning_rate = 0.9f;
    own_optimizer(c, 2, 0.6f, 0.2f);
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(c->node[0].entered_error, "");
    rig_hellos(c);
    rig_make_step(c, 1, &g);
    row_model_step(c, &model, &g, 1);
    row_model_check_now(c, &model);
    rig_end(c);
}

static void a_takeover_with_other_tables_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig *c = rig_begin(1);
        struct row_layout *l = c->layout.rows, was = *l;
        if (i == 0)
            l->tables = 2;
        else if (i == 1)
            l->table[1].dim++;
        else
            l->table[2].name[0] = 'x';
        rig_plan_anew(c);
        rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
        assert_string_equal(c->node[0].entered_error, "the new chief's plan has other tables");
        *l = was;
        rig_end(c);
    }
}

static void an_optimizer_of_a_table_that_has_no_lazy_form_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig *c = rig_new(1);
        own_optimizer(c, 1, 0.5f, i == 0 ? 2.0f : 0.0f);
        struct optimizer *o = &c->layout.rows->table[1].optimizer;
        o->kind = i == 1 ? OPT_LAMB : OPT_SGD;
        o->use_ema = i == 2;
        o->accumulation_steps = i == 3 ? 2 : 0;
        rig_plan_anew(c);
        rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
        assert_string_equal(c->node[0].entered_error, "table 1 of the chief's plan is invalid");
        rig_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_travel_as_the_plan_says_and_an_evaluations_as_they_are),
        cmocka_unit_test(settings_that_tables_do_not_go_with_are_refused_by_name),
        cmocka_unit_test(a_takeover_brings_no_setting_that_tables_do_not_go_with),
        cmocka_unit_test(each_table_is_updated_by_its_own_optimizer),
        cmocka_unit_test(a_takeover_brings_the_rates_of_each_table),
        cmocka_unit_test(a_takeover_with_other_tables_is_refused),
        cmocka_unit_test(an_optimizer_of_a_table_that_has_no_lazy_form_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
