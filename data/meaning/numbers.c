/* Sums and scales of many numbers of a row at a time: loops that the compiler makes vectors of, once for each level. */
#include "data/meaning/schema.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"
#include "common/math/simd.h"

/* ---- loops, compiled for each level of vectors ---- */

enum { LANES = 8 }; /* doubles of the widest vector */

/* Of a missing number no comparison is true, and to add 0 changes no sum. */
#define LOOPS(level, target)                                                                       \
    target static void join_##level(double *restrict v, const uint32_t *restrict low,              \
                                    const uint32_t *restrict high, size_t n)                       \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            v[i] = schema_double(low[i], high[i]);                                                 \
    }                                                                                              \
    target static void add_##level(double *restrict count, double *restrict sum,                   \
                                   double *restrict min, double *restrict max,                     \
                                   double *restrict rounding, const double *restrict v, size_t n)  \
    {                                                                                              \
        for (size_t i = 0; i < n / LANES * LANES; i++) {                                           \
            const double off = fabs((double)(float)v[i] - v[i]);                                   \
            rounding[i] = off > rounding[i] ? off : rounding[i];                                   \
            min[i] = schema_pick(v[i] < min[i], v[i], min[i]);                                     \
            max[i] = schema_pick(v[i] > max[i], v[i], max[i]);                                     \
            count[i] += schema_number_or(v[i] - v[i] + 1, 0);                                      \
            sum[i] += schema_number_or(v[i], 0);                                                   \
        }                                                                                          \
    }                                                                                              \
    target static void squares_##level(double *restrict offset, double *restrict squares,          \
                                       const double *restrict mean, const double *restrict v,      \
                                       size_t n)                                                   \
    {                                                                                              \
        for (size_t i = 0; i < n / LANES * LANES; i++) {                                           \
            const double off = schema_number_or(v[i] - mean[i], 0);                                \
            offset[i] += off;                                                                      \
            squares[i] += off * off;                                                               \
        }                                                                                          \
    }                                                                                              \
    target static void divide_##level(uint32_t *restrict cells, const double *restrict v,          \
                                      const double *restrict fill, const double *restrict shift,   \
                                      const double *restrict divisor, size_t n)                    \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double x = schema_number_or(v[i], fill[i]);                                      \
            cells[i] = schema_bits((float)((x - shift[i]) / divisor[i]));                          \
        }                                                                                          \
    }                                                                                              \
    static const struct loops loops_##level = {join_##level, add_##level, squares_##level,         \
                                               divide_##level};

struct loops {
    void (*join)(double *v, const uint32_t *low, const uint32_t *high, size_t n);
    void (*add)(double *count, double *sum, double *min, double *max, double *rounding,
                const double *v, size_t n);
    void (*squares)(double *offset, double *squares, const double *mean, const double *v, size_t n);
    void (*divide)(uint32_t *cells, const double *v, const double *fill, const double *shift,
                   const double *divisor, size_t n);
};

LOOPS(base, )
#if SIMD_X86
LOOPS(avx2, __attribute__((target("avx2"))))
LOOPS(avx512, __attribute__((target("avx512f,avx512dq,avx512vl"))))
#endif

static const struct loops *loops(void)
{
#if SIMD_X86
    if (kernels() == &kernels_avx512)
        return &loops_avx512;
    if (kernels() == &kernels_avx2)
        return &loops_avx2;
#endif
    return &loops_base;
}

/* ---- rows ---- */

static bool is_divided(const struct schema_input *in)
{
    return in->bucketing == BUCKETS_NONE && in->scale != SCALE_LOG1P && in->scale != SCALE_LOG2;
}

static bool goes_on(const struct numbers_run *r, const struct schema_input *in)
{
    return r->is_divided == is_divided(in) && in->wide == (r->wide ? r->wide + r->n : 0);
}

static void add_runs(struct numbers *x, const struct table_schema *s)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        struct numbers_run *r = x->runs ? &x->run[x->runs - 1] : NULL;
        if (in->kind != COLUMN_NUMBER)
            continue;
        if (r && r->first + r->n == i && goes_on(r, in))
            r->n++;
        else
            x->run[x->runs++] = (struct numbers_run){i, 1, in->wide, is_divided(in)};
        x->fill[i] = in->fill;
        x->shift[i] = in->scale == SCALE_NONE ? 0 : in->shift;
        x->divisor[i] = in->scale == SCALE_NONE ? 1 : in->divisor;
    }
}

