#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "proto/checkpoint.pb-c.h"
#include "tests/lib/folder.h"

static char *const dir = folder_dir;

/* The call fills `e`. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        struct errmsg e = {""};                                                                    \
        enum err call_err = (call);                                                                \
        if (call_err)                                                                              \
            fail_msg("%s: %s", err_str(call_err), e.text);                                         \
    } while (0)

/* ---- tables whose rows tell where they belong ---- */

enum { TABLES = 3, CLOCK = 77, WIDTH_MAX = 16 + 16 };
static const struct checkpoint_table TABLE[TABLES] = {
    {"wide", 1, 0, 0}, {"deep", 16, 16, 0}, {"ads", 3, 1, 0}};

struct row {
    uint32_t bucket, table, count;
    uint64_t mixed, stamp;
    float values[WIDTH_MAX];
};

struct rows {
    size_t n;
    struct row *row; /* in a checkpoint's order */
};

static uint32_t width_of(uint32_t table)
{
    return TABLE[table].dim + TABLE[table].slots;
}

static int in_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return (x->mixed > y->mixed) - (x->mixed < y->mixed);
}

static struct row row_of(uint32_t table, uint64_t mixed, uint64_t seed)
{
    struct row r = {.bucket = key_bucket(mixed), .table = table, .mixed = mixed};
    uint64_t key = rng_key(seed, RNG_TEST, table, 1);
    r.stamp = rng_u64(key, mixed) % CLOCK;
    r.count = (uint32_t)rng_u64(key, mixed + 1);
    for (uint32_t j = 0; j < width_of(table); j++)
        r.values[j] = rng_unit(key, mixed + 2 + j) - 0.5f;
    return r;
}

/* `dense`: rows are in the first 1/dense of the keys alone. */
static struct rows rows_new(size_t n, uint64_t dense, uint64_t seed)
{
    struct rows r = {n, calloc(n + 1, sizeof *r.row)};
    for (size_t i = 0; i < n; i++)
        r.row[i] = row_of((uint32_t)(i % TABLES), key_mix(i + seed) / dense, seed);
    qsort(r.row, n, sizeof *r.row, in_order);
    return r;
}

/* Rows [from, ..) as one group, of which the table's `values` have room. */
static size_t group_at(const struct rows *r, size_t from, struct row_group *g)
{
    static uint64_t mixed[1 << 14], stamp[1 << 14];
    static uint32_t count[1 << 14];
    static float values[(1 << 14) * WIDTH_MAX];
    const struct row *first = &r->row[from];
    uint32_t n = 0, width = width_of(first->table);
    for (; n < 1 << 14 && from + n < r->n && r->row[from + n].bucket == first->bucket &&
           r->row[from + n].table == first->table;
         n++) {
        const struct row *row = &r->row[from + n];
        mixed[n] = row->mixed;
        stamp[n] = row->stamp;
        count[n] = row->count;
        memcpy(values + n * width, row->values, width * sizeof(float));
    }
    *g = (struct row_group){first->bucket, first->table, n, mixed, stamp, count, values, NULL, 0};
    return n;
}

/* The copy that a shard of these buckets makes. */
static enum err copy_rows(const struct rows *r, struct bucket_range of, struct row_copy *c)
{
    row_copy_init(c, TABLE, TABLES, of, CLOCK);
    enum err err = ERR_OK;
    for (size_t i = 0; i < r->n && !err;) {
        struct row_group g;
        i += group_at(r, i, &g);
        if (g.bucket >= of.first && g.bucket < of.end)
            err = row_copy_add(c, &g);
    }
    return err;
}

enum { SHARDS_MAX = 8, SHARD_ELEMS = 16 };

static enum err write_shard(const struct rows *r, uint32_t shard, uint32_t shards,
                            struct checkpoint_file *file, struct errmsg *e)
{
    float w[SHARD_ELEMS] = {1, 2, 3};
    struct row_copy c;
    enum err err = copy_rows(r, bucket_shard(shard, shards), &c);
    struct checkpoint_shard s = {.generation = 7,
                                 .shard = shard,
                                 .first_elem = shard * SHARD_ELEMS,
                                 .elems = SHARD_ELEMS,
                                 .w = w,
                                 .rows = &c.head};
    err = err ? err_set(e, err, "out of memory")
              : checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, file, e);
    row_copy_close(&c);
    return err;
}

