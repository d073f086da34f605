/* Rows of tables in a shard's part of a cut, and back: into any number of shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/process/files.h"
#include "ps/core/shard_state.h"
#include "tests/lib/folder.h"
#include "tests/lib/quiet.h"

/* One chunk, which is shard 0's. Adagrad has one slot a weight. */
enum { SHARDS_MAX = 5, TABLES = 2, CUT = 3, CLOCK = 50 };

static char *const dir = folder_dir;

struct node {
    struct shard *shard;
    struct checkpoint_file file;
    bool saved, corrupt;
    char error[256]; /* of ENTERED, or of CUT_SAVED */
    struct shard_image *image;
    struct row_copy rows;
    bool all_rows;
    int ended; /* cuts that were not wanted any more */
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
    if (type == FRAME_ENTERED) {
        (void)snprintf(n->error, sizeof n->error, "%s", ((const Gradwire__Entered *)m)->error);
        n->corrupt = ((const Gradwire__Entered *)m)->corrupt;
    }
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
    const struct checkpoint_rows *rows = take_image->blocks.rows;
    assert_null(n->image);
    n->image = take_image;
    n->all_rows = false;
    row_copy_init(&n->rows, rows->table, rows->tables, rows->buckets, rows->clock);
}

static bool io_save_room(void *ctx)
{
    struct node *n = ctx;
    assert_non_null(n->image);
    return true;
}

static enum err io_save_rows(void *ctx, const struct row_group *g)
{
    struct node *n = ctx;
    assert_false(n->all_rows);
    if (!row_group_ends(g))
        return row_copy_add(&n->rows, g);
    n->all_rows = true;
    return ERR_OK;
}

static void drop_image(struct node *n)
{
    shard_image_free(n->image);
    row_copy_close(&n->rows);
    n->image = NULL;
}

static void io_save_end(void *ctx)
{
    struct node *n = ctx;
    assert_non_null(n->image);
    drop_image(n);
    n->ended++;
}

/* All rows are there: the file is written. */
static void write_file(struct node *n)
{
    struct checkpoint_file file;
    struct errmsg e = {""};
    assert_true(n->all_rows);
    n->image->blocks.rows = &n->rows.head;
    if (checkpoint_write_shard((struct cut){folder_place(dir), CUT}, &n->image->blocks, &file, &e))
        fail_msg("%s", e.text);
    drop_image(n);
    shard_on_saved(n->shard, CUT, &file, NULL, NULL);
}

static enum err io_load(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *b,
                        struct errmsg *e)
{
    (void)ctx;
    enum err err = checkpoint_load((struct cut){folder_place(dir), cut}, m, e);
    if (!err)
        err = checkpoint_read(folder_place(dir), m, b->first_elem, b->elems, b->w, b->slot, e);
    if (!err && b->wanted)
        err = checkpoint_read_wanted(folder_place(dir), m, b->wanted, e);
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
                                   .save_room = io_save_room,
                                   .save_rows = io_save_rows,
                                   .save_end = io_save_end,
                                   .load = io_load,
                                   .drop_peers = quiet_drop_peers};

/* ---- a cluster ---- */

static struct cluster *cluster_new(uint32_t shards)
{
    struct cluster *c = calloc(1, sizeof *c);
    const struct row_table_spec table[TABLES] = {
        {.name = "wide", .dim = 1},
        {.name = "deep", .dim = 300, .admission = {.min_count = 5, .sketch_mb = 1}}};
    c->shards = shards;
    quiet_tables(&c->layout, &c->plan, shards, table, TABLES);
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
    row_set_stamp(t, row, k % CLOCK);
    row_set_count(t, row, (uint32_t)k * 3);
    for (uint32_t j = 0; j < t->dim; j++)
        row_weights(t, row)[j] = rng_unit(key, j);
    for (uint32_t j = 0; j < t->slot_floats; j++)
        row_slots(t, row)[j] = rng_unit(key, 1000 + j);
}

static void add_rows(struct cluster *c, uint64_t keys)
{
    for (uint32_t i = 0; i < c->shards; i++)
        c->node[i].shard->rows.clock_before = CLOCK;
    for (uint64_t k = 0; k < keys; k++) {
        struct row_table *t = owner(c, mixed_of(k))->rows.tables.table[k % TABLES];
        uint32_t row;
        assert_int_equal(row_table_add(t, mixed_of(k), &row), ERR_OK);
        fill_row(t, row, k);
    }
}

/* Touches of other keys than those that have rows, some twice. */
static void count_touches(struct cluster *c, uint64_t keys)
{
    for (uint64_t k = 0; k < keys; k++) {
        uint64_t mixed = mixed_of(1000000 + k * 2 / 3);
        uint32_t undo;
        (void)row_admit_touch(&owner(c, mixed)->rows.tables.admit[1], mixed, 1, &undo);
    }
}

static void assert_counts(struct cluster *c, uint64_t keys)
{
    struct row_admit want;
    assert_int_equal(row_admit_init(&want, &c->layout.rows->table[1],
                                    (struct bucket_range){0, ROW_BUCKETS}, c->settings.seed),
                     ERR_OK);
    for (uint64_t k = 0; k < keys; k++) {
        uint32_t undo;
        (void)row_admit_touch(&want, mixed_of(1000000 + k * 2 / 3), 1, &undo);
    }
    for (uint32_t b = 0; b < ROW_BUCKETS; b++) {
        const struct row_admit *is = &owner(c, row_bucket_first(b))->rows.tables.admit[1];
        assert_memory_equal(row_admit_sketch(is, b), row_admit_sketch(&want, b), 256);
    }
    row_admit_close(&want);
}

