/* Changes a training image each time it is drawn, as a function of 64 random bits alone. */
#ifndef GRADWIRE_DATA_AUGMENT_H
#define GRADWIRE_DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "job/job.h"

struct image {
    uint32_t rows, cols, channels; /* channels last */
};

static inline bool augment_any(const struct job_augment *a)
{
    return a->flip || a->crop || a->shift;
}

/* out: (rows, cols, channels) = the image * s: first moved by up to a->shift pixels each way (the border is
 * repeated), then mirrored if a->flip and one bit say so, then cut by a window that is up to a->crop pixels off,
 * with zeros outside the image. Sides are at most JOB_AUGMENT_SIDE_MAX. Thread: any. */
void augment_image(float *out, const uint8_t *in, float s, const struct image *image,
                   const struct job_augment *a, uint64_t bits);

#endif
