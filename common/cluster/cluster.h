/* The role and index of this process, and the addresses of the others, from TF_CONFIG or from flags. Flags take
 * precedence. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum role { ROLE_CHIEF, ROLE_WORKER, ROLE_PS, ROLE_EVALUATOR };
enum { ROLES = ROLE_EVALUATOR + 1 };

struct cluster {
    enum role role; /* as given: worker 0 without a chief stays ROLE_WORKER, with is_chief true */
    uint32_t index;
    bool is_chief;       /* this process is the chief */
    bool separate_chief; /* the cluster has a chief (or master) of its own, if known */
    bool has_evaluator;  /* the cluster has an evaluator, if known, or this process is one */
    bool given;          /* TF_CONFIG or flags name this process; otherwise it is a lone worker */
    /* dynamic workers: only part of the list of workers (for a ps: of ps) is known */
    bool sparse;
    /* no cluster is given, or it has only this process: it trains alone; a ps logs what is missing and ends */
    bool alone;
    uint32_t n_ps;      /* known addresses of ps; a sparse ps knows only its own, at ps[0] */
    char **ps;          /* "host:port" */
    uint32_t n_workers; /* known workers, excluding a separate chief; 0 if unknown */
    char **workers;     /* sparse: only this one, at [0] */
    char *chief;        /* host:port, or NULL if unknown */
    char *self;         /* host:port under which others connect to this process, or NULL */
    /* The address to listen on, or NULL if self is NULL. It is self, or only its ":port" if TF_CONFIG gives a name:
     * a pod's own name may not resolve before the pod is ready. */
    char *bind;
    /* The number among the chief and the workers: the chief is 0; with a separate chief, worker i is i + 1. 0 for a
     * ps or an evaluator. */
    uint32_t worker_id;
};

const char *role_str(enum role role);

struct cluster_flags { /* empty strings: not given */
    const char *job_name, *ps_hosts, *worker_hosts, *chief_host;
    int64_t task_index; /* -1: not given */
    int64_t evaluators; /* 0: TF_CONFIG decides; 1: there is one; others: refused */
};

/* Returns the most workers that can take part, with the chief. A sparse cluster does not know the others, nor does a chief of its
 * own that has no list: UINT32_MAX. */
static inline uint32_t cluster_workers_most(const struct cluster *c)
{
    bool listed = c->n_workers > 0 || !c->separate_chief;
    return c->sparse || !listed ? UINT32_MAX : c->n_workers + c->separate_chief;
}

/* Reads the cluster from the flags and from `tf_config`, the variable's value or NULL. It accepts the forms of
 * TFJob's TF_CONFIG: dense, sparse ("cluster" with a worker object, or "sparseCluster"), and master as the legacy
 * name of the chief. The caller owns *c (cluster_close); *c is unchanged on error. Errors: ERR_INPUT with one line
 * that says what is wrong and what is needed; ERR_NOMEM. */
enum err cluster_init(struct cluster *c, const struct cluster_flags *flags, const char *tf_config,
                      struct errmsg *e) MUST_CHECK;
void cluster_close(struct cluster *c);

/* The number of file descriptors that a process of a job opens until it trains. */

/* The descriptors that the process has from its start are not counted: standard input to standard error, and those that a
 * launcher hands to it. `shards`: of all ps. `trainers`: the workers and the chief.
 *
 * With fewer descriptors the process could not begin, or would wait for ever. With more workers than a ps has descriptors
 * for, it begins, and the others wait. */
uint32_t descriptors_of_ps(uint32_t threads, uint32_t trainers);

uint32_t descriptors_of_worker(uint32_t ps, uint32_t shards);

uint32_t descriptors_of_chief(uint32_t ps, uint32_t shards, uint32_t trainers);

/* The parts of a cluster that TF_CONFIG and the flags give, before cluster.c checks them together. */
enum { CLUSTER_ADDRESSES_MAX = 65536 };

struct addresses {
    char **at; /* "host:port", each checked */
    uint32_t n;
    bool by_flag; /* from a flag, not from TF_CONFIG */
};

struct cluster_given {
    bool any; /* anything was given */
    bool has_role, has_index;
    enum role role;
    uint32_t index;
    struct addresses of[ROLES]; /* by role */
    bool part_of_workers;       /* sparse: only this process's own worker can be listed */
    bool part_of_ps;            /* sparse: only this process can be listed as ps */
};

/* Adds the contents of TF_CONFIG; NULL or blank: nothing. Errors: ERR_INPUT, ERR_NOMEM. */
enum err cluster_given_tf_config(struct cluster_given *g, const char *text,
                                 struct errmsg *e) MUST_CHECK;
/* Adds the flags, which take precedence. Errors: as above. */
enum err cluster_given_flags(struct cluster_given *g, const struct cluster_flags *flags,
                             struct errmsg *e) MUST_CHECK;
void cluster_given_close(struct cluster_given *g);

/* Returns NULL if `address` is "host:port" or "[v6]:port", otherwise what is wrong with it. */
const char *cluster_address_problem(const char *address);

/* The variables by which a launcher or an operator tells a process that it is one of several: MPI, Slurm, Kubernetes' Indexed
 * Jobs, PyTorch, Paddle, ps-lite, JAX and Horovod. They name a rank or the number of processes, but not the addresses of ps and
 * workers. */

/* Refuse to train alone in a process that is one of several, because each of them would train the whole job. `named`: TF_CONFIG
 * or flags name the process, so no sign counts. `alone`: --alone, for a process that nothing names. A number of processes of 1
 * is no sign. `lookup` is getenv. Errors: ERR_INPUT names the variable and what to do. */
enum err signs_check(bool named, bool alone, char *(*lookup)(const char *name),
                     struct errmsg *e) MUST_CHECK;
