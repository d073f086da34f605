/* The list of layers: their kinds, options, names (as Keras makes them: dense, dense_1, ...) and inputs, which are layers or columns.
 * A layer's inputs come before it, so there is no cycle. */
#include <ctype.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/words.h"
#include "job/range.h"
#include "job/read.h"

/* `- relu` is short for `- activation: relu`. */
static void activation_of_word(struct job_layer *layer, const struct job_word *word)
{
    if (layer->kind != LAYER_ACTIVATION || strcmp(word->word, "activation") == 0)
        return;
    const struct job_key *key = job_key_find(JOB_LAYER_PREFIX ".activation.activation");
    layer->activation.activation = (enum activation)job_word_find(key->words, word->word)->value;
}

/* The layer's class in Keras (there are no layers Sigmoid, Tanh, and so on), or its word. */
static const char *keras_name(const struct job_word *word)
{
    char path[JOB_PATH_MAX];
    (void)snprintf(path, sizeof path, JOB_LAYER_PREFIX ".%s.name", word->word);
    const struct job_key *key = job_key_find(path);
    return key->keras ? key->keras : word->word;
}

/* Keras' two replacements: "_" between any character and an upper-case letter that lower-case ones follow, and between a
 * lower-case letter and an upper-case letter. */
void job_snake_case(const char *class, char *out, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; class[i] && n + 2 < bytes; i++) {
        unsigned char c = (unsigned char)class[i], before = i ? (unsigned char)class[i - 1] : 0;
        bool begins = isupper(c) && islower((unsigned char)class[i + 1]);
        bool follows = isupper(c) && islower(before);
        if (i > 0 && (begins || follows))
            out[n++] = '_';
        out[n++] = (char)tolower(c);
    }
    out[n] = '\0';
}

/* The first unnamed layer of a kind gets the plain name, later ones get the name with _1, _2, and so on. */
static void name_layer(struct job_layer *layer, const char *base, uint32_t number)
{
    char plain[JOB_NAME_MAX - 12];
    job_snake_case(base, plain, sizeof plain);
    if (number == 0)
        (void)snprintf(layer->name, sizeof layer->name, "%s", plain);
    else
        (void)snprintf(layer->name, sizeof layer->name, "%s_%u", plain, number);
}

static enum err check_initializers(struct job_reader *r, const struct job_node *node)
{
    const struct job_layer *l = &r->job->model.layer[r->layer];
    enum err err =
        job_check_initializer(r, node, JOB_LAYER_PREFIX, "kernel_initializer", &l->kernel);
    return err ? err
               : job_check_initializer(r, node, JOB_LAYER_PREFIX, "bias_initializer", &l->bias);
}

static enum err check_bias(struct job_reader *r, const struct job_node *node)
{
    const struct job_layer *l = &r->job->model.layer[r->layer];
    if (l->use_bias)
        return ERR_OK;
    const char *of = l->bias.initializer != INIT_ZEROS         ? "bias_initializer"
                     : l->bias.regularizer != REGULARIZER_NONE ? "bias_regularizer"
                                                               : NULL;
    return of ? REFUSE_LAYER(r, node,
                             "its %s is for a bias, and use_bias is false; remove one of the two",
                             of)
              : ERR_OK;
}

/* Sets keys that were not given and default to another key's value: a pooling layer's strides are its pool_size. */
static void copy_like_values(struct job_reader *r)
{
    char *layer = (char *)&r->job->model.layer[r->layer];
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->like && !r->given[job_key_index(key)] && job_key_active(key, r->job, layer))
            memcpy(layer + key->offset, layer + key->like, sizeof(uint32_t[2]));
}

