/* Elementwise kernels with the same bits at every SIMD level: the same order of sums, no
 * contraction, our own exp, log and tanh. kernels_impl.h is compiled once per level (base SSE2,
 * AVX2, AVX-512). */
#ifndef GRADWIRE_COMMON_MATH_KERNELS_H
#define GRADWIRE_COMMON_MATH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "common/math/optimizers.h"

enum kernels_level { KERNELS_BASE, KERNELS_AVX2, KERNELS_AVX512 };

/* One update of n weights; w_out may be w. The slots are updated in place. */
typedef void kernels_update(float *w_out, const float *w, float *const *slot, const float *g,
                            const struct update_rates *r, size_t n);

/* A row of a table, its gradient and its rate. */
struct kernel_row {
    float *w, *slots; /* (n), (slots, n) */
    const float *g;   /* (n) */
    float lr;
};

/* One update of each row; r->lr counts for nothing. */
typedef void kernels_update_rows(const struct kernel_row *row, size_t rows,
                                 const struct update_rates *r, size_t n);

/* A convolution of rows of pixels, and where each tap of a pixel stands in x. */
struct kernel_conv {
    const uint32_t *tap; /* (taps): elements from the pixel's place in x */
    size_t taps;
    size_t stride;       /* elements of x from one pixel of the output to the next */
    size_t x_row, z_row; /* elements of x and of z from one row of the output to the next */
    size_t rows, pixels, channels; /* of the output; channels are a multiple of 16 */
};

/* One row of windows that do not overlap, over `width` pixels a row. */
struct kernel_pool {
    size_t size_y, size_x, stride_x; /* a window has at most 255 pixels */
    size_t width, windows, channels;
    int relu;
};

