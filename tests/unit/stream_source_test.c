/* The leaves of a stream are the rows that a load of all data has, whichever lanes a process has, wherever it begins, and
 * however little memory there is. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/process_state.h"
#include "data/readers.h"
#include "tests/lib/idx_files.h"
#include "tests/lib/numbered.h"

enum { FILES = 3, LANES = 4, BATCH = 24, DEPTH = 8, CELL_BYTES = 500, LINE_BYTES = 120 };

static const char model[] =
    "model: {input: {shape: auto}, layers: [{linear: {inputs: [user, tags], name: w}}, "
    "{dense: {inputs: [age, town], units: 1, name: d}}, {add: [w, d]}, sigmoid], "
    "loss: binary_crossentropy}\n"
    "optimizer: sgd\n";
static const char columns[] =
    "missing: [''], columns: [label: y, number: {name: age, scale: standard}, category: town, key: "
    "{name: user, missing: none}, keys: {name: tags, missing: none, separator: ' ', max_values: 3, "
    "weights: true}, ignore: note, weight: w]";

/* ---- the data: loaded as a whole, and as a stream ---- */

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct paths paths;
    struct pool *pool;
    struct reading reading;
    struct text_index x;
    struct row_reader *reader;
    struct lanes lanes;
    struct order order;
    struct source *source;
    enum packing packing[FILES];
    struct errmsg e;
};

static void must(struct fixture *f, enum err err)
{
    if (err)
        fail_msg("%s", f->e.text);
}

static size_t write_line(char *at, uint64_t row)
{
    const uint64_t bits = rng_u64(5, row);
    static const char *const tags[] = {"1:0.5 2", "", "3:-2", "4 5 6"};
    if (bits % 40 == 0)
        return (size_t)sprintf(at, "no label,1,a,7,,,1\n"); /* it is bad */
    if (bits % 40 == 1)
        return (size_t)sprintf(at, "# no row,\"\n");
    return (size_t)sprintf(
        at, "%u,%.3f,t%u,%u,%s,%s,%u\n", (unsigned)(bits >> 8 & 1), (double)(bits >> 9 & 1023) / 8,
        (unsigned)(bits >> 20 & 255), (unsigned)(bits >> 28 & 255), tags[bits >> 32 & 3],
        bits >> 40 & 7 ? "x" : "\"two\n\"\"lines\"\", or more\"", (unsigned)(bits >> 44 & 3));
}

/* Files of several sizes; the rows of the first one are fewer than a cell has. */
static void write_files(struct fixture *f, bool headers, uint64_t lines)
{
    char *text = malloc((lines + 1) * LINE_BYTES);
    assert_non_null(text);
    for (uint64_t i = 0, row = 0; i < FILES; i++) {
        char name[16];
        size_t n = headers ? (size_t)sprintf(text, "\"y\",age,town,user,tags,note,w\n\n") : 0;
        for (uint64_t k = 0; k < (i == 0 ? 3 : i == 1 ? lines / 3 : lines); k++)
            n += write_line(text + n, row++);
        snprintf(name, sizeof name, "%d.csv", (int)i);
        struct bytes packed = bytes_pack((struct bytes){(uint8_t *)text, n}, f->packing[i]);
        idx_files_write(&f->files, name, packed);
        bytes_free(&packed);
    }
    free(text);
}

static void setup_packed(struct fixture *f, bool headers, uint64_t lines, const char *bad_rows,
                         const enum packing packing[FILES])
{
    char text[2048];
    *f = (struct fixture){.e = {""}};
    memcpy(f->packing, packing, sizeof f->packing);
    idx_files_init(&f->files);
    write_files(f, headers, lines);
    snprintf(
        text, sizeof text,
        "%sdata: {format: csv, train: '%s/*.csv', header: %s, comment: '#', bad_rows: %s, %s}\n",
        model, f->files.dir, headers ? "names" : "none", bad_rows, columns);
    must(f, job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e));
    snprintf(text, sizeof text, "%s/*.csv", f->files.dir);
    must(f, paths_expand(&f->paths, text, &f->e));
    must(f, pool_new(&f->pool, 2, &f->e));
}

static void setup(struct fixture *f, bool headers, uint64_t lines, const char *bad_rows)
{
    setup_packed(f, headers, lines, bad_rows, (enum packing[FILES]){PACK_PLAIN});
}

/* Load all rows, which teach words and scales. */
static void load(struct fixture *f)
{
    must(f, dataset_load(&f->d, &f->job, 0, 0, &f->e));
}

static enum err open_source(struct fixture *f, uint64_t budget_bytes)
{
    const struct stream_config c = {.reader = f->reader,
                                    .lanes = &f->lanes,
                                    .order = &f->order,
                                    .contents = &f->d.contents,
                                    .budget_bytes = budget_bytes,
                                    .bad_rows_max = f->job.data.csv.bad_rows_max};
    return stream_source_new(&f->source, &c, &f->e);
}

/* Index them, and make the source over the index. */
static enum err stream(struct fixture *f, uint32_t window, uint64_t budget_bytes)
{
    const struct csv_grammar g = {
        .delimiter = ',', .quotes = true, .comment = "#", .comment_bytes = 1};
    f->reading = (struct reading){.job = &f->job, .schema = f->d.table.schema};
    must(f, csv_index(&f->x, &f->paths, &g, f->job.data.csv.header == HEADER_NAMES, CELL_BYTES,
                      CSV_PIECE_BYTES, NULL, f->pool, &f->e));
    assert_int_equal(text_index_rows(&f->x), f->d.rows);
    must(f, csv_index_reader(&f->reader, &f->reading, &f->x, &f->paths, &f->e));
    lanes_init(&f->lanes, f->d.rows, BATCH, LANES, window, 2, 11);
    f->order =
        (struct order){.rows = f->d.rows, .batch_size = BATCH, .seed = 11, .microbatches = LANES};
    return open_source(f, budget_bytes);
}

