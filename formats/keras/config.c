/* Happy path: the list of layers -> a line of YAML for each; what the model was compiled with, or a guess -> loss and
 * metrics.
 * Failure modes: the text is no model of Keras 3; the model has layers, options or a graph that a job cannot have. */
#include "formats/keras/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/texts.h"
#include "formats/keras/config_lines.h"
#include "formats/keras/layers.h"

enum { KERAS_LAYERS_MAX = 2 * JOB_LAYERS_MAX, NOT_HERE = -1, MODEL_INPUT = 0 };

struct reader {
    struct config_lines to;
    struct config *c;
    const json_t *root, *layers;
    bool sequential;
    size_t n; /* layers of Keras */
    struct config_layer layer[KERAS_LAYERS_MAX];
    /* By layer of Keras: MODEL_INPUT, i + 1 for the i-th layer of the job, or NOT_HERE. */
    int at[KERAS_LAYERS_MAX];
    uint32_t inputs, written;
    const char *last;  /* name of the layer of the job that was written last */
    const json_t *end; /* its config */
    bool scales;       /* the last layer is a Rescaling of the input */
    bool frozen;       /* the whole model is not trained */
    bool failed;       /* out of memory: a layer is not written */
};

/* ---- the layers' places ---- */

static int find_layer(const struct reader *r, const char *name)
{
    for (size_t i = 0; name && i < r->n; i++)
        if (strcmp(r->layer[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* The name of group i of the weights: Keras counts the layers of each class. */
static void group_of(const struct reader *r, size_t i, char out[CONFIG_GROUP_BYTES])
{
    uint32_t same = 0;
    for (size_t k = 0; k < i; k++)
        same += strcmp(r->layer[k].class, r->layer[i].class) == 0;
    keras_group(r->layer[i].class, same, out, CONFIG_GROUP_BYTES);
}

/* ---- the inputs of a layer ---- */

/* A layer as an argument: {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}. Returns its place,
 * or NOT_HERE. */
static int argument(const struct reader *r, size_t i, const json_t *arg)
{
    const json_t *history = json_object_get(json_object_get(arg, "config"), "keras_history");
    int of = find_layer(r, json_string_value(json_array_get(history, 0)));
    return of < 0 || (size_t)of >= i ? NOT_HERE : r->at[of];
}

/* The arguments that are no layers, such as mask and training, change nothing, or are refused. */
static void check_keywords(struct reader *r, const struct config_layer *l, const json_t *call)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(call, "kwargs"), key, value)
    {
        bool off = strcmp(key, "training") == 0 && json_is_false(value);
        if (off)
            config_not_taken(&r->to, l->name, "training=False of the call", "");
        else if (!json_is_null(value))
            config_refuse(&r->to, l, "it is called with %.60s", key);
    }
}

/* Write the places of its inputs. Returns their number; 0: refused. */
static uint32_t arguments(struct reader *r, size_t i, int from[JOB_INPUTS_MAX])
{
    const struct config_layer *l = &r->layer[i];
    const json_t *calls = json_object_get(l->json, "inbound_nodes");
    const json_t *call = json_array_get(calls, 0);
    json_t *args = json_object_get(call, "args");
    if (r->sequential) {
        from[0] = (int)r->written;
        return 1;
    }
    if (json_array_size(calls) != 1)
        config_refuse(&r->to, l, "it is called %zu times; a layer of a job is used once",
                      json_array_size(calls));
    check_keywords(r, l, call);
    if (json_array_size(args) == 1 && json_is_array(json_array_get(args, 0)))
        args = json_array_get(args, 0);
    size_t n = json_array_size(args);
    if (n == 0 || n > JOB_INPUTS_MAX) {
        config_refuse(&r->to, l, "it has %zu inputs; a job has 1 to %d", n, JOB_INPUTS_MAX);
        return 0;
    }
    for (size_t k = 0; k < n; k++) {
        from[k] = argument(r, i, json_array_get(args, k));
        if (from[k] == NOT_HERE)
            config_refuse(&r->to, l, "its input %zu is not the output of a layer before it", k + 1);
    }
    return (uint32_t)n;
}

/* "inputs: [a, b], ", if they are not the layer before. */
static void write_inputs(struct reader *r, const int *from, uint32_t n, enum layer_kind kind)
{
    bool merges = layer_has(kind, LAYER_MERGES);
    if (n == 1 && from[0] == (int)r->written && !merges)
        return;
    (void)fputs("inputs: [", r->to.yaml);
    for (uint32_t k = 0; k < n; k++) {
        const char *name = "input";
        for (size_t i = 0; i < r->n && from[k] > MODEL_INPUT; i++)
            if (r->at[i] == from[k])
                name = r->layer[i].name;
        (void)fprintf(r->to.yaml, "%s\"%s\"", k ? ", " : "", name);
    }
    (void)fputs("], ", r->to.yaml);
}

/* ---- layers that become none of ours ---- */

/* "  input: {shape: [28, 28]}" */
static void write_shape(struct reader *r, const struct config_layer *l, const json_t *shape)
{
    size_t rank = json_array_size(shape);
    char shown[CONFIG_SHOWN_BYTES];
    bool fits = rank >= 2 && rank <= TENSOR_RANK_MAX + 1;
    for (size_t i = 1; i < rank; i++) {
        const json_t *n = json_array_get(shape, i);
        fits &=
            json_is_integer(n) && json_integer_value(n) > 0 && json_integer_value(n) < INT32_MAX;
    }
    if (!fits) {
        config_refuse(&r->to, l,
                      "its shape with the batch is %s; a job needs 1 to 4 numbers after the first",
                      config_show(shape, shown));
        return;
    }
    (void)fputs("model:\n  input: {shape: [", r->to.yaml);
    for (size_t i = 1; i < rank; i++)
        (void)fprintf(r->to.yaml, "%s%lld", i > 1 ? ", " : "",
                      (long long)json_integer_value(json_array_get(shape, i)));
    (void)fputs("]}\n  layers:\n", r->to.yaml);
}

static void read_input(struct reader *r, size_t i)
{
    const struct config_layer *l = &r->layer[i];
    const json_t *shape = json_object_get(l->config, "batch_shape");
    (void)config_check_options(&r->to, l);
    if (++r->inputs > 1)
        config_refuse(&r->to, l, "it is input %u; a job has one", r->inputs);
    else
        write_shape(r, l, shape ? shape : json_object_get(l->config, "batch_input_shape"));
    r->at[i] = MODEL_INPUT;
}

/* A Rescaling of the input is data.scale. */
static void read_rescaling(struct reader *r, size_t i)
{
    const struct config_layer *l = &r->layer[i];
    int from[JOB_INPUTS_MAX] = {NOT_HERE};
    double scale = json_number_value(json_object_get(l->config, "scale"));
    double offset = json_number_value(json_object_get(l->config, "offset"));
    (void)config_check_options(&r->to, l);
    bool of_input = arguments(r, i, from) == 1 && from[0] == MODEL_INPUT && !r->scales;
    if (!of_input || !(scale > 0) || offset != 0 || r->written > 0)
        config_refuse(&r->to, l,
                      "a job has it only as the first layer, with a scale above 0 and offset 0, as "
                      "data.scale");
    else
        r->c->m.scale = (float)(1 / scale);
    r->scales = true;
    r->at[i] = MODEL_INPUT;
}

/* ---- a layer ---- */

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return n > 0 && n < JOB_NAME_MAX;
}

static void keep_weights(struct reader *r, size_t i)
{
    struct config_weights *w = &r->c->weights[r->c->weighted];
    if (r->c->weighted == JOB_LAYERS_MAX)
        return;
    (void)snprintf(w->name, sizeof w->name, "%s", r->layer[i].name);
    group_of(r, i, w->group);
    r->c->weighted++;
}

/* A text in memory is whole only if no write to it failed. */
static bool closes_well(FILE *text)
{
    bool good = !ferror(text);
    return fclose(text) == 0 && good;
}

/* The word before the options is known only after them, so they are written to a text of their own first. */
static void read_layer(struct reader *r, size_t i)
{
    const struct config_layer *l = &r->layer[i];
    int from[JOB_INPUTS_MAX];
    struct keras_class class = {.word = ""};
    char *options = NULL;
    size_t bytes;
    FILE *yaml = r->to.yaml, *own = open_memstream(&options, &bytes);
    r->failed |= !own;
    if (!own)
        return;
    r->to.yaml = own;
    uint32_t n = arguments(r, i, from);
    if (config_write_options(&r->to, l, &class))
        write_inputs(r, from, n, class.kind);
    bool frozen = r->frozen || json_is_false(json_object_get(l->config, "trainable"));
    if (frozen && class.has_weights)
        (void)fputs("trainable: false, ", own);
    r->to.yaml = yaml;
    r->failed |= !closes_well(own);
    (void)fprintf(yaml, "    - %s: {%sname: \"%s\"}\n", class.word ? class.word : "",
                  options ? options : "", l->name);
    free(options);
    if (!is_name(l->name))
        config_refuse(&r->to, l, "a name in a job has 1 to 63 letters, digits, . _ or -");
    if (class.has_weights)
        keep_weights(r, i);
    r->at[i] = (int)++r->written;
    r->last = l->name;
    r->end = l->config;
}

static void read_layers(struct reader *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->layer[i].class, "InputLayer") == 0)
            read_input(r, i);
        else if (strcmp(r->layer[i].class, "Rescaling") == 0)
            read_rescaling(r, i);
        else
            read_layer(r, i);
    }
}

