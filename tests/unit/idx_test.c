#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "tests/lib/idx_files.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { ROWS = 7, SIDE = 3, CLASSES = 10 };

static const uint32_t image_dims[] = {ROWS, SIDE, SIDE}, label_dims[] = {ROWS};

struct fixture {
    struct idx_files files;
    struct bytes images, labels;
    char patterns[1024];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    idx_files_init(&f->files);
    f->images = idx_bytes(3, image_dims, 5, 7, 251);
    f->labels = idx_bytes(1, label_dims, 3, 1, CLASSES);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    idx_files_close(&f->files);
    bytes_free(&f->images);
    bytes_free(&f->labels);
    free(f);
    return 0;
}

static void write_pair(struct fixture *f, struct bytes images, struct bytes labels)
{
    idx_files_write(&f->files, "t-images", images);
    idx_files_write(&f->files, "t-labels", labels);
}

static enum err load(struct fixture *f, const char *pattern, struct dataset *d, struct errmsg *e)
{
    snprintf(f->patterns, sizeof f->patterns, "%s", idx_files_path(&f->files, pattern));
    struct job job = idx_job(SIDE, SIDE, f->patterns);
    return dataset_load(d, &job, 0, CLASSES, e);
}

static void assert_loads(struct fixture *f, const char *pattern, struct dataset *d)
{
    struct errmsg e = {""};
    if (load(f, pattern, d, &e) != ERR_OK)
        fail_msg("%s", e.text);
}

/* The pattern "t-*" is refused as wrong input with both texts in the message. */
static void assert_refused(struct fixture *f, const char *text, const char *text_too)
{
    struct dataset d;
    struct errmsg e = {""};
    assert_int_equal(load(f, "t-*", &d, &e), ERR_INPUT);
    if (!strstr(e.text, text) || !strstr(e.text, text_too))
        fail_msg("'%s' and '%s' not in: %s", text, text_too, e.text);
}

static void idx_reads_plain_gzip_and_zstd_alike(void **state)
{
    struct fixture *f = *state;
    struct dataset first, d;
    for (enum packing p = PACK_PLAIN; p < PACK_COUNT; p++) {
        struct bytes images = bytes_pack(f->images, p), labels = bytes_pack(f->labels, p);
        write_pair(f, images, labels);
        assert_loads(f, "t-*", &d);
        assert_int_equal(d.rows, ROWS);
        assert_int_equal(d.features, SIDE * SIDE);
        assert_int_equal(d.rank, 2);
        assert_int_equal(d.shape[0], SIDE);
        assert_int_equal((int)d.seen.max, 9);
        assert_memory_equal(d.x, f->images.data + 16, ROWS * SIDE * SIDE);
        assert_memory_equal(d.labels, f->labels.data + 8, ROWS);
        if (p == PACK_PLAIN)
            first = d;
        else
            assert_memory_equal(d.contents.fingerprint, first.contents.fingerprint,
                                sizeof d.contents.fingerprint);
        if (p != PACK_PLAIN)
            dataset_close(&d);
        bytes_free(&images);
        bytes_free(&labels);
    }
    dataset_close(&first);
}

static void idx_fingerprint_follows_the_contents_and_not_the_names(void **state)
{
    struct fixture *f = *state;
    struct dataset a, b, c;
    write_pair(f, f->images, f->labels);
    assert_loads(f, "t-*", &a);
    idx_files_write(&f->files, "u-1", f->images);
    idx_files_write(&f->files, "u-2", f->labels);
    assert_loads(f, "u-*", &b);
    f->images.data[20] ^= 1;
    write_pair(f, f->images, f->labels);
    assert_loads(f, "t-*", &c);
    assert_memory_equal(a.contents.fingerprint, b.contents.fingerprint,
                        sizeof a.contents.fingerprint);
    assert_memory_not_equal(a.contents.fingerprint, c.contents.fingerprint,
                            sizeof a.contents.fingerprint);
    dataset_close(&a);
    dataset_close(&b);
    dataset_close(&c);
}

