/* The operators of ONNX (https://onnx.ai/onnx/operators/) that our layers have. */
#include "formats/imports/onnx_step.h"

#include <string.h>

static const struct {
    const char *op;
    void (*take)(const struct step *s);
} operators[] = {
#define ROW(op, name) {#op, take_##name},
    {"Identity", step_pass}, STEP_OPERATORS(ROW)};

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
