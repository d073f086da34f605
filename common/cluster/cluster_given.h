/* What TF_CONFIG and the flags say about the cluster, before cluster.c judges it as a whole. */
#ifndef GRADWIRE_COMMON_CLUSTER_CLUSTER_GIVEN_H
#define GRADWIRE_COMMON_CLUSTER_CLUSTER_GIVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cluster/cluster.h"

enum { CLUSTER_ADDRESSES_MAX = 65536 };

struct addresses {
    char **at; /* "host:port", each checked */
    uint32_t n;
    bool by_flag; /* and not by TF_CONFIG */
};

struct cluster_given {
    bool any; /* something was said */
    bool has_role, has_index;
    enum role role;
    uint32_t index;
    struct addresses of[ROLES]; /* by role */
    bool part_of_workers;       /* sparse: at most this process's own worker is listed */
    bool part_of_ps;            /* sparse: ps may list this process alone */
};

/* Add what `text` says; NULL or blank: nothing. Errors: ERR_INPUT, ERR_NOMEM. */
enum err cluster_given_tf_config(struct cluster_given *g, const char *text,
                                 struct errmsg *e) MUST_CHECK;
/* Lay the flags over it. */
enum err cluster_given_flags(struct cluster_given *g, const struct cluster_flags *flags,
                             struct errmsg *e) MUST_CHECK;
void cluster_given_close(struct cluster_given *g);

/* "host:port" or "[v6]:port": NULL if it is one, otherwise what is wrong. */
const char *cluster_address_problem(const char *address);

#endif
