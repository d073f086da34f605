/* CRC-32C (Castagnoli), as in iSCSI and TFRecord: RFC 3720, appendix B.4. */
#ifndef GRADWIRE_COMMON_BASE_CRC32C_H
#define GRADWIRE_COMMON_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC of a text that ends with these `bytes`; `before` is the CRC of the part before them, or 0. */
uint32_t crc32c(uint32_t before, const void *data, size_t bytes);

#endif
