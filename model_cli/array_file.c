/* Arrays as npy and npz files. A row's numbers go to a hidden file until the number of rows is known; then the header and the numbers
 * go to the output. Words are padded to the longest one. */
#include "model_cli/array_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "common/base/printable.h"
#include "formats/keras/archive.h"

enum { COPY_BYTES = 1 << 16, CODE_BYTES = 4 };

static enum err failed(const char *what, struct errmsg *e)
{
    return err_set(e, ERR_IO, "%s: %s", what, strerror(errno));
}

/* ---- the hidden file ---- */

static int hidden_file(const char *path)
{
    char name[FILES_PATH_MAX];
    if ((size_t)snprintf(name, sizeof name, "%s%sXXXXXX", path, FILES_TEMPORARY) >= sizeof name)
        return -1;
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(name);
    return fd;
}

static enum err put_header(const struct array_file *a, int fd, uint64_t rows, struct errmsg *e)
{
    char words[16];
    struct text t = {.at = NULL};
    (void)snprintf(words, sizeof words, "<U%u", a->longest ? a->longest : 1);
    npy_file_header(&t,
                    a->kind == ARRAY_F32   ? "<f4"
                    : a->kind == ARRAY_F64 ? "<f8"
                    : a->kind == ARRAY_I64 ? "<i8"
                                           : words,
                    rows, a->rank, a->dim);
    if (t.failed)
        return err_memory(e);
    enum err err = files_put_at(fd, t.at, t.bytes, 0) < t.bytes ? failed(a->path, e) : ERR_OK;
    text_close(&t);
    return err;
}

enum err array_file_open(struct array_file *a, const char *path, struct errmsg *e)
{
    a->path = path;
    a->fd = hidden_file(path);
    if (a->fd < 0)
        return err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
    if (a->kind != ARRAY_WORDS && lseek(a->fd, NPY_HEADER_BYTES, SEEK_SET) < 0)
        return failed(path, e);
    return ERR_OK;
}

void array_file_close(struct array_file *a)
{
    if (a->fd >= 0)
        (void)close(a->fd);
    a->fd = -1;
}

/* ---- words ---- */

void array_word(struct text *t, const char *word, size_t bytes)
{
    uint32_t n = (uint32_t)bytes;
    text_add(t, &n, sizeof n);
    text_add(t, word, bytes);
}

/* Count the characters of a word; false: it is not UTF-8. */
static bool count_characters(const char *word, size_t bytes, uint32_t *count)
{
    uint32_t code;
    *count = 0;
    for (size_t at = 0, n; at < bytes; at += n, (*count)++)
        if ((n = printable_character(word + at, bytes - at, &code)) == 0)
            return false;
    return true;
}

static enum err measure_words(struct array_file *a, const struct text *t, struct errmsg *e)
{
    for (size_t at = 0; at < t->bytes;) {
        uint32_t bytes, count;
        memcpy(&bytes, t->at + at, sizeof bytes);
        const char *word = t->at + at + sizeof bytes;
        if (!count_characters(word, bytes, &count))
            return err_set(
                e, ERR_INPUT,
                "column \"%s\": a word of %u bytes is not UTF-8, as numpy's texts must be",
                SHOWN(a->name), bytes);
        a->longest = count > a->longest ? count : a->longest;
        at += sizeof bytes + bytes;
    }
    return ERR_OK;
}

enum err array_file_put(struct array_file *a, const struct text *t, struct errmsg *e)
{
    if (t->failed)
        return err_set(e, ERR_NOMEM, "out of memory for the output");
    enum err err = a->kind == ARRAY_WORDS ? measure_words(a, t, e) : ERR_OK;
    if (!err && files_put(a->fd, t->at, t->bytes) < t->bytes)
        err = failed(a->path, e);
    return err;
}