static void teardown(struct fixture *f)
{
    if (f->source)
        stream_source_free(f->source);
    if (f->reader)
        f->reader->type->free(f->reader);
    text_index_close(&f->x);
    dataset_close(&f->d);
    paths_close(&f->paths);
    pool_free(f->pool);
    job_close(&f->job);
    idx_files_close(&f->files);
}

/* ---- equal leaves ---- */

static bool same(const void *a, const void *b, size_t bytes)
{
    return !a == !b && (!a || memcmp(a, b, bytes) == 0);
}

static bool same_keys(const struct leaf_keys *a, const struct leaf_keys *b, uint32_t n)
{
    if (!a || !b)
        return a == b;
    bool are = a->lists == b->lists && a->columns == b->columns;
    for (uint32_t i = 0; are && i < a->lists; i++)
        are = a->list[i].keys == b->list[i].keys &&
              same(a->list[i].mixed, b->list[i].mixed, a->list[i].keys * sizeof(uint64_t));
    for (uint32_t i = 0; are && i < a->columns; i++) {
        const struct lookup_column *x = &a->column[i], *y = &b->column[i];
        are = x->width == y->width && same(x->count, y->count, n * sizeof *x->count);
        for (uint32_t row = 0; are && row < n; row++) {
            const uint32_t used = x->count ? x->count[row] : x->width;
            const size_t at = (size_t)row * x->width;
            are = same(x->at + at, y->at + at, used * sizeof *x->at) &&
                  same(x->weight ? x->weight + at : NULL, y->weight ? y->weight + at : NULL,
                       used * sizeof *x->weight);
        }
    }
    return are;
}

/* Whether two leaves have the same rows, in the same order. Thread: any. */
static bool same_leaf(const struct leaf *a, const struct leaf *b, uint32_t features)
{
    return a->n == b->n && same(a->x, b->x, (size_t)a->n * features * sizeof *a->x) &&
           same(a->y, b->y, a->n * sizeof *a->y) &&
           same(a->weight, b->weight, a->n * sizeof *a->weight) &&
           same_keys(a->keys, b->keys, a->n);
}

/* The buffers of a thread. */
struct buffers {
    struct leaf_buffer *of_stream, *of_load;
};

static struct buffers buffers_new(struct fixture *f, uint32_t rows)
{
    struct buffers b;
    must(f, leaf_buffer_new(&b.of_stream, &f->source->form, rows, LEAF_ALL, &f->e));
    must(f, leaf_buffer_new(&b.of_load, &f->source->form, rows, LEAF_ALL, &f->e));
    return b;
}

static void buffers_free(struct buffers *b)
{
    leaf_buffer_free(b->of_stream);
    leaf_buffer_free(b->of_load);
}

/* Whether the source has leaf `lane` of batch `id` as a load of all rows has it. Thread: any. */
static bool has_leaf(struct fixture *f, const struct buffers *b, uint64_t id, uint32_t lane)
{
    struct leaf got, wanted;
    struct errmsg e;
    uint64_t *rows = leaf_buffer_numbers(b->of_load);
    const uint32_t n = lanes_leaf(&f->lanes, id, lane, rows);
    return !f->source->type->leaf(f->source, id, lane, b->of_stream, &got, &e) &&
           !dataset_gather(&f->d, rows, n, NULL, b->of_load, &wanted, &e) &&
           same_leaf(&got, &wanted, f->d.features);
}

static void leaves_are_those_of_a_load_of_all_rows(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 3, 50, 100000};
    static const enum packing packing[][FILES] = {{PACK_PLAIN}, {PACK_GZIP, PACK_ZSTD, PACK_GZIP}};
    for (uint32_t run = 0; run < 2 * sizeof windows / sizeof *windows; run++) {
        struct fixture f;
        setup_packed(&f, run % 2, run < 4 ? 700 : 40, "skip", packing[run / 2 % 2]);
        load(&f);
        must(&f, stream(&f, windows[run / 2], 1 << 30));
        struct buffers b = buffers_new(&f, BATCH);
        const uint64_t batches = lanes_batches(&f.lanes);
        assert_true(f.d.bad_rows > 0);
        for (uint64_t id = batches / 2; id < 3 * batches; id++) /* as after a resume */
            for (uint32_t lane = 0; lane < LANES; lane++)
                if (!has_leaf(&f, &b, id, lane))
                    fail_msg("run %u, batch %d, leaf %u", run, (int)id, lane);
        buffers_free(&b);
        teardown(&f);
    }
}

