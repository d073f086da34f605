/* Sends the k elements of the largest magnitude, the first ones among equals; the receiver gets 0 for the others
 * (Aji and Heafield 2017). The caller keeps what is not sent (worker/driver/push_codec.c). */
#include <assert.h>
#include <string.h>

#include "common/codec/codec_impl.h"

static uint32_t magnitude(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Returns the bits of the k-th largest magnitude, found in three rounds of counting. *ties is how many elements of
 * exactly that magnitude belong to the k. */
static uint32_t threshold(const float *x, size_t n, size_t k, size_t *ties)
{
    static const struct {
        uint32_t shift, bits;
    } round[] = {{20, 11}, {10, 10}, {0, 10}};
    uint32_t prefix = 0; /* its bits above the current round's are known */
    size_t wanted = k;
    for (int r = 0; r < 3; r++) {
        uint32_t count[2048] = {0};
        uint32_t above = round[r].shift + round[r].bits;
        for (size_t i = 0; i < n; i++) {
            uint32_t m = magnitude(&x[i]);
            if (m >> above == prefix >> above)
                count[m >> round[r].shift & ((1u << round[r].bits) - 1)]++;
        }
        uint32_t bin = (1u << round[r].bits) - 1;
        while (count[bin] < wanted) {
            wanted -= count[bin];
            bin--;
        }
        assert(wanted > 0 && wanted <= count[bin]);
        prefix |= bin << round[r].shift;
    }
    *ties = wanted;
    return prefix;
}

size_t codec_top_k(const struct codec_shape *s, size_t elems)
{
    size_t k = (size_t)((double)s->ratio * (double)elems);
    return k < 1 ? 1 : k;
}

static size_t top_k_bytes(const struct codec_shape *s, size_t n)
{
    return codec_top_k(s, n) * CODEC_TOP_K_ENTRY_BYTES;
}

static enum err top_k_encode(uint8_t *out, const float *x, const struct codec_shape *s,
                             uint64_t key, size_t n)
{
    (void)key;
    size_t ties, k = codec_top_k(s, n);
    uint32_t least = threshold(x, n, k, &ties);
    const uint8_t *end = out + k * CODEC_TOP_K_ENTRY_BYTES;
    for (size_t i = 0; i < n; i++) {
        uint32_t m = magnitude(&x[i]);
        if (m >= 0x7f800000)
            return ERR_INPUT;
        if (m < least || (m == least && ties == 0))
            continue;
        ties -= m == least;
        uint32_t index = (uint32_t)i;
        memcpy(out, &index, sizeof index);
        memcpy(out + sizeof index, &x[i], sizeof x[i]);
        out += CODEC_TOP_K_ENTRY_BYTES;
    }
    assert(out == end && ties == 0);
    (void)end;
    return ERR_OK;
}

static enum err top_k_decode(float *out, const uint8_t *in, const struct codec_shape *s, size_t n)
{
    size_t k = codec_top_k(s, n);
    uint32_t index, next = 0; /* the smallest valid index */
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < k; i++, in += CODEC_TOP_K_ENTRY_BYTES) {
        memcpy(&index, in, sizeof index);
        if (index < next || index >= n)
            return ERR_PROTO;
        memcpy(&out[index], in + sizeof index, sizeof *out);
        next = index + 1;
    }
    return ERR_OK;
}

const struct codec_ops top_k_codec = {
    .bytes = top_k_bytes, .encode = top_k_encode, .decode = top_k_decode};
