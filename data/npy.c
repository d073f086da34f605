/* numpy's .npy and .npz (numpy's "NEP 1: A simple file format for NumPy arrays", versions 1.0 to 3.0): "\x93NUMPY",
 * the version, the header's length, a Python dictionary of descr, fortran_order and shape, then the elements. An
 * .npz is a zip archive of such files; "set.npz:x" is its member x.npy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "data/arrays.h"
#include "data/bytes/stream.h"

enum {
    NPY_MAGIC_BYTES = 8, /* including the version */
    NPY_HEADER_MAX = 4096,
    NPY_DESCR_MAX = 16,
};
static const char MAGIC[] = "\x93NUMPY";

/* ---- the dictionary ---- */

struct scan {
    const char *p; /* ends with a NUL */
};

struct npy_header {
    char descr[NPY_DESCR_MAX];
    bool records; /* descr is a list */
    bool fortran, has_descr, has_order, has_shape;
    uint32_t rank, dim[ARRAY_RANK_MAX];
};

static void skip_blanks(struct scan *s)
{
    s->p += strspn(s->p, " \t\r\n");
}

static bool take(struct scan *s, char c)
{
    skip_blanks(s);
    bool is = *s->p == c;
    s->p += is;
    return is;
}

static bool take_word(struct scan *s, const char *word)
{
    skip_blanks(s);
    bool is = strncmp(s->p, word, strlen(word)) == 0;
    s->p += is ? strlen(word) : 0;
    return is;
}

static bool take_text(struct scan *s, char *out, size_t bytes)
{
    skip_blanks(s);
    char quote = *s->p;
    if (quote != '\'' && quote != '"')
        return false;
    const char *end = strchr(s->p + 1, quote);
    size_t n = end ? (size_t)(end - s->p) - 1 : bytes;
    if (n >= bytes)
        return false;
    memcpy(out, s->p + 1, n);
    out[n] = '\0';
    s->p = end + 1;
    return true;
}

/* A list of fields is not supported, so the scan stops at it. */
static bool take_descr(struct scan *s, struct npy_header *h)
{
    skip_blanks(s);
    h->has_descr = true;
    h->records = *s->p == '[';
    return h->records || take_text(s, h->descr, sizeof h->descr);
}

static bool take_shape(struct scan *s, struct npy_header *h)
{
    h->has_shape = take(s, '(');
    while (h->has_shape && !take(s, ')')) {
        char *end;
        skip_blanks(s);
        unsigned long long n = *s->p >= '0' && *s->p <= '9' ? strtoull(s->p, &end, 10) : UINT64_MAX;
        if (n > UINT32_MAX)
            return false;
        if (h->rank < ARRAY_RANK_MAX)
            h->dim[h->rank] = (uint32_t)n;
        h->rank++;
        s->p = end + (*end == 'L'); /* written by Python 2 */
        if (!take(s, ',') && *s->p != ')')
            return false;
    }
    return h->has_shape;
}

static bool take_order(struct scan *s, struct npy_header *h)
{
    h->has_order = true;
    h->fortran = take_word(s, "True");
    return h->fortran || take_word(s, "False");
}

static bool take_entry(struct scan *s, struct npy_header *h)
{
    char key[32];
    if (!take_text(s, key, sizeof key) || !take(s, ':'))
        return false;
    if (strcmp(key, "descr") == 0)
        return !h->has_descr && take_descr(s, h);
    if (strcmp(key, "fortran_order") == 0)
        return !h->has_order && take_order(s, h);
    return strcmp(key, "shape") == 0 && !h->has_shape && take_shape(s, h);
}

static bool parse(struct npy_header *h, const char *text)
{
    struct scan s = {text};
    *h = (struct npy_header){.rank = 0};
    if (!take(&s, '{'))
        return false;
    while (!take(&s, '}')) {
        if (!take_entry(&s, h))
            return false;
        if (h->records)
            return true;
        if (!take(&s, ',') && *s.p != '}')
            return false;
    }
    skip_blanks(&s);
    return *s.p == '\0' && h->has_descr && h->has_order && h->has_shape;
}

/* ---- supported arrays ---- */

