/* Part of kernels_impl.h: kernels over images, channels last.
 * A convolution of few taps (a small kernel over few channels) is slow as a matrix product, because its matrix
 * would be many times as large as the image. Here vectors hold the output's channels, and a block of pixels in
 * registers adds one tap after the other. Each sum runs in the order of taps (backward: of pixels), so its bits do
 * not depend on the vector's width. */

/* Returns p. With AVX-512 the compiler does not know that, so it loads a pixel for each vector of channels as a part of
 * the multiplication: on Zen 4 a load of its own, into all lanes, takes the place of a multiplication or addition. */
INLINE const float *twin(const float *p)
{
    if (LANES == 16)
        __asm__("" : "+r"(p));
    return p;
}

/* Declares the sums of a block of pixels, which stay in registers: sum[ROWS * PIXELS][VECTORS]. */
#define CONV_SUMS(ROWS, PIXELS, VECTORS)                                                           \
    vf sum[ROWS * PIXELS][VECTORS];                                                                \
    for (size_t v = 0; v < VECTORS; v++) {                                                         \
        vf first = bias ? load(bias + v * LANES) : all(0);                                         \
        for (size_t p = 0; p < ROWS * PIXELS; p++)                                                 \
            sum[p][v] = first;                                                                     \
    }                                                                                              \
    for (size_t t = 0; t < s->taps; t++, w += s->channels) {                                       \
        const float *at[2] = {x + s->tap[t], twin(x + s->tap[t])};                                 \
        vf weight[VECTORS];                                                                        \
        for (size_t v = 0; v < VECTORS; v++)                                                       \
            weight[v] = load(w + v * LANES);                                                       \
        for (size_t p = 0; p < ROWS * PIXELS; p++)                                                 \
            for (size_t v = 0; v < VECTORS; v++)                                                   \
                sum[p][v] += weight[v] * at[v][p / PIXELS * s->x_row + p % PIXELS * s->stride];    \
    }

#define CONV_BLOCK(PIXELS, VECTORS)                                                                \
    INLINE void conv_##PIXELS##x##VECTORS(float *z, const float *x, const float *w,                \
                                          const float *bias, const struct kernel_conv *s)          \
    {                                                                                              \
        CONV_SUMS(1, PIXELS, VECTORS)                                                              \
        for (size_t p = 0; p < PIXELS; p++)                                                        \
            for (size_t v = 0; v < VECTORS; v++)                                                   \
                store(z + p * s->channels + v * LANES, sum[p][v]);                                 \
    }
CONV_BLOCK(6, 2)
CONV_BLOCK(5, 2)
CONV_BLOCK(4, 2)
CONV_BLOCK(3, 2)
CONV_BLOCK(2, 2)
CONV_BLOCK(1, 2)
CONV_BLOCK(6, 1)
CONV_BLOCK(3, 1)
CONV_BLOCK(1, 1)
#undef CONV_BLOCK

/* One row of pixels and two vectors of channels, in blocks of nearly equal size. */
static void conv_row_wide(float *z, const float *x, const float *w, const float *bias,
                          const struct kernel_conv *s)
{
    for (size_t p = 0, blocks = (s->pixels + 5) / 6; blocks > 0; blocks--) {
        size_t block = (s->pixels - p + blocks - 1) / blocks;
        float *to = z + p * s->channels;
        const float *from = x + p * s->stride;
        p += block;
        switch (block) {
        case 6:
            conv_6x2(to, from, w, bias, s);
            break;
        case 5:
            conv_5x2(to, from, w, bias, s);
            break;
        case 4:
            conv_4x2(to, from, w, bias, s);
            break;
        case 3:
            conv_3x2(to, from, w, bias, s);
            break;
        case 2:
            conv_2x2(to, from, w, bias, s);
            break;
        default:
            conv_1x2(to, from, w, bias, s);
        }
    }
}

