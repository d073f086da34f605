#include "formats/imports/onnx_tensor.h"

#include <math.h>
#include <string.h>

/* ---- elements ---- */

#define ELEMS_MAX ((uint64_t)1 << 40)

/* Bytes of an element in raw_data; 0: not a number that is read here. */
static size_t elem_bytes(int32_t type)
{
    switch (type) {
    case ONNX__DATA_TYPE__FLOAT:
    case ONNX__DATA_TYPE__INT32:
        return 4;
    case ONNX__DATA_TYPE__INT64:
    case ONNX__DATA_TYPE__DOUBLE:
        return 8;
    case ONNX__DATA_TYPE__FLOAT16:
    case ONNX__DATA_TYPE__BFLOAT16:
        return 2;
    case ONNX__DATA_TYPE__BOOL:
        return 1;
    default:
        return 0;
    }
}

/* The number of elements in the field for this type. */
static size_t listed(const Onnx__Tensor *t)
{
    switch (t->data_type) {
    case ONNX__DATA_TYPE__FLOAT:
        return t->n_float_data;
    case ONNX__DATA_TYPE__DOUBLE:
        return t->n_double_data;
    case ONNX__DATA_TYPE__INT64:
        return t->n_int64_data;
    default:
        return t->n_int32_data;
    }
}

/* The product of its dimensions. False: as onnx_tensor_bytes. */
static bool shape_elems(const Onnx__Tensor *t, uint64_t *elems)
{
    uint64_t n = 1;
    if (t->n_dims > ONNX_RANK_MAX || elem_bytes(t->data_type) == 0)
        return false;
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(n, (uint64_t)t->dims[i], &n) || n > ELEMS_MAX)
            return false;
    *elems = n;
    return true;
}

bool onnx_tensor_bytes(const Onnx__Tensor *t, uint64_t *bytes)
{
    uint64_t n;
    if (!shape_elems(t, &n))
        return false;
    *bytes = n * elem_bytes(t->data_type);
    return true;
}

bool onnx_tensor_elems(const Onnx__Tensor *t, uint64_t *elems)
{
    uint64_t n;
    if (!shape_elems(t, &n) || t->data_location != 0)
        return false;
    *elems = n;
    return t->raw_data.len ? t->raw_data.len == n * elem_bytes(t->data_type) : listed(t) == n;
}

static double from_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, sign = h >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double from_bfloat(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double raw_at(const Onnx__Tensor *t, uint64_t i)
{
    size_t bytes = elem_bytes(t->data_type);
    const uint8_t *at = t->raw_data.data + i * bytes;
    union {
        float f;
        double d;
        int32_t i;
        int64_t l;
        uint16_t h;
    } as;
    memcpy(&as, at, bytes);
    switch (t->data_type) {
    case ONNX__DATA_TYPE__FLOAT:
        return (double)as.f;
    case ONNX__DATA_TYPE__DOUBLE:
        return as.d;
    case ONNX__DATA_TYPE__INT32:
        return as.i;
    case ONNX__DATA_TYPE__INT64:
        return (double)as.l;
    case ONNX__DATA_TYPE__FLOAT16:
        return from_half(as.h);
    case ONNX__DATA_TYPE__BOOL:
        return *at;
    default:
        return from_bfloat(as.h);
    }
}

double onnx_tensor_at(const Onnx__Tensor *t, uint64_t i)
{
    if (t->raw_data.len)
        return raw_at(t, i);
    switch (t->data_type) {
    case ONNX__DATA_TYPE__FLOAT:
        return (double)t->float_data[i];
    case ONNX__DATA_TYPE__DOUBLE:
        return t->double_data[i];
    case ONNX__DATA_TYPE__INT64:
        return (double)t->int64_data[i];
    case ONNX__DATA_TYPE__FLOAT16:
        return from_half((uint16_t)t->int32_data[i]);
    case ONNX__DATA_TYPE__BFLOAT16:
        return from_bfloat((uint16_t)t->int32_data[i]);
    default:
        return t->int32_data[i];
    }
}

/* ---- attributes ---- */

const Onnx__Attribute *onnx_attribute(const Onnx__Node *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(n->attribute[i]->name, name) == 0)
            return n->attribute[i];
    return NULL;
}

int64_t onnx_int(const Onnx__Node *n, const char *name, int64_t otherwise)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    return a ? a->i : otherwise;
}

double onnx_float(const Onnx__Node *n, const char *name, double otherwise)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    return a ? (double)a->f : otherwise;
}

size_t onnx_ints(const Onnx__Node *n, const char *name, int64_t *out, size_t room)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    size_t i = 0;
    for (; a && i < a->n_ints && i < room; i++)
        out[i] = a->ints[i];
    return i;
}

bool onnx_text_is(const Onnx__Node *n, const char *name, const char *text)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    return !a || (a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0);
}
