/* Happy path: walk through the groups, list the arrays of floats, write the header, then each array.
 * Failure modes: the file is damaged, or asks for more than the limits; then the output is incomplete, and its owner
 * removes it. */
#include "formats/hdf5/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/tensors/tensors.h"

enum { DEPTH_MAX = 64, OBJECTS_MAX = 1 << 17 };
/* Arrays may be compressed. More than this is no model but a small file that fills a disk. */
#define BYTES_MAX(file_bytes) (((uint64_t)64 << 20) + 64 * (file_bytes))

#define IMAGE_BYTES_MAX ((size_t)1 << 36)

struct walk {
    const char *from;
    struct tensors list;
    uint32_t objects;
    uint64_t most;                     /* bytes of all arrays */
    uint64_t array_bytes, chunk_bytes; /* of the largest one, as the library holds them */
    char path[TENSORS_NAME_MAX];
};

static enum err damaged(const struct walk *w, struct errmsg *e)
{
    return err_set(e, ERR_CORRUPT, "%s: %s%.200s is damaged", w->from, *w->path ? "" : "the file",
                   w->path);
}

static enum err refuse(const struct walk *w, const char *what, struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "%s: %.200s %s", w->from, w->path, what);
}

/* ---- arrays ---- */

static enum err check_filters(const struct walk *w, hid_t made, struct errmsg *e)
{
    int n = H5Pget_nfilters(made), deflates = 0;
    for (int i = 0; i < n; i++) {
        unsigned flags, config;
        size_t values = 0;
        H5Z_filter_t f = H5Pget_filter2(made, (unsigned)i, &flags, &values, NULL, 0, NULL, &config);
        if (f != H5Z_FILTER_DEFLATE && f != H5Z_FILTER_SHUFFLE && f != H5Z_FILTER_FLETCHER32)
            return refuse(w, "has a filter that is not read here: write it without compression", e);
        if (f == H5Z_FILTER_SHUFFLE && deflates)
            return refuse(w, "is shuffled after it was compressed: write it without compression",
                          e);
        deflates += f == H5Z_FILTER_DEFLATE;
    }
    if (deflates > 1)
        return refuse(w, "is compressed more than once", e);
    return n < 0 ? damaged(w, e) : ERR_OK;
}

/* The library holds a chunk as a whole, also where the array has only a part of it. */
static enum err note_chunk(struct walk *w, hid_t made, struct errmsg *e)
{
    hsize_t dim[H5S_MAX_RANK];
    uint64_t bytes = sizeof(double); /* at most, of a value */
    int n = H5Pget_chunk(made, H5S_MAX_RANK, dim);
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(bytes, dim[i], &bytes) || bytes > w->most)
            return refuse(w, "has chunks that a file of this size cannot fill", e);
    w->chunk_bytes = bytes > w->chunk_bytes ? bytes : w->chunk_bytes;
    return n < 0 ? damaged(w, e) : ERR_OK;
}

/* The values are in the file itself, in a form that the library reads without help. */
static enum err check_storage(struct walk *w, hid_t array, struct errmsg *e)
{
    hid_t made = H5Dget_create_plist(array);
    if (made < 0)
        return damaged(w, e);
    H5D_layout_t layout = H5Pget_layout(made);
    enum err err = check_filters(w, made, e);
    if (!err && H5Pget_external_count(made) != 0)
        err = refuse(w, "has its values in another file", e);
    if (!err && layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
        err = refuse(w, "is made of parts of other arrays", e);
    if (!err && layout == H5D_CHUNKED)
        err = note_chunk(w, made, e);
    (void)H5Pclose(made);
    return err;
}

static bool has_floats(hid_t array)
{
    hid_t type = H5Dget_type(array);
    size_t bytes = type < 0 ? 0 : H5Tget_size(type);
    bool floats = type >= 0 && H5Tget_class(type) == H5T_FLOAT && bytes > 0 && bytes <= 8;
    if (type >= 0)
        (void)H5Tclose(type);
    return floats;
}

/* Write its dimensions and their number. */
static enum err shape_of(const struct walk *w, hid_t array, uint32_t *rank, uint64_t *shape,
                         struct errmsg *e)
{
    hsize_t dim[H5S_MAX_RANK];
    hid_t space = H5Dget_space(array);
    H5S_class_t class = space < 0 ? H5S_NO_CLASS : H5Sget_simple_extent_type(space);
    int n = class == H5S_SCALAR || class == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, dim, NULL)
                                                       : -1;
    if (space >= 0)
        (void)H5Sclose(space);
    if (n < 0)
        return damaged(w, e);
    if (n > TENSORS_RANK_MAX)
        return refuse(w, "has too many dimensions", e);
    *rank = (uint32_t)n;
    for (int i = 0; i < n; i++)
        shape[i] = dim[i];
    return ERR_OK;
}

static enum err list_array(struct walk *w, hid_t array, struct errmsg *e)
{
    uint64_t shape[TENSORS_RANK_MAX];
    uint32_t rank = 0;
    if (!has_floats(array))
        return ERR_OK; /* a counter of the optimizer, a text */
    enum err err = shape_of(w, array, &rank, shape, e);
    if (!err)
        err = check_storage(w, array, e);
    if (err)
        return err;
    uint64_t before = w->list.bytes;
    err = tensors_add(&w->list, w->path, rank, shape, e);
    if (!err && w->list.bytes - before > w->array_bytes)
        w->array_bytes = w->list.bytes - before;
    if (!err && w->list.bytes > w->most)
        return refuse(w, "has more values than a file of this size can be trusted with", e);
    return err ? err_wrap(e, err, "%s: ", w->from) : ERR_OK;
}