static void conv_row_narrow(float *z, const float *x, const float *w, const float *bias,
                            const struct kernel_conv *s)
{
    size_t p = 0;
    for (; p + 6 <= s->pixels; p += 6)
        conv_6x1(z + p * s->channels, x + p * s->stride, w, bias, s);
    for (; p + 3 <= s->pixels; p += 3)
        conv_3x1(z + p * s->channels, x + p * s->stride, w, bias, s);
    for (; p < s->pixels; p++)
        conv_1x1(z + p * s->channels, x + p * s->stride, w, bias, s);
}

static void image_conv(float *z, const float *x, const float *w, const float *bias,
                       const struct kernel_conv *s)
{
    for (size_t c = 0; c < s->channels; c += 2 * LANES) {
        const float *first = bias ? bias + c : NULL;
        for (size_t row = 0; row < s->rows; row++)
            if (c + 2 * LANES <= s->channels)
                conv_row_wide(z + row * s->z_row + c, x + row * s->x_row, w + c, first, s);
            else
                conv_row_narrow(z + row * s->z_row + c, x + row * s->x_row, w + c, first, s);
    }
}

/* TAPS x VECTORS sums over all pixels, kept in registers. */
#define CONV_DW_BLOCK(TAPS, VECTORS)                                                               \
    INLINE void conv_dw_##TAPS##x##VECTORS(float *dw, const float *x, const float *dz,             \
                                           const uint32_t *tap, const struct kernel_conv *s)       \
    {                                                                                              \
        vf sum[TAPS][VECTORS];                                                                     \
        for (size_t t = 0; t < TAPS; t++)                                                          \
            for (size_t v = 0; v < VECTORS; v++)                                                   \
                sum[t][v] = load(dw + t * s->channels + v * LANES);                                \
        for (size_t row = 0; row < s->rows; row++)                                                 \
            for (size_t p = 0; p < s->pixels; p++) {                                               \
                const float *at = x + row * s->x_row + p * s->stride;                              \
                const float *d = dz + row * s->z_row + p * s->channels;                            \
                for (size_t t = 0; t < TAPS; t++)                                                  \
                    for (size_t v = 0; v < VECTORS; v++)                                           \
                        sum[t][v] += load(d + v * LANES) * at[tap[t]];                             \
            }                                                                                      \
        for (size_t t = 0; t < TAPS; t++)                                                          \
            for (size_t v = 0; v < VECTORS; v++)                                                   \
                store(dw + t * s->channels + v * LANES, sum[t][v]);                                \
    }
CONV_DW_BLOCK(5, 2)
CONV_DW_BLOCK(4, 2)
CONV_DW_BLOCK(1, 2)
CONV_DW_BLOCK(9, 1)
CONV_DW_BLOCK(1, 1)
#undef CONV_DW_BLOCK

/* Groups of taps; each group is a pass over all pixels, so the choice avoids groups of a single tap. */
static void conv_dw_taps(float *dw, const float *x, const float *dz, size_t vectors,
                         const struct kernel_conv *s)
{
    size_t t = 0, left;
    for (; (left = s->taps - t) > 0;) {
        float *to = dw + t * s->channels;
        if (vectors == 2 && left >= 5 && left != 8) {
            conv_dw_5x2(to, x, dz, s->tap + t, s);
            t += 5;
        } else if (vectors == 2 && left >= 4) {
            conv_dw_4x2(to, x, dz, s->tap + t, s);
            t += 4;
        } else if (vectors == 2) {
            conv_dw_1x2(to, x, dz, s->tap + t, s);
            t += 1;
        } else if (left >= 9) {
            conv_dw_9x1(to, x, dz, s->tap + t, s);
            t += 9;
        } else {
            conv_dw_1x1(to, x, dz, s->tap + t, s);
            t += 1;
        }
    }
}

static void image_conv_dw(float *dw, const float *x, const float *dz, const struct kernel_conv *s)
{
    for (size_t c = 0; c < s->channels; c += 2 * LANES)
        conv_dw_taps(dw + c, x, dz + c, c + 2 * LANES <= s->channels ? 2 : 1, s);
}

/* ---- max pooling ---- */

INLINE vf load_up_to(const float *p, size_t k)
{
    return k >= LANES ? load(p) : load_part(p, k);
}

