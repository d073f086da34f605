/* MatMul and Gemm. */
#include "formats/imports/onnx_step.h"

static void fill_kernel(const struct step *s, float *kernel, const Onnx__Tensor *t, uint64_t in,
                        uint64_t units, bool transposed)
{
    for (uint64_t i = 0; i < in; i++) {
        uint64_t from = step_place(&s->x, i);
        for (uint64_t o = 0; o < units; o++)
            kernel[i * units + o] =
                (float)onnx_tensor_at(t, transposed ? o * in + from : from * units + o);
    }
}

static void dense(const struct step *s, bool transposed, const Onnx__Tensor *bias)
{
    uint64_t elems;
    const Onnx__Tensor *t = step_constant(s, 1, &elems);
    if (!t || t->n_dims != 2 || elems == 0) {
        step_refuse(s, "its second input must be a constant matrix of numbers");
        return;
    }
    uint64_t in = (uint64_t)t->dims[transposed], units = (uint64_t)t->dims[!transposed], n;
    if (in != step_width(&s->x) || s->x.first) {
        step_refuse(s, "its matrix does not fit its input");
        return;
    }
    bool gemm = bias != NULL;
    if (!bias)
        bias = step_bias_after(s, units);
    if (bias && (!onnx_tensor_elems(bias, &n) || (n != units && !(gemm && n == 1)))) {
        step_refuse(s, "its third input must be a vector of %llu numbers",
                    (unsigned long long)units);
        return;
    }
    char wanted[STEP_NAME_BYTES];
    step_layer_name(wanted, t);
    struct walk_value v = s->x;
    v.dim[v.rank - 1] = (uint32_t)units;
    v.channels = 0;
    const char *layer = STEP_LAYER(s, "dense", wanted, "units: %u%s", v.dim[v.rank - 1],
                                   bias ? "" : ", use_bias: false");
    float *kernel = layer ? sketch_part(&s->w->s, layer, "kernel", elems) : NULL;
    float *b = kernel && bias ? sketch_part(&s->w->s, layer, "bias", units) : NULL;
    if (kernel)
        fill_kernel(s, kernel, t, in, units, transposed);
    if (b)
        step_fill(b, bias, units);
    step_put(s, v, "dense", layer);
}

static void take_matmul(const struct step *s)
{
    dense(s, false, NULL);
}

static void take_gemm(const struct step *s)
{
    uint64_t elems;
    const Onnx__Tensor *c = step_constant(s, 2, &elems);
    bool plain = onnx_float(s->n, "alpha", 1) == 1 && onnx_float(s->n, "beta", 1) == 1 &&
                 !onnx_int(s->n, "transA", 0);
    if (!plain || s->x.rank != 1 || (walk_input(s->n, 2)[0] && !c))
        step_refuse(s, "alpha and beta must be 1, transA 0, and C a constant");
    else
        dense(s, onnx_int(s->n, "transB", 0) != 0, c);
}

const struct operator operators_of_dense[] = {
    {"Gemm", take_gemm, "alpha beta transA transB", NULL},
    {"MatMul", take_matmul, "", NULL},
    {.op = NULL},
};
