/* Complete checkpoints: the manifest, the files that it lists, and the directory of all cuts. */
#include "common/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"

enum err checkpoint_publish(const char *dir, const struct manifest *m, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    enum err err = checkpoint_path(path, dir, m->cut, CHECKPOINT_MANIFEST, e);
    if (!err)
        err = manifest_encode(m, &data, &bytes, e);
    if (err)
        return err;
    /* The shard that created the cut's directory can have died before its fsync. */
    err = files_sync_folder(dir, e);
    if (!err)
        err = files_write(path, data, bytes, e);
    mem_free(data);
    return err;
}

/* ---- encoding.json: the manifest has its size and checksum, so that weights are never used with another encoding ---- */

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

/* ---- reading ---- */

enum err checkpoint_load_manifest(const char *dir, uint64_t cut, struct manifest *m,
                                  struct errmsg *e)
{
    enum { MOST = CHECKPOINT_MAGIC_BYTES + CHECKPOINT_HEAD_MAX + CHECKPOINT_TAIL_BYTES };
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    enum err err = checkpoint_path(path, dir, cut, CHECKPOINT_MANIFEST, e);
    if (err)
        return err;
    err = files_read_regular(path, MOST, &data, &bytes, e);
    if (err == ERR_TOOBIG)
        return checkpoint_corrupt(e, path, "it is too long");
    if (err)
        return err;
    struct manifest made;
    err = manifest_decode(data, bytes, path, &made, e);
    mem_free(data);
    if (err)
        return err;
    if (made.cut != cut) {
        err = checkpoint_corrupt(e, path, "it belongs to checkpoint %" PRIu64, made.cut);
        manifest_close(&made);
        return err;
    }
    *m = made;
    return ERR_OK;
}

enum err checkpoint_check_files(const char *dir, const struct manifest *m, uint32_t *bad,
                                struct errmsg *e)
{
    for (uint32_t i = 0; i < m->files; i++) {
        struct shard_file f;
        enum err err = shard_file_open_checked(&f, dir, m, &m->file[i], e);
        if (err) {
            *bad = i;
            return err;
        }
        shard_file_close(&f);
    }
    return ERR_OK;
}

enum err checkpoint_load(const char *dir, uint64_t cut, struct manifest *m, struct errmsg *e)
{
    struct manifest made;
    enum err err = checkpoint_load_manifest(dir, cut, &made, e);
    if (err)
        return err;
    uint32_t bad;
    err = checkpoint_check_files(dir, &made, &bad, e);
    if (err)
        manifest_close(&made);
    else
        *m = made;
    return err;
}

bool checkpoint_unusable(enum err err)
{
    return err == ERR_CORRUPT || err == ERR_NOTFOUND || err == ERR_IO;
}

enum err checkpoint_read_learned(const char *dir, const struct manifest *m,
                                 const struct optimizer *o, float *w, struct errmsg *e)
{
    float *slot[OPTIMIZER_SLOTS_MAX] = {0};
    uint32_t average = optimizer_average_slot(o);
    if (average == UINT32_MAX)
        return checkpoint_read(dir, m, 0, m->total_elems, w, NULL, e);
    slot[average] = w;
    return checkpoint_read(dir, m, 0, m->total_elems, NULL, slot, e);
}

enum err checkpoint_verify(const char *dir, const struct manifest *m, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < m->files && !err; i++) {
        struct shard_file f;
        err = shard_file_open_checked(&f, dir, m, &m->file[i], e);
        if (err)
            break;
        err = shard_file_verify(&f, e);
        shard_file_close(&f);
    }
    return err;
}

enum err checkpoint_load_whole(const char *dir, uint64_t cut, struct manifest *m, struct errmsg *e)
{
    struct manifest made;
    enum err err = checkpoint_load(dir, cut, &made, e);
    if (err)
        return err;
    char *text = NULL;
    size_t bytes;
    err = checkpoint_verify(dir, &made, e);
    if (!err && made.encoding.bytes)
        err = checkpoint_read_encoding(dir, &made, &text, &bytes, e);
    mem_free(text);
    if (err)
        manifest_close(&made);
    else
        *m = made;
    return err;
}

/* Reads the intersection of [first, first + n) and this file into w and the slots. */
static enum err read_overlap(struct shard_file *f, const struct checkpoint_file *file,
                             uint64_t first, uint64_t n, float *w,
                             float *const slot[OPTIMIZER_SLOTS_MAX], struct errmsg *e)
{
    uint64_t from = file->first_elem > first ? file->first_elem : first;
    uint64_t file_end = file->first_elem + file->elems, end = first + n;
    uint64_t count = (file_end < end ? file_end : end) - from;
    enum err err = ERR_OK;
    if (w)
        err = shard_file_read(f, 0, from - file->first_elem, count, w + (from - first), e);
    for (uint32_t i = 0; slot && i < OPTIMIZER_SLOTS_MAX && !err; i++)
        if (slot[i])
            err = shard_file_read(f, 1 + i, from - file->first_elem, count,
                                  slot[i] + (from - first), e);
    return err;
}

