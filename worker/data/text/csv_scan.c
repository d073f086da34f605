#include "worker/data/text/csv_scan.h"

#include "common/math/kernels.h"
#include "common/math/simd.h"

enum { BLOCK = 64 };

/* A bit for each byte of a block. */
struct masks {
    uint64_t delimiter, newline, quote;
};

#define INLINE static inline __attribute__((always_inline))

/* ---- from masks to positions ---- */

/* Bit i is the parity of bits 0 to i. */
INLINE uint64_t parity_so_far(uint64_t m)
{
    for (int shift = 1; shift < BLOCK; shift *= 2)
        m ^= m << shift;
    return m;
}

/* The marks of a block outside of quotes; *inside is all ones if the block ends within quotes. */
INLINE uint64_t outside_quotes(const struct masks *m, uint64_t *inside)
{
    uint64_t marks = m->delimiter | m->newline;
    if (m->quote | *inside) {
        uint64_t quoted = parity_so_far(m->quote) ^ *inside;
        *inside = (uint64_t)((int64_t)quoted >> 63);
        marks &= ~quoted;
    }
    return marks;
}

INLINE uint32_t *positions(uint32_t *at, uint64_t marks, uint32_t first)
{
    for (; marks; marks &= marks - 1)
        *at++ = first + (uint32_t)__builtin_ctzll(marks);
    return at;
}

#define SCAN(name, target, equal)                                                                  \
    target static size_t name(uint32_t *at, const char *text, size_t bytes, char delimiter,        \
                              bool quotes)                                                         \
    {                                                                                              \
        uint32_t *begin = at;                                                                      \
        uint64_t inside = 0;                                                                       \
        for (size_t i = 0; i < bytes; i += BLOCK) {                                                \
            const char *p = text + i;                                                              \
            struct masks m = {equal(p, delimiter), equal(p, '\n'), quotes ? equal(p, '"') : 0};    \
            uint64_t marks = outside_quotes(&m, &inside);                                          \
            if (bytes - i < BLOCK)                                                                 \
                marks &= (UINT64_C(1) << (bytes - i)) - 1;                                         \
            at = positions(at, marks, (uint32_t)i);                                                \
        }                                                                                          \
        return (size_t)(at - begin);                                                               \
    }

SCAN(scan_base, , simd_equal_base)
#if SIMD_X86
SCAN(scan_avx2, __attribute__((target("avx2"))), simd_equal_avx2)
SCAN(scan_avx512, __attribute__((target("avx512f,avx512bw"))), simd_equal_avx512)
#endif

size_t csv_scan(uint32_t *at, const char *text, size_t bytes, char delimiter, bool quotes)
{
#if SIMD_X86
    if (kernels() == &kernels_avx512)
        return scan_avx512(at, text, bytes, delimiter, quotes);
    if (kernels() == &kernels_avx2)
        return scan_avx2(at, text, bytes, delimiter, quotes);
#endif
    return scan_base(at, text, bytes, delimiter, quotes);
}

size_t csv_count(const char *text, size_t bytes, char byte)
{
    size_t n = 0;
    while (bytes) { /* in runs whose count fits a byte of each lane */
        size_t run = bytes < 4096 ? bytes : 4096;
        uint32_t here = 0;
        for (size_t i = 0; i < run; i++)
            here += text[i] == byte;
        n += here;
        text += run;
        bytes -= run;
    }
    return n;
}
