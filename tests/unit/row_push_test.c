/* A push that names an ask: its sections are, byte for byte, those of the push that carries its keys; what cannot be is
 * refused before anything is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/rows/key.h"
#include "ps/rows/row_push.h"
#include "worker/driver/row_frames.h"

/* Tables 0 and 1 have list 0, table 2 has list 1, table 3 has list 2. */
static struct row_layout layout = {
    .lists = 3,
    .tables = 4,
    .table = {{.name = "a", .dim = 2, .init = INIT_ONES},
              {.name = "b", .dim = 1, .init = INIT_ONES},
              {.name = "c", .dim = 3, .list = 1, .init = INIT_ZEROS},
              {.name = "d", .dim = 1, .list = 2, .init = INIT_ZEROS}}};
enum { KEYS = 9000, SECTIONS = 1 << 18 };
static const struct bucket_range buckets = {1024, 2048}; /* shard 1 of 4 */

struct fixture {
    struct row_values asked; /* by the worker, of all shards */
    struct row_sums sums;
    struct row_keys kept; /* by the shard */
    uint64_t body[SECTIONS / 8], want[SECTIONS / 8], is[SECTIONS / 8];
    size_t bytes, want_bytes;
};

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How many of the keys that were asked for in a part the node has: some, none, all. */
static bool has(uint32_t list, uint64_t mixed)
{
    uint32_t part =
        (key_bucket(mixed) - buckets.first) / ((buckets.end - buckets.first) / ROW_PARTS);
    return part % 4 == 1 ? true : part % 4 == 2 ? false : list != 1 && mixed % 3 == 0;
}

static struct fixture *begin(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct errmsg e;
    srand(11);
    row_values_init(&f->asked, &layout);
    row_sums_init(&f->sums, &layout);
    for (uint32_t list = 0; list < layout.lists; list++) {
        uint32_t keys = list == 2 ? 0 : KEYS, n = 0;
        assert_int_equal(row_values_reserve(&f->asked, list, keys, &e), ERR_OK);
        uint64_t *mixed = f->asked.list[list].mixed;
        for (uint32_t i = 0; i < keys; i++)
            mixed[i] = key_mix(list * KEYS + i);
        if (keys)
            qsort(mixed, keys, sizeof *mixed, ascending);
        struct row_sums_list *l = &f->sums.list[list];
        l->mixed = calloc(keys + 1, sizeof *l->mixed);
        for (uint32_t i = 0; i < keys; i++)
            if (has(list, mixed[i]))
                l->mixed[n++] = mixed[i];
        l->keys = n;
        size_t first = key_below(mixed, keys, buckets.first);
        f->kept.mixed[list] = keys ? mixed + first : NULL;
        f->kept.keys[list] = (uint32_t)(key_below(mixed, keys, buckets.end) - first);
    }
    for (uint32_t t = 0; t < layout.tables; t++) {
        size_t floats = (size_t)f->sums.list[layout.table[t].list].keys * layout.table[t].dim;
        f->sums.g[t] = calloc(floats + 1, sizeof(float));
        for (size_t i = 0; i < floats; i++)
            f->sums.g[t][i] = (float)rand();
    }
    return f;
}

/* The parts [first, first + parts), by the ask and with keys. */
static struct row_push make(struct fixture *f, uint32_t first, uint32_t parts)
{
    const struct row_way named = {&f->asked, layout.codecs.push, 77};
    const struct row_way keyed = {NULL, layout.codecs.push, 77};
    f->bytes = f->want_bytes = 0;
    for (uint32_t p = first; p < first + parts; p++) {
        struct bucket_range part = bucket_part(buckets, p);
        f->bytes += row_frames_part(&f->sums, &named, part, (uint8_t *)f->body + f->bytes);
        f->want_bytes +=
            row_frames_part(&f->sums, &keyed, part, (uint8_t *)f->want + f->want_bytes);
        assert_true(f->want_bytes < SECTIONS);
    }
    return (struct row_push){.layout = &layout,
                             .buckets = buckets,
                             .first = first,
                             .parts = parts,
                             .asked = &f->kept,
                             .body = (const uint8_t *)f->body,
                             .bytes = f->bytes};
}

static void end(struct fixture *f)
{
    for (uint32_t i = 0; i < layout.lists; i++)
        free(f->sums.list[i].mixed);
    for (uint32_t t = 0; t < layout.tables; t++)
        free(f->sums.g[t]);
    row_values_close(&f->asked);
    free(f);
}