enum err checkpoint_read(const char *dir, const struct manifest *m, uint64_t first, uint64_t n,
                         float *w, float *const slot[OPTIMIZER_SLOTS_MAX], struct errmsg *e)
{
    if (first > m->total_elems || n > m->total_elems - first)
        return err_set(e, ERR_STATE,
                       "checkpoint %" PRIu64 " has %" PRIu64 " elements, not %" PRIu64
                       " from %" PRIu64,
                       m->cut, m->total_elems, n, first);
    for (uint32_t i = m->slots; slot && i < OPTIMIZER_SLOTS_MAX; i++)
        if (slot[i])
            return err_set(e, ERR_STATE, "checkpoint %" PRIu64 " has %" PRIu32 " slots", m->cut,
                           m->slots);
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < m->files && !err; i++) {
        const struct checkpoint_file *file = &m->file[i];
        if (file->first_elem >= first + n || file->first_elem + file->elems <= first)
            continue;
        struct shard_file f;
        err = shard_file_open_checked(&f, dir, m, file, e);
        if (err)
            break;
        err = read_overlap(&f, file, first, n, w, slot, e);
        shard_file_close(&f);
    }
    return err;
}

/* ---- the directory of all cuts ---- */

/* Parses "cut-0000000012" into 12. */
static bool cut_of_name(const char *name, uint64_t *cut)
{
    char again[32];
    if (sscanf(name, "cut-%" SCNu64, cut) != 1)
        return false;
    (void)snprintf(again, sizeof again, "cut-%010" PRIu64, *cut);
    return strcmp(name, again) == 0;
}

static int is_cut(const struct dirent *entry)
{
    uint64_t cut;
    return cut_of_name(entry->d_name, &cut);
}

