/* Rows on their way from a shard's thread to the writer of its cut: in order, in bounded memory, and no wait on the shard's
 * side; the end of a save that is given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/process/files.h"
#include "ps/cut_save.h"
#include "tests/lib/folder.h"

enum { DIM = 2000, SLOTS = 2000, GROUP = 16, CUT = 4, ELEMS = 8 };

static char *const dir = folder_dir;
static const struct checkpoint_table TABLE[1] = {{.name = "t", .dim = DIM, .slots = SLOTS}};

/* Group i: GROUP rows of bucket i. */
static void group(uint64_t i, struct row_group *g)
{
    static uint64_t mixed[GROUP], stamp[GROUP];
    static uint32_t count[GROUP];
    static float values[GROUP * (DIM + SLOTS)];
    for (uint64_t k = 0; k < GROUP; k++) {
        mixed[k] = (i << (64 - ROW_BUCKET_BITS)) + k;
        stamp[k] = i + k;
        count[k] = (uint32_t)(i * k);
    }
    for (uint64_t k = 0; k < GROUP * (DIM + SLOTS); k++)
        values[k] = (float)(i + k);
    *g = (struct row_group){.bucket = (uint32_t)i,
                            .rows = GROUP,
                            .mixed = mixed,
                            .stamp = stamp,
                            .count = count,
                            .values = values};
}

static void assert_group(uint64_t i, const struct row_group *g)
{
    struct row_group want;
    group(i, &want);
    assert_int_equal(g->bucket, want.bucket);
    assert_int_equal(g->rows, GROUP);
    assert_memory_equal(g->mixed, want.mixed, GROUP * sizeof *g->mixed);
    assert_memory_equal(g->stamp, want.stamp, GROUP * sizeof *g->stamp);
    assert_memory_equal(g->count, want.count, GROUP * sizeof *g->count);
    assert_memory_equal(g->values, want.values, GROUP * (DIM + SLOTS) * sizeof *g->values);
}

static void count_room(void *ctx)
{
    ++*(int *)ctx;
}

/* One thread plays both. */
static void a_full_pipe_has_no_room_until_a_piece_is_read(void **state)
{
    (void)state;
    struct row_pipe p;
    struct row_group g;
    uint64_t put = 0, got = 0;
    int rooms = 0;
    row_pipe_open(&p, TABLE, 1, count_room, &rooms);
    for (; put < 300; put++) {
        while (!row_pipe_room(&p)) {
            int before = rooms;
            while (rooms == before) {
                assert_int_equal(row_pipe_next(&p, &g, NULL), ERR_OK);
                assert_group(got++, &g);
            }
        }
        group(put, &g);
        assert_int_equal(row_pipe_put(&p, &g), ERR_OK);
        assert_true(put - got <= ROW_PIPE_PIECES * 4); /* four groups fill a piece */
    }
    assert_true(rooms > 20);
    row_pipe_end(&p);
    for (;; got++) {
        assert_int_equal(row_pipe_next(&p, &g, NULL), ERR_OK);
        if (g.rows == 0)
            break;
        assert_group(got, &g);
    }
    assert_int_equal(got, put);
    row_pipe_close(&p);
}

/* Full pieces that wait are not read any more. */
static void a_pipe_that_is_given_up_ends_at_the_next_piece(void **state)
{
    (void)state;
    struct row_pipe p;
    struct row_group g;
    int rooms = 0, read = 0;
    row_pipe_open(&p, TABLE, 1, count_room, &rooms);
    for (uint64_t i = 0; i < 16; i++) {
        group(i, &g);
        assert_int_equal(row_pipe_put(&p, &g), ERR_OK);
    }
    assert_int_equal(row_pipe_next(&p, &g, NULL), ERR_OK);
    row_pipe_give_up(&p);
    while (row_pipe_next(&p, &g, NULL) == ERR_OK)
        read++;
    assert_true(read < 4);
    row_pipe_close(&p);
}