/* The first file alone has 3 rows or fewer, and there are 4 lanes. */
static void lanes_without_rows_have_empty_leaves(void **state)
{
    (void)state;
    enum { LONG = 20000 }; /* batches: meanwhile the thread looks for groups to read ahead */
    struct fixture f;
    setup(&f, true, 0, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    struct buffers b = buffers_new(&f, BATCH);
    assert_in_range(f.d.rows, 1, LANES - 1);
    f.source->type->want(f.source, 0, LONG, 0, LANES);
    for (uint64_t id = 0; id < LONG; id++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            assert_true(has_leaf(&f, &b, id, lane));
    buffers_free(&b);
    teardown(&f);
}

/* ---- many threads, and lanes that come and go ---- */

struct thread {
    struct fixture *f;
    uint32_t first, lanes;
    uint64_t begin, end;
    atomic_bool differs;
};

static void *train(void *ctx)
{
    struct thread *t = ctx;
    struct buffers b = buffers_new(t->f, BATCH);
    for (uint64_t id = t->begin; id < t->end; id++)
        for (uint32_t lane = t->first; lane < t->first + t->lanes; lane++)
            if (!has_leaf(t->f, &b, id, lane))
                atomic_store(&t->differs, true);
    buffers_free(&b);
    return NULL;
}

/* Each thread has the lanes of a worker; then one has them all, for batches that others have had as well. */
static void threads_get_the_same_leaves_while_lanes_change(void **state)
{
    (void)state;
    enum { ROUNDS = 4 * LANES }; /* in few, no thread may be late enough to find a group in use */
    struct fixture f;
    setup(&f, true, 500, "skip");
    load(&f);
    for (int tight = 0; tight < 2; tight++) {
        must(&f, stream(&f, 40, tight ? 4 * 2 * 40 * 100 : 1 << 30));
        const uint64_t batches = lanes_batches(&f.lanes);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            const uint32_t round = i % LANES;
            struct thread t[] = {{&f, 0, 2, round * 20, batches + round, false},
                                 {&f, 2, 1, round * 20, batches + round, false},
                                 {&f, round, 1, 0, batches, false},
                                 {&f, 0, 4, batches - 20, batches + 20, false}};
            pthread_t id[sizeof t / sizeof *t];
            f.source->type->want(f.source, round * 20, 2 * batches, round, round ? 1 : LANES);
            for (size_t k = 0; k < sizeof t / sizeof *t; k++)
                assert_int_equal(pthread_create(&id[k], NULL, train, &t[k]), 0);
            for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
                assert_int_equal(pthread_join(id[k], NULL), 0);
                assert_false(t[k].differs);
            }
        }
        stream_source_free(f.source);
        f.source = NULL;
        f.reader->type->free(f.reader);
        f.reader = NULL;
        text_index_close(&f.x);
    }
    teardown(&f);
}

/* A reader that counts what is read. */
struct counting {
    struct row_reader reader;
    struct row_reader *of;
    atomic_ullong rows;
    /* a read of the other thread fails, behind the request to end */
    bool fails;
    pthread_t main;
    atomic_bool reads, ends;
};

static enum err fail_late(struct counting *c, struct errmsg *e)
{
    atomic_store(&c->reads, true);
    while (!atomic_load(&c->ends))
        clock_sleep_ms(1);
    clock_sleep_ms(50); /* meanwhile the source gets the request */
    return err_memory(e);
}

static enum err count_read(struct row_reader *r, uint64_t first, uint64_t end, row_visitor *visit,
                           void *ctx, struct errmsg *e)
{
    struct counting *c = (struct counting *)r;
    if (c->fails && !pthread_equal(pthread_self(), c->main))
        return fail_late(c, e);
    enum err err = c->of->type->read(c->of, first, end, visit, ctx, e);
    atomic_fetch_add(&c->rows, end - first);
    return err;
}

static void count_free(struct row_reader *r)
{
    struct counting *c = (struct counting *)r;
    c->of->type->free(c->of);
    free(c);
}

static struct counting *count_reads(struct fixture *f)
{
    static const struct row_reader_type type = {count_read, count_free};
    struct counting *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->of = f->reader;
    c->reader = *c->of;
    c->reader.type = &type;
    stream_source_free(f->source);
    f->reader = &c->reader;
    must(f, open_source(f, 1 << 30));
    return c;
}

