#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { H = 5, W = 7, C = 3, ELEMS = H * W * C, DRAWS = 4000, FARTHEST = 4 };

static const struct image image = {H, W, C};

static void numbered(uint8_t in[static ELEMS])
{
    for (int i = 0; i < ELEMS; i++)
        in[i] = (uint8_t)(i + 1); /* no zeros, all different */
}

/* An independent way: the pixel (y, x) of a picture that goes on for ever. */
static float pixel(const uint8_t *in, int y, int x, int c, int zeros)
{
    if (zeros && (y < 0 || y >= H || x < 0 || x >= W))
        return 0;
    y = y < 0 ? 0 : y >= H ? H - 1 : y;
    x = x < 0 ? 0 : x >= W ? W - 1 : x;
    return (float)in[(y * W + x) * C + c] * 0.5F;
}

/* out is the picture moved by (dy, dx) and perhaps mirrored; what is outside is 0, or the border. */
static int is_moved(const float *out, const uint8_t *in, int dy, int dx, int mirrored, int zeros)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++) {
                int from = mirrored ? W - 1 - (x + dx) : x + dx;
                if (out[(y * W + x) * C + c] != pixel(in, y + dy, from, c, zeros))
                    return 0;
            }
    return 1;
}

/* Draw often; each draw must be one of the moves allowed, and each of them must come. */
static void draws_are_the_moves(const struct job_augment *a, int most, int zeros)
{
    uint8_t in[ELEMS];
    float out[ELEMS];
    unsigned came[2][2 * FARTHEST + 1][2 * FARTHEST + 1] = {0};
    numbered(in);
    for (uint64_t i = 0; i < DRAWS; i++) {
        int found = 0;
        augment_image(out, in, 0.5F, &image, a, rng_u64(7, i));
        for (int m = 0; m <= (a->flip == FLIP_HORIZONTAL); m++)
            for (int dy = -most; dy <= most; dy++)
                for (int dx = -most; dx <= most; dx++)
                    if (is_moved(out, in, dy, dx, m, zeros)) {
                        came[m][dy + most][dx + most]++;
                        found = 1;
                    }
        assert_true(found);
    }
    unsigned cells = (unsigned)((2 * most + 1) * (2 * most + 1)) << (a->flip == FLIP_HORIZONTAL);
    for (int m = 0; m <= (a->flip == FLIP_HORIZONTAL); m++)
        for (int dy = 0; dy <= 2 * most; dy++)
            for (int dx = 0; dx <= 2 * most; dx++)
                assert_in_range(came[m][dy][dx], DRAWS / cells / 2, 2 * DRAWS / cells);
}

static void augment_without_anything_is_the_image(void **state)
{
    (void)state;
    uint8_t in[ELEMS];
    float out[ELEMS];
    const struct job_augment none = {FLIP_NONE, 0, 0};
    numbered(in);
    assert_false(augment_any(&none));
    augment_image(out, in, 0.5F, &image, &none, UINT64_MAX);
    assert_true(is_moved(out, in, 0, 0, 0, 1));
}

static void augment_flips_half_of_the_images(void **state)
{
    (void)state;
    draws_are_the_moves(&(struct job_augment){FLIP_HORIZONTAL, 0, 0}, 0, 1);
}

static void augment_crops_from_the_image_with_zeros_around(void **state)
{
    (void)state;
    draws_are_the_moves(&(struct job_augment){FLIP_NONE, 2, 0}, 2, 1);
    draws_are_the_moves(&(struct job_augment){FLIP_HORIZONTAL, 1, 0}, 1, 1);
}

static void augment_shifts_and_repeats_the_border(void **state)
{
    (void)state;
    draws_are_the_moves(&(struct job_augment){FLIP_NONE, 0, 2}, 2, 0);
}

static void augment_copes_with_moves_larger_than_the_image(void **state)
{
    (void)state;
    uint8_t in[ELEMS];
    float out[ELEMS];
    const struct job_augment far = {FLIP_HORIZONTAL, 1024, 1024};
    numbered(in);
    for (uint64_t i = 0; i < 1000; i++)
        augment_image(out, in, 1, &image, &far, rng_u64(3, i));
}