static enum err read_layer(struct job_reader *r, const struct job_node *node)
{
    struct job_layer *layer = &r->job->model.layer[r->layer];
    memset(layer, 0, sizeof *layer);
    job_read_forget(r, JOB_LAYER_PREFIX);
    r->inputs = NULL;
    enum err err = job_read_choice(r, job_key_find(JOB_LAYER_PREFIX), node);
    const struct job_word *word = r->word;
    if (!err)
        err = check_initializers(r, node);
    if (!err)
        err = check_bias(r, node);
    if (err)
        return err;
    activation_of_word(layer, word);
    copy_like_values(r);
    const char *base = layer->name[0] ? NULL : keras_name(word);
    r->at[r->layer].layer = node;
    r->at[r->layer].inputs = r->inputs;
    r->at[r->layer].base = base;
    r->job->layer_line[r->layer] = node->set ? JOB_LINE_SET : node->line;
    uint32_t number = 0;
    for (uint32_t i = 0; i < r->layer && base; i++)
        number += r->at[i].base && strcmp(r->at[i].base, base) == 0;
    if (base)
        name_layer(layer, base, number);
    return ERR_OK;
}

static enum err refuse_twin(struct job_reader *r, const struct job_node *node)
{
    const struct job_layer *layer = r->job->model.layer;
    if (strcmp(layer[r->layer].name, JOB_INPUT_NAME) == 0)
        return REFUSE_LAYER(
            r, node, "its name, " JOB_INPUT_NAME ", means the model's input; give it another");
    for (uint32_t i = 0; i < r->layer; i++)
        if (strcmp(layer[i].name, layer[r->layer].name) == 0)
            return REFUSE_LAYER(
                r, node, "its name, %s, is also the name of model.layers[%u]; give it another",
                layer[i].name, i);
    return ERR_OK;
}

/* ---- columns as inputs: key columns are looked up; numbers and categories are selected from the model's input ---- */

static enum err layer_add_lookup(struct job_reader *r, const struct job_node *node, uint32_t column)
{
    struct job *job = r->job;
    struct job_layer *layer = &job->model.layer[r->layer];
    for (uint32_t i = 0; i < layer->lookups; i++)
        if (job->model.lookup[layer->first_lookup + i].column == column)
            return REFUSE_LAYER(r, node, "column %s occurs twice in its inputs",
                                SHOWN(job->data.csv.column[column].name));
    if (job->model.lookups == JOB_LOOKUPS_MAX)
        return REFUSE_LAYER(r, node, "more than %d columns are looked up by all layers together",
                            JOB_LOOKUPS_MAX);
    struct job_lookup *grown =
        mem_resize(job->model.lookup, (size_t)job->model.lookups + 1, sizeof *grown);
    if (!grown)
        return err_memory(r->e);
    job->model.lookup = grown;
    if (layer->lookups++ == 0)
        layer->first_lookup = job->model.lookups;
    grown[job->model.lookups++] = (struct job_lookup){.column = column};
    return ERR_OK;
}

/* Adds an input without columns. */
static enum err begin_selection(struct job_reader *r, const struct job_node *node)
{
    struct job *job = r->job;
    struct job_layer *layer = &job->model.layer[r->layer];
    uint32_t first = 0, last = job->model.selections;
    if (layer->inputs == JOB_INPUTS_MAX)
        return REFUSE_LAYER(r, node, "at most %d inputs are allowed", JOB_INPUTS_MAX);
    if (last > 0)
        first = job->model.selection[last - 1].first + job->model.selection[last - 1].columns;
    job->model.selection[job->model.selections++] = (struct job_selection){.first = first};
    layer->input[layer->inputs++] = JOB_INPUT_SELECTION + last;
    return ERR_OK;
}

/* Consecutive columns in the list form one input. */
static enum err layer_add_selected(struct job_reader *r, const struct job_node *node,
                                   uint32_t column)
{
    struct job *job = r->job;
    const struct job_layer *layer = &job->model.layer[r->layer];
    bool goes_on = layer->inputs && layer->input[layer->inputs - 1] >= JOB_INPUT_SELECTION;
    enum err err = goes_on ? ERR_OK : begin_selection(r, node);
    if (err)
        return err;
    struct job_selection *s = &job->model.selection[job->model.selections - 1];
    size_t used = (size_t)s->first + s->columns;
    if (used == JOB_LOOKUPS_MAX)
        return REFUSE_LAYER(r, node, "more than %d columns are named by all layers together",
                            JOB_LOOKUPS_MAX);
    uint32_t *grown = mem_resize(job->model.selected, used + 1, sizeof *grown);
    if (!grown)
        return err_memory(r->e);
    job->model.selected = grown;
    grown[used] = column;
    s->columns++;
    return ERR_OK;
}

