#include "tests/lib/idx_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

void idx_files_init(struct idx_files *f)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%s/gradwire-idx-XXXXXX", tmp ? tmp : "/tmp");
    must(mkdtemp(f->dir) != NULL, "mkdtemp");
}

void idx_files_close(struct idx_files *f)
{
    DIR *dir = opendir(f->dir);
    must(dir != NULL, f->dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    must(rmdir(f->dir) == 0, f->dir);
}

const char *idx_files_path(struct idx_files *f, const char *name)
{
    snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name);
    return f->path;
}

void idx_files_write(struct idx_files *f, const char *name, struct bytes b)
{
    FILE *file = fopen(idx_files_path(f, name), "wb");
    must(file != NULL, f->path);
    must(fwrite(b.data, 1, b.count, file) == b.count, f->path);
    must(fclose(file) == 0, f->path);
}

struct bytes idx_bytes(uint32_t rank, const uint32_t *dim, unsigned first, unsigned step,
                       unsigned modulus)
{
    size_t header = 4 + 4 * (size_t)rank, elems = 1;
    for (uint32_t i = 0; i < rank; i++)
        elems *= dim[i];
    struct bytes b = {calloc(1, header + elems), header + elems};
    must(b.data != NULL, "calloc");
    b.data[2] = 0x08;
    b.data[3] = (uint8_t)rank;
    for (uint32_t i = 0; i < 4 * rank; i++)
        b.data[4 + i] = (uint8_t)(dim[i / 4] >> (24 - 8 * (i % 4)));
    for (size_t i = 0; i < elems; i++)
        b.data[header + i] = (uint8_t)((first + i * step) % modulus);
    return b;
}

static struct bytes pack_gzip(struct bytes plain)
{
    z_stream z = {0};
    must(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
    size_t bound = deflateBound(&z, plain.count);
    struct bytes b = {malloc(bound), 0};
    must(b.data != NULL, "malloc");
    z.next_in = plain.data;
    z.avail_in = (uInt)plain.count;
    z.next_out = b.data;
    z.avail_out = (uInt)bound;
    must(deflate(&z, Z_FINISH) == Z_STREAM_END, "deflate");
    b.count = z.total_out;
    deflateEnd(&z);
    return b;
}

static struct bytes pack_zstd(struct bytes plain)
{
    size_t bound = ZSTD_compressBound(plain.count);
    struct bytes b = {malloc(bound), 0};
    ZSTD_CCtx *ctx = ZSTD_createCCtx();
    must(b.data && ctx, "malloc");
    ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
    b.count = ZSTD_compress2(ctx, b.data, bound, plain.data, plain.count);
    must(!ZSTD_isError(b.count), "ZSTD_compress2");
    ZSTD_freeCCtx(ctx);
    return b;
}

struct bytes bytes_pack(struct bytes plain, enum packing packing)
{
    if (packing == PACK_GZIP)
        return pack_gzip(plain);
    if (packing == PACK_ZSTD)
        return pack_zstd(plain);
    struct bytes b = {malloc(plain.count), plain.count};
    must(b.data != NULL, "malloc");
    memcpy(b.data, plain.data, plain.count);
    return b;
}

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

struct job idx_job(uint32_t rows, uint32_t cols, char *patterns)
{
    struct job job = {0};
    job.model.rank = 2;
    job.model.shape[0] = rows;
    job.model.shape[1] = cols;
    job.data.format = DATA_IDX;
    job.data.train = patterns;
    job.data.scale = 255;
    return job;
}
