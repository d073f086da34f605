/* The yardstick of training on this machine: the arithmetic of net.h in one process, data parallel
 * over threads, no ps, no sockets. Each thread runs its own share of the batch; gradients are
 * summed and Adam applied by slices. The barrier sleeps: a spinning one collapses when a core is
 * taken, and a ratio to it would pass falsely.
 *
 * raw_train --batch B [--job FILE] [--threads T] [--steps N]
 *
 * The check: the loss of the last steps is below a half of the first step's. */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "benchmarks/mlp.h"
#include "benchmarks/net.h"
#include "common/base/clock.h"
#include "common/math/kernels.h"

enum { THREADS_MAX = 64, WARM_UP_STEPS = 100 };

extern void openblas_set_num_threads(int n);
extern char *openblas_get_corename(void);

struct train {
    int batch, threads, steps;
    struct net *net;
    size_t elems;
    float *w, *m, *v;         /* (elems) */
    float *dw[THREADS_MAX];   /* (elems) each */
    double loss[THREADS_MAX]; /* of the running step, a sum */
    double first_loss, last_loss, start, end;
    pthread_barrier_t barrier;
};

struct thread {
    struct train *train;
    int index;
    pthread_t id;
};

/* Border i of the parameters cut into `threads` slices, on whole cache lines. */
static size_t border(const struct train *t, int i)
{
    return i == t->threads ? t->elems : t->elems * (size_t)i / (size_t)t->threads & ~(size_t)15;
}

static void apply_slice(struct train *t, int index, uint64_t step)
{
    size_t first = border(t, index);
    const float *parts[THREADS_MAX];
    for (int i = 0; i < t->threads; i++)
        parts[i] = t->dw[i] + first;
    mlp_adam(t->w + first, t->m + first, t->v + first, parts, t->threads,
             net_scale(t->net, t->batch), step, border(t, index + 1) - first);
}

/* Thread 0, between the barriers. */
static void note_loss(struct train *t, int step)
{
    double sum = 0;
    for (int i = 0; i < t->threads; i++)
        sum += t->loss[i];
    t->last_loss = sum / t->batch;
    if (!step)
        t->first_loss = t->last_loss;
    if (step == WARM_UP_STEPS - 1)
        t->start = clock_now_s();
    t->end = clock_now_s();
}

static void *thread_run(void *arg)
{
    struct thread *self = arg;
    struct train *t = self->train;
    kernels_flush_denormals();
    struct net_thread *share =
        net_thread_new(t->net, t->batch / t->threads, t->batch, (uint64_t)self->index);
    for (int step = 0; step < t->steps + WARM_UP_STEPS; step++) {
        t->loss[self->index] = net_gradient(share, t->dw[self->index], t->w);
        pthread_barrier_wait(&t->barrier);
        apply_slice(t, self->index, (uint64_t)step + 1);
        if (!self->index)
            note_loss(t, step);
        pthread_barrier_wait(&t->barrier);
    }
    net_thread_free(share);
    return NULL;
}

static void train_run(struct train *t)
{
    struct thread thread[THREADS_MAX];
    t->elems = net_elems(t->net);
    t->w = bench_pages(t->elems * sizeof *t->w);
    t->m = bench_pages(t->elems * sizeof *t->m);
    t->v = bench_pages(t->elems * sizeof *t->v);
    net_weights(t->net, t->w, 0, t->elems);
    pthread_barrier_init(&t->barrier, NULL, (unsigned)t->threads);
    for (int i = 0; i < t->threads; i++) {
        t->dw[i] = bench_pages(t->elems * sizeof *t->dw[i]);
        thread[i] = (struct thread){.train = t, .index = i};
        if (pthread_create(&thread[i].id, NULL, thread_run, &thread[i]))
            bench_die("no thread");
    }
    for (int i = 0; i < t->threads; i++) {
        pthread_join(thread[i].id, NULL);
        free(t->dw[i]);
    }
    pthread_barrier_destroy(&t->barrier);
    free(t->v);
    free(t->m);
    free(t->w);
    net_free(t->net);
}

static struct train options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"batch", 1, NULL, 'b'},
                                          {"job", 1, NULL, 'j'},
                                          {"threads", 1, NULL, 't'},
                                          {"steps", 1, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    struct train t = {.batch = 64, .threads = (int)sysconf(_SC_NPROCESSORS_ONLN), .steps = 1000};
    const char *job = NULL;
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'b')
            t.batch = (int)bench_number(optarg);
        else if (flag == 'j')
            job = optarg;
        else if (flag == 't')
            t.threads = (int)bench_number(optarg);
        else if (flag == 's')
            t.steps = (int)bench_number(optarg);
        else
            exit(1);
    }
    if (t.threads < 1 || t.threads > THREADS_MAX || t.batch < t.threads || t.steps < 1)
        bench_die("--threads is 1 to %d, --batch at least as much, --steps positive", THREADS_MAX);
    t.batch -= t.batch % t.threads;
    t.net = net_new(job);
    return t;
}

int main(int argc, char **argv)
{
    struct train t = options_parse(argc, argv);
    openblas_set_num_threads(1);
    train_run(&t);
    double per_s = (double)t.batch * t.steps / (t.end - t.start);
    printf("{\"batch\":%d,\"threads\":%d,\"steps\":%d,\"blas_core\":\"%s\",\"examples_per_s\":%.0f,"
           "\"step_us\":%.1f,\"first_loss\":%.4f,\"last_loss\":%.4f,\"valid\":%s}\n",
           t.batch, t.threads, t.steps, openblas_get_corename(), per_s, 1e6 * t.batch / per_s,
           t.first_loss, t.last_loss, t.last_loss < t.first_loss / 2 ? "true" : "false");
    return 0;
}
