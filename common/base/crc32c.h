/* CRC-32C (Castagnoli), as iSCSI and TFRecord have it: RFC 3720, appendix B.4. */
#ifndef GRADWIRE_COMMON_BASE_CRC32C_H
#define GRADWIRE_COMMON_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `bytes` that follow those whose CRC is `before` (0: none). */
uint32_t crc32c(uint32_t before, const void *data, size_t bytes);

#endif
