/* A job without ps replicas: TF_CONFIG lists a chief and workers, or workers alone, and each of them has a ps
 * of its own, in the same container, on the next port. The chief's is ps 0, then come those of the workers in order. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_BESIDE_H
#define GRADWIRE_K8S_ENTRYPOINT_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct beside {
    bool wanted;      /* the job is such a job; otherwise the rest is zero */
    bool has_ps;      /* this process has a ps; an evaluator has none */
    uint32_t ps;      /* the index of that ps */
    uint32_t ps_http; /* the --http_port of that ps; 0: none */
    char *tf_config;  /* TF_CONFIG with the ps added, for both programs; freed by beside_close */
};

/* Read TF_CONFIG and --http_port. A process that is the only one of its job, or that knows only its own address (dynamic
 * workers), has no ps of its own. *b is unchanged on error. Errors: ERR_INPUT with one line: TF_CONFIG is wrong, or a port
 * has no next one or is taken; ERR_NOMEM. */
enum err beside_init(struct beside *b, const char *tf_config, struct errmsg *e) MUST_CHECK;
void beside_close(struct beside *b);

#endif
