/* `gradwire encode DIR [DATA]... --output FILE`: rows as the arrays that an exported model takes.
 *
 * Happy path: csv and libsvm in pieces, other data in memory -> each thread encodes its rows -> it adds them to the arrays when
 * its turn comes -> one archive of all arrays.
 * Failure modes: as of `predict`; a word that is not UTF-8, with --raw. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "common/flags/flags.h"
#include "formats/keras/keras.h"
#include "model_cli/array_file.h"
#include "model_cli/command.h"
#include "model_cli/trained.h"
#include "model/blas.h"
#include "data/dataset.h"

enum { LAYER_NAME_MAX = 128 /* in a .keras file, where it can have a number more */ };

/* The part of a row that an array has. */
enum encoded_source {
    SOURCE_FEATURES,
    SOURCE_NUMBER,  /* raw */
    SOURCE_WORD,    /* raw */
    SOURCE_KEYS,    /* of a column */
    SOURCE_WEIGHTS, /* of these keys */
    SOURCE_VECTORS, /* of a layer that looks up a table */
};

/* of: NUMBER: index of the cell; WORD: of the kept text; KEYS, WEIGHTS: of the schema's key; VECTORS: of the lookup layer. */
struct encoded {
    enum encoded_source source;
    uint32_t of, width; /* width: elements of a row */
};

/* One thread's memory. */
struct worker {
    struct lane *lane;
    struct text *text;        /* (arrays) of the rows that it took last */
    float *floats;            /* (LANE_ROWS, widest) */
    uint64_t *key;            /* (widest) */
    uint32_t rows[LANE_ROWS]; /* of a block: the good row's number + 1; 0: it is bad */
    uint64_t broken;          /* numbers of good rows that are not finite */
};

struct encode {
    struct trained model;
    char (*layer)[LAYER_NAME_MAX]; /* the names of the layers that look up tables */
    uint32_t arrays, widest;
    struct encoded *encoded;  /* (arrays) */
    struct array_file *array; /* (arrays) */
    struct csv_keep keep;     /* the words */
    uint32_t *kept;           /* (keep.columns) the job's columns */
    const char **kept_name;
    struct worker *worker; /* (threads) */
    struct dataset_streamed read;
};

/* ---- the arrays ---- */

/* Its name is `name` and then `end`. */
static enum err add_array(struct encode *x, const struct encoded *of, enum array_kind kind,
                          const char *name, const char *end, bool flat, struct errmsg *e)
{
    size_t bytes = strlen(name) + strlen(end) + 1;
    struct encoded *encoded = mem_extend(x->encoded, x->arrays, 1, sizeof *encoded);
    struct array_file *array = mem_extend(x->array, x->arrays, 1, sizeof *array);
    char *full = mem_zalloc(bytes, 1);
    x->encoded = encoded ? encoded : x->encoded;
    x->array = array ? array : x->array;
    if (!encoded || !array || !full) {
        mem_free(full);
        return err_memory(e);
    }
    (void)snprintf(full, bytes, "%s%s", name, end);
    x->array[x->arrays] = (struct array_file){
        .name = full, .kind = kind, .rank = !flat, .dim = {of->width}, .fd = -1};
    x->encoded[x->arrays++] = *of;
    x->widest = of->width > x->widest ? of->width : x->widest;
    return ERR_OK;
}

/* The name of a column, as an exported model has it. */
static const char *name_column(const struct job *job, uint32_t column, char out[static 32])
{
    const char *name = job->data.csv.column[column].name;
    (void)snprintf(out, 32, "column_%u", column + 1);
    return *name ? name : out;
}

static bool has_array(const struct encode *x, const char *name)
{
    for (uint32_t i = 0; i < x->arrays; i++)
        if (strcmp(x->array[i].name, name) == 0)
            return true;
    return false;
}

static bool is_lookup(const struct encode *x, const char *name)
{
    for (uint32_t i = 0; i < model_lookups(x->model.folder.model); i++)
        if (strcmp(x->layer[i], name) == 0)
            return true;
    return false;
}

/* With --raw, arrays have the names of a graph's inputs, which are columns; without it those of a .keras file's: features
 * and layers. The column or layer that loses its name gets a longer one. */
