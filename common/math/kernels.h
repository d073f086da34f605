/* Elementwise kernels that give the same bits at every SIMD level: the same order of sums, no contraction, our own
 * exp, log and tanh. kernels_impl.h is compiled once per level (SSE2 or NEON as base, AVX2, AVX-512). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/math/optimizers.h"

enum kernels_level { KERNELS_BASE, KERNELS_AVX2, KERNELS_AVX512 };

/* Updates n weights; w_out can be w. The slots are updated in place. */
typedef void kernels_update(float *w_out, const float *w, float *const *slot, const float *g,
                            const struct update_rates *r, size_t n);

/* A row of a table, its gradient and its learning rate. */
struct kernel_row {
    float *w, *slots; /* (n), (slots, n) */
    const float *g;   /* (n) */
    float lr;
};

/* Updates each row of n weights, with the row's own rate instead of r->lr. */
typedef void kernels_update_rows(const struct kernel_row *row, size_t rows,
                                 const struct update_rates *r, size_t n);

/* A convolution over rows of pixels, and the offset in x of each tap of a pixel. */
struct kernel_conv {
    const uint32_t *tap; /* (taps): offset in elements from the pixel's position in x */
    size_t taps;
    size_t stride;                 /* elements of x between neighbouring pixels of the output */
    size_t x_row, z_row;           /* elements of x and of z between rows of the output */
    size_t rows, pixels, channels; /* of the output; channels are a multiple of 16 */
};

enum { KERNEL_PANEL = 32 };

/* A block of a matrix product with up to KERNEL_PANEL columns. */
struct kernel_dense {
    size_t rows, in, cols;
    size_t x_row, y_row; /* elements between rows of x and of y */
};

/* One row of non-overlapping pooling windows; an image row has `width` pixels. */
struct kernel_pool {
    size_t size_y, size_x, stride_x; /* at most 255 pixels per window */
    size_t width, windows, channels;
    int relu;
};

/* In each signature, outputs come first and sizes last. Pointers can be unaligned; they must not overlap unless a
 * comment allows it. */
