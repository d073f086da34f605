/* The index: keys ascend in a file, so equal parts of the range of keys (the parts are a power of two wide, and at most two
 * for each key) are runs of rows, and the index has the first row of each. Hashed keys, and integers without large gaps,
 * are spread evenly: a part has a row or two, and a lookup reads one entry of the index, one or two keys, and the row. Other
 * keys need a binary search in their part. */
#include "predict/table_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/mem.h"
#include "common/rows/key.h"
#include "common/formats/safetensors.h"
#include "export/table_export.h"

enum { GROUP = 32 /* lookups that wait for memory at the same time */, FOLDER_BYTES_MAX = 4400 };
#define NO_ROW UINT64_MAX

/* One file. Arrays in it have any alignment. */
struct part {
    char *map;
    size_t map_bytes;
    const char *keys, *rows; /* in the map: (n) and (n, dim) */
    uint32_t n;
    uint64_t first_row;   /* number of rows in the files before it */
    uint64_t first, last; /* its lowest and its highest key */
    uint32_t shift;       /* a key belongs to (key - first) >> shift */
    size_t ranges;
    uint32_t *begin; /* (ranges + 1) the first row of each */
};

struct table_file {
    const struct row_table_spec *of;
    uint64_t seed, rows;
    uint32_t parts;
    struct part *part; /* (parts) in ascending order of keys */
};

static uint64_t part_key(const struct part *p, uint64_t row)
{
    uint64_t key;
    memcpy(&key, p->keys + row * sizeof key, sizeof key);
    return key;
}

/* ---- opening ---- */

/* (last - first) >> shift is below twice the number of keys. */
static void choose_ranges(struct part *p)
{
    uint64_t span = p->last - p->first;
    p->shift = 0;
    while (span >> p->shift >= 2 * (uint64_t)p->n)
        p->shift++;
    p->ranges = (size_t)(span >> p->shift) + 1;
}

static enum err make_index(struct part *p, const char *path, struct errmsg *e)
{
    if (p->n == 0)
        return ERR_OK;
    p->first = part_key(p, 0);
    p->last = part_key(p, p->n - 1);
    if (p->last < p->first)
        return err_set(e, ERR_CORRUPT, "%s: its keys do not ascend", path);
    choose_ranges(p);
    p->begin = mem_map((p->ranges + 1) * sizeof *p->begin);
    if (!p->begin)
        return err_set(e, ERR_NOMEM, "%s: no memory for an index of %u keys", path, p->n);
    size_t range = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint64_t key = part_key(p, i);
        if (key - p->first > p->last - p->first || (i > 0 && key <= before))
            return err_set(e, ERR_CORRUPT, "%s: its keys do not ascend: key %u", path, i);
        while (range <= (key - p->first) >> p->shift)
            p->begin[range++] = i;
        before = key;
    }
    p->begin[p->ranges] = p->n;
    return ERR_OK;
}

static enum err find_arrays(struct part *p, const struct safetensors *s, uint32_t dim,
                            struct errmsg *e)
{
    struct safetensors_array keys, rows = {0};
    enum err err = safetensors_array(s, "keys", "U64", 1, sizeof(uint64_t), &keys, e);
    if (!err)
        err = safetensors_array(s, "rows", "F32", 2, sizeof(float), &rows, e);
    if (err)
        return err;
    if (rows.rows != keys.rows || rows.cols != dim || keys.rows >= UINT32_MAX)
        return err_set(e, ERR_CORRUPT,
                       "%s: its rows are %" PRIu64 " x %" PRIu64 ", for %" PRIu64
                       " keys and a dimension of %u",
                       s->path, rows.rows, rows.cols, keys.rows, dim);
    p->n = (uint32_t)keys.rows;
    p->keys = p->map + keys.at;
    p->rows = p->map + rows.at;
    return ERR_OK;
}

static enum err open_part(struct part *p, const char *path, uint32_t dim, struct errmsg *e)
{
    struct safetensors s;
    enum err err = safetensors_open(&s, path, e);
    if (err)
        return err;
    p->map_bytes = (size_t)(s.data_at + s.data_bytes);
    void *map = mmap(NULL, p->map_bytes, PROT_READ, MAP_SHARED, s.fd, 0);
    if (map == MAP_FAILED)
        err = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    else
        p->map = map;
    if (!err)
        err = find_arrays(p, &s, dim, e);
    safetensors_close(&s);
    return err ? err : make_index(p, path, e);
}