static enum err add_keys(struct encode *x, uint32_t key, const char *column, struct errmsg *e)
{
    const struct folder *f = &x->model.folder;
    const struct table_key *k = &f->schema->key[key];
    bool taken = has_array(x, column) || (!flags_on("raw") && is_lookup(x, column));
    struct encoded of = {SOURCE_KEYS, key, table_key_width(k)};
    bool flat = k->kind != COLUMN_KEYS;
    enum err err = add_array(x, &of, ARRAY_I64, column, taken ? "/keys" : "", flat, e);
    of.source = SOURCE_WEIGHTS;
    if (!err && (!flat || k->cells > SCHEMA_KEY_CELLS))
        err = add_array(x, &of, ARRAY_F32, column, taken ? "/keys/weights" : "/weights", flat, e);
    return err;
}

/* The arrays of the raw columns; of the others the keys. */
static enum err add_columns(struct encode *x, bool raw, struct errmsg *e)
{
    const struct job *job = &x->model.folder.job;
    uint32_t input = 0, key = 0;
    char numbered[32];
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < job->data.csv.columns && !err; i++) {
        const struct job_column *c = &job->data.csv.column[i];
        const char *name = name_column(job, i, numbered);
        if (job_column_has_keys(c)) {
            err = add_keys(x, key++, name, e);
        } else if (c->kind == COLUMN_NUMBER) {
            const struct schema_input *in = &x->model.folder.schema->input[input];
            const struct encoded of = {SOURCE_NUMBER, input++, 1};
            enum array_kind kind = in->needs_double ? ARRAY_F64 : ARRAY_F32;
            err = raw ? add_array(x, &of, kind, name, "", true, e) : ERR_OK;
        } else if (c->kind == COLUMN_CATEGORY) {
            const struct encoded of = {SOURCE_WORD, x->keep.columns, 1};
            input++;
            if (!raw)
                continue;
            x->kept[x->keep.columns] = i;
            x->kept_name[x->keep.columns++] = c->name;
            err = add_array(x, &of, ARRAY_WORDS, name, "", true, e);
        }
    }
    return err;
}

static bool is_layer(const struct job *job, const char *name)
{
    for (uint32_t i = 0; i < job->model.layers; i++)
        if (strcmp(job->model.layer[i].name, name) == 0)
            return true;
    return false;
}

static enum err add_features(struct encode *x, const char *wanted, struct errmsg *e)
{
    const struct folder *f = &x->model.folder;
    const struct encoded of = {SOURCE_FEATURES, 0, model_features(f->model)};
    char name[LAYER_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s", wanted);
    for (uint32_t i = 1; is_layer(&f->job, name); i++)
        (void)snprintf(name, sizeof name, "%s_%u", wanted, i);
    return of.width ? add_array(x, &of, ARRAY_F32, name, "", false, e) : ERR_OK;
}

static enum err add_vectors(struct encode *x, struct errmsg *e)
{
    const struct model *m = x->model.folder.model;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < model_lookups(m) && !err; i++) {
        const struct model_lookup lookup = model_lookup(m, i);
        const struct encoded of = {SOURCE_VECTORS, i, lookup.width};
        const char *end = has_array(x, x->layer[i]) ? "/vectors" : "";
        err = add_array(x, &of, ARRAY_F32, x->layer[i], end, false, e);
    }
    return err;
}

struct names {
    uint32_t n, most;
    char (*name)[LAYER_NAME_MAX];
};

static void next_name(void *arg, const char *name, const char *shape)
{
    struct names *all = arg;
    (void)shape;
    if (all->n < all->most)
        (void)snprintf(all->name[all->n++], LAYER_NAME_MAX, "%s", name);
}

/* With --raw, layers have the names that a graph's inputs have. Without it they have those of Keras' inputs, which come
 * after the features' and before the output's. */
static enum err name_layers(struct encode *x, struct errmsg *e)
{
    const struct model *m = x->model.folder.model;
    uint32_t lookups = model_lookups(m);
    struct names all = {.most = lookups + 2};
    all.name = x->layer = mem_zalloc(all.most, sizeof *all.name);
    if (!all.name)
        return err_memory(e);
    enum err err = flags_on("raw") ? ERR_OK : keras_values(&x->model.folder, next_name, &all, e);
    for (uint32_t i = 0; i < lookups && flags_on("raw"); i++)
        next_name(&all, model_lookup(m, i).layer, "");
    if (all.n == all.most)
        memmove(all.name, all.name + 1, lookups * sizeof *all.name);
    return err;
}