static void assert_rows(struct cluster *c, uint64_t keys)
{
    uint64_t rows = 0;
    for (uint64_t k = 0; k < keys; k++) {
        struct row_table *t = owner(c, mixed_of(k))->rows.tables.table[k % TABLES];
        uint64_t mixed = mixed_of(k), key = rng_key(k, RNG_TEST, 0, 0);
        uint32_t row;
        assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
        assert_int_equal(row_stamp(t, row), k % CLOCK);
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

/* A cut of step 0, up to CUT_COPIED. */
static void begin_cut(struct cluster *c)
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

/* Up to CUT_SAVED. */
static void save(struct cluster *c)
{
    begin_cut(c);
    for (uint32_t i = 0; i < c->shards; i++) {
        while (shard_copy(c->node[i].shard))
            ;
        write_file(&c->node[i]);
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
    if (checkpoint_publish(folder_place(dir), &m, &e))
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
        count_touches(c, KEYS);
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
            assert_counts(c, KEYS);
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
    count_touches(c, 10);
    enter(c, GRADWIRE__ENTER_MODE__RESTORE); /* the pushes after the cut are gone */
    assert_rows(c, 0);
    assert_counts(c, 0);
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
    assert_non_null(strstr(c->node[1].error, "its tables differ from the expected ones"));
    assert_false(shard_facts(c->node[1].shard).entered);
    end(c);
}

static void no_memory_to_begin_a_cut_fails_the_cut_alone(void **state)
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
        row_cut_end(&c->node[0].shard->rows.tables.cut);
    }
    assert_true(fired >= 6);
    assert_rows(c, 500);
    save(c);
    assert_true(c->node[0].saved);
    end(c);
}

/* The row changes before it is out, and there is no memory to keep it as it was. */
static void no_memory_to_keep_a_row_fails_the_cut_alone(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    struct shard *s = c->node[0].shard;
    uint64_t mixed = mixed_of(498);
    uint32_t row;
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    add_rows(c, 500);
    begin_cut(c);
    assert_true(shard_copy(s));
    assert_int_equal(row_table_find(s->rows.tables.table[0], &mixed, 1, &row), 1);
    mem_fail_at(0);
    row_cut_keep(&s->rows.tables.cut, 0, &mixed, &row, 1);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_true(shard_copy(s));
    assert_int_equal(c->node[0].ended, 1);
    assert_non_null(strstr(c->node[0].error, "no memory to keep rows"));
    while (shard_copy(s)) /* memory */
        ;
    assert_rows(c, 500);
    end(c);
}

/* A cut that is over: its writer ends, and its rows are not copied any more. Not so if it is saved. */
static void a_cut_that_ends_ends_its_writer(void **state)
{
    (void)state;
    Gradwire__Generation g = quiet_generation(1);
    Gradwire__CutEnded over = GRADWIRE__CUT_ENDED__INIT;
    over.generation = &g;
    over.cut = CUT;
    for (int how = 0; how < 4; how++) {
        struct cluster *c = cluster_new(1);
        struct shard *s = c->node[0].shard;
        enter(c, GRADWIRE__ENTER_MODE__INIT);
        add_rows(c, 500);
        begin_cut(c);
        assert_true(shard_copy(s));
        if (how == 0)
            shard_on_chief(s, FRAME_CUT_ENDED, &over.base);
        else if (how == 1)
            enter(c, GRADWIRE__ENTER_MODE__INIT);
        else if (how == 2)
            enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
        else
            shard_on_saved(s, CUT, NULL, NULL, "No space left on device");
        assert_int_equal(c->node[0].ended, how < 3);
        assert_false(s->rows.tables.cut.on);
        while (shard_copy(s)) /* memory */
            ;
        if (how == 3)
            drop_image(&c->node[0]);
        end(c);
    }
    struct cluster *c = cluster_new(1);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    save(c);
    shard_on_chief(c->node[0].shard, FRAME_CUT_ENDED, &over.base);
    assert_int_equal(c->node[0].ended, 0);
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

/* An older cut may be on storage that works; without descriptors none can be read. */
static void a_shard_tells_the_chief_whether_an_older_cut_may_be_readable(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    add_rows(c, 500);
    save(c);
    publish(c);
    const struct {
        int error;
        bool corrupt;
    } all[] = {{EIO, true}, {ENOENT, true}, {EMFILE, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        files_fail_read_at(0, all[i].error);
        enter(c, GRADWIRE__ENTER_MODE__RESTORE);
        assert_true(files_fail_read_fired());
        assert_false(shard_facts(c->node[0].shard).entered);
        assert_non_null(strstr(c->node[0].error, strerror(all[i].error)));
        assert_int_equal(c->node[0].corrupt, all[i].corrupt);
    }
    files_fail_read_at(-1, 0);
    enter(c, GRADWIRE__ENTER_MODE__RESTORE);
    assert_rows(c, 500);
    end(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_of_a_cut_load_into_any_number_of_shards),
        TEST(a_cut_of_tables_without_rows_loads_as_such),
        TEST(the_table_clock_goes_on_where_the_cut_had_it),
        TEST(a_cut_of_other_tables_is_refused_by_its_files_name),
        TEST(no_memory_to_begin_a_cut_fails_the_cut_alone),
        TEST(no_memory_to_keep_a_row_fails_the_cut_alone),
        TEST(a_cut_that_ends_ends_its_writer),
        TEST(no_memory_for_rows_that_are_restored_is_said),
        TEST(a_shard_tells_the_chief_whether_an_older_cut_may_be_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
