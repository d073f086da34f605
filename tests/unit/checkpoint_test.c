#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "proto/checkpoint.pb-c.h"
#include "tests/lib/folder.h"
#include "worker/chief/host.h"

enum { SLOTS = 2 };

static char *const dir = folder_dir;

/* ---- a cluster's state, as floats that tell where they belong ---- */

struct blocks {
    uint64_t elems;
    float *block[1 + SLOTS]; /* weights, slots: (elems) each */
};

static struct blocks blocks_new(uint64_t elems, uint64_t seed)
{
    struct blocks b = {.elems = elems};
    for (uint64_t i = 0; i < 1 + SLOTS; i++) {
        b.block[i] = mem_floats(elems);
        for (uint64_t j = 0; j < elems; j++)
            b.block[i][j] = rng_unit(rng_key(seed, RNG_TEST, i, 0), j) - 0.5f;
    }
    return b;
}

static void blocks_free(struct blocks *b)
{
    for (int i = 0; i < 1 + SLOTS; i++)
        mem_free(b->block[i]);
}

/* Shards by even runs of 16 elements, some of which may be empty. */
static uint64_t border(uint64_t elems, uint32_t shards, uint32_t i)
{
    return i == shards ? elems : elems / 16 * i / shards * 16;
}

static enum err write_shards(const struct blocks *b, uint64_t cut, uint64_t generation,
                             uint32_t shards, struct checkpoint_file *file, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < shards && !err; i++) {
        uint64_t first = border(b->elems, shards, i);
        struct checkpoint_shard s = {
            .generation = generation,
            .shard = i,
            .first_elem = first,
            .elems = border(b->elems, shards, i + 1) - first,
            .slots = SLOTS,
            .w = b->block[0] + first,
            .slot = {b->block[1] + first, b->block[2] + first},
        };
        err = checkpoint_write_shard((struct cut){folder_place(dir), cut}, &s, &file[i], e);
    }
    return err;
}

static char identity[] = "model = mlp\ntraining.seed = 1\n";
static uint8_t window_bits[] = {0xa5, 0x01};
static uint32_t ps_threads[] = {2, 1};

static struct manifest manifest_of(const struct blocks *b, uint64_t cut, uint32_t shards,
                                   struct checkpoint_file *file)
{
    struct manifest m = {
        .cut = cut,
        .generation = 7,
        .uuid = "3b241101-e2bb-4255-8caf-4136c566a962",
        .final = true,
        .step = 1200,
        .t = 1201,
        .dealt = 1202,
        .duplicates = 3,
        .clipped = 5,
        .dropped = 6,
        .total_elems = b->elems,
        .slots = SLOTS,
        .microbatches = 4,
        .mark = UINT64_MAX,
        .window_bits_bytes = sizeof window_bits,
        .window_bits = window_bits,
        .epoch[1] =
            {.epoch = 1, .batches = 5, .examples = 320, .loss = 0.1, .metric = {0.3, 1e300}},
        .eval = {.loss = 0.25, .metric = {0.5}, .step = 1100, .valid = true},
        .seconds = 12.5,
        .restarts = 2,
        .identity_text = identity,
        .data_fingerprint = {1, 2, [31] = 255},
        .files = shards,
        .file = file,
        .ps = 2,
        .ps_threads = ps_threads,
    };
    return m;
}

static enum err write_cut(const struct blocks *b, uint64_t cut, uint32_t shards, struct errmsg *e)
{
    struct checkpoint_file file[16];
    enum err err = write_shards(b, cut, 7, shards, file, e);
    struct manifest m = manifest_of(b, cut, shards, file);
    return err ? err : checkpoint_publish(folder_place(dir), &m, e);
}

/* The call fills `e`. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        struct errmsg e = {""};                                                                    \
        enum err call_err = (call);                                                                \
        if (call_err)                                                                              \
            fail_msg("%s: %s", err_str(call_err), e.text);                                         \
    } while (0)

/* Load a cut and read it whole, in `ranges` ranges. */
static enum err load_and_compare(const struct blocks *b, uint64_t cut, uint32_t ranges,
                                 struct errmsg *e)
{
    struct manifest m;
    enum err err = checkpoint_load((struct cut){folder_place(dir), cut}, &m, e);
    if (err)
        return err;
    struct blocks r = {.elems = b->elems};
    for (int i = 0; i < 1 + SLOTS; i++)
        r.block[i] = calloc(b->elems + 1, sizeof(float));
    for (uint32_t i = 0; i < ranges && !err; i++) {
        uint64_t first = b->elems * i / ranges, end = b->elems * (i + 1) / ranges;
        float *slot[OPTIMIZER_SLOTS_MAX] = {r.block[1] + first, r.block[2] + first};
        err =
            checkpoint_read(folder_place(dir), &m, first, end - first, r.block[0] + first, slot, e);
    }
    for (int i = 0; i < 1 + SLOTS && !err; i++)
        assert_memory_equal(r.block[i], b->block[i], b->elems * sizeof(float));
    blocks_free(&r);
    manifest_close(&m);
    return err;
}

static const char *path_of(uint64_t cut, const char *name)
{
    static char path[FILES_PATH_MAX];
    assert_int_equal(folder_cut_path(path, dir, cut, name), ERR_OK);
    return path;
}

static uint8_t *slurp(const char *path, size_t *bytes)
{
    uint8_t *data;
    assert_ok(files_read(path, 1 << 28, &data, bytes, &e));
    return data;
}

static void spill(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

/* ---- round trips ---- */

static void a_checkpoint_of_three_shards_loads_into_any_number_of_ranges(void **state)
{
    (void)state;
    struct blocks b = blocks_new(3 * 1000 + 40, 1);
    assert_ok(write_cut(&b, 4, 3, &e));
    for (uint32_t ranges = 1; ranges <= 7; ranges++)
        assert_ok(load_and_compare(&b, 4, ranges, &e));
    blocks_free(&b);
}

static void a_shard_of_several_frames_is_read_from_any_element_to_any(void **state)
{
    (void)state;
    uint64_t n = 2 * CHECKPOINT_FRAME_ELEMS + 1000, f = CHECKPOINT_FRAME_ELEMS;
    struct blocks b = blocks_new(n, 2);
    assert_ok(write_cut(&b, 1, 1, &e));
    struct manifest m;
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 1}, &m, &e));
    float *got = malloc((n + 1) * sizeof *got);
    uint64_t at[] = {0, 1, f - 1, f, f + 1, 2 * f - 1, 2 * f, n - 1, n};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        for (size_t j = i; j < sizeof at / sizeof *at; j++) {
            uint64_t first = at[i], count = at[j] - at[i];
            float *slot[OPTIMIZER_SLOTS_MAX] = {NULL, got};
            got[count] = 77;
            assert_ok(checkpoint_read(folder_place(dir), &m, first, count, got, NULL, &e));
            assert_memory_equal(got, b.block[0] + first, count * sizeof *got);
            assert_ok(checkpoint_read(folder_place(dir), &m, first, count, NULL, slot, &e));
            assert_memory_equal(got, b.block[2] + first, count * sizeof *got);
            assert_true(got[count] == 77); /* nothing behind the range is touched */
        }
    }
    assert_ok(checkpoint_verify(folder_place(dir), &m, &e));
    free(got);
    manifest_close(&m);
    blocks_free(&b);
}

static void shards_without_elements_are_shards_too(void **state)
{
    (void)state;
    struct blocks b = blocks_new(32, 3);
    assert_ok(write_cut(&b, 1, 5, &e));
    assert_ok(load_and_compare(&b, 1, 2, &e));
    struct blocks none = blocks_new(0, 3);
    assert_ok(write_cut(&none, 2, 2, &e));
    assert_ok(load_and_compare(&none, 2, 1, &e));
    blocks_free(&b);
    blocks_free(&none);
}

