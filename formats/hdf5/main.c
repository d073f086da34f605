/* gradwire-hdf5 read FILE OUT.safetensors
 * gradwire-hdf5 write IN.safetensors FILE
 *
 * The only program that links libhdf5. The library parses files that may come from anywhere, so it runs here, in a process
 * with limits, and not in the programs that train: formats/keras/hdf5.h starts it, and takes its crash for an error of the
 * file. It writes one line to stderr if it fails; the exit codes are those of docs/reference/exit-codes.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>
#include <zlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/tensors/tensors.h"

/* The library works on files in memory: it opens none by name, and cannot write to one. This is their name, which no file
 * can have. */
#define HDF5_IMAGE "/dev/null/image"

enum { CPU_S = 60, OPEN_FILES = 32, EXIT_INPUT = 2 };
#define LIBRARY_BYTES ((uint64_t)128 << 20)
#define MEMORY_BYTES ((uint64_t)1 << 30) /* besides four times the input's size */

static void limit(__rlimit_resource_t what, uint64_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) != 0)
        return;
    if (now.rlim_max == RLIM_INFINITY || most < now.rlim_max)
        now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    (void)setrlimit(what, &now);
}

/* A file can make the library use time and memory: both end. */
static void limit_process(const char *input)
{
    struct stat st;
    uint64_t bytes = stat(input, &st) == 0 ? (uint64_t)st.st_size : 0;
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, CPU_S + (bytes >> 24));
    limit(RLIMIT_NOFILE, OPEN_FILES);
#ifndef GRADWIRE_SANITIZED /* a sanitizer maps terabytes */
    limit(RLIMIT_AS, MEMORY_BYTES + 4 * bytes);
#endif
}

/* From now on this process takes at most `bytes` more, and a little for the library: what a file says that it has is known,
 * but a compressed part can grow beyond that. */
static void limit_memory(uint64_t bytes)
{
#ifndef GRADWIRE_SANITIZED
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu", &pages) == 1)
        limit(RLIMIT_AS, pages * (uint64_t)sysconf(_SC_PAGESIZE) + LIBRARY_BYTES + bytes);
    if (f)
        (void)fclose(f);
#else
    (void)bytes;
#endif
}

/* ---- chunks of an array ---- */

/* libhdf5 takes what a compressed chunk unpacks to: of one that is too short the rest is whatever the memory had, and what is
 * too long, or follows the compressed data, is dropped. So each chunk is unpacked once more here, and measured. */

enum { FILTERS_MAX = 32 /* H5Z_MAX_NFILTERS */, FLETCHER_BYTES = 4 };

struct chunks {
    hid_t array;
    int rank, filters;
    hsize_t extent[H5S_MAX_RANK], dim[H5S_MAX_RANK]; /* of the array, and of a chunk */
    uint64_t bytes;                                  /* of a chunk, unpacked */
    H5Z_filter_t filter[FILTERS_MAX];
};

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
static bool chunk_is_whole(const struct chunks *c, const hsize_t *at, hsize_t *left)
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

/* The next chunk; false: there is none. */
static bool chunk_next(const struct chunks *c, hsize_t *at)
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
static bool chunks_describe(struct chunks *c, hid_t made)
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

/* Returns whether each chunk of the array unpacks to the size of a chunk, and nothing follows it. An array without filters
 * is whole. False also if memory runs out. */
static bool chunks_are_whole(hid_t array)
{
    struct chunks c = {.array = array};
    hsize_t at[H5S_MAX_RANK] = {0}, left = 0;
    hid_t made = H5Dget_create_plist(array), space = H5Dget_space(array);
    bool whole = made >= 0 && space >= 0;
    if (whole && chunks_describe(&c, made)) {
        whole = H5Dget_num_chunks(array, space, &left) >= 0;
        while (whole && left > 0) {
            whole = chunk_is_whole(&c, at, &left);
            if (!chunk_next(&c, at))
                break;
        }
    }
    if (space >= 0)
        (void)H5Sclose(space);
    if (made >= 0)
        (void)H5Pclose(made);
    return whole;
}

/* ---- read ---- */

