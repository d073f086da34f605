/* Shared by shard files and manifests: paths and names, magic, tail. */
#include "common/checkpoint/checkpoint_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/version.h"

void cut_object(char name[PLACE_NAME_MAX], uint64_t cut, const char *file)
{
    if (cut_file_is_of_place(file))
        (void)snprintf(name, PLACE_NAME_MAX, "%s", file);
    else
        (void)snprintf(name, PLACE_NAME_MAX, "cut-%010" PRIu64 "%s%s", cut, *file ? "/" : "", file);
}

enum err checkpoint_corrupt(struct errmsg *e, const char *path, const char *fmt, ...)
{
    struct errmsg why;
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(why.text, sizeof why.text, fmt, args);
    va_end(args);
    return err_set(e, ERR_CORRUPT, "%s: corrupt: %s", path, why.text);
}

static void put_u32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

void checkpoint_magic_encode(uint8_t magic[CHECKPOINT_MAGIC_BYTES], const char *kind,
                             uint32_t format)
{
    memcpy(magic, kind, CHECKPOINT_MAGIC_BYTES - 1);
    magic[CHECKPOINT_MAGIC_BYTES - 1] = (uint8_t)('0' + format);
}

enum err checkpoint_magic_decode(const uint8_t magic[CHECKPOINT_MAGIC_BYTES],
                                 const uint8_t tail[CHECKPOINT_TAIL_BYTES], const char *kind,
                                 const char *path, uint32_t *format, struct errmsg *e)
{
    uint8_t version = magic[CHECKPOINT_MAGIC_BYTES - 1];
    if (memcmp(magic, kind, CHECKPOINT_MAGIC_BYTES - 1) != 0 ||
        version < '0' + CHECKPOINT_FORMAT_FIRST)
        return checkpoint_corrupt(e, path, "it does not start with \"%s\" and a format", kind);
    if (memcmp(tail + 8, magic, CHECKPOINT_MAGIC_BYTES) != 0)
        return checkpoint_corrupt(e, path, "it ends early (no \"%s%c\" at its end)", kind, version);
    if (version > '0' + CHECKPOINT_FORMAT)
        return err_set(e, ERR_NEWER,
                       "%s: a newer release wrote it, in format %d; this one, " GRADWIRE_VERSION
                       ", reads formats %d to %d",
                       path, version - '0', CHECKPOINT_FORMAT_FIRST, CHECKPOINT_FORMAT);
    *format = (uint32_t)(version - '0');
    return ERR_OK;
}

uint32_t checkpoint_tail_encode(uint8_t tail[CHECKPOINT_TAIL_BYTES], const char *kind,
                                uint32_t format, const void *head, size_t head_bytes)
{
    uint32_t crc = (uint32_t)crc32_z(0, head, head_bytes);
    put_u32(tail, (uint32_t)head_bytes);
    put_u32(tail + 4, crc);
    checkpoint_magic_encode(tail + 8, kind, format);
    return crc;
}

enum err checkpoint_tail_decode(const uint8_t tail[CHECKPOINT_TAIL_BYTES], uint64_t most,
                                uint32_t *head_bytes, uint32_t *head_crc, const char *path,
                                struct errmsg *e)
{
    uint32_t bytes = get_u32(tail);
    if (bytes > most || bytes > CHECKPOINT_HEAD_MAX)
        return checkpoint_corrupt(e, path, "its head of %" PRIu32 " bytes does not fit the file",
                                  bytes);
    *head_bytes = bytes;
    *head_crc = get_u32(tail + 4);
    return ERR_OK;
}

static void *allocate(void *ctx, size_t bytes)
{
    void *p = mem_zalloc(1, bytes);
    if (!p && ctx)
        *(bool *)ctx = true;
    return p;
}

static void release(void *ctx, void *p)
{
    (void)ctx;
    mem_free(p);
}

ProtobufCAllocator checkpoint_allocator(bool *failed)
{
    return (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = failed};
}

/* ---- names ---- */

bool cut_file_shard(const char *file, uint32_t *shard)
{
    char again[STORE_NAME_MAX];
    unsigned number;
    if (sscanf(file, "shard-%u.gw", &number) != 1)
        return false;
    (void)snprintf(again, sizeof again, "shard-%u.gw", number);
    if (strcmp(file, again) != 0)
        return false;
    *shard = number;
    return true;
}

bool cut_file_is_shard(const char *file)
{
    uint32_t shard;
    return cut_file_shard(file, &shard);
}

bool cut_file_is_manifest(const char *file)
{
    return strcmp(file, CHECKPOINT_MANIFEST) == 0;
}

bool cut_file_is_of_place(const char *file)
{
    return strcmp(file, CHECKPOINT_INDEX) == 0 || strcmp(file, CHECKPOINT_DATA_ENCODING) == 0;
}

bool cut_file_is_encoding(const char *file)
{
    return strcmp(file, CHECKPOINT_ENCODING) == 0;
}
