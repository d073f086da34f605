/* The chief's end of the transfer of a cut's files, against a ps that sends what no ps should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/checkpoint/checkpoint.h"
#include "tests/lib/folder.h"
#include "worker/chief/store_server.h"

enum { ELEMS = 1000, CUT = 3, THREADS = 2, REQUEST = 9 };

/* The chief's control thread, as far as the store needs it: it counts answers, and keeps the last one's text. */
static struct fixture {
    struct control control;
    struct disk_thread disk;
    struct store_server server;
    struct store_peer ps; /* ps 1 */
    char checkpoints[FOLDER_BYTES + 16];
    uint8_t *file; /* a shard's file, as a ps writes it */
    size_t bytes;
    uint32_t answers;
    char error[sizeof(struct errmsg)]; /* of the last answer; "": none */
    uint64_t have;                     /* bytes that the chief has, by the last answer */
} f;

static void on_letter(void *arg, struct mail *m)
{
    (void)arg;
    const struct store_server_answer *a = m->data;
    assert_int_equal(m->type, HOST_STORED);
    (void)snprintf(f.error, sizeof f.error, "%s", a->head.error);
    f.have = a->head.offset;
    f.answers++;
    f.ps.asks--;
    if (!f.ps.asks)
        loop_stop(&f.control.loop);
}

static void write_shard(void)
{
    static float w[ELEMS] = {1, 2, 3};
    struct errmsg e = {""};
    char path[FILES_PATH_MAX], folder[FOLDER_BYTES + 16];
    struct checkpoint_shard s = {.shard = 1, .elems = ELEMS, .w = w};
    struct checkpoint_file made;
    (void)snprintf(folder, sizeof folder, "%s/made", folder_dir);
    assert_int_equal(checkpoint_write_shard((struct cut){folder_place(folder), CUT}, &s, &made, &e),
                     ERR_OK);
    assert_int_equal(folder_cut_path(path, folder, CUT, made.name), ERR_OK);
    assert_int_equal(files_read(path, 1 << 20, &f.file, &f.bytes, &e), ERR_OK);
}

static int open_fixture(void **state)
{
    if (folder_setup(state))
        return -1;
    f = (struct fixture){.ps = {.ps = 1, .connection = 5, .most = 2 * THREADS}};
    (void)snprintf(f.checkpoints, sizeof f.checkpoints, "%s/checkpoints", folder_dir);
    if (loop_init(&f.control.loop) || mailbox_init(&f.control.in, &f.control.loop, on_letter, NULL))
        return -1;
    disk_thread_init(&f.disk);
    store_server_init(&f.server, folder_place(f.checkpoints), &f.control, &f.disk);
    write_shard();
    return 0;
}

static int close_fixture(void **state)
{
    disk_thread_close(&f.disk);
    store_server_close(&f.server);
    mailbox_close(&f.control.in);
    loop_close(&f.control.loop);
    mem_free(f.file);
    return folder_teardown(state);
}

/* ---- the ps ---- */

struct piece {
    const char *file;
    uint64_t request, cut, offset;
    bool last, given_up; /* given_up: the chief does not wait for this cut any more */
};

static enum err post(struct piece p, const uint8_t *data, size_t bytes)
{
    Gradwire__StorePut m = GRADWIRE__STORE_PUT__INIT;
    uint8_t *body = mem_zalloc(bytes + 1, 1);
    if (bytes)
        memcpy(body, data, bytes);
    m.request = p.request ? p.request : REQUEST;
    m.cut = p.cut ? p.cut : CUT;
    m.file = (char *)(p.file ? p.file : "shard-1.gw");
    m.offset = p.offset;
    m.last = p.last;
    return store_server_put(&f.server, &f.ps, &m, body, bytes, !p.given_up);
}

/* Until every piece is answered. */
static void await(void)
{
    if (f.ps.asks)
        assert_int_equal(loop_run(&f.control.loop), ERR_OK);
    assert_int_equal(f.ps.asks, 0);
}

static void put(struct piece p, const uint8_t *data, size_t bytes)
{
    assert_int_equal(post(p, data, bytes), ERR_OK);
    await();
}

