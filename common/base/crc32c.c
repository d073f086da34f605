/* Three ways, of which crc32c takes the fastest that the processor has:
 * - by tables, eight bytes at a time (Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based
 *   CRC Generators")
 * - with SSE 4.2, and on arm64, by an instruction for this CRC. One instruction waits for the one before it, and three could run
 *   at the same time: so a long text is divided into three, whose registers are joined at the end
 * - with VPCLMULQDQ by folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"): a
 *   long text is replaced by one of 64 bytes that has the same CRC */
#include "common/base/crc32c.h"

#include <pthread.h>
#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

static const uint32_t polynomial = 0x82F63B78; /* reflected: the lowest bit first */

static uint32_t table[8][256]; /* [i][byte]: the register after `byte` and i zeros */
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* By enum crc32c_way; NULL: the processor does not have what it needs. */
static uint32_t (*way[CRC32C_WAYS])(uint32_t, const uint8_t *, size_t);
static enum crc32c_way fastest;

static uint32_t step(uint32_t crc, uint8_t byte)
{
    return crc >> 8 ^ table[0][(crc ^ byte) & 0xff];
}

static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        table[0][byte] = crc;
    }
    for (int i = 1; i < 8; i++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[i][byte] = step(table[i - 1][byte], 0);
}

static uint64_t load(const uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t bytes)
{
    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t v = load(at) ^ crc; /* little-endian: the first byte is the lowest */
        crc = table[7][v & 0xff] ^ table[6][v >> 8 & 0xff] ^ table[5][v >> 16 & 0xff] ^
              table[4][v >> 24 & 0xff] ^ table[3][v >> 32 & 0xff] ^ table[2][v >> 40 & 0xff] ^
              table[1][v >> 48 & 0xff] ^ table[0][v >> 56];
    }
    for (; bytes > 0; at++, bytes--)
        crc = step(crc, *at);
    return crc;
}

#if defined __x86_64__ || defined __aarch64__

#ifdef __x86_64__
#define HAS_INSTRUCTION __attribute__((target("sse4.2")))
#define NEXT_8_BYTES(crc, v) __builtin_ia32_crc32di(crc, v)
#define NEXT_BYTE(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#else
#define HAS_INSTRUCTION __attribute__((target("+crc")))
#define NEXT_8_BYTES(crc, v) __crc32cd((uint32_t)(crc), v)
#define NEXT_BYTE(crc, byte) __crc32cb(crc, byte)
#endif

enum { THIRDS = 2 };
static const size_t third[THIRDS] = {4096,
                                     256}; /* bytes of each of the three parts; multiples of 8 */
/* [t][i][byte]: the register `byte << 8 * i` after third[t] zeros */
static uint32_t moved[THIRDS][4][256];

/* A register is linear in its bits: 32 of them give the others. */
static void make_moved(void)
{
    static const uint8_t zeros[4096];
    for (int t = 0; t < THIRDS; t++)
        for (int i = 0; i < 4; i++) {
            uint32_t *to = moved[t][i];
            for (uint32_t byte = 1; byte < 256; byte++) {
                bool one_bit = (byte & (byte - 1)) == 0;
                to[byte] = one_bit ? by_table(byte << 8 * i, zeros, third[t])
                                   : to[byte & (byte - 1)] ^ to[byte & -byte];
            }
        }
}

static uint64_t move(int t, uint64_t crc)
{
    return moved[t][0][crc & 0xff] ^ moved[t][1][crc >> 8 & 0xff] ^ moved[t][2][crc >> 16 & 0xff] ^
           moved[t][3][crc >> 24 & 0xff];
}

