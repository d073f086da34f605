/* Converts elements of a file's arrays to floats: their types, and the order of their bytes. */
#ifndef GRADWIRE_DATA_BYTES_ELEMENTS_H
#define GRADWIRE_DATA_BYTES_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum element {
    ELEMENT_NONE, /* not a type that can be read */
    ELEMENT_U8,
    ELEMENT_I8,
    ELEMENT_I16,
    ELEMENT_I32,
    ELEMENT_F32,
    ELEMENT_F64,
    ELEMENT_U16,
    ELEMENT_U32,
    ELEMENT_U64,
    ELEMENT_I64,
    ELEMENT_F16,
};
enum { ELEMENT_BYTES_MAX = 8 };

size_t element_bytes(enum element type); /* 0 for ELEMENT_NONE */

/* An element as a double, which is nearest to an integer of 64 bits. */
double element_double(const uint8_t *p, enum element type, bool little);
/* Convert `n` elements, big-endian (little: little-endian), to the nearest floats. Returns how many are finite, up
 * to the first that is not. from: n * element_bytes(type). */
size_t element_floats(float *out, const uint8_t *from, size_t n, enum element type, bool little);

#endif