static enum err layer_add_column(struct job_reader *r, const struct job_node *node, uint32_t column)
{
    const struct job_column *c = &r->job->data.csv.column[column];
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    bool is_key = job_column_has_keys(c);
    if (c->kind == COLUMN_LABEL || c->kind == COLUMN_WEIGHT || c->kind == COLUMN_IGNORE)
        return REFUSE_LAYER(r, node, "column %s is not an input: it is %s", SHOWN(c->name),
                            c->kind == COLUMN_LABEL    ? "the label"
                            : c->kind == COLUMN_WEIGHT ? "the weight of rows"
                                                       : "ignored");
    if (is_key && !job_layer_looks_up(layer))
        return REFUSE_LAYER(
            r, node, "column %s holds keys; only embedding, embedding_bag and linear look them up",
            SHOWN(c->name));
    if (!is_key && job_layer_looks_up(layer))
        return REFUSE_LAYER(
            r, node, "it looks up keys, and column %s holds none; to make it one, write - key: %s",
            SHOWN(c->name), SHOWN(c->name));
    if (c->kind == COLUMN_KEYS && layer->kind == LAYER_EMBEDDING)
        return REFUSE_LAYER(
            r, node,
            "column %s has several keys a row; use embedding_bag, which combines their rows",
            SHOWN(c->name));
    return is_key ? layer_add_lookup(r, node, column) : layer_add_selected(r, node, column);
}

/* Adds the columns that the name or range at `node` means to the layer's
 * lookups or to its last input. *found: there are such columns. */
static enum err job_input_columns(struct job_reader *r, const struct job_node *node, bool *found)
{
    const struct job_csv *csv = &r->job->data.csv;
    struct job_range range;
    char name[JOB_TEXT_MAX + 1];
    *found = false;
    if (job_range_parse(&range, node->text))
        return REFUSE_LAYER(
            r, node,
            "'%s' is not a valid range; write a range like C{1..26}, or \\{ for a { of the name",
            SHOWN(node->text));
    enum err err = ERR_OK;
    for (uint32_t i = range.first; i <= range.last && !err; i++) {
        uint32_t column = job_range_name(&range, i, name, sizeof name)
                              ? csv->columns
                              : job_column_named(csv, name, strlen(name));
        if (column == csv->columns && !range.many)
            return ERR_OK;
        if (column == csv->columns)
            return REFUSE_LAYER(r, node, "no column is called %s", SHOWN(name));
        *found = true;
        err = layer_add_column(r, node, column);
    }
    return err;
}

/* ---- inputs of layers ---- */

static enum err refuse_input(struct job_reader *r, const struct job_node *node, uint32_t found)
{
    const struct job_layer *layer = r->job->model.layer;
    if (found == r->layer)
        return REFUSE_LAYER(r, node, "%s cannot be its own input", layer[found].name);
    if (found < r->job->model.layers)
        return REFUSE_LAYER(
            r, node,
            "its input %s is a later layer, model.layers[%u]; a layer can only read earlier layers",
            layer[found].name, found);
    struct words near;
    words_init_name(&near, node->text);
    words_try(&near, JOB_INPUT_NAME);
    for (uint32_t i = 0; i < r->layer; i++)
        words_try(&near, layer[i].name);
    for (uint32_t i = 0; i < r->job->data.csv.columns; i++)
        words_try(&near, r->job->data.csv.column[i].name);
    return REFUSE_LAYER(
        r, node, "no layer%s is called %s%s%s%s; name a layer before this one, or " JOB_INPUT_NAME,
        r->job->data.csv.columns ? " and no column" : "", SHOWN(node->text),
        near.best ? ", did you mean " : "", near.best ? SHOWN(near.best) : "",
        near.best ? "?" : "");
}

