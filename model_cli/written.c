#include "model_cli/written.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "export/export.h"

enum { PATH_BYTES = 4400 };

/* "": the file has no digest. */
static enum err noted(const char *path, char digest[static SHA256_HEX_BYTES], struct errmsg *e)
{
    bool there;
    enum err err = export_note(path, "digest", digest, SHA256_HEX_BYTES, &there, e);
    if (err || !there)
        *digest = '\0';
    return err;
}

/* *same: w has the digest. */
static enum err compare(const struct layout *l, const float *w, const char *digest, bool *same,
                        struct errmsg *e)
{
    char is[SHA256_HEX_BYTES];
    export_digest(l, w, NULL, is);
    *same = strcmp(is, digest) == 0;
    return *is ? ERR_OK : err_set(e, ERR_NOMEM, "no memory to check the weights");
}

/* Read the file again, between two readings of its digest: a job that runs replaces it. */
static enum err read_again(const struct layout *l, const char *path, const char *before, float *w,
                           struct errmsg *e)
{
    char after[SHA256_HEX_BYTES];
    bool same = false;
    enum err err = export_read_safetensors(path, l, w, e);
    if (!err)
        err = compare(l, w, before, &same, e);
    if (!err)
        err = noted(path, after, e);
    if (err || same || strcmp(before, after) != 0)
        return err;
    return err_set(e, ERR_CORRUPT,
                   "%s is damaged: its content is not what was written (by its digest)", path);
}

static enum err check_digest(const struct folder *f, struct errmsg *e)
{
    const struct layout *l = model_layout(f->model);
    char path[PATH_BYTES], digest[SHA256_HEX_BYTES];
    bool same = false;
    (void)snprintf(path, sizeof path, "%s/weights.safetensors", f->path);
    enum err err = noted(path, digest, e);
    if (!err && *digest)
        err = compare(l, f->w, digest, &same, e);
    if (err || !*digest || same)
        return err;
    float *w = mem_floats(l->elems);
    err = w ? read_again(l, path, digest, w, e)
            : err_set(e, ERR_NOMEM, "%s: no memory for the weights", path);
    mem_free(w);
    return err;
}

enum err written_check(const struct folder *f, struct errmsg *e)
{
    bool there;
    enum err err = model_manifest_check(f->path, &there, e);
    if (err || there || model_layout(f->model)->rows)
        return err;
    return check_digest(f, e);
}
