/* Rows of tables in a shard's part of a cut, and back: into any number of shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "ps/core/shard_state.h"
#include "tests/lib/folder.h"
#include "tests/lib/quiet.h"

/* One chunk, which is shard 0's. Adagrad has one slot a weight. */
enum { SHARDS_MAX = 5, TABLES = 2, CUT = 3 };

static char dir[FOLDER_BYTES];

struct node {
    struct shard *shard;
    struct checkpoint_file file;
    bool saved;
    char error[256]; /* of ENTERED, or of CUT_SAVED */
};

struct cluster {
    uint32_t shards;
    struct node node[SHARDS_MAX];
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    uint64_t generation;
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    (void)ctx;
    (void)to;
    (void)type;
    (void)m;
    (void)body;
    (void)bytes;
    fail();
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct node *n = ctx;
    if (type == FRAME_ENTERED)
        (void)snprintf(n->error, sizeof n->error, "%s", ((const Gradwire__Entered *)m)->error);
    if (type != FRAME_CUT_SAVED)
        return;
    const Gradwire__CutSaved *saved = (const Gradwire__CutSaved *)m;
    (void)snprintf(n->error, sizeof n->error, "%s", saved->error);
    n->saved = !saved->error[0];
    n->file = (struct checkpoint_file){.first_elem = saved->first_elem,
                                       .elems = saved->elems,
                                       .bytes = saved->bytes,
                                       .head_crc = saved->head_crc,
                                       .rows = saved->rows,
                                       .first_bucket = saved->first_bucket,
                                       .end_bucket = saved->end_bucket,
                                       .clock = saved->clock};
    (void)snprintf(n->file.name, sizeof n->file.name, "%s", saved->file);
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct node *n = ctx;
    struct checkpoint_file file;
    struct errmsg e = {""};
    if (checkpoint_write_shard(dir, CUT, &take_image->blocks, &file, &e))
        fail_msg("%s", e.text);
    shard_image_free(take_image);
    shard_on_saved(n->shard, CUT, &file, NULL);
}

static enum err io_load(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *b,
                        struct errmsg *e)
{
    (void)ctx;
    enum err err = checkpoint_load(dir, cut, m, e);
    if (!err)
        err = checkpoint_read(dir, m, b->first_elem, b->elems, b->w, b->slot, e);
    if (!err && b->wanted)
        err = checkpoint_read_wanted(dir, m, b->wanted, e);
    if (err)
        manifest_close(m);
    return err;
}

static const struct shard_io io = {.send = io_send,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .load = io_load,
                                   .drop_peers = quiet_drop_peers};

/* ---- a cluster ---- */

static struct cluster *cluster_new(uint32_t shards)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct tensor t = {.name = "w", .rank = 1, .shape = {QUIET_CHUNK}, .init = INIT_ZEROS};
    struct errmsg e;
    c->shards = shards;
    assert_int_equal(layout_add(&c->layout, &t, &e), ERR_OK);
    c->layout.rows = mem_zalloc(1, sizeof *c->layout.rows);
    c->layout.rows->lists = 1;
    c->layout.rows->tables = TABLES;
    c->layout.rows->table[0] = (struct row_table_spec){.name = "wide", .dim = 1};
    c->layout.rows->table[1] = (struct row_table_spec){.name = "deep", .dim = 300};
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &shards, 1), ERR_OK);
    gradwire__settings__init(&c->settings);
    c->settings.optimizer = OPT_ADAGRAD;
    c->settings.learning_rate = 0.1f;
    c->settings.microbatches = 2;
    c->settings.batches_per_epoch = 100;
    for (uint32_t i = 0; i < shards; i++)
        assert_int_equal(shard_new(&c->node[i].shard, 0, i, &io, &c->node[i]), ERR_OK);
    return c;
}

static void enter(struct cluster *c, Gradwire__EnterMode mode)
{
    c->generation++;
    for (uint32_t i = 0; i < c->shards; i++)
        quiet_enter(c->node[i].shard, &c->plan, &c->settings, c->generation, mode, CUT);
}

static void end(struct cluster *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        shard_free(c->node[i].shard);
    msg_plan_close(&c->plan);
    layout_close(&c->layout);
    free(c);
}

/* The shard that owns the key. */
static struct shard *owner(struct cluster *c, uint64_t mixed)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        struct bucket_range of = bucket_shard(i, c->shards);
        if (key_bucket(mixed) >= of.first && key_bucket(mixed) < of.end)
            return c->node[i].shard;
    }
    fail();
    return NULL;
}

/* Key k is in table k % 2. Every seventh key is in bucket 5. */
static uint64_t mixed_of(uint64_t k)
{
    return k % 7 ? key_mix(k) : row_bucket_first(5) + key_mix(k) / ROW_BUCKETS;
}

static void fill_row(struct row_table *t, uint32_t row, uint64_t k)
{
    uint64_t key = rng_key(k, RNG_TEST, 0, 0);
    row_set_stamp(t, row, k % 50);
    row_set_count(t, row, (uint32_t)k * 3);
    for (uint32_t j = 0; j < t->dim; j++)
        row_weights(t, row)[j] = rng_unit(key, j);
    for (uint32_t j = 0; j < t->slot_floats; j++)
        row_slots(t, row)[j] = rng_unit(key, 1000 + j);
}

static void add_rows(struct cluster *c, uint64_t keys)
{
    for (uint64_t k = 0; k < keys; k++) {
        struct row_table *t = owner(c, mixed_of(k))->rows.tables.table[k % TABLES];
        uint32_t row;
        assert_int_equal(row_table_add(t, mixed_of(k), &row), ERR_OK);
        fill_row(t, row, k);
    }
}

