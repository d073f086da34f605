#include "benchmarks/mlp.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"

enum { BAND = MLP_IN / MLP_OUT, DROP_OF_256 = 51, ADAM_BLOCK = 1024 };

static const float KEEP_SCALE = 1.25F; /* 1 / (1 - 0.2) */

/* xorshift64 (Marsaglia 2003); the upper half is the better one. */
static inline uint32_t draw(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 32);
}

uint8_t *mlp_pixels_new(void)
{
    uint8_t *pixels = bench_pages((size_t)MLP_ROWS * MLP_IN);
    uint64_t s = 99;
    for (size_t i = 0; i < (size_t)MLP_ROWS * MLP_IN; i++)
        pixels[i] = draw(&s) & 7 ? 0 : (uint8_t)draw(&s);
    for (size_t row = 0; row < MLP_ROWS; row++)
        memset(pixels + row * MLP_IN + row % MLP_OUT * BAND, 128, BAND);
    return pixels;
}

void mlp_weights(float *w, size_t first, size_t n)
{
    uint64_t s = 7;
    for (size_t i = 0; i < first; i++)
        draw(&s);
    for (size_t i = 0; i < n; i++)
        w[i] = (float)((int)(draw(&s) % 2001) - 1000) * 4e-5F;
}

void mlp_init(struct mlp *m, int rows, uint64_t seed, const uint8_t *pixels)
{
    size_t n = (size_t)rows;
    *m = (struct mlp){
        .rows = rows, .random = UINT64_C(88172645463325252) + seed * 977, .pixels = pixels};
    m->label = bench_pages(n * sizeof *m->label);
    m->x = bench_pages(n * MLP_IN * sizeof *m->x);
    m->h = bench_pages(n * MLP_HIDDEN * sizeof *m->h);
    m->dh = bench_pages(n * MLP_HIDDEN * sizeof *m->dh);
    m->o = bench_pages(n * MLP_OUT * sizeof *m->o);
}

void mlp_close(struct mlp *m)
{
    free(m->o);
    free(m->dh);
    free(m->h);
    free(m->x);
    free(m->label);
}

void mlp_draw(struct mlp *m)
{
    for (int b = 0; b < m->rows; b++) {
        uint32_t row = draw(&m->random) % MLP_ROWS;
        const uint8_t *pixels = m->pixels + (size_t)row * MLP_IN;
        float *restrict x = m->x + (size_t)b * MLP_IN;
        m->label[b] = (int)(row % MLP_OUT);
        for (int i = 0; i < MLP_IN; i++)
            x[i] = (float)pixels[i] * (1 / 255.0F);
    }
}

/* h = dropout(relu(h + b1)); one draw serves four units. */
static void hidden_forward(struct mlp *m, const float *restrict b1)
{
    uint8_t coin[MLP_HIDDEN];
    for (int b = 0; b < m->rows; b++) {
        float *restrict h = m->h + b * MLP_HIDDEN;
        for (int j = 0; j < MLP_HIDDEN; j += 4) {
            uint32_t r = draw(&m->random);
            memcpy(coin + j, &r, sizeof r);
        }
        for (int j = 0; j < MLP_HIDDEN; j++) {
            float z = h[j] + b1[j];
            z = z > 0 ? z * KEEP_SCALE : 0;
            h[j] = coin[j] >= DROP_OF_256 ? z : 0;
        }
    }
}

/* dh = gradient before the activation, db1 its column sums. */
static void hidden_backward(struct mlp *m, float *restrict db1)
{
    const float *restrict h = m->h;
    float *restrict dh = m->dh;
    memset(db1, 0, MLP_HIDDEN * sizeof *db1);
    for (int b = 0; b < m->rows; b++)
        for (int j = 0; j < MLP_HIDDEN; j++) {
            float d = h[b * MLP_HIDDEN + j] > 0 ? dh[b * MLP_HIDDEN + j] * KEEP_SCALE : 0;
            dh[b * MLP_HIDDEN + j] = d;
            db1[j] += d;
        }
}