static void a_manifest_comes_back_as_it_was(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 4);
    struct checkpoint_file file[2];
    assert_ok(write_shards(&b, 9, 7, 2, file, &e));
    struct manifest m = manifest_of(&b, 9, 2, file), r;
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 9}, &r, &e));
    assert_int_equal(r.cut, m.cut);
    assert_int_equal(r.generation, m.generation);
    assert_string_equal(r.uuid, m.uuid);
    assert_true(r.final);
    assert_int_equal(r.step, m.step);
    assert_int_equal(r.t, m.t);
    assert_int_equal(r.dealt, m.dealt);
    assert_int_equal(r.duplicates, m.duplicates);
    assert_int_equal(r.clipped, m.clipped);
    assert_int_equal(r.dropped, m.dropped);
    assert_int_equal(r.total_elems, m.total_elems);
    assert_int_equal(r.slots, m.slots);
    assert_int_equal(r.microbatches, m.microbatches);
    assert_true(r.mark == m.mark);
    assert_int_equal(r.window_bits_bytes, sizeof window_bits);
    assert_memory_equal(r.window_bits, window_bits, sizeof window_bits);
    assert_memory_equal(r.epoch, m.epoch, sizeof m.epoch);
    assert_true(r.eval.valid && r.eval.loss == m.eval.loss && r.eval.step == m.eval.step);
    assert_memory_equal(r.eval.metric, m.eval.metric, sizeof m.eval.metric);
    assert_true(r.seconds == m.seconds);
    assert_int_equal(r.restarts, m.restarts);
    assert_string_equal(r.identity_text, identity);
    assert_memory_equal(r.data_fingerprint, m.data_fingerprint, sizeof m.data_fingerprint);
    assert_int_equal(r.files, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(r.file[i].name, file[i].name);
        assert_int_equal(r.file[i].first_elem, file[i].first_elem);
        assert_int_equal(r.file[i].elems, file[i].elems);
        assert_int_equal(r.file[i].bytes, file[i].bytes);
        assert_int_equal(r.file[i].head_crc, file[i].head_crc);
    }
    assert_int_equal(r.ps, 2);
    assert_memory_equal(r.ps_threads, ps_threads, sizeof ps_threads);
    struct manifest copied;
    uint8_t *was, *is;
    size_t was_bytes, is_bytes;
    assert_ok(manifest_copy(&copied, &m, &e));
    assert_ok(manifest_encode(&m, &was, &was_bytes, &e));
    assert_ok(manifest_encode(&copied, &is, &is_bytes, &e));
    assert_int_equal(is_bytes, was_bytes);
    assert_memory_equal(is, was, was_bytes);
    mem_free(was);
    mem_free(is);
    manifest_close(&copied);
    manifest_close(&r);
    blocks_free(&b);
}

static void an_empty_manifest_comes_back_as_it_was(void **state)
{
    (void)state;
    struct manifest m = {.cut = 1}, r;
    assert_int_equal(mkdir(path_of(1, NULL), 0777), 0);
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 1}, &r, &e));
    assert_false(r.eval.valid);
    assert_false(r.final);
    assert_int_equal(r.files, 0);
    assert_string_equal(r.identity_text, "");
    manifest_close(&r);
}

static void a_look_finds_what_a_cut_lacks_before_it_is_published(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 5);
    struct checkpoint_file file[2];
    struct errmsg text;
    char path[FILES_PATH_MAX];
    assert_ok(write_shards(&b, 9, 7, 2, file, &e));
    struct manifest m = manifest_of(&b, 9, 2, file);
    uint32_t bad = 0;
    assert_ok(checkpoint_check_files(folder_place(dir), &m, &bad, &e));
    file[1].bytes++;
    assert_int_equal(checkpoint_check_files(folder_place(dir), &m, &bad, &text), ERR_CORRUPT);
    assert_int_equal(bad, 1);
    assert_non_null(strstr(text.text, "its size is"));
    file[1].bytes--;
    assert_ok(folder_cut_path(path, dir, 9, file[1].name));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(checkpoint_check_files(folder_place(dir), &m, &bad, &text), ERR_CORRUPT);
    assert_non_null(strstr(text.text, "shard-1.gw: corrupt: it is missing"));
    blocks_free(&b);
}

/* If the storage does not tell whether a manifest is there, no older cut is used without a word. */
static void a_manifest_that_cannot_be_looked_up_is_passed_over_with_its_name(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 5);
    struct checkpoint_file file[1];
    struct errmsg text = {""};
    char path[FILES_PATH_MAX];
    uint64_t *cuts;
    size_t n;
    for (uint64_t cut = 8; cut < 10; cut++) {
        assert_ok(write_shards(&b, cut, 7, 1, file, &e));
        struct manifest m = manifest_of(&b, cut, 1, file);
        assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    }
    assert_ok(folder_cut_path(path, dir, 9, CHECKPOINT_MANIFEST));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(CHECKPOINT_MANIFEST, path), 0); /* to itself */
    assert_ok(checkpoint_list(folder_place(dir), &cuts, &n, &e));
    assert_int_equal(n, 2);
    struct manifest found;
    assert_int_equal(checkpoint_load_whole((struct cut){folder_place(dir), cuts[0]}, &found, &text),
                     ERR_IO);
    assert_non_null(strstr(text.text, path));
    assert_ok(host_find_cut(folder_place(dir), UINT64_MAX, &found, &e));
    assert_int_equal(found.cut, 8);
    manifest_close(&found);
    mem_free(cuts);
    blocks_free(&b);
}

static void a_manifest_that_nobody_could_read_is_not_written(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 5);
    struct checkpoint_file file[1];
    struct errmsg text;
    assert_ok(write_shards(&b, 9, 7, 1, file, &e));
    struct manifest m = manifest_of(&b, 9, 1, file);
    m.counted = 1; /* rows of a job without tables */
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
    assert_string_equal(text.text,
                        "manifest of checkpoint 9: its row counts do not match its tables");
    m.counted = 0;
    m.cut = UINT64_MAX; /* no other one could follow */
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
    assert_non_null(strstr(text.text, "the number of its checkpoint or generation is impossible"));
    blocks_free(&b);
}

static void a_published_cut_may_be_published_again_as_final(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 5);
    struct checkpoint_file file[1];
    assert_ok(write_shards(&b, 9, 7, 1, file, &e));
    struct manifest m = manifest_of(&b, 9, 1, file), r;
    m.final = false;
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    m.final = true;
    struct errmsg text;
    for (long n = 0; n < 6; n++) { /* a failed try leaves what was there, whole */
        files_fail_at(n, EIO);
        assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_IO);
        assert_true(files_fail_fired());
        assert_ok(load_and_compare(&b, 9, 1, &e));
    }
    files_fail_at(-1, 0);
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 9}, &r, &e));
    assert_true(r.final);
    manifest_close(&r);
    blocks_free(&b);
}

/* ---- faults while reading ---- */

/* Each call that reads fails in turn, with an errno value; returns how many there are. */
static long fail_each_read(const struct blocks *b, int error, enum err want, bool unusable)
{
    for (long n = 0;; n++) {
        struct errmsg text = {""};
        files_fail_read_at(n, error);
        enum err err = load_and_compare(b, 9, 1, &text);
        bool fired = files_fail_read_fired();
        files_fail_read_at(-1, 0);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            return n;
        }
        assert_int_equal(err, want);
        assert_int_equal(checkpoint_unusable(err), unusable);
        assert_non_null(strstr(text.text, "/cut-0000000009/")); /* the file is named */
        assert_non_null(strstr(text.text, strerror(error)));
    }
}

