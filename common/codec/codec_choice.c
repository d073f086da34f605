#include "common/codec/codec_choice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/real.h"

void codec_choice_init(struct codec_choice *c, uint32_t may)
{
    *c = (struct codec_choice){
        .may = may, .now = CODEC_RAW, .row_wanted = 1, .raw_every = CODEC_CHOICE_RAW_SOONEST};
    c->of[CODEC_RAW].bytes_per_elem = sizeof(float);
}

/* Checks that the codec in use was measured and that the adaptive values are within their limits. */
static void check(const struct codec_choice *c)
{
    assert(c->now == CODEC_RAW || (c->may >> c->now & 1 && c->of[c->now].bodies > 0));
    assert(c->tried_at <= c->bodies && c->row <= c->windows);
    assert(c->row_wanted >= 1 && c->row_wanted <= CODEC_CHOICE_ROW_MOST);
    assert(c->raw_every >= CODEC_CHOICE_RAW_SOONEST && c->raw_every <= CODEC_CHOICE_RAW_LATEST);
    (void)c;
}

double codec_choice_rate(const struct codec_choice *c)
{
    uint32_t known = c->row < CODEC_CHOICE_WINDOWS ? c->row : CODEC_CHOICE_WINDOWS;
    double sorted[CODEC_CHOICE_WINDOWS];
    if (c->windows == 0)
        return 0;
    if (c->row < c->row_wanted)
        return CODEC_CHOICE_FAST;
    memcpy(sorted, c->window_rate, known * sizeof *sorted);
    qsort(sorted, known, sizeof *sorted, real_order);
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

/* Seconds per element. */
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
    enum codec before = c->now;
    c->bodies++;
    if (rate > 0) /* unknown until something was sent */
        c->now = best(c, rate);
    if (before == CODEC_RAW && c->now != CODEC_RAW)
        c->raw_at = c->bodies + c->raw_every;
    c->body = c->bodies >= c->raw_at ? CODEC_RAW : c->now;
    check(c);
    return c->body;
}

/* The transfer of its bytes alone takes longer than the total time of the codec in use. */
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
        if (may_be_tried(c, i) && !is_hopeless(c, i)) {
            assert(i != c->now && c->may >> i & 1);
            return c->tried = i;
        }
    }
    return CODEC_RAW;
}

uint32_t codec_choice_sample(const struct plan *p, uint32_t chunks)
{
    uint32_t most = CODEC_CHOICE_SAMPLE_ELEMS / p->chunk_elems;
    uint32_t sample = most < 1 ? 1 : most < chunks ? most : chunks;
    assert(sample == 1 ||
           (sample <= chunks && sample * (uint64_t)p->chunk_elems <= CODEC_CHOICE_SAMPLE_ELEMS));
    assert(sample == chunks || (sample + 1) * (uint64_t)p->chunk_elems > CODEC_CHOICE_SAMPLE_ELEMS);
    return sample;
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

void codec_choice_sent(struct codec_choice *c, struct codec_link *l, const struct link_progress *p)
{
    uint64_t acked =
        p->acked_bytes > l->began.acked_bytes ? p->acked_bytes - l->began.acked_bytes : 0;
    l->held_up = l->held_up || p->waiting_bytes > CODEC_CHOICE_WAITING * acked;
    l->encoded = l->encoded || c->body != CODEC_RAW;
}

static void held_up(struct codec_choice *c, double rate)
{
    c->windows++;
    c->window_rate[c->row++ % CODEC_CHOICE_WINDOWS] = rate;
    if (c->now == CODEC_RAW)
        return;
    if (c->raw_every < CODEC_CHOICE_RAW_LATEST)
        c->raw_every *= 4;
    c->raw_at = c->bodies + c->raw_every;
}

static void not_held_up(struct codec_choice *c)
{
    bool taken_for_slow = c->row >= c->row_wanted;
    c->windows++;
    c->row = 0;
    if (!taken_for_slow)
        return;
    c->raw_every = CODEC_CHOICE_RAW_SOONEST;
    if (c->row_wanted < CODEC_CHOICE_ROW_MOST)
        c->row_wanted *= 2;
}

void codec_choice_link(struct codec_choice *c, struct codec_link *l, const struct link_progress *p)
{
    bool anew = p->acked_bytes < l->began.acked_bytes || p->busy_s < l->began.busy_s;
    uint64_t bytes = anew ? 0 : p->acked_bytes - l->began.acked_bytes;
    double busy_s = p->busy_s - l->began.busy_s;
    if (!anew && bytes < CODEC_CHOICE_WINDOW_BYTES)
        return;
    if (!anew && !l->encoded && l->held_up && busy_s <= 0)
        return; /* the kernel's busy time is coarse: it has not moved yet */
    if (!anew && !l->encoded && l->held_up)
        held_up(c, (double)bytes / busy_s);
    else if (!anew && !l->encoded)
        not_held_up(c);
    check(c);
    *l = (struct codec_link){.began = *p};
}
