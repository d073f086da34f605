/* `auto`: which codec one sender uses on its links, from what it has measured: the link's bytes/s, and what each codec
 * made of the data and how long it took. Pure: measurements come in as arguments.
 *
 * The time of an element is t(c) = encode + decode + bytes(c) / rate, decode taken to be as long as encode; the codec
 * with the least of it is used. Each codec that may be used is tried for CODEC_CHOICE_TRIAL bodies at first, and one of
 * the others again, in turn, every CODEC_CHOICE_EVERY bodies, since data change as a model learns. The rate is the
 * least of the last windows' means over all links: one looks faster than it is while little is sent on it. */
#ifndef GRADWIRE_COMMON_CODEC_CHOICE_H
#define GRADWIRE_COMMON_CODEC_CHOICE_H

#include "common/codec.h"

enum {
    CODEC_CHOICE_TRIAL = 2,
    CODEC_CHOICE_EVERY = 512,
    CODEC_CHOICE_WINDOWS = 8,
    CODEC_CHOICE_WINDOW_BYTES = 1 << 20,
};

struct codec_choice {
    uint32_t may; /* bit i for codec i */
    enum codec now;
    uint64_t bodies;
    uint32_t trial_left;
    enum codec tried; /* the last one */
    struct {
        uint64_t bodies;
        double seconds_per_elem, bytes_per_elem; /* moving averages */
    } of[CODECS];
    uint32_t windows;
    double window_rate[CODEC_CHOICE_WINDOWS]; /* bytes/s, of the last windows */
};

/* One link's counters when its present window began. Zeroed: a new link. */
struct codec_link {
    uint64_t acked_bytes;
    double busy_s;
};

/* `may`: codec_mask. Begins with RAW. */
void codec_choice_init(struct codec_choice *c, uint32_t may);

/* The codec of the next body. */
enum codec codec_choice_next(struct codec_choice *c);
/* What encoding one body came to; bytes: those that travel. Not for RAW. */
void codec_choice_cost(struct codec_choice *c, enum codec codec, uint64_t elems, uint64_t bytes,
                       double seconds);
/* The counters of one of the sender's links since it began (socket_progress): bytes that the peer acknowledged, and the
 * time in which some were on their way. Smaller ones than before: it is a new connection. */
void codec_choice_link(struct codec_choice *c, struct codec_link *l, uint64_t acked_bytes,
                       double busy_s);

/* bytes/s; 0: not known yet. */
double codec_choice_rate(const struct codec_choice *c);

#endif
