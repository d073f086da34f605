/* CRC-32C (Castagnoli), as in iSCSI and TFRecord: RFC 3720, appendix B.4. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the CRC of a text that ends with these `bytes`; `before` is the CRC of the part before them, or 0. Thread: any. */
uint32_t crc32c(uint32_t before, const void *data, size_t bytes);

/* The slowest first. crc32c takes the last one that the processor has. */
enum crc32c_way { CRC32C_TABLE, CRC32C_INSTRUCTION, CRC32C_FOLDING, CRC32C_WAYS };
/* For tests: the same in one way. *crc is `before`, and gets the result. False: the processor does not have this way. */
bool crc32c_by(enum crc32c_way by, uint32_t *crc, const void *data, size_t bytes);