static void put_whole(const uint8_t *data, size_t bytes)
{
    put((struct piece){.last = true}, data, bytes);
}

/* The number of files in the cut's directory, with those that are half written; those are *half. */
static int files_there(uint64_t cut, int *half)
{
    char path[FILES_PATH_MAX];
    int files = 0;
    *half = 0;
    assert_int_equal(folder_cut_path(path, f.checkpoints, cut, ""), ERR_OK);
    DIR *d = opendir(path);
    for (struct dirent *one = d ? readdir(d) : NULL; one; one = readdir(d)) {
        files += one->d_name[0] != '.';
        *half += strstr(one->d_name, FILES_TEMPORARY) != NULL;
    }
    if (d)
        (void)closedir(d);
    return files;
}

static void assert_none_there(uint64_t cut)
{
    int half;
    assert_int_equal(files_there(cut, &half), 0);
}

/* ---- the tests ---- */

static void a_file_that_comes_whole_is_stored(void **state)
{
    (void)state;
    int half;
    put((struct piece){0}, f.file, f.bytes / 2);
    assert_string_equal(f.error, "");
    assert_int_equal(f.have, f.bytes / 2);
    put((struct piece){.offset = f.bytes / 2, .last = true}, f.file + f.bytes / 2,
        f.bytes - f.bytes / 2);
    assert_string_equal(f.error, "");
    assert_int_equal(files_there(CUT, &half), 1);
    assert_int_equal(half, 0);
}

static void a_name_that_is_no_shards_file_ends_the_connection(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest.gw",        "encoding.json", "../shard-1.gw",
                                        "/tmp/shard-1.gw",    "shard-1.gw/..", "shard-1.gw\n",
                                        "shard--1.gw",        "shard-01.gw",   "",
                                        "shard-4294967296.gw"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(post((struct piece){.file = names[i], .last = true}, f.file, f.bytes),
                         ERR_PROTO);
    assert_int_equal(post((struct piece){.last = true}, f.file, 0), ERR_PROTO); /* without bytes */
    assert_int_equal(f.ps.asks, 0);
    assert_none_there(CUT);
}