static void sections_by_an_ask_are_those_with_keys(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (uint32_t first = 0; first < ROW_PARTS; first++)
        for (uint32_t parts = 1; first + parts <= ROW_PARTS; parts++) {
            struct row_push p = make(f, first, parts);
            const float *at[ROW_PARTS];
            struct errmsg e = {""};
            uint64_t bytes = 0, used, done = 0;
            assert_true(f->bytes < f->want_bytes || first % 4 == 2);
            assert_int_equal(row_push_check(&p, &bytes, &e), ERR_OK);
            assert_int_equal(bytes, f->want_bytes);
            memset(f->is, 0xff, sizeof f->is);
            row_push_expand(&p, (uint8_t *)f->is, at);
            assert_memory_equal(f->is, f->want, bytes);
            assert_int_equal(((uint8_t *)f->is)[bytes], 0xff);
            for (uint32_t i = 0; i < parts; i++, done += used) {
                struct row_grads g;
                assert_ptr_equal(at[i], (uint8_t *)f->is + done);
                assert_int_equal(row_grads_read(&g, &layout, bucket_part(buckets, first + i), at[i],
                                                bytes - done, &used, &e),
                                 ERR_OK);
            }
        }
    end(f);
}

/* Table a as fp16, b as int8, c as it is, d as bf16. */
static void use_codecs(bool use)
{
    static const enum row_codec of[] = {ROW_CODEC_FP16, ROW_CODEC_INT8, ROW_CODEC_NONE,
                                        ROW_CODEC_BF16};
    for (uint32_t t = 0; t < layout.tables; t++)
        layout.codecs.push[t] = use ? of[t] : ROW_CODEC_NONE;
}

static uint64_t expand(const struct row_push *p, void *out, struct row_grads *g)
{
    const float *at[ROW_PARTS];
    struct errmsg e = {""};
    uint64_t bytes = 0, used = 0;
    assert_int_equal(row_push_check(p, &bytes, &e), ERR_OK);
    row_push_expand(p, out, at);
    assert_int_equal(
        row_grads_read(g, &layout, bucket_part(buckets, p->first), at[0], bytes, &used, &e),
        ERR_OK);
    return bytes;
}

/* Encoded gradients are the same whether keys or bits stand before them; those of no codec are to the bit. */
static void sections_of_encoded_gradients_have_the_keys_of_plain_ones(void **state)
{
    (void)state;
    struct fixture *f = begin();
    static uint64_t plain[SECTIONS / 8], other[SECTIONS / 8];
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        struct row_grads want, by_ask, by_keys;
        struct row_push p = make(f, part, 1);
        (void)expand(&p, plain, &want);
        use_codecs(true);
        p = make(f, part, 1);
        uint64_t bytes = expand(&p, f->is, &by_ask);
        p.asked = NULL;
        p.body = (const uint8_t *)f->want;
        p.bytes = f->want_bytes;
        assert_int_equal(expand(&p, other, &by_keys), bytes);
        assert_memory_equal(f->is, other, bytes);
        use_codecs(false);
        for (uint32_t list = 0; list < layout.lists; list++) {
            assert_int_equal(by_ask.keys[list], want.keys[list]);
            assert_memory_equal(by_ask.mixed[list], want.mixed[list],
                                want.keys[list] * sizeof(uint64_t));
        }
        for (uint32_t t = 0; t < layout.tables; t++)
            for (uint32_t i = 0; i < want.keys[layout.table[t].list] * layout.table[t].dim; i++) {
                float is = by_ask.g[t][i], was = want.g[t][i];
                float off = t == 2 ? 0 : t == 1 ? was / 100 : t == 0 ? 3e9f : was / 250;
                assert_true(is - was <= off && was - is <= off); /* fp16 ends at 65504 */
            }
    }
    end(f);
}

static void refuse(const struct row_push *p, const char *text);

static void encoded_gradients_with_keys_are_checked_as_plain_ones_are(void **state)
{
    (void)state;
    struct fixture *f = begin();
    char text[200];
    use_codecs(true);
    struct row_push p = make(f, 0, 1);
    uint64_t *body = f->want;
    uint32_t keys = *(uint32_t *)body;
    p.asked = NULL;
    p.body = (const uint8_t *)body;
    p.bytes = 16 + keys * sizeof *body - 1;
    (void)snprintf(text, sizeof text, "%u bytes are left for %u keys", keys * 8 - 1, keys);
    refuse(&p, text);
    p.bytes = f->want_bytes;
    uint64_t first = body[2];
    body[2] = body[3];
    refuse(&p, "keys 0 and 1 of list 0 do not ascend");
    body[2] = 5;
    refuse(&p, "key 0 of list 0 is of bucket 0: from 1024 on, below 1088 are expected");
    body[2] = first;
    struct errmsg e;
    uint64_t bytes;
    for (size_t left = 0; left < f->want_bytes; left++) {
        uint8_t *exact = malloc(left + 8), *at = exact + (8 - (uintptr_t)exact % 8) % 8;
        memcpy(at, body, left);
        p.body = at;
        p.bytes = left;
        assert_int_equal(row_push_check(&p, &bytes, &e), ERR_PROTO);
        free(exact);
    }
    use_codecs(false);
    end(f);
}

static void refuse(const struct row_push *p, const char *text)
{
    struct errmsg e = {""};
    uint64_t bytes = 77;
    assert_int_equal(row_push_check(p, &bytes, &e), ERR_PROTO);
    assert_string_equal(e.text, text);
    assert_int_equal(bytes, 77);
}

