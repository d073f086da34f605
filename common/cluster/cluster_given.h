/* The parts of a cluster that TF_CONFIG and the flags give, before cluster.c checks them together. */
#ifndef GRADWIRE_COMMON_CLUSTER_CLUSTER_GIVEN_H
#define GRADWIRE_COMMON_CLUSTER_CLUSTER_GIVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/cluster/cluster.h"

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

#endif