static void idx_joins_pairs_in_the_order_of_their_names(void **state)
{
    struct fixture *f = *state;
    static const uint32_t more_images[] = {2, SIDE, SIDE}, more_labels[] = {2};
    struct bytes images = idx_bytes(3, more_images, 200, 1, 256);
    struct bytes labels = idx_bytes(1, more_labels, 8, 0, 256);
    struct dataset d;
    idx_files_write(&f->files, "b-labels", f->labels); /* written in another order than read */
    idx_files_write(&f->files, "a-labels", labels);
    idx_files_write(&f->files, "b-images", f->images);
    idx_files_write(&f->files, "a-images", images);
    assert_loads(f, "*", &d);
    assert_int_equal(d.rows, 2 + ROWS);
    assert_memory_equal(d.x, images.data + 16, 2 * SIDE * SIDE);
    assert_memory_equal(d.x + 2 * SIDE * SIDE, f->images.data + 16, ROWS * SIDE * SIDE);
    assert_memory_equal(d.labels, labels.data + 8, 2);
    assert_memory_equal(d.labels + 2, f->labels.data + 8, ROWS);
    dataset_close(&d);
    bytes_free(&images);
    bytes_free(&labels);
}

static void idx_takes_a_list_of_files_by_lines(void **state)
{
    struct fixture *f = *state;
    struct dataset d;
    char list[600];
    write_pair(f, f->images, f->labels);
    snprintf(list, sizeof list, "t-labels\n\n%s/t-im*", f->files.dir);
    assert_loads(f, list, &d);
    assert_int_equal(d.rows, ROWS);
    dataset_close(&d);
}

static void idx_takes_a_name_that_is_there_as_it_stands(void **state)
{
    struct fixture *f = *state;
    struct dataset d;
    char list[600];
    idx_files_write(&f->files, "x[1]", f->images);
    idx_files_write(&f->files, "x1", f->labels); /* the glob x[1] would match this file */
    snprintf(list, sizeof list, "x[1]\n%s/x1", f->files.dir);
    assert_loads(f, list, &d);
    assert_int_equal(d.rows, ROWS);
    dataset_close(&d);
}

static void idx_names_the_pattern_that_matches_nothing(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, "data.train: no file matches ", "/t-*");
    struct dataset d;
    struct errmsg e;
    assert_int_equal(load(f, "gone", &d, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "/gone: No such file"));
    /* a shell or Python would find files in directories of any depth */
    assert_int_equal(load(f, "**/t-*", &d, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "/**/t-*: ** does not go into directories of any depth here"));
}

static void idx_refuses_what_is_no_regular_file(void **state)
{
    struct fixture *f = *state;
    write_pair(f, f->images, f->labels);
    assert_int_equal(mkfifo(idx_files_path(&f->files, "t-pipe"), 0600), 0);
    assert_refused(
        f, "t-pipe: ", "not a regular file; gradwire predict, evaluate and encode read stdin");
    unlink(idx_files_path(&f->files, "t-pipe"));
    assert_int_equal(mkdir(idx_files_path(&f->files, "t-pipe"), 0700), 0);
    assert_refused(f, "t-pipe: ", "it is a directory: name its files, as in DIR/*.csv");
    rmdir(idx_files_path(&f->files, "t-pipe"));
}

static void idx_says_how_many_bytes_a_truncated_file_lacks(void **state)
{
    struct fixture *f = *state;
    f->images.count -= 5;
    write_pair(f, f->images, f->labels);
    assert_refused(f, "t-images: truncated: its header asks for 63 + 16 bytes, 74 are there", "");
    struct bytes packed = bytes_pack(f->images, PACK_GZIP);
    write_pair(f, packed, f->labels);
    assert_refused(f, "t-images: truncated: 79 bytes expected, 74 there", "");
    bytes_free(&packed);
    packed = bytes_pack(f->images, PACK_ZSTD);
    write_pair(f, packed, f->labels);
    assert_refused(f, "t-images: truncated: 79 bytes expected, 74 there", "");
    bytes_free(&packed);
}

