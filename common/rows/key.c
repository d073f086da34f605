#include "common/rows/key.h"

/* The inverse of z ^ (z >> shift). */
static uint64_t unshift(uint64_t z, unsigned shift)
{
    uint64_t out = z;
    for (unsigned done = shift; done < 64; done += shift)
        out = z ^ (out >> shift);
    return out;
}

uint64_t key_unmix(uint64_t mixed)
{
    uint64_t z = unshift(mixed, 31) * UINT64_C(0x319642B2D24D8EC3);
    return unshift(unshift(z, 27) * UINT64_C(0x96DE1B173F119089), 30);
}

size_t key_below(const uint64_t *mixed, size_t n, uint32_t bucket)
{
    if (bucket >= ROW_BUCKETS)
        return n;
    uint64_t border = (uint64_t)bucket << (64 - ROW_BUCKET_BITS);
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mixed[middle] < border)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
