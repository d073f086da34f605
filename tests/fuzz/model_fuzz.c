/* libFuzzer: a trained model's folder in which some bytes of its files are others. It is opened, and scores a row. Nothing
 * may crash, leak or hang, or take much more memory than the files have bytes.
 *
 * The input is a list of edits of a valid folder: the file (its top bit: the header's length of a safetensors file stays
 * as it is), the position (2 bytes), the number of bytes that are cut there (1) and that are put there (1), these bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/graph/graph.h"
#include "formats/tensorflow/nodes.h"
#include "predict/folder.h"
#include "tests/lib/folder.h"
#include "tests/lib/trained.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FILES = 4, EDIT_BYTES = 5, LENGTH_BYTES = 8, PATH_BYTES = 200 };

static const char *const name[FILES] = {"job.yaml", "encoding.json", "weights.safetensors",
                                        "tables/e.safetensors"};
struct content {
    uint8_t *at;
    size_t bytes;
};
static struct content valid[FILES];
static char dir[FOLDER_BYTES];

static const char job[] =
    "name: fuzz\n"
    "model:\n"
    "  input: {shape: auto}\n"
    "  layers:\n"
    "    - dense: {inputs: [a, b, c], units: 8}\n"
    "    - batch_normalization\n"
    "    - reshape: {target_shape: [2, 2, 2]}\n"
    "    - conv2d: {filters: 2, kernel_size: [2, 2]}\n"
    "    - flatten\n"
    "    - embedding_bag: {inputs: [k, m], output_dim: 2, table: e, mode: mean}\n"
    "    - dense: {inputs: [flatten, embedding_bag], units: 1, activation: sigmoid}\n"
    "  loss: binary_crossentropy\n"
    "data:\n"
    "  format: csv\n"
    "  train: train.txt\n"
    "  eval: eval.txt\n"
    "  columns:\n"
    "    - number: {name: a, scale: standard, missing: mean}\n"
    "    - number: {name: b, buckets: {quantiles: 3}}\n"
    "    - category: c\n"
    "    - key: k\n"
    "    - keys: {name: m, separator: \"|\", max_values: 3}\n"
    "    - label: y\n"
    "optimizer: sgd\n";
static const char rows[] = "1,2,red,u,p|q,0\n2.5,3,green,v,q,1\n,4,red,w,,0\n4,5,,u,p|r|s,1\n";

/* ---- the valid folder ---- */

