/* Imports of ONNX and safetensors: the seeds of the fuzz target are models; every allocation may fail; single wrong bytes are
 * refused or give a model. (tests/e2e/import_onnx_test.py compares the results of the operators.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/files.h"
#include "formats/imports/imports.h"
#include "formats/imports/onnx_tensor.h"

static const char *const seeds[] = {"shapes",   "strides", "branches", "global",
                                    "channels", "vectors", "last"};
enum { SEEDS = sizeof seeds / sizeof *seeds };

/* A seed without its first byte; the caller frees *all. */
static const uint8_t *seed(const char *name, uint8_t **all, size_t *bytes)
{
    const char *root = getenv("GRADWIRE_ROOT");
    char path[4096];
    struct errmsg e = {""};
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/import/onnx-%s", root ? root : ".",
                   name);
    if (files_read(path, 1 << 20, all, bytes, &e))
        fail_msg("%s", e.text);
    *bytes -= 1;
    return *all + 1;
}

static void every_seed_is_a_model(void **state)
{
    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        uint8_t *all;
        size_t bytes;
        struct imported m;
        struct errmsg e = {""};
        char *refused = NULL;
        const uint8_t *data = seed(seeds[i], &all, &bytes);
        if (imports_onnx_bytes(&m, seeds[i], data, bytes, &refused, &e))
            fail_msg("%s: %s", e.text, refused ? refused : "");
        assert_true(model_classes(m.model) == 3 && m.w && m.yaml);
        assert_true(m.scale == (i == 2 ? 4.0f : i == 5 ? 2.0f : 1.0f));
        imported_close(&m);
        mem_free(all);
    }
}

static void without_memory_anywhere_it_is_told(void **state)
{
    (void)state;
    uint8_t *all;
    size_t bytes;
    const uint8_t *data = seed("branches", &all, &bytes);
    int fired = 0;
    for (int i = 0;; i++, fired++) {
        struct imported m;
        struct errmsg e = {""};
        char *refused = NULL;
        mem_fail_at(i);
        enum err err = imports_onnx_bytes(&m, "a.onnx", data, bytes, &refused, &e);
        mem_fail_at(-1);
        mem_free(refused);
        if (err == ERR_OK) {
            imported_close(&m);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
    assert_true(fired > 20);
    mem_free(all);
}

static void a_wrong_byte_is_refused_with_a_reason_or_gives_a_model(void **state)
{
    (void)state;
    enum { TRIES = 400 };
    int models = 0;
    for (int i = 0; i < SEEDS * TRIES; i++) {
        uint8_t *all;
        size_t bytes;
        struct imported m;
        struct errmsg e = {""};
        char *refused = NULL;
        (void)seed(seeds[i % SEEDS], &all, &bytes);
        all[1 + rng_u64(1, (uint64_t)i) % bytes] = (uint8_t)rng_u64(2, (uint64_t)i);
        enum err err = imports_onnx_bytes(&m, "a.onnx", all + 1, bytes, &refused, &e);
        assert_true(err == ERR_OK || strncmp(e.text, "a.onnx: ", 8) == 0);
        if (err == ERR_OK)
            imported_close(&m);
        models += err == ERR_OK;
        mem_free(refused);
        mem_free(all);
    }
    assert_true(models > 0 && models < SEEDS * TRIES);
}

static void elements_of_every_type_are_read_from_raw_bytes_and_from_lists(void **state)
{
    (void)state;
    uint64_t n = 0;
    int64_t dims[] = {2};
    uint16_t half[] = {0x3c00, 0xc400}, bfloat[] = {0x3f80, 0xc080};
    float single[] = {1, -4};
    double twice[] = {1, -4};
    int32_t whole[] = {1, -4}, halves[] = {0x3c00, 0xc400}, bfloats[] = {0x3f80, 0xc080};
    int64_t longs[] = {1, -4};
    const struct {
        int32_t type;
        void *raw;
        size_t bytes;
    } raws[] = {{ONNX__DATA_TYPE__FLOAT, single, 8}, {ONNX__DATA_TYPE__DOUBLE, twice, 16},
                {ONNX__DATA_TYPE__FLOAT16, half, 4}, {ONNX__DATA_TYPE__BFLOAT16, bfloat, 4},
                {ONNX__DATA_TYPE__INT32, whole, 8},  {ONNX__DATA_TYPE__INT64, longs, 16}};
    for (size_t i = 0; i < sizeof raws / sizeof *raws; i++) {
        Onnx__Tensor t = ONNX__TENSOR__INIT, list = ONNX__TENSOR__INIT;
        t.n_dims = list.n_dims = 1;
        t.dims = list.dims = dims;
        t.data_type = list.data_type = raws[i].type;
        t.raw_data = (ProtobufCBinaryData){raws[i].bytes, raws[i].raw};
        list.n_float_data = list.n_double_data = list.n_int32_data = list.n_int64_data = 2;
        list.float_data = single;
        list.double_data = twice;
        list.int64_data = longs;
        list.int32_data = raws[i].type == ONNX__DATA_TYPE__FLOAT16    ? halves
                          : raws[i].type == ONNX__DATA_TYPE__BFLOAT16 ? bfloats
                                                                      : whole;
        assert_true(onnx_tensor_elems(&t, &n) && n == 2);
        assert_true(onnx_tensor_at(&t, 0) == 1 && onnx_tensor_at(&t, 1) == -4);
        assert_true(onnx_tensor_elems(&list, &n) && n == 2);
        assert_true(onnx_tensor_at(&list, 0) == 1 && onnx_tensor_at(&list, 1) == -4);
        t.raw_data.len--;
        assert_false(onnx_tensor_elems(&t, &n));
        list.data_location = 1;
        assert_false(onnx_tensor_elems(&list, &n));
    }
    Onnx__Tensor t = ONNX__TENSOR__INIT;
    int64_t large[] = {INT64_MAX, INT64_MAX}, below[] = {-1};
    t.data_type = ONNX__DATA_TYPE__FLOAT;
    t.n_dims = 2;
    t.dims = large;
    assert_false(onnx_tensor_elems(&t, &n));
    t.n_dims = 1;
    t.dims = below;
    assert_false(onnx_tensor_elems(&t, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_is_a_model),
        cmocka_unit_test(without_memory_anywhere_it_is_told),
        cmocka_unit_test(a_wrong_byte_is_refused_with_a_reason_or_gives_a_model),
        cmocka_unit_test(elements_of_every_type_are_read_from_raw_bytes_and_from_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
