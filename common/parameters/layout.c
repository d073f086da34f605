#include "common/parameters/layout.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/real.h"
#include "common/base/rng.h"

#define BLOCK_ELEMS_MAX (UINT64_C(1) << 40)

static enum err count_elems(const struct tensor *t, uint64_t *elems, struct errmsg *e)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->shape[i] == 0 || __builtin_mul_overflow(n, t->shape[i], &n) || n > BLOCK_ELEMS_MAX)
            return err_set(e, ERR_INPUT,
                           "%s: a dimension is 0, or the tensor has more than 2^40 elements",
                           t->name);
    *elems = n;
    return ERR_OK;
}

static uint64_t round_up(uint64_t elems)
{
    return (elems + LAYOUT_ALIGN_ELEMS - 1) / LAYOUT_ALIGN_ELEMS * LAYOUT_ALIGN_ELEMS;
}

enum err layout_add(struct layout *l, const struct tensor *t, struct errmsg *e)
{
    uint64_t elems = 0;
    enum err code = count_elems(t, &elems, e);
    if (code)
        return code;
    if (l->elems + round_up(elems) > BLOCK_ELEMS_MAX)
        return err_set(e, ERR_INPUT, "%s: with this tensor the model has more than 2^40 parameters",
                       t->name);
    struct tensor *grown = mem_resize(l->tensor, l->tensors + 1, sizeof *grown);
    if (!grown)
        return err_memory_of(e, t->name);
    l->tensor = grown;
    grown[l->tensors] = *t;
    grown[l->tensors].offset_elems = l->elems;
    grown[l->tensors].elems = elems;
    l->tensors++;
    l->elems += round_up(elems);
    assert(l->elems % LAYOUT_ALIGN_ELEMS == 0 &&
           grown[l->tensors - 1].offset_elems % LAYOUT_ALIGN_ELEMS == 0);
    assert(l->elems - grown[l->tensors - 1].offset_elems - elems < LAYOUT_ALIGN_ELEMS);
    return ERR_OK;
}

void layout_close(struct layout *l)
{
    mem_free(l->tensor);
    mem_free(l->rows);
    memset(l, 0, sizeof *l);
}

const struct tensor *layout_weight(const struct layout *l, const char *layer, const char *what)
{
    char name[TENSOR_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s/%s", layer, what);
    for (uint32_t i = 0; i < l->tensors; i++)
        if (strcmp(l->tensor[i].name, name) == 0)
            return &l->tensor[i];
    return NULL;
}

bool layout_name_has_part(const char *name, const char *parts)
{
    for (size_t n; *parts; parts += n + (parts[n] == ',')) {
        n = strcspn(parts, ",");
        if (n && memmem(name, strlen(name), parts, n))
            return true;
    }
    return false;
}

void layout_exclude_from_decay(struct layout *l, const char *parts)
{
    for (uint32_t i = 0; i < l->tensors; i++)
        l->tensor[i].undecayed =
            l->tensor[i].role == TENSOR_WEIGHT && layout_name_has_part(l->tensor[i].name, parts);
}

uint64_t layout_end(const struct layout *l, uint32_t i)
{
    return i + 1 < l->tensors ? l->tensor[i + 1].offset_elems : l->elems;
}

uint32_t layout_find(const struct layout *l, uint64_t at)
{
    uint32_t low = 0, high = l->tensors;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (l->tensor[middle].offset_elems <= at)
            low = middle;
        else
            high = middle;
    }
    assert(l->tensor[low].offset_elems <= at && at < layout_end(l, low));
    return low;
}

/* As in Keras: the fans are the last two dimensions, multiplied by the product of the dimensions before them (a
 * kernel's taps). A vector's length is both fans (keras/src/initializers/random_initializers.py, compute_fans). */
