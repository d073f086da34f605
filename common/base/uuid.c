#include "common/base/uuid.h"

#include <inttypes.h>
#include <stdio.h>

void uuid_make(char out[UUID_BYTES], uint64_t a, uint64_t b)
{
    (void)snprintf(out, UUID_BYTES,
                   "%08" PRIx64 "-%04" PRIx64 "-4%03" PRIx64 "-%04" PRIx64 "-%012" PRIx64, a >> 32,
                   a >> 16 & 0xffff, a & 0xfff, (b >> 48 & 0x3fff) | 0x8000,
                   b & UINT64_C(0xffffffffffff));
}