static void
a_cut_whose_storage_fails_is_unusable_and_one_for_which_descriptors_lack_is_not(void **state)
{
    (void)state;
    struct blocks b = blocks_new(4000, 6);
    assert_ok(write_cut(&b, 9, 2, &e));
    assert_true(fail_each_read(&b, EIO, ERR_IO, true) > 10);
    (void)fail_each_read(&b, EMFILE, ERR_FILES, false);
    blocks_free(&b);
}

/* ---- faults while writing ---- */

static void any_failed_write_leaves_the_older_checkpoint_and_no_newer_one(void **state)
{
    (void)state;
    struct blocks b = blocks_new(4000, 6);
    assert_ok(write_cut(&b, 1, 2, &e));
    for (long n = 0;; n++) {
        struct errmsg text = {""};
        files_fail_at(n, ENOSPC);
        enum err err = write_cut(&b, 2, 2, &text);
        bool fired = files_fail_fired();
        files_fail_at(-1, 0);
        uint64_t *cuts;
        size_t count;
        assert_ok(checkpoint_list(folder_place(dir), &cuts, &count, &e));
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            assert_int_equal(count, 2);
            assert_true(
                n >
                20); /* 2 shards of open, 5 writes, fsync, rename, fsync; the manifest; folders */
            mem_free(cuts);
            break;
        }
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(text.text, dir));
        assert_non_null(strstr(text.text, "No space left on device"));
        assert_int_equal(count, 1);
        assert_int_equal(cuts[0], 1);
        mem_free(cuts);
        assert_ok(load_and_compare(&b, 1, 3, &e));
        checkpoint_discard((struct cut){folder_place(dir), 2});
        assert_int_equal(access(path_of(2, NULL), F_OK), -1);
    }
    assert_ok(load_and_compare(&b, 2, 3, &e));
    blocks_free(&b);
}

static void no_memory_is_said_and_leaves_nothing_of_a_checkpoint(void **state)
{
    (void)state;
    struct blocks b = blocks_new(4000, 7);
    for (long n = 0;; n++) {
        struct errmsg text = {""};
        mem_fail_at(n);
        enum err err = write_cut(&b, 2, 2, &text);
        bool fired = mem_fail_fired();
        mem_fail_at(-1);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            assert_true(n >= 11);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_non_null(strstr(text.text, "out of memory"));
        assert_int_equal(access(path_of(2, CHECKPOINT_MANIFEST), F_OK), -1);
    }
    blocks_free(&b);
}

static void no_memory_while_reading_is_said_as_such(void **state)
{
    (void)state;
    struct blocks b = blocks_new(4000, 8);
    assert_ok(write_cut(&b, 2, 2, &e));
    for (long n = 0;; n++) {
        struct errmsg text = {""};
        uint64_t *cuts;
        size_t count;
        mem_fail_at(n);
        enum err err = checkpoint_list(folder_place(dir), &cuts, &count, &text);
        if (!err)
            mem_free(cuts);
        if (!err)
            err = load_and_compare(&b, 2, 3, &text);
        bool fired = mem_fail_fired();
        mem_fail_at(-1);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            assert_true(n >= 15);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_non_null(strstr(text.text, "out of memory"));
    }
    blocks_free(&b);
}

/* In a child with a mount namespace of its own: a file system of 64 KiB at `dir`. */
static int full_disk_child(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=64k") != 0)
        return 77;
    struct blocks small = blocks_new(160, 9), large = blocks_new(40000, 9);
    struct errmsg e = {""};
    bool ok = write_cut(&small, 1, 2, &e) == ERR_OK;
    ok = ok && write_cut(&large, 2, 2, &e) == ERR_IO;
    ok = ok && strstr(e.text, "cut-0000000002/shard-0.gw: No space left on device");
    if (!ok)
        fprintf(stderr, "full disk: %s\n", e.text);
    ok = ok && load_and_compare(&small, 1, 1, &e) == ERR_OK;
    checkpoint_discard((struct cut){folder_place(dir), 2});
    ok =
        ok && write_cut(&small, 3, 2, &e) == ERR_OK && load_and_compare(&small, 3, 1, &e) == ERR_OK;
    blocks_free(&small);
    blocks_free(&large);
    return ok ? 0 : 1;
}