static void idx_refuses_a_file_cut_at_any_length(void **state)
{
    struct fixture *f = *state;
    for (enum packing p = PACK_PLAIN; p < PACK_COUNT; p++) {
        struct bytes packed = bytes_pack(f->images, p);
        for (size_t n = packed.count; n-- > 0;) {
            write_pair(f, (struct bytes){packed.data, n}, f->labels);
            assert_refused(f, "t-images: ", "");
        }
        bytes_free(&packed);
    }
}

static void idx_refuses_a_flipped_bit_or_reads_the_same(void **state)
{
    struct fixture *f = *state;
    for (enum packing p = PACK_GZIP; p < PACK_COUNT; p++) {
        struct bytes packed = bytes_pack(f->images, p);
        for (size_t bit = 0; bit < 8 * packed.count; bit++) {
            struct dataset d;
            struct errmsg e;
            packed.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
            write_pair(f, packed, f->labels);
            if (load(f, "t-*", &d, &e) == ERR_OK) {
                assert_memory_equal(d.x, f->images.data + 16, ROWS * SIDE * SIDE);
                dataset_close(&d);
            }
            packed.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
        bytes_free(&packed);
    }
}

static void idx_names_a_corrupt_compression(void **state)
{
    struct fixture *f = *state;
    struct bytes packed = bytes_pack(f->images, PACK_GZIP);
    packed.data[packed.count - 8] ^= 1; /* the CRC-32 of the contents */
    write_pair(f, packed, f->labels);
    assert_refused(f, "t-images: ", "the gzip data is corrupt");
    bytes_free(&packed);
    packed = bytes_pack(f->images, PACK_ZSTD);
    packed.data[packed.count - 1] ^= 1;
    write_pair(f, packed, f->labels);
    assert_refused(f, "t-images: ", "the zstd data is corrupt");
    bytes_free(&packed);
}

static void idx_refuses_bytes_after_the_last_element(void **state)
{
    struct fixture *f = *state;
    static const uint32_t one_more[] = {ROWS * SIDE * SIDE + 1 + 8};
    struct bytes longer = idx_bytes(1, one_more, 0, 1, 256);
    memcpy(longer.data, f->images.data, f->images.count);
    assert_int_equal(longer.count, f->images.count + 1);
    for (enum packing p = PACK_PLAIN; p < PACK_COUNT; p++) {
        struct bytes packed = bytes_pack(longer, p);
        write_pair(f, packed, f->labels);
        assert_refused(f, "t-images: bytes follow after the 63 + 16", "");
        bytes_free(&packed);
    }
    bytes_free(&longer);
}

static void idx_refuses_a_header_that_its_file_cannot_hold(void **state)
{
    struct fixture *f = *state;
    memset(f->images.data + 4, 0xFF, 4); /* 4294967295 rows */
    for (enum packing p = PACK_PLAIN; p < PACK_COUNT; p++) {
        struct bytes packed = bytes_pack(f->images, p);
        write_pair(f, packed, f->labels);
        assert_refused(f, "t-images: truncated: its header asks for 38654705655 + 16 bytes", "");
        bytes_free(&packed);
    }
    memset(f->images.data + 4, 0xFF, 12); /* each dimension: the product does not fit 64 bits */
    write_pair(f, f->images, f->labels);
    assert_refused(f, "t-images: a row of it would have more than 2^32 bytes", "");
}

static void idx_refuses_other_magic(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint8_t magic[4];
        const char *text;
    } cases[] = {
        {{0, 0, 0x07, 3}, "not an idx file: it begins with 00 00 07 03"},
        {{'P', 'K', 3, 4},
         "not an idx file: it begins with 50 4b 03 04, not with 00 00 and a type"},
        {{0, 0, 8, 0}, "it has 0 dimensions"},
        {{0, 0, 8, 6}, "it has 6 dimensions, not 1 (labels) or 2 to 5 (rows)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(f->images.data, cases[i].magic, 4);
        write_pair(f, f->images, f->labels);
        assert_refused(f, "t-images: ", cases[i].text);
    }
}

static void idx_refuses_an_empty_dimension(void **state)
{
    struct fixture *f = *state;
    memset(f->images.data + 4, 0, 4);
    write_pair(f, f->images, f->labels);
    assert_refused(f, "t-images: dimension 0 is 0", "");
}

static void idx_refuses_counts_that_differ(void **state)
{
    struct fixture *f = *state;
    static const uint32_t fewer[] = {ROWS - 1};
    struct bytes labels = idx_bytes(1, fewer, 0, 1, CLASSES);
    write_pair(f, f->images, labels);
    assert_refused(f, "t-images has 7 rows, ", "t-labels has 6 labels");
    bytes_free(&labels);
}

static void idx_refuses_files_that_make_no_pairs(void **state)
{
    struct fixture *f = *state;
    write_pair(f, f->images, f->images);
    assert_refused(f, "t-images: idx files of labels (1 dimension) are missing", "");
    write_pair(f, f->labels, f->labels);
    assert_refused(f, "idx files of rows (2 or more dimensions) are missing", "");
    write_pair(f, f->images, f->labels);
    idx_files_write(&f->files, "t-more", f->images);
    assert_refused(f, "2 files of rows and 1 files of labels", "");
}

static void idx_refuses_pairs_of_two_shapes(void **state)
{
    struct fixture *f = *state;
    static const uint32_t wide[] = {ROWS, SIDE, SIDE + 1};
    struct bytes images = idx_bytes(3, wide, 0, 1, 256);
    write_pair(f, f->images, f->labels);
    idx_files_write(&f->files, "t2-images", images);
    idx_files_write(&f->files, "t2-labels", f->labels);
    struct dataset d;
    struct errmsg e;
    assert_int_equal(load(f, "t*", &d, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "have another shape than those of"));
    bytes_free(&images);
}

static void idx_names_file_offset_and_value_of_a_label_out_of_range(void **state)
{
    struct fixture *f = *state;
    f->labels.data[8 + 4] = 17;
    write_pair(f, f->images, f->labels);
    assert_refused(
        f,
        "t-labels: the label at offset 12 (item 4, counted from 0) is 17, the model has 10 "
        "classes (labels 0 to 9)",
        "");
    f->labels.data[8 + 4] = 10;
    write_pair(f, f->images, f->labels);
    assert_refused(f, "classes (labels 0 to 9); if they start at 1, save y - 1", "");
}

/* An idx file of one type: `bytes` an element, the highest byte first, as the caller has put them. */
static struct bytes typed(uint8_t type, uint32_t rank, const uint32_t *dim, const uint8_t *elements,
                          size_t bytes)
{
    struct bytes b = {calloc(1, 4 + 4 * (size_t)rank + bytes), 4 + 4 * (size_t)rank + bytes};
    assert_non_null(b.data);
    b.data[2] = type;
    b.data[3] = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++)
        b.data[7 + 4 * i] = (uint8_t)dim[i];
    memcpy(b.data + 4 + 4 * (size_t)rank, elements, bytes);
    return b;
}

