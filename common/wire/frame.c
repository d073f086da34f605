#include "common/wire/frame.h"

#include <stdio.h>

#include "common/base/crc32c.h"

static void put16(uint8_t *out, uint16_t v)
{
    out[0] = (uint8_t)v;
    out[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *out, uint32_t v)
{
    put16(out, (uint16_t)v);
    put16(out + 2, (uint16_t)(v >> 16));
}

static uint16_t get16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

static uint32_t get32(const uint8_t *in)
{
    return get16(in) | (uint32_t)get16(in + 2) << 16;
}

static uint64_t get64(const uint8_t *in)
{
    return get32(in) | (uint64_t)get32(in + 4) << 32;
}

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame *f)
{
    put32(out, FRAME_MAGIC);
    put16(out + 4, f->version);
    put16(out + 6, f->type);
    put32(out + 8, f->head_bytes);
    put32(out + 12, f->flags);
    put32(out + 16, (uint32_t)f->body_bytes);
    put32(out + 20, (uint32_t)(f->body_bytes >> 32));
}

static struct frame frame_read(const uint8_t in[FRAME_HEADER_BYTES])
{
    return (struct frame){
        .version = get16(in + 4),
        .type = get16(in + 6),
        .head_bytes = get32(in + 8),
        .flags = get32(in + 12),
        .body_bytes = get64(in + 16),
    };
}

static unsigned kind_of(uint32_t flags)
{
    return flags == 0 ? FRAME_PLAIN : flags == FRAME_FLAG_CRC ? FRAME_CHECKED : 0;
}

enum err frame_decode(struct frame *f, const uint8_t in[FRAME_HEADER_BYTES],
                      const struct frame_limits *limits)
{
    struct frame got = frame_read(in);
    if (get32(in) != FRAME_MAGIC || got.version != FRAME_VERSION)
        return ERR_PROTO;
    if (!frame_type_str(got.type) || !(kind_of(got.flags) & limits->kinds))
        return ERR_PROTO;
    if (got.head_bytes > limits->head_max || got.body_bytes > limits->body_max)
        return ERR_TOOBIG;
    *f = got;
    return ERR_OK;
}

/* Of the header and the two checksums behind it. The number is not sent: a frame that comes twice, or is missing, shows at
 * the next one. */
static uint32_t crc_of_header(const uint8_t *in, uint64_t number)
{
    uint8_t before[8];
    put32(before, (uint32_t)number);
    put32(before + 4, (uint32_t)(number >> 32));
    return crc32c(crc32c(0, before, sizeof before), in, FRAME_HEADER_BYTES + 8);
}

void frame_checksums_encode(uint8_t out[FRAME_HEADER_BYTES + FRAME_CHECKSUMS_BYTES],
                            const struct frame_checksums *sums, uint64_t number)
{
    uint8_t *at = out + FRAME_HEADER_BYTES;
    put32(at, sums->head);
    put32(at + 4, sums->body);
    put32(at + 8, crc_of_header(out, number));
}

enum err frame_checksums_decode(struct frame_checksums *sums,
                                const uint8_t in[FRAME_HEADER_BYTES + FRAME_CHECKSUMS_BYTES],
                                uint64_t number)
{
    const uint8_t *at = in + FRAME_HEADER_BYTES;
    if (get32(at + 8) != crc_of_header(in, number))
        return ERR_PROTO;
    *sums = (struct frame_checksums){.head = get32(at), .body = get32(at + 4)};
    return ERR_OK;
}

bool frame_is_tls(const uint8_t in[3])
{
    return (in[0] == 22 || in[0] == 21) && in[1] == 3 && in[2] <= 4;
}

void frame_explain(const uint8_t in[FRAME_HEADER_BYTES], const struct frame_limits *limits,
                   char *out, size_t size)
{
    struct frame got = frame_read(in);
    const char *name = frame_type_str(got.type);
    if (frame_is_tls(in))
        snprintf(out, size, "it uses TLS, but this process was started without --tls_cert");
    else if (get32(in) != FRAME_MAGIC)
        snprintf(out, size, "magic 0x%08x, not a gradwire peer", get32(in));
    else if (got.version != FRAME_VERSION)
        snprintf(out, size, "frame version %u; this release uses version %d", got.version,
                 FRAME_VERSION);
    else if (!name)
        snprintf(out, size, "frame type %u is unknown", got.type);
    else if (got.flags == 0 && !(limits->kinds & FRAME_PLAIN))
        snprintf(out, size, "a %s frame has no checksums, on which both sides have agreed", name);
    else if (!(kind_of(got.flags) & limits->kinds))
        snprintf(out, size, "flags 0x%x of a %s frame were not negotiated", got.flags, name);
    else if (got.head_bytes > limits->head_max)
        snprintf(out, size, "the head of a %s frame has %u bytes; allowed: up to %u", name,
                 got.head_bytes, limits->head_max);
    else
        snprintf(out, size, "the body of a %s frame has %llu bytes; allowed: up to %llu", name,
                 (unsigned long long)got.body_bytes, (unsigned long long)limits->body_max);
}

static const struct {
    const char *name;
    unsigned to;
} types[] = {
#define X(name, message, number, to) [number] = {#name, to},
    FRAME_TYPE_MAP(X)
#undef X
};

const char *frame_type_str(uint16_t type)
{
    return type < sizeof types / sizeof *types ? types[type].name : NULL;
}

unsigned frame_to(uint32_t type)
{
    return type < sizeof types / sizeof *types ? types[type].to : 0;
}
