/* A cut's encoding.json. The manifest has its size and checksum, so that weights are never used with another
 * encoding. */
#include <inttypes.h>
#include <zlib.h>

#include "common/checkpoint/checkpoint_file.h"
#include "common/base/mem.h"

enum err checkpoint_write_encoding(const char *dir, uint64_t cut, const char *text, size_t bytes,
                                   struct manifest_encoding *f, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = checkpoint_path(path, dir, cut, NULL, e);
    if (!err)
        err = files_mkdirs(path, e);
    if (!err)
        err = checkpoint_path(path, dir, cut, CHECKPOINT_ENCODING, e);
    if (!err)
        err = files_write(path, text, bytes, e);
    if (!err)
        *f = (struct manifest_encoding){bytes, (uint32_t)crc32_z(0, (const uint8_t *)text, bytes)};
    return err;
}

enum err checkpoint_check_encoding(const struct manifest_encoding *f, const void *data,
                                   size_t bytes, const char *path, struct errmsg *e)
{
    if (bytes != f->bytes)
        return checkpoint_corrupt(
            e, path, "it does not have the %" PRIu64 " bytes that the manifest lists", f->bytes);
    if ((uint32_t)crc32_z(0, data, bytes) != f->crc)
        return checkpoint_corrupt(e, path, "its checksum differs from the manifest's");
    return ERR_OK;
}

enum err checkpoint_read_encoding(const char *dir, const struct manifest *m, char **text,
                                  size_t *bytes, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t n;
    enum err err = checkpoint_path(path, dir, m->cut, CHECKPOINT_ENCODING, e);
    if (!err)
        err = files_read_regular(path, m->encoding.bytes, &data, &n, e);
    if (err == ERR_NOTFOUND)
        return checkpoint_corrupt(e, path, "it is missing");
    if (err == ERR_TOOBIG)
        return checkpoint_check_encoding(&m->encoding, NULL, (size_t)m->encoding.bytes + 1, path,
                                         e);
    if (err)
        return err;
    err = checkpoint_check_encoding(&m->encoding, data, n, path, e);
    if (err) {
        mem_free(data);
        return err;
    }
    *text = (char *)data;
    *bytes = n;
    return ERR_OK;
}
