/* Random job ids. Pure. */
#ifndef GRADWIRE_COMMON_BASE_UUID_H
#define GRADWIRE_COMMON_BASE_UUID_H

#include <stdint.h>

enum { UUID_BYTES = 37 };

/* Writes a UUID of version 4 (RFC 9562, section 5.4), with its NUL, from 122 bits of `a` and `b`. */
void uuid_make(char out[UUID_BYTES], uint64_t a, uint64_t b);

#endif