static void path_of(const char *folder, const char *file, char path[static PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%s", folder, file);
}

/* The job's file has each key of a job, most with their defaults: fewer bytes are read faster. */
static void use_short_job(void)
{
    valid[0].bytes = sizeof job - 1;
    memcpy(valid[0].at, job, valid[0].bytes);
}

static void remove_folder(void)
{
    (void)folder_remove(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct trained t;
    struct errmsg e;
    char path[PATH_BYTES];
    (void)argc, (void)argv;
    log_init("fuzz", LOG_ERROR);
    trained_init(&t, job, rows, rows);
    for (int i = 0; i < FILES; i++) {
        path_of(t.model_dir, name[i], path);
        if (files_read_regular(path, 1 << 20, &valid[i].at, &valid[i].bytes, &e))
            abort();
    }
    trained_close(&t);
    use_short_job();
    if (folder_make(dir) != 0 || atexit(remove_folder) != 0)
        abort();
    path_of(dir, "tables", path);
    return (int)files_mkdirs(path, &e);
}

/* ---- edits ---- */

struct edit {
    bool keeps_length;
    size_t at, cut, put;
    const uint8_t *bytes;
};

/* The header of a safetensors file begins with its length. */
static void mend_length(struct content *c, const struct edit *edit)
{
    uint64_t length;
    memcpy(&length, c->at, sizeof length);
    if (edit->keeps_length || edit->at < LENGTH_BYTES || edit->at > LENGTH_BYTES + length)
        return;
    length += edit->put - edit->cut;
    memcpy(c->at, &length, sizeof length);
}

static void apply(struct content *c, struct edit edit, bool is_safetensors)
{
    edit.at = edit.at > c->bytes ? c->bytes : edit.at;
    edit.cut = edit.cut > c->bytes - edit.at ? c->bytes - edit.at : edit.cut;
    uint8_t *out = malloc(c->bytes + edit.put - edit.cut + 1);
    if (!out)
        abort();
    memcpy(out, c->at, edit.at);
    memcpy(out + edit.at, edit.bytes, edit.put);
    memcpy(out + edit.at + edit.put, c->at + edit.at + edit.cut, c->bytes - edit.at - edit.cut);
    free(c->at);
    c->at = out;
    c->bytes += edit.put - edit.cut;
    if (is_safetensors && c->bytes >= LENGTH_BYTES)
        mend_length(c, &edit);
}

/* The edits of the input, on copies of the valid files. */
static void edit_all(struct content *file, const uint8_t *data, size_t bytes)
{
    while (bytes >= EDIT_BYTES) {
        size_t put = data[4];
        const struct edit edit = {.keeps_length = data[0] & 0x80,
                                  .at = data[1] | (size_t)data[2] << 8,
                                  .cut = data[3],
                                  .put = put > bytes - EDIT_BYTES ? bytes - EDIT_BYTES : put,
                                  .bytes = data + EDIT_BYTES};
        unsigned which = data[0] % FILES;
        apply(&file[which], edit, which >= 2);
        data += EDIT_BYTES + edit.put;
        bytes -= EDIT_BYTES + edit.put;
    }
}

static void write_files(const uint8_t *data, size_t bytes)
{
    struct content file[FILES];
    char path[PATH_BYTES];
    for (int i = 0; i < FILES; i++) {
        file[i] = (struct content){malloc(valid[i].bytes), valid[i].bytes};
        if (!file[i].at)
            abort();
        memcpy(file[i].at, valid[i].at, valid[i].bytes);
    }
    edit_all(file, data, bytes);
    for (int i = 0; i < FILES; i++) {
        path_of(dir, name[i], path);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(file[i].at, 1, file[i].bytes, f) != file[i].bytes || fclose(f) != 0)
            abort();
        free(file[i].at);
    }
}

/* ---- a folder ---- */

/* The cells of a row: each number is 0, each word is unknown, each key is the same. */
static uint32_t *make_cells(const struct table_schema *s)
{
    uint32_t *cells = calloc(schema_row_cells(s), sizeof *cells);
    if (!cells)
        abort();
    for (uint32_t i = schema_keys_at(s); i < schema_row_cells(s); i++)
        cells[i] = 1;
    return cells;
}

static void score(struct scorer *s, const struct folder *f)
{
    struct errmsg e;
    struct leaf_buffer *buffer = NULL;
    struct leaf leaf;
    const struct leaf_form form = folder_form(f);
    uint32_t *cells = make_cells(f->schema);
    float *out = calloc(model_outputs(f->model), sizeof *out);
    if (!out)
        abort();
    enum err err = leaf_buffer_new(&buffer, &form, 1, LEAF_ALL, &e);
    if (!err)
        err = leaf_buffer_add(buffer, cells, &e);
    if (!err)
        err = leaf_buffer_finish(buffer, &leaf, &e);
    if (!err)
        (void)!scorer_run(s, 1, leaf.x, leaf.keys, out, &e);
    leaf_buffer_free(buffer);
    free(out);
    free(cells);
}

static void lower(const struct graph *g)
{
    struct nodes nodes = {0};
    const char *init, **names = calloc(g->values, sizeof *names);
    if (!names)
        abort();
    lowering_run(&nodes, g, names, &init);
    nodes_close(&nodes);
    free(names);
}

static void make_graph(const struct folder *f)
{
    struct errmsg e;
    struct graph *g;
    const struct graph_options o = {.tables_inside_bytes = 1 << 20};
    if (graph_new(&g, f, &o, &e))
        return;
    lower(g);
    graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct folder f;
    struct scorer *s;
    struct errmsg e;
    write_files(data, bytes);
    enum err err = folder_open(&f, dir, &e);
    if (err && bytes < EDIT_BYTES) {
        (void)fprintf(stderr, "the valid folder: %s\n", e.text);
        abort();
    }
    if (err)
        return 0;
    if (f.schema && scorer_new(&s, &f, 1, &e) == ERR_OK) {
        score(s, &f);
        scorer_free(s);
    }
    make_graph(&f);
    folder_close(&f);
    return 0;
}