struct kernels {
    const char *name;                                                  /* base, avx2, avx512 */
    void (*add)(float *out, const float *a, const float *b, size_t n); /* out can be a or b */
    void (*add_scaled)(float *sum, const float *a, float s, size_t n); /* sum += a * s */
    void (*scale)(float *out, const float *a, float s, size_t n);      /* out can be a */
    /* average = average momentum + w (1 - momentum) */
    void (*average)(float *average, const float *w, float momentum, size_t n);
    void (*u8_to_float)(float *out, const uint8_t *a, float s, size_t n); /* out = a * s */
    /* The optimizers' steps by Keras 3's formulas; kernels_optimizers.h has each formula and the order of its
     * slots. */
    kernels_update *step[OPTIMIZER_STEP_KINDS];
    kernels_update_rows *step_rows[OPTIMIZER_STEP_KINDS];
    /* The first half of lamb's step, before the trust ratio is known: the direction u and the weights after decay,
     * (n) each. The slots are unchanged. */
    void (*lamb_direction)(float *u, float *decayed, const float *w, float *const *slot,
                           const float *g, const struct update_rates *r, size_t n);
    void (*exp)(float *out, const float *a, size_t n);
    void (*log)(float *out, const float *a, size_t n);
    void (*tanh)(float *out, const float *a, size_t n);
    void (*sigmoid)(float *out, const float *a, size_t n);
    /* Keras's activations; out can be a. gelu_tanh is gelu with approximate: true. */
    void (*elu)(float *out, const float *a, float alpha, size_t n);
    void (*gelu)(float *out, const float *a, size_t n);
    void (*gelu_tanh)(float *out, const float *a, size_t n);
    void (*silu)(float *out, const float *a, size_t n);
    void (*softplus)(float *out, const float *a, size_t n);
    /* dy *= the slope at the input x; for softplus, from its output y */
    void (*gelu_backward)(float *dy, const float *x, size_t n);
    void (*gelu_tanh_backward)(float *dy, const float *x, size_t n);
    void (*silu_backward)(float *dy, const float *x, size_t n);
    void (*softplus_backward)(float *dy, const float *y, size_t n);
    /* (rows, cols): out = x + bias for each row, then relu if `relu`; out can be x */
    void (*bias_act)(float *out, const float *x, const float *bias, int relu, size_t rows,
                     size_t cols);
    /* dy = 0 where y <= 0: relu's gradient, from its output */
    void (*relu_backward)(float *dy, const float *y, size_t n);
    /* mask 1 = kept; kept elements are scaled by 1/(1-rate), dropped ones are 0. Element i is dropped iff
     * hash(key, i) / 2 < rate * 2^31. The hash is Wellons's "triple32" (hash-prospector) of i plus the key's low
     * half, with the high half xored in after the first round. Keys that differ only in the low half give shifted
     * masks, so pass mixed keys (rng_key). n < 2^32. */
    void (*dropout)(float *x, uint8_t *mask, uint64_t key, float rate, size_t n);
    void (*dropout_backward)(float *dx, const uint8_t *mask, float rate, size_t n);
    void (*column_sums)(float *out, const float *x, size_t rows, size_t cols); /* in row order */
    float (*max)(const float *a, size_t n);  /* ignores NaN; -inf if n is 0 */
    double (*sum)(const float *a, size_t n); /* 16 partial sums, added in a fixed order */
    /* Same for a[i]^2, each exact in double: the result is infinite or NaN exactly if an element is. */
    double (*sum_squares)(const float *a, size_t n);
    /* Number formats of the codecs: two little-endian bytes per value, rounded to nearest, ties to even. fp16:
     * finite values beyond 65504 become 65504 (or -65504). Infinity and NaN are preserved. */
    void (*fp16_encode)(uint8_t *out, const float *a, size_t n);
    void (*fp16_decode)(float *out, const uint8_t *a, size_t n);
    void (*bf16_encode)(uint8_t *out, const float *a, size_t n);
    void (*bf16_decode)(float *out, const uint8_t *a, size_t n);
    /* out[i] = floor(a[i] / s + u), clamped to -127 to 127, with u in [0, 1) = hash(key, position + i); the hash
     * is dropout's, so pass mixed keys. s > 0; a must be finite. Decode: out[i] = a[i] * s. */
    void (*int8_encode)(int8_t *out, const float *a, float s, uint64_t key, size_t position,
                        size_t n);
    void (*int8_decode)(float *out, const int8_t *a, float s, size_t n);
    /* the bits of the largest |a[i]|; 0x7f800000 or more means that an element is inf or NaN */
    uint32_t (*abs_bits)(const float *a, size_t n);
    /* z (rows, pixels, channels) = bias + sum over taps of x[tap] w[tap]; w is (taps, channels); bias can be NULL */
    void (*conv)(float *z, const float *x, const float *w, const float *bias,
                 const struct kernel_conv *s);
    /* dw (taps, channels) += sum over all pixels of x[tap] dz */
    void (*conv_dw)(float *dw, const float *x, const float *dz, const struct kernel_conv *s);
    /* y (windows, channels) = the largest of the window's pixels in z, plus bias (can be NULL), then relu. arg:
     * the index of that pixel within its window; 255 if relu made it 0. NaN counts as the largest. */
    void (*max_pool)(float *y, uint8_t *arg, const float *z, const float *bias,
                     const struct kernel_pool *s);
    /* The same as conv for two rows of pixels and then max_pool with windows of 2 x 2 pixels: y (pixels / 2, channels).
     * arg: NULL: not wanted. */
    void (*conv_pool)(float *y, uint8_t *arg, const float *x, const float *w, const float *bias,
                      int relu, const struct kernel_conv *s);
    /* y (rows, cols) = bias (KERNEL_PANEL) + x (rows, in) w (in, KERNEL_PANEL); bias can be NULL: y + x w. Only this
     * kernel and the next one round differently at different levels: kernels_dense.h. */
    void (*dense)(float *y, const float *x, const float *w, const float *bias,
                  const struct kernel_dense *s);
    /* The same with one column: y (rows) = bias + x (rows, in) w (in). */
    void (*dense_one)(float *y, const float *x, const float *w, float bias,
                      const struct kernel_dense *s);
    /* dz = dy at the pixel of the maximum, 0 at the window's other pixels. Where arg is 255, dy is set to 0 first. */
    void (*max_unpool)(float *dz, float *dy, const uint8_t *arg, const struct kernel_pool *s);
};

/* Accuracy: exp is 0 below -87.33654 (no denormal results) and inf above 88.72283; log treats a denormal as 0. The
 * error is at most 1 ulp (tanh 1.5, sigmoid 2.5) at all points that the tests check. NaN gives NaN. Formulas:
 * kernels_impl.h. */

/* Returns the kernels in use: this CPU's best level, unless kernels_use or GRADWIRE_SIMD chose another. Thread:
 * any. */
const struct kernels *kernels(void);
/* Chooses a level for tests (users set GRADWIRE_SIMD to base, avx2 or avx512). Returns NULL if this CPU lacks the
 * level. Thread: call before threads start. */
const struct kernels *kernels_use(enum kernels_level level);

/* One table per level, only for kernels.c, which checks the CPU's features. */
extern const struct kernels kernels_base, kernels_avx2, kernels_avx512;

/* Sets flush-to-zero and denormals-are-zero for the calling thread. Every thread that computes must call it. */
void kernels_flush_denormals(void);
/* The same during one call on a thread of another program: `begin` returns the state that `end` restores. */
unsigned kernels_flush_begin(void);
void kernels_flush_end(unsigned was);