static struct manifest manifest_of(struct checkpoint_file *file, uint32_t shards)
{
    return (struct manifest){.cut = 1,
                             .generation = 7,
                             .tables = true,
                             .total_elems = shards * SHARD_ELEMS,
                             .files = shards,
                             .file = file};
}

static enum err write_cut(const struct rows *r, uint32_t shards, struct errmsg *e)
{
    struct checkpoint_file file[SHARDS_MAX];
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < shards && !err; i++)
        err = write_shard(r, i, shards, &file[i], e);
    struct manifest m = manifest_of(file, shards);
    return err ? err : checkpoint_publish(folder_place(dir), &m, e);
}

/* ---- reading back ---- */

struct reader {
    const struct rows *want;
    struct bucket_range of;
    size_t at;
    size_t fail_at; /* rows before its error; SIZE_MAX: none */
};

static enum err take(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct reader *r = ctx;
    if (r->at >= r->fail_at)
        return err_set(e, ERR_STATE, "enough");
    assert_true(g->bucket >= r->of.first && g->bucket < r->of.end);
    for (uint32_t i = 0; i < g->rows; i++, r->at++) {
        assert_true(r->at < r->want->n);
        const struct row *row = &r->want->row[r->at];
        uint32_t width = width_of(row->table);
        assert_int_equal(g->table, row->table);
        assert_int_equal(g->bucket, row->bucket);
        assert_true(g->mixed[i] == row->mixed && g->stamp[i] == row->stamp);
        assert_int_equal(g->count[i], row->count);
        assert_memory_equal(g->values + (size_t)i * width, row->values, width * sizeof(float));
    }
    return ERR_OK;
}

/* The first row of bucket `bucket`, or behind it. */
static size_t row_at(const struct rows *r, uint32_t bucket)
{
    size_t i = 0;
    while (i < r->n && r->row[i].bucket < bucket)
        i++;
    return i;
}

static enum err read_range(const struct rows *want, const struct manifest *m,
                           struct bucket_range of, struct errmsg *e)
{
    struct reader r = {want, of, row_at(want, of.first), SIZE_MAX};
    enum err err = checkpoint_read_rows(folder_place(dir), m, of,
                                        &(struct row_sink){.rows = take, .ctx = &r}, e);
    if (!err)
        assert_int_equal(r.at, row_at(want, of.end));
    return err;
}

/* Load, verify and read all, in `ranges` ranges. */
static enum err load_and_compare(const struct rows *want, uint32_t ranges, struct errmsg *e)
{
    struct manifest m;
    enum err err = checkpoint_load((struct cut){folder_place(dir), 1}, &m, e);
    if (err)
        return err;
    err = checkpoint_verify(folder_place(dir), &m, e);
    for (uint32_t i = 0; i < ranges && !err; i++)
        err = read_range(want, &m, bucket_shard(i, ranges), e);
    manifest_close(&m);
    return err;
}

static struct checkpoint_tables tables_of_the_cut(void)
{
    struct manifest m;
    struct checkpoint_tables t;
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 1}, &m, &e));
    assert_ok(checkpoint_read_tables(folder_place(dir), &m, &t, &e));
    manifest_close(&m);
    return t;
}

static char *path_of(const char *name)
{
    static char path[FILES_PATH_MAX];
    assert_int_equal(folder_cut_path(path, dir, 1, name), ERR_OK);
    return path;
}

static uint8_t *slurp(const char *path, size_t *bytes)
{
    uint8_t *data;
    assert_ok(files_read(path, 1 << 28, &data, bytes, &e));
    return data;
}

