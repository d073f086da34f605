/* What the kernel knows of a connection's pace. */
#ifndef GRADWIRE_COMMON_NET_SOCKET_PROGRESS_H
#define GRADWIRE_COMMON_NET_SOCKET_PROGRESS_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/codec/link_progress.h"

/* Errors: ERR_STATE no TCP, or a kernel that does not tell. */
enum err socket_progress(int fd, struct link_progress *p) MUST_CHECK;

/* For how long nothing was heard of the peer's host: no data, and no acknowledgement. It is asked when there is nothing to
 * send (keepalive). 0 where that is not known: no TCP, or the peer's process takes nothing (its window is 0), and then
 * its host is asked ever more rarely; two questions without an answer count. */
int64_t socket_silent_ms(int fd);

#endif