static void a_process_reads_the_rows_of_its_lanes_once_an_epoch(void **state)
{
    (void)state;
    enum { LONG = 20000 };
    struct fixture f;
    setup(&f, true, 900, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    struct counting *c = count_reads(&f);
    struct buffers b = buffers_new(&f, BATCH);
    const uint64_t batches = lanes_batches(&f.lanes);
    const uint64_t own = lanes_length(&f.lanes, 1) + lanes_length(&f.lanes, 2);
    f.source->type->want(f.source, 0, 3 * batches, 1, 2);
    for (uint64_t id = 0; id < 3 * batches; id++)
        for (uint32_t lane = 1; lane < 3; lane++)
            assert_true(has_leaf(&f, &b, id, lane));
    for (int i = 0; i < LONG; i++) /* meanwhile the thread looks for groups to read ahead */
        assert_true(has_leaf(&f, &b, 3 * batches - 1, 1));
    stream_source_free(f.source);
    f.source = NULL;
    assert_int_equal(atomic_load(&c->rows), 3 * own);
    buffers_free(&b);
    teardown(&f);
}

static void a_source_ends_while_a_group_that_cannot_be_read_is_read(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf leaf;
    setup(&f, true, 900, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    struct counting *c = count_reads(&f);
    struct buffers b = buffers_new(&f, BATCH);
    c->main = pthread_self();
    c->fails = true;
    must(&f, f.source->type->leaf(f.source, 0, 1, b.of_stream, &leaf, &f.e));
    while (!atomic_load(&c->reads))
        clock_sleep_ms(1);
    atomic_store(&c->ends, true);
    stream_source_free(f.source);
    f.source = NULL;
    buffers_free(&b);
    teardown(&f);
}

/* The windows of leases are far from each other. */
static void the_window_of_the_next_lease_is_read_ahead(void **state)
{
    (void)state;
    struct numbered_config c = {.rows = 4000,
                                .batch_size = 20,
                                .seed = 3,
                                .microbatches = 4,
                                .window = 60,
                                .mix = 2,
                                .leased = true,
                                .times = 2};
    struct errmsg e;
    const float *rows;
    uint32_t n;
    const uint64_t each = numbered_window_batches(&c), before = numbered_read();
    assert_int_equal(each, 6);
    for (uint64_t after = 2; after < 5; after++) { /* even and odd windows */
        struct numbered *s = numbered_new(&c, &e);
        const uint64_t began = numbered_read();
        assert_non_null(s);
        numbered_want(s, 1, each, 0, 4);
        numbered_soon(s, after * each);
        for (uint64_t id = 1; id < each; id++)
            for (uint32_t leaf = 0; leaf < 4; leaf++)
                assert_int_equal(numbered_leaf(s, id, leaf, &rows, &n, &e), ERR_OK);
        for (int ms = 0; ms < 20000 && numbered_read() < began + 2 * each * c.batch_size; ms++)
            clock_sleep_ms(1);
        assert_int_equal(numbered_read(), began + 2 * each * c.batch_size);
        numbered_want(s, after * each, (after + 1) * each, 0, 4);
        for (uint64_t id = after * each; id < (after + 1) * each; id++)
            assert_int_equal(numbered_leaf(s, id, 0, &rows, &n, &e), ERR_OK);
        assert_in_range(rows[0], after * each * c.batch_size, (after + 1) * each * c.batch_size);
        numbered_free(s);
    }
    assert_int_equal(numbered_read(), before + 3 * 2 * each * c.batch_size);
}

static void blocks_are_those_of_a_load_of_all_rows(void **state)
{
    (void)state;
    enum { BLOCK = 150 };
    struct fixture f;
    setup(&f, true, 300, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    struct buffers b = buffers_new(&f, BLOCK);
    struct dataset_source whole;
    dataset_source_init(&whole, &f.d, NULL);
    for (uint64_t first = 0; first < f.d.rows; first += BLOCK - 13) {
        struct leaf got, wanted;
        must(&f, source_block(f.source, first, BLOCK, b.of_stream, &got, &f.e));
        must(&f, source_block(&whole.source, first, BLOCK, b.of_load, &wanted, &f.e));
        assert_true(same_leaf(&got, &wanted, f.d.features));
    }
    buffers_free(&b);
    teardown(&f);
}

/* ---- rows that are held out ---- */

enum { WIDE_ROWS = 2500, WIDE_COLUMNS = 900, WIDE_BLOCK = 250 };

/* The eval part as a job holds it out of the file, whose rows are so wide that a span has few. */
struct held_out {
    struct job job;
    struct dataset train, eval;
    struct dataset_source source;
    atomic_ullong next;
    atomic_bool differs;
    struct held_out *other; /* the one that has the same rows */
};

static void hold_out(struct fixture *f, struct held_out *h, bool streams, const char *way)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "data: {format: csv, train: '%s/wide.csv', header: names, bad_rows: skip, "
                   "memory_mb: 1, order: "
                   "%s, columns: [label: y, {number: {name: 'n{1..%d}', missing: {value: 0}}}], "
                   "validation: %s}\nmodel: {input: {shape: auto}, layers: [{dense: {units: 1}}, "
                   "sigmoid], loss: binary_crossentropy}\ntraining: {batch_size: 4, microbatches: "
                   "4}\noptimizer: sgd\n",
                   f->files.dir, streams ? "stream, window: 30" : "shuffled", WIDE_COLUMNS, way);
    must(f, job_parse(&h->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e));
    if (streams)
        must(f, dataset_begin_stream(&h->train, &h->job, NULL, &f->e));
    if (streams)
        must(f, dataset_index(&h->train, NULL, &f->e));
    else
        must(f, dataset_load(&h->train, &h->job, 0, 2, &f->e));
    must(f, streams ? dataset_hold_stream(&h->eval, &h->train, 2, &f->e)
                    : dataset_load_eval(&h->eval, &h->job, &h->train, 2, &f->e));
    dataset_source_init(&h->source, &h->eval, NULL);
}

static void *compare_blocks(void *ctx)
{
    struct held_out *h = ctx;
    const uint64_t blocks = (h->eval.rows + WIDE_BLOCK - 1) / WIDE_BLOCK;
    struct leaf_buffer *a, *b;
    struct leaf got, wanted;
    struct errmsg e;
    uint64_t i;
    assert_int_equal(leaf_buffer_new(&a, &h->source.source.form, WIDE_BLOCK, LEAF_ALL, &e), 0);
    assert_int_equal(leaf_buffer_new(&b, &h->source.source.form, WIDE_BLOCK, LEAF_ALL, &e), 0);
    while ((i = atomic_fetch_add(&h->next, 1)) < 2 * blocks) /* twice */
        if (source_block(&h->source.source, i % blocks * WIDE_BLOCK, WIDE_BLOCK, a, &got, &e) ||
            source_block(&h->other->source.source, i % blocks * WIDE_BLOCK, WIDE_BLOCK, b, &wanted,
                         &e) ||
            !same_leaf(&got, &wanted, WIDE_COLUMNS))
            atomic_store(&h->differs, true);
    leaf_buffer_free(a);
    leaf_buffer_free(b);
    return NULL;
}

/* The first number of a row is its own. */
static void count_rows(const struct leaf *l, uint32_t *times)
{
    for (uint32_t i = 0; i < l->n; i++)
        times[(uint32_t)l->x[(size_t)i * WIDE_COLUMNS]]++;
}

/* Each good row is trained on in an epoch, or evaluated, once. */
static void check_parts(struct fixture *f, struct held_out *h)
{
    uint32_t times[WIDE_ROWS] = {0};
    struct leaf_buffer *buffer;
    struct source *left;
    struct leaf leaf;
    must(f, dataset_open_stream(&h->train, 2, &left, &f->e));
    must(f, leaf_buffer_new(&buffer, &left->form, WIDE_BLOCK, LEAF_ALL, &f->e));
    for (uint64_t i = 0; i < h->eval.rows; i += WIDE_BLOCK) {
        must(f, source_block(&h->source.source, i, WIDE_BLOCK, buffer, &leaf, &f->e));
        count_rows(&leaf, times);
    }
    for (uint64_t i = 0; i < order_batches(&left->order) * LANES; i++) {
        must(f, left->type->leaf(left, i / LANES, (uint32_t)(i % LANES), buffer, &leaf, &f->e));
        count_rows(&leaf, times);
    }
    for (uint32_t row = 0; row < WIDE_ROWS; row++)
        assert_int_equal(times[row], row % 50 != 0);
    leaf_buffer_free(buffer);
}

static void close_held(struct held_out *h)
{
    dataset_close(&h->eval);
    dataset_close(&h->train);
    job_close(&h->job);
}

static void rows_that_are_held_out_are_those_of_a_load_for_any_number_of_threads(void **state)
{
    (void)state;
    struct fixture f = {.e = {""}};
    char *text = malloc(WIDE_ROWS * (WIDE_COLUMNS * 12 + 20));
    idx_files_init(&f.files);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "user,y");
    for (int i = 1; i <= WIDE_COLUMNS; i++)
        n += (size_t)sprintf(text + n, ",n%d", i);
    for (uint64_t row = 0; row < WIDE_ROWS; row++) {
        n += (size_t)sprintf(text + n, "\nu%u,%s", (unsigned)(rng_u64(1, row) % 97),
                             row % 50 ? row % 3 ? "0" : "1" : "bad");
        for (int i = 1; i <= WIDE_COLUMNS; i++)
            n += (size_t)sprintf(text + n, ",%u", (unsigned)(i == 1 ? row : (uint64_t)i % 10));
    }
    idx_files_write(&f.files, "wide.csv", (struct bytes){(uint8_t *)text, n});
    static const char *const ways[] = {"{last: 0.7}", "{share: 0.6}", "{column: user, share: 0.6}"};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        static struct held_out load, stream;
        load = stream = (struct held_out){.differs = false};
        hold_out(&f, &load, false, ways[way]);
        hold_out(&f, &stream, true, ways[way]);
        stream.other = &load;
        assert_in_range(load.eval.rows, WIDE_ROWS / 2, WIDE_ROWS * 4 / 5);
        assert_int_equal(stream.eval.rows, load.eval.rows);
        pthread_t thread[3];
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, compare_blocks, &stream), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_false(stream.differs);
        check_parts(&f, &stream);
        close_held(&stream);
        close_held(&load);
    }
    free(text);
    idx_files_close(&f.files);
}