static void spill(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

/* ---- round trips ---- */

static void rows_of_any_number_of_shards_load_into_any_other(void **state)
{
    (void)state;
    struct rows r = rows_new(9000, 1, 1);
    for (uint32_t shards = 1; shards <= 5; shards++) {
        assert_ok(write_cut(&r, shards, &e));
        for (uint32_t ranges = 1; ranges <= 7; ranges++)
            assert_ok(load_and_compare(&r, ranges, &e));
    }
    free(r.row);
}

static void rows_of_one_bucket_that_fill_several_frames_come_back(void **state)
{
    (void)state;
    struct rows r = rows_new(60000, 4096, 2);
    assert_ok(write_cut(&r, 2, &e));
    assert_ok(load_and_compare(&r, 3, &e));
    struct shard_file f;
    assert_ok(shard_file_open(&f, (struct cut){folder_place(dir), 1}, "shard-0.gw", &e));
    assert_true(f.head->rows->n_frame_bytes >= 4);
    for (size_t i = 0; i < f.head->rows->n_frame_bytes; i++)
        assert_true(f.head->rows->frame_plain[i] <= 1 << 20);
    shard_file_close(&f);
    free(r.row);
}

static void tables_without_rows_are_tables_too(void **state)
{
    (void)state;
    struct rows none = {0, NULL};
    assert_ok(write_cut(&none, 3, &e));
    assert_ok(load_and_compare(&none, 2, &e));
    struct checkpoint_tables t = tables_of_the_cut();
    assert_int_equal(t.tables, TABLES);
    assert_int_equal(t.clock, CLOCK);
    for (uint32_t i = 0; i < TABLES; i++) {
        assert_int_equal(t.rows[i], 0);
        assert_string_equal(t.table[i].name, TABLE[i].name);
        assert_int_equal(t.table[i].dim, TABLE[i].dim);
        assert_int_equal(t.table[i].slots, TABLE[i].slots);
    }
}

static void frames_without_a_wanted_bucket_are_not_read(void **state)
{
    (void)state;
    struct rows r = rows_new(60000, 1, 3);
    assert_ok(write_cut(&r, 1, &e));
    struct manifest m;
    struct errmsg text = {""};
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 1}, &m, &e));
    struct shard_file f;
    assert_ok(shard_file_open(&f, (struct cut){folder_place(dir), 1}, "shard-0.gw", &e));
    const Checkpoint__Rows *h = f.head->rows;
    size_t last = h->n_frame_bytes - 1, bytes, at = CHECKPOINT_MAGIC_BYTES + f.head->frame_bytes[0];
    assert_true(last >= 3);
    uint32_t second = h->frame_bucket[1], begins = h->frame_bucket[last];
    for (size_t i = 0; i < last; i++)
        at += h->frame_bytes[i];
    uint8_t *data = slurp(path_of("shard-0.gw"), &bytes);
    data[at + 100] ^= 1;
    spill(path_of("shard-0.gw"), data, bytes);
    assert_ok(read_range(&r, &m, (struct bucket_range){0, begins}, &e));
    assert_ok(read_range(&r, &m, (struct bucket_range){second, second + 1}, &e));
    assert_int_equal(read_range(&r, &m, (struct bucket_range){begins, begins + 1}, &text),
                     ERR_CORRUPT);
    assert_non_null(strstr(text.text, "shard-0.gw"));
    mem_free(data);
    shard_file_close(&f);
    manifest_close(&m);
    free(r.row);
}

/* ---- digests ---- */

/* As the header says it, row by row. */
static void digest_plainly(const struct rows *r, uint32_t table, uint8_t out[SHA256_BYTES])
{
    struct sha256 *all = sha256_new();
    for (uint32_t bucket = 0; bucket < ROW_BUCKETS; bucket++) {
        struct sha256 *one = sha256_new();
        uint8_t digest[SHA256_BYTES];
        for (size_t i = 0; i < r->n; i++) {
            if (r->row[i].bucket != bucket || r->row[i].table != table)
                continue;
            uint64_t key = key_unmix(r->row[i].mixed);
            sha256_add(one, &key, 8);
            sha256_add(one, r->row[i].values, TABLE[table].dim * 4);
        }
        assert_int_equal(sha256_final(one, digest), 0);
        sha256_free(one);
        sha256_add(all, digest, sizeof digest);
    }
    assert_int_equal(sha256_final(all, out), 0);
    sha256_free(all);
}

static void a_tables_digest_is_of_keys_and_weights_whatever_the_shards(void **state)
{
    (void)state;
    struct rows r = rows_new(900, 1, 4);
    uint8_t want[TABLES][SHA256_BYTES];
    for (uint32_t i = 0; i < TABLES; i++)
        digest_plainly(&r, i, want[i]);
    for (uint32_t shards = 1; shards <= 4; shards++) {
        assert_ok(write_cut(&r, shards, &e));
        struct checkpoint_tables t = tables_of_the_cut();
        for (uint32_t i = 0; i < TABLES; i++) {
            assert_memory_equal(t.digest[i], want[i], SHA256_BYTES);
            assert_int_equal(t.rows[i], 300);
        }
    }
    r.row[5].count++; /* count, stamp and slots do not count */
    r.row[5].stamp++;
    size_t deep = 0;
    while (r.row[deep].table != 1)
        deep++;
    r.row[deep].values[TABLE[1].dim] += 1;
    assert_ok(write_cut(&r, 2, &e));
    struct checkpoint_tables t = tables_of_the_cut();
    assert_memory_equal(t.digest, want, sizeof want);
    r.row[deep].values[TABLE[1].dim - 1] += 1;
    assert_ok(write_cut(&r, 2, &e));
    t = tables_of_the_cut();
    assert_memory_equal(t.digest[0], want[0], SHA256_BYTES);
    assert_memory_not_equal(t.digest[1], want[1], SHA256_BYTES);
    free(r.row);
}