/* ---- the end ---- */

static struct config_end end_of(const struct reader *r)
{
    struct config_end end = {.activation = config_name(json_object_get(r->end, "activation"))};
    if (r->n && strcmp(r->layer[r->n - 1].class, "Softmax") == 0)
        end.activation = "softmax";
    if (!end.activation)
        end.activation = "linear";
    end.one = json_integer_value(json_object_get(r->end, "units")) == 1;
    return end;
}

/* ---- the file ---- */

/* A Sequential model can lack its input layer; then it says the shape elsewhere. */
static void add_shape(struct reader *r)
{
    const struct config_layer model = {.name = "the model", .class = "Sequential"};
    const json_t *config = json_object_get(r->root, "config");
    const json_t *shape = json_object_get(config, "build_input_shape");
    bool begins = r->n && strcmp(r->layer[0].class, "InputLayer") == 0;
    if (!r->sequential || begins)
        return;
    if (json_is_array(shape))
        write_shape(r, &model, shape);
    else
        config_refuse(&r->to, &model,
                      "its input has no shape: add keras.Input((..)) before the "
                      "first layer, and save it again");
}

/* The model has one output: its last layer's. */
static void check_output(struct reader *r)
{
    const json_t *config = json_object_get(r->root, "config");
    const json_t *out = json_object_get(config, "output_layers");
    const struct config_layer model = {.name = "the model", .class = "Functional"};
    char shown[CONFIG_SHOWN_BYTES];
    if (json_is_array(json_array_get(out, 0)) && json_array_size(out) == 1)
        out = json_array_get(out, 0);
    const char *name = json_string_value(json_array_get(out, 0));
    if (r->sequential || (name && r->last && strcmp(name, r->last) == 0))
        return;
    config_refuse(&r->to, &model, "its outputs are %s; a job has one, of the last layer",
                  config_show(out, shown));
}