static void assert_rows(struct cluster *c, uint64_t keys)
{
    uint64_t rows = 0;
    for (uint64_t k = 0; k < keys; k++) {
        struct row_table *t = owner(c, mixed_of(k))->rows.tables.table[k % TABLES];
        uint64_t mixed = mixed_of(k), key = rng_key(k, RNG_TEST, 0, 0);
        uint32_t row;
        assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
        assert_int_equal(row_stamp(t, row), k % 50);
        assert_int_equal(row_count(t, row), k * 3);
        for (uint32_t j = 0; j < t->dim; j++)
            assert_true(row_weights(t, row)[j] == rng_unit(key, j));
        for (uint32_t j = 0; j < t->slot_floats; j++)
            assert_true(row_slots(t, row)[j] == rng_unit(key, 1000 + j));
    }
    for (uint32_t i = 0; i < c->shards; i++)
        rows += row_tables_rows(&c->node[i].shard->rows.tables);
    assert_int_equal(rows, keys);
}

/* A cut of step 0, up to CUT_SAVED. */
static void save(struct cluster *c)
{
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutAt at = GRADWIRE__CUT_AT__INIT;
    cut.generation = at.generation = &g;
    cut.cut = at.cut = CUT;
    for (uint32_t i = 0; i < c->shards; i++) {
        c->node[i].saved = false;
        shard_on_chief(c->node[i].shard, FRAME_CUT, &cut.base);
        shard_on_chief(c->node[i].shard, FRAME_CUT_AT, &at.base);
    }
}

static void publish(struct cluster *c)
{
    struct checkpoint_file file[SHARDS_MAX];
    struct errmsg e = {""};
    for (uint32_t i = 0; i < c->shards; i++) {
        assert_true(c->node[i].saved);
        file[i] = c->node[i].file;
    }
    struct manifest m = {.cut = CUT,
                         .generation = c->generation,
                         .tables = true,
                         .total_elems = QUIET_CHUNK,
                         .slots = 1,
                         .files = c->shards,
                         .file = file};
    if (checkpoint_publish(dir, &m, &e))
        fail_msg("%s", e.text);
}

/* ---- */

static void rows_of_a_cut_load_into_any_number_of_shards(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    for (uint32_t shards = 1; shards <= 4; shards++) {
        struct cluster *c = cluster_new(shards);
        enter(c, GRADWIRE__ENTER_MODE__INIT);
        add_rows(c, KEYS);
        save(c);
        publish(c);
        assert_rows(c, KEYS);
        end(c);
        for (uint32_t others = 1; others <= SHARDS_MAX; others += 2) {
            c = cluster_new(others);
            enter(c, GRADWIRE__ENTER_MODE__RESTORE);
            for (uint32_t i = 0; i < others; i++)
                assert_string_equal(c->node[i].error, "");
            assert_rows(c, KEYS);
            end(c);
        }
    }
}

static void a_cut_of_tables_without_rows_loads_as_such(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(2);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    save(c);
    publish(c);
    add_rows(c, 10);
    enter(c, GRADWIRE__ENTER_MODE__RESTORE); /* what came behind the cut is gone */
    assert_rows(c, 0);
    end(c);
}

static void the_table_clock_goes_on_where_the_cut_had_it(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(2);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    for (int i = 0; i < 2; i++)
        c->node[i].shard->rows.clock_before = 40; /* of a run before this one */
    save(c);
    assert_int_equal(c->node[1].file.clock, 40);
    publish(c);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    assert_int_equal(c->node[1].shard->rows.clock_before, 0);
    enter(c, GRADWIRE__ENTER_MODE__RESTORE);
    assert_int_equal(c->node[1].shard->rows.clock_before, 40);
    end(c);
}

static void a_cut_of_other_tables_is_refused_by_its_files_name(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    add_rows(c, 10);
    save(c);
    publish(c);
    end(c);
    c = cluster_new(2);
    c->plan.tables[1]->dim = 299;
    enter(c, GRADWIRE__ENTER_MODE__RESTORE);
    assert_non_null(strstr(c->node[1].error, "shard-0.gw"));
    assert_non_null(strstr(c->node[1].error, "its tables are others than expected"));
    assert_false(shard_facts(c->node[1].shard).entered);
    end(c);
}

static void no_memory_for_a_copy_of_the_rows_fails_the_cut_alone(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    add_rows(c, 500);
    long fired = 0;
    for (bool more = true; more; fired += more) {
        mem_fail_at(fired);
        struct shard_image *image = shard_image_new(c->node[0].shard);
        more = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(image == NULL, more);
        shard_image_free(image);
    }
    assert_true(fired > 6);
    assert_rows(c, 500);
    save(c);
    assert_true(c->node[0].saved);
    end(c);
}

static void no_memory_for_rows_that_are_restored_is_said(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    add_rows(c, 500);
    save(c);
    publish(c);
    long fired = 0;
    for (bool more = true; more; fired += more) {
        mem_fail_at(fired);
        enter(c, GRADWIRE__ENTER_MODE__RESTORE);
        more = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(shard_facts(c->node[0].shard).entered, !more);
        if (more)
            assert_non_null(strstr(c->node[0].error, "memory"));
    }
    assert_true(fired > 20);
    assert_rows(c, 500);
    end(c);
}

static int make_folder(void **state)
{
    (void)state;
    return folder_make(dir);
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_remove(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_of_a_cut_load_into_any_number_of_shards),
        TEST(a_cut_of_tables_without_rows_loads_as_such),
        TEST(the_table_clock_goes_on_where_the_cut_had_it),
        TEST(a_cut_of_other_tables_is_refused_by_its_files_name),
        TEST(no_memory_for_a_copy_of_the_rows_fails_the_cut_alone),
        TEST(no_memory_for_rows_that_are_restored_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
