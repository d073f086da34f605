/* What the kernel knows of a connection's pace. */
#ifndef GRADWIRE_COMMON_SOCKET_PROGRESS_H
#define GRADWIRE_COMMON_SOCKET_PROGRESS_H

#include <stdint.h>

#include "common/err.h"

/* A TCP connection since it began, as the kernel tells. */
struct socket_progress {
    uint64_t acked_bytes;   /* that the peer has acknowledged */
    double busy_s;          /* in which some were on their way */
    uint64_t waiting_bytes; /* that were written, and are not acknowledged */
};
/* Errors: ERR_STATE no TCP, or a kernel that does not tell. */
enum err socket_progress(int fd, struct socket_progress *p) MUST_CHECK;

#endif
