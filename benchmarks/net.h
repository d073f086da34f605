/* The model of the yardsticks that train: the MLP of mlp.h, written for them alone, or the model of
 * a job file by the product's own layers, so that a ratio to it is about everything else. Rows are
 * mlp.h's either way; Adam is. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct net;
struct net_thread;

/* `job`: a job file whose model takes 784 inputs and tells 10 classes apart; NULL: the MLP. Exits
 * where it cannot. */
struct net *net_new(const char *job);
void net_free(struct net *n);

size_t net_elems(const struct net *n); /* of the flat block */
/* Elements [first, first + n_elems) of the first weights. */
void net_weights(const struct net *n, float *w, size_t first, size_t n_elems);
/* Gradients are sums over examples: what they are multiplied by for a batch's mean. */
float net_scale(const struct net *n, int batch);

/* One thread's activations and its own draw of rows. */
struct net_thread *net_thread_new(const struct net *n, int rows, int batch, uint64_t seed);
void net_thread_free(struct net_thread *t);
/* Forward and backward of one drawn share: dw receives its gradient. Returns the sum of losses. */
double net_gradient(struct net_thread *t, float *dw, const float *w);