/* N if `file` is NAME-00001-of-N.safetensors of the table, otherwise 0. */
static uint32_t files_by_first(const char *table, const char *file)
{
    char own[TABLE_EXPORT_NAME_MAX];
    const char *of = strstr(file, "-00001-of-");
    long n = of ? strtol(of + strlen("-00001-of-"), NULL, 10) : 0;
    if (n < 2 || n > 99999)
        return 0;
    table_export_file(table, 0, (uint64_t)n, own);
    return strcmp(own, file) == 0 ? (uint32_t)n : 0;
}

/* The number of files of the table; 1 if none is found: then that name is missing. */
static enum err count_files(const char *folder, const char *table, uint32_t *files,
                            struct errmsg *e)
{
    char one[TABLE_EXPORT_NAME_MAX];
    uint32_t n = 0;
    bool several = false;
    DIR *dir = opendir(folder);
    if (!dir)
        return err_set(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", folder,
                       strerror(errno));
    table_export_file(table, 0, 1, one);
    for (struct dirent *d; (d = readdir(dir));) {
        uint32_t is = strcmp(d->d_name, one) == 0 ? 1 : files_by_first(table, d->d_name);
        several = several || (is && n);
        n = is ? is : n;
    }
    (void)closedir(dir);
    if (several)
        return err_set(e, ERR_CORRUPT, "%s: files of table %s from two exports", folder, table);
    *files = n ? n : 1;
    return ERR_OK;
}

/* Part i, of `files`, begins after the parts before it. */
static enum err join_part(struct table_file *t, uint32_t i, uint32_t files, const char *path,
                          struct errmsg *e)
{
    struct part *p = &t->part[i];
    p->first_row = t->rows;
    t->rows += p->n;
    if (files > 1 && (p->n == 0 || (i > 0 && p->first <= t->part[i - 1].last)))
        return err_set(e, ERR_CORRUPT,
                       "%s: it has no keys, or they do not follow those of the file before it",
                       path);
    return ERR_OK;
}

static enum err open_parts(struct table_file *t, const char *folder, struct errmsg *e)
{
    uint32_t files = 0;
    enum err err = count_files(folder, t->of->name, &files, e);
    if (err)
        return err;
    t->part = mem_zalloc(files, sizeof *t->part);
    if (!t->part)
        return err_memory_of(e, folder);
    for (; t->parts < files && !err; t->parts++) {
        char name[TABLE_EXPORT_NAME_MAX], path[FOLDER_BYTES_MAX + TABLE_EXPORT_NAME_MAX];
        table_export_file(t->of->name, t->parts, files, name);
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        err = open_part(&t->part[t->parts], path, t->of->dim, e);
        if (!err)
            err = join_part(t, t->parts, files, path, e);
    }
    return err;
}

enum err table_file_open(struct table_file **out, const char *folder,
                         const struct row_table_spec *of, uint64_t seed, struct errmsg *e)
{
    struct table_file *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return err_memory_of(e, folder);
    t->of = of;
    t->seed = seed;
    enum err err = open_parts(t, folder, e);
    if (err) {
        table_file_close(t);
        return err;
    }
    *out = t;
    return ERR_OK;
}

void table_file_close(struct table_file *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->parts; i++) {
        struct part *p = &t->part[i];
        mem_unmap(p->begin, (p->ranges + 1) * sizeof *p->begin);
        if (p->map)
            (void)munmap(p->map, p->map_bytes);
    }
    mem_free(t->part);
    mem_free(t);
}

/* ---- reading ---- */

/* A lookup on its way from the key to the row. */
struct lookup {
    const struct part *part; /* NULL: no file can have the key */
    uint64_t key;
    const uint32_t *begin; /* of its range */
    uint64_t row;          /* NO_ROW: none */
};

/* The first part whose last key is not below `key`. */
static const struct part *part_of(const struct table_file *t, uint64_t key)
{
    uint32_t low = 0, high = t->parts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->part[middle].last < key)
            low = middle + 1;
        else
            high = middle;
    }
    const struct part *p = &t->part[low];
    return low < t->parts && p->n > 0 && key >= p->first ? p : NULL;
}