static enum err add_arrays(struct encode *x, struct errmsg *e)
{
    const struct folder *f = &x->model.folder;
    uint32_t columns = f->job.data.csv.columns;
    bool raw = flags_on("raw");
    x->kept = mem_zalloc(columns + 1, sizeof *x->kept);
    x->kept_name = mem_zalloc(columns + 1, sizeof *x->kept_name);
    if (!x->kept || !x->kept_name)
        return err_memory(e);
    enum err err = f->schema ? name_layers(x, e) : ERR_OK;
    if (!err && !(f->schema && raw))
        err = add_features(x, f->schema ? "features" : "input", e);
    if (!err && f->schema)
        err = add_columns(x, raw, e);
    if (!err && f->schema)
        err = add_vectors(x, e);
    x->keep.key = "--output";
    x->keep.of = x->kept;
    x->keep.name = x->kept_name;
    if (!err && !f->schema) {
        x->array[0].rank = f->job.model.rank;
        memcpy(x->array[0].dim, f->job.model.shape, sizeof x->array[0].dim);
    }
    return err;
}

/* ---- rows of csv ---- */

static void add_row_keys(const struct encode *x, struct worker *w, uint32_t array,
                         const uint32_t *cells, bool bad)
{
    const struct table_schema *s = x->model.folder.schema;
    const struct encoded *of = &x->encoded[array];
    const struct table_key *k = &s->key[of->of];
    schema_row_keys(k, table_key_cells(s, k, cells), w->key, w->floats);
    if (bad) {
        memset(w->key, 0, of->width * sizeof *w->key);
        memset(w->floats, 0, of->width * sizeof *w->floats);
    }
    if (of->source == SOURCE_KEYS)
        text_add(&w->text[array], w->key, of->width * sizeof *w->key);
    else
        text_add(&w->text[array], w->floats, of->width * sizeof *w->floats);
}

static void add_number(const struct encode *x, struct worker *w, uint32_t array, double number)
{
    const float narrow = (float)number;
    if (x->array[array].kind == ARRAY_F64)
        text_add(&w->text[array], &number, sizeof number);
    else
        text_add(&w->text[array], &narrow, sizeof narrow);
}

/* Add what does not need the model, before the cells are scaled. */
static void encode_add_row(const struct encode *x, struct worker *w, const uint32_t *cells,
                           const struct csv_text *kept, bool bad)
{
    const struct table_schema *s = x->model.folder.schema;
    const uint32_t *high = schema_high_cells(s, cells);
    for (uint32_t i = 0; i < x->arrays; i++) {
        const struct encoded *of = &x->encoded[i];
        if (of->source == SOURCE_NUMBER)
            add_number(x, w, i, bad ? NAN : schema_number(s, cells, high, of->of));
        else if (of->source == SOURCE_WORD)
            array_word(&w->text[i], kept[of->of].at, bad ? 0 : kept[of->of].bytes);
        else if (of->source == SOURCE_KEYS || of->source == SOURCE_WEIGHTS)
            add_row_keys(x, w, i, cells, bad);
    }
}

/* Add the rows of a block: those of `from` (good rows, width); NaN for bad ones. */
static void add_floats(struct worker *w, uint32_t array, const float *from, uint32_t width,
                       uint32_t rows)
{
    const float none = NAN;
    for (uint32_t i = 0; i < rows; i++) {
        const float *row = w->rows[i] ? from + (size_t)(w->rows[i] - 1) * width : NULL;
        for (uint32_t k = 0; k < width; k++)
            w->broken += row && !isfinite(row[k]);
        if (row)
            text_add(&w->text[array], row, width * sizeof *from);
        for (uint32_t k = 0; !row && k < width; k++)
            text_add(&w->text[array], &none, sizeof none);
    }
}

/* Add what needs the model, of a block. */
static enum err add_encoded(const struct encode *x, struct worker *w, uint32_t rows,
                            struct errmsg *e)
{
    const struct leaf *leaf;
    enum err err = lane_finish(w->lane, &leaf, e);
    for (uint32_t i = 0; i < x->arrays && !err; i++) {
        const struct encoded *of = &x->encoded[i];
        if (of->source == SOURCE_FEATURES)
            add_floats(w, i, leaf->x, of->width, rows);
        if (of->source != SOURCE_VECTORS)
            continue;
        if (leaf->n)
            lane_lookup(w->lane, of->of, w->floats);
        add_floats(w, i, w->floats, of->width, rows);
    }
    return err;
}

