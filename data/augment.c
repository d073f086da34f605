#include "data/augment.h"

#include <assert.h>
#include <string.h>

enum { NOTHING = -1 }; /* a pixel outside of the image */

/* Uniform in -most to most, from 15 bits. */
static int32_t offset_of(uint64_t bits, uint32_t most)
{
    return (int32_t)(((bits & 0x7FFF) * (2 * most + 1)) >> 15) - (int32_t)most;
}

/* The source of each pixel of a side, or NOTHING. */
static void side_map(int32_t *from, uint32_t side, int32_t window, int32_t shift, bool mirrored)
{
    int32_t last = (int32_t)side - 1;
    for (int32_t i = 0; i <= last; i++) {
        int32_t at = i + window;
        if (at < 0 || at > last) {
            from[i] = NOTHING;
            continue;
        }
        at = (mirrored ? last - at : at) + shift;
        from[i] = at < 0 ? 0 : at > last ? last : at;
    }
}

static void copy_line(float *out, const uint8_t *in, float s, const int32_t *from,
                      const struct image *image)
{
    uint32_t channels = image->channels;
    for (uint32_t i = 0; i < image->cols; i++, out += channels) {
        if (from[i] == NOTHING) {
            memset(out, 0, channels * sizeof *out);
            continue;
        }
        const uint8_t *pixel = in + (size_t)from[i] * channels;
        for (uint32_t c = 0; c < channels; c++)
            out[c] = (float)pixel[c] * s;
    }
}

void augment_image(float *out, const uint8_t *in, float s, const struct image *image,
                   const struct job_augment *a, uint64_t bits)
{
    int32_t row[JOB_AUGMENT_SIDE_MAX], col[JOB_AUGMENT_SIDE_MAX];
    size_t line = (size_t)image->cols * image->channels;
    assert(image->rows <= JOB_AUGMENT_SIDE_MAX && image->cols <= JOB_AUGMENT_SIDE_MAX);
    bool mirrored = a->flip == FLIP_HORIZONTAL && bits >> 63;
    side_map(row, image->rows, offset_of(bits, a->crop), offset_of(bits >> 15, a->shift), false);
    side_map(col, image->cols, offset_of(bits >> 30, a->crop), offset_of(bits >> 45, a->shift),
             mirrored);
    for (uint32_t i = 0; i < image->rows; i++) {
        if (row[i] == NOTHING)
            memset(out + i * line, 0, line * sizeof *out);
        else
            copy_line(out + i * line, in + (size_t)row[i] * line, s, col, image);
    }
}