/* ---- formats ---- */

static void a_cut_without_tables_stays_of_the_first_format(void **state)
{
    (void)state;
    float w[16] = {1};
    struct checkpoint_shard s = {.generation = 7, .elems = 16, .w = w};
    struct checkpoint_file file;
    struct manifest m = {.cut = 1, .generation = 7, .total_elems = 16, .files = 1, .file = &file};
    struct checkpoint_tables t;
    assert_ok(checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, &file, &e));
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    const char *const names[] = {"shard-0.gw", CHECKPOINT_MANIFEST};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        uint8_t *data = slurp(path_of(names[i]), &bytes);
        assert_int_equal(data[7], '1');
        assert_int_equal(data[bytes - 1], '1');
        mem_free(data);
    }
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 1}, &m, &e));
    assert_int_equal(m.format, 1);
    assert_ok(checkpoint_read_tables(folder_place(dir), &m, &t, &e));
    assert_int_equal(t.tables, 0);
    struct rows none = {0, NULL};
    assert_ok(read_range(&none, &m, (struct bucket_range){0, ROW_BUCKETS}, &e));
    manifest_close(&m);
}

/* tests/data/checkpoint-2, as the first release with that format wrote it: two shards of these rows. */
static void the_stored_checkpoint_of_format_2_is_read(void **state)
{
    (void)state;
    const char *root = getenv("GRADWIRE_ROOT");
    assert_int_equal(root ? chdir(root) : 0, 0);
    (void)snprintf(dir, FOLDER_BYTES, "tests/data/checkpoint-2/checkpoints");
    struct rows r = rows_new(200, 1, 13);
    assert_ok(load_and_compare(&r, 3, &e));
    struct checkpoint_tables t = tables_of_the_cut();
    assert_int_equal(t.clock, CLOCK);
    for (uint32_t i = 0; i < TABLES; i++) {
        uint8_t want[SHA256_BYTES];
        digest_plainly(&r, i, want);
        assert_memory_equal(t.digest[i], want, SHA256_BYTES);
    }
    free(r.row);
}

static void assert_refused(const struct rows *r, enum err want, const char *why)
{
    struct errmsg text = {""};
    assert_int_equal(load_and_compare(r, 1, &text), want);
    if (!strstr(text.text, why))
        fail_msg("\"%s\" does not say \"%s\"", text.text, why);
}

static void a_file_whose_format_does_not_fit_its_rows_is_corrupt(void **state)
{
    (void)state;
    struct rows r = rows_new(30, 1, 5);
    const char *const names[] = {"shard-0.gw", CHECKPOINT_MANIFEST};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        assert_ok(write_cut(&r, 1, &e));
        uint8_t *data = slurp(path_of(names[i]), &bytes);
        assert_int_equal(data[7], '2');
        data[7] = data[bytes - 1] = '1';
        spill(path_of(names[i]), data, bytes);
        assert_refused(&r, ERR_CORRUPT, "match format 1");
        mem_free(data);
    }
    free(r.row);
}

/* ---- faults ---- */

static void any_changed_byte_is_found_and_the_file_named(void **state)
{
    (void)state;
    struct rows r = rows_new(40, 1, 6);
    assert_ok(write_cut(&r, 2, &e));
    const char *const names[] = {"shard-0.gw", "shard-1.gw", CHECKPOINT_MANIFEST};
    for (int i = 0; i < 3; i++) {
        size_t bytes;
        uint8_t *data = slurp(path_of(names[i]), &bytes);
        for (size_t at = 0; at < bytes; at++) {
            data[at] ^= (uint8_t)(1 << at % 8);
            spill(path_of(names[i]), data, bytes);
            assert_refused(&r, ERR_CORRUPT, names[i]);
            data[at] ^= (uint8_t)(1 << at % 8);
        }
        spill(path_of(names[i]), data, bytes);
        assert_ok(load_and_compare(&r, 1, &e));
        mem_free(data);
    }
    free(r.row);
}

