#include "common/codec_choice.h"

void codec_choice_init(struct codec_choice *c, uint32_t may)
{
    *c = (struct codec_choice){.may = may, .now = CODEC_RAW};
    c->of[CODEC_RAW].bytes_per_elem = sizeof(float);
}

double codec_choice_rate(const struct codec_choice *c)
{
    double least = 0;
    uint32_t known = c->windows < CODEC_CHOICE_WINDOWS ? c->windows : CODEC_CHOICE_WINDOWS;
    for (uint32_t i = 0; i < known; i++)
        if (i == 0 || c->window_rate[i] < least)
            least = c->window_rate[i];
    return least;
}

/* Seconds of an element. */
static double time_of(const struct codec_choice *c, enum codec codec, double rate)
{
    return 2 * c->of[codec].seconds_per_elem + c->of[codec].bytes_per_elem / rate;
}

static enum codec best(const struct codec_choice *c, double rate)
{
    enum codec best = CODEC_RAW;
    for (int i = CODEC_RAW + 1; i < CODECS; i++)
        if (c->of[i].bodies && time_of(c, (enum codec)i, rate) < time_of(c, best, rate))
            best = (enum codec)i;
    return best;
}

/* The next one in turn that is not in use; CODEC_RAW where there is none. */
static enum codec next_trial(const struct codec_choice *c, bool only_new)
{
    for (int step = 1; step <= CODECS; step++) {
        enum codec i = (enum codec)(((int)c->tried + step) % CODECS);
        if (i != CODEC_RAW && i != c->now && c->may >> i & 1 && !(only_new && c->of[i].bodies))
            return i;
    }
    return CODEC_RAW;
}

enum codec codec_choice_next(struct codec_choice *c)
{
    double rate = codec_choice_rate(c);
    c->bodies++;
    if (c->trial_left) {
        c->trial_left--;
        return c->tried;
    }
    if (rate <= 0)
        return CODEC_RAW; /* nothing can be said before something was sent */
    c->now = best(c, rate);
    enum codec trial = next_trial(c, c->bodies % CODEC_CHOICE_EVERY != 0);
    if (trial == CODEC_RAW)
        return c->now;
    c->tried = trial;
    c->trial_left = CODEC_CHOICE_TRIAL - 1;
    return trial;
}

void codec_choice_cost(struct codec_choice *c, enum codec codec, uint64_t elems, uint64_t bytes,
                       double seconds)
{
    double per = seconds / (double)elems, size = (double)bytes / (double)elems;
    double weight = c->of[codec].bodies ? 0.1 : 1.0;
    c->of[codec].seconds_per_elem += weight * (per - c->of[codec].seconds_per_elem);
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
