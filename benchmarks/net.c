#include "benchmarks/net.h"

#include <stdlib.h>

#include "benchmarks/bench.h"
#include "benchmarks/mlp.h"
#include "job/job.h"
#include "model/model.h"

struct net {
    uint8_t *pixels;
    struct model *model; /* NULL: the MLP */
    struct job job;
};

struct net_thread {
    const struct net *net;
    int batch;
    uint64_t steps, seed;
    struct mlp mlp; /* draws the rows for a model too */
    struct model_run *run;
    float *label;
};

struct net *net_new(const char *job)
{
    struct errmsg e = {""};
    struct net *n = calloc(1, sizeof *n);
    if (!n)
        bench_die("out of memory");
    n->pixels = mlp_pixels_new();
    if (!job)
        return n;
    if (job_load(&n->job, job, NULL, 0, &e) || model_new(&n->model, &n->job, &e))
        bench_die("%s", e.text);
    if (model_features(n->model) != MLP_IN || model_classes(n->model) != MLP_OUT)
        bench_die("%s: its model does not take 784 inputs to 10 classes", job);
    return n;
}

void net_free(struct net *n)
{
    if (n->model) {
        model_free(n->model);
        job_close(&n->job);
    }
    free(n->pixels);
    free(n);
}

size_t net_elems(const struct net *n)
{
    return n->model ? model_layout(n->model)->elems : MLP_ELEMS;
}

void net_weights(const struct net *n, float *w, size_t first, size_t n_elems)
{
    if (n->model)
        layout_init_values(model_layout(n->model), 1, first, n_elems, w);
    else
        mlp_weights(w, first, n_elems);
}

float net_scale(const struct net *n, int batch)
{
    return n->model ? 1.0F / (float)batch : 1.0F; /* mlp_gradient has done it */
}

struct net_thread *net_thread_new(const struct net *n, int rows, int batch, uint64_t seed)
{
    struct errmsg e = {""};
    struct net_thread *t = calloc(1, sizeof *t);
    if (!t)
        bench_die("out of memory");
    t->net = n;
    t->batch = batch;
    t->seed = seed;
    mlp_init(&t->mlp, rows, seed, n->pixels);
    if (n->model && model_run_new(&t->run, n->model, (uint32_t)rows, &e))
        bench_die("%s", e.text);
    t->label = bench_pages((size_t)rows * sizeof *t->label);
    return t;
}

void net_thread_free(struct net_thread *t)
{
    model_run_free(t->run);
    mlp_close(&t->mlp);
    free(t->label);
    free(t);
}

double net_gradient(struct net_thread *t, float *dw, const float *w)
{
    if (!t->run)
        return mlp_gradient(&t->mlp, dw, w, 1.0F / (float)t->batch);
    struct sums sums = {0};
    mlp_draw(&t->mlp);
    for (int i = 0; i < t->mlp.rows; i++)
        t->label[i] = (float)t->mlp.label[i];
    model_train(t->run, w, &(struct leaf){.n = (uint32_t)t->mlp.rows, .x = t->mlp.x, .y = t->label},
                t->seed + ++t->steps, dw, &sums, NULL, NULL);
    return sums.loss;
}
