/* The hosts form: a ps and a worker on each of the hosts that the flags list. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_HOSTS_H
#define GRADWIRE_K8S_ENTRYPOINT_HOSTS_H

#include <stdint.h>

#include "common/base/err.h"

enum { HOSTS_MAX = 256, HOSTS_LIST_BYTES = 32 * 1024 };

struct hosts { /* the two processes of this host */
    char ps_hosts[HOSTS_LIST_BYTES], worker_hosts[HOSTS_LIST_BYTES]; /* as the flags of this name */
    uint32_t index, worker_http; /* the worker's --http_port; 0: neither process has one */
};

/* Fill *h from --worker_ips, --current_ip, --port and --http_port. Errors: ERR_INPUT with one line: --current_ip is not
 * in the list, an address is in it twice, the list is too long, or a port is wrong. */
enum err hosts_init(struct hosts *h, struct errmsg *e) MUST_CHECK;

#endif