HAS_INSTRUCTION static uint32_t by_instruction(uint32_t crc, const uint8_t *at, size_t bytes)
{
    uint64_t a = crc;
    for (int t = 0; t < THIRDS; t++) {
        const size_t n = third[t];
        for (; bytes >= 3 * n; at += 3 * n, bytes -= 3 * n) {
            uint64_t b = 0, c = 0;
            for (size_t i = 0; i < n; i += 8) {
                a = NEXT_8_BYTES(a, load(at + i));
                b = NEXT_8_BYTES(b, load(at + n + i));
                c = NEXT_8_BYTES(c, load(at + 2 * n + i));
            }
            a = move(t, move(t, a) ^ b) ^ c;
        }
    }
    for (; bytes >= 8; at += 8, bytes -= 8)
        a = NEXT_8_BYTES(a, load(at));
    uint32_t end = (uint32_t)a;
    for (; bytes > 0; at++, bytes--)
        end = NEXT_BYTE(end, *at);
    return end;
}

#endif

#if defined __x86_64__

enum { BLOCK = 64, BLOCKS = 4, FOLDING_MIN = 512 };
static uint64_t fold_one[2], fold_all[2]; /* over one block, over all four */

/* Returns x^n modulo the polynomial. A register's highest bit is x^0. */
static uint64_t power(int n)
{
    uint32_t x = UINT32_C(1) << 31;
    while (n-- > 0)
        x = x >> 1 ^ (x & 1 ? polynomial : 0);
    return x;
}

/* 16 bytes that move forward by some bits are multiplied by x^bits. The first 8 of them are 64 powers above the others. The
 * product of two reflected numbers lacks one power of x, so the factors have one less. */
static void make_fold(uint64_t fold[2], int bits)
{
    fold[0] = power(bits + 63) << 32;
    fold[1] = power(bits - 1) << 32;
}

#define A_XOR_B_XOR_C 0x96
#define FOLDS __attribute__((target("sse4.2,avx512f,vpclmulqdq")))

FOLDS static inline __m512i folded(__m512i x, __m512i by, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
                                     _mm512_clmulepi64_epi128(x, by, 0x11), next, A_XOR_B_XOR_C);
}

FOLDS static inline __m512i factors(const uint64_t fold[2])
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)fold));
}

FOLDS static uint32_t by_folding(uint32_t crc, const uint8_t *at, size_t bytes)
{
    if (bytes < FOLDING_MIN)
        return by_instruction(crc, at, bytes);
    const __m512i over_one = factors(fold_one), over_all = factors(fold_all);
    __m512i x[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        x[i] = _mm512_loadu_si512(at + BLOCK * i);
    x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (at += BLOCKS * BLOCK, bytes -= BLOCKS * BLOCK; bytes >= BLOCKS * BLOCK;
         at += BLOCKS * BLOCK, bytes -= BLOCKS * BLOCK)
        for (int i = 0; i < BLOCKS; i++)
            x[i] = folded(x[i], over_all, _mm512_loadu_si512(at + BLOCK * i));
    for (int i = 1; i < BLOCKS; i++)
        x[i] = folded(x[i - 1], over_one, x[i]);
    uint8_t last[BLOCK];
    _mm512_storeu_si512(last, x[BLOCKS - 1]);
    return by_instruction(by_instruction(0, last, BLOCK), at, bytes);
}

static void choose(void)
{
    make_table();
    make_moved();
    make_fold(fold_one, 8 * BLOCK);
    make_fold(fold_all, 8 * BLOCK * BLOCKS);
    way[CRC32C_TABLE] = by_table;
    if (__builtin_cpu_supports("sse4.2"))
        way[fastest = CRC32C_INSTRUCTION] = by_instruction;
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("vpclmulqdq"))
        way[fastest = CRC32C_FOLDING] = by_folding;
}

#else

static void choose(void)
{
    make_table();
    way[CRC32C_TABLE] = by_table;
#ifdef __aarch64__
    make_moved();
    if (getauxval(AT_HWCAP) & HWCAP_CRC32)
        way[fastest = CRC32C_INSTRUCTION] = by_instruction;
#endif
}

#endif

uint32_t crc32c(uint32_t before, const void *data, size_t bytes)
{
    (void)pthread_once(&once, choose);
    return ~way[fastest](~before, data, bytes);
}

bool crc32c_by(enum crc32c_way by, uint32_t *crc, const void *data, size_t bytes)
{
    (void)pthread_once(&once, choose);
    if (!way[by])
        return false;
    *crc = ~way[by](~*crc, data, bytes);
    return true;
}
