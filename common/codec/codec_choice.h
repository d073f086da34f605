/* `auto`: which codec one sender uses on its links, from what it has measured: the link's bytes/s, and what each codec
 * made of the data and how long it took. Pure: measurements come in as arguments.
 *
 * The time of an element is t(c) = encode + decode + bytes(c) / rate, decode taken to be as long as encode; the codec
 * with the least of it is used, and left only for one that is better by CODEC_CHOICE_GAIN. A codec that is not in use is
 * tried on a sample of a body, which is encoded and not sent: at first each one, then one in turn every
 * CODEC_CHOICE_EVERY bodies, since data change as a model learns. What its bytes alone rule out is not tried. Its time
 * is the least of the last few: a measurement is never too short, and now and then the machine was busy.
 *
 * The rate is learned from raw bodies alone, and where the link held them up: hardly any of one was acknowledged when all
 * of it was written. Otherwise the link is fast: what passes until the answer is the peer's time and the kernel's,
 * and no codec makes it shorter. Smaller bodies do not tell the two apart, so a raw one is sent now and then, less often
 * each time that it was held up. A busy peer may look like a slow link: each time that a link was taken for slow and is
 * not, it takes twice as many windows in a row to believe it again. */
#ifndef GRADWIRE_COMMON_CODEC_CODEC_CHOICE_H
#define GRADWIRE_COMMON_CODEC_CODEC_CHOICE_H

#include "common/codec/codec.h"
#include "common/codec/link_progress.h"

enum {
    CODEC_CHOICE_SAMPLE_ELEMS = 16384, /* about; whole chunks are tried */
    CODEC_CHOICE_EVERY = 64,
    CODEC_CHOICE_WINDOWS = 5,
    CODEC_CHOICE_RAW_SOONEST = 64, /* bodies until raw ones; then 4 times as many each time */
    CODEC_CHOICE_RAW_LATEST = 4096,
    CODEC_CHOICE_ROW_MOST = 8,
    CODEC_CHOICE_WINDOW_BYTES = 256 << 10,
    CODEC_CHOICE_TIMES = 4,
    CODEC_CHOICE_WAITING = 7, /* held up: so many times of it waits as is acknowledged */
};
#define CODEC_CHOICE_GAIN 0.05
#define CODEC_CHOICE_FAST 1e12 /* bytes/s */

struct codec_choice {
    uint32_t may;    /* bit i for codec i */
    enum codec now;  /* the best */
    enum codec body; /* of the last body */
    uint64_t bodies;
    enum codec tried;  /* the last one */
    uint64_t tried_at; /* body */
    struct {
        uint64_t bodies;
        double seconds[CODEC_CHOICE_TIMES]; /* of an element, the last ones */
        double bytes_per_elem;              /* a moving average */
    } of[CODECS];
    uint64_t raw_at,
        raw_every; /* from this body on they go raw, until a window has told the rate */
    uint32_t windows;
    uint32_t row, row_wanted; /* windows in a row that were held up; that make a slow link */
    double window_rate[CODEC_CHOICE_WINDOWS]; /* bytes/s, of the last ones of the row */
};

/* One link's counters when its present window began. Zeroed: a new link. */
struct codec_link {
    struct link_progress began;
    bool held_up, encoded; /* in this window a body was */
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
/* A body is written to one of the sender's links; how it stands at once after. */
void codec_choice_sent(struct codec_choice *c, struct codec_link *l, const struct link_progress *p);
/* How the link stands before the next one. Counters that are smaller than before: it is a new connection. */
void codec_choice_link(struct codec_choice *c, struct codec_link *l, const struct link_progress *p);

/* bytes/s; 0: not known yet; CODEC_CHOICE_FAST: the link holds nothing up. */
double codec_choice_rate(const struct codec_choice *c);

#endif