static enum err add_layer(struct job_reader *r, const struct job_node *node, uint32_t input)
{
    struct job_layer *layer = &r->job->model.layer[r->layer];
    if (job_layer_looks_up(layer))
        return REFUSE_LAYER(
            r, node,
            "it looks up keys of columns, and %s is not a column; name key columns in its inputs",
            SHOWN(node->text));
    if (layer->inputs == JOB_INPUTS_MAX)
        return REFUSE_LAYER(r, node, "at most %d inputs are allowed", JOB_INPUTS_MAX);
    layer->input[layer->inputs++] = input;
    return ERR_OK;
}

static enum err resolve_one(struct job_reader *r, const struct job_node *node)
{
    if (node->kind != NODE_SCALAR || job_tree_is_null(node))
        return REFUSE_LAYER(r, node, "its inputs must be a list of names of layers");
    uint32_t found = 0;
    while (found < r->job->model.layers && strcmp(r->job->model.layer[found].name, node->text) != 0)
        found++;
    if (strcmp(node->text, JOB_INPUT_NAME) == 0)
        return add_layer(r, node, 0);
    if (found < r->layer)
        return add_layer(r, node, found + 1);
    bool is_column;
    enum err err = job_input_columns(r, node, &is_column);
    return err || is_column ? err : refuse_input(r, node, found);
}

static enum err check_count(struct job_reader *r, const struct job_node *node)
{
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    const struct job_word *words = job_key_find(JOB_LAYER_PREFIX)->words;
    const char *lone = job_word_find(words, job_word_of(words, (int)layer->kind))->lone;
    bool merges = lone && strcmp(lone, "inputs") == 0;
    if (job_layer_looks_up(layer) || (layer->kind == LAYER_DENSE && layer->inputs > 0))
        return ERR_OK; /* a dense layer concatenates several inputs */
    if (merges && layer->inputs < 2)
        return REFUSE_LAYER(r, node, "%s needs at least two layers; name them in its inputs",
                            layer->name);
    if (!merges && layer->inputs != 1)
        return REFUSE_LAYER(r, node, "%s can have one input, and its inputs name %u", layer->name,
                            layer->inputs);
    return ERR_OK;
}

static enum err resolve_none(struct job_reader *r)
{
    struct job_layer *layer = &r->job->model.layer[r->layer];
    if (job_layer_looks_up(layer))
        return REFUSE_LAYER(r, r->at[r->layer].layer,
                            "%s looks up keys; name key columns in its inputs, like C1 or C{1..26}",
                            layer->name);
    layer->inputs = 1;
    layer->input[0] = r->layer;
    return ERR_OK;
}

static enum err resolve_inputs(struct job_reader *r)
{
    const struct job_node *list = r->at[r->layer].inputs;
    if (!list) {
        enum err err = resolve_none(r);
        return err ? err : check_count(r, r->at[r->layer].layer);
    }
    if (list->kind == NODE_LIST && !list->child)
        return REFUSE_LAYER(r, list, "its inputs must be a list of names of layers");
    enum err err = ERR_OK;
    if (list->kind != NODE_LIST)
        err = resolve_one(r, list);
    for (const struct job_node *c = list->kind == NODE_LIST ? list->child : NULL; c && !err;
         c = c->next)
        err = resolve_one(r, c);
    return err ? err : check_count(r, list);
}

/* Every layer but the last must be read by a later one. */
static enum err refuse_unused(struct job_reader *r)
{
    const struct job_layer *layer = r->job->model.layer;
    for (uint32_t i = 0; i + 1 < r->job->model.layers; i++) {
        bool used = false;
        for (uint32_t j = i + 1; j < r->job->model.layers; j++)
            for (uint32_t k = 0; k < layer[j].inputs; k++)
                used = used || layer[j].input[k] == i + 1;
        r->layer = i;
        if (!used)
            return REFUSE_LAYER(r, r->at[i].layer,
                                "no layer reads %s, and it is not the last; remove it, or name it "
                                "in the inputs of another layer",
                                layer[i].name);
    }
    return ERR_OK;
}