static void a_full_disk_is_named_and_the_older_checkpoint_stays(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(full_disk_child());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("no mount namespaces here (not root): skipped\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- what is read is judged ---- */

static void assert_corrupt_as(const struct blocks *b, const char *path, const char *why)
{
    struct errmsg text = {""};
    assert_int_equal(load_and_compare(b, 2, 3, &text), ERR_CORRUPT);
    if (!strstr(text.text, path) || !strstr(text.text, "corrupt") || strchr(text.text, '\n'))
        fail_msg("\"%s\" does not name %s", text.text, path);
    if (!strstr(text.text, why))
        fail_msg("\"%s\" does not say \"%s\"", text.text, why);
}

static void assert_corrupt(const struct blocks *b, const char *path)
{
    assert_corrupt_as(b, path, "");
}

/* Each length in steps of `step`, and the last ones. */
static void truncate_everywhere(const struct blocks *b, const char *name, size_t step)
{
    char path[FILES_PATH_MAX];
    strcpy(path, path_of(2, name));
    size_t bytes;
    uint8_t *data = slurp(path, &bytes);
    for (size_t n = 0; n<bytes; n += n + 40> bytes ? 1 : step) {
        spill(path, data, n);
        assert_corrupt(b, path);
    }
    spill(path, data, bytes);
    assert_ok(load_and_compare(b, 2, 3, &e));
    mem_free(data);
}

/* ---- formats ---- */

/* As a release would write it whose format is another one: first and last magic say so. */
static void set_format(uint64_t cut, const char *name, char format)
{
    char path[128];
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/cut-%010" PRIu64 "/%s", dir, cut, name);
    uint8_t *data = slurp(path, &bytes);
    data[CHECKPOINT_MAGIC_BYTES - 1] = data[bytes - 1] = (uint8_t)format;
    spill(path, data, bytes);
    mem_free(data);
}

static void a_newer_format_is_refused_naming_both(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest.gw", "shard-1.gw"};
    struct blocks b = blocks_new(640, 1);
    for (size_t i = 0; i < 2; i++) {
        struct errmsg refused = {""};
        char want[128];
        assert_ok(write_cut(&b, 1, 2, &e));
        set_format(1, names[i], '0' + CHECKPOINT_FORMAT + 1);
        assert_int_equal(load_and_compare(&b, 1, 1, &refused), ERR_NEWER);
        (void)snprintf(want, sizeof want, "%s: a newer release wrote it, in format %d; this one, ",
                       names[i], CHECKPOINT_FORMAT + 1);
        assert_non_null(strstr(refused.text, want));
        (void)snprintf(want, sizeof want, "reads formats %d to %d", CHECKPOINT_FORMAT_FIRST,
                       CHECKPOINT_FORMAT);
        assert_non_null(strstr(refused.text, want));
        set_format(1, names[i], '0'); /* none had it */
        assert_int_equal(load_and_compare(&b, 1, 1, &refused), ERR_CORRUPT);
        set_format(1, names[i], '0' + CHECKPOINT_FORMAT_FIRST);
        assert_ok(load_and_compare(&b, 1, 1, &e));
    }
    blocks_free(&b);
}

/* The newer cut's training would be lost, and repeated from the older one. */
static void a_newer_cut_is_not_passed_over_for_an_older_one(void **state)
{
    (void)state;
    struct blocks b = blocks_new(640, 1);
    struct manifest m;
    struct errmsg refused = {""};
    assert_ok(write_cut(&b, 1, 1, &e));
    assert_ok(write_cut(&b, 2, 1, &e));
    set_format(2, "manifest.gw", '0' + CHECKPOINT_FORMAT + 1);
    assert_int_equal(host_find_cut(folder_place(dir), UINT64_MAX, &m, &refused), ERR_NEWER);
    assert_non_null(strstr(refused.text, "a newer release wrote it"));
    set_format(2, "manifest.gw", '0'); /* damage is passed over */
    assert_int_equal(host_find_cut(folder_place(dir), UINT64_MAX, &m, &refused), ERR_OK);
    assert_int_equal(m.cut, 1);
    manifest_close(&m);
    set_format(1, "manifest.gw", '0');
    assert_int_equal(host_find_cut(folder_place(dir), UINT64_MAX, &m, &refused), ERR_CORRUPT);
    assert_memory_equal(refused.text, "cut-0000000002/manifest.gw: corrupt", 35);
    assert_non_null(strstr(refused.text, "; cut-0000000001/manifest.gw: corrupt"));
    blocks_free(&b);
}

static void of_many_damaged_cuts_the_five_newest_are_named_in_a_line(void **state)
{
    (void)state;
    struct blocks b = blocks_new(640, 1);
    struct manifest m;
    struct errmsg refused = {""};
    char want[64];
    for (uint64_t cut = 1; cut <= 6; cut++) {
        assert_ok(write_cut(&b, cut, 1, &e));
        set_format(cut, "manifest.gw", '0');
    }
    assert_int_equal(host_find_cut(folder_place(dir), UINT64_MAX, &m, &refused), ERR_CORRUPT);
    for (unsigned cut = 1; cut <= 6; cut++) {
        (void)snprintf(want, sizeof want, "cut-%010u/manifest.gw: corrupt", cut);
        assert_true((strstr(refused.text, want) != NULL) == (cut > 1));
    }
    assert_non_null(strstr(refused.text, "; the others are in the log"));
    assert_in_range(strlen(refused.text), 1, 360);
    blocks_free(&b);
}

/* Rows of an older cut with the final weights are a model that no job has learned. */
static void no_older_cut_takes_the_place_of_the_final_one(void **state)
{
    (void)state;
    struct blocks b = blocks_new(640, 1);
    struct manifest m, later = {.cut = 3};
    struct errmsg refused = {""};
    char path[128];
    assert_int_equal(host_find_final(folder_place(dir), &m, &refused), ERR_NOTFOUND);
    for (uint64_t cut = 1; cut <= 2; cut++)
        assert_ok(write_cut(&b, cut, 1, &e)); /* each says that it is final */
    assert_int_equal(mkdir(path_of(3, NULL), 0777), 0);
    assert_ok(checkpoint_publish(folder_place(dir), &later, &e)); /* it is not */
    assert_ok(host_find_final(folder_place(dir), &m, &e));
    assert_int_equal(m.cut, 2);
    manifest_close(&m);
    (void)snprintf(path, sizeof path, "%s/cut-0000000002/shard-0.gw", dir);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(host_find_final(folder_place(dir), &m, &refused), ERR_CORRUPT);
    assert_non_null(strstr(refused.text, "cut-0000000002/shard-0.gw"));
    set_format(2, "manifest.gw", '0');
    assert_int_equal(host_find_final(folder_place(dir), &m, &refused), ERR_CORRUPT);
    assert_non_null(strstr(refused.text, "cut-0000000002/manifest.gw"));
    blocks_free(&b);
}

static void a_cut_without_a_manifest_is_known_as_not_finished(void **state)
{
    (void)state;
    struct blocks b = blocks_new(640, 1);
    char path[FILES_PATH_MAX + 64];
    uint64_t cut;
    for (uint64_t i = 1; i <= 3; i++)
        assert_ok(write_cut(&b, i, 1, &e));
    assert_ok(checkpoint_unfinished(folder_place(dir), 0, &cut, &e));
    assert_int_equal(cut, 0);
    for (uint64_t i = 2; i <= 3; i++) {
        snprintf(path, sizeof path, "%s/cut-%010llu/manifest.gw", dir, (unsigned long long)i);
        assert_int_equal(unlink(path), 0);
    }
    assert_ok(checkpoint_unfinished(folder_place(dir), 1, &cut, &e));
    assert_int_equal(cut, 3);
    assert_ok(checkpoint_unfinished(folder_place(dir), 3, &cut, &e));
    assert_int_equal(cut, 3);
    assert_int_equal(symlink("manifest.gw", path), 0); /* it may be there, but cannot be read */
    assert_ok(checkpoint_unfinished(folder_place(dir), 2, &cut, &e));
    assert_int_equal(cut, 2);
    assert_ok(checkpoint_unfinished(folder_place("/nonexistent/checkpoints"), 0, &cut, &e));
    assert_int_equal(cut, 0);
    blocks_free(&b);
}

/* Nor for want of memory: nothing is wrong with it. */
static void no_memory_is_no_reason_to_go_back_to_an_older_cut(void **state)
{
    (void)state;
    struct blocks b = blocks_new(640, 1);
    assert_ok(write_cut(&b, 1, 1, &e));
    assert_ok(write_cut(&b, 2, 1, &e));
    for (long n = 0;; n++) {
        struct errmsg text = {""};
        struct manifest m = {0};
        mem_fail_at(n);
        enum err err = host_find_cut(folder_place(dir), UINT64_MAX, &m, &text);
        bool fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        assert_int_equal(m.cut, fired ? 0 : 2);
        manifest_close(&m);
        if (!fired) {
            assert_true(n >= 8);
            break;
        }
        assert_non_null(strstr(text.text, "out of memory"));
    }
    blocks_free(&b);
}

/* Fields were added within a format: a release before them left them out, and what is absent has its default. So is
 * `eval` before the first one, and metrics that a job does not have. */
static void fields_that_an_earlier_release_did_not_know_have_their_defaults(void **state)
{
    (void)state;
    struct blocks b = blocks_new(640, 1);
    struct checkpoint_file file[2];
    struct manifest r;
    assert_ok(write_shards(&b, 1, 7, 2, file, &e));
    struct manifest m = manifest_of(&b, 1, 2, file);
    uint8_t *data;
    size_t bytes;
    assert_ok(manifest_encode(&m, &data, &bytes, &e));
    size_t head_bytes = bytes - CHECKPOINT_MAGIC_BYTES - CHECKPOINT_TAIL_BYTES;
    Checkpoint__Manifest *head =
        checkpoint__manifest__unpack(NULL, head_bytes, data + CHECKPOINT_MAGIC_BYTES);
    assert_non_null(head);
    head->lost = head->clipped = head->dropped = 0; /* absent: proto3 writes no zeros */
    checkpoint__redo__free_unpacked(head->redo, NULL);
    checkpoint__eval__free_unpacked(head->eval, NULL);
    head->redo = NULL;
    head->eval = NULL;
    for (size_t i = 0; i < head->n_epoch; i++)
        head->epoch[i]->n_metric = head->epoch[i]->n_metric ? 1 : 0;
    size_t less = checkpoint__manifest__pack(head, data + CHECKPOINT_MAGIC_BYTES);
    assert_true(less < head_bytes);
    (void)checkpoint_tail_encode(data + CHECKPOINT_MAGIC_BYTES + less, CHECKPOINT_MANIFEST_KIND,
                                 CHECKPOINT_FORMAT_FIRST, data + CHECKPOINT_MAGIC_BYTES, less);
    checkpoint__manifest__free_unpacked(head, NULL);
    assert_ok(manifest_decode(data, CHECKPOINT_MAGIC_BYTES + less + CHECKPOINT_TAIL_BYTES,
                              "manifest.gw", &r, &e));
    assert_int_equal(r.format, CHECKPOINT_FORMAT_FIRST);
    assert_int_equal(r.step, 1200);
    assert_int_equal(r.lost + r.clipped + r.dropped, 0);
    assert_false(r.redo.there || r.eval.valid);
    assert_true(r.epoch[1].metric[0] == 0.3 && r.epoch[1].metric[1] == 0);
    manifest_close(&r);
    mem_free(data);
    blocks_free(&b);
}

/* Each byte in steps of `step`, and all of the first and the last ones; a bit or all of it. */
static void flip_everywhere(const struct blocks *b, const char *name, size_t step)
{
    char path[FILES_PATH_MAX];
    strcpy(path, path_of(2, name));
    size_t bytes;
    uint8_t *data = slurp(path, &bytes);
    for (size_t i = 0; i < bytes; i += i < 40 || i + 120 > bytes ? 1 : step) {
        uint8_t was = data[i];
        data[i] = (uint8_t)(was ^ (i % 3 ? 1 << i % 8 : 0xff));
        spill(path, data, bytes);
        assert_corrupt(b, path);
        data[i] = was;
    }
    spill(path, data, bytes);
    assert_ok(load_and_compare(b, 2, 3, &e));
    mem_free(data);
}

static void a_truncated_file_is_corrupt_by_name(void **state)
{
    (void)state;
    struct blocks b = blocks_new(800, 10);
    assert_ok(write_cut(&b, 2, 2, &e));
    truncate_everywhere(&b, "shard-1.gw", 61);
    truncate_everywhere(&b, CHECKPOINT_MANIFEST, 7);
    blocks_free(&b);
}

static void any_changed_byte_is_corrupt_by_name(void **state)
{
    (void)state;
    struct blocks b = blocks_new(800, 11);
    assert_ok(write_cut(&b, 2, 2, &e));
    flip_everywhere(&b, "shard-0.gw", 23);
    flip_everywhere(&b, CHECKPOINT_MANIFEST, 1);
    blocks_free(&b);
}

static void verify_finds_any_changed_byte_that_load_does_not_look_at(void **state)
{
    (void)state;
    struct blocks b = blocks_new(800, 12);
    assert_ok(write_cut(&b, 2, 1, &e));
    struct manifest m;
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 2}, &m, &e));
    assert_ok(checkpoint_verify(folder_place(dir), &m, &e));
    size_t bytes;
    uint8_t *data = slurp(path_of(2, "shard-0.gw"), &bytes);
    struct errmsg text;
    for (size_t i = CHECKPOINT_MAGIC_BYTES; i < bytes; i += 37) {
        data[i] ^= 0x10;
        spill(path_of(2, "shard-0.gw"), data, bytes);
        assert_int_equal(checkpoint_verify(folder_place(dir), &m, &text), ERR_CORRUPT);
        assert_non_null(strstr(text.text, "shard-0.gw"));
        data[i] ^= 0x10;
    }
    mem_free(data);
    manifest_close(&m);
    blocks_free(&b);
}