static struct lookup lookup_begin(const struct table_file *t, uint64_t mixed)
{
    struct lookup l = {.key = key_unmix(mixed)};
    l.part = part_of(t, l.key);
    if (l.part) {
        l.begin = l.part->begin + ((l.key - l.part->first) >> l.part->shift);
        __builtin_prefetch(l.begin);
    }
    return l;
}

/* Without a branch on the key, because no branch predictor can know it. */
static uint64_t search(const struct lookup *l)
{
    uint32_t at = l->begin[0], n = l->begin[1] - at;
    for (uint32_t half; n > 1; n -= half) {
        half = n / 2;
        at += part_key(l->part, at + half) <= l->key ? half : 0;
    }
    return n == 1 && part_key(l->part, at) == l->key ? at : NO_ROW;
}

/* The row in a table that has the keys of the table in which it was found. */
static const char *found_row(const struct table_file *t, const struct table_file *found,
                             const struct lookup *l)
{
    return t->part[l->part - found->part].rows + l->row * t->of->dim * sizeof(float);
}

static void mark_group(const struct lookup *lookup, uint32_t n, uint8_t *absent)
{
    for (uint32_t i = 0; i < n; i++)
        absent[i] &= lookup[i].row == NO_ROW;
}

/* Each loop asks memory for what the next one reads, for all lookups of the group. */
static void find_group(const struct table_file *t, const uint64_t *mixed, uint32_t n,
                       struct lookup *lookup)
{
    for (uint32_t i = 0; i < n; i++)
        lookup[i] = lookup_begin(t, mixed[i]);
    for (uint32_t i = 0; i < n; i++)
        if (lookup[i].part)
            __builtin_prefetch(lookup[i].part->keys + lookup[i].begin[0] * sizeof(uint64_t));
    for (uint32_t i = 0; i < n; i++)
        lookup[i].row = lookup[i].part ? search(&lookup[i]) : NO_ROW;
}

static void copy_group(const struct table_file *t, const struct table_file *found,
                       const struct lookup *lookup, const uint64_t *mixed, uint32_t n, float *w)
{
    for (uint32_t i = 0; i < n; i++)
        if (lookup[i].row != NO_ROW)
            __builtin_prefetch(found_row(t, found, &lookup[i]));
    for (uint32_t i = 0; i < n; i++, w += t->of->dim)
        if (lookup[i].row == NO_ROW)
            row_absent_value(t->of, t->seed, mixed[i], w);
        else
            memcpy(w, found_row(t, found, &lookup[i]), t->of->dim * sizeof *w);
}

void table_file_read_like(const struct table_file *const *t, uint32_t tables, const uint64_t *mixed,
                          uint32_t n, float *const *w, uint8_t *absent)
{
    struct lookup lookup[GROUP];
    for (uint32_t at = 0; at < n; at += GROUP) {
        uint32_t group = n - at < GROUP ? n - at : GROUP;
        find_group(t[0], mixed + at, group, lookup);
        if (absent)
            mark_group(lookup, group, absent + at);
        for (uint32_t i = 0; i < tables; i++)
            copy_group(t[i], t[0], lookup, mixed + at, group, w[i] + (size_t)at * t[i]->of->dim);
    }
}

void table_file_read(const struct table_file *t, const uint64_t *mixed, uint32_t n, float *w,
                     uint8_t *absent)
{
    table_file_read_like(&t, 1, mixed, n, &w, absent);
}

bool table_file_is_like(const struct table_file *a, const struct table_file *b)
{
    bool like = a->parts == b->parts;
    for (uint32_t i = 0; i < a->parts && like; i++) {
        const struct part *p = &a->part[i], *q = &b->part[i];
        like =
            p->n == q->n && (p->n == 0 || memcmp(p->keys, q->keys, p->n * sizeof(uint64_t)) == 0);
    }
    return like;
}

uint64_t table_file_rows(const struct table_file *t)
{
    return t->rows;
}

void table_file_row(const struct table_file *t, uint64_t i, uint64_t *key, float *w)
{
    const struct part *p = &t->part[0];
    while (i >= p->first_row + p->n)
        p++;
    *key = part_key(p, i - p->first_row);
    memcpy(w, p->rows + (i - p->first_row) * t->of->dim * sizeof *w, t->of->dim * sizeof *w);
}
