/* The kernel that computes a convolution with its max pooling, against the kernels for each of them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/math/kernels.h"

enum { LEVELS = 3, TAPS = 5, WINDOWS_MAX = 5, CHANNELS_MAX = 64, ROOM = 1000 };

/* Two rows of pixels, the second after all of the first; a tap is one of TAPS pixels to the right. */
struct images {
    uint32_t tap[TAPS];
    float x[ROOM], w[TAPS * CHANNELS_MAX], bias[CHANNELS_MAX];
    float z[4 * WINDOWS_MAX * CHANNELS_MAX], y[WINDOWS_MAX * CHANNELS_MAX];
    uint8_t arg[WINDOWS_MAX * CHANNELS_MAX];
    struct kernel_conv conv;
};

static void images_init(struct images *m, size_t windows, size_t channels)
{
    static const float special[] = {NAN, 0.0f, -0.0f, INFINITY, -INFINITY};
    memset(m, 0, sizeof *m);
    for (uint32_t t = 0; t < TAPS; t++)
        m->tap[t] = t;
    for (size_t i = 0; i < ROOM; i++)
        m->x[i] = rng_u64(1, i) % 50 == 0 ? special[i % 5] : 2.0f * rng_unit(2, i) - 1.0f;
    for (size_t i = 0; i < TAPS * channels; i++)
        m->w[i] = 2.0f * rng_unit(3, i) - 1.0f;
    for (size_t i = 0; i < channels; i++)
        m->bias[i] = rng_unit(4, i) - 0.5f;
    m->conv = (struct kernel_conv){.tap = m->tap,
                                   .taps = TAPS,
                                   .stride = 3,
                                   .x_row = 2 * windows * 3 + TAPS,
                                   .z_row = 2 * windows * channels,
                                   .rows = 2,
                                   .pixels = 2 * windows,
                                   .channels = channels};
}

static void one_after_the_other(const struct kernels *k, struct images *m, const float *bias,
                                int relu)
{
    const struct kernel_pool pool = {.size_y = 2,
                                     .size_x = 2,
                                     .stride_x = 2,
                                     .width = m->conv.pixels,
                                     .windows = m->conv.pixels / 2,
                                     .channels = m->conv.channels,
                                     .relu = relu};
    k->conv(m->z, m->x, m->w, bias, &m->conv);
    k->max_pool(m->y, m->arg, m->z, NULL, &pool);
}

static void assert_same(const struct kernels *k, size_t windows, size_t channels, int relu)
{
    static struct images apart, joined;
    images_init(&apart, windows, channels);
    images_init(&joined, windows, channels);
    const float *bias = channels == 48 ? NULL : apart.bias;
    one_after_the_other(k, &apart, bias, relu);
    k->conv_pool(joined.y, joined.arg, joined.x, joined.w, bias, relu, &joined.conv);
    assert_memory_equal(joined.y, apart.y, sizeof apart.y);
    assert_memory_equal(joined.arg, apart.arg, sizeof apart.arg);
    memset(joined.y, 0, sizeof joined.y);
    k->conv_pool(joined.y, NULL, joined.x, joined.w, bias, relu, &joined.conv);
    assert_memory_equal(joined.y, apart.y, sizeof apart.y);
}

static void conv_pool_gives_the_bits_of_conv_and_max_pool(void **state)
{
    (void)state;
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = kernels_use((enum kernels_level)level);
        for (size_t windows = 1; k && windows <= WINDOWS_MAX; windows++)
            for (size_t channels = 16; channels <= CHANNELS_MAX; channels += 16)
                for (int relu = 0; relu < 2; relu++)
                    assert_same(k, windows, channels, relu);
    }
}

static void conv_pool_gives_the_same_bits_at_every_level(void **state)
{
    (void)state;
    static struct images base, m;
    images_init(&base, WINDOWS_MAX, 48);
    kernels_use(KERNELS_BASE)
        ->conv_pool(base.y, base.arg, base.x, base.w, base.bias, 1, &base.conv);
    for (int level = KERNELS_AVX2; level < LEVELS; level++) {
        const struct kernels *k = kernels_use((enum kernels_level)level);
        if (!k)
            continue;
        images_init(&m, WINDOWS_MAX, 48);
        k->conv_pool(m.y, m.arg, m.x, m.w, m.bias, 1, &m.conv);
        assert_memory_equal(m.y, base.y, sizeof m.y);
        assert_memory_equal(m.arg, base.arg, sizeof m.arg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_pool_gives_the_bits_of_conv_and_max_pool),
        cmocka_unit_test(conv_pool_gives_the_same_bits_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
