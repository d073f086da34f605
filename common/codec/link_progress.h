/* The progress of a TCP connection; `auto` chooses a codec by it. */
#ifndef GRADWIRE_COMMON_CODEC_LINK_PROGRESS_H
#define GRADWIRE_COMMON_CODEC_LINK_PROGRESS_H

#include <stdint.h>

/* Totals since the connection was established, from the kernel. */
struct link_progress {
    uint64_t acked_bytes;   /* acknowledged by the peer */
    double busy_s;          /* time with unacknowledged bytes */
    uint64_t waiting_bytes; /* written, but not acknowledged */
};

#endif
