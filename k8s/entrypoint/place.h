/* Finds out which process of the job this pod runs, if no operator sets TF_CONFIG: from the pod's ordinal, or, if a ps
 * and a worker run on each host, from the flags of the hosts form. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_PLACE_H
#define GRADWIRE_K8S_ENTRYPOINT_PLACE_H

#include <stdint.h>

#include "common/base/err.h"

/* The number after the last '-' of a pod's name. Errors: ERR_INPUT if the name has none. */
enum err place_ordinal(const char *pod, uint32_t *ordinal, struct errmsg *e) MUST_CHECK;

/* Make a dense TF_CONFIG from --role, --ps, --workers and the patterns, which must all be given, and --chief_address. The
 * caller frees *json with free. `completion` is JOB_COMPLETION_INDEX or NULL, `pod` the host's name. Errors: ERR_INPUT
 * with one line; ERR_NOMEM. */
enum err place_tf_config(const char *completion, const char *pod, char **json,
                         struct errmsg *e) MUST_CHECK;

enum { PLACE_HOSTS_MAX = 256, PLACE_LIST_BYTES = 32 * 1024 };

struct place_hosts { /* the two processes of a host in the hosts form */
    char ps_hosts[PLACE_LIST_BYTES], worker_hosts[PLACE_LIST_BYTES]; /* as the flags of this name */
    uint32_t index, worker_http; /* the worker's --http_port; 0: neither process has one */
};

/* Fill *h from --worker_ips, --current_ip, --port and --http_port. Errors: ERR_INPUT with one line: --current_ip is not
 * in the list, an address is in it twice, the list is too long, or a port is wrong. */
enum err place_hosts(struct place_hosts *h, struct errmsg *e) MUST_CHECK;

#endif
