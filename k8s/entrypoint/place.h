/* Which process this is, where no operator says it: TF_CONFIG from a pod's ordinal, and the flags of the hosts form. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_PLACE_H
#define GRADWIRE_K8S_ENTRYPOINT_PLACE_H

#include <stdint.h>

#include "common/base/err.h"

/* The number behind the last '-' of a pod's name. Errors: ERR_INPUT there is none. */
enum err place_ordinal(const char *pod, uint32_t *ordinal, struct errmsg *e) MUST_CHECK;

/* A dense TF_CONFIG from --role, --ps, --workers and the patterns, all of them given; *json is freed with free. `completion` is
 * JOB_COMPLETION_INDEX or NULL, `pod` the host's name. Errors: ERR_INPUT with one line; ERR_NOMEM. */
enum err place_tf_config(const char *completion, const char *pod, char **json,
                         struct errmsg *e) MUST_CHECK;

enum { PLACE_HOSTS_MAX = 256, PLACE_LIST_BYTES = 32 * 1024 };

struct place_hosts { /* both processes of a host, of the hosts form */
    char ps_hosts[PLACE_LIST_BYTES], worker_hosts[PLACE_LIST_BYTES]; /* as the flags want them */
    uint32_t index, worker_http; /* the worker's --http_port; 0: neither has one */
};

/* Errors: ERR_INPUT with one line: current_ip is not in the list, an address stands twice, a wrong port. */
enum err place_hosts(struct place_hosts *h, struct errmsg *e) MUST_CHECK;

#endif
