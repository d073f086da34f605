/* The choice `auto`: a sender picks the codec for its connections from measurements: the connection's bytes/s, and
 * each codec's size and time. Pure: measurements are arguments.
 * Choice: the time of an element is t(c) = encode + decode + bytes(c) / rate, where decode is assumed to take as long
 * as encode. The sender uses the codec with the smallest t, and changes only if the new one is better by
 * CODEC_CHOICE_GAIN.
 * Trials: an unused codec is tried on a sample of a body, which is encoded and not sent. At first each codec is
 * tried, then one of them every CODEC_CHOICE_EVERY bodies, because data change as a model learns. A codec whose bytes
 * alone would take too long is not tried. A codec's time is the smallest of its last few measurements: other load on
 * the host can only make them longer.
 * Rate: it is measured only with raw bodies, and only if the connection held them up: hardly any of the body was
 * acknowledged when all of it was written. Otherwise the connection is fast: the time until the reply is the
 * peer's and the kernel's, and no codec shortens it. Encoded bodies are too small to show the difference, so raw bodies
 * are sent from time to time, less often each time that they were held up. A busy peer can look like a slow
 * connection: each time that a connection was wrongly taken for slow, twice as many windows in a row must be held
 * up before the next such decision. */
#pragma once

#include <stdint.h>

#include "common/codec/codec.h"

/* The progress of a TCP connection, by which `auto` chooses: totals since it was established, from the kernel. */
struct link_progress {
    uint64_t acked_bytes;   /* acknowledged by the peer */
    double busy_s;          /* time with unacknowledged bytes */
    uint64_t waiting_bytes; /* written, but not acknowledged */
};

enum {
    CODEC_CHOICE_SAMPLE_ELEMS = 16384, /* approximate: whole chunks are tried */
    CODEC_CHOICE_EVERY = 64,
    CODEC_CHOICE_WINDOWS = 5,
    /* bodies until raw ones are sent again: at first, and at most; 4 times as many after each time that raw bodies
     * were held up */
    CODEC_CHOICE_RAW_SOONEST = 64,
    CODEC_CHOICE_RAW_LATEST = 4096,
    CODEC_CHOICE_ROW_MOST = 8,
    CODEC_CHOICE_WINDOW_BYTES = 256 << 10,
    CODEC_CHOICE_TIMES = 4,
    /* held up: waiting bytes exceed this many times the acknowledged ones */
    CODEC_CHOICE_WAITING = 7,
};
#define CODEC_CHOICE_GAIN 0.05
#define CODEC_CHOICE_FAST 1e12 /* bytes/s */

struct codec_choice {
    uint32_t may;    /* allowed codecs, bit i for codec i */
    enum codec now;  /* the best codec so far */
    enum codec body; /* codec of the last body */
    uint64_t bodies;
    enum codec tried;  /* the last codec tried */
    uint64_t tried_at; /* in this body */
    struct {
        uint64_t bodies;
        double seconds[CODEC_CHOICE_TIMES]; /* seconds per element, the last measurements */
        double bytes_per_elem;              /* a moving average */
    } of[CODECS];
    /* from body raw_at on, bodies are raw until a window has measured the rate; raw_every: the distance to the next */
    uint64_t raw_at, raw_every;
    uint32_t windows;
    /* consecutive windows that were held up; how many of them make a slow connection */
    uint32_t row, row_wanted;
    double window_rate[CODEC_CHOICE_WINDOWS]; /* bytes/s of the last held-up windows */
};

/* A connection's counters at the start of the present window. Zeroed: a new connection. */
struct codec_link {
    struct link_progress began;
    bool held_up, encoded; /* in this window a body was held up; was encoded */
};

/* `may` is codec_mask's result. The choice starts with RAW. */
void codec_choice_init(struct codec_choice *c, uint32_t may);

/* Returns the codec of the next body. */
enum codec codec_choice_next(struct codec_choice *c);
/* Returns a codec to try on a sample of this body; RAW if there is none to try. */
enum codec codec_choice_trial(struct codec_choice *c);
/* Returns how many chunks of a range of `chunks` make a sample. */
uint32_t codec_choice_sample(const struct plan *p, uint32_t chunks);
/* Records the result of encoding one body or sample. Not for RAW. */
void codec_choice_cost(struct codec_choice *c, enum codec codec, uint64_t elems, uint64_t bytes,
                       double seconds);
/* Call directly after a body was written to one of the sender's connections; `p` is its progress. */
void codec_choice_sent(struct codec_choice *c, struct codec_link *l, const struct link_progress *p);
/* Call before the next body is written; `p` is the connection's progress. Counters smaller than before mean a new
 * connection. */
void codec_choice_link(struct codec_choice *c, struct codec_link *l, const struct link_progress *p);

/* Returns bytes/s; 0 if unknown; CODEC_CHOICE_FAST if the connection holds nothing up. */
double codec_choice_rate(const struct codec_choice *c);
