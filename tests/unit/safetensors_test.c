#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/files.h"
#include "common/base/mem.h"
#include "tests/lib/folder.h"
#include "export/export.h"

static char folder[FOLDER_BYTES], path[128];

static int make_folder(void **state)
{
    (void)state;
    if (folder_make(folder) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_remove(folder);
}

/* Three tensors with gaps between them, in an order that is not that of their names. */
static struct tensor tensors[] = {
    {.name = "dense/kernel", .rank = 2, .shape = {2, 3}, .offset_elems = 0, .elems = 6},
    {.name = "dense/bias", .rank = 1, .shape = {3}, .offset_elems = 16, .elems = 3},
    {.name = "a \"scale\" \\", .rank = 0, .offset_elems = 32, .elems = 1},
};
static const struct layout layout = {.tensors = 3, .tensor = tensors, .elems = 48};
static const float w[48] = {
    [0] = 1.5f, -2, 3, 4, 5, 1e-40f, [16] = 7, 8, 9, [32] = -0.0f, [40] = 99,
};

static uint8_t *slurp(size_t *bytes)
{
    struct errmsg e;
    uint8_t *data;
    assert_int_equal(files_read(path, 1 << 20, &data, bytes, &e), ERR_OK);
    return data;
}

/* ---- safetensors ---- */

static void assert_tensor(json_t *header, const char *name, const struct tensor *t,
                          const uint8_t *data, size_t data_bytes)
{
    json_t *d = json_object_get(header, name);
    assert_non_null(d);
    assert_int_equal(json_object_size(d), 3);
    assert_string_equal(json_string_value(json_object_get(d, "dtype")), "F32");
    json_t *shape = json_object_get(d, "shape"), *offsets = json_object_get(d, "data_offsets");
    assert_int_equal(json_array_size(shape), t->rank);
    for (uint32_t i = 0; i < t->rank; i++)
        assert_int_equal(json_integer_value(json_array_get(shape, i)), t->shape[i]);
    assert_int_equal(json_array_size(offsets), 2);
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    assert_int_equal(end - begin, t->elems * 4);
    assert_true(begin >= 0 && (size_t)end <= data_bytes);
    assert_memory_equal(data + begin, w + t->offset_elems, t->elems * 4);
}

static void safetensors_hold_each_tensor_where_their_header_says(void **state)
{
    (void)state;
    struct errmsg e;
    size_t bytes;
    assert_int_equal(export_safetensors(folder_place(folder), &layout, w, NULL, 0, &e), ERR_OK);
    uint8_t *file = slurp(&bytes);
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | file[i];
    assert_int_equal(header_bytes % 8, 0);
    assert_true(header_bytes <= bytes - 8);
    assert_int_equal(file[8], '{');
    json_t *header = json_loadb((char *)file + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    assert_int_equal(json_object_size(header), 3);
    const uint8_t *data = file + 8 + header_bytes;
    size_t data_bytes = bytes - 8 - header_bytes;
    assert_int_equal(data_bytes, (6 + 3 + 1) * 4); /* no gaps: the format forbids them */
    for (int i = 0; i < 3; i++)
        assert_tensor(header, tensors[i].name, &tensors[i], data, data_bytes);
    /* in the order of the layout, back to back */
    json_int_t at = 0;
    const char *name;
    json_t *d;
    int i = 0;
    json_object_foreach(header, name, d)
    {
        assert_string_equal(name, tensors[i].name);
        json_t *offsets = json_object_get(d, "data_offsets");
        assert_int_equal(json_integer_value(json_array_get(offsets, 0)), at);
        at = json_integer_value(json_array_get(offsets, 1));
        i++;
    }
    json_decref(header);
    mem_free(file);
}

static void a_note_is_added_and_what_the_file_has_stays(void **state)
{
    (void)state;
    struct errmsg e;
    const struct export_note notes[] = {{"job", "a"}, {"digest", "old"}}, one = {"digest", "new"};
    const struct export_note more = {"step", "7"};
    float back[sizeof w / sizeof *w];
    char text[8];
    bool there;
    assert_int_equal(export_note(folder_place(folder), "step", text, sizeof text, &there, &e),
                     ERR_NOTFOUND);
    assert_int_equal(export_add_note(folder_place(folder), &layout, w, &one, &e), ERR_NOTFOUND);
    assert_int_equal(export_safetensors(folder_place(folder), &layout, w, notes, 2, &e), ERR_OK);
    assert_int_equal(export_add_note(folder_place(folder), &layout, w, &one, &e), ERR_OK);
    assert_int_equal(export_add_note(folder_place(folder), &layout, w, &more, &e), ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        static const char *const said[][2] = {{"job", "a"}, {"digest", "new"}, {"step", "7"}};
        assert_int_equal(
            export_note(folder_place(folder), said[i][0], text, sizeof text, &there, &e), ERR_OK);
        assert_true(there);
        assert_string_equal(text, said[i][1]);
    }
    assert_int_equal(export_read_safetensors(folder_place(folder), &layout, back, &e), ERR_OK);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(back + tensors[i].offset_elems, w + tensors[i].offset_elems,
                            tensors[i].elems * sizeof *w);
    assert_int_equal(export_safetensors(folder_place(folder), &layout, w, NULL, 0, &e), ERR_OK);
    assert_int_equal(export_add_note(folder_place(folder), &layout, w, &more, &e),
                     ERR_OK); /* the first one */
    assert_int_equal(export_note(folder_place(folder), "step", text, sizeof text, &there, &e),
                     ERR_OK);
    assert_true(there);
    assert_int_equal(export_note(folder_place(folder), "steps", text, sizeof text, &there, &e),
                     ERR_OK);
    assert_false(there);
    assert_int_equal(export_note(folder_place(folder), "step", text, 1, &there, &e), ERR_OK);
    assert_false(there); /* it does not fit */
}

static void a_tensor_that_the_model_does_not_have_is_refused(void **state)
{
    (void)state;
    struct errmsg e;
    float back[sizeof w / sizeof *w];
    struct layout less = {.tensors = 2, .tensor = tensors, .elems = layout.elems};
    assert_int_equal(export_safetensors(folder_place(folder), &layout, w, NULL, 0, &e), ERR_OK);
    assert_int_equal(export_read_safetensors(folder_place(folder), &less, back, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, tensors[2].name));
    assert_non_null(strstr(e.text, ", which the model does not have"));
}

static void a_model_without_tensors_is_an_empty_file_of_safetensors(void **state)
{
    (void)state;
    struct errmsg e;
    struct layout none = {0};
    size_t bytes;
    assert_int_equal(export_safetensors(folder_place(folder), &none, w, NULL, 0, &e), ERR_OK);
    uint8_t *file = slurp(&bytes);
    assert_int_equal(bytes, 16);
    assert_memory_equal(file, "\10\0\0\0\0\0\0\0{}      ", 16);
    mem_free(file);
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    (void)state;
    struct errmsg e;
    struct tensor two[2] = {tensors[0], tensors[0]};
    struct layout l = {.tensors = 2, .tensor = two, .elems = 16};
    assert_int_equal(export_safetensors(folder_place(folder), &l, w, NULL, 0, &e), ERR_STATE);
    assert_non_null(strstr(e.text, "dense/kernel"));
    assert_int_equal(access(path, F_OK), -1);
}

static void a_failed_export_leaves_the_older_file(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(files_write(path, "old", 3, &e), ERR_OK);
    for (long n = 0;; n++) {
        files_fail_at(n, ENOSPC);
        enum err err = export_safetensors(folder_place(folder), &layout, w, NULL, 0, &e);
        if (!files_fail_fired()) {
            assert_int_equal(err, ERR_OK);
            assert_true(n >=
                        8); /* open, header, three tensors, fsync, rename, fsync of the folder */
            break;
        }
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(e.text, "weights.safetensors: No space left on device"));
        size_t bytes;
        uint8_t *file = slurp(&bytes);
        /* the last step is the folder's fsync: the new file is there, whole */
        assert_true(memcmp(file, "old", 4) == 0 || bytes > 40);
        mem_free(file);
    }
}

/* ---- digest ---- */

/* Python's hashlib, over b"dense/kernel" + pack("<3I", 2, 2, 3) + pack("<6f", 1.5, -2, 3, 4, 5,
 * 1e-40)
 * + b"dense/bias" + pack("<2I", 1, 3) + pack("<3f", 7, 8, 9)
 * + b'a "scale" \\\\' + pack("<I", 0) + pack("<f", -0.0) */
static void the_digest_is_sha256_over_names_shapes_and_bytes(void **state)
{
    (void)state;
    char got[65];
    export_digest(&layout, w, NULL, got);
    assert_string_equal(got, "0651e03b2f67e15203835fa2b0cae7a6ec7065b82d99f28555572e025920471e");
}

static void without_memory_there_is_no_digest(void **state)
{
    (void)state;
    char got[65] = "x";
    mem_fail_at(0);
    export_digest(&layout, w, NULL, got);
    mem_fail_at(-1);
    assert_string_equal(got, "");
}

static void the_digest_of_nothing_is_that_of_the_empty_string(void **state)
{
    (void)state;
    char got[65];
    export_digest(&(struct layout){0}, w, NULL, got);
    assert_string_equal(got, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void the_digest_sees_each_weight_and_no_gap(void **state)
{
    (void)state;
    char is[65], other[65];
    float v[48];
    memcpy(v, w, sizeof v);
    export_digest(&layout, w, NULL, is);
    v[6] = 1;
    v[40] = 1;
    export_digest(&layout, v, NULL, other);
    assert_string_equal(is, other);
    v[32] = 0.0f; /* was -0 */
    export_digest(&layout, v, NULL, other);
    assert_string_not_equal(is, other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(safetensors_hold_each_tensor_where_their_header_says),
        TEST(a_note_is_added_and_what_the_file_has_stays),
        TEST(a_tensor_that_the_model_does_not_have_is_refused),
        TEST(a_model_without_tensors_is_an_empty_file_of_safetensors),
        TEST(two_tensors_of_one_name_are_refused),
        TEST(a_failed_export_leaves_the_older_file),
        TEST(the_digest_is_sha256_over_names_shapes_and_bytes),
        TEST(without_memory_there_is_no_digest),
        TEST(the_digest_of_nothing_is_that_of_the_empty_string),
        TEST(the_digest_sees_each_weight_and_no_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