static void a_file_that_ends_early_is_found_at_each_length(void **state)
{
    (void)state;
    struct rows r = rows_new(40, 1, 6);
    assert_ok(write_cut(&r, 1, &e));
    size_t bytes;
    uint8_t *data = slurp(path_of("shard-0.gw"), &bytes);
    for (size_t n = 0; n < bytes; n += 3) {
        spill(path_of("shard-0.gw"), data, n);
        assert_refused(&r, ERR_CORRUPT, "shard-0.gw");
    }
    mem_free(data);
    free(r.row);
}

static void any_failed_write_or_allocation_leaves_no_checkpoint(void **state)
{
    (void)state;
    struct rows r = rows_new(300, 1, 7);
    long fired = 0;
    for (int memory = 0; memory < 2; memory++) {
        bool more = true;
        for (long n = 0; more; n++, fired += more) {
            struct errmsg text = {""};
            if (memory)
                mem_fail_at(n);
            else
                files_fail_at(n, ENOSPC);
            enum err err = write_cut(&r, 2, &text);
            more = memory ? mem_fail_fired() : files_fail_fired();
            mem_fail_at(-1);
            files_fail_at(-1, 0);
            assert_int_equal(err, !more ? ERR_OK : memory ? ERR_NOMEM : ERR_IO);
            if (more)
                assert_int_equal(access(path_of(CHECKPOINT_MANIFEST), F_OK), -1);
        }
        assert_ok(load_and_compare(&r, 2, &e));
        assert_int_equal(unlink(path_of(CHECKPOINT_MANIFEST)), 0);
    }
    assert_true(fired > 40);
    free(r.row);
}

static void no_memory_while_rows_are_read_is_said_as_such(void **state)
{
    (void)state;
    struct rows r = rows_new(300, 1, 8);
    assert_ok(write_cut(&r, 2, &e));
    bool more = true;
    long n = 0;
    for (; more; n++) {
        struct errmsg text = {""};
        struct checkpoint_tables t;
        struct manifest m = {0};
        mem_fail_at(n);
        enum err err = checkpoint_load((struct cut){folder_place(dir), 1}, &m, &text);
        if (!err)
            err = checkpoint_read_tables(folder_place(dir), &m, &t, &text);
        if (!err)
            err = read_range(&r, &m, (struct bucket_range){0, ROW_BUCKETS}, &text);
        more = mem_fail_fired();
        mem_fail_at(-1);
        manifest_close(&m);
        assert_int_equal(err, more ? ERR_NOMEM : ERR_OK);
        if (more)
            assert_non_null(strstr(text.text, "out of memory"));
    }
    assert_true(n > 30);
    free(r.row);
}

static enum err no_rows(void *ctx, struct row_group *g, struct errmsg *e)
{
    (void)g;
    if ((*(int *)ctx)++ < 2)
        return ERR_OK;
    return err_set(e, ERR_STATE, "the cut is given up");
}

static enum err one_more(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct row_copy *c = ctx;
    enum err err = c->head.next(c, g, e);
    return err || g->rows ? err : err_set(e, ERR_STATE, "the cut is given up");
}

static void an_error_of_the_source_ends_the_file_and_of_the_sink_the_reading(void **state)
{
    (void)state;
    struct rows r = rows_new(300, 1, 9);
    struct row_copy c;
    struct checkpoint_file file;
    struct errmsg text = {""};
    int calls = 2;
    struct bucket_range all = {0, ROW_BUCKETS};
    assert_int_equal(copy_rows(&r, all, &c), ERR_OK);
    struct checkpoint_rows rows = c.head;
    struct checkpoint_shard s = {.generation = 7, .rows = &rows};
    rows.next = one_more;
    assert_int_equal(checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, &file, &text),
                     ERR_STATE);
    assert_string_equal(text.text, "the cut is given up");
    assert_int_equal(access(path_of("shard-0.gw"), F_OK), -1);
    rows.next = no_rows;
    rows.ctx = &calls;
    assert_int_equal(checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, &file, &text),
                     ERR_STATE);
    row_copy_close(&c);

    assert_ok(write_cut(&r, 1, &e));
    struct manifest m;
    assert_ok(checkpoint_load((struct cut){folder_place(dir), 1}, &m, &e));
    struct reader reader = {&r, all, 0, 20};
    assert_int_equal(checkpoint_read_rows(folder_place(dir), &m, all,
                                          &(struct row_sink){.rows = take, .ctx = &reader}, &text),
                     ERR_STATE);
    assert_string_equal(text.text, "enough");
    assert_true(reader.at >= 20 && reader.at < r.n);
    manifest_close(&m);
    free(r.row);
}