static enum element type_of(const char *descr)
{
    static const struct {
        const char *code;
        enum element type;
    } types[] = {{"b1", ELEMENT_U8},  {"u1", ELEMENT_U8},  {"u2", ELEMENT_U16},
                 {"u4", ELEMENT_U32}, {"u8", ELEMENT_U64}, {"i1", ELEMENT_I8},
                 {"i2", ELEMENT_I16}, {"i4", ELEMENT_I32}, {"i8", ELEMENT_I64},
                 {"f2", ELEMENT_F16}, {"f4", ELEMENT_F32}, {"f8", ELEMENT_F64}};
    for (size_t i = 0; *descr && strchr("<>=|", *descr) && i < sizeof types / sizeof *types; i++)
        if (strcmp(descr + 1, types[i].code) == 0)
            return types[i].type;
    return ELEMENT_NONE;
}

static enum err refuse_type(const struct npy_header *h, struct errmsg *e)
{
    if (h->records)
        return err_set(e, ERR_INPUT,
                       "its elements are records of several fields: save each field as an array");
    const char code = h->descr[0] ? h->descr[1] : '\0';
    return err_set(
        e, ERR_INPUT,
        "its elements are of type '%s'%s, which is not read: save numbers (bool, integers "
        "of 8 to 64 bits, floats of 16 to 64), as by %s",
        h->descr, strchr(h->descr, 'O') ? " (Python objects)" : "",
        code == 'U' || code == 'S'
            ? "numpy.unique(y, return_inverse=True)[1], the class numbers of texts"
        : code == 'M' || code == 'm'
            ? "(x - x.min()) / numpy.timedelta64(1, \"s\"), the seconds from the first time"
            : "x.astype(\"float32\")");
}

static enum err check(const struct npy_header *h, struct errmsg *e)
{
    if (h->records || !type_of(h->descr))
        return refuse_type(h, e);
    if (h->rank == 0 || h->rank > ARRAY_RANK_MAX)
        return err_set(e, ERR_INPUT, "it has %u dimensions, not 1 (labels) or 2 to %d (rows)",
                       h->rank, ARRAY_RANK_MAX);
    if (h->fortran && h->rank > 1)
        return err_set(e, ERR_INPUT,
                       "it is in Fortran's order, column after column: save "
                       "numpy.ascontiguousarray(x)");
    return ERR_OK;
}

/* The fingerprint has type and shape, but not their spelling in the header. */
static void set_tag(struct array_file *f, const struct npy_header *h)
{
    int n = snprintf((char *)f->tag, sizeof f->tag, "npy %s", h->descr);
    for (uint32_t i = 0; i < h->rank; i++)
        n += snprintf((char *)f->tag + n, sizeof f->tag - (size_t)n, " %u", h->dim[i]);
    f->tag_bytes = (size_t)n;
}

static enum err take_header(struct array_file *f, const char *text, struct errmsg *e)
{
    struct npy_header h;
    if (!parse(&h, text))
        return err_set(e, ERR_INPUT,
                       "its header is not as numpy writes it: a dictionary of descr, fortran_order "
                       "and shape");
    enum err err = check(&h, e);
    if (err)
        return err;
    f->type = type_of(h.descr);
    f->little = *h.descr != '>';
    f->truth = strcmp(h.descr + 1, "b1") == 0;
    set_tag(f, &h);
    return array_set_dims(f, h.rank, h.dim, e);
}

/* ---- the file ---- */

