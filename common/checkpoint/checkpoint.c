/* Complete checkpoints: the manifest, the files that it lists, and the directory of all cuts. */
#include "common/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"

enum err checkpoint_publish(const struct place *place, const struct manifest *m, struct errmsg *e)
{
    char name[PLACE_NAME_MAX];
    uint8_t *data;
    size_t bytes;
    enum err err = manifest_encode(m, &data, &bytes, e);
    if (err)
        return err;
    cut_object(name, m->cut, CHECKPOINT_MANIFEST);
    err = place_put(place, name, data, bytes, e);
    mem_free(data);
    return err;
}

/* ---- encoding.json: the manifest has its size and checksum, so that weights are never used with another encoding ---- */

enum err checkpoint_write_encoding(struct cut c, const char *text, size_t bytes,
                                   struct manifest_encoding *f, struct errmsg *e)
{
    char name[PLACE_NAME_MAX];
    cut_object(name, c.id, CHECKPOINT_ENCODING);
    enum err err = place_put(c.at, name, text, bytes, e);
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

enum err checkpoint_read_encoding(const struct place *place, const struct manifest *m, char **text,
                                  size_t *bytes, struct errmsg *e)
{
    char name[PLACE_NAME_MAX], path[FILES_PATH_MAX];
    uint8_t *data;
    size_t n;
    cut_object(name, m->cut, CHECKPOINT_ENCODING);
    enum err err = place_path(place, name, path, e);
    if (!err)
        err = place_get(place, name, m->encoding.bytes, &data, &n, e);
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

enum err checkpoint_load_manifest(struct cut c, struct manifest *m, struct errmsg *e)
{
    enum { MOST = CHECKPOINT_MAGIC_BYTES + CHECKPOINT_HEAD_MAX + CHECKPOINT_TAIL_BYTES };
    char name[PLACE_NAME_MAX], path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    cut_object(name, c.id, CHECKPOINT_MANIFEST);
    enum err err = place_path(c.at, name, path, e);
    if (!err)
        err = place_get(c.at, name, MOST, &data, &bytes, e);
    if (err == ERR_TOOBIG)
        return checkpoint_corrupt(e, path, "it is too long");
    if (err)
        return err;
    struct manifest made;
    err = manifest_decode(data, bytes, path, &made, e);
    mem_free(data);
    if (err)
        return err;
    if (made.cut != c.id) {
        err = checkpoint_corrupt(e, path, "it belongs to checkpoint %" PRIu64, made.cut);
        manifest_close(&made);
        return err;
    }
    *m = made;
    return ERR_OK;
}

enum err checkpoint_check_files(const struct place *place, const struct manifest *m, uint32_t *bad,
                                struct errmsg *e)
{
    for (uint32_t i = 0; i < m->files; i++) {
        struct shard_file f;
        enum err err = shard_file_open_checked(&f, place, m, &m->file[i], e);
        if (err) {
            *bad = i;
            return err;
        }
        shard_file_close(&f);
    }
    return ERR_OK;
}

enum err checkpoint_load(struct cut c, struct manifest *m, struct errmsg *e)
{
    struct manifest made;
    enum err err = checkpoint_load_manifest(c, &made, e);
    if (err)
        return err;
    uint32_t bad;
    err = checkpoint_check_files(c.at, &made, &bad, e);
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

enum err checkpoint_read_learned(const struct place *place, const struct manifest *m,
                                 const struct optimizer *o, float *w, struct errmsg *e)
{
    float *slot[OPTIMIZER_SLOTS_MAX] = {0};
    uint32_t average = optimizer_average_slot(o);
    if (average == UINT32_MAX)
        return checkpoint_read(place, m, 0, m->total_elems, w, NULL, e);
    slot[average] = w;
    return checkpoint_read(place, m, 0, m->total_elems, NULL, slot, e);
}

enum err checkpoint_verify(const struct place *place, const struct manifest *m, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < m->files && !err; i++) {
        struct shard_file f;
        err = shard_file_open_checked(&f, place, m, &m->file[i], e);
        if (err)
            break;
        err = shard_file_verify(&f, e);
        shard_file_close(&f);
    }
    return err;
}

enum err checkpoint_load_whole(struct cut c, struct manifest *m, struct errmsg *e)
{
    struct manifest made;
    enum err err = checkpoint_load(c, &made, e);
    if (err)
        return err;
    char *text = NULL;
    size_t bytes;
    err = checkpoint_verify(c.at, &made, e);
    if (!err && made.encoding.bytes)
        err = checkpoint_read_encoding(c.at, &made, &text, &bytes, e);
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

enum err checkpoint_read(const struct place *place, const struct manifest *m, uint64_t first,
                         uint64_t n, float *w, float *const slot[OPTIMIZER_SLOTS_MAX],
                         struct errmsg *e)
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
        err = shard_file_open_checked(&f, place, m, file, e);
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

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Errors: as place_stat. */
static enum err find_manifest(struct cut c, int64_t *written_ms, struct errmsg *e)
{
    char name[PLACE_NAME_MAX];
    cut_object(name, c.id, CHECKPOINT_MANIFEST);
    return place_stat(c.at, name, written_ms, e);
}

bool checkpoint_published(struct cut c)
{
    int64_t written_ms;
    struct errmsg e;
    return find_manifest(c, &written_ms, &e) != ERR_NOTFOUND;
}

struct cut_list {
    uint64_t *cut;
    size_t n;
};

static enum err add_cut(void *ctx, const char *name)
{
    struct cut_list *list = ctx;
    uint64_t cut;
    if (!cut_of_name(name, &cut))
        return ERR_OK;
    uint64_t *p = mem_extend(list->cut, list->n, 1, sizeof *p);
    if (!p)
        return ERR_NOMEM;
    list->cut = p;
    p[list->n++] = cut;
    return ERR_OK;
}

/* Lists all cuts that have a folder, newest first. */
static enum err list_folders(const struct place *place, uint64_t **cuts, size_t *n,
                             struct errmsg *e)
{
    struct cut_list list = {NULL, 0};
    enum err err = place_list(place, "", add_cut, &list, e);
    if (err)
        mem_free(list.cut);
    else if (list.n)
        qsort(list.cut, list.n, sizeof *list.cut, newest_first);
    *cuts = err ? NULL : list.cut;
    *n = err ? 0 : list.n;
    return err;
}

enum err checkpoint_list(const struct place *place, uint64_t **cuts, size_t *n, struct errmsg *e)
{
    uint64_t *list;
    size_t folders, count = 0;
    enum err err = list_folders(place, &list, &folders, e);
    if (err)
        return err;
    for (size_t i = 0; i < folders; i++)
        if (checkpoint_published((struct cut){place, list[i]}))
            list[count++] = list[i];
    *cuts = list;
    *n = count;
    return ERR_OK;
}

enum err checkpoint_unfinished(const struct place *place, uint64_t above, uint64_t *cut,
                               struct errmsg *e)
{
    uint64_t *list, newest = above;
    size_t folders;
    enum err err = list_folders(place, &list, &folders, e);
    if (err)
        return err;
    for (size_t i = 0; i < folders; i++)
        if (list[i] > newest && !checkpoint_published((struct cut){place, list[i]}))
            newest = list[i];
    mem_free(list);
    *cut = newest;
    return ERR_OK;
}

/* ---- removing cuts ---- */

enum err checkpoint_hold(struct cut c, int *hold, struct errmsg *e)
{
    char name[PLACE_NAME_MAX];
    cut_object(name, c.id, CHECKPOINT_MANIFEST);
    return place_hold(c.at, name, hold, e);
}

/* Removes the manifest first, and makes that permanent: if the process is killed in between, the rest is no
 * checkpoint. */
static void remove_cut(struct cut c)
{
    char folder[PLACE_NAME_MAX], manifest[PLACE_NAME_MAX];
    struct errmsg e;
    cut_object(folder, c.id, "");
    cut_object(manifest, c.id, CHECKPOINT_MANIFEST);
    enum err err = place_remove(c.at, manifest, &e);
    if (err == ERR_STATE)
        log_debug("checkpoint %" PRIu64 " is being read: it is removed later", c.id);
    else if (err && err != ERR_NOTFOUND)
        log_warn("%s", e.text);
    else
        place_clear(c.at, folder, false);
}

static void remove_leftovers(struct cut c)
{
    char folder[PLACE_NAME_MAX];
    cut_object(folder, c.id, "");
    place_clear(c.at, folder, true);
}

struct published {
    uint64_t cut;
    int64_t written_ms; /* the time of its manifest */
    bool stays;
};

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

void checkpoint_prune(const struct place *place, uint32_t keep)
{
    const uint64_t STAYS = UINT64_MAX;
    struct errmsg e;
    uint64_t *cuts;
    size_t n;
    if (list_folders(place, &cuts, &n, &e)) {
        log_warn("%s", e.text);
        return;
    }
    struct published *all = mem_zalloc(n + 1, sizeof *all);
    size_t count = 0, k = 0;
    for (size_t i = 0; all && i < n; i++) {
        int64_t written_ms;
        enum err err = find_manifest((struct cut){place, cuts[i]}, &written_ms, &e);
        if (!err) {
            all[count++] = (struct published){cuts[i], written_ms, false};
        } else if (err != ERR_NOTFOUND) { /* it may be whole */
            log_warn("%s", e.text);
            cuts[i] = STAYS;
        }
    }
    if (all)
        mark_staying(all, count, keep);
    /* A folder newer than the newest published cut may be just being written. */
    for (size_t i = 0; count > 0 && i < n; i++) {
        bool is = k < count && all[k].cut == cuts[i];
        if (is && all[k].stays)
            remove_leftovers((struct cut){place, cuts[i]});
        else if (k > 0 && cuts[i] != STAYS)
            remove_cut((struct cut){place, cuts[i]});
        k += is;
    }
    mem_free(all);
    mem_free(cuts);
}

void checkpoint_discard(struct cut c)
{
    if (!checkpoint_published(c))
        remove_cut(c);
}