static void no_memory_for_a_piece_is_an_error(void **state)
{
    (void)state;
    struct row_pipe p;
    struct row_group g;
    int rooms = 0;
    row_pipe_open(&p, TABLE, 1, count_room, &rooms);
    group(0, &g);
    mem_fail_at(0);
    assert_int_equal(row_pipe_put(&p, &g), ERR_NOMEM);
    mem_fail_at(-1);
    assert_int_equal(row_pipe_put(&p, &g), ERR_OK);
    row_pipe_close(&p);
}

/* ---- a save ---- */

struct saves {
    struct disk_thread writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t rooms, done;
    struct cut_saved last;
};

static void on_room(void *ctx)
{
    struct saves *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->rooms++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_done(void *ctx, struct cut_saved *take)
{
    struct saves *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->last = *take;
    s->done++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    mem_free(take);
}

static void wait_for(struct saves *s, const uint64_t *what, uint64_t n)
{
    pthread_mutex_lock(&s->lock);
    while (*what < n)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static struct saves *saves_new(void)
{
    struct saves *s = calloc(1, sizeof *s);
    disk_thread_init(&s->writer);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return s;
}

/* The writer's thread must come to its end. */
static void saves_free(struct saves *s)
{
    disk_thread_close(&s->writer);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static struct cut_save *begin(struct saves *s, uint64_t cut, const char *at, bool rows)
{
    const struct cut_save_config config = {
        .place = folder_place(at), .on_room = on_room, .on_done = on_done, .ctx = s};
    struct shard_image *image = mem_zalloc(1, sizeof *image);
    struct cut_save *save;
    image->cut = cut;
    image->blocks = (struct checkpoint_shard){.elems = ELEMS, .w = mem_floats(ELEMS)};
    image->table[0] = TABLE[0];
    image->rows = (struct checkpoint_rows){
        .buckets = {0, ROW_BUCKETS}, .clock = 9, .tables = 1, .table = image->table};
    image->blocks.rows = rows ? &image->rows : NULL;
    assert_int_equal(cut_save_begin(&save, &s->writer, &config, image), ERR_OK);
    assert_int_equal(cut_save_number(save), cut);
    return save;
}

/* As the shard's thread: without room it waits for a message, and does not try again before. */
static void put_groups(struct saves *s, struct cut_save *save, uint64_t groups)
{
    struct row_group g;
    for (uint64_t i = 0; i < groups; i++) {
        for (uint64_t rooms = s->rooms; !cut_save_room(save); rooms++)
            wait_for(s, &s->rooms, rooms + 1);
        group(i, &g);
        assert_int_equal(cut_save_rows(save, &g), ERR_OK);
    }
}

static const struct row_group none;

/* Groups are cut where a frame ends. */
static enum err take_rows(void *ctx, const struct row_group *g, struct errmsg *e)
{
    uint64_t *rows = ctx;
    (void)e;
    for (uint32_t i = 0; i < g->rows; i++, ++*rows) {
        struct row_group want;
        uint64_t k = *rows % GROUP;
        group(*rows / GROUP, &want);
        assert_int_equal(g->bucket, want.bucket);
        assert_int_equal(g->mixed[i], want.mixed[k]);
        assert_int_equal(g->stamp[i], want.stamp[k]);
        assert_int_equal(g->count[i], want.count[k]);
        assert_memory_equal(g->values + (size_t)i * (DIM + SLOTS), want.values + k * (DIM + SLOTS),
                            (DIM + SLOTS) * sizeof(float));
    }
    return ERR_OK;
}

static void a_file_has_the_rows_that_came_through_the_pipe(void **state)
{
    (void)state;
    enum { GROUPS = 100 };
    struct saves *s = saves_new();
    struct cut_save *save = begin(s, CUT, dir, true);
    put_groups(s, save, GROUPS);
    assert_int_equal(cut_save_rows(save, &none), ERR_OK);
    cut_save_end(save); /* all are in: it may come to its end */
    wait_for(s, &s->done, 1);
    assert_int_equal(s->last.err, ERR_OK);
    assert_false(s->last.given_up);
    assert_int_equal(s->last.file.rows, GROUPS * GROUP);
    assert_int_equal(s->last.file.clock, 9);
    struct errmsg e;
    struct manifest made = {.cut = CUT,
                            .tables = true,
                            .total_elems = ELEMS,
                            .files = 1,
                            .file = &s->last.file},
                    m;
    uint64_t rows = 0;
    const struct row_sink sink = {.rows = take_rows, .ctx = &rows};
    assert_int_equal(checkpoint_publish(folder_place(dir), &made, &e), ERR_OK);
    assert_int_equal(checkpoint_load((struct cut){folder_place(dir), CUT}, &m, &e), ERR_OK);
    assert_int_equal(checkpoint_read_rows(folder_place(dir), &m,
                                          (struct bucket_range){0, ROW_BUCKETS}, &sink, &e),
                     ERR_OK);
    assert_int_equal(rows, GROUPS * GROUP);
    manifest_close(&m);
    saves_free(s);
}

/* Its rows never end: without the word that they are not wanted the writer would wait for ever. */
static void a_save_that_is_given_up_ends_its_writer_and_leaves_no_file(void **state)
{
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        struct saves *s = saves_new();
        struct cut_save *save = begin(s, CUT, dir, true);
        char path[FILES_PATH_MAX];
        put_groups(s, save, 60);
        if (ended)
            cut_save_end(save);
        else
            cut_save_give_up(save);
        wait_for(s, &s->done, 1);
        assert_int_equal(s->last.err, ERR_CLOSED);
        assert_true(s->last.given_up);
        (void)snprintf(path, sizeof path, "%s/cut-%010d/shard-0.gw", dir, CUT);
        assert_int_not_equal(access(path, F_OK), 0);
        saves_free(s);
    }
}

/* The one before it still waits for rows: the next one's place is free immediately, and the one that waited in between is not
 * written. */
static void a_save_that_waits_for_the_writer_is_dropped_when_it_is_given_up(void **state)
{
    (void)state;
    struct saves *s = saves_new();
    struct cut_save *first = begin(s, CUT, dir, true);
    put_groups(s, first, 60); /* more than the pipe holds: its writer has begun */
    for (int rows = 0; rows < 2; rows++)
        cut_save_give_up(begin(s, CUT + 1 + (uint64_t)rows, dir, rows));
    struct cut_save *last = begin(s, CUT + 3, dir, false);
    cut_save_give_up(first);
    wait_for(s, &s->done, 2);
    assert_int_equal(s->last.cut, CUT + 3);
    assert_int_equal(s->last.err, ERR_OK);
    cut_save_end(last);
    saves_free(s);
}

static void a_disk_that_fails_is_told_while_rows_still_come(void **state)
{
    (void)state;
    struct saves *s = saves_new();
    struct cut_save *save = begin(s, CUT, "/dev/null/no-folder", true);
    wait_for(s, &s->done, 1);
    assert_int_equal(s->last.err, ERR_IO);
    struct row_group g;
    for (uint64_t i = 0; cut_save_room(save); i++) {
        group(i, &g);
        assert_int_equal(cut_save_rows(save, &g), ERR_OK);
    }
    cut_save_end(save);
    saves_free(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_pipe_has_no_room_until_a_piece_is_read),
        TEST(a_pipe_that_is_given_up_ends_at_the_next_piece),
        TEST(no_memory_for_a_piece_is_an_error),
        TEST(a_file_has_the_rows_that_came_through_the_pipe),
        TEST(a_save_that_is_given_up_ends_its_writer_and_leaves_no_file),
        TEST(a_save_that_waits_for_the_writer_is_dropped_when_it_is_given_up),
        TEST(a_disk_that_fails_is_told_while_rows_still_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
