#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/idx_files.h"
#include "data/dataset.h"

enum { RECORD = 3073, PLANE = 1024 };

/* Record r: label (first + r) % 10, plane c's pixel p is 40 c + r + p. */
static struct bytes records(unsigned n, unsigned first)
{
    struct bytes b = {malloc((size_t)n * RECORD + 1), (size_t)n * RECORD};
    assert_non_null(b.data);
    for (unsigned r = 0; r < n; r++) {
        uint8_t *at = b.data + (size_t)r * RECORD;
        *at++ = (uint8_t)((first + r) % 10);
        for (unsigned c = 0; c < 3; c++)
            for (unsigned p = 0; p < PLANE; p++)
                *at++ = (uint8_t)(40 * c + r + p);
    }
    return b;
}

static struct job cifar_job(char *patterns)
{
    struct job job = idx_job(32, 32, patterns);
    job.model.rank = 3;
    job.model.shape[2] = 3;
    job.data.format = DATA_CIFAR10;
    return job;
}

static enum err load(struct dataset *d, struct idx_files *files, const char *names,
                     uint32_t classes, struct errmsg *e)
{
    char pattern[600];
    snprintf(pattern, sizeof pattern, "%s", idx_files_path(files, names));
    struct job job = cifar_job(pattern);
    return dataset_load(d, &job, 0, classes, e);
}

static void cifar10_rows_have_their_channels_last(void **state)
{
    (void)state;
    struct idx_files files;
    struct errmsg e = {""};
    struct dataset d;
    uint8_t fingerprint[32];
    idx_files_init(&files);
    for (enum packing p = 0; p < PACK_COUNT; p++) {
        struct bytes plain = records(70, 0), packed = bytes_pack(plain, p);
        idx_files_write(&files, "data_batch_1.bin", packed);
        assert_int_equal(load(&d, &files, "data_batch_*", 10, &e), ERR_OK);
        assert_int_equal(d.rows, 70);
        assert_int_equal(d.features, 3072);
        for (unsigned r = 0; r < 70; r++) {
            assert_int_equal(d.labels[r], r % 10);
            for (unsigned p1 = 0; p1 < PLANE; p1++)
                for (unsigned c = 0; c < 3; c++)
                    assert_int_equal(d.x[(size_t)r * 3072 + 3 * p1 + c],
                                     (uint8_t)(40 * c + r + p1));
        }
        if (p == PACK_PLAIN)
            memcpy(fingerprint, d.contents.fingerprint, sizeof fingerprint);
        assert_memory_equal(d.contents.fingerprint, fingerprint, sizeof fingerprint);
        dataset_close(&d);
        bytes_free(&plain);
        bytes_free(&packed);
    }
    idx_files_close(&files);
}

static void cifar10_joins_its_batches_in_order(void **state)
{
    (void)state;
    struct idx_files files;
    struct errmsg e = {""};
    struct dataset d;
    struct bytes one = records(3, 0), two = records(2, 5);
    idx_files_init(&files);
    idx_files_write(&files, "data_batch_2.bin", two);
    idx_files_write(&files, "data_batch_1.bin", one);
    assert_int_equal(load(&d, &files, "data_batch_*.bin", 10, &e), ERR_OK);
    assert_int_equal(d.rows, 5);
    static const uint8_t labels[] = {0, 1, 2, 5, 6};
    assert_memory_equal(d.labels, labels, sizeof labels);
    dataset_close(&d);
    bytes_free(&one);
    bytes_free(&two);
    idx_files_close(&files);
}

static void refused(const uint8_t *data, size_t bytes, uint32_t classes, const char *why)
{
    struct idx_files files;
    struct errmsg e = {""};
    struct dataset d;
    idx_files_init(&files);
    idx_files_write(&files, "b.bin", (struct bytes){(uint8_t *)(uintptr_t)data, bytes});
    assert_int_equal(load(&d, &files, "b.bin", classes, &e), ERR_INPUT);
    if (!strstr(e.text, why) || !strstr(e.text, "data.train: ") || !strstr(e.text, "b.bin: "))
        fail_msg("%s", e.text);
    idx_files_close(&files);
}

static void cifar10_refuses_what_is_not_its_format_and_says_why(void **state)
{
    (void)state;
    struct bytes b = records(17, 0);
    refused(b.data, 0, 10, "it has no records");
    refused(b.data, 100, 10, "100 bytes follow its 0 records of 3073 bytes");
    refused(b.data, 17 * RECORD - 1, 10, "3072 bytes follow its 16 records");
    refused(b.data, 17 * RECORD, 9,
            "the label at offset 27657 (record 9, counted from 0) is 9, the model has 9 classes "
            "(labels 0 to 8)");
    b.data[(size_t)16 * RECORD] = 10;
    refused(b.data, 17 * RECORD, 100, "(record 16, counted from 0) is 10, CIFAR-10 has 10 classes");
    bytes_free(&b);
}