/* Outputs first, sizes last. Pointers may be unaligned; "restrict" unless said otherwise. */
struct kernels {
    const char *name;                                                  /* base, avx2, avx512 */
    void (*add)(float *out, const float *a, const float *b, size_t n); /* out may be a or b */
    void (*add_scaled)(float *sum, const float *a, float s, size_t n); /* sum += a * s */
    void (*scale)(float *out, const float *a, float s, size_t n);      /* out may be a */
    /* average = average momentum + w (1 - momentum) */
    void (*average)(float *average, const float *w, float momentum, size_t n);
    void (*u8_to_float)(float *out, const uint8_t *a, float s, size_t n); /* a * s */
    /* Optimizers, Keras 3's formulas: kernels_optimizers.h says each and its slots' order. */
    kernels_update *step[OPTIMIZER_STEP_KINDS];
    kernels_update_rows *step_rows[OPTIMIZER_STEP_KINDS];
    /* lamb, before the ratio is known: the direction u and the weights with their decay taken, (n) each; the slots stay
     * as they are. */
    void (*lamb_direction)(float *u, float *decayed, const float *w, float *const *slot,
                           const float *g, const struct update_rates *r, size_t n);
    void (*exp)(float *out, const float *a, size_t n);
    void (*log)(float *out, const float *a, size_t n);
    void (*tanh)(float *out, const float *a, size_t n);
    void (*sigmoid)(float *out, const float *a, size_t n);
    /* Keras's activations; out may be a. gelu_tanh is gelu with approximate: true. */
    void (*elu)(float *out, const float *a, float alpha, size_t n);
    void (*gelu)(float *out, const float *a, size_t n);
    void (*gelu_tanh)(float *out, const float *a, size_t n);
    void (*silu)(float *out, const float *a, size_t n);
    void (*softplus)(float *out, const float *a, size_t n);
    /* dy times the slope at the input x; softplus's by its output y */
    void (*gelu_backward)(float *dy, const float *x, size_t n);
    void (*gelu_tanh_backward)(float *dy, const float *x, size_t n);
    void (*silu_backward)(float *dy, const float *x, size_t n);
    void (*softplus_backward)(float *dy, const float *y, size_t n);
    /* (n, cols): out = x + bias per row, then relu if `relu`; out may be x */
    void (*bias_act)(float *out, const float *x, const float *bias, int relu, size_t rows,
                     size_t cols);
    /* dy = 0 where y <= 0, which is relu's gradient by its output */
    void (*relu_backward)(float *dy, const float *y, size_t n);
    /* mask 1 = kept; kept are scaled by 1/(1-rate), dropped are 0. Element i is dropped iff
     * hash(key, i) / 2 < rate * 2^31; the hash is Wellons's "triple32" (hash-prospector) of i + the
     * key's low half, its high half xored in behind the first round. Keys that differ in the low
     * half alone give shifted masks: pass mixed ones (rng_key). n < 2^32. */
    void (*dropout)(float *x, uint8_t *mask, uint64_t key, float rate, size_t n);
    void (*dropout_backward)(float *dx, const uint8_t *mask, float rate, size_t n);
    void (*column_sums)(float *out, const float *x, size_t rows, size_t cols); /* in row order */
    float (*max)(const float *a, size_t n);  /* NaN is passed over; -inf of none */
    double (*sum)(const float *a, size_t n); /* 16 lanes, fixed order */
    /* The same of a[i]^2, each exact in double: not finite where an element is not, and only there. */
    double (*sum_squares)(const float *a, size_t n);
    /* Number formats of the codecs, two little-endian bytes a value; to nearest, ties to even. fp16: finite values
     * beyond 65504 become 65504 (or -65504). Infinity and NaN stay what they are. */
    void (*fp16_encode)(uint8_t *out, const float *a, size_t n);
    void (*fp16_decode)(float *out, const uint8_t *a, size_t n);
    void (*bf16_encode)(uint8_t *out, const float *a, size_t n);
    void (*bf16_decode)(float *out, const uint8_t *a, size_t n);
    /* out[i] = floor(a[i] / s + u) within -127 .. 127, u in [0, 1) = hash(key, position + i), dropout's hash (keys
     * mixed as there); s > 0, a finite. Back: a[i] * s. */
    void (*int8_encode)(int8_t *out, const float *a, float s, uint64_t key, size_t position,
                        size_t n);
    void (*int8_decode)(float *out, const int8_t *a, float s, size_t n);
    uint32_t (*abs_bits)(const float *a, size_t n); /* of the largest |a[i]|; inf and NaN are
                                                       above all: from 0x7f800000 on */
    /* z (rows, pixels, channels) = bias + sum over taps of x[tap] w[tap] (taps, channels); bias may
     * be NULL */
    void (*conv)(float *z, const float *x, const float *w, const float *bias,
                 const struct kernel_conv *s);
    /* dw (taps, channels) += sum over pixels of x[tap] dz */
    void (*conv_dw)(float *dw, const float *x, const float *dz, const struct kernel_conv *s);
    /* y (windows, channels) = the largest of the window's pixels in z, plus bias (may be NULL), then
     * relu. arg: which it was, 255 where the relu made it 0. NaN counts as the largest. */
    void (*max_pool)(float *y, uint8_t *arg, const float *z, const float *bias,
                     const struct kernel_pool *s);
    /* dz = dy where the maximum was, 0 elsewhere in the windows; dy becomes 0 where arg is 255. */
    void (*max_unpool)(float *dz, float *dy, const uint8_t *arg, const struct kernel_pool *s);
};

/* exp: 0 below -87.33654 (no denormal results), inf above 88.72283; log: a denormal counts as 0.
 * Off the true value by at most 1 ulp (tanh 1.5, sigmoid 2.5) wherever tests look; NaN in, NaN out.
 * Formulas: kernels_impl.h. */

/* The table in use: the best level of this CPU unless kernels_use chose another. */
const struct kernels *kernels(void);
/* Choose a level (tests, and the GRADWIRE_SIMD variable: base, avx2, avx512); NULL if this CPU
 * lacks it. Thread: before threads start. */
const struct kernels *kernels_use(enum kernels_level level);

/* One table per level; for kernels.c, which knows what the CPU has. */
extern const struct kernels kernels_base, kernels_avx2, kernels_avx512;

/* Set flush-to-zero and denormals-are-zero for this thread; every thread that does arithmetic calls
 * it. */
void kernels_flush_denormals(void);

#endif