enum err numbers_init(struct numbers *x, const struct table_schema *s)
{
    *x = (struct numbers){.inputs = s->inputs,
                          .run = mem_zalloc(s->inputs, sizeof *x->run),
                          .fill = mem_zalloc(s->inputs, sizeof *x->fill),
                          .shift = mem_zalloc(s->inputs, sizeof *x->shift),
                          .divisor = mem_zalloc(s->inputs, sizeof *x->divisor)};
    if (!x->run || !x->fill || !x->shift || !x->divisor) {
        numbers_close(x);
        return ERR_NOMEM;
    }
    add_runs(x, s);
    return ERR_OK;
}

void numbers_close(struct numbers *x)
{
    mem_free(x->run);
    mem_free(x->fill);
    mem_free(x->shift);
    mem_free(x->divisor);
    *x = (struct numbers){0};
}

void numbers_read(const struct numbers *x, const uint32_t *cells, const uint32_t *high, double *v)
{
    for (const struct numbers_run *r = x->run; r < x->run + x->runs; r++)
        if (r->wide)
            loops()->join(v + r->first, cells + r->first, high + r->wide - 1, r->n);
        else
            for (uint32_t i = r->first; i < r->first + r->n; i++)
                v[i] = (double)schema_float(cells[i]);
}

uint32_t numbers_padded(uint32_t inputs)
{
    return (inputs + LANES - 1) / LANES * LANES;
}

/* One of the arrays. */
static double *moments_of(double *moments, uint32_t inputs, enum numbers_moment which)
{
    return moments + (size_t)numbers_padded(inputs) * which;
}

void numbers_begin(double *moments, uint32_t inputs)
{
    for (uint32_t i = 0; i < numbers_padded(inputs); i++) {
        moments_of(moments, inputs, MOMENT_COUNT)[i] = moments_of(moments, inputs, MOMENT_SUM)[i] =
            0;
        moments_of(moments, inputs, MOMENT_MIN)[i] = INFINITY;
        moments_of(moments, inputs, MOMENT_MAX)[i] = -INFINITY;
        moments_of(moments, inputs, MOMENT_ROUNDING)[i] = 0;
    }
    numbers_begin_squares(moments, inputs);
}

void numbers_begin_squares(double *moments, uint32_t inputs)
{
    for (uint32_t i = 0; i < numbers_padded(inputs); i++)
        moments_of(moments, inputs, MOMENT_OFFSET)[i] =
            moments_of(moments, inputs, MOMENT_SQUARES)[i] = 0;
}

struct number_moments numbers_moments(const double *moments, uint32_t inputs, uint32_t input)
{
    double v[MOMENTS];
    for (size_t k = 0; k < MOMENTS; k++)
        v[k] = moments[k * numbers_padded(inputs) + input];
    return (struct number_moments){.count = v[MOMENT_COUNT],
                                   .sum = v[MOMENT_SUM],
                                   .offset = v[MOMENT_OFFSET],
                                   .squares = v[MOMENT_SQUARES],
                                   .min = v[MOMENT_MIN],
                                   .max = v[MOMENT_MAX],
                                   .rounding = v[MOMENT_ROUNDING]};
}

void numbers_add(double *moments, const double *v, uint32_t inputs)
{
    loops()->add(moments_of(moments, inputs, MOMENT_COUNT), moments_of(moments, inputs, MOMENT_SUM),
                 moments_of(moments, inputs, MOMENT_MIN), moments_of(moments, inputs, MOMENT_MAX),
                 moments_of(moments, inputs, MOMENT_ROUNDING), v, numbers_padded(inputs));
}

void numbers_add_squares(double *moments, const double *mean, const double *v, uint32_t inputs)
{
    loops()->squares(moments_of(moments, inputs, MOMENT_OFFSET),
                     moments_of(moments, inputs, MOMENT_SQUARES), mean, v, numbers_padded(inputs));
}

void numbers_scale(const struct numbers *x, const struct table_schema *s, uint32_t *cells,
                   double *v)
{
    numbers_read(x, cells, schema_high_cells(s, cells), v);
    for (const struct numbers_run *r = x->run; r < x->run + x->runs; r++) {
        const uint32_t i = r->first;
        if (r->is_divided)
            loops()->divide(cells + i, v + i, x->fill + i, x->shift + i, x->divisor + i, r->n);
        else
            for (uint32_t k = i; k < i + r->n; k++)
                cells[k] = schema_scaled_cell(&s->input[k], v[k]);
    }
}
