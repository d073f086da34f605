/* libhdf5 takes what a compressed chunk unpacks to: of one that is too short the rest is whatever the memory had, and what is
 * too long, or follows the compressed data, is dropped. So each chunk is unpacked once more here, and measured. */
#include "formats/hdf5/program.h"

#include <string.h>

#include <zlib.h>

#include "common/base/mem.h"

enum { FILTERS_MAX = 32 /* H5Z_MAX_NFILTERS */, FLETCHER_BYTES = 4 };

struct chunks {
    hid_t array;
    int rank, filters;
    hsize_t extent[H5S_MAX_RANK], dim[H5S_MAX_RANK]; /* of the array, and of a chunk */
    uint64_t bytes;                                  /* of a chunk, unpacked */
    H5Z_filter_t filter[FILTERS_MAX];
};

/* ---- one chunk ---- */

/* The bytes to which all of `in` unpacks, up to `most`; UINT64_MAX: it does not end there, or is damaged. */
static uint64_t unpacked(uint8_t *in, uint64_t bytes, uint64_t most)
{
    static uint8_t out[1 << 16];
    z_stream z = {.next_in = in, .avail_in = (unsigned)bytes};
    int code = bytes <= UINT32_MAX ? inflateInit(&z) : Z_BUF_ERROR;
    if (code != Z_OK)
        return UINT64_MAX;
    while (code == Z_OK && z.total_out <= most) {
        z.next_out = out;
        z.avail_out = sizeof out;
        code = inflate(&z, Z_NO_FLUSH);
    }
    bool whole = code == Z_STREAM_END && z.avail_in == 0;
    uint64_t n = z.total_out;
    (void)inflateEnd(&z);
    return whole ? n : UINT64_MAX;
}

/* `skipped`: bit i is set if filter i was not applied to this chunk. */
static bool fills(const struct chunks *c, uint8_t *stored, uint64_t bytes, uint32_t skipped)
{
    uint64_t most = c->bytes + FILTERS_MAX * FLETCHER_BYTES;
    for (int i = c->filters - 1; i >= 0; i--) {
        if (skipped >> i & 1)
            continue;
        if (c->filter[i] == H5Z_FILTER_DEFLATE)
            bytes = unpacked(stored, bytes, most);
        else if (c->filter[i] == H5Z_FILTER_FLETCHER32)
            bytes = bytes == UINT64_MAX ? bytes : bytes - FLETCHER_BYTES;
    }
    return bytes == c->bytes;
}

/* Chunks that were never written have no place in the file. */
static bool is_whole(const struct chunks *c, const hsize_t *at, hsize_t *left)
{
    unsigned applied;
    uint32_t skipped;
    haddr_t place;
    hsize_t bytes;
    if (H5Dget_chunk_info_by_coord(c->array, at, &applied, &place, &bytes) < 0)
        return false;
    if (place == HADDR_UNDEF)
        return true;
    --*left;
    if (bytes > c->bytes + c->bytes / 64 + 1024) /* more than zlib makes of any chunk */
        return false;
    uint8_t *stored = mem_zalloc(bytes + 1, 1);
    bool whole = stored && H5Dread_chunk(c->array, H5P_DEFAULT, at, &skipped, stored) >= 0 &&
                 fills(c, stored, bytes, skipped);
    mem_free(stored);
    return whole;
}

/* ---- all of them ---- */

/* The next chunk; false: there is none. */
static bool next(const struct chunks *c, hsize_t *at)
{
    for (int i = c->rank - 1; i >= 0; i--) {
        at[i] += c->dim[i];
        if (at[i] < c->extent[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* False: the array has no chunks that are filtered. */
static bool describe(struct chunks *c, hid_t made)
{
    unsigned flags;
    c->filters = H5Pget_layout(made) == H5D_CHUNKED ? H5Pget_nfilters(made) : 0;
    if (c->filters <= 0 || c->filters > FILTERS_MAX)
        return false;
    for (int i = 0; i < c->filters; i++) {
        size_t none = 0;
        c->filter[i] = H5Pget_filter2(made, (unsigned)i, &flags, &none, NULL, 0, NULL, NULL);
    }
    c->rank = H5Pget_chunk(made, H5S_MAX_RANK, c->dim);
    hid_t type = H5Dget_type(c->array), space = H5Dget_space(c->array);
    c->bytes = H5Tget_size(type);
    for (int i = 0; i < c->rank; i++)
        c->bytes *= c->dim[i]; /* check_storage has compared it with a limit */
    bool known = H5Sget_simple_extent_dims(space, c->extent, NULL) == c->rank;
    (void)H5Tclose(type);
    (void)H5Sclose(space);
    return known;
}

bool hdf5_chunks_are_whole(hid_t array)
{
    struct chunks c = {.array = array};
    hsize_t at[H5S_MAX_RANK] = {0}, left = 0;
    hid_t made = H5Dget_create_plist(array), space = H5Dget_space(array);
    bool whole = made >= 0 && space >= 0;
    if (whole && describe(&c, made)) {
        whole = H5Dget_num_chunks(array, space, &left) >= 0;
        while (whole && left > 0) {
            whole = is_whole(&c, at, &left);
            if (!next(&c, at))
                break;
        }
    }
    if (space >= 0)
        (void)H5Sclose(space);
    if (made >= 0)
        (void)H5Pclose(made);
    return whole;
}
