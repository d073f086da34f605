/* The kernel's statistics about the progress of a TCP connection. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "common/codec/codec_choice.h"

/* Reads the bytes acknowledged, the busy time, and the bytes that wait. Errors: ERR_STATE not TCP, or the kernel
 * has no such statistics. */
enum err socket_progress(int fd, struct link_progress *p) MUST_CHECK;

/* Returns the ms since the peer's host last sent data or an acknowledgement. Keepalive probes it if there is
 * nothing to send. Returns 0 if unknown: if the socket is not TCP, or if the peer's process reads nothing (window
 * 0) and fewer than two probes are unanswered, because the kernel then probes less and less often. */
int64_t socket_silent_ms(int fd);