/* One byte more: at the end, and between the head and the tail, where no checksum sees it. */
static void a_longer_file_is_corrupt_by_name(void **state)
{
    (void)state;
    struct blocks b = blocks_new(800, 13);
    assert_ok(write_cut(&b, 2, 2, &e));
    const char *const names[] = {"shard-0.gw", CHECKPOINT_MANIFEST};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        uint8_t *data = slurp(path_of(2, names[i]), &bytes), *longer = malloc(bytes + 1);
        for (size_t behind = 0; behind <= CHECKPOINT_TAIL_BYTES; behind += CHECKPOINT_TAIL_BYTES) {
            memcpy(longer, data, bytes - behind);
            longer[bytes - behind] = 0;
            memcpy(longer + bytes - behind + 1, data + bytes - behind, behind);
            spill(path_of(2, names[i]), longer, bytes + 1);
            assert_corrupt(&b, names[i]);
        }
        spill(path_of(2, names[i]), data, bytes);
        mem_free(data);
        free(longer);
    }
    blocks_free(&b);
}

static void a_missing_file_is_corrupt_and_a_missing_manifest_not_found(void **state)
{
    (void)state;
    struct errmsg text;
    struct manifest m;
    struct blocks b = blocks_new(800, 14);
    assert_ok(write_cut(&b, 2, 2, &e));
    assert_int_equal(unlink(path_of(2, "shard-1.gw")), 0);
    assert_corrupt(&b, "shard-1.gw");
    assert_int_equal(unlink(path_of(2, CHECKPOINT_MANIFEST)), 0);
    assert_int_equal(checkpoint_load((struct cut){folder_place(dir), 2}, &m, &text), ERR_NOTFOUND);
    assert_non_null(strstr(text.text, CHECKPOINT_MANIFEST));
    blocks_free(&b);
}

static void copy(const char *from, const char *to)
{
    size_t bytes;
    uint8_t *data = slurp(from, &bytes);
    spill(to, data, bytes);
    mem_free(data);
}

static void a_file_of_another_cut_shard_or_generation_is_corrupt(void **state)
{
    (void)state;
    struct blocks b = blocks_new(1600, 15), other = blocks_new(1600, 16);
    struct checkpoint_file file[4];
    char right[FILES_PATH_MAX], wrong[FILES_PATH_MAX];
    assert_ok(write_cut(&b, 2, 2, &e));
    assert_ok(write_cut(&b, 3, 2, &e));
    strcpy(right, path_of(2, "shard-0.gw"));
    strcpy(wrong, path_of(3, "shard-0.gw")); /* the same values, cut 3 */
    copy(wrong, right);
    assert_corrupt_as(&b, right, "its cut is 3, the manifest says 2");
    strcpy(wrong, path_of(2, "shard-1.gw"));
    copy(wrong, right);
    assert_corrupt_as(&b, right, "its first element is 800, the manifest says 0");
    assert_ok(write_shards(&b, 2, 8, 2, file, &e)); /* generation 8, the manifest's is 7 */
    assert_corrupt_as(&b, right, "its generation is 8, the manifest says 7");
    assert_ok(write_shards(&b, 2, 7, 2, file, &e));
    assert_ok(load_and_compare(&b, 2, 2, &e));
    assert_ok(write_shards(&b, 2, 7, 4, file, &e)); /* other borders */
    assert_corrupt(&b, right);
    assert_ok(write_shards(&other, 2, 7, 2, file, &e)); /* other values: the frames' CRCs */
    assert_corrupt(&b, right);
    strcpy(right, path_of(2, CHECKPOINT_MANIFEST));
    strcpy(wrong, path_of(3, CHECKPOINT_MANIFEST));
    copy(wrong, right);
    assert_corrupt(&b, right);
    blocks_free(&b);
    blocks_free(&other);
}

/* One bit of one float is another, and the file just as long: the frames' CRCs are in the head, and
 * its CRC is in the manifest. */