/* ---- what does not fit ---- */

/* Write these rows as they stand, in one shard of these buckets. */
static enum err write_as_they_stand(const struct rows *r, struct bucket_range of, struct errmsg *e)
{
    struct row_copy c;
    struct checkpoint_file file;
    row_copy_init(&c, TABLE, TABLES, of, CLOCK);
    for (size_t i = 0; i < r->n; i++) {
        struct row_group g;
        struct rows one = {1, r->row + i};
        (void)group_at(&one, 0, &g);
        assert_int_equal(row_copy_add(&c, &g), ERR_OK);
    }
    struct checkpoint_shard s = {.generation = 7, .rows = &c.head};
    enum err err = checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, &file, e);
    row_copy_close(&c);
    return err;
}

static void rows_out_of_order_are_not_written(void **state)
{
    (void)state;
    uint64_t low = UINT64_C(5) << 52;
    const struct row rows[] = {row_of(0, low + 1, 1), row_of(0, low + 2, 1), row_of(1, low, 1),
                               row_of(0, low * 2, 1)};
    struct bucket_range all = {0, ROW_BUCKETS};
    struct errmsg text = {""};
    assert_ok(write_as_they_stand(&(struct rows){4, (struct row *)rows}, all, &e));
    for (int i = 0; i < 3; i++) { /* each two neighbours, swapped */
        struct row swapped[2] = {rows[i + 1], rows[i]};
        assert_int_equal(write_as_they_stand(&(struct rows){2, swapped}, all, &text), ERR_STATE);
        assert_non_null(strstr(text.text, "out of order"));
    }
    struct row twice[2] = {rows[0], rows[0]};
    assert_int_equal(write_as_they_stand(&(struct rows){2, twice}, all, &text), ERR_STATE);
    struct row strange = rows[0];
    strange.bucket++; /* which is not its key's */
    assert_int_equal(write_as_they_stand(&(struct rows){1, &strange}, all, &text), ERR_STATE);
    struct bucket_range others = {6, 9}; /* rows[0] is in 5 */
    assert_int_equal(write_as_they_stand(&(struct rows){1, (struct row *)rows}, others, &text),
                     ERR_STATE);
}

static void a_manifest_whose_files_do_not_cover_the_buckets_is_not_published(void **state)
{
    (void)state;
    struct rows r = rows_new(300, 1, 10);
    struct checkpoint_file file[3], was[3];
    struct errmsg text = {""};
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(write_shard(&r, i, 3, &file[i], &e));
    memcpy(was, file, sizeof was);
    struct manifest m = manifest_of(file, 3);
    m.total_elems = 0;
    for (int i = 0; i < 3; i++)
        file[i].elems = file[i].first_elem = 0;
    struct {
        uint32_t *what, value;
    } const changes[] = {{&file[1].first_bucket, was[1].first_bucket + 1},
                         {&file[1].end_bucket, was[1].first_bucket - 1},
                         {&file[1].end_bucket, was[1].first_bucket},
                         {&file[2].end_bucket, ROW_BUCKETS - 1},
                         {&file[2].end_bucket, ROW_BUCKETS + 1}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint32_t before = *changes[i].what;
        *changes[i].what = changes[i].value;
        assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
        assert_non_null(strstr(text.text, "bucket"));
        *changes[i].what = before;
    }
    file[1].clock++;
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
    assert_non_null(
        strstr(text.text, "the table clock of shard-1.gw is 78, that of shard-0.gw is 77"));
    file[1].clock--;
    m.tables = false; /* and then there are none */
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &text), ERR_STATE);
    m.tables = true;
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    free(r.row);
}