/* Written by Python: struct.pack(">4f", 1.5, -2, 3.25, 1e-3), and so on. */
static void idx_reads_numbers_of_each_type(void **state)
{
    struct fixture *f = *state;
    static const uint32_t rows[] = {2, 2}, labels[] = {2};
    static const struct {
        uint8_t type;
        size_t bytes;
        uint8_t elements[32];
        float is[4];
    } cases[] = {
        {0x08, 4, {1, 2, 3, 255}, {1, 2, 3, 255}},
        {0x09, 4, {1, 2, 0x80, 0xFF}, {1, 2, -128, -1}},
        {0x0B, 8, {0, 1, 0x7F, 0xFF, 0x80, 0, 0xFF, 0xFF}, {1, 32767, -32768, -1}},
        {0x0C,
         16,
         {0, 0, 0, 1, 0, 1, 0, 0, 0x80, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFE},
         {1, 65536, -2147483648.0F, -2}},
        {0x0D,
         16,
         {0x3F, 0xC0, 0, 0, 0xC0, 0, 0, 0, 0x40, 0x50, 0, 0, 0x3A, 0x83, 0x12, 0x6F},
         {1.5F, -2, 3.25F, 1e-3F}},
        {0x0E,
         32,
         {0x3F, 0xF8, 0, 0, 0, 0, 0, 0, 0xC0, 0,    0,    0,    0,    0,    0,    0,
          0x40, 0x0A, 0, 0, 0, 0, 0, 0, 0x3F, 0x50, 0x62, 0x4D, 0xD2, 0xF1, 0xA9, 0xFC},
         {1.5F, -2, 3.25F, 1e-3F}},
    };
    static const uint8_t int_labels[] = {0, 0, 0, 7, 0, 0, 0, 3}, byte_labels[] = {7, 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes x = typed(cases[i].type, 2, rows, cases[i].elements, cases[i].bytes);
        struct bytes y = i % 2 ? typed(0x0C, 1, labels, int_labels, sizeof int_labels)
                               : typed(0x08, 1, labels, byte_labels, sizeof byte_labels);
        struct dataset d;
        struct errmsg e = {""};
        static const uint64_t both[] = {0, 1};
        float got[4], label[2];
        uint32_t there;
        write_pair(f, x, y);
        struct job job = idx_job(2, 1, f->patterns);
        snprintf(f->patterns, sizeof f->patterns, "%s", idx_files_path(&f->files, "t-*"));
        job.data.scale = 2;
        if (dataset_load(&d, &job, 0, CLASSES, &e))
            fail_msg("%s", e.text);
        assert_int_equal(gathered_rows(&d, both, 2, got, label, &there, &e), ERR_OK);
        for (int k = 0; k < 4; k++)
            assert_true(got[k] == cases[i].is[k] / 2);
        assert_true(label[0] == 7 && label[1] == 3);
        assert_int_equal(dataset_check_classes(&d, 8, &e), ERR_OK);
        assert_int_equal(dataset_check_classes(&d, 7, &e), ERR_INPUT);
        dataset_close(&d);
        bytes_free(&x);
        bytes_free(&y);
    }
}