static void a_file_of_almost_the_same_values_is_corrupt(void **state)
{
    (void)state;
    struct blocks b = blocks_new(1600, 15), other = blocks_new(1600, 15);
    struct checkpoint_file was[2], file[2];
    assert_ok(write_cut(&b, 2, 2, &e));
    assert_ok(write_shards(&b, 2, 7, 2, was, &e));
    assert_ok(load_and_compare(&b, 2, 2, &e));
    uint64_t i = 0;
    do { /* almost any bit will do */
        uint32_t bits;
        memcpy(&bits, &b.block[0][i], sizeof bits);
        bits ^= 1;
        memcpy(&other.block[0][i], &bits, sizeof bits);
        assert_ok(write_shards(&other, 2, 7, 2, file, &e));
        other.block[0][i] = b.block[0][i];
    } while (file[0].bytes != was[0].bytes && ++i < 100);
    assert_int_equal(file[0].bytes, was[0].bytes);
    assert_corrupt_as(&b, "shard-0.gw", "its head's checksum");
    blocks_free(&b);
    blocks_free(&other);
}

static void a_file_of_another_size_than_the_manifest_says_is_corrupt(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 27);
    struct checkpoint_file file[1];
    assert_ok(write_shards(&b, 2, 7, 1, file, &e));
    file[0].bytes++;
    struct manifest m = manifest_of(&b, 2, 1, file);
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    assert_corrupt_as(&b, "shard-0.gw", "its size is");
    blocks_free(&b);
}

static void a_file_that_is_swapped_after_loading_is_found_when_read(void **state)
{
    (void)state;
    struct blocks b = blocks_new(1600, 17), other = blocks_new(1600, 18);
    struct checkpoint_file file[2];
    struct manifest m;
    struct errmsg text;
    float got[16];
    assert_ok(write_cut(&b, 2, 2, &e));
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 2}, &m, &e));
    assert_ok(write_shards(&other, 2, 7, 2, file, &e));
    assert_int_equal(checkpoint_read(folder_place(dir), &m, 0, 16, got, NULL, &text), ERR_CORRUPT);
    manifest_close(&m);
    blocks_free(&b);
    blocks_free(&other);
}

/* A manifest whose checksums are right but whose text says `change`. */
static void assert_refused(void (*change)(Checkpoint__Manifest *h))
{
    struct blocks b = blocks_new(160, 19);
    assert_ok(write_cut(&b, 2, 2, &e));
    size_t bytes;
    char path[FILES_PATH_MAX];
    strcpy(path, path_of(2, CHECKPOINT_MANIFEST));
    uint8_t *data = slurp(path, &bytes);
    Checkpoint__Manifest *h =
        checkpoint__manifest__unpack(NULL, bytes - CHECKPOINT_MAGIC_BYTES - CHECKPOINT_TAIL_BYTES,
                                     data + CHECKPOINT_MAGIC_BYTES);
    assert_non_null(h);
    change(h);
    size_t head_bytes = checkpoint__manifest__get_packed_size(h);
    uint8_t *made = malloc(head_bytes + 100);
    checkpoint_magic_encode(made, CHECKPOINT_MANIFEST_KIND, CHECKPOINT_FORMAT_FIRST);
    checkpoint__manifest__pack(h, made + CHECKPOINT_MAGIC_BYTES);
    checkpoint_tail_encode(made + CHECKPOINT_MAGIC_BYTES + head_bytes, CHECKPOINT_MANIFEST_KIND,
                           CHECKPOINT_FORMAT_FIRST, made + CHECKPOINT_MAGIC_BYTES, head_bytes);
    spill(path, made, head_bytes + CHECKPOINT_MAGIC_BYTES + CHECKPOINT_TAIL_BYTES);
    assert_corrupt(&b, path);
    checkpoint__manifest__free_unpacked(h, NULL);
    free(made);
    mem_free(data);
    blocks_free(&b);
}

static void name_outside(Checkpoint__Manifest *h)
{
    strcpy(h->file[0]->name, "../x.gw"); /* shorter than shard-0.gw */
}
static void name_that_goes_on(Checkpoint__Manifest *h)
{
    strcpy(h->file[0]->name, "shard-0/.x");
}
static void files_that_overflow(Checkpoint__Manifest *h)
{
    h->file[0]->elems = UINT64_MAX - 15;
    h->file[1]->first_elem = UINT64_MAX - 15;
    h->file[1]->elems = 16 + h->total_elems;
}
static void gap_in_files(Checkpoint__Manifest *h)
{
    h->file[1]->first_elem += 16;
}
static void overlap_of_files(Checkpoint__Manifest *h)
{
    h->file[1]->first_elem -= 16;
    h->file[1]->elems += 16;
}
static void missing_last_file(Checkpoint__Manifest *h)
{
    checkpoint__file__free_unpacked(h->file[1], NULL);
    h->n_file = 1;
}
static void huge_elems(Checkpoint__Manifest *h)
{
    h->total_elems = UINT64_MAX;
    h->file[1]->elems = UINT64_MAX - h->file[1]->first_elem;
}
static void too_many_slots(Checkpoint__Manifest *h)
{
    h->slots = OPTIMIZER_SLOTS_MAX + 1;
}
static void short_fingerprint(Checkpoint__Manifest *h)
{
    h->data_fingerprint.len = 31;
}
static void long_uuid(Checkpoint__Manifest *h)
{
    free(h->uuid);
    h->uuid = strdup("3b241101-e2bb-4255-8caf-4136c566a962x");
}
static void too_many_metrics(Checkpoint__Manifest *h)
{
    h->eval->metric = realloc(h->eval->metric, (METRICS_MAX + 1) * sizeof(double));
    h->eval->metric[METRICS_MAX] = 0;
    h->eval->n_metric = METRICS_MAX + 1;
}
static void too_many_sums(Checkpoint__Manifest *h)
{
    Checkpoint__Epoch *epoch = h->epoch[0];
    epoch->metric = realloc(epoch->metric, (SUMS_MAX + 1) * sizeof(double));
    epoch->metric[SUMS_MAX] = 0;
    epoch->n_metric = SUMS_MAX + 1;
}

static void a_manifest_that_does_not_add_up_is_corrupt(void **state)
{
    (void)state;
    assert_refused(name_outside);
    assert_refused(name_that_goes_on);
    assert_refused(files_that_overflow);
    assert_refused(gap_in_files);
    assert_refused(overlap_of_files);
    assert_refused(missing_last_file);
    assert_refused(huge_elems);
    assert_refused(too_many_slots);
    assert_refused(short_fingerprint);
    assert_refused(long_uuid);
    assert_refused(too_many_metrics);
    assert_refused(too_many_sums);
}

/* A shard's file whose checksums are right but whose head says `change`. */
static void assert_head_refused(void (*change)(Checkpoint__ShardHead *h), const char *why)
{
    struct blocks b = blocks_new(160, 20);
    assert_ok(write_cut(&b, 2, 1, &e));
    size_t bytes;
    char path[FILES_PATH_MAX];
    strcpy(path, path_of(2, "shard-0.gw"));
    uint8_t *data = slurp(path, &bytes);
    uint32_t head_bytes;
    memcpy(&head_bytes, data + bytes - CHECKPOINT_TAIL_BYTES, sizeof head_bytes);
    size_t at = bytes - CHECKPOINT_TAIL_BYTES - head_bytes;
    Checkpoint__ShardHead *h = checkpoint__shard_head__unpack(NULL, head_bytes, data + at);
    change(h);
    size_t made_bytes = checkpoint__shard_head__get_packed_size(h);
    uint8_t *made = malloc(at + made_bytes + CHECKPOINT_TAIL_BYTES);
    memcpy(made, data, at);
    checkpoint__shard_head__pack(h, made + at);
    checkpoint_tail_encode(made + at + made_bytes, CHECKPOINT_SHARD_KIND, CHECKPOINT_FORMAT_FIRST,
                           made + at, made_bytes);
    spill(path, made, at + made_bytes + CHECKPOINT_TAIL_BYTES);

    struct shard_file f;
    struct errmsg text = {""};
    float got[160];
    enum err err = shard_file_open(&f, (struct cut){folder_place(dir), 2}, "shard-0.gw", &text);
    if (!err) {
        err = shard_file_read(&f, 0, 0, 160, got, &text);
        shard_file_close(&f);
    }
    assert_int_equal(err, ERR_CORRUPT);
    if (!strstr(text.text, why))
        fail_msg("\"%s\" does not say \"%s\"", text.text, why);
    checkpoint__shard_head__free_unpacked(h, NULL);
    free(made);
    mem_free(data);
    blocks_free(&b);
}

