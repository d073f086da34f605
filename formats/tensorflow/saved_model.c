#include "formats/tensorflow/saved_model.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "formats/tensorflow/nodes.h"

/* The version of TensorFlow's graphs from which all operators of lowering.c exist (TensorFlow 1.15), and the oldest
 * program that can read such a graph. */
enum { SCHEMA_VERSION = 1, GRAPH_PRODUCER = 134, GRAPH_MIN_CONSUMER = 12 };

static const char file_name[] = "saved_model.pb";

/* ---- the message ---- */

/* The message with the parts that each SavedModel has once. */
struct message {
    Tensorflow__SavedModel model;
    Tensorflow__MetaGraph meta, *metas[1];
    Tensorflow__MetaInfo info;
    char *tag[1];
    Tensorflow__Graph graph;
    Tensorflow__Versions versions;
    Tensorflow__Signature signature[2]; /* the model's; if there is an init operation, its */
    Tensorflow__SignatureEntry entry[2], *entries[2];
    Tensorflow__TensorInfoEntry init_entry, *init_entries[1];
    Tensorflow__TensorInfo init;
    Tensorflow__TensorShape no_shape;
};

static Tensorflow__Signature *add_signature(struct message *m, const char *key)
{
    size_t i = m->meta.n_signature_def++;
    m->signature[i] = (Tensorflow__Signature)TENSORFLOW__SIGNATURE__INIT;
    m->entry[i] = (Tensorflow__SignatureEntry)TENSORFLOW__SIGNATURE_ENTRY__INIT;
    m->entry[i].key = (char *)key;
    m->entry[i].value = &m->signature[i];
    m->entries[i] = &m->entry[i];
    return &m->signature[i];
}

static void begin(struct message *m)
{
    m->versions = (Tensorflow__Versions)TENSORFLOW__VERSIONS__INIT;
    m->versions.producer = GRAPH_PRODUCER;
    m->versions.min_consumer = GRAPH_MIN_CONSUMER;
    m->graph = (Tensorflow__Graph)TENSORFLOW__GRAPH__INIT;
    m->graph.versions = &m->versions;
    m->info = (Tensorflow__MetaInfo)TENSORFLOW__META_INFO__INIT;
    m->tag[0] = (char *)"serve";
    m->info.tags = m->tag;
    m->info.n_tags = 1;
    m->meta = (Tensorflow__MetaGraph)TENSORFLOW__META_GRAPH__INIT;
    m->meta.meta_info_def = &m->info;
    m->meta.graph_def = &m->graph;
    m->meta.signature_def = m->entries;
    m->metas[0] = &m->meta;
    m->model = (Tensorflow__SavedModel)TENSORFLOW__SAVED_MODEL__INIT;
    m->model.saved_model_schema_version = SCHEMA_VERSION;
    m->model.meta_graphs = m->metas;
    m->model.n_meta_graphs = 1;
}

/* The operation that runs once when the model is loaded: a signature with its name as the only output. */
static void set_init(struct message *m, const char *node)
{
    static const char key[] = "__saved_model_init_op";
    Tensorflow__Signature *s = add_signature(m, key);
    m->no_shape = (Tensorflow__TensorShape)TENSORFLOW__TENSOR_SHAPE__INIT;
    m->no_shape.unknown_rank = true;
    m->init = (Tensorflow__TensorInfo)TENSORFLOW__TENSOR_INFO__INIT;
    m->init.name = (char *)node;
    m->init.tensor_shape = &m->no_shape;
    m->init_entry = (Tensorflow__TensorInfoEntry)TENSORFLOW__TENSOR_INFO_ENTRY__INIT;
    m->init_entry.key = (char *)key;
    m->init_entry.value = &m->init;
    m->init_entries[0] = &m->init_entry;
    s->outputs = m->init_entries;
    s->n_outputs = 1;
}

/* `v` under its own name, made by the node `node`. */
static Tensorflow__TensorInfoEntry *tensor_info(struct nodes *n, const struct graph_value *v,
                                                const char *node)
{
    Tensorflow__TensorInfoEntry *entry = graph_room(&n->memory, 1, sizeof *entry);
    Tensorflow__TensorInfo *info = graph_room(&n->memory, 1, sizeof *info);
    if (n->memory.failed)
        return NULL;
    *info = (Tensorflow__TensorInfo)TENSORFLOW__TENSOR_INFO__INIT;
    info->name = graph_format(&n->memory, "%s:0", node);
    info->dtype = lowering_type(v->type);
    info->tensor_shape = lowering_shape(n, v);
    *entry = (Tensorflow__TensorInfoEntry)TENSORFLOW__TENSOR_INFO_ENTRY__INIT;
    entry->key = (char *)v->name;
    entry->value = info;
    return entry;
}

