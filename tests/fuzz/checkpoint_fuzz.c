/* Checkpoints from arbitrary bytes (libFuzzer). The first byte chooses how deep they go: as a whole
 * file; as a head behind right checksums; as a frame behind a right head. Nothing may crash, leak
 * or take more memory than the file could hold. Build: clang -fsanitize=fuzzer,address,undefined
 * with common/ and proto/checkpoint.pb-c.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "common/checkpoint/checkpoint_file.h"
#include "common/base/mem.h"
#include "proto/checkpoint.pb-c.h"

enum { READ_ELEMS_MAX = 1 << 16 };

static void try_manifest(const uint8_t *data, size_t bytes)
{
    struct manifest m, again;
    struct errmsg e;
    uint8_t *encoded;
    size_t encoded_bytes;
    if (manifest_decode(data, bytes, "fuzz", &m, &e))
        return;
    /* What is accepted can be written, and is accepted again. */
    if (manifest_encode(&m, &encoded, &encoded_bytes, &e) ||
        manifest_decode(encoded, encoded_bytes, "fuzz", &again, &e))
        abort();
    mem_free(encoded);
    manifest_close(&m);
    manifest_close(&again);
}

static void read_blocks(struct shard_file *f)
{
    struct errmsg e;
    uint64_t elems = f->head->elems, n = elems < READ_ELEMS_MAX ? elems : READ_ELEMS_MAX;
    float *out = malloc((n ? n : 1) * sizeof *out);
    for (uint32_t block = 0; out && block <= f->head->slots; block++) {
        (void)!shard_file_read(f, block, 0, n, out, &e);
        (void)!shard_file_read(f, block, elems - n, n, out, &e);
        (void)!shard_file_read(f, block, elems / 2, n / 2, out, &e);
    }
    (void)!shard_file_verify(f, &e);
    free(out);
}

static void try_shard(const uint8_t *data, size_t bytes)
{
    struct shard_file f;
    struct errmsg e;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
        abort();
    if (shard_file_adopt(&f, fd, "fuzz", &e))
        return;
    read_blocks(&f);
    shard_file_close(&f);
}

/* magic, body, head, tail */
static uint8_t *seal(const char *kind, const uint8_t *body, size_t body_bytes, const uint8_t *head,
                     size_t head_bytes, size_t *bytes)
{
    *bytes = CHECKPOINT_MAGIC_BYTES + body_bytes + head_bytes + CHECKPOINT_TAIL_BYTES;
    uint8_t *p = malloc(*bytes), *at = p + CHECKPOINT_MAGIC_BYTES;
    if (!p)
        abort();
    checkpoint_magic_encode(p, kind);
    memcpy(at, body, body_bytes);
    memcpy(at + body_bytes, head, head_bytes);
    (void)checkpoint_tail_encode(at + body_bytes + head_bytes, kind, at + body_bytes, head_bytes);
    return p;
}

/* A right head before whatever stands as the one frame: bytes reach zstd. */
static void try_frame(const uint8_t *data, size_t bytes)
{
    uint64_t frame_bytes = bytes;
    uint32_t frame_crc = (uint32_t)crc32_z(0, data, bytes);
    Checkpoint__ShardHead head = CHECKPOINT__SHARD_HEAD__INIT;
    head.elems = bytes ? data[0] + 1u : 1;
    head.frame_elems = CHECKPOINT_FRAME_ELEMS;
    head.n_frame_bytes = head.n_frame_crc = 1;
    head.frame_bytes = &frame_bytes;
    head.frame_crc = &frame_crc;
    uint8_t packed[128];
    size_t packed_bytes = checkpoint__shard_head__pack(&head, packed), file_bytes;
    uint8_t *file = seal(CHECKPOINT_SHARD_KIND, data, bytes, packed, packed_bytes, &file_bytes);
    try_shard(file, file_bytes);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2)
        return 0;
    uint8_t way = data[0] % 5, split = data[1];
    data += 2;
    bytes -= 2;
    size_t head_bytes = split < bytes ? split : bytes, sealed_bytes;
    uint8_t *sealed;
    switch (way) {
    case 0:
        try_manifest(data, bytes);
        break;
    case 1:
        sealed = seal(CHECKPOINT_MANIFEST_KIND, data, 0, data, bytes, &sealed_bytes);
        try_manifest(sealed, sealed_bytes);
        free(sealed);
        break;
    case 2:
        try_shard(data, bytes);
        break;
    case 3:
        sealed = seal(CHECKPOINT_SHARD_KIND, data + head_bytes, bytes - head_bytes, data,
                      head_bytes, &sealed_bytes);
        try_shard(sealed, sealed_bytes);
        free(sealed);
        break;
    default:
        try_frame(data, bytes);
        break;
    }
    return 0;
}
