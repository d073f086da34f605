/* Copies the tensors of a safetensors file into an HDF5 file, which is made in memory and then written. */
#include "formats/hdf5/program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/tensors/tensors.h"

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

static enum err copy_array(hid_t file, const struct making *m, const struct tensor_entry *t,
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

static enum err copy_all(const struct tensors *list, int from, uint64_t at, const char *to,
                         struct errmsg *e)
{
    struct making m;
    hid_t file = new_file();
    if (file < 0)
        return not_made(to, "the file", e);
    enum err err = making_init(&m, to, e);
    for (size_t i = 0; i < list->n && !err; i++)
        err = copy_array(file, &m, &list->entry[i], from, at, to, e);
    making_close(&m);
    if (!err)
        err = write_image(file, to, e);
    (void)H5Fclose(file);
    return err;
}

enum err hdf5_write(const char *from, const char *to, struct errmsg *e)
{
    struct tensors list = {0};
    uint64_t at = 0;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_INPUT, "%s: %s", from, strerror(errno));
    enum err err = tensors_read_header(&list, fd, from, &at, e);
    if (!err)
        err = copy_all(&list, fd, at, to, e);
    tensors_close(&list);
    (void)close(fd);
    return err;
}
