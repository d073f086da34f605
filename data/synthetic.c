/* Synthetic digits, 28 x 28: strokes of each digit under a random affine map, with jitter, width, ink, stray strokes
 * and noise. Only integer arithmetic, so the bytes are the same on every machine. A row is a function of (part,
 * row), not of the job's seed: all seeds train on the same data.
 *
 * They are hard enough to tell a network from a linear model. Test accuracy, measured on 60,000 + 10,000 rows:
 * logistic regression 0.840 to 0.854 (Adam, 10 to 15 epochs; scikit-learn's L-BFGS 0.852); 784-128(relu)-dropout
 * 0.2-10, Adam 1e-3, batch 64: 0.937 after 1 epoch, 0.981 after 3, 0.990 after 10. tests/train/synthetic_test.c
 * repeats it. A row takes about 2.5 us. */
#include "data/readers.h"

#include <string.h>

#include "common/base/rng.h"

enum {
    SIDE = 28,
    DIGITS = 10,
    BORDER = 8, /* around the picture, so that a brush never needs clipping */
    CANVAS_ROWS = SIDE + 2 * BORDER,
    CANVAS_COLS = 48, /* at least CANVAS_ROWS, a multiple of 8 */
    BRUSH = 8,        /* side of a brush */
    WIDTHS = 8,
    SUB = 4,              /* brushes by width, and by position within a pixel */
    PX = 256,             /* one pixel, in the unit of all positions */
    ONE = 4096,           /* 1.0 in the affine map */
    PIXELS_PER_UNIT = 34, /* one unit of the glyphs, in 1/PX of a pixel */
    TURN = 16,            /* number of steps in a full turn of an arc */
    VARIANTS = 2,
    STROKES_MAX = 3,
};

/* ---- the digits: x to the right, y down, about -45 to 45 by -65 to 65; arcs turn from right to down ---- */
struct stroke {
    enum { END, LINE, ARC } kind;
    int8_t a, b, c, d; /* LINE from (a, b) to (c, d); ARC centre (a, b), radii c, d */
    int8_t from, to;   /* ARC, in steps of 1 / TURN */
};

static const struct stroke glyphs[DIGITS][VARIANTS][STROKES_MAX] = {
    {{{ARC, 0, 0, 40, 65, 0, 16}}, /* 0 */
     {{ARC, 0, 0, 32, 62, 0, 16}}},
    {{{LINE, 0, -65, 0, 65, 0, 0}}, /* 1 */
     {{LINE, 3, -65, 3, 65, 0, 0}, {LINE, 3, -65, -22, -40, 0, 0}}},
    {{{ARC, 0, -30, 38, 35, 8, 18},
      {LINE, 27, -5, -40, 65, 0, 0},
      {LINE, -40, 65, 42, 65, 0, 0}}, /* 2 */
     {{ARC, 0, -30, 36, 34, 9, 19}, {LINE, 14, 0, -38, 60, 0, 0}, {LINE, -38, 60, 44, 56, 0, 0}}},
    {{{ARC, 0, -32, 36, 33, 9, 20}, {ARC, 0, 33, 40, 33, 12, 23}}, /* 3 */
     {{ARC, -4, -32, 38, 31, 10, 20}, {ARC, -4, 32, 42, 34, 12, 22}}},
    {{{LINE, 18, -65, -45, 20, 0, 0},
      {LINE, -45, 20, 48, 20, 0, 0},
      {LINE, 18, -65, 18, 65, 0, 0}}, /* 4 */
     {{LINE, -34, -60, -40, 8, 0, 0}, {LINE, -40, 8, 44, 8, 0, 0}, {LINE, 26, -60, 22, 65, 0, 0}}},
    {{{LINE, 38, -63, -30, -63, 0, 0},
      {LINE, -30, -63, -33, -4, 0, 0},
      {ARC, -2, 25, 42, 40, 10, 23}}, /* 5 */
     {{LINE, 40, -60, -28, -63, 0, 0},
      {LINE, -28, -63, -34, -12, 0, 0},
      {ARC, -8, 25, 44, 40, 11, 22}}},
    {{{ARC, 25, 8, 62, 73, 8, 12}, {ARC, 0, 28, 37, 37, 0, 16}}, /* 6 */
     {{LINE, 12, -65, -34, 15, 0, 0}, {ARC, 0, 30, 36, 34, 0, 16}}},
    {{{LINE, -40, -62, 42, -62, 0, 0}, {LINE, 42, -62, -8, 65, 0, 0}}, /* 7 */
     {{LINE, -40, -62, 42, -62, 0, 0}, {LINE, 42, -62, -8, 65, 0, 0}, {LINE, -20, 2, 34, 2, 0, 0}}},
    {{{ARC, 0, -32, 32, 32, 0, 16}, {ARC, 0, 32, 39, 34, 0, 16}}, /* 8 */
     {{ARC, 4, -34, 30, 30, 0, 16}, {ARC, -4, 30, 34, 36, 0, 16}}},
    {{{ARC, 0, -28, 37, 36, 0, 16}, {LINE, 36, -28, 26, 65, 0, 0}}, /* 9 */
     {{ARC, 0, -28, 36, 35, 0, 16}, {ARC, -25, -8, 61, 73, 0, 4}}},
};

