/* How far a connection has come: what `auto` chooses a codec by. */
#ifndef GRADWIRE_COMMON_CODEC_LINK_PROGRESS_H
#define GRADWIRE_COMMON_CODEC_LINK_PROGRESS_H

#include <stdint.h>

/* A connection since it began, as the kernel tells. */
struct link_progress {
    uint64_t acked_bytes;   /* that the peer has acknowledged */
    double busy_s;          /* in which some were on their way */
    uint64_t waiting_bytes; /* that were written, and are not acknowledged */
};

#endif