static void idx_refuses_numbers_and_labels_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    static const uint32_t rows[] = {2, 1}, labels[] = {2};
    static const uint8_t nan_row[] = {0, 0, 0, 0, 0x7F, 0xC0, 0, 0},
                         huge[] = {0x7F, 0xE0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                         good[] = {0, 0, 0, 0, 0, 0, 0, 0}, half[] = {0, 0, 0, 0, 0x3F, 0, 0, 0},
                         below[] = {0xFF, 0};
    struct bytes y = typed(0x0D, 1, labels, good, sizeof good);
    struct bytes x = typed(0x0D, 2, rows, nan_row, sizeof nan_row);
    write_pair(f, x, y);
    struct dataset d;
    struct errmsg e = {""};
    struct job job = idx_job(1, 1, f->patterns);
    snprintf(f->patterns, sizeof f->patterns, "%s", idx_files_path(&f->files, "t-*"));
    assert_int_equal(dataset_load(&d, &job, 0, 2, &e), ERR_INPUT);
    assert_non_null(strstr(e.text,
                           "t-images: the number at offset 16 is not finite, or beyond 32-bit "
                           "floats (row 1, number 0 of it, both counted from 0)"));
    bytes_free(&x);
    x = typed(0x0E, 2, rows, huge, sizeof huge);
    write_pair(f, x, y);
    assert_int_equal(dataset_load(&d, &job, 0, 2, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "t-images: the number at offset 12 is not finite, or beyond"));
    bytes_free(&x);
    bytes_free(&y);
    x = typed(0x0D, 2, rows, good, sizeof good);
    y = typed(0x0D, 1, labels, half, sizeof half);
    write_pair(f, x, y);
    assert_int_equal(dataset_load(&d, &job, 0, 2, &e), ERR_INPUT);
    assert_non_null(
        strstr(e.text, "t-labels: the label at offset 12 (item 1, counted from 0) is 0.5"));
    job.data.augment.shift = 1;
    assert_int_equal(dataset_load(&d, &job, 0, 0, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "data.augment"));
    bytes_free(&y);
    y = typed(0x09, 1, labels, below, sizeof below);
    write_pair(f, x, y);
    job.data.augment.shift = 0;
    assert_int_equal(dataset_load(&d, &job, 0, 2, &e), ERR_INPUT);
    assert_non_null(
        strstr(e.text, "t-labels: the label at offset 8 (item 0, counted from 0) is -1"));
    bytes_free(&x);
    bytes_free(&y);
}

