/* Compressed files as their bytes come. tests/e2e/unpack_test.py compares many with other programs. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <zstd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "data/bytes/stream.h"
#include "tests/lib/idx_files.h"

/* "ab" as gzip -n writes it, and as zstd --no-check does */
static const char gz[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x4c\x02\0\x6d\x48\x83\x9e\x02\0\0\0";
static const char zst[] = "\x28\xb5\x2f\xfd\x20\x02\x11\0\0ab";
enum { GZ = sizeof gz - 1, ZST = sizeof zst - 1 };

/* The file has `bytes` bytes of `first`, `zeros` zeros, and `more` of `then`. The result is its contents, or the error. */
static void reads(const char *first, size_t bytes, size_t zeros, const char *then, size_t more,
                  const char *want)
{
    char path[] = "/tmp/gradwire-stream-XXXXXX", got[64];
    struct errmsg e = {"unread"};
    struct stream *s;
    size_t n = 0, one = 1;
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(first, 1, bytes, f), bytes);
    for (size_t i = 0; i < zeros; i++)
        assert_int_equal(fputc(0, f), 0);
    assert_int_equal(fwrite(then, 1, more, f), more);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(stream_open(&s, path, &e), ERR_OK);
    enum err err = ERR_OK;
    for (; !err && one && n + 1 < sizeof got;
         n += err ? 0 : one) /* libzstd takes other ways for much room */
        err = stream_read(s, got + n, 1, &one, &e);
    got[n] = 0;
    stream_close(s);
    (void)unlink(path);
    if (err)
        assert_memory_equal(e.text, want, strlen(want));
    else
        assert_string_equal(got, want);
}

static void members_and_frames_follow_each_other(void **state)
{
    (void)state;
    reads(gz, GZ, 0, gz, GZ, "abab");
    reads(gz, GZ, 3, gz, GZ, "abab");
    reads(gz, GZ, 200000, "", 0, "ab");
    reads(zst, ZST, 0, zst, ZST, "abab");
    reads("plain ", 6, 0, gz, 3, "plain \x1f\x8b\x08");
}

static void other_data_after_compressed_data_is_refused_with_its_place(void **state)
{
    (void)state;
    reads(gz, GZ, 0, "ab\n", 3,
          "at byte 22 the gzip data ends, and bytes of another kind follow: ");
    reads(gz, GZ, 0, "\n", 1, "at byte 22 the gzip data ends, and bytes of another kind follow: ");
    reads(gz, GZ, 9, "ab\n", 3,
          "at byte 31 the gzip data ends, and bytes of another kind follow: ");
    reads(gz, GZ, 0, zst, ZST, "at byte 22 the gzip data ends, and zstd data follows: ");
    reads(zst, ZST, 0, gz, GZ, "at byte 11 the zstd data ends, and gzip data follows: ");
    reads(zst, ZST, 1, "", 0, "at byte 11 the zstd data ends, and bytes of another kind follow: ");
}

static void data_that_ends_early_or_is_damaged_is_refused(void **state)
{
    (void)state;
    reads(gz, GZ, 0, gz, 1, "the gzip data ends early, after 2 decompressed bytes");
    reads(gz, GZ, 0, gz, GZ - 1, "the gzip data ends early, after 4 decompressed bytes");
    reads(zst, ZST, 0, zst, ZST - 1, "the zstd data ends early, after ");
    reads(gz, GZ - 8, 0, "12345678", 8, "the gzip data is corrupt near byte ");
    reads(
        "\x28\xb5\x2f\xfd\x20\x02\1\0\0", 9, 0, "", 0,
        "the zstd data is corrupt near byte 9, after 0 decompressed bytes: a frame does not have");
    reads("\x28\xb5\x2f\xfd\0\xa8\1\0\0", 9, 0, "", 0, /* a window of 2 GiB */
          "the zstd data needs more than 128 MiB of memory to be decompressed: compress it again, "
          "without --long");
    reads("\x28\xb5\x2f\xfd\x21\7\2\1\0\0", 10, 0, "", 0,
          "the zstd data was compressed with a dictionary: decompress it with this dictionary");
}

/* A file of this name with these bytes is named as damaged, or opens. */
static void opens(const char *name, const char *bytes, size_t n, const char *want)
{
    char dir[] = "/tmp/gradwire-stream-XXXXXX", path[64];
    struct errmsg e = {""};
    struct stream *s = NULL;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(stream_open(&s, path, &e), want ? ERR_INPUT : ERR_OK);
    if (want && !strstr(e.text, want))
        fail_msg("%s, not %s", e.text, want);
    stream_close(s);
    (void)unlink(path);
    (void)rmdir(dir);
}