/* ---- groups ---- */

struct visit {
    struct walk *w;
    uint32_t depth;
    enum err err;
    struct errmsg *e;
};

static enum err list_group(struct walk *w, hid_t group, uint32_t depth, struct errmsg *e);

/* The object of a link. w->path names it. */
static enum err list_object(struct walk *w, hid_t group, const char *name, const H5L_info_t *link,
                            uint32_t depth, struct errmsg *e)
{
    if (link->type != H5L_TYPE_HARD)
        return refuse(w, "is a link to another place, which is not followed", e);
    if (++w->objects > OBJECTS_MAX)
        return refuse(w, "and the objects before it are too many", e);
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0)
        return damaged(w, e);
    H5I_type_t type = H5Iget_type(object);
    enum err err = ERR_OK;
    if (type == H5I_GROUP)
        err = list_group(w, object, depth + 1, e);
    else if (type == H5I_DATASET)
        err = list_array(w, object, e);
    (void)H5Oclose(object);
    return err;
}

/* H5Literate's callback: 0 goes on. */
static herr_t on_link(hid_t group, const char *name, const H5L_info_t *link, void *arg)
{
    struct visit *v = arg;
    struct walk *w = v->w;
    size_t before = strlen(w->path), room = sizeof w->path - before;
    if (strlen(name) + 2 > room) {
        v->err = refuse(w, "has a name that is too long", v->e);
    } else {
        (void)snprintf(w->path + before, room, "%s%s", before ? "/" : "", name);
        v->err = list_object(w, group, name, link, v->depth, v->e);
        w->path[before] = '\0';
    }
    return v->err ? 1 : 0;
}

/* By H5Literate, because finding the n-th link by its number takes the library n steps. */
static enum err list_group(struct walk *w, hid_t group, uint32_t depth, struct errmsg *e)
{
    struct visit v = {.w = w, .depth = depth, .e = e};
    if (depth > DEPTH_MAX)
        return refuse(w, "is in too many groups", e);
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, on_link, &v) < 0)
        return damaged(w, e);
    return v.err;
}

/* ---- values ---- */

static enum err copy_array(struct walk *w, hid_t file, const struct tensor_entry *t, int to,
                           uint64_t at, struct errmsg *e)
{
    if (t->bytes == 0)
        return ERR_OK;
    (void)snprintf(w->path, sizeof w->path, "%s", t->name);
    float *values = mem_zalloc(t->bytes, 1);
    if (!values)
        return err_set(e, ERR_NOMEM, "%s: no memory for %.200s", w->from, t->name);
    hid_t array = H5Dopen2(file, t->name, H5P_DEFAULT);
    enum err err = ERR_OK;
    if (array < 0 || !hdf5_chunks_are_whole(array) ||
        H5Dread(array, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        err = damaged(w, e);
    if (array >= 0)
        (void)H5Dclose(array);
    if (!err)
        err = files_write_at(to, w->from, at + t->at, values, t->bytes, e);
    mem_free(values);
    return err;
}

static enum err copy_all(struct walk *w, hid_t file, const char *to, struct errmsg *e)
{
    uint64_t at = 0;
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: %s", to, strerror(errno));
    enum err err = tensors_write_header(&w->list, fd, to, &at, e);
    for (size_t i = 0; i < w->list.n && !err; i++)
        err = copy_array(w, file, &w->list.entry[i], fd, at, e);
    if (close(fd) != 0 && !err)
        err = err_set(e, ERR_IO, "%s: %s", to, strerror(errno));
    return err;
}

static enum err open_image(const char *from, void *image, size_t bytes, hid_t *file,
                           struct errmsg *e)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    enum err err = ERR_OK;
    if (access < 0 || H5Pset_fapl_core(access, 1 << 16, false) < 0 ||
        H5Pset_file_image(access, image, bytes) < 0)
        err = err_memory_of(e, from);
    else if ((*file = H5Fopen(HDF5_IMAGE, H5F_ACC_RDONLY, access)) < 0)
        err = err_set(e, ERR_INPUT, "%s: not an HDF5 file, or a damaged one", from);
    if (access >= 0)
        (void)H5Pclose(access);
    return err;
}

static enum err open_file(const char *from, hid_t *file, uint64_t *bytes, struct errmsg *e)
{
    uint8_t *image;
    size_t n;
    enum err err = files_read_regular(from, IMAGE_BYTES_MAX, &image, &n, e);
    if (err)
        return err == ERR_NOTFOUND || err == ERR_TOOBIG ? ERR_INPUT : err;
    err = n == 0 ? err_set(e, ERR_INPUT, "%s: not an HDF5 file: it is empty", from)
                 : open_image(from, image, n, file, e);
    mem_free(image);
    *bytes = n;
    return err;
}

enum err hdf5_read(const char *from, const char *to, struct errmsg *e)
{
    uint64_t bytes = 0;
    hid_t file = -1;
    enum err err = open_file(from, &file, &bytes, e);
    if (err)
        return err;
    struct walk w = {.from = from, .most = BYTES_MAX(bytes)};
    hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    err = root < 0 ? damaged(&w, e) : list_group(&w, root, 0, e);
    if (root >= 0)
        (void)H5Gclose(root);
    hdf5_limit_memory(w.array_bytes + 4 * w.chunk_bytes);
    if (!err)
        err = copy_all(&w, file, to, e);
    tensors_close(&w.list);
    (void)H5Fclose(file);
    return err;
}