static void fans_of(const struct tensor *t, double *in, double *out)
{
    double taps = 1.0;
    for (uint32_t i = 0; i + 2 < t->rank; i++)
        taps *= t->shape[i];
    *in = t->rank < 2 ? t->shape[0] : taps * t->shape[t->rank - 2];
    *out = taps * t->shape[t->rank - 1];
}

/* The standard deviation of a standard normal truncated at +-2. Keras divides by it if the deviation comes from
 * fans (VarianceScaling). */
#define TRUNCATED_STDDEV 0.87962566103423978

float layout_init_scale(enum init_kind kind, const struct tensor *t)
{
    double in, out;
    fans_of(t, &in, &out);
    switch (kind) {
    case INIT_GLOROT_UNIFORM:
        return (float)sqrt(6.0 / (in + out));
    case INIT_HE_UNIFORM:
        return (float)sqrt(6.0 / in);
    case INIT_LECUN_UNIFORM:
        return (float)sqrt(3.0 / in);
    case INIT_GLOROT_NORMAL:
        return (float)(sqrt(2.0 / (in + out)) / TRUNCATED_STDDEV);
    case INIT_HE_NORMAL:
        return (float)(sqrt(2.0 / in) / TRUNCATED_STDDEV);
    case INIT_LECUN_NORMAL:
        return (float)(sqrt(1.0 / in) / TRUNCATED_STDDEV);
    case INIT_ZEROS:
    case INIT_ONES:
    case INIT_CONSTANT:
    case INIT_RANDOM_NORMAL:
    case INIT_RANDOM_UNIFORM:
    case INIT_TRUNCATED_NORMAL:
        break;
    }
    return 0.0f;
}

/* The probability that a standard normal variable is below -2. */
#define BELOW_TWO_STDDEVS 0.022750131948179207

static float normal(uint64_t key, uint64_t position, bool truncated)
{
    double u = ((double)(rng_u64(key, position) >> 12) + 0.5) * 0x1p-52;
    if (truncated)
        u = BELOW_TWO_STDDEVS + u * (1.0 - 2.0 * BELOW_TWO_STDDEVS);
    return (float)normal_quantile(u);
}

float init_draw(enum init_kind kind, float value, float center, uint64_t key, uint64_t position)
{
    switch (kind) {
    case INIT_ZEROS:
        return 0.0f;
    case INIT_ONES:
        return 1.0f;
    case INIT_CONSTANT:
        return value;
    case INIT_GLOROT_UNIFORM:
    case INIT_HE_UNIFORM:
    case INIT_LECUN_UNIFORM:
    case INIT_RANDOM_UNIFORM:
        return (2.0f * rng_unit(key, position) - 1.0f) * value + center;
    case INIT_RANDOM_NORMAL:
        return normal(key, position, false) * value + center;
    case INIT_GLOROT_NORMAL:
    case INIT_HE_NORMAL:
    case INIT_LECUN_NORMAL:
    case INIT_TRUNCATED_NORMAL:
        return normal(key, position, true) * value + center;
    }
    return 0.0f;
}

/* Writes elements [first, first + n) of one tensor. */
static void init_tensor(const struct tensor *t, uint64_t seed, uint64_t first, uint64_t n,
                        float *out)
{
    uint64_t key = rng_key(seed, RNG_INIT, rng_name(t->name), 0);
    for (uint64_t i = 0; i < n; i++)
        out[i] = init_draw(t->init, t->init_value, t->init_center, key, first + i);
}

void layout_init_values(const struct layout *l, uint64_t seed, uint64_t first, size_t n, float *out)
{
    memset(out, 0, n * sizeof *out);
    uint64_t end = first + n;
    for (uint32_t i = 0; i < l->tensors; i++) {
        const struct tensor *t = &l->tensor[i];
        uint64_t from = t->offset_elems > first ? t->offset_elems : first;
        uint64_t to = t->offset_elems + t->elems < end ? t->offset_elems + t->elems : end;
        if (from < to)
            init_tensor(t, seed, from - t->offset_elems, to - from, out + (from - first));
    }
}
