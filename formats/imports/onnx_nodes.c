/* The operators of ONNX (https://onnx.ai/onnx/operators/) that our layers have. */
#include "formats/imports/onnx_step.h"

#include <string.h>

static const struct {
    const char *op;
    void (*take)(const struct step *s);
} operators[] = {
    {"Add", take_add},
    {"AveragePool", take_average_pool},
    {"BatchNormalization", take_batch_normalization},
    {"Cast", take_cast},
    {"Concat", take_concat},
    {"Conv", take_conv},
    {"Div", take_divide},
    {"Dropout", take_dropout},
    {"Elu", take_elu},
    {"Flatten", take_flatten},
    {"Gelu", take_gelu},
    {"Gemm", take_gemm},
    {"GlobalAveragePool", take_global_average},
    {"GlobalMaxPool", take_global_max},
    {"Identity", step_pass},
    {"LayerNormalization", take_layer_normalization},
    {"LeakyRelu", take_leaky_relu},
    {"MatMul", take_matmul},
    {"MaxPool", take_max_pool},
    {"Mul", take_multiply},
    {"ReduceMax", take_reduce_max},
    {"ReduceMean", take_reduce_mean},
    {"Relu", take_relu},
    {"Reshape", take_reshape},
    {"Selu", take_selu},
    {"Sigmoid", take_sigmoid},
    {"Softmax", take_softmax},
    {"Softplus", take_softplus},
    {"Squeeze", take_squeeze},
    {"Sub", take_subtract},
    {"Tanh", take_tanh},
    {"Transpose", take_transpose},
};

/* Swap the inputs of a sum or product whose first one is a constant. */
static bool is_turned(const struct step *s)
{
    const struct walk_value *a = walk_find(s->w, walk_input(s->n, 0));
    bool turns = strcmp(s->n->op_type, "Add") == 0 || strcmp(s->n->op_type, "Mul") == 0;
    return turns && s->n->n_input == 2 && a && a->data;
}

void walk_node(struct walk *w, size_t at)
{
    const Onnx__Node *n = w->g->node[at];
    struct step s = {.w = w, .n = n};
    char *turned[2];
    Onnx__Node other = *n;
    if (is_turned(&s)) {
        turned[0] = n->input[1];
        turned[1] = n->input[0];
        other.input = turned;
        s.n = &other;
    }
    bool ours = n->domain[0] == 0 || strcmp(n->domain, "ai.onnx") == 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators && ours; i++) {
        if (strcmp(operators[i].op, n->op_type) != 0)
            continue;
        const struct walk_value *x = walk_find(w, walk_input(s.n, 0));
        if (x && x->data)
            step_refuse(&s, "its first input is a constant");
        if (!x || x->data)
            return;
        s.x = *x;
        operators[i].take(&s);
        return;
    }
    step_refuse(&s, "a job has no layer for this operator");
}