/* The options of the model itself. */
static void check_model(struct reader *r)
{
    static const char known[] =
        "name trainable dtype layers build_input_shape input_layers output_layers";
    const struct config_layer model = {.name = "the model",
                                       .class = r->sequential ? "Sequential" : "Functional"};
    const char *key;
    json_t *value;
    char shown[CONFIG_SHOWN_BYTES];
    json_object_foreach(json_object_get(r->root, "config"), key, value)
    {
        if (!text_has_word(known, key) && !json_is_null(value))
            config_refuse(&r->to, &model, "its option %.60s (%s) is not known here", key,
                          config_show(value, shown));
    }
    r->frozen = json_is_false(json_object_get(json_object_get(r->root, "config"), "trainable"));
}

static void read_all(struct reader *r)
{
    check_model(r);
    add_shape(r);
    read_layers(r);
    check_output(r);
    const struct config_end end = end_of(r);
    config_read_compiled(r->c, &r->to, json_object_get(r->root, "compile_config"), &end);
}

static enum err not_a_model(const char *name, const char *why, struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "%s: %s", name, why);
}

/* A class of somebody's own can compute something else than its layers do. */
static bool is_plain_model(const json_t *root, const char *class)
{
    return !config_is_foreign(root) &&
           (strcmp(class, "Sequential") == 0 || strcmp(class, "Functional") == 0 ||
            strcmp(class, "Model") == 0);
}

/* Every release of Keras 3 names the module of the model's class. Keras 2 writes its release into the text; its last ones
 * name the module, too. */
static bool is_keras_3(const struct reader *r)
{
    const char *release = json_string_value(json_object_get(r->root, "keras_version"));
    return json_object_get(r->root, "module") && !(release && *release && *release < '3');
}