/* ---- the list ---- */

enum err job_settle_inputs(struct job_reader *r)
{
    for (r->layer = 0; r->layer < r->job->model.layers; r->layer++) {
        enum err err = resolve_inputs(r);
        if (err)
            return err;
    }
    return refuse_unused(r);
}

enum err job_read_layers(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node)
{
    if (node->kind != NODE_LIST || !node->child)
        return job_refuse(r, node, key->path, "it must be a list of layers, like - dense: 10");
    r->layer = 0;
    r->job->model.layers = 0;
    for (const struct job_node *c = node->child; c; c = c->next) {
        if (r->layer == JOB_LAYERS_MAX)
            return job_refuse(r, c, "model.layers", "at most %d layers are allowed",
                              JOB_LAYERS_MAX);
        enum err err = read_layer(r, c);
        if (!err)
            err = refuse_twin(r, c);
        if (err)
            return err;
        r->job->model.layers = ++r->layer;
    }
    return ERR_OK;
}

/* ---- embeddings with their own rows (input_dim) ---- */

/* All columns that such an embedding reads share its rows, so ids that are counted separately for each column would mean the same
 * rows. */

enum { NAMED_MAX = 2, NAMED_BYTES = NAMED_MAX * (JOB_NAME_MAX + 2) };

/* Iterates over the feature columns of an input; see `next`. */
struct features {
    const struct job *job;
    const struct job_selection *selection; /* NULL: all */
    uint32_t at;
};

static bool is_feature(const struct job_column *c)
{
    return c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY;
}

static const struct job_column *feature_next(struct features *c)
{
    const struct job *job = c->job;
    if (c->selection && c->at < c->selection->columns)
        return &job->data.csv.column[job->model.selected[c->selection->first + c->at++]];
    while (!c->selection && c->at < job->data.csv.columns) {
        const struct job_column *column = &job->data.csv.column[c->at++];
        if (is_feature(column))
            return column;
    }
    return NULL;
}

/* Finds the columns that a layer reads. Only flatten and reshape can be in between; they have one input each.
 * Returns false if it reads another layer. */
static bool features_of(const struct job *job, const struct job_layer *layer, struct features *out)
{
    uint32_t input = layer->input[0];
    while (input > 0 && input < JOB_INPUT_SELECTION) {
        layer = &job->model.layer[input - 1];
        if (layer->kind != LAYER_FLATTEN && layer->kind != LAYER_RESHAPE)
            return false;
        input = layer->input[0];
    }
    *out = (struct features){.job = job};
    if (input >= JOB_INPUT_SELECTION)
        out->selection = &job->model.selection[input - JOB_INPUT_SELECTION];
    return true;
}

static void name_it(char out[NAMED_BYTES], const char *name)
{
    size_t n = strlen(out);
    (void)snprintf(out + n, NAMED_BYTES - n, "%s%s", n ? ", " : "", *name ? name : "NAME");
}

/* Columns of numbers only are allowed: they are row numbers already. */
static enum err refuse_mixed(struct job_reader *r, struct features columns)
{
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    char ids[NAMED_BYTES] = "";
    const char *other = NULL;
    uint32_t n = 0;
    for (const struct job_column *c; (c = feature_next(&columns));) {
        if (c->encode != ENCODE_ID)
            other = *c->name ? c->name : "a column without a name";
        else if (n++ < NAMED_MAX)
            name_it(ids, SHOWN(c->name));
    }
    if (n == 0 || (n == 1 && !other))
        return ERR_OK;
    const char *more = n > NAMED_MAX ? ", .." : "";
    return REFUSE_LAYER(
        r, r->at[r->layer].layer,
        "%s has one set of rows for the ids of %s%s%s%s, %s; make each of them a column - key: "
        "NAME, and look it up in a table: - embedding: {inputs: [%s%s], output_dim: %u}",
        layer->name, ids, more, n > 1 ? "" : " and for ", n > 1 ? "" : SHOWN(other),
        n > 1 ? "and id 1 of each would be the same row" : "which has no ids", ids, more,
        layer->embedding.output_dim);
}