/* Happy path: walk through the groups, list the arrays of floats, write the header, then each array.
 * Failure modes: the file is damaged, or asks for more than the limits; then the output is incomplete, and its owner
 * removes it. */
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
    if (array < 0 || !chunks_are_whole(array) ||
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

/* Write all arrays of floats in the HDF5 file `from` to the safetensors file `to`, as float32, by their paths in the file
 * ("layers/dense/vars/0"). Refused: links to other places than an object of the file, data in other files, filters other
 * than deflate (once), shuffle (before it) and fletcher32, chunks beyond the limit of arrays, more objects, bytes or levels than the
 * limits. Errors: ERR_INPUT, ERR_TOOBIG, ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
static enum err hdf5_read(const char *from, const char *to, struct errmsg *e)
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
    limit_memory(w.array_bytes + 4 * w.chunk_bytes);
    if (!err)
        err = copy_all(&w, file, to, e);
    tensors_close(&w.list);
    (void)H5Fclose(file);
    return err;
}

/* ---- write ---- */

/* Copies the tensors of a safetensors file into an HDF5 file, which is made in memory and then written. */
/* How objects are made: with the groups above them, and without times. */
struct making {
    hid_t link, array;
};

static enum err not_made(const char *to, const char *what, struct errmsg *e)
{
    return err_set(e, ERR_IO, "%s: %.200s cannot be written", to, what);
}

static enum err making_init(struct making *m, const char *to, struct errmsg *e)
{
    m->link = H5Pcreate(H5P_LINK_CREATE);
    m->array = H5Pcreate(H5P_DATASET_CREATE);
    if (m->link < 0 || m->array < 0 || H5Pset_create_intermediate_group(m->link, 1) < 0 ||
        H5Pset_obj_track_times(m->array, false) < 0)
        return not_made(to, "it", e);
    return ERR_OK;
}

static void making_close(struct making *m)
{
    if (m->link >= 0)
        (void)H5Pclose(m->link);
    if (m->array >= 0)
        (void)H5Pclose(m->array);
}

static enum err make_array(hid_t file, const struct making *m, const struct tensor_entry *t,
                           const float *values, const char *to, struct errmsg *e)
{
    hsize_t dim[TENSORS_RANK_MAX];
    for (uint32_t i = 0; i < t->rank; i++)
        dim[i] = t->shape[i];
    hid_t space = t->rank ? H5Screate_simple((int)t->rank, dim, NULL) : H5Screate(H5S_SCALAR);
    hid_t array = space < 0 ? -1
                            : H5Dcreate2(file, t->name, H5T_IEEE_F32LE, space, m->link, m->array,
                                         H5P_DEFAULT);
    enum err err = ERR_OK;
    if (array < 0 || H5Dwrite(array, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        err = not_made(to, t->name, e);
    if (array >= 0)
        (void)H5Dclose(array);
    if (space >= 0)
        (void)H5Sclose(space);
    return err;
}

static enum err write_array(hid_t file, const struct making *m, const struct tensor_entry *t,
                            int from, uint64_t at, const char *to, struct errmsg *e)
{
    float *values = mem_zalloc(t->bytes + 1, 1);
    if (!values)
        return err_set(e, ERR_NOMEM, "%s: no memory for %.200s", to, t->name);
    enum err err = tensors_read_values(from, t->name, values, t->bytes, at + t->at, e);
    if (!err)
        err = make_array(file, m, t, values, to, e);
    mem_free(values);
    return err;
}

/* The file is made in memory, then written. */
static enum err write_image(hid_t file, const char *to, struct errmsg *e)
{
    ssize_t bytes = H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 ? -1 : H5Fget_file_image(file, NULL, 0);
    uint8_t *image = bytes > 0 ? mem_zalloc((size_t)bytes, 1) : NULL;
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    enum err err = ERR_OK;
    if (!image || H5Fget_file_image(file, image, (size_t)bytes) != bytes)
        err = err_memory_of(e, to);
    else if (fd < 0)
        err = err_set(e, ERR_IO, "%s: %s", to, strerror(errno));
    else
        err = files_write_at(fd, to, 0, image, (size_t)bytes, e);
    if (fd >= 0 && close(fd) != 0 && !err)
        err = err_set(e, ERR_IO, "%s: %s", to, strerror(errno));
    mem_free(image);
    return err;
}

/* Returns a file in memory; negative: out of memory. */
static hid_t new_file(void)
{
    hid_t file = -1, access = H5Pcreate(H5P_FILE_ACCESS);
    if (access >= 0 && H5Pset_fapl_core(access, 1 << 20, false) >= 0)
        file = H5Fcreate(HDF5_IMAGE, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (access >= 0)
        (void)H5Pclose(access);
    return file;
}

static enum err write_all(const struct tensors *list, int from, uint64_t at, const char *to,
                          struct errmsg *e)
{
    struct making m;
    hid_t file = new_file();
    if (file < 0)
        return not_made(to, "the file", e);
    enum err err = making_init(&m, to, e);
    for (size_t i = 0; i < list->n && !err; i++)
        err = write_array(file, &m, &list->entry[i], from, at, to, e);
    making_close(&m);
    if (!err)
        err = write_image(file, to, e);
    (void)H5Fclose(file);
    return err;
}

/* Write the tensors of the safetensors file `from` to the HDF5 file `to`: a tensor "a/b/0" becomes the array 0 in the group
 * b in the group a. The file has no times: the same tensors and the same library give the same bytes. Errors: ERR_CORRUPT,
 * ERR_IO, ERR_NOMEM. */
static enum err hdf5_write(const char *from, const char *to, struct errmsg *e)
{
    struct tensors list = {0};
    uint64_t at = 0;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_INPUT, "%s: %s", from, strerror(errno));
    enum err err = tensors_read_header(&list, fd, from, &at, e);
    if (!err)
        err = write_all(&list, fd, at, to, e);
    tensors_close(&list);
    (void)close(fd);
    return err;
}

/* ---- the program ---- */

/* No messages of the library itself, and no code from plugins. */
static int quiet_library(void)
{
    return H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0 &&
           H5PLset_loading_state(0) >= 0;
}

int main(int argc, char **argv)
{
    struct errmsg e = {""};
    enum err err;
    if (argc != 4 || (strcmp(argv[1], "read") != 0 && strcmp(argv[1], "write") != 0)) {
        (void)fputs("usage: gradwire-hdf5 read FILE OUT.safetensors\n"
                    "       gradwire-hdf5 write IN.safetensors FILE\n",
                    stderr);
        return EXIT_INPUT;
    }
    limit_process(argv[2]);
    if (!quiet_library())
        err = err_set(&e, ERR_NOMEM, "the library HDF5 does not start");
    else
        err = strcmp(argv[1], "read") == 0 ? hdf5_read(argv[2], argv[3], &e)
                                           : hdf5_write(argv[2], argv[3], &e);
    if (err)
        (void)fprintf(stderr, "%s\n", e.text);
    return err_exit_code(err);
}
