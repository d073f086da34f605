/* What the kernel knows of a connection's pace. */
#ifndef GRADWIRE_COMMON_NET_SOCKET_PROGRESS_H
#define GRADWIRE_COMMON_NET_SOCKET_PROGRESS_H

#include "common/base/err.h"
#include "common/codec/link_progress.h"

/* Errors: ERR_STATE no TCP, or a kernel that does not tell. */
enum err socket_progress(int fd, struct link_progress *p) MUST_CHECK;

#endif