static void frames_of_nothing(Checkpoint__ShardHead *h)
{
    h->frame_elems = 0;
}
static void frames_too_large(Checkpoint__ShardHead *h)
{
    h->frame_elems = UINT32_MAX;
}
static void more_elems(Checkpoint__ShardHead *h)
{
    h->elems++;
}
static void elems_that_overflow(Checkpoint__ShardHead *h)
{
    h->elems = UINT64_MAX;
}
static void more_slots(Checkpoint__ShardHead *h)
{
    h->slots = UINT32_MAX;
}
static void a_frame_too_large(Checkpoint__ShardHead *h)
{
    h->frame_bytes[0] = UINT64_MAX;
    h->frame_bytes[1] += h->frame_bytes[0] + 1;
}
static void a_frame_cut_elsewhere(Checkpoint__ShardHead *h)
{
    h->frame_bytes[0]--;
    h->frame_bytes[1]++;
}
static void a_last_frame_too_short(Checkpoint__ShardHead *h)
{
    h->frame_bytes[h->n_frame_bytes - 1]--;
}
static void fewer_crcs(Checkpoint__ShardHead *h)
{
    h->n_frame_crc--;
}

static void a_head_that_does_not_add_up_is_corrupt(void **state)
{
    (void)state;
    assert_head_refused(frames_of_nothing, "frames of 0 elements");
    assert_head_refused(frames_too_large, "frames of 4294967295 elements");
    assert_head_refused(more_elems, "frame 0 does not hold 644 bytes");
    assert_head_refused(elems_that_overflow, "18446744073709551615 elements");
    assert_head_refused(more_slots, "4294967295 slots");
    assert_head_refused(a_frame_too_large, "frame 0 of 18446744073709551615 bytes");
    assert_head_refused(a_frame_cut_elsewhere, "the checksum of frame 0");
    assert_head_refused(a_last_frame_too_short, "its frames have");
    assert_head_refused(fewer_crcs, "do not match its blocks");
}

/* ---- calls that do not fit ---- */

static void ranges_and_slots_that_are_not_there_are_refused(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 21);
    assert_ok(write_cut(&b, 2, 1, &e));
    struct manifest m;
    struct errmsg text;
    float got[160];
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 2}, &m, &e));
    assert_int_equal(checkpoint_read(folder_place(dir), &m, 1, 160, got, NULL, &text), ERR_STATE);
    assert_int_equal(checkpoint_read(folder_place(dir), &m, UINT64_MAX, 2, got, NULL, &text),
                     ERR_STATE);
    m.slots = 1;
    float *slot[OPTIMIZER_SLOTS_MAX] = {got, got};
    assert_int_equal(checkpoint_read(folder_place(dir), &m, 0, 160, got, slot, &text), ERR_STATE);
    manifest_close(&m);
    blocks_free(&b);
}

static void a_manifest_whose_files_do_not_cover_the_block_is_not_published(void **state)
{
    (void)state;
    struct blocks b = blocks_new(160, 22);
    struct checkpoint_file file[3];
    struct errmsg text;
    assert_ok(write_shards(&b, 2, 7, 3, file, &e));
    struct manifest m = manifest_of(&b, 2, 2, file);
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
    m = manifest_of(&b, 2, 2, file + 1);
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
    assert_non_null(strstr(text.text, "shard-1.gw"));
    assert_int_equal(access(path_of(2, CHECKPOINT_MANIFEST), F_OK), -1);
    blocks_free(&b);
}

/* ---- the folder of all cuts ---- */

static void assert_list(size_t n, const uint64_t *want)
{
    uint64_t *cuts;
    size_t count;
    assert_ok(checkpoint_list(folder_place(dir), &cuts, &count, &e));
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(cuts[i], want[i]);
    mem_free(cuts);
}

static void a_missing_dir_holds_no_cuts(void **state)
{
    (void)state;
    uint64_t *cuts;
    size_t n = 5;
    assert_ok(checkpoint_list(folder_place("/nonexistent/checkpoints"), &cuts, &n, &e));
    assert_int_equal(n, 0);
    mem_free(cuts);
    checkpoint_prune(folder_place("/nonexistent/checkpoints"), 3);
    checkpoint_discard((struct cut){folder_place("/nonexistent/checkpoints"), 3});
    struct errmsg text;
    struct manifest m;
    assert_int_equal(
        checkpoint_load((struct cut){folder_place("/nonexistent/checkpoints"), 3}, &m, &text),
        ERR_NOTFOUND);
}

static void published_cuts_are_listed_newest_first(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 23);
    const uint64_t cuts[] = {5, 30, 0, 12345678901, 7};
    for (int i = 0; i < 5; i++)
        assert_ok(write_cut(&b, cuts[i], 1, &e));
    struct checkpoint_file file[1];
    assert_ok(write_shards(&b, 31, 7, 1, file, &e)); /* not published */
    char path[128];
    (void)snprintf(path, sizeof path, "%s/cut-7", dir); /* not a name of ours */
    assert_int_equal(mkdir(path, 0777), 0);
    assert_list(5, (uint64_t[]){12345678901, 30, 7, 5, 0});
    blocks_free(&b);
}

static void prune_keeps_the_newest_and_what_is_being_written(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 24);
    struct checkpoint_file file[1];
    for (uint64_t cut = 1; cut <= 6; cut++)
        assert_ok(cut == 3 || cut == 5 ? write_shards(&b, cut, 7, 1, file, &e)
                                       : write_cut(&b, cut, 1, &e));
    assert_ok(write_shards(&b, 7, 7, 1, file, &e));
    spill(path_of(7, "shard-1.gw" FILES_TEMPORARY "0123"), "", 0);
    spill(path_of(6, "shard-0.gw" FILES_TEMPORARY "0123"), "", 0);
    checkpoint_prune(folder_place(dir), 2);
    assert_list(2, (uint64_t[]){6, 4});
    for (uint64_t cut = 1; cut <= 7; cut++)
        assert_int_equal(access(path_of(cut, NULL), F_OK), cut == 4 || cut >= 6 ? 0 : -1);
    assert_int_equal(access(path_of(7, "shard-1.gw" FILES_TEMPORARY "0123"), F_OK), 0);
    assert_int_equal(access(path_of(6, "shard-0.gw" FILES_TEMPORARY "0123"), F_OK), -1);
    assert_ok(load_and_compare(&b, 6, 1, &e));
    assert_ok(load_and_compare(&b, 4, 1, &e));
    checkpoint_prune(folder_place(dir), 0);
    assert_list(1, (uint64_t[]){6});
    blocks_free(&b);
}

static void write_at(const struct blocks *b, uint64_t cut, long at_ms)
{
    struct timespec at = {1700000000 + at_ms / 1000, at_ms % 1000 * 1000000};
    assert_ok(write_cut(b, cut, 1, &e));
    assert_int_equal(
        utimensat(AT_FDCWD, path_of(cut, "manifest.gw"), (struct timespec[]){at, at}, 0), 0);
}

