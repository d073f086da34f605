#include "common/base/crc32c.h"

#include <pthread.h>

static const uint32_t polynomial = 0x82F63B78; /* reflected: the lowest bit first */

static uint32_t table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        table[byte] = crc;
    }
}

uint32_t crc32c(uint32_t before, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint32_t crc = ~before;
    (void)pthread_once(&once, make_table);
    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ table[(crc ^ at[i]) & 0xff];
    return ~crc;
}