static int open_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void idx_gives_all_back_when_any_allocation_fails(void **state)
{
    struct fixture *f = *state;
    int before = open_descriptors();
    struct bytes packed = bytes_pack(f->images, PACK_ZSTD);
    write_pair(f, packed, f->labels);
    long n = 0;
    for (int fired = 1; fired; n++) {
        struct dataset d = {.rows = 99};
        struct errmsg e;
        mem_fail_at(n);
        enum err err = load(f, "t-*", &d, &e);
        fired = mem_fail_fired();
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        if (err)
            assert_int_equal(d.rows, 99); /* unchanged on error */
        else
            dataset_close(&d);
    }
    mem_fail_at(-1);
    assert_true(n > 10);
    assert_int_equal(open_descriptors(), before);
    bytes_free(&packed);
}

static void a_look_reads_headers_and_refuses_what_they_do_not_fit(void **state)
{
    struct fixture *f = *state;
    struct dataset_look look = {0};
    struct errmsg e = {""};
    write_pair(f, f->images, f->labels);
    snprintf(f->patterns, sizeof f->patterns, "%s", idx_files_path(&f->files, "t-*"));
    struct job job = idx_job(SIDE, SIDE, f->patterns);
    assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &e), ERR_OK);
    assert_int_equal(look.files, 2);
    assert_int_equal(look.rows, ROWS);
    assert_int_equal(look.bytes, ROWS * (SIDE * SIDE + 1));
    assert_false(look.estimated);
    job = idx_job(SIDE + 1, SIDE, f->patterns);
    assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "model.input.shape"));
    idx_files_write(&f->files, "t-images", f->labels);
    job = idx_job(SIDE, SIDE, f->patterns);
    assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &e), ERR_INPUT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(idx_reads_plain_gzip_and_zstd_alike),
        TEST(a_look_reads_headers_and_refuses_what_they_do_not_fit),
        TEST(idx_fingerprint_follows_the_contents_and_not_the_names),
        TEST(idx_joins_pairs_in_the_order_of_their_names),
        TEST(idx_takes_a_list_of_files_by_lines),
        TEST(idx_takes_a_name_that_is_there_as_it_stands),
        TEST(idx_names_the_pattern_that_matches_nothing),
        TEST(idx_refuses_what_is_no_regular_file),
        TEST(idx_says_how_many_bytes_a_truncated_file_lacks),
        TEST(idx_refuses_a_file_cut_at_any_length),
        TEST(idx_refuses_a_flipped_bit_or_reads_the_same),
        TEST(idx_names_a_corrupt_compression),
        TEST(idx_refuses_bytes_after_the_last_element),
        TEST(idx_refuses_a_header_that_its_file_cannot_hold),
        TEST(idx_refuses_other_magic),
        TEST(idx_reads_numbers_of_each_type),
        TEST(idx_refuses_numbers_and_labels_that_cannot_be),
        TEST(idx_refuses_an_empty_dimension),
        TEST(idx_refuses_counts_that_differ),
        TEST(idx_refuses_files_that_make_no_pairs),
        TEST(idx_refuses_pairs_of_two_shapes),
        TEST(idx_names_file_offset_and_value_of_a_label_out_of_range),
        TEST(idx_gives_all_back_when_any_allocation_fails),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
