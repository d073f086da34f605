/* Files that are one file by device and inode, and files of the same contents; and the files that a part has. */
#include "data/readers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/mem.h"
#include "common/process/paths.h"

struct file {
    dev_t device;
    ino_t inode;
    const char *member; /* of an archive; "": all of the file */
    const char *path;
    size_t place; /* in its list */
};

/* False: it is not there any more, or is no file. */
static bool find(struct file *out, const char *path, size_t place)
{
    char name[PATHS_FILE_MAX];
    struct stat s;
    const char *member = paths_member(path, name, sizeof name);
    if (stat(name, &s) != 0 || !S_ISREG(s.st_mode))
        return false;
    *out = (struct file){s.st_dev, s.st_ino, member ? member : "", path, place};
    return true;
}

static int compare_identity(const struct file *a, const struct file *b)
{
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    return strcmp(a->member, b->member);
}

static int compare(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    int order = compare_identity(x, y);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* The files that are there, sorted: their number in *n. NULL: no memory. */
static struct file *list(const char *const *path, size_t count, size_t *n)
{
    struct file *files = mem_zalloc(count, sizeof *files);
    *n = 0;
    for (size_t i = 0; files && i < count; i++)
        *n += find(&files[*n], path[i], i);
    if (*n)
        qsort(files, *n, sizeof *files, compare);
    return files;
}

static bool is_same(const char *a, const char *b)
{
    struct file x, y;
    return find(&x, a, 0) && find(&y, b, 0) && compare_identity(&x, &y) == 0;
}

/* " (and 3 more files)". Returns out. */
static const char *more(char out[static 48], size_t files)
{
    *out = '\0';
    if (files > 1)
        (void)snprintf(out, 48, " (and %zu more file%s)", files - 1, files > 2 ? "s" : "");
    return out;
}

static enum err warn_twice(const struct reading *r, const char *const *path,
                           const char *const *with, size_t count, struct errmsg *e)
{
    const struct file *first = NULL, *again = NULL;
    size_t n, found = 0;
    struct file *files = list(path, count, &n);
    char rest[48];
    if (!files)
        return err_memory(e);
    for (const struct file *a = files, *b = files + 1; b < files + n; a++, b++) {
        if (compare_identity(a, b) != 0 || (with && !is_same(with[a->place], with[b->place])))
            continue;
        found++;
        if (!first || a->place < first->place) {
            first = a;
            again = b;
        }
    }
    if (first && strcmp(first->path, again->path) == 0)
        dataset_warn(r, "%s: %s is named twice%s, so its rows count twice; name it once", r->key,
                     first->path, more(rest, found));
    else if (first)
        dataset_warn(r, "%s: %s and %s are one file%s, so its rows count twice; name it once",
                     r->key, first->path, again->path, more(rest, found));
    mem_free(files);
    return ERR_OK;
}

static int compare_files(const void *a, const void *b)
{
    return compare_identity(a, b);
}

/* The files as the job names them: an archive can be named without its members. */
static enum err warn_learned(const struct reading *r, const struct paths *eval,
                             const struct paths *train, struct errmsg *e)
{
    size_t n, found = 0;
    struct file *learned = list((const char *const *)train->path, train->count, &n), one;
    const struct file *first = NULL;
    const char *also = "";
    char rest[48];
    if (!learned)
        return err_memory(e);
    for (size_t i = 0; i < eval->count; i++) {
        const struct file *of = find(&one, eval->path[i], i)
                                    ? bsearch(&one, learned, n, sizeof one, compare_files)
                                    : NULL;
        found += of != NULL;
        if (of && !first) {
            first = of;
            also = eval->path[i];
        }
    }
    bool renamed = first && strcmp(also, first->path) != 0;
    if (first)
        dataset_warn(
            r, "%s: %s is %s of data.train%s: the model is evaluated on rows from which it learns",
            r->key, also, renamed ? first->path : "a file", more(rest, found));
    mem_free(learned);
    return ERR_OK;
}

static bool is_in(const struct file *sorted, size_t n, const char *path)
{
    struct file one;
    return find(&one, path, 0) && bsearch(&one, sorted, n, sizeof one, compare_files);
}

/* Move the files of `all` that are not in `held` to *left. */
static enum err hold_files_out(struct paths *left, const struct paths *all,
                               const struct paths *held, struct errmsg *e)
{
    size_t n_all, n_held;
    struct file *of_all = list((const char *const *)all->path, all->count, &n_all),
                *of_held = list((const char *const *)held->path, held->count, &n_held);
    enum err err = of_all && of_held ? ERR_OK : err_memory(e);
    for (size_t i = 0; i < held->count && !err; i++)
        if (!is_in(of_all, n_all, held->path[i]))
            err = err_set(e, ERR_INPUT,
                          "data.validation.files: %s is no file of data.train; files of other data "
                          "are named in data.eval",
                          held->path[i]);
    for (size_t i = 0; i < all->count && !err; i++)
        if (!is_in(of_held, n_held, all->path[i]))
            err = paths_add(left, all->path[i], e);
    if (!err && !left->count)
        err = err_set(e, ERR_INPUT, "data.validation.files: no file is left to train on");
    mem_free(of_all);
    mem_free(of_held);
    return err;
}

enum err reading_paths(struct paths *p, const struct reading *r, struct errmsg *e)
{
    const char *files = r->eval || r->job->data.eval ? NULL : r->job->data.validation.files;
    struct paths all = {0}, held = {0}, left = {0};
    if (!files)
        return paths_expand(p, r->patterns, e);
    enum err err = paths_expand(&all, r->patterns, e);
    if (!err && (err = paths_expand(&held, files, e)))
        err = err_wrap(e, err, "data.validation.files: ");
    if (!err)
        err = hold_files_out(&left, &all, &held, e);
    paths_close(&all);
    paths_close(&held);
    if (err)
        paths_close(&left);
    else
        *p = left;
    return err;
}

/* The training files can be gone by now. */
static enum err warn_of_both_parts(const struct reading *r, struct errmsg *e)
{
    struct paths eval, train = {0};
    enum err err = paths_expand(&eval, r->patterns, e);
    if (err)
        return err;
    const struct reading learned = {.job = r->job, .patterns = r->job->data.train};
    err = reading_paths(&train, &learned, e);
    if (!err)
        err = warn_learned(r, &eval, &train, e);
    paths_close(&train);
    paths_close(&eval);
    return err == ERR_NOMEM ? err : ERR_OK;
}

/* "day-12.csv" and "day-9.csv": the first difference is that of two numbers, the larger one first. */
static bool numbers_fall(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    while (at > 0 && strchr(digits, a[at - 1]))
        at--;
    a += at + strspn(a + at, "0");
    b += at + strspn(b + at, "0");
    const size_t of_a = strspn(a, digits), of_b = strspn(b, digits);
    return of_b && of_a > of_b &&
           (strcmp(a + of_a, b + of_b) == 0 || (a[of_a] == '/' && b[of_b] == '/'));
}

/* Of files that are not named one by one, if their order is taken for that of time. */
static void warn_of_order(const struct reading *r, const char *const *path, size_t count)
{
    const struct job *job = r->job;
    const bool last = job->data.validation.last > 0 && job_holds_rows_out(job);
    if (r->eval || r->unlabeled || !(last || (job_streams(job) && job->metrics.progressive)))
        return;
    for (size_t i = 1; i < count; i++) {
        if (!numbers_fall(path[i - 1], path[i]) || strstr(r->patterns, path[i]))
            continue;
        dataset_warn(r,
                     "%s: the order of the files is that of their names, with %s before %s, and "
                     "%s; rename the files, with all numbers of one width, or list them in their "
                     "order",
                     r->key, path[i - 1], path[i],
                     last ? "data.validation.last holds out the last rows"
                          : "metrics.progressive tests each row before the next are learned");
        return;
    }
}

/* "out-00002-of-00004.csv" */
struct shard {
    size_t at, digits; /* of its number, in the path */
    unsigned long of;
};

static bool find_shard(struct shard *s, const char *path)
{
    static const char word[] = "-of-", digits[] = "0123456789";
    const char *last = NULL;
    for (const char *p = path; (p = strstr(p, word)); p++)
        last = p;
    if (!last || !strspn(last + sizeof word - 1, digits))
        return false;
    s->of = strtoul(last + sizeof word - 1, NULL, 10);
    s->at = (size_t)(last - path);
    for (s->digits = 0; s->at && strchr(digits, path[s->at - 1]); s->digits++)
        s->at--;
    return s->digits && s->at && strchr("-_", path[s->at - 1]);
}

/* How many files of the set are there; numbers begin with 0 or with 1. */
static unsigned long count_shards(const struct shard *s, const char *path)
{
    unsigned long n = 0;
    char name[PATHS_FILE_MAX];
    struct stat st;
    for (unsigned long k = 0; k <= s->of; k++) {
        (void)snprintf(name, sizeof name, "%.*s%0*lu%s", (int)s->at, path, (int)s->digits, k,
                       path + s->at + s->digits);
        n += stat(name, &st) == 0;
    }
    return n;
}

/* A set that lacks files, or two sets, of files that are not named one by one. */
static void warn_of_shards(const struct reading *r, const char *const *path, size_t count)
{
    enum { MOST = 10000 }; /* files */
    struct shard first, s;
    if (count == 0 || !find_shard(&first, path[0]) || first.of > MOST ||
        strstr(r->patterns, path[0]))
        return;
    const unsigned long there = count_shards(&first, path[0]);
    if (there < first.of)
        dataset_warn(r, "%s: the name of %s says that there are %lu such files, and there are %lu",
                     r->key, path[0], first.of, there);
    for (size_t i = 1; i < count; i++) {
        if (!find_shard(&s, path[i]) || s.of == first.of || s.at != first.at ||
            strncmp(path[0], path[i], s.at) != 0)
            continue;
        dataset_warn(
            r,
            "%s: %s and %s are of two sets of files, as of two writes: rows that are in both "
            "count twice; name one set",
            r->key, path[0], path[i]);
        return;
    }
}

static bool is_silent(const struct reading *r)
{
    return r->unlabeled || r->sampled || r->job->data.format == DATA_SYNTHETIC;
}

enum err same_files_warn(const struct reading *r, const char *const *path, const char *const *with,
                         size_t count, struct errmsg *e)
{
    warn_of_order(r, path, count);
    if (is_silent(r))
        return ERR_OK;
    warn_of_shards(r, path, count);
    enum err err = warn_twice(r, path, with, count, e);
    if (!err && r->eval && r->job->data.train && !r->job->data.eval_named)
        err = warn_of_both_parts(r, e);
    return err;
}

/* ---- copies ---- */

/* The contents of a file with rows. */
struct copy {
    const struct contents_file *rows;
    const struct contents_file *labels; /* read just before it; NULL: they are in the rows */
};

static int compare_contents(const struct contents_file *a, const struct contents_file *b)
{
    if (a->digest != b->digest)
        return a->digest < b->digest ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int compare_rows(const void *a, const void *b)
{
    return compare_contents(((const struct copy *)a)->rows, ((const struct copy *)b)->rows);
}

/* In the order of the files where they are the same. */
static int compare_copies(const void *a, const void *b)
{
    const struct copy *x = a, *y = b;
    int order = compare_rows(x, y);
    if (!order && x->labels && y->labels)
        order = compare_contents(x->labels, y->labels);
    return order ? order : (x->rows > y->rows) - (x->rows < y->rows);
}

/* Sorted: their number in *n. NULL: no memory. */
static struct copy *list_contents(const struct reading *r, const struct contents *c, size_t *n)
{
    const bool arrays = r->job->data.format == DATA_IDX || r->job->data.format == DATA_NPY;
    struct copy *copies = mem_zalloc(c->files + 1, sizeof *copies);
    *n = 0;
    for (size_t i = 0; copies && i < c->files; i++)
        if (c->file[i].rows)
            copies[(*n)++] = (struct copy){&c->file[i], arrays && i ? &c->file[i - 1] : NULL};
    if (*n)
        qsort(copies, *n, sizeof *copies, compare_copies);
    return copies;
}

static bool is_copy(const struct copy *a, const struct copy *b)
{
    return compare_rows(a, b) == 0 &&
           (!a->labels || !b->labels || compare_contents(a->labels, b->labels) == 0) &&
           !is_same(a->rows->name, b->rows->name);
}

static void warn_copied(const struct reading *r, const struct copy *copies, size_t n)
{
    const struct copy *first = NULL;
    size_t found = 0;
    char rest[48];
    for (size_t i = 1; i < n; i++) {
        if (!is_copy(&copies[i - 1], &copies[i]))
            continue;
        found++;
        if (!first || copies[i - 1].rows < first->rows)
            first = &copies[i - 1];
    }
    if (first)
        dataset_warn(r,
                     "%s: %s and %s have the same contents%s, so their rows count twice; name one "
                     "of them",
                     r->key, first[0].rows->name, first[1].rows->name, more(rest, found));
}

/* Rows that are learned with other labels are learned, too. */
static void warn_copies_learned(const struct reading *r, const struct contents *own,
                                const struct copy *learned, size_t n)
{
    const struct contents_file *first = NULL, *first_of = NULL;
    size_t found = 0;
    char rest[48];
    for (size_t i = 0; i < own->files; i++) {
        const struct copy one = {&own->file[i], NULL};
        const struct copy *of =
            one.rows->rows ? bsearch(&one, learned, n, sizeof one, compare_rows) : NULL;
        if (!of || is_same(one.rows->name, of->rows->name))
            continue;
        found++;
        first_of = first ? first_of : of->rows;
        first = first ? first : one.rows;
    }
    if (first)
        dataset_warn(
            r,
            "%s: %s has the contents of %s of data.train%s: the model is evaluated on rows "
            "from which it learns",
            r->key, first->name, first_of->name, more(rest, found));
}

enum err same_files_warn_contents(const struct reading *r, const struct contents *own,
                                  struct errmsg *e)
{
    size_t n;
    if (is_silent(r))
        return ERR_OK;
    struct copy *copies = list_contents(r, own, &n);
    if (!copies)
        return err_memory(e);
    warn_copied(r, copies, n);
    mem_free(copies);
    if (!r->train || r->job->data.eval_named)
        return ERR_OK;
    copies = list_contents(r, r->train, &n);
    if (!copies)
        return err_memory(e);
    warn_copies_learned(r, own, copies, n);
    mem_free(copies);
    return ERR_OK;
}