/* ---- what rows teach ---- */

static bool same_words(const struct vocabulary *a, const struct vocabulary *b)
{
    bool are = a->count == b->count;
    for (uint32_t i = 0; i < a->count && are; i++) {
        size_t n, m;
        const char *word = vocabulary_text(a, i, &n), *other = vocabulary_text(b, i, &m);
        are = n == m && memcmp(word, other, n) == 0;
    }
    return are;
}

/* The input of a schema that the rows of a reader have taught; its words are checked. */
static struct schema_input learned_by(struct fixture *f, uint32_t threads)
{
    enum { BLOCK = 300 };
    struct table_schema *s;
    struct row_reader *reader;
    struct pool *pool;
    must(f, schema_of_job(&s, &f->job, &f->e));
    must(f, schema_place_features(s, &f->e));
    const struct reading r = {.job = &f->job, .schema = s, .teaches = true};
    must(f, csv_index_reader(&reader, &r, &f->x, &f->paths, &f->e));
    must(f, pool_new(&pool, threads, &f->e));
    assert_int_equal(stream_learn(reader, 4001, BLOCK, 1000, pool, &f->e), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "category town: too many words: with "));
    vocabulary_close(&s->input[1].words);
    loading_begin(5000, NULL, NULL);
    loading_read(5000); /* the index has read all */
    must(f, stream_learn(reader, 4001, BLOCK, 1 << 20, pool, &f->e));
    struct loading now;
    assert_true(loading_now(&now));
    assert_int_equal(now.bytes, 4001);
    assert_int_equal(now.rows, reader->rows);
    loading_end();
    const struct schema_input in = s->input[0];
    assert_true(s->input[1].words.count > 200);
    assert_true(same_words(&s->input[1].words, &f->d.table.schema->input[1].words));
    pool_free(pool);
    reader->type->free(reader);
    schema_unref(s);
    return in;
}

static void rows_teach_what_a_load_of_all_rows_learns_with_any_number_of_threads(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, true, 900, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    const struct schema_input *whole = &f.d.table.schema->input[0];
    const struct schema_input one = learned_by(&f, 1), three = learned_by(&f, 3);
    assert_true(one.shift == three.shift && one.divisor == three.divisor && one.fill == three.fill);
    assert_true(fabs(one.shift - whole->shift) < 1e-12 * whole->shift);
    assert_true(fabs(one.divisor - whole->divisor) < 1e-12 * whole->divisor);
    assert_true(one.fill == one.shift && one.needs_double == whole->needs_double);
    teardown(&f);
}

/* ---- errors ---- */

static void lanes_that_do_not_fit_the_memory_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, true, 900, "skip");
    load(&f);
    assert_int_equal(stream(&f, 40, 1000), ERR_INPUT);
    assert_non_null(
        strstr(f.e.text, "2 windows (data.mix) of 40 rows (data.window) for each of 4"));
    assert_null(f.source);
    teardown(&f);
}