/* o: logits without bias -> their gradient, db2 its column sums; the loss is -log softmax[label].
 */
static double loss(struct mlp *m, float *restrict db2, const float *restrict b2, float inv_batch)
{
    double sum_loss = 0;
    memset(db2, 0, MLP_OUT * sizeof *db2);
    for (int b = 0; b < m->rows; b++) {
        float *o = m->o + b * MLP_OUT, highest = -1e9F, sum = 0;
        for (int j = 0; j < MLP_OUT; j++) {
            o[j] += b2[j];
            highest = o[j] > highest ? o[j] : highest;
        }
        sum_loss += (double)(highest - o[m->label[b]]);
        for (int j = 0; j < MLP_OUT; j++)
            sum += o[j] = expf(o[j] - highest);
        sum_loss += (double)logf(sum);
        for (int j = 0; j < MLP_OUT; j++) {
            o[j] = (o[j] / sum - (float)(j == m->label[b])) * inv_batch;
            db2[j] += o[j];
        }
    }
    return sum_loss;
}

double mlp_gradient(struct mlp *m, float *dw, const float *w, float inv_batch)
{
    int n = m->rows;
    mlp_draw(m);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, MLP_HIDDEN, MLP_IN, 1, m->x, MLP_IN,
                w + MLP_W1, MLP_HIDDEN, 0, m->h, MLP_HIDDEN);
    hidden_forward(m, w + MLP_B1);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, MLP_OUT, MLP_HIDDEN, 1, m->h,
                MLP_HIDDEN, w + MLP_W2, MLP_OUT, 0, m->o, MLP_OUT);
    double sum_loss = loss(m, dw + MLP_B2, w + MLP_B2, inv_batch);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, MLP_HIDDEN, MLP_OUT, n, 1, m->h,
                MLP_HIDDEN, m->o, MLP_OUT, 0, dw + MLP_W2, MLP_OUT);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, MLP_HIDDEN, MLP_OUT, 1, m->o, MLP_OUT,
                w + MLP_W2, MLP_OUT, 0, m->dh, MLP_HIDDEN);
    hidden_backward(m, dw + MLP_B1);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, MLP_IN, MLP_HIDDEN, n, 1, m->x, MLP_IN,
                m->dh, MLP_HIDDEN, 0, dw + MLP_W1, MLP_HIDDEN);
    return sum_loss;
}

/* One update of a block that stays in the first cache. Not inlined: gcc forgets restrict there. */
static __attribute__((noinline)) void adam_block(float *restrict w, float *restrict m,
                                                 float *restrict v, const float *restrict sum,
                                                 float scale, float alpha, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = sum[i] * scale;
        m[i] += .1F * (g - m[i]);
        v[i] += .001F * (g * g - v[i]);
        w[i] -= alpha * m[i] / (sqrtf(v[i]) + 1e-7F);
    }
}

static __attribute__((noinline)) void sum_block(float *restrict g, const float *restrict part,
                                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] += part[i];
}

/* Kingma and Ba 2015, algorithm 1 with the rate of section 2's last remark, as Keras has it. */
void mlp_adam(float *w, float *slot_m, float *slot_v, const float *const *parts, int n_parts,
              float scale, uint64_t t, size_t n)
{
    float alpha = (float)(1e-3 * sqrt(1 - pow(.999, (double)t)) / (1 - pow(.9, (double)t)));
    float g[ADAM_BLOCK];
    for (size_t i = 0; i < n; i += ADAM_BLOCK) {
        size_t block = n - i < ADAM_BLOCK ? n - i : ADAM_BLOCK;
        memcpy(g, parts[0] + i, block * sizeof *g);
        for (int k = 1; k < n_parts; k++)
            sum_block(g, parts[k] + i, block);
        adam_block(w + i, slot_m + i, slot_v + i, g, scale, alpha, block);
    }
}