/* 256 * cos of k / TURN of a turn; sin lags by TURN / 4 steps. */
static const int16_t cosines[TURN] = {256,  237,  181,  98,  0, -98, -181, -237,
                                      -256, -237, -181, -98, 0, 98,  181,  237};

/* ---- random numbers: 16 bits at a time from the row's own stream ---- */
struct chance {
    uint64_t key, position, bits;
    unsigned left; /* unused 16-bit words in bits */
};

/* Uniform in [low, high]. */
static int32_t between(struct chance *c, int32_t low, int32_t high)
{
    if (c->left == 0) {
        c->bits = rng_u64(c->key, c->position++);
        c->left = 4;
    }
    uint32_t word = (uint32_t)(c->bits & 0xFFFF);
    c->bits >>= 16;
    c->left--;
    return low + (int32_t)((word * (uint32_t)(high - low + 1)) >> 16);
}

/* ---- brushes: discs with a soft edge, by width and position within a pixel ---- */
struct brushes {
    uint8_t ink[WIDTHS][SUB][SUB][BRUSH][BRUSH]; /* (width, y / SUB, x / SUB, row, column) */
};

static int32_t root(int32_t n)
{
    int32_t r = 0;
    for (int32_t bit = 1 << 14; bit; bit >>= 1)
        if ((r + bit) * (r + bit) <= n)
            r += bit;
    return r;
}

static uint8_t soft_disc(int32_t dx, int32_t dy, int32_t radius)
{
    int32_t ink = radius + PX / 2 - root(dx * dx + dy * dy);
    return (uint8_t)(ink < 0 ? 0 : ink > 255 ? 255 : ink);
}

static void brushes_init(struct brushes *b)
{
    enum { THINNEST = 140, STEP = 36, MIDDLE = (BRUSH / 2 - 1) * PX };
    for (int32_t w = 0; w < WIDTHS; w++)
        for (int32_t sy = 0; sy < SUB; sy++)
            for (int32_t sx = 0; sx < SUB; sx++)
                for (int32_t y = 0; y < BRUSH; y++)
                    for (int32_t x = 0; x < BRUSH; x++)
                        b->ink[w][sy][sx][y][x] =
                            soft_disc(x * PX - MIDDLE - sx * PX / SUB,
                                      y * PX - MIDDLE - sy * PX / SUB, THINNEST + STEP * w);
}

