/* The HTTP ports of a container that runs a ps and a worker. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_HTTP_H
#define GRADWIRE_K8S_ENTRYPOINT_HTTP_H

#include <stdint.h>

#include "common/base/err.h"

/* Set *next to the second process's HTTP port, the one after --http_port; 0: none is given. `port` and the next are the
 * container's other two ports, `said` names `port` in messages, and `other` is "ps" or "worker". Errors: ERR_INPUT: there
 * is no next port, or HTTP meets the other ports. */
enum err http_next(uint32_t *next, uint32_t port, const char *said, const char *other,
                   struct errmsg *e) MUST_CHECK;

#endif