/* A word as UTF-32, with zeros up to the longest. */
static enum err write_word(const struct array_file *a, const char *word, size_t bytes, FILE *to,
                           struct errmsg *e)
{
    uint32_t code, longest = a->longest ? a->longest : 1, count = 0;
    for (size_t at = 0; at < bytes; count++) {
        at += printable_character(word + at, bytes - at, &code);
        (void)fwrite(&code, CODE_BYTES, 1, to);
    }
    for (code = 0; count < longest; count++)
        (void)fwrite(&code, CODE_BYTES, 1, to);
    return ferror(to) ? failed(a->path, e) : ERR_OK;
}

static enum err copy_words(const struct array_file *a, FILE *from, FILE *to, struct errmsg *e)
{
    struct text t = {.at = NULL};
    uint32_t bytes;
    enum err err = ERR_OK;
    while (!err && fread(&bytes, sizeof bytes, 1, from) == 1) {
        text_clear(&t);
        if (!text_reserve(&t, bytes) || fread(t.at, 1, bytes, from) != bytes)
            err = t.failed ? err_memory(e) : failed(a->path, e);
        else
            err = write_word(a, t.at, bytes, to, e);
    }
    text_close(&t);
    return !err && ferror(from) ? failed(a->path, e) : err;
}

/* Replace the words, whose lengths are now known, by an array. */
static enum err array_finish_words(struct array_file *a, uint64_t rows, const char *path,
                                   struct errmsg *e)
{
    int own = hidden_file(path), was = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
    FILE *to = own < 0 ? NULL : fdopen(own, "wb"), *from = was < 0 ? NULL : fdopen(was, "rb");
    enum err err =
        to && from && fseek(from, 0, SEEK_SET) == 0 && fseek(to, NPY_HEADER_BYTES, SEEK_SET) == 0
            ? copy_words(a, from, to, e)
            : failed(path, e);
    if (!err && fflush(to) != 0)
        err = failed(path, e);
    if (!err)
        err = put_header(a, own, rows, e);
    int done = err ? -1 : fcntl(own, F_DUPFD_CLOEXEC, 0);
    if (!err && done < 0)
        err = failed(path, e);
    if (to)
        (void)fclose(to); /* all of it is flushed */
    else if (own >= 0)
        (void)close(own);
    if (from)
        (void)fclose(from);
    else if (was >= 0)
        (void)close(was);
    if (!err) {
        array_file_close(a);
        a->fd = done;
    }
    return err;
}

static enum err array_finish(struct array_file *a, uint64_t rows, const char *path,
                             struct errmsg *e)
{
    return a->kind == ARRAY_WORDS ? array_finish_words(a, rows, path, e)
                                  : put_header(a, a->fd, rows, e);
}

/* ---- the output ---- */

enum err array_file_npy(struct array_file *a, uint64_t rows, const char *path, struct errmsg *e)
{
    struct output o;
    struct text t = {.at = NULL};
    ssize_t n = 1;
    enum err err = array_finish(a, rows, path, e);
    if (!err)
        err = output_begin(&o, path, e);
    if (err)
        return err;
    if (!text_reserve(&t, COPY_BYTES))
        err = err_memory(e);
    for (uint64_t at = 0; !err && n > 0; at += (uint64_t)n) {
        n = files_get_at(a->fd, t.at, COPY_BYTES, at);
        t.bytes = n > 0 ? (size_t)n : 0;
        err = n < 0 ? failed(a->path, e) : output_put(&o, &t, e);
    }
    text_close(&t);
    if (!err)
        err = output_end(&o, e);
    output_abort(&o);
    return err;
}

/* libzip takes a control character for the end of all UTF-8. In ASCII both encodings are the same. */
static zip_flags_t encoding_of(const char *name)
{
    while ((unsigned char)*name - 1u < 0x7f)
        name++;
    return *name ? ZIP_FL_ENC_UTF_8 : ZIP_FL_ENC_CP437;
}