/* ---- drawing ---- */
struct pen {
    uint8_t canvas[CANVAS_ROWS][CANVAS_COLS];
    const struct brushes *brushes;
    int32_t width;          /* of the brush */
    int32_t xx, xy, yx, yy; /* the affine map, 1 / ONE */
    int32_t x0, y0;         /* position of the glyph's origin, 1 / PX */
};

struct point {
    int32_t x, y; /* in 1 / PX of a pixel of the canvas */
};

static int32_t clamp(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}

static void dab(struct pen *p, int32_t x, int32_t y)
{
    x = clamp(x, BRUSH / 2 * PX, (CANVAS_ROWS - BRUSH / 2) * PX - 1);
    y = clamp(y, BRUSH / 2 * PX, (CANVAS_ROWS - BRUSH / 2) * PX - 1);
    const uint8_t(*ink)[BRUSH] =
        p->brushes->ink[p->width][y % PX / (PX / SUB)][x % PX / (PX / SUB)];
    uint8_t *to = &p->canvas[y / PX - (BRUSH / 2 - 1)][x / PX - (BRUSH / 2 - 1)];
    for (int r = 0; r < BRUSH; r++, to += CANVAS_COLS)
        for (int c = 0; c < BRUSH; c++)
            to[c] = to[c] > ink[r][c] ? to[c] : ink[r][c];
}

/* Dabs at most half a pixel apart on each axis. */
static void draw_line(struct pen *p, struct point a, struct point b)
{
    int32_t dx = b.x - a.x, dy = b.y - a.y;
    int32_t far = dx < 0 ? -dx : dx, other = dy < 0 ? -dy : dy;
    int32_t steps = (far > other ? far : other) / (PX / 2) + 1;
    int32_t step_x = dx * 64 / steps, step_y = dy * 64 / steps; /* 1 / 64 of a position */
    for (int32_t i = 0; i <= steps; i++)
        dab(p, a.x + step_x * i / 64, a.y + step_y * i / 64);
}

static struct point place(const struct pen *p, int32_t x, int32_t y)
{
    return (struct point){p->x0 + (p->xx * x + p->xy * y) / ONE,
                          p->y0 + (p->yx * x + p->yy * y) / ONE};
}

static void draw_stroke(struct pen *p, const struct stroke *s, struct chance *c)
{
    enum { JITTER = 6 };
    int32_t v[4] = {s->a, s->b, s->c, s->d};
    for (int i = 0; i < 4; i++)
        v[i] = (v[i] + between(c, -JITTER, JITTER)) * PIXELS_PER_UNIT;
    if (s->kind == LINE) {
        draw_line(p, place(p, v[0], v[1]), place(p, v[2], v[3]));
        return;
    }
    struct point last = {0, 0};
    for (int k = s->from; k <= s->to; k++) {
        int32_t x = v[2] * cosines[k % TURN] / 256,
                y = v[3] * cosines[(k + TURN - TURN / 4) % TURN] / 256;
        struct point next = place(p, v[0] + x, v[1] + y);
        if (k > s->from)
            draw_line(p, last, next);
        last = next;
    }
}

/* Rotation (by the first terms of sine and cosine) x shear x scale, and a shift. */
static void pen_take(struct pen *p, struct chance *c)
{
    enum { ANGLE = 1100, SHEAR = 1200, SMALL = 2900, LARGE = 4500, SHIFT = 9 * PX / 4 };
    int32_t angle = between(c, -ANGLE, ANGLE), shear = between(c, -SHEAR, SHEAR);
    int32_t wide = between(c, SMALL, LARGE), high = between(c, SMALL, LARGE);
    int32_t square = angle * angle / ONE;
    int32_t cosine = ONE - square / 2, sine = angle - square * angle / ONE / 6;
    p->xx = cosine * wide / ONE;
    p->yx = sine * wide / ONE;
    p->xy = (cosine * shear / ONE - sine) * high / ONE;
    p->yy = (sine * shear / ONE + cosine) * high / ONE;
    p->x0 = CANVAS_ROWS * PX / 2 + between(c, -SHIFT, SHIFT);
    p->y0 = CANVAS_ROWS * PX / 2 + between(c, -SHIFT, SHIFT);
    p->width = between(c, 1, WIDTHS - 1);
}

