/* Who am I and who else is there: TF_CONFIG or the flags -> role, index, peers. Flags win. */
#ifndef GRADWIRE_COMMON_CLUSTER_CLUSTER_H
#define GRADWIRE_COMMON_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum role { ROLE_CHIEF, ROLE_WORKER, ROLE_PS, ROLE_EVALUATOR };
enum { ROLES = ROLE_EVALUATOR + 1 };

struct cluster {
    enum role role; /* as it was given: worker 0 without a chief stays ROLE_WORKER, is_chief true */
    uint32_t index;
    bool is_chief;
    bool separate_chief; /* a chief (or master) entry of its own is in the cluster, if known */
    bool has_evaluator;  /* an evaluator is in the cluster, if known; or this is one */
    bool sparse;         /* dynamic workers: the workers (at a ps: the ps) are known in part only */
    bool alone;          /* nothing is said of a cluster, or it is this one process: trains alone;
                          * a ps that finds this says what is missing and ends */
    uint32_t n_ps;       /* known ps addresses; a sparse ps knows only its own, at ps[0] */
    char **ps;           /* "host:port" */
    uint32_t n_workers;  /* known workers, without a separate chief; 0 if unknown */
    char **workers;      /* sparse: only this one, at [0] */
    char *chief;         /* host:port, or NULL if not known */
    char *self;          /* this process's own host:port as the others dial it, or NULL */
    char *bind;          /* what to listen on for it, or NULL: self, but ":port" where TF_CONFIG
                          * gives a name: a pod's own name resolves once it listens, not before */
    uint32_t worker_id;  /* among all that train: the chief is 0; with a separate chief worker i
                          * is i + 1 */
};

const char *role_str(enum role role);

struct cluster_flags { /* empty strings: not given */
    const char *job_name, *ps_hosts, *worker_hosts, *chief_host;
    int64_t task_index; /* -1: not given */
    int64_t evaluators; /* 0: as TF_CONFIG says; 1: there is one */
};

/* `tf_config` is the variable's value or NULL. Facts and forms: TFJob's TF_CONFIG, dense, sparse
 * ("cluster" with a worker object, or "sparseCluster"), master as the legacy chief.
 * Errors: ERR_INPUT with one line that says what is wrong and what would be right. */
enum err cluster_init(struct cluster *c, const struct cluster_flags *flags, const char *tf_config,
                      struct errmsg *e) MUST_CHECK;
void cluster_close(struct cluster *c);

#endif
