#include "worker/driver/guard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/parameters/norm.h"

bool guard_finds(const struct guard *g, const struct gradient_node *n, char *what, size_t bytes)
{
    double most = norm_most(g->clip_norm, n->examples);
    const char *tensor = norm_broken_tensor(g->layout, 0, n->value, (size_t)g->layout->elems, most);
    if (!tensor)
        return false;
    struct norm_sums sums = norm_squares(g->layout, 0, n->value, (size_t)g->layout->elems);
    (void)snprintf(what, bytes, "the gradient of %s is %s", tensor,
                   isfinite(sums.weights + sums.statistics) ? "absurdly large" : "not finite");
    return true;
}

static double squares(const struct guard *g, const float *value)
{
    double sum = 0;
    for (uint32_t c = 0; c < g->plan->chunks; c++) {
        uint64_t at = plan_chunk_elem(g->plan, c);
        size_t elems = (size_t)plan_run_elems(g->plan, c, 1);
        sum += norm_squares(g->layout, at, value + at, elems).weights;
    }
    return sum;
}

bool guard_clip(const struct guard *g, struct gradient_node *n)
{
    if (g->clip_norm <= 0)
        return false;
    float scale = norm_scale(squares(g, n->value), n->examples, g->clip_norm);
    for (uint32_t i = 0; i < g->layout->tensors && scale < 1; i++) {
        const struct tensor *t = &g->layout->tensor[i];
        float *value = n->value + t->offset_elems;
        if (t->role == TENSOR_WEIGHT)
            kernels()->scale(value, value, scale, (size_t)t->elems);
    }
    return scale < 1;
}

void guard_empty(const struct guard *g, struct gradient_node *n)
{
    memset(n->value, 0, g->layout->elems * sizeof *n->value);
    n->examples = 0;
    n->sums = (struct sums){0};
}