static struct point anywhere(struct chance *c)
{
    return (struct point){between(c, BORDER * PX, (BORDER + SIDE) * PX),
                          between(c, BORDER * PX, (BORDER + SIDE) * PX)};
}

static void draw_strays(struct pen *p, struct chance *c)
{
    enum { STRAYS = 2, LENGTH = 6 * PX };
    p->width = 0;
    for (int32_t n = between(c, 0, STRAYS); n > 0; n--) {
        struct point a = anywhere(c);
        draw_line(
            p, a,
            (struct point){a.x + between(c, -LENGTH, LENGTH), a.y + between(c, -LENGTH, LENGTH)});
    }
}

/* Copy the middle of the canvas to the picture: out = canvas * ink + noise below `noise`. */
static void develop(const struct pen *p, uint8_t *out, struct chance *c)
{
    enum { FAINT = 130, GRAIN = 80 };
    uint32_t ink = (uint32_t)between(c, FAINT, 256), noise = (uint32_t)between(c, 0, GRAIN);
    uint8_t grain[SIDE * SIDE];
    for (size_t i = 0; i < sizeof grain; i += 8) {
        uint64_t bits = rng_u64(c->key, c->position++);
        memcpy(grain + i, &bits, 8); /* little-endian, like all supported machines */
    }
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            uint32_t v =
                (p->canvas[BORDER + y][BORDER + x] * ink + grain[y * SIDE + x] * noise) >> 8;
            out[y * SIDE + x] = (uint8_t)(v > 255 ? 255 : v);
        }
}

/* Draw one row: the picture to `out` (SIDE, SIDE); returns its digit. */
static uint8_t draw(const struct brushes *b, uint64_t key, uint8_t *out)
{
    struct chance c = {.key = key};
    struct pen p;
    memset(p.canvas, 0, sizeof p.canvas);
    p.brushes = b;
    int32_t digit = between(&c, 0, DIGITS - 1);
    const struct stroke *s = glyphs[digit][between(&c, 0, VARIANTS - 1)];
    pen_take(&p, &c);
    for (int i = 0; i < STROKES_MAX && s[i].kind != END; i++)
        draw_stroke(&p, &s[i], &c);
    draw_strays(&p, &c);
    develop(&p, out, &c);
    return (uint8_t)digit;
}

static enum err digits_load(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    static const uint32_t shape[] = {SIDE, SIDE};
    uint32_t rows = r->eval ? r->job->data.synthetic_eval_rows : r->job->data.synthetic_train_rows;
    if (r->classes && r->classes < DIGITS)
        return err_set(e, ERR_INPUT, "synthetic digits have %d classes, the model has %u", DIGITS,
                       r->classes);
    enum err err = dataset_alloc(d, r, "data.format: synthetic", rows, 2, shape, e);
    if (err || r->look)
        return err;
    struct brushes brushes;
    brushes_init(&brushes);
    for (uint64_t row = 0; row < rows; row++)
        d->labels[row] = draw(&brushes, rng_key(0, RNG_SYNTHETIC, (uint64_t)r->eval, row),
                              d->x + row * d->features);
    contents_file(&d->contents, "data.synthetic");
    contents_add(&d->contents, d->x, (size_t)rows * d->features);
    contents_add(&d->contents, d->labels, rows);
    contents_count(&d->contents, (uint64_t)rows * (d->features + 1));
    return ERR_OK;
}

/* Other rows are made as text. */
static enum err synthetic_load(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    return job_reads_csv(r->job) ? reader_csv.load(d, r, e) : digits_load(d, r, e);
}

const struct reader_type reader_synthetic = {.load = synthetic_load};