/* A manifest that cannot be seen for another reason than that there is none counts: who reads it says why. */
static bool is_published(const char *dir, uint64_t cut)
{
    char path[FILES_PATH_MAX];
    return checkpoint_path(path, dir, cut, CHECKPOINT_MANIFEST, NULL) == ERR_OK &&
           files_may_be(path);
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Lists all cuts that have a directory, newest first. */
static enum err list_folders(const char *dir, uint64_t **cuts, size_t *n, struct errmsg *e)
{
    *cuts = NULL;
    *n = 0;
    struct dirent **entry;
    int found = scandir(dir, &entry, is_cut, NULL);
    if (found < 0)
        return errno == ENOENT ? ERR_OK : files_read_error(dir, e);
    uint64_t *list = mem_zalloc((size_t)found, sizeof *list);
    for (int i = 0; i < found; i++) {
        if (list)
            (void)cut_of_name(entry[i]->d_name, &list[i]);
        free(entry[i]);
    }
    free(entry);
    if (!list)
        return err_memory_of(e, dir);
    qsort(list, (size_t)found, sizeof *list, newest_first);
    *cuts = list;
    *n = (size_t)found;
    return ERR_OK;
}

enum err checkpoint_list(const char *dir, uint64_t **cuts, size_t *n, struct errmsg *e)
{
    uint64_t *list;
    size_t folders, count = 0;
    enum err err = list_folders(dir, &list, &folders, e);
    if (err)
        return err;
    for (size_t i = 0; i < folders; i++)
        if (is_published(dir, list[i]))
            list[count++] = list[i];
    *cuts = list;
    *n = count;
    return ERR_OK;
}

enum err checkpoint_unfinished(const char *dir, uint64_t above, uint64_t *cut, struct errmsg *e)
{
    uint64_t *list, newest = above;
    size_t folders;
    enum err err = list_folders(dir, &list, &folders, e);
    if (err)
        return err;
    for (size_t i = 0; i < folders; i++)
        if (list[i] > newest && !is_published(dir, list[i]))
            newest = list[i];
    mem_free(list);
    *cut = newest;
    return ERR_OK;
}

/* ---- locking a cut for reading ---- */

enum err checkpoint_hold(const char *dir, uint64_t cut, int *hold, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    struct stat now;
    enum err err = checkpoint_path(path, dir, cut, CHECKPOINT_MANIFEST, e);
    if (err)
        return err;
    int fd;
    err = files_open(path, &fd, e);
    if (err)
        return err;
    /* Waits while another process removes the cut. That process deletes the manifest before it releases its lock. */
    while (flock(fd, LOCK_SH) != 0 && errno == EINTR)
        ;
    if (fstat(fd, &now) != 0 || now.st_nlink == 0) {
        (void)close(fd);
        return err_set(e, ERR_NOTFOUND, "%s: it is being removed", path);
    }
    *hold = fd;
    return ERR_OK;
}

void checkpoint_release(int hold)
{
    (void)close(hold);
}

/* Locks a manifest for removal. Returns the descriptor; -1: a reader holds it, or this process has no free descriptor to
 * find out; -2: it cannot be opened, so there is nothing to lock. */
static int lock_for_removal(const char *manifest)
{
    /* over NFS, an exclusive lock requires a file open for writing */
    int fd = open(manifest, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_of_errno(errno) == ERR_IO ? -2 : -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return fd;
    (void)close(fd);
    return -1;
}

/* Removes the manifest first, and makes that permanent: if the process is killed in between, the rest is no
 * checkpoint. */
static void remove_cut(const char *dir, uint64_t cut)
{
    char folder[FILES_PATH_MAX], manifest[FILES_PATH_MAX];
    if (checkpoint_path(folder, dir, cut, NULL, NULL) ||
        checkpoint_path(manifest, dir, cut, CHECKPOINT_MANIFEST, NULL))
        return;
    int lock = lock_for_removal(manifest);
    if (lock == -1) {
        log_debug("checkpoint %" PRIu64 " is being read: it is removed later", cut);
        return;
    }
    bool removed = unlink(manifest) == 0;
    int why = errno;
    if (lock >= 0)
        (void)close(lock);
    errno = why;
    if (removed) {
        struct errmsg e;
        if (files_sync_folder(folder, &e)) {
            log_warn("%s", e.text);
            return;
        }
    } else if (errno != ENOENT) {
        log_warn("%s: cannot be removed: %s", manifest, strerror(errno));
        return;
    }
    files_clean(folder, false);
    if (rmdir(folder) != 0 && errno != ENOENT)
        log_warn("%s: cannot be removed: %s", folder, strerror(errno));
}

static void remove_temporary(const char *dir, uint64_t cut)
{
    char folder[FILES_PATH_MAX];
    if (checkpoint_path(folder, dir, cut, NULL, NULL) == ERR_OK)
        files_clean(folder, true);
}

struct published {
    uint64_t cut;
    int64_t written_ms; /* the time of its manifest */
    bool stays;
};

/* Returns false if it has no manifest. */
static bool written_ms(const char *dir, uint64_t cut, int64_t *ms)
{
    char path[FILES_PATH_MAX];
    struct stat is;
    if (checkpoint_path(path, dir, cut, CHECKPOINT_MANIFEST, NULL) || stat(path, &is) != 0)
        return false;
    *ms = (int64_t)is.st_mtim.tv_sec * 1000 + is.st_mtim.tv_nsec / 1000000;
    return true;
}

/* Marks the cuts that stay among `n` cuts, newest first. Frequent cuts are all young: a problem that began a
 * minute ago is in each of the newest. So the newest of the old ones stays, and the oldest of the young ones,
 * which will be old next. */
static void mark_staying(struct published *cut, size_t n, uint32_t keep)
{
    size_t stay = n > 0, old = 1;
    if (n > 0)
        cut[0].stays = true;
    while (old < n && cut[0].written_ms - cut[old].written_ms < CHECKPOINT_OLD_S * 1000)
        old++;
    for (size_t i = old > 1 ? old - 1 : old; keep >= 3 && i < n && i <= old; i++) {
        cut[i].stays = true;
        stay++;
    }
    for (size_t i = 1; i < n && stay < keep; i++) {
        stay += !cut[i].stays;
        cut[i].stays = true;
    }
}

void checkpoint_prune(const char *dir, uint32_t keep)
{
    struct errmsg e;
    uint64_t *cuts;
    size_t n;
    if (list_folders(dir, &cuts, &n, &e)) {
        log_warn("%s", e.text);
        return;
    }
    struct published *all = mem_zalloc(n + 1, sizeof *all);
    size_t count = 0, k = 0;
    for (size_t i = 0; all && i < n; i++) {
        struct published p = {.cut = cuts[i]};
        if (written_ms(dir, cuts[i], &p.written_ms))
            all[count++] = p;
    }
    if (all)
        mark_staying(all, count, keep);
    /* A directory newer than the newest published cut may be just being written. */
    for (size_t i = 0; count > 0 && i < n; i++) {
        bool is = k < count && all[k].cut == cuts[i];
        if (is && all[k].stays)
            remove_temporary(dir, cuts[i]);
        else if (k > 0)
            remove_cut(dir, cuts[i]);
        k += is;
    }
    mem_free(all);
    mem_free(cuts);
}

void checkpoint_discard(const char *dir, uint64_t cut)
{
    if (!is_published(dir, cut))
        remove_cut(dir, cut);
}
