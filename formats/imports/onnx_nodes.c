/* The operators of ONNX (https://onnx.ai/onnx/operators/) that our layers have. */
#include "common/base/texts.h"
#include "formats/imports/onnx_step.h"

#include <string.h>

static const struct operator identity[] = {{"Identity", step_pass, "", NULL}, {.op = NULL}};
static const struct operator* const tables[] = {identity,
                                                operators_of_activations,
                                                operators_of_dense,
                                                operators_of_scales,
                                                operators_of_shapes,
                                                operators_of_windows};

static const struct operator* find_operator(const char *op)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct operator* at = tables[i]; at->op; at++)
            if (strcmp(at->op, op) == 0)
                return at;
    return NULL;
}

/* Operators that do the same with (n) as with (n, 1). */
static const char of_columns[] =
    "Cast Dropout Elu Gelu Identity LeakyRelu Relu Selu Sigmoid Softplus Tanh";

/* The attributes that are not known may change what the node computes. False: refused. */
static bool check_attributes(const struct step *s, const char *known)
{
    for (size_t i = 0; i < s->n->n_attribute; i++) {
        const char *name = s->n->attribute[i]->name;
        if (text_has_word(known, name))
            continue;
        step_refuse(s, "its attribute %.60s is not known here", name);
        return false;
    }
    return true;
}

/* A job has (n, 1) in place of (n), so no other operator can read it. False: refused. */
static bool check_columns(const struct step *s)
{
    for (size_t i = 0; i < s->n->n_input && !text_has_word(of_columns, s->n->op_type); i++) {
        const struct walk_value *v = walk_find(s->w, s->n->input[i]);
        if (!v || v->data || !v->column)
            continue;
        step_refuse(s, "its input %.80s has lost its last axis; a job has it", v->name);
        return false;
    }
    return true;
}

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
    const struct operator* as = ours ? find_operator(n->op_type) : NULL;
    if (!as) {
        step_refuse(&s, "a job has no layer for this operator");
        return;
    }
    const struct walk_value *x = walk_find(w, walk_input(s.n, 0));
    if (x && x->data)
        step_refuse(&s, "its first input is a constant");
    if (!x || x->data)
        return;
    s.x = *x;
    s.as = as->as;
    if (check_attributes(&s, as->attributes) && check_columns(&s))
        as->take(&s);
}