static void lists_of_keys_that_do_not_fit_the_memory_are_refused(void **state)
{
    (void)state;
    enum { ROWS = 2000, KEYS = 300 };
    struct fixture f = {.e = {""}};
    struct key_growth keys;
    char *text = malloc(ROWS * (KEYS * 5 + 20)), job[1024];
    size_t n = 0;
    idx_files_init(&f.files);
    assert_non_null(text);
    for (int row = 0; row < ROWS; row++)
        for (int key = -1; key < KEYS; key++)
            n += (size_t)sprintf(text + n, key < 0 ? "\n%d," : "%d ", key < 0 ? row % 2 : key);
    idx_files_write(&f.files, "lists.csv", (struct bytes){(uint8_t *)text, n});
    (void)snprintf(
        job, sizeof job,
        "data: {format: csv, train: '%s/lists.csv', memory_mb: 1, order: stream, window: "
        "250, columns: [label: y, keys: {name: k, separator: ' ', max_values: 300}]}\n"
        "model: {input: {shape: auto}, layers: [{linear: {inputs: k}}, sigmoid], loss: "
        "binary_crossentropy}\ntraining: {batch_size: 4, microbatches: 4}\n"
        "optimizer: sgd\n",
        f.files.dir);
    must(&f, job_parse(&f.job, job, strlen(job), "j.yaml", "/", NULL, 0, &f.e));
    must(&f, dataset_sample(&f.d, &f.job, NULL, &keys, &f.e));
    must(&f, dataset_begin_stream(&f.d, &f.job, NULL, &f.e));
    assert_in_range(f.d.row_bytes, KEYS * sizeof(uint64_t), KEYS * sizeof(uint64_t) + 40);
    assert_int_equal(dataset_index(&f.d, NULL, &f.e), ERR_INPUT);
    if (!strstr(f.e.text, "microbatches need 2.3 MiB, as a sample of the rows shows"))
        fail_msg("%s", f.e.text);
    free(text);
    dataset_close(&f.d);
    job_close(&f.job);
    idx_files_close(&f.files);
}

static void refuses_leaf(struct fixture *f, enum err wanted, const char *why)
{
    struct buffers b = buffers_new(f, BATCH);
    struct leaf leaf;
    enum err err = ERR_OK;
    for (uint64_t id = 0; id < lanes_batches(&f->lanes) && !err; id++)
        err = f->source->type->leaf(f->source, id, LANES - 1, b.of_stream, &leaf, &f->e);
    assert_int_equal(err, wanted);
    if (!strstr(f->e.text, why))
        fail_msg("not \"%s\": %s", why, f->e.text);
    buffers_free(&b);
}

static void a_file_that_changes_is_refused_by_its_name(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, true, 200, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    f.x.file[2].modified_ns++;
    refuses_leaf(&f, ERR_INPUT, "2.csv: it changed while it was read");
    f.x.file[2].modified_ns--;
    for (uint64_t i = 0; i < f.x.file[2].cells; i++)
        f.x.file[2].entry[i].sum++;
    refuses_leaf(&f, ERR_INPUT, "it has changed since it was indexed, at byte ");
    teardown(&f);
}

/* Of the same size and time, as on another host. */
static void a_compressed_file_that_is_damaged_is_refused_by_its_name(void **state)
{
    (void)state;
    static const char zeros[40];
    for (enum packing packing = PACK_GZIP; packing <= PACK_ZSTD; packing++) {
        struct fixture f;
        setup_packed(&f, true, 200, "skip", (enum packing[FILES]){packing, packing, packing});
        load(&f);
        must(&f, stream(&f, 40, 1 << 30));
        const int fd = open(f.paths.path[2], O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, zeros, sizeof zeros, (off_t)f.x.file[2].stored_bytes / 2),
                         sizeof zeros);
        const int64_t ns = f.x.file[2].modified_ns;
        assert_int_equal(futimens(fd, (struct timespec[]){{.tv_nsec = UTIME_OMIT},
                                                          {.tv_sec = ns / 1000000000,
                                                           .tv_nsec = ns % 1000000000}}),
                         0);
        close(fd);
        refuses_leaf(&f, ERR_INPUT, "2.csv: "); /* by the decompressor, or the checksum of a cell */
        f.x.file[2].stored_bytes--;
        refuses_leaf(&f, ERR_INPUT, "2.csv: it changed while it was read");
        teardown(&f);
    }
}

/* An allocation that fails while the thread reads ahead is no error of a leaf. */
static void memory_that_runs_out_is_an_error_that_passes(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, true, 100, "skip");
    load(&f);
    must(&f, stream(&f, 40, 1 << 30));
    stream_source_free(f.source);
    f.source = NULL;
    f.reader->type->free(f.reader);
    f.reader = NULL;
    unsigned failed = 0;
    for (long n = 0, fired = 1; fired; n++) {
        struct leaf_buffer *buffer = NULL;
        struct leaf leaf;
        mem_fail_at(n);
        enum err err = csv_index_reader(&f.reader, &f.reading, &f.x, &f.paths, &f.e);
        if (!err)
            err = open_source(&f, 1 << 30);
        if (!err)
            err = leaf_buffer_new(&buffer, &f.source->form, BATCH, LEAF_ALL, &f.e);
        for (uint64_t id = 0; id < lanes_batches(&f.lanes) && !err; id++)
            err = f.source->type->leaf(f.source, id, 2, buffer, &leaf, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_true(err == ERR_OK || (fired && err == ERR_NOMEM));
        failed += err != ERR_OK;
        leaf_buffer_free(buffer);
        if (f.source)
            stream_source_free(f.source);
        f.source = NULL;
        if (f.reader)
            f.reader->type->free(f.reader);
        f.reader = NULL;
    }
    assert_true(failed > 10);
    teardown(&f);
}

/* Whether the line of the file that the message names, as PATH:LINE, begins so. */
static bool names_line(const char *message, const char *beginning)
{
    char path[300], text[LINE_BYTES] = "";
    unsigned long line = 0;
    assert_int_equal(sscanf(message, "%299[^:]:%lu", path, &line), 2);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (line-- && fgets(text, sizeof text, file))
        ;
    assert_int_equal(fclose(file), 0);
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static void a_bad_row_is_refused_with_its_line_if_none_may_be(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, true, 3000, "skip");
    load(&f);
    f.job.data.csv.bad_rows = BAD_ROWS_STOP;
    must(&f, stream(&f, 200, 1 << 30));
    refuses_leaf(&f, ERR_INPUT, ": column \"y\": the label \"no label\" is not a number");
    assert_true(names_line(f.e.text, "no label"));
    teardown(&f);
}