/* *cells becomes the end of the block. */
static enum err encode_block(const struct encode *x, struct worker *w,
                             const struct csv_piece *piece, uint32_t row, uint32_t **cells,
                             uint32_t n, struct errmsg *e)
{
    const struct table_schema *s = x->model.folder.schema;
    const struct csv_text *kept = piece->kept + (size_t)row * x->keep.columns;
    enum err err = ERR_OK;
    lane_clear(w->lane);
    for (uint32_t i = 0; i < n && !err; i++, *cells += schema_packed_raw_cells(s, *cells)) {
        const bool bad = !batch_bit(piece->present, row + i);
        encode_add_row(x, w, *cells, kept + (size_t)i * x->keep.columns, bad);
        if (!bad)
            err = lane_add(w->lane, *cells, e);
        w->rows[i] = bad ? 0 : lane_rows(w->lane);
    }
    return err ? err : add_encoded(x, w, n, e);
}

static void clear_texts(const struct encode *x, struct worker *w)
{
    for (uint32_t i = 0; i < x->arrays; i++)
        text_clear(&w->text[i]);
}

static enum err encode_piece(void *ctx, uint32_t thread, struct csv_piece *piece, struct errmsg *e)
{
    const struct encode *x = ctx;
    struct worker *w = &x->worker[thread];
    uint32_t *cells = piece->cells;
    enum err err = ERR_OK;
    clear_texts(x, w);
    for (uint32_t i = 0; i < piece->rows && !err; i += LANE_ROWS) {
        uint32_t left = (uint32_t)piece->rows - i;
        err = encode_block(x, w, piece, i, &cells, left < LANE_ROWS ? left : LANE_ROWS, e);
    }
    return err;
}

static enum err put_piece(void *ctx, uint32_t thread, struct errmsg *e)
{
    const struct encode *x = ctx;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < x->arrays && !err; i++)
        err = array_file_put(&x->array[i], &x->worker[thread].text[i], e);
    return err;
}

static enum err encode_csv(struct encode *x, struct errmsg *e)
{
    const struct dataset_sink sink = {.keep = x->keep.columns ? &x->keep : NULL,
                                      .take = encode_piece,
                                      .put = put_piece,
                                      .ctx = x};
    return dataset_stream(&x->model.folder.job, x->model.folder.schema,
                          model_classes(x->model.folder.model), &sink, &x->read, e);
}

/* ---- rows in memory ---- */

static enum err encode_rows(struct encode *x, struct errmsg *e)
{
    struct dataset d = {.rows = 0};
    struct dataset_source source;
    struct worker *w = &x->worker[0];
    const struct leaf *leaf;
    enum err err = dataset_load_unlabeled(&d, &x->model.folder.job, e);
    dataset_source_init(&source, &d, NULL);
    d.scale = 1; /* the division by data.scale is in the exported model */
    for (uint64_t at = 0; at < d.rows && !err; at += LANE_ROWS) {
        uint32_t n = d.rows - at < LANE_ROWS ? (uint32_t)(d.rows - at) : LANE_ROWS;
        clear_texts(x, w);
        err = lane_gather(w->lane, &source.source, at, n, &leaf, e);
        if (!err)
            text_add(&w->text[0], leaf->x, (size_t)n * d.features * sizeof(float));
        if (!err)
            err = put_piece(x, 0, e);
    }
    x->read.rows = d.rows;
    dataset_close(&d);
    return err;
}

/* ---- the command ---- */

static enum err make_worker(const struct encode *x, struct worker *w, struct errmsg *e)
{
    w->text = mem_zalloc(x->arrays + 1, sizeof *w->text);
    w->floats = mem_floats((size_t)LANE_ROWS * x->widest + 1);
    w->key = mem_zalloc(x->widest + 1, sizeof *w->key);
    return w->text && w->floats && w->key ? lane_new(&w->lane, &x->model.folder, e) : err_memory(e);
}