INLINE void store_up_to(float *p, vf v, size_t k)
{
    if (k >= LANES)
        store(p, v);
    else
        store_part(p, v, k);
}

INLINE void store_bytes(uint8_t *p, vi v, size_t k)
{
    vb bytes = __builtin_convertvector((vu)v, vb);
    memcpy(p, &bytes, k >= LANES ? LANES : k);
}

INLINE vi load_bytes(const uint8_t *p, size_t k)
{
    vb bytes = {0};
    memcpy(&bytes, p, k >= LANES ? LANES : k);
    return __builtin_convertvector(bytes, vi);
}

/* The largest of the pixels of a window that were taken so far, and its index in the window. */
struct largest {
    vf best;
    vi which, nan; /* masks of the lanes with NaN, which counts as the largest */
};

INLINE struct largest largest_first(vf pixel)
{
    return (struct largest){.best = pixel, .which = all_int(0), .nan = pixel != pixel};
}

INLINE void largest_take(struct largest *l, vf pixel, size_t index)
{
    vi wins = pixel > l->best;
    l->which = (vi)pick(wins, (vf)all_int((int32_t)index), (vf)l->which);
    l->best = KERNELS_MAX(pixel, l->best);
    l->nan |= pixel != pixel;
}

/* Store the first k lanes. arg: NULL: not wanted. */
INLINE void largest_end(const struct largest *l, float *y, uint8_t *arg, const float *bias,
                        int relu, size_t k)
{
    vf best = pick(l->nan, all(NAN), l->best);
    vi which = l->which;
    if (bias)
        best = best + load_up_to(bias, k);
    if (relu) {
        which |= best <= 0.0f; /* -1, stored as byte 255, is no pixel's index */
        best = relu_of(best);
    }
    store_up_to(y, best, k);
    if (arg)
        store_bytes(arg, which, k);
}

/* One window of size_y x size_x pixels, k channels. */
INLINE void max_pool_vector(float *y, uint8_t *arg, const float *z, const float *bias, size_t k,
                            size_t size_y, size_t size_x, const struct kernel_pool *s)
{
    struct largest l = largest_first(load_up_to(z, k));
    for (size_t i = 0; i < size_y; i++)
        for (size_t j = 0; j < size_x; j++)
            largest_take(&l, load_up_to(z + (i * s->width + j) * s->channels, k), i * size_x + j);
    largest_end(&l, y, arg, bias, s->relu, k);
}

/* Copies dy to the pixel that arg names. */
INLINE void max_unpool_vector(float *dz, float *dy, const uint8_t *arg, size_t k, size_t size_y,
                              size_t size_x, const struct kernel_pool *s)
{
    vi which = load_bytes(arg, k);
    vf d = keep(which != 255, load_up_to(dy, k));
    store_up_to(dy, d, k);
    for (size_t i = 0; i < size_y; i++)
        for (size_t j = 0; j < size_x; j++)
            store_up_to(dz + (i * s->width + j) * s->channels,
                        keep(which == (int32_t)(i * size_x + j), d), k);
}

INLINE void max_pool_row(float *y, uint8_t *arg, const float *z, const float *bias, size_t size_y,
                         size_t size_x, const struct kernel_pool *s)
{
    for (size_t p = 0; p < s->windows; p++) {
        for (size_t c = 0; c < s->channels; c += LANES)
            max_pool_vector(y + c, arg + c, z + c, bias ? bias + c : NULL, s->channels - c, size_y,
                            size_x, s);
        y += s->channels;
        arg += s->channels;
        z += s->stride_x * s->channels;
    }
}

INLINE void max_unpool_row(float *dz, float *dy, const uint8_t *arg, size_t size_y, size_t size_x,
                           const struct kernel_pool *s)
{
    for (size_t p = 0; p < s->windows; p++) {
        for (size_t c = 0; c < s->channels; c += LANES)
            max_unpool_vector(dz + c, dy + c, arg + c, s->channels - c, size_y, size_x, s);
        dy += s->channels;
        arg += s->channels;
        dz += s->stride_x * s->channels;
    }
}

