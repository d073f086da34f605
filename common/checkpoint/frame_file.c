#include "common/checkpoint/frame_file.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/mem.h"

static enum err zstd_error(const char *path, size_t r, struct errmsg *e)
{
    if (ZSTD_getErrorCode(r) == ZSTD_error_memory_allocation)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    return err_set(e, ERR_IO, "%s: zstd: %s", path, ZSTD_getErrorName(r));
}

enum err frame_file_open(struct frame_file *f, const char *path, size_t largest, struct errmsg *e)
{
    *f = (struct frame_file){.file.fd = -1};
    f->packed_room = ZSTD_compressBound(largest);
    f->zstd = ZSTD_createCCtx();
    f->packed = mem_resize(NULL, f->packed_room, 1);
    if (!f->zstd || !f->packed)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    size_t r = ZSTD_CCtx_setParameter(f->zstd, ZSTD_c_compressionLevel, 1);
    if (!ZSTD_isError(r))
        r = ZSTD_CCtx_setParameter(f->zstd, ZSTD_c_checksumFlag, 1);
    if (ZSTD_isError(r))
        return zstd_error(path, r, e);
    return files_begin(&f->file, path, e);
}

void frame_file_close(struct frame_file *f)
{
    files_abort(&f->file);
    ZSTD_freeCCtx(f->zstd);
    mem_free(f->packed);
}

enum err frame_file_append(struct frame_file *f, const void *plain, size_t bytes, uint64_t *stored,
                           uint32_t *crc, struct errmsg *e)
{
    size_t r = ZSTD_compress2(f->zstd, f->packed, f->packed_room, plain, bytes);
    if (ZSTD_isError(r))
        return zstd_error(f->file.path, r, e);
    *stored = r;
    *crc = (uint32_t)crc32_z(0, f->packed, r);
    return files_append(&f->file, f->packed, r, e);
}
