/* The arithmetic of the yardsticks that train: the MLP 784-128-10 (relu, dropout 0.2, softmax with
 * sparse categorical crossentropy, Adam) on rows that are drawn by code, with single-threaded BLAS.
 * Written for speed on this machine (-march=native, -ffast-math), with none of the product's
 * promises. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    MLP_IN = 784,
    MLP_HIDDEN = 128,
    MLP_OUT = 10,
    MLP_W1 = 0, /* offsets in the flat block */
    MLP_B1 = MLP_IN * MLP_HIDDEN,
    MLP_W2 = MLP_B1 + MLP_HIDDEN,
    MLP_B2 = MLP_W2 + MLP_HIDDEN * MLP_OUT,
    MLP_ELEMS = MLP_B2 + MLP_OUT,
    MLP_ROWS = 60000,
};

/* One thread's activations and its own draw of rows and dropout. */
struct mlp {
    int rows;              /* of its share of the batch */
    uint64_t random;       /* xorshift state */
    int *label;            /* (rows) */
    float *x;              /* (rows, MLP_IN) */
    float *h, *dh;         /* (rows, MLP_HIDDEN) */
    float *o;              /* (rows, MLP_OUT): logits, then their gradient */
    const uint8_t *pixels; /* (MLP_ROWS, MLP_IN), shared */
};

/* Pixels of MLP_ROWS rows, 7 of 8 black except for a bright band that shows the class (row % 10). Free
 * with free(). */
uint8_t *mlp_pixels_new(void);

/* First weights: uniform within +-0.04, the same everywhere. Elements [first, first + n) of the
 * block. */
void mlp_weights(float *w, size_t first, size_t n);

void mlp_init(struct mlp *m, int rows, uint64_t seed, const uint8_t *pixels);
void mlp_close(struct mlp *m);

/* Forward and backward of one drawn batch: dw (MLP_ELEMS) = gradient of the sum of losses times
 * inv_batch. Returns the sum of the losses. */
double mlp_gradient(struct mlp *m, float *dw, const float *w, float inv_batch);

/* Draw the next rows into x and label, as mlp_gradient does. */
void mlp_draw(struct mlp *m);

/* Adam over n elements with `scale` times the sum of n_parts gradients; t counts from 1. */
void mlp_adam(float *w, float *slot_m, float *slot_v, const float *const *parts, int n_parts,
              float scale, uint64_t t, size_t n);
