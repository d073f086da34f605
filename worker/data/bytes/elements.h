/* Elements of a file's arrays as floats: their types, and the order of their bytes. */
#ifndef GRADWIRE_WORKER_DATA_BYTES_ELEMENTS_H
#define GRADWIRE_WORKER_DATA_BYTES_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum element {
    ELEMENT_NONE, /* no type that is read */
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

size_t element_bytes(enum element type); /* of one; 0 of ELEMENT_NONE */

/* `n` elements, each with its highest byte first (little: its lowest), to the floats nearest to them. Returns how many are
 * finite floats, up to the first that is not. from: n * element_bytes(type). */
size_t element_floats(float *out, const uint8_t *from, size_t n, enum element type, bool little);

#endif
