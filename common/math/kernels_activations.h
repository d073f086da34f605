/* Part of kernels_impl.h: activations other than relu, sigmoid and tanh, and their gradients.
 * erf and erfc are Cephes's single-precision functions (Moshier, Cephes 2.2, ndtrf.c). */

/* exp(x) - 1, accurate also for small x: the polynomial of Cephes expf.c without its 1. */
INLINE vf expm1_of(vf x)
{
    vf p = all(1.9875691500e-4f);
    p = p * x + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    vf small = p * (x * x) + x;
    vi is_small = (x > -0.34657359f) & (x < 0.34657359f);
    return pick(is_small, small, exp_of(x) - 1.0f);
}

/* erf(x) for |x| <= 1 */
INLINE vf erf_small(vf x)
{
    vf z = x * x;
    vf p = all(7.853861353153693e-5f);
    p = p * z + -8.010193625184903e-4f;
    p = p * z + 5.188327685732524e-3f;
    p = p * z + -2.685381193529856e-2f;
    p = p * z + 1.128358514861418e-1f;
    p = p * z + -3.761262582423300e-1f;
    p = p * z + 1.128379165726710e+0f;
    return p * x;
}

/* erfc(a) for a > 1 */
INLINE vf erfc_large(vf a)
{
    vf q = 1.0f / a, y = q * q;
    vf p = all(2.326819970068386e-2f);
    p = p * y + -1.387039388740657e-1f;
    p = p * y + 3.687424674597105e-1f;
    p = p * y + -5.824733027278666e-1f;
    p = p * y + 6.210004621745983e-1f;
    p = p * y + -4.944515323274145e-1f;
    p = p * y + 3.404879937665872e-1f;
    p = p * y + -2.741127028184656e-1f;
    p = p * y + 5.638259427386472e-1f;
    vf r = all(-1.047766399936249e+1f);
    r = r * y + 1.297719955372516e+1f;
    r = r * y + -7.495518717768503e+0f;
    r = r * y + 2.921019019210786e+0f;
    r = r * y + -1.015265279202700e+0f;
    r = r * y + 4.218463358204948e-1f;
    r = r * y + -2.820767439740514e-1f;
    r = r * y + 5.641895067754075e-1f;
    return exp_of(-(a * a)) * q * pick(a < 2.0f, p, r);
}

/* The standard normal distribution function as erfc(-x / sqrt 2) / 2: this form keeps its precision for small
 * results. */
INLINE vf normal_cdf(vf x)
{
    vf h = x * 0.70710678118654752440f;
    vf a = (vf)((vi)h & 0x7fffffff);
    vf tail = erfc_large(a) * 0.5f;
    vf far = pick(h > 0.0f, 1.0f - tail, tail);
    vf y = pick(a <= 1.0f, erf_small(h) * 0.5f + 0.5f, far);
    return pick(x != x, x, y);
}

INLINE vf normal_density(vf x)
{
    return exp_of(x * x * -0.5f) * 0.39894228040143267794f;
}

/* The argument of gelu's tanh: sqrt(2 / pi) (x + 0.044715 x^3) */
INLINE vf gelu_inner(vf x)
{
    return (x + x * x * x * 0.044715f) * 0.79788456080286535588f;
}

/* At x = -infinity the formula gives -infinity * 0, but the limit is 0. */
INLINE vf gelu_of(vf x)
{
    return pick(x == -INFINITY, all(0.0f), x * normal_cdf(x));
}

INLINE vf gelu_tanh_of(vf x)
{
    return pick(x == -INFINITY, all(0.0f), x * 0.5f * (tanh_of(gelu_inner(x)) + 1.0f));
}

INLINE vf silu_of(vf x)
{
    return pick(x == -INFINITY, all(0.0f), x * sigmoid_of(x));
}

/* log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)); log1p by Kahan's correction. */
INLINE vf softplus_of(vf x)
{
    vf e = exp_of((vf)((vi)x | all_int(INT32_MIN)));
    vf u = e + 1.0f;
    vf log1p = pick(u == 1.0f, e, log_of(u) * (e / (u - 1.0f)));
    return pick(x != x, x, relu_of(x) + log1p);
}

/* alpha (exp(x) - 1) for x <= 0 */
INLINE vf elu_of(vf x, float alpha)
{
    return pick(x > 0.0f, x, expm1_of(x) * alpha);
}

INLINE vf gelu_slope(vf x)
{
    return normal_cdf(x) + pick(normal_density(x) == 0.0f, all(0.0f), x * normal_density(x));
}

INLINE vf gelu_tanh_slope(vf x)
{
    vf t = tanh_of(gelu_inner(x));
    vf inner = (x * x * 0.134145f + 1.0f) * 0.79788456080286535588f;
    vf bend = pick(t * t == 1.0f, all(0.0f), x * 0.5f * (1.0f - t * t) * inner);
    return (t + 1.0f) * 0.5f + bend;
}

INLINE vf silu_slope(vf x)
{
    vf s = sigmoid_of(x);
    return s * (x * (1.0f - s) + 1.0f);
}

MAP(map_elu, (float *out, const float *a, float alpha, size_t n), elu_of(x, alpha))
MAP(map_gelu, (float *out, const float *a, size_t n), gelu_of(x))
MAP(map_gelu_tanh, (float *out, const float *a, size_t n), gelu_tanh_of(x))
MAP(map_silu, (float *out, const float *a, size_t n), silu_of(x))
MAP(map_softplus, (float *out, const float *a, size_t n), softplus_of(x))

#define SLOPE(name, slope)                                                                         \
    static void name(float *dy, const float *a, size_t n)                                          \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + LANES <= n; i += LANES) {                                                       \
            vf x = load(a + i);                                                                    \
            store(dy + i, load(dy + i) * (slope));                                                 \
        }                                                                                          \
        if (i < n) {                                                                               \
            vf x = load_part(a + i, n - i);                                                        \
            store_part(dy + i, load_part(dy + i, n - i) * (slope), n - i);                         \
        }                                                                                          \
    }
SLOPE(map_gelu_backward, gelu_slope(x))
SLOPE(map_gelu_tanh_backward, gelu_tanh_slope(x))
SLOPE(map_silu_backward, silu_slope(x))
/* From the output y: sigmoid(x) = 1 - exp(-y) */
SLOPE(map_softplus_backward, -expm1_of(-x))