static void set_signature(struct message *m, struct nodes *n, const struct graph *g,
                          const char *const *name)
{
    Tensorflow__TensorInfoEntry **of = graph_room(&n->memory, g->inputs + 1, sizeof(void *));
    if (!of)
        return;
    for (uint32_t i = 0; i < g->inputs; i++)
        of[i] = tensor_info(n, &g->value[g->input[i].value], name[g->input[i].value]);
    of[g->inputs] = tensor_info(n, &g->value[g->output], name[g->output]);
    Tensorflow__Signature *s = add_signature(m, "serving_default");
    s->method_name = (char *)"tensorflow/serving/predict";
    s->inputs = of;
    s->n_inputs = g->inputs;
    s->outputs = of + g->inputs;
    s->n_outputs = 1;
}

/* ---- the directory ---- */

static bool is_ours(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, file_name) == 0 ||
           strstr(name, FILES_TEMPORARY);
}

/* TensorFlow would read variables and assets of another model that are next to ours. */
static enum err check_folder(const char *path, bool *exists, struct errmsg *e)
{
    DIR *d = opendir(path);
    *exists = d != NULL;
    if (!d && errno == ENOENT)
        return ERR_OK;
    if (!d)
        return err_set(e, errno == ENOTDIR ? ERR_INPUT : ERR_IO, "%s: %s", path, strerror(errno));
    enum err err = ERR_OK;
    for (struct dirent *entry; !err && (entry = readdir(d));)
        if (!is_ours(entry->d_name))
            err = err_set(e, ERR_INPUT,
                          "%s: this directory has other files, such as %s: name a new directory "
                          "for the SavedModel",
                          path, entry->d_name);
    (void)closedir(d);
    return err;
}

static enum err write_in(const char *folder, const void *data, size_t bytes, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, file_name);
    if (n < 0 || (size_t)n >= sizeof path)
        return err_set(e, ERR_INPUT, "%s: the path is too long", folder);
    return files_write(path, data, bytes, e);
}

/* The directory that `path`, without slashes at its end, is in. */
static void parent_of(const char *path, char parent[static FILES_PATH_MAX])
{
    (void)snprintf(parent, FILES_PATH_MAX, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent)
        *slash = '\0';
    else
        (void)snprintf(parent, FILES_PATH_MAX, "%s", slash ? "/" : ".");
}

/* The directory gets its name when it is complete, so that a server which watches for new versions never sees a part
 * of one. */
static enum err write_new(const char *path, const void *data, size_t bytes, struct errmsg *e)
{
    char parent[FILES_PATH_MAX], temporary[FILES_PATH_MAX];
    parent_of(path, parent);
    enum err err = files_mkdirs(parent, e);
    if (!err)
        err = files_begin_folder(path, temporary, e);
    if (err)
        return err;
    err = write_in(temporary, data, bytes, e);
    if (!err && rename(temporary, path) != 0)
        err = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    if (err) {
        struct errmsg ignored;
        (void)!files_remove_folder(temporary, &ignored);
        return err;
    }
    return files_sync_folder(parent, e);
}

static enum err write_folder(const char *given, const void *data, size_t bytes, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof path)
        return err_set(e, ERR_INPUT, "\"%s\" is no path of a directory for the SavedModel", given);
    memcpy(path, given, n);
    path[n] = '\0';
    bool exists;
    enum err err = check_folder(path, &exists, e);
    if (err)
        return err;
    return exists ? write_in(path, data, bytes, e) : write_new(path, data, bytes, e);
}

/* ---- names ---- */

struct parameter {
    const char *input;
    char *name;
    bool impossible; /* it has a character that no name of Python can have */
};

enum letter { LETTER, SIGN, NUMERAL };

/* Characters beyond ASCII that are no letter or digit for str.isalnum of Python, and numerals, which are one but which no
 * name can have. Those of rare scripts are left out. */