/* The numbers themselves are ids. Others are refused where they are looked up. */
static bool is_id(const struct job_column *c)
{
    return c->kind == COLUMN_NUMBER && c->scale == SCALE_NONE && c->buckets == BUCKETS_NONE;
}

static enum err set_ids(struct job_reader *r, struct features columns)
{
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    uint32_t rows = layer->embedding.input_dim;
    for (const struct job_column *c; (c = feature_next(&columns));) {
        if (!is_id(c))
            continue;
        struct job_column *of = &r->job->data.csv.column[c - r->job->data.csv.column];
        of->ids = of->ids && of->ids < rows ? of->ids : rows;
        double id = c->missing_value;
        bool fits = (double)(float)id == id && job_is_id((float)id, of->ids);
        if (c->missing == MISSING_VALUE && !fits)
            return REFUSE_LAYER(r, r->at[r->layer].layer,
                                "%s has rows 0 to %u, but a missing number of column %s is %.9g: "
                                "see its missing: {value: ..}",
                                layer->name, rows - 1, SHOWN(c->name), id);
    }
    return ERR_OK;
}

uint32_t job_input_ids(const struct job *job)
{
    uint32_t ids = 0;
    struct features unused;
    for (uint32_t i = 0; i < job->model.layers && !job_reads_columns(job); i++) {
        const struct job_layer *layer = &job->model.layer[i];
        uint32_t rows = layer->embedding.input_dim;
        if (layer->kind == LAYER_EMBEDDING && rows > 0 && features_of(job, layer, &unused))
            ids = ids && ids < rows ? ids : rows;
    }
    return ids;
}

enum err job_check_embeddings(struct job_reader *r)
{
    const struct job *job = r->job;
    struct features columns;
    if (!job_reads_columns(job))
        return ERR_OK;
    for (r->layer = 0; r->layer < job->model.layers; r->layer++) {
        const struct job_layer *layer = &job->model.layer[r->layer];
        enum err err = ERR_OK;
        if (layer->kind == LAYER_EMBEDDING && !job_layer_looks_up(layer) &&
            features_of(job, layer, &columns))
            err = refuse_mixed(r, columns);
        if (!err && layer->kind == LAYER_EMBEDDING && !job_layer_looks_up(layer) &&
            features_of(job, layer, &columns))
            err = set_ids(r, columns);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* ---- columns that no layer reads ---- */

static bool reads_all(const struct job *job)
{
    bool all = false;
    for (uint32_t i = 0; i < job->model.layers; i++)
        for (uint32_t k = 0; k < job->model.layer[i].inputs; k++)
            all |= job->model.layer[i].input[k] == 0;
    return all;
}

static bool is_selected(const struct job *job, uint32_t column)
{
    bool selected = false;
    for (uint32_t i = 0; i < job->model.selections; i++)
        for (uint32_t k = 0; k < job->model.selection[i].columns; k++)
            selected |= job->model.selected[job->model.selection[i].first + k] == column;
    return selected;
}

const char *job_unread_warning(const struct job *job, char *out, size_t bytes)
{
    enum { NAMES = 3 };
    char names[NAMES * (PRINTABLE_NAME_BYTES + 2)] = "", more[32] = "";
    const bool some = job_reads_values(job) && !reads_all(job);
    size_t at = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; some && i < job->data.csv.columns; i++) {
        const struct job_column *c = &job->data.csv.column[i];
        bool feature = c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY;
        if (feature && !is_selected(job, i) && n++ < NAMES)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                                   c->name[0] ? SHOWN(c->name) : "one without a name");
    }
    if (n > NAMES)
        (void)snprintf(more, sizeof more, " and %u more", n - NAMES);
    (void)snprintf(out, bytes,
                   "data.columns: no layer reads %s%s: to use a column, name it in the inputs of a "
                   "layer; otherwise write - ignore",
                   names, more);
    return n ? out : NULL;
}
