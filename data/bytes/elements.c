#include "data/bytes/elements.h"

#include <math.h>
#include <string.h>

size_t element_bytes(enum element type)
{
    switch (type) {
    case ELEMENT_U8:
    case ELEMENT_I8:
        return 1;
    case ELEMENT_I16:
    case ELEMENT_U16:
    case ELEMENT_F16:
        return 2;
    case ELEMENT_I32:
    case ELEMENT_U32:
    case ELEMENT_F32:
        return 4;
    case ELEMENT_F64:
    case ELEMENT_I64:
    case ELEMENT_U64:
        return 8;
    case ELEMENT_NONE:
        break;
    }
    return 0;
}

static uint64_t bits(const uint8_t *p, size_t bytes, bool little)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | p[little ? bytes - 1 - i : i];
    return v;
}

/* Convert IEEE 754 binary16. */
static float half_of(uint16_t bits)
{
    unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
    float v = exponent == 31 ? (fraction ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(fraction + 1024), (int)exponent - 25)
                             : ldexpf((float)fraction, -24);
    return bits >> 15 ? -v : v;
}

static float float_of(const uint8_t *p, enum element type, bool little)
{
    uint64_t v = bits(p, element_bytes(type), little);
    uint32_t low = (uint32_t)v;
    float f;
    double d;
    switch (type) {
    case ELEMENT_I8:
        return (float)(int8_t)v;
    case ELEMENT_I16:
        return (float)(int16_t)v;
    case ELEMENT_I32:
        return (float)(int32_t)low;
    case ELEMENT_F32:
        memcpy(&f, &low, sizeof f);
        return f;
    case ELEMENT_F64:
        memcpy(&d, &v, sizeof d);
        return (float)d;
    case ELEMENT_I64:
        return (float)(int64_t)v;
    case ELEMENT_F16:
        return half_of((uint16_t)v);
    case ELEMENT_U8:
    case ELEMENT_U16:
    case ELEMENT_U32:
    case ELEMENT_U64:
    case ELEMENT_NONE:
        break;
    }
    return (float)v;
}

double element_double(const uint8_t *p, enum element type, bool little)
{
    uint64_t v = bits(p, element_bytes(type), little);
    double d;
    if (type == ELEMENT_F64)
        memcpy(&d, &v, sizeof d);
    else if (type == ELEMENT_I32)
        d = (int32_t)(uint32_t)v;
    else if (type == ELEMENT_I64)
        d = (double)(int64_t)v;
    else if (type == ELEMENT_U32 || type == ELEMENT_U64)
        d = (double)v;
    else
        d = (double)float_of(p, type, little);
    return d;
}

size_t element_floats(float *out, const uint8_t *from, size_t n, enum element type, bool little)
{
    size_t bytes = element_bytes(type);
    for (size_t i = 0; i < n; i++) {
        float v = float_of(from + i * bytes, type, little);
        if (!isfinite(v))
            return i;
        out[i] = v;
    }
    return n;
}