/* Add an array; the archive reads it when it is closed. */
static bool zip_add_array(zip_t *zip, const struct array_file *a)
{
    char *name = NULL;
    if (asprintf(&name, "%s.npy", a->name) < 0)
        return false;
    bool added = archive_add_file(zip, name, a->fd, encoding_of(name));
    free(name);
    return added;
}

static int is_interrupted(zip_t *zip, void *ctx)
{
    (void)zip;
    (void)ctx;
    return output_interrupted();
}

/* libzip has put another file in place of the temporary one: output_end has to sync that file. */
static enum err output_adopt(struct output *o, struct errmsg *e)
{
    int fd = open(o->file.temporary, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(o->file.path, e);
    (void)close(o->file.fd);
    o->file.fd = fd;
    return ERR_OK;
}

static enum err cannot_add(zip_t *zip, const char *path, const char *name, struct errmsg *e)
{
    if (zip_error_code_zip(zip_get_error(zip)) == ZIP_ER_EXISTS)
        return err_set(
            e, ERR_INPUT,
            "%s: two of its arrays have the name \"%s\": rename the column, or the layer", path,
            SHOWN(name));
    return err_set(e, ERR_IO, "%s: the archive cannot have an array \"%s\": %s", path, SHOWN(name),
                   zip_strerror(zip));
}

/* Write the archive over the output's temporary file. */
static enum err write_zip(const struct array_file *a, uint32_t n, struct output *o,
                          struct errmsg *e)
{
    int code = 0;
    bool added = true;
    zip_t *zip = zip_open(o->file.temporary, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!zip)
        return err_set(e, ERR_IO, "%s: the archive cannot be made (error %d of libzip)",
                       o->file.path, code);
    const char *name = "";
    for (uint32_t i = 0; i < n && added; i++) {
        name = a[i].name;
        added = zip_add_array(zip, &a[i]);
    }
    /* libzip has a file of its own, and removes it if the callback returns 1 */
    added = added && zip_register_cancel_callback_with_state(zip, is_interrupted, NULL, NULL) == 0;
    output_hold();
    enum err err = ERR_OK;
    if (!added || zip_close(zip) != 0) {
        err = added ? err_set(e, ERR_IO, "%s: %s", o->file.path, zip_strerror(zip))
                    : cannot_add(zip, o->file.path, name, e);
        zip_discard(zip);
    }
    output_release();
    if (!err)
        err = output_adopt(o, e);
    return err;
}

enum err array_file_npz(struct array_file *a, uint32_t n, uint64_t rows, const char *path,
                        struct errmsg *e)
{
    struct output o;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < n && !err; i++)
        err = array_finish(&a[i], rows, path, e);
    if (!err)
        err = output_begin(&o, path, e);
    if (err)
        return err;
    err = write_zip(a, n, &o, e);
    if (!err)
        err = output_end(&o, e);
    output_abort(&o);
    return err;
}

/* ---- the header of an npy file ---- */

void npy_file_header(struct text *t, const char *descr, uint64_t rows, uint32_t rank,
                     const uint32_t *dim)
{
    enum { PREFIX_BYTES = 10, DICT_BYTES = NPY_HEADER_BYTES - PREFIX_BYTES };
    static const char prefix[PREFIX_BYTES] = {(char)0x93,       'N', 'U', 'M', 'P', 'Y', 1, 0,
                                              (char)DICT_BYTES, 0};
    char dict[DICT_BYTES + 1], others[NPY_RANK_MAX * 12 + 1] = "";
    size_t at = 0;
    assert(rank <= NPY_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++)
        at +=
            (size_t)snprintf(others + at, sizeof others - at, "%s%" PRIu32, i ? ", " : " ", dim[i]);
    int n = snprintf(dict, sizeof dict,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",%s), }", descr,
                     rows, others);
    assert(n > 0 && n < DICT_BYTES);
    memset(dict + n, ' ', (size_t)(DICT_BYTES - n));
    dict[DICT_BYTES - 1] = '\n';
    text_add(t, prefix, sizeof prefix);
    text_add(t, dict, DICT_BYTES);
}