/* Each window's bad rows once, however often it is read. */
static void bad_rows_are_counted_once_and_refused_beyond_their_number(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf leaf;
    setup(&f, true, 900, "skip");
    load(&f);
    const uint64_t bad = f.d.bad_rows;
    assert_in_range(bad, 5, 100);
    for (int fewer = 0; fewer < 2; fewer++) {
        f.job.data.csv.bad_rows_max = (uint32_t)bad - (uint32_t)fewer;
        must(&f, fewer ? open_source(&f, 1 << 30) : stream(&f, 20, 1 << 30));
        struct buffers b = buffers_new(&f, BATCH);
        enum err err = ERR_OK;
        for (uint64_t id = 0; id < 3 * lanes_batches(&f.lanes) && !err; id++)
            for (uint32_t lane = 0; lane < LANES && !err; lane++)
                err = f.source->type->leaf(f.source, id, lane, b.of_stream, &leaf, &f.e);
        assert_int_equal(err, fewer ? ERR_INPUT : ERR_OK);
        if (fewer)
            assert_non_null(strstr(f.e.text, "bad rows (data.bad_rows_max)"));
        buffers_free(&b);
        stream_source_free(f.source);
        f.source = NULL;
    }
    teardown(&f);
}

static enum err visit_nothing(void *ctx, const uint32_t *cells, size_t n, bool bad,
                              struct errmsg *e)
{
    (void)ctx, (void)cells, (void)n, (void)bad, (void)e;
    return ERR_OK;
}

/* As the reader of all rows refuses them, wherever they are in their cells. */
static void a_row_longer_than_a_piece_is_refused_wherever_it_begins(void **state)
{
    (void)state;
    const struct csv_grammar g = {
        .delimiter = ',', .quotes = true, .comment = "#", .comment_bytes = 1};
    enum { LONG = 600 << 10, LEAST = 500 << 10 };
    char *text = malloc(4 << 20);
    assert_non_null(text);
    for (int longer = 0; longer < 2; longer++)
        for (uint64_t before = 1; before < 3000; before += 900) {
            struct fixture f;
            setup(&f, true, 40, "skip");
            load(&f);
            size_t n = (size_t)sprintf(text, "y,age,town,user,tags,note,w\n");
            for (uint64_t k = 0; k < before; k++)
                n += (size_t)sprintf(text + n, "1,%d,a,7,1 2,%0150d,1\n", 2, 0);
            n += (size_t)sprintf(text + n, "0,3,a,8,3,%0*d,2\n", longer ? LONG : LEAST, 0);
            n += (size_t)sprintf(text + n, "0,3,a,8,3,note,2\n");
            idx_files_write(&f.files, "2.csv", (struct bytes){(uint8_t *)text, n});
            f.reading = (struct reading){.job = &f.job, .schema = f.d.table.schema};
            enum err err = csv_index(&f.x, &f.paths, &g, true, TEXT_INDEX_CELL_BYTES,
                                     CSV_PIECE_BYTES, NULL, f.pool, &f.e);
            const uint64_t rows = err ? 0 : text_index_rows(&f.x);
            if (!err)
                err = csv_index_reader(&f.reader, &f.reading, &f.x, &f.paths, &f.e);
            if (!err)
                err = f.reader->type->read(f.reader, rows - 2, rows, visit_nothing, NULL, &f.e);
            assert_int_equal(err, longer ? ERR_INPUT : ERR_OK);
            char where[64];
            snprintf(where, sizeof where, "2.csv:%d: a row of more than 524288 bytes",
                     (int)before + 2);
            if (longer && !strstr(f.e.text, where))
                fail_msg("not %s: %s", where, f.e.text);
            teardown(&f);
        }
    free(text);
}