/* Part 1 has all keys of lists 0 and 1; part 0 some of list 0 and none of list 1. */
static void a_push_that_is_not_of_its_ask_is_refused_by_name(void **state)
{
    (void)state;
    struct fixture *f = begin();
    char text[200];
    struct row_push p = make(f, 1, 1);
    uint32_t *count = (uint32_t *)f->body, all = count[0];
    count[0] = all + 1;
    (void)snprintf(text, sizeof text, "%u keys of list 0 are pushed; %u were requested", all + 1,
                   all);
    refuse(&p, text);
    count[0] = all;
    count[2] = 1; /* of a list without keys */
    refuse(&p, "1 keys of list 2 are pushed; 0 were requested");
    p = make(f, 0, 1);
    uint32_t some = count[0];
    count[0] = some - 1;
    (void)snprintf(text, sizeof text,
                   "%u bits are set for the %u keys of list 0 that are announced", some, some - 1);
    refuse(&p, text);
    p = make(f, 0, 1);
    struct bucket_range part = bucket_part(buckets, 0);
    uint32_t of = (uint32_t)(key_below(f->kept.mixed[0], f->kept.keys[0], part.end) -
                             key_below(f->kept.mixed[0], f->kept.keys[0], part.first));
    assert_true(of > 32 && of % 64 != 0);
    f->body[2 + of / 64] |= UINT64_C(1) << 63;
    (void)snprintf(text, sizeof text, "a bit is set beyond the %u keys of list 0", of);
    refuse(&p, text);
    p = make(f, 0, 1);
    p.bytes = 8;
    refuse(&p, "8 bytes are left for the counts of 3 lists");
    p.bytes = 16;
    (void)snprintf(text, sizeof text, "0 bytes are left for the bits of %u keys", of);
    refuse(&p, text);
    p.bytes = f->bytes + 8;
    refuse(&p, "8 bytes are left over after part 0");
    p.bytes = f->bytes - 8;
    (void)snprintf(text, sizeof text,
                   "%u bytes that are left are not gradients of %u rows of table b",
                   some * 4 - (some % 2 ? 4 : 8), some);
    refuse(&p, text);
    end(f);
}

static void a_push_that_is_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct row_push p = make(f, 0, 3);
    struct errmsg e;
    uint64_t bytes;
    for (size_t left = 0; left < f->bytes; left++) {
        uint8_t *exact = malloc(left + 8), *at = exact + (8 - (uintptr_t)exact % 8) % 8;
        memcpy(at, f->body, left); /* the sanitizer sees a byte too many */
        p.body = at;
        p.bytes = left;
        assert_int_equal(row_push_check(&p, &bytes, &e), ERR_PROTO);
        free(exact);
    }
    end(f);
}

/* Changed bytes are refused, or make sections that are valid. */
static void bits_of_noise_break_nothing(void **state)
{
    (void)state;
    struct fixture *f = begin();
    uint32_t refused = 0;
    for (int round = 0; round < 2000; round++) {
        struct row_push p = make(f, (uint32_t)round % ROW_PARTS, 1);
        const float *at[ROW_PARTS];
        struct errmsg e;
        struct row_grads g;
        uint64_t bytes, used;
        size_t noisy = round % 2 ? 64 : f->bytes; /* counts and bits, or anywhere */
        for (int i = rand() % 3; i >= 0; i--)
            ((uint8_t *)f->body)[(size_t)rand() % (noisy < f->bytes ? noisy : f->bytes)] ^=
                (uint8_t)(1 << rand() % 8);
        if (row_push_check(&p, &bytes, &e)) {
            refused++;
            continue;
        }
        row_push_expand(&p, (uint8_t *)f->is, at);
        assert_int_equal(
            row_grads_read(&g, &layout, bucket_part(buckets, p.first), at[0], bytes, &used, &e),
            ERR_OK);
        assert_int_equal(used, bytes);
    }
    assert_true(refused > 500 && refused < 2000);
    end(f);
}

/* The gap of 8 bytes at most behind encoded rows, which no table has. */
static void a_part_without_its_gap_is_refused(void **state)
{
    (void)state;
    struct fixture *f = begin();
    uint32_t gaps = 0;
    use_codecs(true);
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        struct row_push p = make(f, part, 1);
        if (f->bytes == 16)
            continue;
        p.bytes--;
        struct errmsg e = {""};
        uint64_t bytes;
        assert_int_equal(row_push_check(&p, &bytes, &e), ERR_PROTO);
        gaps += strcmp(e.text, "a part is cut off after its gradients") == 0;
    }
    assert_true(gaps > 3);
    use_codecs(false);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_by_an_ask_are_those_with_keys),
        cmocka_unit_test(a_push_that_is_not_of_its_ask_is_refused_by_name),
        cmocka_unit_test(a_push_that_is_cut_off_anywhere_is_refused),
        cmocka_unit_test(sections_of_encoded_gradients_have_the_keys_of_plain_ones),
        cmocka_unit_test(encoded_gradients_with_keys_are_checked_as_plain_ones_are),
        cmocka_unit_test(a_part_without_its_gap_is_refused),
        cmocka_unit_test(bits_of_noise_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