static void a_damaged_file_is_refused_and_named(void **state)
{
    (void)state;
    static const struct {
        const char *what, *why;
    } cases[] = {
        {"cut off", "shard-1.gw: corrupt: "},
        {"one byte more", "shard-1.gw: corrupt: "},
        {"frame", "shard-1.gw: corrupt: the checksum of frame 0 differs"},
        {"head", "shard-1.gw: corrupt: the head's checksum differs"},
        {"head of 4 GiB", "shard-1.gw: corrupt: "},
        {"short", "shard-1.gw: corrupt: it ends early (3 bytes)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *bad = mem_zalloc(f.bytes + 1, 1);
        size_t bytes = i == 0 ? f.bytes - 1 : i == 1 ? f.bytes + 1 : i == 5 ? 3 : f.bytes;
        memcpy(bad, f.file, f.bytes);
        if (i == 2)
            bad[CHECKPOINT_MAGIC_BYTES + 20] ^= 1;
        else if (i == 3)
            bad[f.bytes - CHECKPOINT_TAIL_BYTES - 1] ^= 1;
        else if (i == 4)
            memset(bad + f.bytes - CHECKPOINT_TAIL_BYTES, 0xff, 4);
        put_whole(bad, bytes);
        mem_free(bad);
        if (!strstr(f.error, cases[i].why))
            fail_msg("%s: \"%s\"", cases[i].what, f.error);
        assert_non_null(strstr(f.error, f.checkpoints));
        assert_null(strstr(f.error, FILES_TEMPORARY));
        assert_none_there(CUT);
    }
}

static void pieces_in_another_order_or_twice_are_refused(void **state)
{
    (void)state;
    put((struct piece){.offset = 5}, f.file, 5);
    assert_non_null(strstr(f.error, "its beginning is missing"));
    put((struct piece){0}, f.file, 10);
    put((struct piece){.offset = 20}, f.file + 20, 10);
    assert_non_null(strstr(f.error, "received a piece at offset 20, but 10 is next"));
    put((struct piece){0}, f.file, 10);
    put((struct piece){.offset = UINT64_MAX - 3}, f.file, 10);
    assert_non_null(strstr(f.error, "but 10 is next"));
    put((struct piece){.offset = 10, .last = true}, f.file, 10); /* that try was over */
    assert_non_null(strstr(f.error, "its beginning is missing"));
    put_whole(f.file, f.bytes);
    assert_string_equal(f.error, "");
    put((struct piece){.offset = f.bytes, .last = true}, f.file, 10); /* more than there was */
    assert_non_null(strstr(f.error, "its beginning is missing"));
    assert_none_there(CUT + 1);
}

static void a_file_for_which_the_chief_does_not_wait_leaves_nothing(void **state)
{
    (void)state;
    int half;
    put((struct piece){.given_up = true, .cut = 77, .last = true}, f.file, f.bytes);
    assert_non_null(strstr(f.error, "shard-1.gw of checkpoint 77 is refused: the chief does not "
                                    "wait for it"));
    assert_none_there(77);
    put((struct piece){0}, f.file, 10);
    put((struct piece){.given_up = true, .offset = 10}, f.file + 10, 10);
    assert_non_null(strstr(f.error, "does not wait for it"));
    assert_int_equal(files_there(CUT, &half), 0);
}

/* Its ps sends no more of it. */
static void a_checkpoint_that_is_given_up_leaves_nothing(void **state)
{
    (void)state;
    int half;
    put((struct piece){.offset = 0}, f.file, f.bytes / 2);
    assert_non_null(f.server.arrivals);
    assert_int_equal(post((struct piece){.request = 10, .file = "shard-3.gw"}, f.file, 10), ERR_OK);
    store_server_discard(&f.server, CUT);
    assert_int_equal(
        post((struct piece){.request = 11, .file = "shard-5.gw", .cut = CUT + 1}, f.file, 10),
        ERR_OK);
    await();
    assert_int_equal(files_there(CUT, &half), 0);
    assert_int_equal(files_there(CUT + 1, &half), 1);
    assert_non_null(f.server.arrivals); /* of the other checkpoint */
}

static void a_ps_holds_no_more_files_open_than_it_has_shards(void **state)
{
    (void)state;
    int half;
    for (uint64_t i = 0; i < 100; i++) /* each with a number of its own, none of them ends */
        put((struct piece){.request = REQUEST + i, .cut = CUT + i % 2}, f.file, 10);
    assert_int_equal(files_there(CUT, &half) + files_there(CUT + 1, &half), 1);
    store_server_gone(&f.server, &f.ps);
    disk_thread_settle(&f.disk);
    assert_none_there(CUT);
    assert_none_there(CUT + 1);
}

static void pieces_that_do_not_wait_for_answers_end_the_connection(void **state)
{
    (void)state;
    enum { MANY = 20 };
    int refused = 0;
    for (uint64_t i = 0; i < MANY; i++)
        refused += post((struct piece){.offset = 10 * i}, f.file, 10) == ERR_PROTO;
    assert_int_equal(refused, MANY - 2 * THREADS);
    await();
    Gradwire__StoreGet get = GRADWIRE__STORE_GET__INIT;
    get.cut = CUT;
    get.file = (char *)"manifest.gw";
    refused = 0;
    for (uint64_t i = 0; i < MANY; i++)
        refused += store_server_get(&f.server, &f.ps, &get) == ERR_PROTO;
    assert_int_equal(refused, MANY - 2 * THREADS);
    await();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_comes_whole_is_stored),
        TEST(a_name_that_is_no_shards_file_ends_the_connection),
        TEST(a_damaged_file_is_refused_and_named),
        TEST(pieces_in_another_order_or_twice_are_refused),
        TEST(a_file_for_which_the_chief_does_not_wait_leaves_nothing),
        TEST(a_checkpoint_that_is_given_up_leaves_nothing),
        TEST(a_ps_holds_no_more_files_open_than_it_has_shards),
        TEST(pieces_that_do_not_wait_for_answers_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