/* A cut each 6 s, numbered by its second. */
static void of_three_that_are_kept_one_is_a_minute_older_than_the_newest(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 27);
    for (uint64_t s = 0; s <= 210; s += 6) {
        uint64_t *cuts;
        size_t n;
        write_at(&b, s, (long)s * 1000);
        checkpoint_prune(folder_place(dir), 3);
        assert_ok(checkpoint_list(folder_place(dir), &cuts, &n, &e));
        assert_int_equal(n, s < 12 ? s / 6 + 1 : 3);
        assert_int_equal(cuts[0], s);
        assert_in_range(s - cuts[n - 1], s < 60 ? s : 60, 120); /* nor is it much older */
        mem_free(cuts);
    }
    assert_list(3, (uint64_t[]){210, 156, 102});
    blocks_free(&b);
}

static void others_that_are_kept_are_the_newest(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 28);
    for (uint64_t s = 0; s <= 100; s += 10)
        write_at(&b, s, (long)s * 1000);
    checkpoint_prune(folder_place(dir), 5);
    assert_list(5, (uint64_t[]){100, 90, 80, 50, 40});
    checkpoint_prune(folder_place(dir), 2); /* the newest alone */
    assert_list(2, (uint64_t[]){100, 90});
    blocks_free(&b);
}

static void cuts_that_are_a_minute_apart_are_pruned_by_age(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 29);
    for (uint64_t cut = 0; cut < 5; cut++)
        write_at(&b, cut, (long)cut * 60000);
    checkpoint_prune(folder_place(dir), 3);
    assert_list(3, (uint64_t[]){4, 3, 2});
    blocks_free(&b);
}

static void a_cut_of_less_than_a_minute_is_young(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 30);
    write_at(&b, 1, 1);
    write_at(&b, 2, 2);
    write_at(&b, 3, 60000); /* 59,999 and 59,998 ms */
    write_at(&b, 4, 60001);
    checkpoint_prune(folder_place(dir), 3);
    assert_list(3, (uint64_t[]){4, 2, 1}); /* exactly 60,000 ms; the next one */
    blocks_free(&b);
}

static void a_cut_that_is_held_is_pruned_when_it_is_let_go(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 26);
    int hold, other;
    struct errmsg why;
    for (uint64_t cut = 1; cut <= 3; cut++)
        assert_ok(write_cut(&b, cut, 1, &e));
    assert_ok(checkpoint_hold((struct cut){folder_place(dir), 1}, &hold, &e));
    assert_ok(checkpoint_hold((struct cut){folder_place(dir), 1}, &other,
                              &e)); /* as many readers as there are */
    checkpoint_prune(folder_place(dir), 1);
    assert_list(2, (uint64_t[]){3, 1});
    assert_ok(load_and_compare(&b, 1, 1, &e));
    place_release(other);
    checkpoint_prune(folder_place(dir), 1);
    assert_list(2, (uint64_t[]){3, 1});
    place_release(hold);
    checkpoint_prune(folder_place(dir), 1);
    assert_list(1, (uint64_t[]){3});
    assert_int_equal(checkpoint_hold((struct cut){folder_place(dir), 1}, &hold, &why),
                     ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "manifest"));
    blocks_free(&b);
}

static void prune_without_a_published_cut_removes_nothing(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 25);
    struct checkpoint_file file[1];
    assert_ok(write_shards(&b, 7, 7, 1, file, &e));
    checkpoint_prune(folder_place(dir), 3);
    assert_int_equal(access(path_of(7, "shard-0.gw"), F_OK), 0);
    blocks_free(&b);
}

static void discard_removes_an_unfinished_cut_and_no_published_one(void **state)
{
    (void)state;
    struct blocks b = blocks_new(16, 26);
    struct checkpoint_file file[1];
    assert_ok(write_cut(&b, 6, 1, &e));
    assert_ok(write_shards(&b, 7, 7, 1, file, &e));
    spill(path_of(7, "shard-1.gw" FILES_TEMPORARY "0123"), "", 0);
    checkpoint_discard((struct cut){folder_place(dir), 7});
    assert_int_equal(access(path_of(7, NULL), F_OK), -1);
    checkpoint_discard((struct cut){folder_place(dir), 6});
    assert_ok(load_and_compare(&b, 6, 1, &e));
    blocks_free(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_checkpoint_of_three_shards_loads_into_any_number_of_ranges),
        TEST(a_newer_format_is_refused_naming_both),
        TEST(of_many_damaged_cuts_the_five_newest_are_named_in_a_line),
        TEST(a_newer_cut_is_not_passed_over_for_an_older_one),
        TEST(no_older_cut_takes_the_place_of_the_final_one),
        TEST(a_cut_without_a_manifest_is_known_as_not_finished),
        TEST(no_memory_is_no_reason_to_go_back_to_an_older_cut),
        TEST(fields_that_an_earlier_release_did_not_know_have_their_defaults),
        TEST(a_shard_of_several_frames_is_read_from_any_element_to_any),
        TEST(shards_without_elements_are_shards_too),
        TEST(a_manifest_comes_back_as_it_was),
        TEST(an_empty_manifest_comes_back_as_it_was),
        TEST(a_look_finds_what_a_cut_lacks_before_it_is_published),
        TEST(a_manifest_that_cannot_be_looked_up_is_passed_over_with_its_name),
        TEST(a_manifest_that_nobody_could_read_is_not_written),
        TEST(a_published_cut_may_be_published_again_as_final),
        TEST(a_cut_whose_storage_fails_is_unusable_and_one_for_which_descriptors_lack_is_not),
        TEST(any_failed_write_leaves_the_older_checkpoint_and_no_newer_one),
        TEST(no_memory_is_said_and_leaves_nothing_of_a_checkpoint),
        TEST(no_memory_while_reading_is_said_as_such),
        TEST(a_full_disk_is_named_and_the_older_checkpoint_stays),
        TEST(a_truncated_file_is_corrupt_by_name),
        TEST(any_changed_byte_is_corrupt_by_name),
        TEST(verify_finds_any_changed_byte_that_load_does_not_look_at),
        TEST(a_longer_file_is_corrupt_by_name),
        TEST(a_missing_file_is_corrupt_and_a_missing_manifest_not_found),
        TEST(a_file_of_another_cut_shard_or_generation_is_corrupt),
        TEST(a_file_of_almost_the_same_values_is_corrupt),
        TEST(a_file_of_another_size_than_the_manifest_says_is_corrupt),
        TEST(a_file_that_is_swapped_after_loading_is_found_when_read),
        TEST(a_manifest_that_does_not_add_up_is_corrupt),
        TEST(a_head_that_does_not_add_up_is_corrupt),
        TEST(ranges_and_slots_that_are_not_there_are_refused),
        TEST(a_manifest_whose_files_do_not_cover_the_block_is_not_published),
        TEST(a_missing_dir_holds_no_cuts),
        TEST(published_cuts_are_listed_newest_first),
        TEST(prune_keeps_the_newest_and_what_is_being_written),
        TEST(of_three_that_are_kept_one_is_a_minute_older_than_the_newest),
        TEST(others_that_are_kept_are_the_newest),
        TEST(cuts_that_are_a_minute_apart_are_pruned_by_age),
        TEST(a_cut_of_less_than_a_minute_is_young),
        TEST(a_cut_that_is_held_is_pruned_when_it_is_let_go),
        TEST(prune_without_a_published_cut_removes_nothing),
        TEST(discard_removes_an_unfinished_cut_and_no_published_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