/* A shard's file whose checksums are right but whose head says `change`, named by a manifest of its own. */
static void assert_head_refused(void (*change)(Checkpoint__Rows *h), const char *why)
{
    struct rows r = rows_new(60, 1, 11);
    struct checkpoint_file file[1];
    assert_ok(write_shard(&r, 0, 1, file, &e));
    size_t bytes;
    uint8_t *data = slurp(path_of("shard-0.gw"), &bytes);
    uint32_t head_bytes;
    memcpy(&head_bytes, data + bytes - CHECKPOINT_TAIL_BYTES, sizeof head_bytes);
    size_t at = bytes - CHECKPOINT_TAIL_BYTES - head_bytes;
    Checkpoint__ShardHead *h = checkpoint__shard_head__unpack(NULL, head_bytes, data + at);
    change(h->rows);
    size_t made_bytes = checkpoint__shard_head__get_packed_size(h);
    uint8_t *made = malloc(at + made_bytes + CHECKPOINT_TAIL_BYTES);
    memcpy(made, data, at);
    checkpoint__shard_head__pack(h, made + at);
    file->head_crc = checkpoint_tail_encode(made + at + made_bytes, CHECKPOINT_SHARD_KIND, 2,
                                            made + at, made_bytes);
    file->bytes = at + made_bytes + CHECKPOINT_TAIL_BYTES;
    spill(path_of("shard-0.gw"), made, file->bytes);
    struct manifest m = manifest_of(file, 1);
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    assert_refused(&r, ERR_CORRUPT, why);
    checkpoint__shard_head__free_unpacked(h, NULL);
    free(made);
    mem_free(data);
    free(r.row);
}

static void no_tables(Checkpoint__Rows *h)
{
    while (h->n_table > 0)
        checkpoint__row_table__free_unpacked(h->table[--h->n_table], NULL);
}
static void no_name(Checkpoint__Rows *h)
{
    h->table[0]->name[0] = '\0';
}
static void no_dim(Checkpoint__Rows *h)
{
    h->table[0]->dim = 0;
}
static void huge_dim(Checkpoint__Rows *h)
{
    h->table[1]->dim = ROW_DIM_MAX + 1;
}
static void huge_slots(Checkpoint__Rows *h)
{
    h->table[1]->slots = UINT32_MAX;
}
static void another_dim(Checkpoint__Rows *h)
{
    h->table[1]->dim += 2;
}
static void fewer_digests(Checkpoint__Rows *h)
{
    h->table[1]->digest.len -= SHA256_BYTES;
}
static void a_bucket_twice(Checkpoint__Rows *h)
{
    h->table[1]->bucket[1] = h->table[1]->bucket[0];
}
static void a_bucket_beyond(Checkpoint__Rows *h)
{
    h->table[1]->bucket[h->table[1]->n_bucket - 1] = ROW_BUCKETS;
}
static void other_rows(Checkpoint__Rows *h)
{
    h->table[1]->rows++;
}
static void other_first_bucket(Checkpoint__Rows *h)
{
    h->first_bucket = 1;
}
static void buckets_beyond(Checkpoint__Rows *h)
{
    h->end_bucket = ROW_BUCKETS + 1;
}
static void buckets_backwards(Checkpoint__Rows *h)
{
    h->first_bucket = ROW_BUCKETS;
    h->end_bucket = 0;
}
static void fewer_crcs(Checkpoint__Rows *h)
{
    h->n_frame_crc--;
}
static void no_frame_bucket(Checkpoint__Rows *h)
{
    h->n_frame_bucket--;
}
static void a_huge_frame(Checkpoint__Rows *h)
{
    h->frame_plain[0] = UINT32_MAX;
}
static void an_empty_frame(Checkpoint__Rows *h)
{
    h->frame_plain[0] = 0;
}
static void a_frame_too_long(Checkpoint__Rows *h)
{
    h->frame_bytes[0] = UINT64_MAX;
}
static void a_frame_of_another_size(Checkpoint__Rows *h)
{
    h->frame_plain[0] += 8;
}
static void a_frame_of_another_bucket(Checkpoint__Rows *h)
{
    h->frame_bucket[0]++;
}
static void a_frame_beyond(Checkpoint__Rows *h)
{
    h->frame_bucket[0] = ROW_BUCKETS;
}