/* ---- in a data set, through the loader ---- */

static struct dataset load(struct idx_files *files, const struct job_augment *a, int eval)
{
    static const uint32_t x_dims[] = {40, 6, 4}, y_dims[] = {40};
    struct bytes x = idx_bytes(3, x_dims, 1, 1, 24), y = idx_bytes(1, y_dims, 0, 1, 10);
    char pattern[600];
    struct errmsg e = {""};
    struct dataset d;
    idx_files_write(files, "x", x);
    idx_files_write(files, "y", y);
    snprintf(pattern, sizeof pattern, "%s", idx_files_path(files, "*"));
    struct job job = idx_job(6, 4, pattern);
    job.data.eval = pattern;
    job.data.augment = *a;
    if (dataset_load(&d, &job, eval, 10, &e))
        fail_msg("%s", e.text);
    bytes_free(&x);
    bytes_free(&y);
    return d;
}

static void augment_leaves_the_eval_part_alone(void **state)
{
    (void)state;
    struct idx_files files;
    idx_files_init(&files);
    struct dataset d = load(&files, &(struct job_augment){FLIP_HORIZONTAL, 2, 2}, 1);
    float x[24], plain[24], y;
    for (uint64_t row = 0; row < d.rows; row++) {
        uint32_t n;
        assert_int_equal(gathered_rows(&d, &row, 1, plain, &y, &n, NULL), ERR_OK);
        assert_int_equal(gathered_augmented(&d, &row, 1, &row, x, &y, NULL, &n, NULL), ERR_OK);
        assert_memory_equal(x, plain, sizeof x);
    }
    dataset_close(&d);
    idx_files_close(&files);
}

static void augmented_microbatch_depends_on_its_name_alone(void **state)
{
    (void)state;
    enum { LEAF_ROWS = 5, LEAVES = 2, BATCHES = 4 };
    struct idx_files files;
    struct errmsg e;
    idx_files_init(&files);
    struct dataset d = load(&files, &(struct job_augment){FLIP_HORIZONTAL, 2, 1}, 0);
    struct order order = {d.rows, 10, 3, LEAVES, 0};
    struct dataset_source source;
    struct loader *ahead, *asked;
    assert_int_equal(loader_new(&ahead, source_over(&source, &d, &order), 8, &e), ERR_OK);
    assert_int_equal(loader_new(&asked, source_over(&source, &d, &order), 1, &e), ERR_OK);
    loader_want(ahead, 0, 2 * BATCHES, 0, LEAVES);
    float first[2][LEAF_ROWS * 24]; /* of the first batch; all rows are the same image */
    for (uint64_t id = 0; id < 2 * BATCHES; id++)
        for (uint32_t leaf = 0; leaf < LEAVES; leaf++) {
            struct leaf a, b;
            assert_int_equal(loader_get(ahead, id, leaf, &a, NULL), ERR_OK);
            assert_int_equal(loader_get(asked, id, leaf, &b, NULL), ERR_OK);
            assert_int_equal(a.n, LEAF_ROWS);
            assert_memory_equal(a.x, b.x, sizeof first[0]);
            if (id == 0)
                memcpy(first[leaf], a.x, sizeof first[0]);
            else
                assert_memory_not_equal(first[leaf], a.x, sizeof first[0]);
            loader_release(ahead, &a);
            loader_release(asked, &b);
        }
    assert_memory_not_equal(first[0], first[1], sizeof first[0]);
    loader_free(ahead);
    loader_free(asked);
    dataset_close(&d);
    idx_files_close(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(augment_without_anything_is_the_image),
        cmocka_unit_test(augment_flips_half_of_the_images),
        cmocka_unit_test(augment_crops_from_the_image_with_zeros_around),
        cmocka_unit_test(augment_shifts_and_repeats_the_border),
        cmocka_unit_test(augment_copes_with_moves_larger_than_the_image),
        cmocka_unit_test(augment_leaves_the_eval_part_alone),
        cmocka_unit_test(augmented_microbatch_depends_on_its_name_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
