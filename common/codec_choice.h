/* `auto`: which codec one sender uses on its links, from what it has measured: the link's bytes/s, and what each codec
 * made of the data and how long it took. Pure: measurements come in as arguments.
 *
 * The time of an element is t(c) = encode + decode + bytes(c) / rate, decode taken to be as long as encode; the codec
 * with the least of it is used, and left only for one that is better by CODEC_CHOICE_GAIN. A codec that is not in use is
 * tried on a sample of a body, which is encoded and not sent: at first each one, then one in turn every
 * CODEC_CHOICE_EVERY bodies, since data change as a model learns. What its bytes alone rule out is not tried. Its time
 * is the least of the last few: a measurement is never too short, and now and then the machine was busy. The rate is the
 * median of the last windows' means over all links. */
#ifndef GRADWIRE_COMMON_CODEC_CHOICE_H
#define GRADWIRE_COMMON_CODEC_CHOICE_H

#include "common/codec.h"

enum {
    CODEC_CHOICE_SAMPLE_ELEMS = 16384, /* about; whole chunks are tried */
    CODEC_CHOICE_EVERY = 64,
    CODEC_CHOICE_WINDOWS = 8,
    CODEC_CHOICE_WINDOW_BYTES = 256 << 10,
    CODEC_CHOICE_TIMES = 4,
};
#define CODEC_CHOICE_GAIN 0.05

struct codec_choice {
    uint32_t may; /* bit i for codec i */
    enum codec now;
    uint64_t bodies;
    enum codec tried; /* the last one */
    uint64_t tried_at; /* body */
    struct {
        uint64_t bodies;
        double seconds[CODEC_CHOICE_TIMES]; /* of an element, the last ones */
        double bytes_per_elem;              /* a moving average */
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
/* A codec to be tried on a sample of that body; RAW: none, or no more. */
enum codec codec_choice_trial(struct codec_choice *c);
/* How many chunks of a run of so many make a sample. */
uint32_t codec_choice_sample(const struct plan *p, uint32_t chunks);
/* What encoding one body, or a sample, came to. Not for RAW. */
void codec_choice_cost(struct codec_choice *c, enum codec codec, uint64_t elems, uint64_t bytes,
                       double seconds);
/* The counters of one of the sender's links since it began (socket_progress): bytes that the peer acknowledged, and the
 * time in which some were on their way. Smaller ones than before: it is a new connection. */
void codec_choice_link(struct codec_choice *c, struct codec_link *l, uint64_t acked_bytes,
                       double busy_s);

/* bytes/s; 0: not known yet. */
double codec_choice_rate(const struct codec_choice *c);

#endif