static enum err not_keras_3(const struct reader *r, const char *name, struct errmsg *e)
{
    const json_t *release = json_object_get(r->root, "keras_version");
    bool module = json_object_get(r->root, "module");
    char shown[CONFIG_SHOWN_BYTES];
    return err_set(e, ERR_INPUT,
                   "%s: config.json is not from Keras 3: %s%s%s; load the model with Keras 3, and "
                   "save it again",
                   name, module ? "" : "it has no \"module\"",
                   !release ? ""
                   : module ? "its keras_version is "
                            : ", and its keras_version is ",
                   release ? config_show(release, shown) : "");
}

/* Find the layers. */
static enum err look(struct reader *r, const char *name, struct errmsg *e)
{
    const char *class = json_string_value(json_object_get(r->root, "class_name"));
    r->layers = json_object_get(json_object_get(r->root, "config"), "layers");
    if (!class || !json_is_array(r->layers))
        return not_a_model(name, "config.json describes no Sequential or Functional model", e);
    if (!is_keras_3(r))
        return not_keras_3(r, name, e);
    if (!is_plain_model(r->root, class))
        return not_a_model(name,
                           "the model is of a class of its own, which import cannot know: make a "
                           "keras.Model of its layers, and save that",
                           e);
    r->sequential = strcmp(class, "Sequential") == 0;
    r->n = json_array_size(r->layers);
    if (r->n > KERAS_LAYERS_MAX)
        return err_set(e, ERR_INPUT, "%s: it has %zu layers; at most %d are read", name, r->n,
                       KERAS_LAYERS_MAX);
    for (size_t i = 0; i < r->n; i++) {
        struct config_layer *l = &r->layer[i];
        l->json = json_array_get(r->layers, i);
        l->config = json_object_get(l->json, "config");
        l->class = json_string_value(json_object_get(l->json, "class_name"));
        l->name = json_string_value(json_object_get(l->config, "name"));
        if (!l->class || !l->name || !json_is_object(l->config))
            return err_set(e, ERR_INPUT, "%s: layer %zu has no class, config or name", name, i);
    }
    return ERR_OK;
}

enum { TEXTS = 5 };

static enum err open_lines(struct reader *r, char *text[TEXTS], size_t bytes[TEXTS],
                           struct errmsg *e)
{
    FILE **const file[TEXTS] = {&r->to.yaml, &r->to.notes, &r->to.optimizer, &r->to.training,
                                &r->to.refused};
    for (int i = 0; i < TEXTS; i++)
        if (!(*file[i] = open_memstream(&text[i], &bytes[i])))
            return err_memory(e);
    return ERR_OK;
}

static bool close_lines(struct reader *r)
{
    FILE *const file[TEXTS] = {r->to.yaml, r->to.notes, r->to.optimizer, r->to.training,
                               r->to.refused};
    bool closed = true;
    for (int i = 0; i < TEXTS; i++)
        closed &= file[i] && closes_well(file[i]);
    return closed;
}

static enum err read_json(struct reader *r, const char *name, char **refused, struct errmsg *e)
{
    char *text[TEXTS] = {NULL};
    size_t bytes[TEXTS];
    enum err err = look(r, name, e);
    if (err)
        return err;
    err = open_lines(r, text, bytes, e);
    if (!err)
        read_all(r);
    if ((!close_lines(r) || r->failed) && !err)
        err = err_memory(e);
    if (!err && r->to.refusals) {
        err = err_set(e, ERR_INPUT, "%s: a job cannot have %u of the model's layers and options",
                      name, r->to.refusals);
        *refused = text[TEXTS - 1];
        text[TEXTS - 1] = NULL;
    }
    if (!err) {
        r->c->loss_is_chosen = r->to.loss_is_chosen;
        char **const to[] = {&r->c->m.yaml, &r->c->m.notes, &r->c->m.optimizer, &r->c->m.training};
        for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
            *to[i] = text[i];
            text[i] = NULL;
        }
    }
    for (int i = 0; i < TEXTS; i++)
        free(text[i]);
    return err;
}

enum err config_read(struct config *c, const char *text, size_t bytes, const char *name,
                     bool trained, char **refused, struct errmsg *e)
{
    struct config made = {.m.scale = 1};
    json_error_t why;
    struct reader *r = mem_zalloc(1, sizeof *r);
    *refused = NULL;
    if (!r)
        return err_memory(e);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    r->root = root;
    r->c = &made;
    r->to.trained = trained;
    enum err err = root ? read_json(r, name, refused, e)
                        : err_set(e, ERR_INPUT, "%s: config.json:%d: %s", name, why.line, why.text);
    json_decref(root);
    mem_free(r);
    if (!err)
        *c = made;
    return err;
}
