/* idx, the format of MNIST (Yann LeCun's page "The MNIST database", "the IDX file format"): big-endian; two zero
 * bytes, the type of an element, the rank, a u32 for each dimension, then the elements. */
#include "data/arrays.h"

enum { IDX_MAGIC_BYTES = 4 };

static enum element type_of(uint8_t code)
{
    static const enum element types[] = {
        [0x08] = ELEMENT_U8,  [0x09] = ELEMENT_I8,  [0x0B] = ELEMENT_I16,
        [0x0C] = ELEMENT_I32, [0x0D] = ELEMENT_F32, [0x0E] = ELEMENT_F64};
    return code < sizeof types / sizeof *types ? types[code] : ELEMENT_NONE;
}

static enum err check_magic(const uint8_t m[static IDX_MAGIC_BYTES], struct errmsg *e)
{
    if (m[0] != 0 || m[1] != 0 || !type_of(m[2]))
        return err_set(e, ERR_INPUT,
                       "not an idx file: it begins with %02x %02x %02x %02x, not with 00 00 and a "
                       "type: 08, 09, 0b, 0c, 0d or 0e",
                       m[0], m[1], m[2], m[3]);
    if (m[3] == 0 || m[3] > ARRAY_RANK_MAX)
        return err_set(e, ERR_INPUT, "it has %u dimensions, not 1 (labels) or 2 to %d (rows)", m[3],
                       ARRAY_RANK_MAX);
    return ERR_OK;
}

/* Read the header, also into f->tag. */
static enum err read_header(struct array_file *f, struct stream *s, struct errmsg *e)
{
    size_t got;
    uint32_t dim[ARRAY_RANK_MAX];
    enum err err = stream_read(s, f->tag, IDX_MAGIC_BYTES, &got, e);
    if (!err && got < IDX_MAGIC_BYTES)
        err = err_set(e, ERR_INPUT, "not an idx file: it has %zu bytes, less than a header", got);
    if (!err)
        err = check_magic(f->tag, e);
    if (err)
        return err;
    uint32_t rank = f->tag[3];
    f->type = type_of(f->tag[2]);
    f->tag_bytes = f->header_bytes = IDX_MAGIC_BYTES + 4 * (size_t)rank;
    err = array_read_exactly(s, f->tag + IDX_MAGIC_BYTES, 4 * (size_t)rank, IDX_MAGIC_BYTES,
                             f->header_bytes, e);
    for (uint32_t i = 0; i < rank && !err; i++) {
        const uint8_t *b = f->tag + IDX_MAGIC_BYTES + 4 * i;
        dim[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return err ? err : array_set_dims(f, rank, dim, e);
}

static enum err idx_open(struct array_file *f, struct stream **out, struct errmsg *e)
{
    struct stream *s;
    enum err err = stream_open(&s, f->path, e);
    if (err)
        return err;
    err = read_header(f, s, e);
    if (!err)
        err = array_check_size(f, s, e);
    if (err) {
        stream_close(s);
        return err_wrap(e, err, "%s: ", f->path);
    }
    *out = s;
    return ERR_OK;
}

static enum err idx_load(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    static const struct array_format format = {.name = "idx files", .open = idx_open};
    return arrays_load(d, r, &format, e);
}

const struct reader_type reader_idx = {.load = idx_load};