static void cifar10_refuses_another_shape(void **state)
{
    (void)state;
    char none[] = "/nonexistent";
    struct job job = cifar_job(none);
    struct dataset d;
    struct errmsg e;
    job.model.shape[0] = 3;
    job.model.shape[2] = 32;
    assert_int_equal(dataset_load(&d, &job, 0, 10, &e), ERR_INPUT);
    assert_string_equal(e.text, "data.train: data.format: cifar10 has rows of shape [32, 32, 3], "
                                "model.input.shape is [3, 32, 32]");
}

static void cifar10_subset_loads_whole(void **state)
{
    (void)state;
    const char *data = getenv("GRADWIRE_DATA");
    if (!data) {
        print_message("GRADWIRE_DATA is not set: cifar10-subset is not read\n");
        skip();
    }
    char path[1024];
    struct dataset d;
    struct errmsg e = {""};
    snprintf(path, sizeof path, "%s/cifar10-subset/train_batch.bin.gz", data);
    struct job job = cifar_job(path);
    if (dataset_load(&d, &job, 0, 10, &e))
        fail_msg("%s", e.text);
    assert_int_equal(d.rows, 5000);
    assert_int_equal((int)d.seen.max, 9);
    dataset_close(&d);
}

/* CIFAR-10's page has a version for Python, too, with names like these. */
static void a_pickle_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *begin;
        size_t bytes;
        const char *said;
    } of[] = {
        {"\x80\2}q\1(U\5batch_label", 5000,
         "it is a pickle of Python, not CIFAR-10's binary version"},
        {"\x80\4\x95 batch_label", 3000, "it is a pickle of Python, not CIFAR-10's binary version"},
        {"\3 batch_label", 5000, "not CIFAR-10's binary version: "}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        static uint8_t bytes[5000];
        struct idx_files files;
        struct errmsg e = {""};
        struct dataset_look look = {0};
        struct dataset d;
        memset(bytes, 1, sizeof bytes);
        strcpy((char *)bytes, of[i].begin);
        idx_files_init(&files);
        idx_files_write(&files, "data_batch_1", (struct bytes){bytes, of[i].bytes});
        char path[600];
        snprintf(path, sizeof path, "%s", idx_files_path(&files, "data_batch_1"));
        struct job job = cifar_job(path);
        assert_int_equal(dataset_look(&look, &job, 0, 10, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, of[i].said));
        assert_int_equal(dataset_load(&d, &job, 0, 10, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, of[i].said));
        idx_files_close(&files);
    }
}

static void a_look_counts_the_records_of_plain_files(void **state)
{
    (void)state;
    struct idx_files files;
    struct errmsg e = {""};
    struct dataset_look look = {0};
    char pattern[600];
    struct bytes plain = records(20, 3), packed = bytes_pack(plain, PACK_GZIP);
    idx_files_init(&files);
    idx_files_write(&files, "data_batch_1.bin", plain);
    snprintf(pattern, sizeof pattern, "%s", idx_files_path(&files, "data_batch_*"));
    struct job job = cifar_job(pattern);
    assert_int_equal(dataset_look(&look, &job, 0, 10, &e), ERR_OK);
    assert_int_equal(look.rows, 20);
    assert_int_equal(look.bytes, 20 * RECORD);
    assert_false(look.estimated);
    assert_int_equal(dataset_look(&look, &job, 0, 3, &e), ERR_INPUT); /* the first label is 3 */
    assert_non_null(strstr(e.text, "(record 0, counted from 0) is 3, the model has 3 classes"));
    plain.count -= 5;
    idx_files_write(&files, "data_batch_1.bin", plain);
    assert_int_equal(dataset_look(&look, &job, 0, 10, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "not CIFAR-10's binary version"));
    idx_files_write(&files, "data_batch_1.bin", packed);
    assert_int_equal(dataset_look(&look, &job, 0, 10, &e), ERR_OK);
    assert_true(look.estimated);
    idx_files_close(&files);
    bytes_free(&plain);
    bytes_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cifar10_rows_have_their_channels_last),
        cmocka_unit_test(cifar10_joins_its_batches_in_order),
        cmocka_unit_test(cifar10_refuses_what_is_not_its_format_and_says_why),
        cmocka_unit_test(cifar10_refuses_another_shape),
        cmocka_unit_test(cifar10_subset_loads_whole),
        cmocka_unit_test(a_pickle_is_named),
        cmocka_unit_test(a_look_counts_the_records_of_plain_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