/* *bytes: length of the dictionary. */
static enum err read_magic(struct array_file *f, struct stream *s, size_t *bytes, struct errmsg *e)
{
    uint8_t m[NPY_MAGIC_BYTES], length[4] = {0};
    size_t got;
    enum err err = stream_read(s, m, sizeof m, &got, e);
    if (err)
        return err;
    if (got == sizeof m && memcmp(m, "PK\3\4", 4) == 0)
        return err_set(e, ERR_INPUT,
                       "it is a zip archive that was compressed: decompress the file");
    if (got < sizeof m || memcmp(m, MAGIC, sizeof MAGIC - 1) != 0)
        return err_set(e, ERR_INPUT, "not an npy file: it does not begin with \\x93NUMPY");
    if (m[6] < 1 || m[6] > 3)
        return err_set(e, ERR_INPUT, "its format is %u.%u; 1.0 to 3.0 are read", m[6], m[7]);
    size_t wide = m[6] == 1 ? 2 : 4;
    err = array_read_exactly(s, length, wide, sizeof m, sizeof m + wide, e);
    if (err)
        return err;
    *bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    f->header_bytes = sizeof m + wide + *bytes;
    return *bytes < NPY_HEADER_MAX
               ? ERR_OK
               : err_set(e, ERR_INPUT, "its header has %zu bytes, at most %d are read", *bytes,
                         NPY_HEADER_MAX - 1);
}

static enum err read_header(struct array_file *f, struct stream *s, struct errmsg *e)
{
    char text[NPY_HEADER_MAX] = "";
    size_t bytes = 0;
    enum err err = read_magic(f, s, &bytes, e);
    if (!err)
        err = array_read_exactly(s, (uint8_t *)text, bytes, f->header_bytes - bytes,
                                 f->header_bytes, e);
    if (!err)
        err = take_header(f, text, e);
    return err ? err : array_check_size(f, s, e);
}

static enum err npy_open(struct array_file *f, struct stream **out, struct errmsg *e)
{
    char file[PATHS_FILE_MAX];
    struct stream *s;
    const char *member = paths_member(f->path, file, sizeof file);
    enum err err = member ? stream_open_member(&s, file, member, e) : stream_open(&s, f->path, e);
    if (err)
        return err;
    err = read_header(f, s, e);
    if (err) {
        stream_close(s);
        return err_wrap(e, err, "%s: ", f->path);
    }
    *out = s;
    return ERR_OK;
}

/* ---- archives without named arrays ---- */

static enum err refuse_count(const char *path, char (*names)[ZIP_MEMBER_NAME_MAX], size_t n,
                             struct errmsg *e)
{
    char list[200] = "";
    size_t at = 0;
    for (size_t i = 0; i < n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
    if (strstr(list, "indptr") && strstr(list, "indices"))
        return err_set(e, ERR_INPUT,
                       "%s: it is a sparse matrix of scipy: save x.toarray(), or write it with "
                       "dump_svmlight_file for data.format: libsvm",
                       path);
    return err_set(e, ERR_INPUT,
                   "%s: it has %zu arrays (%s): name one of rows and one of labels, as "
                   "[%s:x, %s:y]",
                   path, n, list, path, path);
}

static enum err add_members(struct paths *to, const char *path, bool unlabeled, struct errmsg *e)
{
    char(*names)[ZIP_MEMBER_NAME_MAX], file[PATHS_FILE_MAX];
    size_t n;
    if (strlen(path) < 4 || strcmp(path + strlen(path) - 4, ".npz") != 0)
        return err_set(e, ERR_INPUT, "%s: it is a zip archive: rename it to .npz", path);
    enum err err = zip_members(path, &names, &n, e);
    if (err)
        return err;
    if (n != 2 && !(unlabeled && n == 1))
        err = refuse_count(path, names, n, e);
    for (size_t i = 0; i < n && !err; i++) {
        (void)snprintf(file, sizeof file, "%s:%s", path, names[i]);
        err = paths_add(to, file, e);
    }
    mem_free(names);
    return err;
}

static enum err npy_list(struct paths *p, bool unlabeled, struct errmsg *e)
{
    struct paths all = {0};
    enum err err = ERR_OK;
    for (size_t i = 0; i < p->count && !err; i++)
        err = zip_is_archive(p->path[i]) ? add_members(&all, p->path[i], unlabeled, e)
                                         : paths_add(&all, p->path[i], e);
    if (err) {
        paths_close(&all);
        return err;
    }
    paths_close(p);
    *p = all;
    return ERR_OK;
}

static enum err npy_load(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    static const struct array_format format = {
        .name = "arrays", .open = npy_open, .list = npy_list, .thin_labels = true};
    return arrays_load(d, r, &format, e);
}

const struct reader_type reader_npy = {.load = npy_load};