static void damaged_first_bytes_are_not_read_as_text(void **state)
{
    (void)state;
    char bytes[GZ];
    memcpy(bytes, zst, ZST);
    bytes[2] ^= 2;
    opens("a.csv.zst", bytes, ZST, "its first bytes are almost those of zstd");
    opens("a.csv.zst", zst, 1, "its first bytes are almost those of zstd");
    opens("a.csv", bytes, ZST, NULL);
    memcpy(bytes, gz, GZ);
    bytes[0] ^= 1;
    opens("a.csv.gz", bytes, GZ, "its first bytes are almost those of gzip");
    opens("a.csv.gz", gz, 1, "its first bytes are almost those of gzip");
    opens("a.csv.gz", "a,b\n", 4, NULL); /* the name does not count */
    opens("a.csv.gz", "", 0, "it is empty, which no file of gzip is: check its download");
    opens("a.csv.zst", "", 0, "it is empty, which no file of zstd is: ");
    opens("a.csv", "", 0, NULL);
}

enum change { TOUCH, GROW, REWRITE, RENAME };

static void change(const char *path, enum change how)
{
    const struct timespec later[2] = {{0, UTIME_OMIT}, {2000000000, 1}};
    char old[64];
    if (how == RENAME) {
        (void)snprintf(old, sizeof old, "%s.old", path);
        assert_int_equal(rename(path, old), 0);
        assert_int_equal(unlink(old), 0);
    }
    FILE *f = fopen(path, how == GROW ? "a" : how == TOUCH ? "r" : "w");
    assert_non_null(f);
    if (how != TOUCH)
        assert_int_equal(fwrite("c,d\n", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    if (how != GROW) /* a clock of 4 ms can give the same time to both */
        assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
}

/* The error at the end of a file that changed after its first 2 bytes were read; "": none. */
static void ends_after(const char *bytes, size_t n, enum change how, const char *want)
{
    char path[] = "/tmp/gradwire-stream-XXXXXX", got[8];
    struct errmsg e = {""};
    struct stream *s;
    size_t one;
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(stream_open(&s, path, &e), ERR_OK);
    assert_int_equal(stream_read(s, got, 2, &one, &e), ERR_OK);
    change(path, how);
    assert_int_equal(stream_read(s, got, sizeof got, &one, &e), *want ? ERR_INPUT : ERR_OK);
    assert_memory_equal(e.text, want, strlen(want) + !*want);
    stream_close(s);
    (void)unlink(path);
}

static void a_file_that_changes_while_it_is_read_is_refused_at_its_end(void **state)
{
    (void)state;
    ends_after("a,b\n", 4, GROW, "it changed while it was read: ");
    ends_after("a,b\n", 4, REWRITE, "it changed while it was read: ");
    ends_after("a,b\n", 4, TOUCH, "it changed while it was read: ");
    ends_after(gz, GZ, TOUCH, "it changed while it was read: ");
    ends_after(zst, ZST, TOUCH, "it changed while it was read: ");
    ends_after("a,b\n", 4, RENAME, "");
}

/* ---- from the middle ---- */

/* Lines that compress as csv does, and then bytes that do not. */
static struct bytes some_text(size_t bytes)
{
    struct bytes b = {malloc(bytes + 64), 0};
    assert_non_null(b.data);
    for (uint64_t i = 0; b.count < bytes / 3 * 2; i++)
        b.count += (size_t)sprintf((char *)b.data + b.count, "%d,%x,key%d\n", (int)i % 7,
                                   (unsigned)rng_u64(1, i), (int)(rng_u64(2, i) % 50));
    for (; b.count < bytes; b.count++)
        b.data[b.count] = (uint8_t)rng_u64(3, b.count);
    return b;
}

/* One member or frame for each `piece` bytes, in a file at `path`, a template of mkstemp. */
static void write_pieces(char *path, struct bytes text, size_t piece, enum packing packing)
{
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    for (size_t at = 0; at < text.count; at += piece) {
        const size_t left = text.count - at;
        struct bytes packed =
            bytes_pack((struct bytes){text.data + at, left < piece ? left : piece}, packing);
        assert_int_equal(fwrite(packed.data, 1, packed.count, f), packed.count);
        bytes_free(&packed);
    }
    assert_int_equal(fclose(f), 0);
}

static enum err note(struct stream_points *points, const char *path, struct errmsg *e)
{
    struct stream *s;
    uint8_t to[50000];
    size_t got = 1;
    assert_int_equal(stream_open_at(&s, path, NULL, 0, 0, e), ERR_OK);
    stream_note_points(s, points, 0);
    enum err err = ERR_OK;
    while (!err && got)
        err = stream_read(s, to, sizeof to, &got, e);
    stream_close(s);
    return err;
}

static void reads_at(const char *path, const struct stream_points *points, struct bytes text,
                     size_t at, size_t most)
{
    struct errmsg e = {""};
    struct stream *s;
    size_t got = 0, want = text.count - at < most ? text.count - at : most;
    uint8_t *to = malloc(most);
    assert_non_null(to);
    if (stream_open_at(&s, path, points->data, points->bytes, at, &e) ||
        stream_read(s, to, most, &got, &e))
        fail_msg("at %zu: %s", at, e.text);
    assert_int_equal(got, want);
    assert_memory_equal(to, text.data + at, want);
    stream_close(s);
    free(to);
}

static void a_compressed_file_is_entered_anywhere(void **state)
{
    (void)state;
    enum { BYTES = 3500000, STEP = 512 << 10, SOME = 70000 };
    static const struct {
        enum packing packing;
        size_t piece;
    } cases[] = {{PACK_ZSTD, 300000}, {PACK_ZSTD, 1 << 20}, {PACK_ZSTD, BYTES},
                 {PACK_GZIP, 65280},  {PACK_GZIP, 1500000}, {PACK_GZIP, BYTES}};
    struct bytes text = some_text(BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/gradwire-stream-XXXXXX";
        struct stream_points points = {0};
        struct errmsg e = {""};
        write_pieces(path, text, cases[i].piece, cases[i].packing);
        assert_int_equal(note(&points, path, &e), ERR_OK);
        if (cases[i].piece < 100000) /* short members have no windows */
            assert_in_range(points.bytes, 1, 200);
        for (size_t at = STEP; at < BYTES; at += STEP)
            for (size_t k = 0; k < 3; k++)
                reads_at(path, &points, text, at - 1 + k, SOME);
        reads_at(path, &points, text, 0, SOME);
        reads_at(path, &points, text, BYTES, SOME);
        reads_at(path, &points, text, 2500000, BYTES);
        if (cases[i].packing == PACK_GZIP ||
            cases[i].piece < BYTES) { /* the beginning is not read */
            FILE *f = fopen(path, "r+");
            assert_non_null(f);
            assert_int_equal(fwrite(text.data, 1, SOME, f), SOME);
            assert_int_equal(fclose(f), 0);
            reads_at(path, &points, text, 2500000, BYTES);
        }
        mem_free(points.data);
        (void)unlink(path);
    }
    bytes_free(&text);
}

/* They can come from a peer. */
static void damaged_places_are_errors(void **state)
{
    (void)state;
    enum { BYTES = 3000000, TRIES = 500 };
    struct bytes text = some_text(BYTES);
    for (enum packing packing = PACK_GZIP; packing <= PACK_ZSTD; packing++) {
        char path[] = "/tmp/gradwire-stream-XXXXXX";
        struct stream_points points = {0};
        struct errmsg e = {""};
        write_pieces(path, text, packing == PACK_ZSTD ? 500000 : BYTES, packing);
        assert_int_equal(note(&points, path, &e), ERR_OK);
        uint8_t *copy = malloc(points.bytes);
        assert_non_null(copy);
        for (uint64_t i = 0; i < TRIES; i++) {
            struct stream *s;
            uint8_t to[1000];
            size_t got, bytes = i % 3 ? points.bytes : rng_u64(i, 0) % points.bytes;
            memcpy(copy, points.data, points.bytes);
            copy[rng_u64(i, 1) % (i % 2 ? 40 : points.bytes)] ^= (uint8_t)(1 << i % 8);
            if (stream_open_at(&s, path, copy, bytes, rng_u64(i, 2) % BYTES, &e))
                continue;
            (void)!stream_read(s, to, sizeof to, &got, &e);
            stream_close(s);
        }
        free(copy);
        mem_free(points.data);
        (void)unlink(path);
    }
    bytes_free(&text);
}

/* With its size in its head, and without. */
static void a_large_frame_is_refused(void **state)
{
    (void)state;
    struct bytes text = {calloc(STREAM_FRAME_MOST_BYTES + 1, 1), STREAM_FRAME_MOST_BYTES + 1};
    assert_non_null(text.data);
    for (int i = 0; i < 3; i++) {
        char path[] = "/tmp/gradwire-stream-XXXXXX";
        struct stream_points points = {0};
        struct errmsg e = {""};
        ZSTD_CCtx *c = ZSTD_createCCtx();
        struct bytes packed = {malloc(ZSTD_compressBound(text.count)), 0};
        assert_non_null(c);
        assert_non_null(packed.data);
        (void)ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, i == 0);
        packed.count = ZSTD_compress2(c, packed.data, ZSTD_compressBound(text.count), text.data,
                                      text.count - (i == 2));
        write_pieces(path, packed, SIZE_MAX / 2, PACK_PLAIN);
        assert_int_equal(note(&points, path, &e), i == 2 ? ERR_OK : ERR_INPUT);
        assert_true(i == 2 || strstr(e.text, "./gradwire convert"));
        ZSTD_freeCCtx(c);
        bytes_free(&packed);
        mem_free(points.data);
        (void)unlink(path);
    }
    bytes_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_and_frames_follow_each_other),
        cmocka_unit_test(other_data_after_compressed_data_is_refused_with_its_place),
        cmocka_unit_test(data_that_ends_early_or_is_damaged_is_refused),
        cmocka_unit_test(damaged_first_bytes_are_not_read_as_text),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_is_refused_at_its_end),
        cmocka_unit_test(a_compressed_file_is_entered_anywhere),
        cmocka_unit_test(damaged_places_are_errors),
        cmocka_unit_test(a_large_frame_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