/* Comments and empty lines can come before a header, and be longer than any row. */
static void a_header_is_found_behind_any_number_of_comments(void **state)
{
    (void)state;
    enum { BEFORE = 3 * CSV_PIECE_BYTES };
    struct fixture f;
    setup(&f, true, 40, "skip");
    char *text = malloc(BEFORE + 1000);
    assert_non_null(text);
    size_t n = 0;
    while (n < BEFORE)
        n += (size_t)sprintf(text + n, n % 3 ? "# y,age\n" : "\n");
    n += (size_t)sprintf(text + n, "age,y,town,user,tags,note,w\n");
    for (uint64_t row = 0; row < 20; row++)
        n += (size_t)sprintf(text + n, "%d,1,a,7,1 2,x,1\n", (int)row);
    idx_files_write(&f.files, "2.csv", (struct bytes){(uint8_t *)text, n});
    free(text);
    load(&f);
    must(&f, stream(&f, 4, 1 << 30));
    struct buffers b = buffers_new(&f, BATCH);
    for (uint64_t id = 0; id < lanes_batches(&f.lanes); id++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            assert_true(has_leaf(&f, &b, id, lane));
    buffers_free(&b);
    teardown(&f);
}

/* Also if another thread has read it before. */
static void a_header_that_lacks_a_column_is_refused_each_time(void **state)
{
    (void)state;
    static const char text[] = "# one\ny,age,village,user,tags,note,w\n1,2,a,7,1,x,1\n";
    struct fixture f;
    setup(&f, true, 40, "skip");
    load(&f);
    const uint64_t rows = f.d.rows;
    idx_files_write(&f.files, "3.csv", (struct bytes){(uint8_t *)(uintptr_t)text, sizeof text - 1});
    must(&f, paths_add(&f.paths, f.paths.path[2], &f.e));
    char *path = strrchr(f.paths.path[3], '2');
    *path = '3';
    f.d.rows++;
    must(&f, stream(&f, 4, 1 << 30));
    for (int i = 0; i < 2; i++) {
        f.e.text[0] = '\0';
        assert_int_equal(f.reader->type->read(f.reader, rows, rows + 1, visit_nothing, NULL, &f.e),
                         ERR_INPUT);
        assert_int_equal(strncmp(f.e.text, f.paths.path[3], strlen(f.paths.path[3])), 0);
        assert_int_equal(strncmp(f.e.text + strlen(f.paths.path[3]), ":2: its header", 14), 0);
    }
    teardown(&f);
}

/* ---- Parquet ---- */

struct seen {
    uint32_t cell[4096];
    size_t used;
};

static enum err see(void *ctx, const uint32_t *cells, size_t n, bool bad, struct errmsg *e)
{
    (void)bad, (void)e;
    struct seen *s = ctx;
    assert_true(s->used + n <= sizeof s->cell / sizeof *s->cell);
    memcpy(s->cell + s->used, cells, n * sizeof *cells);
    s->used += n;
    return ERR_OK;
}

/* Two files of row groups of 25, 25 and 10 rows. */
static void setup_parquet(struct fixture *f)
{
    static const char text[] =
        "model: {input: {shape: auto}, layers: [{linear: {inputs: [user, town], name: w}}, "
        "{dense: {inputs: [age], units: 1, name: d}}, {add: [w, d]}, sigmoid], "
        "loss: binary_crossentropy}\noptimizer: sgd\n"
        "data: {format: parquet, train: 'tests/data/parquet/rows-?.parquet', order: stream, "
        "columns: "
        "[label: y, number: {name: age, missing: {value: 0}}, key: user, key: town]}\n";
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    must(f, job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e));
    must(f, paths_expand(&f->paths, "tests/data/parquet/rows-?.parquet", &f->e));
    must(f, schema_of_job(&f->d.table.schema, &f->job, &f->e));
    must(f, schema_place_features(f->d.table.schema, &f->e));
    f->reading = (struct reading){.job = &f->job, .schema = f->d.table.schema};
}

static void decoders_that_stay_open_change_no_row(void **state)
{
    (void)state;
    enum { ROWS = 120, READS = 300 };
    const uint64_t keep[] = {0, 3 << 20, 1 << 30};
    struct fixture f;
    struct seen all = {.used = 0};
    setup_parquet(&f);
    enum err err = parquet_index_type.make(&f.x, &f.paths, NULL, false, 1, 1, NULL, NULL, &f.e);
    for (size_t k = 0; k < sizeof keep / sizeof *keep && !err; k++) {
        must(&f, parquet_index_type.reader(&f.reader, &f.reading, &f.x, &f.paths, &f.e));
        assert_int_equal(f.reader->rows, ROWS);
        f.reader->keep_bytes = keep[k];
        all.used = 0;
        must(&f, f.reader->type->read(f.reader, 0, ROWS, see, &all, &f.e));
        const size_t cells = all.used / ROWS;
        for (uint64_t i = 0; i < READS; i++) {
            struct seen part = {.used = 0};
            const uint64_t first = rng_u64(1, i) % ROWS, n = rng_u64(2, i) % 40 + 1,
                           end = first + n < ROWS ? first + n : ROWS;
            must(&f, f.reader->type->read(f.reader, first, end, see, &part, &f.e));
            assert_int_equal(part.used, (end - first) * cells);
            assert_memory_equal(part.cell, all.cell + first * cells, part.used * sizeof *all.cell);
        }
        f.reader->type->free(f.reader);
        f.reader = NULL;
    }
    const bool built = !strstr(f.e.text, "the module gradwire-arrow");
    schema_unref(f.d.table.schema);
    f.d.table.schema = NULL;
    teardown(&f);
    if (!built)
        skip();
    assert_int_equal(err, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_are_those_of_a_load_of_all_rows),
        cmocka_unit_test(lanes_without_rows_have_empty_leaves),
        cmocka_unit_test(threads_get_the_same_leaves_while_lanes_change),
        cmocka_unit_test(a_process_reads_the_rows_of_its_lanes_once_an_epoch),
        cmocka_unit_test(a_source_ends_while_a_group_that_cannot_be_read_is_read),
        cmocka_unit_test(the_window_of_the_next_lease_is_read_ahead),
        cmocka_unit_test(blocks_are_those_of_a_load_of_all_rows),
        cmocka_unit_test(rows_that_are_held_out_are_those_of_a_load_for_any_number_of_threads),
        cmocka_unit_test(rows_teach_what_a_load_of_all_rows_learns_with_any_number_of_threads),
        cmocka_unit_test(lanes_that_do_not_fit_the_memory_are_refused),
        cmocka_unit_test(lists_of_keys_that_do_not_fit_the_memory_are_refused),
        cmocka_unit_test(a_file_that_changes_is_refused_by_its_name),
        cmocka_unit_test(a_compressed_file_that_is_damaged_is_refused_by_its_name),
        cmocka_unit_test(memory_that_runs_out_is_an_error_that_passes),
        cmocka_unit_test(a_bad_row_is_refused_with_its_line_if_none_may_be),
        cmocka_unit_test(bad_rows_are_counted_once_and_refused_beyond_their_number),
        cmocka_unit_test(a_row_longer_than_a_piece_is_refused_wherever_it_begins),
        cmocka_unit_test(a_header_is_found_behind_any_number_of_comments),
        cmocka_unit_test(a_header_that_lacks_a_column_is_refused_each_time),
        cmocka_unit_test(decoders_that_stay_open_change_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