/* 2 x 2 is the usual window: with constant sizes the compiler unrolls its loops. */
static void image_max_pool(float *y, uint8_t *arg, const float *z, const float *bias,
                           const struct kernel_pool *s)
{
    if (s->size_y == 2 && s->size_x == 2)
        max_pool_row(y, arg, z, bias, 2, 2, s);
    else
        max_pool_row(y, arg, z, bias, s->size_y, s->size_x, s);
}

static void image_max_unpool(float *dz, float *dy, const uint8_t *arg, const struct kernel_pool *s)
{
    if (s->size_y == 2 && s->size_x == 2)
        max_unpool_row(dz, dy, arg, 2, 2, s);
    else
        max_unpool_row(dz, dy, arg, s->size_y, s->size_x, s);
}

/* ---- convolution with max pooling ---- */

/* WINDOWS windows of 2 x 2 pixels, whose sums are never written. */
#define CONV_POOL_BLOCK(WINDOWS, VECTORS)                                                          \
    INLINE void conv_pool_##WINDOWS##x##VECTORS(float *y, uint8_t *arg, const float *x,            \
                                                const float *w, const float *bias, int relu,       \
                                                const struct kernel_conv *s)                       \
    {                                                                                              \
        CONV_SUMS(2, (2 * WINDOWS), VECTORS)                                                       \
        for (size_t i = 0; i < WINDOWS; i++)                                                       \
            for (size_t v = 0; v < VECTORS; v++) {                                                 \
                size_t at = i * s->channels + v * LANES;                                           \
                struct largest l = largest_first(sum[2 * i][v]);                                   \
                largest_take(&l, sum[2 * i + 1][v], 1);                                            \
                largest_take(&l, sum[2 * (i + WINDOWS)][v], 2);                                    \
                largest_take(&l, sum[2 * (i + WINDOWS) + 1][v], 3);                                \
                largest_end(&l, y + at, arg ? arg + at : NULL, NULL, relu, LANES);                 \
            }                                                                                      \
    }
CONV_POOL_BLOCK(2, 2)
CONV_POOL_BLOCK(1, 2)
CONV_POOL_BLOCK(2, 1)
CONV_POOL_BLOCK(1, 1)
#undef CONV_POOL_BLOCK
#undef CONV_SUMS

/* Two windows at a time need more than 16 registers. */
INLINE void conv_pool_channels(float *y, uint8_t *arg, const float *x, const float *w,
                               const float *bias, int relu, bool wide, const struct kernel_conv *s)
{
    const size_t step = LANES == 16 ? 2 : 1, windows = s->pixels / 2;
    for (size_t i = 0; i < windows;) {
        float *to = y + i * s->channels;
        uint8_t *which = arg ? arg + i * s->channels : NULL;
        const float *from = x + 2 * i * s->stride;
        size_t n = windows - i < step ? 1 : step;
        i += n;
        if (wide && n == 2)
            conv_pool_2x2(to, which, from, w, bias, relu, s);
        else if (wide)
            conv_pool_1x2(to, which, from, w, bias, relu, s);
        else if (n == 2)
            conv_pool_2x1(to, which, from, w, bias, relu, s);
        else
            conv_pool_1x1(to, which, from, w, bias, relu, s);
    }
}

INLINE void conv_pool_row(float *y, uint8_t *arg, const float *x, const float *w, const float *bias,
                          int relu, const struct kernel_conv *s)
{
    for (size_t c = 0; c < s->channels; c += 2 * LANES)
        conv_pool_channels(y + c, arg ? arg + c : NULL, x, w + c, bias ? bias + c : NULL, relu,
                           c + 2 * LANES <= s->channels, s);
}

static void image_conv_pool(float *y, uint8_t *arg, const float *x, const float *w,
                            const float *bias, int relu, const struct kernel_conv *s)
{
    if (arg)
        conv_pool_row(y, arg, x, w, bias, relu, s);
    else
        conv_pool_row(y, NULL, x, w, bias, relu, s);
}