static enum err prepare(struct encode *x, const char *path, struct errmsg *e)
{
    struct folder *f = &x->model.folder;
    enum err err = command_check_output(&f->job, x->model.path, path, e);
    if (!err)
        err = command_name_data(&f->job, false, e);
    if (!err)
        err = trained_open_tables(&x->model, e);
    if (!err)
        err = add_arrays(x, e);
    for (uint32_t i = 0; i < x->arrays && !err; i++)
        err = array_file_open(&x->array[i], path, e);
    x->worker = mem_zalloc(f->job.worker.threads, sizeof *x->worker);
    if (!err && !x->worker)
        err = err_memory(e);
    for (uint32_t i = 0; i < f->job.worker.threads && !err; i++)
        err = make_worker(x, &x->worker[i], e);
    return err ? err : blas_take(f->job.worker.threads, e);
}

static void say_misses(const struct encode *x)
{
    for (uint32_t i = 1; i < x->model.folder.job.worker.threads; i++)
        lane_join_misses(x->worker[0].lane, x->worker[i].lane);
    lane_say_misses(x->worker[0].lane);
}

static void warn_broken(const struct encode *x)
{
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < x->model.folder.job.worker.threads; i++)
        numbers += x->worker[i].broken;
    if (numbers)
        (void)fprintf(stderr,
                      "gradwire: warning: %" PRIu64
                      " number%s of the arrays %s not finite: the rows "
                      "or the model's weights have values that are too large\n",
                      numbers, numbers > 1 ? "s" : "", numbers > 1 ? "are" : "is");
}

static enum err encode(struct encode *x, struct errmsg *e)
{
    const char *path = flags_text("output");
    bool npy = text_ends(path, ".npy");
    if (!npy && !text_ends(path, ".npz"))
        return err_set(e, ERR_INPUT, "--output=FILE: name a file that ends with .npz or .npy");
    enum err err = prepare(x, path, e);
    if (!err && npy && x->arrays != 1)
        err = err_set(e, ERR_INPUT, "%s: an npy file has one array, but there are %u: name an npz",
                      path, x->arrays);
    if (!err)
        err = x->model.folder.schema ? encode_csv(x, e) : encode_rows(x, e);
    if (err)
        return err;
    if (x->read.unread.text[0])
        (void)fprintf(stderr, "gradwire: %s\n", x->read.unread.text);
    say_misses(x);
    warn_broken(x);
    return npy ? array_file_npy(x->array, x->read.rows, path, e)
               : array_file_npz(x->array, x->arrays, x->read.rows, path, e);
}

static void print_arrays(const struct encode *x)
{
    static const char *const types[] = {[ARRAY_F32] = "float32",
                                        [ARRAY_F64] = "float64",
                                        [ARRAY_I64] = "int64",
                                        [ARRAY_WORDS] = "text"};
    printf("%s: %" PRIu64 " rows\n", PRINTABLE(flags_text("output")), x->read.rows);
    for (uint32_t i = 0; i < x->arrays; i++) {
        const struct array_file *a = &x->array[i];
        printf("  %s  %s (n", PRINTABLE(a->name), types[a->kind]);
        for (uint32_t k = 0; k < a->rank; k++)
            printf(", %u", a->dim[k]);
        printf(")\n");
    }
}

static void close_all(struct encode *x)
{
    for (uint32_t i = 0; x->worker && i < x->model.folder.job.worker.threads; i++) {
        struct worker *w = &x->worker[i];
        lane_free(w->lane);
        for (uint32_t k = 0; w->text && k < x->arrays; k++)
            text_close(&w->text[k]);
        mem_free(w->text);
        mem_free(w->floats);
        mem_free(w->key);
    }
    for (uint32_t i = 0; i < x->arrays; i++) {
        array_file_close(&x->array[i]);
        mem_free(x->array[i].name);
    }
    mem_free(x->worker);
    mem_free(x->array);
    mem_free(x->encoded);
    mem_free(x->layer);
    mem_free(x->kept);
    mem_free(x->kept_name);
    trained_close(&x->model);
}

int encode_main(int argc, char **argv)
{
    static struct encode x;
    struct errmsg e;
    flags_parse("encode", argc, argv);
    enum err err = trained_open(&x.model, flags_list(FLAGS_WORDS, NULL)[0], flags_list("set", NULL),
                                command_threads(), &e);
    if (!err)
        err = encode(&x, &e);
    if (!err)
        print_arrays(&x);
    if (!err)
        err = command_flush(&e);
    close_all(&x);
    return err ? command_failed(err, &e) : 0;
}
