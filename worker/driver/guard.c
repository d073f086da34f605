#include "worker/driver/guard.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/parameters/norm.h"
#include "common/rows/row_sums.h"

static void say(char *what, size_t bytes, const char *of, double squares)
{
    (void)snprintf(what, bytes, "the gradient of %s is %s", of,
                   isfinite(squares) ? "absurdly large" : "not finite");
}

static bool finds_row(const struct row_sums *r, double most, char *what, size_t bytes)
{
    for (uint32_t t = 0; t < r->layout->tables; t++) {
        const struct row_table_spec *spec = &r->layout->table[t];
        const struct row_sums_list *l = &r->list[spec->list];
        uint32_t i = row_squares_beyond(r->g[t], most, l->keys, spec->dim);
        if (i == l->keys)
            continue;
        char of[ROW_TABLE_NAME_MAX + 48];
        (void)snprintf(of, sizeof of, "key %" PRIu64 " of table %s", key_unmix(l->mixed[i]),
                       spec->name);
        say(what, bytes, of, kernels()->sum_squares(r->g[t] + (size_t)i * spec->dim, spec->dim));
        return true;
    }
    return false;
}

bool guard_finds(const struct guard *g, const struct gradient_node *n, char *what, size_t bytes)
{
    double most = norm_most(g->clip_norm, n->examples);
    const char *tensor = norm_broken_tensor(g->layout, 0, n->value, (size_t)g->layout->elems, most);
    if (!tensor)
        return n->rows && finds_row(n->rows, most, what, bytes);
    struct norm_sums sums = norm_squares(g->layout, 0, n->value, (size_t)g->layout->elems);
    say(what, bytes, tensor, sums.weights + sums.statistics);
    return true;
}

void guard_blame(const struct guard *g, const float *w, const struct gradient_node *n,
                 uint32_t nodes, char *what, size_t bytes)
{
    static const char loss[] = "the loss is not finite";
    char gradient[160];
    const char *weight = norm_broken_tensor(g->layout, 0, w, (size_t)g->layout->elems, DBL_MAX);
    uint32_t i = 0;
    while (i < nodes && !guard_finds(g, &n[i], gradient, sizeof gradient))
        i++;
    if (weight)
        (void)snprintf(what, bytes, "%s, nor is the tensor %s", loss, weight);
    else if (i < nodes)
        (void)snprintf(what, bytes, "%s; %s", loss, gradient);
    else
        (void)snprintf(what, bytes, "%s", loss);
}

static double squares(const struct guard *g, const struct gradient_node *n)
{
    double sum = 0, bucket[ROW_BUCKETS] = {0};
    for (uint32_t c = 0; c < g->plan->chunks; c++) {
        uint64_t at = plan_chunk_elem(g->plan, c);
        size_t elems = (size_t)plan_run_elems(g->plan, c, 1);
        sum += norm_squares(g->layout, at, n->value + at, elems).weights;
    }
    for (uint32_t t = 0; n->rows && t < n->rows->layout->tables; t++) {
        const struct row_table_spec *spec = &n->rows->layout->table[t];
        const struct row_sums_list *l = &n->rows->list[spec->list];
        row_squares_add(bucket, (struct bucket_range){0, ROW_BUCKETS}, l->mixed, n->rows->g[t],
                        l->keys, spec->dim);
    }
    for (uint32_t b = 0; b < ROW_BUCKETS; b++)
        sum += bucket[b];
    return sum;
}

bool guard_clip(const struct guard *g, struct gradient_node *n)
{
    if (g->clip_norm <= 0)
        return false;
    float scale = norm_scale(squares(g, n), n->examples, g->clip_norm);
    for (uint32_t i = 0; i < g->layout->tensors && scale < 1; i++) {
        const struct tensor *t = &g->layout->tensor[i];
        float *value = n->value + t->offset_elems;
        if (t->role == TENSOR_WEIGHT)
            kernels()->scale(value, value, scale, (size_t)t->elems);
    }
    struct row_sums *r = n->rows;
    for (uint32_t t = 0; scale < 1 && r && t < r->layout->tables; t++) {
        const struct row_table_spec *spec = &r->layout->table[t];
        kernels()->scale(r->g[t], r->g[t], scale, (size_t)r->list[spec->list].keys * spec->dim);
    }
    return scale < 1;
}

void guard_empty(const struct guard *g, struct gradient_node *n)
{
    memset(n->value, 0, g->layout->elems * sizeof *n->value);
    for (uint32_t i = 0; n->rows && i < n->rows->layout->lists; i++)
        n->rows->list[i].keys = 0;
    n->examples = 0;
    n->sums = (struct sums){0};
}
