/* Part of kernels_impl.h: dense layers of a trained model, whose weights are packed once.
 * A block of rows x vectors of columns is in registers. Each sum runs in the order of the inputs, so the bits of a row do
 * not depend on the other rows. A long sum is made in parts, which is more accurate. The levels round differently: AVX2 and
 * AVX-512 round a multiplication and its addition together, which is twice as fast on many processors. */

#define DENSE_BLOCK(ROWS, VECTORS)                                                                 \
    static void dense_##ROWS##x##VECTORS(float *y, const float *x, const float *w,                 \
                                         const float *bias, size_t cols,                           \
                                         const struct kernel_dense *s)                             \
    {                                                                                              \
        vf sum[ROWS][VECTORS];                                                                     \
        for (size_t r = 0; r < ROWS; r++)                                                          \
            for (size_t v = 0; v < VECTORS; v++)                                                   \
                sum[r][v] = bias ? load(bias + v * LANES) : all(0);                                \
        for (size_t i = 0; i < s->in; i++, w += KERNEL_PANEL) {                                    \
            vf weight[VECTORS];                                                                    \
            for (size_t v = 0; v < VECTORS; v++)                                                   \
                weight[v] = load(w + v * LANES);                                                   \
            for (size_t r = 0; r < ROWS; r++) {                                                    \
                vf value = all(x[r * s->x_row + i]);                                               \
                for (size_t v = 0; v < VECTORS; v++)                                               \
                    sum[r][v] = KERNELS_FMA(weight[v], value, sum[r][v]);                          \
            }                                                                                      \
        }                                                                                          \
        for (size_t r = 0; r < ROWS; r++)                                                          \
            for (size_t v = 0; v < VECTORS; v++) {                                                 \
                float *to = y + r * s->y_row + v * LANES;                                          \
                vf more = bias ? all(0) : load_up_to(to, cols - v * LANES);                        \
                store_up_to(to, more + sum[r][v], cols - v * LANES);                               \
            }                                                                                      \
    }

/* So many that their sums fit into the registers: 32 with AVX-512, 16 otherwise. */
#if KERNELS_LANES == 16
#define DENSE_BLOCKS(BLOCK, VECTORS)                                                               \
    BLOCK(1, VECTORS)                                                                              \
    BLOCK(2, VECTORS)                                                                              \
    BLOCK(3, VECTORS)                                                                              \
    BLOCK(4, VECTORS)                                                                              \
    BLOCK(5, VECTORS)                                                                              \
    BLOCK(6, VECTORS)                                                                              \
    BLOCK(7, VECTORS)                                                                              \
    BLOCK(8, VECTORS)                                                                              \
    BLOCK(9, VECTORS)                                                                              \
    BLOCK(10, VECTORS)                                                                             \
    BLOCK(11, VECTORS)                                                                             \
    BLOCK(12, VECTORS)
#else
#define DENSE_BLOCKS(BLOCK, VECTORS)                                                               \
    BLOCK(1, VECTORS)                                                                              \
    BLOCK(2, VECTORS)                                                                              \
    BLOCK(3, VECTORS)                                                                              \
    BLOCK(4, VECTORS)                                                                              \
    BLOCK(5, VECTORS)                                                                              \
    BLOCK(6, VECTORS)
#endif
DENSE_BLOCKS(DENSE_BLOCK, 1)
DENSE_BLOCKS(DENSE_BLOCK, 2)

typedef void dense_block(float *y, const float *x, const float *w, const float *bias, size_t cols,
                         const struct kernel_dense *s);

#define DENSE_NAME(ROWS, VECTORS) dense_##ROWS##x##VECTORS,
static dense_block *const dense_narrow[] = {NULL, DENSE_BLOCKS(DENSE_NAME, 1)},
                          *const dense_wide[] = {NULL, DENSE_BLOCKS(DENSE_NAME, 2)};
enum { DENSE_ROWS = sizeof dense_wide / sizeof *dense_wide - 1 };
#undef DENSE_NAME
#undef DENSE_BLOCKS
#undef DENSE_BLOCK

/* In blocks of nearly equal size. */
static void dense_rows(float *y, const float *x, const float *w, const float *bias, size_t cols,
                       const struct kernel_dense *s)
{
    dense_block *const *of = cols > LANES ? dense_wide : dense_narrow;
    for (size_t r = 0, blocks = (s->rows + DENSE_ROWS - 1) / DENSE_ROWS; blocks > 0; blocks--) {
        size_t rows = (s->rows - r + blocks - 1) / blocks;
        of[rows](y + r * s->y_row, x + r * s->x_row, w, bias, cols, s);
        r += rows;
    }
}

static void map_dense(float *y, const float *x, const float *w, const float *bias,
                      const struct kernel_dense *s)
{
    for (size_t c = 0; c < s->cols; c += 2 * LANES)
        dense_rows(y + c, x, w + c, bias ? bias + c : NULL, s->cols - c, s);
}

/* The sum of x[i] w[i]. */
INLINE float dense_dot(const float *x, const float *w, size_t n)
{
    enum { SUMS = 4 };
    vf sum[SUMS] = {all(0), all(0), all(0), all(0)};
    size_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES)
        for (size_t v = 0; v < SUMS; v++)
            sum[v] = KERNELS_FMA(load(x + i + v * LANES), load(w + i + v * LANES), sum[v]);
    for (; i < n; i += LANES)
        sum[0] = KERNELS_FMA(load_up_to(x + i, n - i), load_up_to(w + i, n - i), sum[0]);
    float part[LANES];
    store(part, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            part[k] += part[k + half];
    return part[0];
}

static void map_dense_one(float *y, const float *x, const float *w, float bias,
                          const struct kernel_dense *s)
{
    for (size_t r = 0; r < s->rows; r++)
        y[r * s->y_row] = bias + dense_dot(x + r * s->x_row, w, s->in);
}