static enum letter letter_of(uint32_t code)
{
    static const struct {
        uint32_t first, last;
        enum letter is;
    } range[] = {{0x80, 0xA9, SIGN},        {0xAB, 0xB1, SIGN},        {0xB2, 0xB3, NUMERAL},
                 {0xB4, 0xB4, SIGN},        {0xB6, 0xB8, SIGN},        {0xB9, 0xB9, NUMERAL},
                 {0xBB, 0xBB, SIGN},        {0xBC, 0xBE, NUMERAL},     {0xBF, 0xBF, SIGN},
                 {0xD7, 0xD7, SIGN},        {0xF7, 0xF7, SIGN},        {0x300, 0x36F, SIGN},
                 {0x2000, 0x206F, SIGN},    {0x2070, 0x2070, NUMERAL}, {0x2074, 0x2079, NUMERAL},
                 {0x207A, 0x207E, SIGN},    {0x2080, 0x2089, NUMERAL}, {0x208A, 0x208E, SIGN},
                 {0x20A0, 0x2101, SIGN},    {0x2103, 0x2106, SIGN},    {0x2108, 0x2109, SIGN},
                 {0x2116, 0x2118, SIGN},    {0x211E, 0x2123, SIGN},    {0x2150, 0x215F, NUMERAL},
                 {0x2190, 0x245F, SIGN},    {0x2460, 0x249B, NUMERAL}, {0x249C, 0x24E9, SIGN},
                 {0x24EA, 0x24FF, NUMERAL}, {0x2500, 0x2775, SIGN},    {0x2776, 0x2793, NUMERAL},
                 {0x2794, 0x2BFF, SIGN},    {0x3000, 0x3004, SIGN},    {0x3008, 0x3020, SIGN},
                 {0xFE00, 0xFE0F, SIGN},    {0xFF01, 0xFF0F, SIGN},    {0x1F110, 0x1FAFF, SIGN}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (code >= range[i].first && code <= range[i].last)
            return range[i].is;
    return LETTER;
}

/* The character at `text`; of ASCII a digit is a numeral. Returns its bytes. */
static size_t read_letter(const char *text, enum letter *is)
{
    uint32_t code = 0;
    size_t n = printable_character(text, strlen(text), &code);
    if (code >= 0x80 || n == 0)
        *is = n ? letter_of(code) : LETTER;
    else
        *is = isalpha((int)code) ? LETTER : isdigit((int)code) ? NUMERAL : SIGN;
    return n ? n : 1;
}

/* As sanitize_arg_name of TensorFlow 2 does it. False: no memory. */
static bool name_parameter(struct parameter *p)
{
    static const char prefix[] = "arg_";
    enum letter is;
    size_t to = 0, n;
    p->name = mem_zalloc(sizeof prefix + strlen(p->input), 1);
    if (!p->name)
        return false;
    (void)read_letter(p->input, &is);
    if (is != LETTER)
        to = (size_t)snprintf(p->name, sizeof prefix, "%s", prefix);
    for (const char *from = p->input; *from; from += n) {
        n = read_letter(from, &is);
        p->impossible |= is == NUMERAL && n > 1;
        memcpy(p->name + to, is == SIGN ? "_" : from, is == SIGN ? 1 : n);
        to += is == SIGN ? 1 : n;
    }
    return true;
}

static bool is_keyword(const char *name)
{
    static const char *const keywords[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(name, keywords[i]) == 0)
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct parameter *)a)->name, ((const struct parameter *)b)->name);
}

static enum err check_parameters(struct parameter *p, uint32_t n, struct errmsg *e)
{
    qsort(p, n, sizeof *p, by_name);
    for (uint32_t i = 0; i < n; i++) {
        if (is_keyword(p[i].name))
            return err_set(e, ERR_INPUT, "the input \"%s\" has the name of a keyword of Python",
                           SHOWN(p[i].input));
        if (p[i].impossible)
            return err_set(e, ERR_INPUT,
                           "the input \"%s\" has a numeral that no name of Python can have",
                           SHOWN(p[i].input));
        if (i > 0 && strcmp(p[i - 1].name, p[i].name) == 0)
            return err_set(e, ERR_INPUT,
                           "the inputs \"%s\" and \"%s\" have one name, %s, in Python",
                           SHOWN(p[i - 1].input), SHOWN(p[i].input), SHOWN(p[i].name));
    }
    return ERR_OK;
}

enum err saved_model_check_names(const struct graph *g, struct errmsg *e)
{
    struct parameter *p = mem_zalloc(g->inputs + 1, sizeof *p);
    uint32_t n = 0;
    for (bool made = p != NULL; made && n < g->inputs; n += made) {
        p[n].input = g->value[g->input[n].value].name;
        made = name_parameter(&p[n]);
    }
    enum err err = n == g->inputs && p ? check_parameters(p, n, e) : err_memory(e);
    for (uint32_t i = 0; i < n; i++)
        mem_free(p[i].name);
    mem_free(p);
    return err;
}

/* ---- write ---- */

static enum err pack(const char *path, const struct message *m, graph_told *told, struct errmsg *e)
{
    size_t bytes = tensorflow__saved_model__get_packed_size(&m->model);
    if (bytes > INT32_MAX)
        return err_set(e, ERR_INPUT,
                       "%s: a SavedModel of this model would have %zu MiB; protobuf, its format, "
                       "allows 2048. Keep tables out of the graph (--tables_mb), or export to onnx",
                       path, bytes >> 20);
    uint8_t *data = mem_resize(NULL, bytes, 1);
    if (!data)
        return err_memory_of(e, path);
    if (told)
        told(path, bytes);
    (void)tensorflow__saved_model__pack(&m->model, data);
    enum err err = write_folder(path, data, bytes, e);
    mem_free(data);
    return err;
}

enum err saved_model_write(const char *path, const struct graph *g, graph_told *told,
                           struct errmsg *e)
{
    struct nodes nodes = {0};
    struct message m = {0};
    begin(&m);
    const char **name = graph_room(&nodes.memory, g->values, sizeof *name), *init = NULL;
    if (name) {
        lowering_run(&nodes, g, name, &init);
        set_signature(&m, &nodes, g, name);
    }
    m.graph.node = nodes.node;
    m.graph.n_node = nodes.count;
    if (init)
        set_init(&m, init);
    enum err err = nodes.memory.failed ? err_memory_of(e, path) : pack(path, &m, told, e);
    nodes_close(&nodes);
    return err;
}
