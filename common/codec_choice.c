#include "common/codec_choice.h"

#include <stdlib.h>
#include <string.h>

void codec_choice_init(struct codec_choice *c, uint32_t may)
{
    *c = (struct codec_choice){.may = may, .now = CODEC_RAW};
    c->of[CODEC_RAW].bytes_per_elem = sizeof(float);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double codec_choice_rate(const struct codec_choice *c)
{
    uint32_t known = c->windows < CODEC_CHOICE_WINDOWS ? c->windows : CODEC_CHOICE_WINDOWS;
    double sorted[CODEC_CHOICE_WINDOWS];
    if (known == 0)
        return 0;
    memcpy(sorted, c->window_rate, known * sizeof *sorted);
    qsort(sorted, known, sizeof *sorted, by_size);
    return sorted[(known - 1) / 2];
}

static double least_seconds(const struct codec_choice *c, enum codec codec)
{
    uint64_t known = c->of[codec].bodies;
    double least = 0;
    for (uint64_t i = 0; i < known && i < CODEC_CHOICE_TIMES; i++)
        if (i == 0 || c->of[codec].seconds[i] < least)
            least = c->of[codec].seconds[i];
    return least;
}

/* Seconds of an element. */
static double time_of(const struct codec_choice *c, enum codec codec, double rate)
{
    return 2 * least_seconds(c, codec) + c->of[codec].bytes_per_elem / rate;
}

static enum codec best(const struct codec_choice *c, double rate)
{
    enum codec best = c->now;
    double to_beat = time_of(c, best, rate) * (1 - CODEC_CHOICE_GAIN);
    for (int i = CODEC_RAW; i < CODECS; i++) {
        if ((i != CODEC_RAW && !c->of[i].bodies) || time_of(c, (enum codec)i, rate) >= to_beat)
            continue;
        best = (enum codec)i;
        to_beat = time_of(c, best, rate);
    }
    return best;
}

enum codec codec_choice_next(struct codec_choice *c)
{
    double rate = codec_choice_rate(c);
    c->bodies++;
    if (rate > 0) /* nothing can be said before something was sent */
        c->now = best(c, rate);
    return c->now;
}

/* Its bytes alone take longer than what is in use does as a whole. */
static bool is_hopeless(const struct codec_choice *c, enum codec codec)
{
    double rate = codec_choice_rate(c);
    return c->of[codec].bodies && codec_is_sized(codec) && rate > 0 &&
           c->of[codec].bytes_per_elem / rate > time_of(c, c->now, rate);
}

static bool may_be_tried(const struct codec_choice *c, enum codec codec)
{
    return codec != CODEC_RAW && codec != c->now && c->may >> codec & 1;
}

enum codec codec_choice_trial(struct codec_choice *c)
{
    for (int i = CODEC_RAW + 1; i < CODECS; i++)
        if (may_be_tried(c, (enum codec)i) && !c->of[i].bodies)
            return (enum codec)i;
    if (c->bodies % CODEC_CHOICE_EVERY != 0 || c->tried_at == c->bodies)
        return CODEC_RAW;
    c->tried_at = c->bodies;
    for (int step = 1; step <= CODECS; step++) {
        enum codec i = (enum codec)(((int)c->tried + step) % CODECS);
        if (may_be_tried(c, i) && !is_hopeless(c, i))
            return c->tried = i;
    }
    return CODEC_RAW;
}

uint32_t codec_choice_sample(const struct plan *p, uint32_t chunks)
{
    uint32_t most = CODEC_CHOICE_SAMPLE_ELEMS / p->chunk_elems;
    return most < 1 ? 1 : most < chunks ? most : chunks;
}

void codec_choice_cost(struct codec_choice *c, enum codec codec, uint64_t elems, uint64_t bytes,
                       double seconds)
{
    double size = (double)bytes / (double)elems;
    double weight = c->of[codec].bodies ? 0.1 : 1.0;
    c->of[codec].seconds[c->of[codec].bodies % CODEC_CHOICE_TIMES] = seconds / (double)elems;
    c->of[codec].bytes_per_elem += weight * (size - c->of[codec].bytes_per_elem);
    c->of[codec].bodies++;
}

void codec_choice_link(struct codec_choice *c, struct codec_link *l, uint64_t acked_bytes,
                       double busy_s)
{
    bool anew = acked_bytes < l->acked_bytes || busy_s < l->busy_s;
    if (!anew) {
        uint64_t bytes = acked_bytes - l->acked_bytes;
        if (bytes < CODEC_CHOICE_WINDOW_BYTES || busy_s <= l->busy_s)
            return;
        c->window_rate[c->windows++ % CODEC_CHOICE_WINDOWS] = (double)bytes / (busy_s - l->busy_s);
    }
    *l = (struct codec_link){acked_bytes, busy_s};
}
