/* Finds out which process of the job this pod runs by the pod's ordinal, if no operator sets TF_CONFIG. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_ORDINALS_H
#define GRADWIRE_K8S_ENTRYPOINT_ORDINALS_H

#include <stdint.h>

#include "common/base/err.h"

/* The number after the last '-' of a pod's name. Errors: ERR_INPUT if the name has none. */
enum err ordinals_read(const char *pod, uint32_t *ordinal, struct errmsg *e) MUST_CHECK;

/* Make a dense TF_CONFIG from --role, --ps, --workers and the patterns, which must all be given, and --chief_address. The
 * caller frees *json with free. `completion` is JOB_COMPLETION_INDEX or NULL, `pod` the host's name. Errors: ERR_INPUT
 * with one line; ERR_NOMEM. */
enum err ordinals_tf_config(const char *completion, const char *pod, char **json,
                            struct errmsg *e) MUST_CHECK;

#endif
