/* The id of a job. Pure. */
#ifndef GRADWIRE_COMMON_BASE_UUID_H
#define GRADWIRE_COMMON_BASE_UUID_H

#include <stdint.h>

enum { UUID_BYTES = 37 };

/* A UUID of version 4 (RFC 9562, section 5.4) of 122 of these random bits, with its NUL. */
void uuid_make(char out[UUID_BYTES], uint64_t a, uint64_t b);

#endif