static void a_head_that_does_not_add_up_is_corrupt(void **state)
{
    (void)state;
    assert_head_refused(no_tables, "too many tables, or none");
    assert_head_refused(no_name, "a table's name");
    assert_head_refused(no_dim, "too many floats, or none");
    assert_head_refused(huge_dim, "too many floats, or none");
    assert_head_refused(huge_slots, "too many floats, or none");
    assert_head_refused(another_dim, "out of order");
    assert_head_refused(fewer_digests, "more buckets than digests");
    assert_head_refused(a_bucket_twice, "a table's buckets are out of order");
    assert_head_refused(a_bucket_beyond, "a table's buckets are out of order");
    assert_head_refused(other_rows, "its number of rows is 61, the manifest says 60");
    assert_head_refused(other_first_bucket, "its first bucket is 1, the manifest says 0");
    assert_head_refused(buckets_beyond, "its range of buckets is invalid");
    assert_head_refused(buckets_backwards, "its range of buckets is invalid");
    assert_head_refused(fewer_crcs, "its lists about row frames");
    assert_head_refused(no_frame_bucket, "its lists about row frames");
    assert_head_refused(a_huge_frame, "is empty, or too large");
    assert_head_refused(an_empty_frame, "is empty, or too large");
    assert_head_refused(a_frame_too_long, "is larger than its rows");
    assert_head_refused(a_frame_of_another_size, "does not hold");
    assert_head_refused(a_frame_of_another_bucket, "out of order");
    assert_head_refused(a_frame_beyond, "the frames of rows are out of order");
}

static void another_clock(Checkpoint__Rows *h)
{
    h->clock++;
}
static void another_name(Checkpoint__Rows *h)
{
    h->table[2]->name[0] = 'A';
}

/* The second of two files: `change`d. */
static void assert_tables_refused(void (*change)(Checkpoint__Rows *h), const char *why)
{
    struct rows r = rows_new(60, 1, 12);
    struct checkpoint_file file[2];
    struct checkpoint_tables t;
    struct errmsg text = {""};
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(write_shard(&r, i, 2, &file[i], &e));
    size_t bytes;
    uint8_t *data = slurp(path_of("shard-1.gw"), &bytes);
    uint32_t head_bytes;
    memcpy(&head_bytes, data + bytes - CHECKPOINT_TAIL_BYTES, sizeof head_bytes);
    uint8_t *head = data + bytes - CHECKPOINT_TAIL_BYTES - head_bytes;
    Checkpoint__ShardHead *h = checkpoint__shard_head__unpack(NULL, head_bytes, head);
    change(h->rows);
    assert_int_equal(checkpoint__shard_head__pack(h, head), head_bytes);
    file[1].head_crc =
        checkpoint_tail_encode(head + head_bytes, CHECKPOINT_SHARD_KIND, 2, head, head_bytes);
    spill(path_of("shard-1.gw"), data, bytes);
    struct manifest m = manifest_of(file, 2);
    assert_ok(checkpoint_publish(folder_place(dir), &m, &e));
    assert_int_equal(checkpoint_read_tables(folder_place(dir), &m, &t, &text), ERR_CORRUPT);
    assert_non_null(strstr(text.text, why));
    assert_refused(&r, ERR_CORRUPT, why);
    checkpoint__shard_head__free_unpacked(h, NULL);
    mem_free(data);
    free(r.row);
}

static void files_of_other_tables_or_another_clock_are_corrupt(void **state)
{
    (void)state;
    assert_tables_refused(another_clock, "its table clock is 78, the manifest says 77");
    assert_tables_refused(another_name, "its tables differ from the expected ones");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_of_any_number_of_shards_load_into_any_other),
        TEST(rows_of_one_bucket_that_fill_several_frames_come_back),
        TEST(tables_without_rows_are_tables_too),
        TEST(frames_without_a_wanted_bucket_are_not_read),
        TEST(a_tables_digest_is_of_keys_and_weights_whatever_the_shards),
        TEST(a_cut_without_tables_stays_of_the_first_format),
        cmocka_unit_test(the_stored_checkpoint_of_format_2_is_read),
        TEST(a_file_whose_format_does_not_fit_its_rows_is_corrupt),
        TEST(any_changed_byte_is_found_and_the_file_named),
        TEST(a_file_that_ends_early_is_found_at_each_length),
        TEST(any_failed_write_or_allocation_leaves_no_checkpoint),
        TEST(no_memory_while_rows_are_read_is_said_as_such),
        TEST(an_error_of_the_source_ends_the_file_and_of_the_sink_the_reading),
        TEST(rows_out_of_order_are_not_written),
        TEST(a_manifest_whose_files_do_not_cover_the_buckets_is_not_published),
        TEST(a_head_that_does_not_add_up_is_corrupt),
        TEST(files_of_other_tables_or_another_clock_are_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
