/* The time that a job has left, from the steps that this process has seen since training began. Pure.
 *
 * The time of a step is a mean over the run, in which a later step weighs more (by the square of its time): so the slow
 * first steps count little. Steps are measured in windows of a twentieth of the time so far. A window in which training
 * waited (more than ETA_CLIP times the mean) counts as one of that length. ETA_TURN windows in a row that are slower, or
 * faster, than the mean show that the rate has changed: the mean then begins with them.
 *
 * In sync all workers wait at the end of an epoch, for its evaluation and best checkpoint. This time is measured apart
 * and counts once for each epoch that remains, as soon as one such wait was seen. Its mean is clipped in the same way, and
 * begins again after two waits in a row that are longer than that. In the other modes nobody waits.
 * Reading the data, earlier runs and earlier chiefs do not count. Early stopping can end the job sooner. */
#ifndef GRADWIRE_WORKER_CONTROL_ETA_H
#define GRADWIRE_WORKER_CONTROL_ETA_H

#include <stdbool.h>
#include <stdint.h>

enum { ETA_CLIP = 2, ETA_TURN = 3 };

struct eta_span {
    double steps, seconds;
};

/* All zeros: nothing was seen yet. */
struct eta {
    bool all_wait; /* sync: at the end of an epoch */
    bool began;
    uint64_t first, position; /* steps of the job before the first step that was seen, and now */
    uint64_t epoch;           /* of the last step, from 1 */
    double now_s;             /* of the last step */
    double trained_s;         /* time in windows */
    struct eta_span window;   /* the open one */
    struct eta_span turned[ETA_TURN]; /* the last windows that differ, all in the same direction */
    uint32_t turns;
    bool slower;          /* their direction */
    struct eta_span mean; /* weighted */
    uint32_t pauses;      /* ends of epochs */
    double pause_s;       /* one of them, with the next step */
    double long_s; /* the last one, if it was more than ETA_CLIP times longer; 0: it was not */
};

/* The position of a step: in its epoch of `epochs`, both from 1, which has `steps`. */
struct eta_place {
    uint64_t epoch, epochs, step, steps;
};

/* A step of the job was made. */
void eta_step(struct eta *t, const struct eta_place *at, double now_s);
/* Seconds from the step at `at` to the end of the last epoch and of its evaluation; NAN: not known yet. */
double eta_left_s(const struct eta *t, const struct eta_place *at);
/* Less than a twentieth of this run's steps are made: the time left is a first guess. */
bool eta_is_early(const struct eta *t, const struct eta_place *at);

#endif
