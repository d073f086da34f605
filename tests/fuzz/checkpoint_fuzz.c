/* Checkpoints from arbitrary bytes (libFuzzer). The first byte chooses how deep they go: as a whole
 * file; as a head behind right checksums; as a frame of floats or of rows behind a right head. Nothing may crash, leak
 * or take more memory than the file could hold. Build: clang -fsanitize=fuzzer,address,undefined
 * with common/ and proto/checkpoint.pb-c.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/checkpoint/checkpoint_file.h"
#include "common/base/mem.h"
#include "proto/checkpoint.pb-c.h"
#include "tests/lib/memory_place.h"

enum { READ_ELEMS_MAX = 1 << 16 };

static void try_manifest(const uint8_t *data, size_t bytes)
{
    struct manifest m, again;
    struct errmsg e;
    uint8_t *encoded;
    size_t encoded_bytes;
    if (manifest_decode(data, bytes, "fuzz", &m, &e))
        return;
    /* An accepted manifest can be written, and is accepted again. */
    if (manifest_encode(&m, &encoded, &encoded_bytes, &e) ||
        manifest_decode(encoded, encoded_bytes, "fuzz", &again, &e))
        abort();
    mem_free(encoded);
    manifest_close(&m);
    manifest_close(&again);
}

static enum err take_rows(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct shard_file *f = ctx;
    const Checkpoint__RowTable *t = f->head->rows->table[g->table];
    uint64_t seen = 0;
    (void)e;
    for (uint32_t i = 0; i < g->rows; i++) {
        const uint32_t *row = (const uint32_t *)g->values + (size_t)i * (t->dim + t->slots);
        seen += g->mixed[i] + g->stamp[i] + g->count[i] + row[0] + row[t->dim + t->slots - 1];
    }
    return seen == 42 ? ERR_STATE : ERR_OK;
}

static enum err take_sketch(void *ctx, const struct row_group *g, struct errmsg *e)
{
    uint64_t seen = 0;
    (void)ctx;
    (void)e;
    for (uint32_t i = 0; i < g->sketch_bytes; i++)
        seen += g->sketch[i];
    return seen == 42 ? ERR_STATE : ERR_OK;
}

static void read_rows(struct shard_file *f)
{
    struct errmsg e;
    const struct bucket_range ranges[] = {{0, ROW_BUCKETS}, {1, 100}};
    for (int i = 0; f->head->rows && i < 2; i++) {
        struct row_place at = {0};
        (void)!shard_file_read_rows(f, ranges[i], &at,
                                    &(struct row_sink){take_rows, f, take_sketch}, &e);
    }
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
    read_rows(f);
    free(out);
}

static void try_shard(const uint8_t *data, size_t bytes)
{
    struct shard_file f;
    struct errmsg e;
    struct memory_place m;
    memory_place_open(&m);
    if (place_put(&m.place, "cut-0000000000/shard-0.gw", data, bytes, &e))
        abort();
    if (!shard_file_open(&f, (struct cut){&m.place, 0}, "shard-0.gw", &e)) {
        read_blocks(&f);
        shard_file_close(&f);
    }
    memory_place_close(&m);
}

/* magic, body, head, tail */
static uint8_t *seal(const char *kind, uint32_t format, const uint8_t *body, size_t body_bytes,
                     const uint8_t *head, size_t head_bytes, size_t *bytes)
{
    *bytes = CHECKPOINT_MAGIC_BYTES + body_bytes + head_bytes + CHECKPOINT_TAIL_BYTES;
    uint8_t *p = malloc(*bytes), *at = p + CHECKPOINT_MAGIC_BYTES;
    if (!p)
        abort();
    checkpoint_magic_encode(p, kind, format);
    memcpy(at, body, body_bytes);
    memcpy(at + body_bytes, head, head_bytes);
    (void)checkpoint_tail_encode(at + body_bytes + head_bytes, kind, format, at + body_bytes,
                                 head_bytes);
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
    uint8_t *file = seal(CHECKPOINT_SHARD_KIND, 1, data, bytes, packed, packed_bytes, &file_bytes);
    try_shard(file, file_bytes);
    free(file);
}

/* The same for rows: bytes, packed by us, stand where groups should. */
static void try_rows(const uint8_t *data, size_t bytes)
{
    size_t room = ZSTD_compressBound(bytes), stored;
    uint8_t *frame = malloc(room);
    if (!frame || ZSTD_isError(stored = ZSTD_compress(frame, room, data, bytes, 1)))
        abort();
    uint64_t frame_bytes = stored;
    uint32_t crc = (uint32_t)crc32_z(0, frame, stored), plain = (uint32_t)bytes, bucket;
    Checkpoint__RowTable table[2] = {CHECKPOINT__ROW_TABLE__INIT, CHECKPOINT__ROW_TABLE__INIT};
    Checkpoint__RowTable *tables[2] = {&table[0], &table[1]};
    Checkpoint__Rows rows = CHECKPOINT__ROWS__INIT;
    Checkpoint__ShardHead head = CHECKPOINT__SHARD_HEAD__INIT;
    memcpy(&bucket, data + 4, sizeof bucket);
    table[0].name = table[1].name = (char[]){"t"};
    table[0].dim = 1;
    table[1].dim = 3;
    table[1].slots = 1;
    rows.end_bucket = ROW_BUCKETS;
    rows.n_table = 2;
    rows.table = tables;
    rows.n_frame_bytes = rows.n_frame_crc = rows.n_frame_plain = rows.n_frame_bucket = 1;
    rows.frame_bytes = &frame_bytes;
    rows.frame_crc = &crc;
    rows.frame_plain = &plain;
    rows.frame_bucket = &bucket;
    head.frame_elems = CHECKPOINT_FRAME_ELEMS;
    head.rows = &rows;
    uint8_t packed[256];
    size_t packed_bytes = checkpoint__shard_head__pack(&head, packed), file_bytes;
    uint8_t *file =
        seal(CHECKPOINT_SHARD_KIND, 2, frame, stored, packed, packed_bytes, &file_bytes);
    try_shard(file, file_bytes);
    free(file);
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2)
        return 0;
    uint8_t way = data[0] % 6, split = data[1];
    data += 2;
    bytes -= 2;
    size_t head_bytes = split < bytes ? split : bytes, sealed_bytes;
    uint8_t *sealed;
    switch (way) {
    case 0:
        try_manifest(data, bytes);
        break;
    case 1:
        sealed = seal(CHECKPOINT_MANIFEST_KIND, 1 + split % 2, data, 0, data, bytes, &sealed_bytes);
        try_manifest(sealed, sealed_bytes);
        free(sealed);
        break;
    case 2:
        try_shard(data, bytes);
        break;
    case 3:
        sealed = seal(CHECKPOINT_SHARD_KIND, 1 + split % 2, data + head_bytes, bytes - head_bytes,
                      data, head_bytes, &sealed_bytes);
        try_shard(sealed, sealed_bytes);
        free(sealed);
        break;
    case 4:
        if (bytes >= 8)
            try_rows(data, bytes);
        break;
    default:
        try_frame(data, bytes);
        break;
    }
    return 0;
}
