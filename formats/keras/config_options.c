/* Reading the options of Keras' layers: what each becomes, by its rule in the table of layers.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "formats/keras/config_lines.h"
#include "formats/keras/layers.h"
#include "job/keys.h"

/* ---- shared with config.c ---- */

const char *config_show(const json_t *value, char out[CONFIG_SHOWN_BYTES])
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    (void)printable_text(out, CONFIG_SHOWN_BYTES, text ? text : "?");
    free(text);
    return out;
}

void config_write_real(FILE *to, double x)
{
    char text[DIGITS_REAL_BYTES];
    (void)fputs(digits_float(x, text), to);
}

const char *config_name(const json_t *v)
{
    const char *class = json_string_value(json_object_get(v, "class_name"));
    if (json_is_string(v))
        return json_string_value(v);
    return class && strcmp(class, "function") == 0 ? json_string_value(json_object_get(v, "config"))
                                                   : class;
}

/* Keras writes null for its own classes, and "PACKAGE>NAME" for one that was registered. */
bool config_is_foreign(const json_t *object)
{
    const char *module = json_string_value(json_object_get(object, "module"));
    const char *registered = json_string_value(json_object_get(object, "registered_name"));
    bool own = !module || strcmp(module, "builtins") == 0 || strcmp(module, "keras") == 0 ||
               strncmp(module, "keras.", 6) == 0;
    return !own || (registered && strchr(registered, '>'));
}

void config_not_taken(struct config_lines *to, const char *of, const char *key, const char *value)
{
    (void)fprintf(to->notes, "not taken over: %.60s%s%s of %s\n", key, *value ? " " : "", value,
                  of);
}

void config_refuse(struct config_lines *to, const struct config_layer *l, const char *fmt, ...)
{
    va_list args;
    char name[JOB_NAME_MAX];
    (void)printable_text(name, sizeof name, l->name);
    (void)fprintf(to->refused, "%s (%.60s): ", name, l->class);
    va_start(args, fmt);
    (void)vfprintf(to->refused, fmt, args);
    va_end(args);
    (void)fputc('\n', to->refused);
    to->refusals++;
}

/* The number of dimensions of the layer's (first) input with the batch; 0: the file does not say. */
static size_t input_rank(const struct config_layer *l)
{
    const json_t *call = json_array_get(json_object_get(l->json, "inbound_nodes"), 0);
    const json_t *in = json_array_get(json_object_get(call, "args"), 0);
    const json_t *shape = json_object_get(json_object_get(l->json, "build_config"), "input_shape");
    if (json_is_array(in))
        in = json_array_get(in, 0);
    in = json_object_get(json_object_get(in, "config"), "shape");
    if (json_is_array(json_array_get(shape, 0)))
        shape = json_array_get(shape, 0);
    return json_array_size(in) > 1 ? json_array_size(in) : json_array_size(shape);
}

/* ---- rules ---- */

struct reading {
    struct config_lines *to;
    const struct config_layer *layer;
    struct keras_option option;
    const json_t *value;
};

/* Refuse the option's value. */
static void cannot(const struct reading *r, const char *instead)
{
    char shown[CONFIG_SHOWN_BYTES];
    config_refuse(r->to, r->layer, "%s is %s; %s", r->option.key, config_show(r->value, shown),
                  instead);
}

bool config_is_one_of(const json_t *value, const char *alternatives)
{
    for (const char *at = alternatives; at && *at;) {
        size_t n = strcspn(at, "|");
        json_t *one = json_loadb(at, n, JSON_DECODE_ANY, NULL);
        bool same = json_equal(value, one) || (json_is_number(value) && json_is_number(one) &&
                                               json_number_value(value) == json_number_value(one));
        json_decref(one);
        if (same)
            return true;
        at += n + (at[n] == '|');
    }
    return false;
}

static void read_must(const struct reading *r)
{
    char instead[120];
    (void)snprintf(instead, sizeof instead, "a job has only %s", r->option.arg);
    if (strcmp(r->option.arg, "null") == 0)
        (void)snprintf(instead, sizeof instead, "a job has no such option: remove it");
    if (!config_is_one_of(r->value, r->option.arg))
        cannot(r, instead);
}

static void read_trains(const struct reading *r)
{
    char shown[CONFIG_SHOWN_BYTES];
    if (!config_is_one_of(r->value, r->option.arg))
        config_not_taken(r->to, r->layer->name, r->option.key, config_show(r->value, shown));
}

/* A job computes in float32, which is as good as the other types of reals, or better. */
static void read_type(const struct reading *r)
{
    static const char reals[] = "float16 bfloat16 float64 mixed_float16 mixed_bfloat16";
    static const char whole[] = "uint8 int8 uint16 int16 uint32 int32 uint64 int64";
    const json_t *policy = json_object_get(r->value, "config");
    const char *name = json_string_value(policy ? json_object_get(policy, "name") : r->value);
    bool input = strcmp(r->layer->class, "InputLayer") == 0;
    char shown[CONFIG_SHOWN_BYTES];
    name = name ? name : "";
    if (json_is_null(r->value) || strcmp(name, "float32") == 0 ||
        (input && text_has_word(whole, name)))
        return;
    if (text_has_word(reals, name))
        config_not_taken(r->to, r->layer->name, r->option.key, config_show(r->value, shown));
    else
        cannot(r, "a job computes in float32");
}

static void read_last_axis(const struct reading *r)
{
    const json_t *axis = r->value;
    size_t rank = input_rank(r->layer);
    if (json_array_size(axis) == 1)
        axis = json_array_get(axis, 0);
    json_int_t at = json_integer_value(axis);
    if (!json_is_integer(axis) || (at != -1 && (rank == 0 || at != (json_int_t)rank - 1)))
        cannot(r, "a job has only the last axis, -1");
}

static void read_number(const struct reading *r)
{
    FILE *yaml = r->to->yaml;
    if (json_is_boolean(r->value))
        (void)fprintf(yaml, "%s: %s, ", r->option.key, json_is_true(r->value) ? "true" : "false");
    else if (json_is_integer(r->value))
        (void)fprintf(yaml, "%s: %lld, ", r->option.key, (long long)json_integer_value(r->value));
    else if (json_is_real(r->value)) {
        (void)fprintf(yaml, "%s: ", r->option.key);
        config_write_real(yaml, json_real_value(r->value));
        (void)fputs(", ", yaml);
    } else {
        cannot(r, "it must be a number");
    }
}

static bool is_dimension(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) <= INT32_MAX;
}

/* Integers, at least `least` and at most `most`. */
static bool is_list(const json_t *list, size_t least, size_t most)
{
    size_t i;
    json_t *v;
    if (json_array_size(list) < least || json_array_size(list) > most)
        return false;
    json_array_foreach(list, i, v) if (!is_dimension(v)) return false;
    return true;
}

static void write_value(const struct reading *r)
{
    char shown[CONFIG_SHOWN_BYTES];
    (void)fprintf(r->to->yaml, "%s: %s, ", r->option.key, config_show(r->value, shown));
}

static void read_pair(const struct reading *r)
{
    if (is_dimension(r->value) || is_list(r->value, 2, 2))
        write_value(r);
    else
        cannot(r, "it must be an integer or two");
}

static void read_shape(const struct reading *r)
{
    if (is_list(r->value, 1, TENSOR_RANK_MAX))
        write_value(r);
    else
        cannot(r, "a job has 1 to 4 numbers above 0 here");
}

static void read_activation(const struct reading *r)
{
    const char *word = json_is_null(r->value) ? "linear" : config_name(r->value);
    if (word && strcmp(word, "swish") == 0)
        word = "silu";
    if (word && !config_is_foreign(r->value) && job_word_find(r->option.of->words, word))
        (void)fprintf(r->to->yaml, "%s: %s, ", r->option.key, word);
    else
        cannot(r, "a job has no such activation");
}

static void read_word(const struct reading *r)
{
    const char *word = json_string_value(r->value);
    if (word && job_word_find(r->option.of->words, word))
        (void)fprintf(r->to->yaml, "%s: %s, ", r->option.key, word);
    else
        cannot(r, "a job has only valid and same");
}

/* Initializers and regularizers: Keras' class, the job's word, and the options that have the same names in both. */
struct named {
    const char *class, *word, *option[2];
};
static const struct named initializers[] = {
    {"Zeros", "zeros", {NULL}},
    {"Ones", "ones", {NULL}},
    {"GlorotUniform", "glorot_uniform", {NULL}},
    {"GlorotNormal", "glorot_normal", {NULL}},
    {"HeNormal", "he_normal", {NULL}},
    {"HeUniform", "he_uniform", {NULL}},
    {"LecunNormal", "lecun_normal", {NULL}},
    {"LecunUniform", "lecun_uniform", {NULL}},
    {"Constant", "constant", {"value"}},
    {"RandomNormal", "random_normal", {"mean", "stddev"}},
    {"RandomUniform", "random_uniform", {"minval", "maxval"}},
    {"TruncatedNormal", "truncated_normal", {"mean", "stddev"}},
    {NULL, NULL, {NULL}},
};
static const struct named regularizers[] = {
    {"L1", "l1", {"l1"}},
    {"L2", "l2", {"l2"}},
    {"L1L2", "l1_l2", {"l1", "l2"}},
    {NULL, NULL, {NULL}},
};

/* The job's word may stand for the class, as in model.to_json() of a layer that was made from it. */
static const struct named *find_named(const struct named *in, const char *name)
{
    for (; name && in->class; in++)
        if (strcmp(in->class, name) == 0 || strcmp(in->word, name) == 0)
            return in;
    return NULL;
}

static const char *class_of(const json_t *value)
{
    return config_is_foreign(value) ? NULL : config_name(value);
}

/* Note the options that a job does not have, such as seeds. */
static void note_others(const struct reading *r, const struct named *n)
{
    const char *key;
    json_t *value;
    char shown[CONFIG_SHOWN_BYTES], of[2 * JOB_NAME_MAX];
    (void)snprintf(of, sizeof of, "%.60s's %s", r->layer->name, r->option.key);
    json_object_foreach(json_object_get(r->value, "config"), key, value)
    {
        bool taken = (n->option[0] && strcmp(n->option[0], key) == 0) ||
                     (n->option[1] && strcmp(n->option[1], key) == 0) || json_is_null(value);
        if (!taken)
            config_not_taken(r->to, of, key, config_show(value, shown));
    }
}

/* "kernel_regularizer: {l2: {l2: 0.01}}, " */
static void write_named(const struct reading *r, const struct named *n)
{
    const json_t *config = json_object_get(r->value, "config");
    FILE *yaml = r->to->yaml;
    const char *comma = "";
    note_others(r, n);
    (void)fprintf(yaml, "%s: {%s: {", r->option.key, n->word);
    for (size_t i = 0; i < 2 && n->option[i]; i++) {
        const json_t *v = json_object_get(config, n->option[i]);
        if (!json_is_number(v))
            continue;
        (void)fprintf(yaml, "%s%s: ", comma, n->option[i]);
        config_write_real(yaml, json_number_value(v));
        comma = ", ";
    }
    (void)fputs("}}, ", yaml);
}

static void read_initializer(const struct reading *r)
{
    const char *class = class_of(r->value);
    const struct named *n = find_named(initializers, class);
    bool usual = n && strcmp(n->word, r->option.of->fallback) == 0;
    if (r->to->trained)
        return;
    if (!n) {
        cannot(r, "a job has no such initializer");
        return;
    }
    if (n->option[0]) {
        write_named(r, n);
        return;
    }
    note_others(r, n);
    if (!usual)
        (void)fprintf(r->to->yaml, "%s: %s, ", r->option.key, n->word);
}

/* True if the options are those of a job's own first values. */
static bool are_first_values(const struct reading *r)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(r->value, "config"), key, value)
    {
        bool low = strcmp(key, "minval") == 0, high = strcmp(key, "maxval") == 0;
        if ((low && !config_is_one_of(value, "-0.05")) ||
            (high && !config_is_one_of(value, "0.05")))
            return false;
    }
    return true;
}

static void read_first_value(const struct reading *r)
{
    static const struct named uniform = {NULL, NULL, {"minval", "maxval"}};
    const struct named *n = find_named(initializers, class_of(r->value));
    char instead[120];
    if (r->to->trained)
        return;
    (void)snprintf(instead, sizeof instead, "a job has only %s here", r->option.arg);
    if (n && strcmp(n->class, r->option.arg) == 0 && are_first_values(r))
        note_others(r, &uniform);
    else
        cannot(r, instead);
}

static void read_regularizer(const struct reading *r)
{
    const struct named *n = find_named(regularizers, class_of(r->value));
    if (json_is_null(r->value))
        return;
    if (n)
        write_named(r, n);
    else
        cannot(r, "a job has only L1, L2 and L1L2");
}

/* By rule; of SKIP nothing is read. */
static void (*const read_by[])(const struct reading *r) = {
    [TRAINS] = read_trains,
    [TYPE] = read_type,
    [MUST] = read_must,
    [LAST_AXIS] = read_last_axis,
    [NUMBER] = read_number,
    [PAIR] = read_pair,
    [SHAPE] = read_shape,
    [ACTIVATION] = read_activation,
    [WORD] = read_word,
    [INITIALIZER] = read_initializer,
    [FIRST_VALUE] = read_first_value,
    [REGULARIZER] = read_regularizer,
};
_Static_assert(sizeof read_by / sizeof *read_by == RULES, "each rule has its reader");

/* Keras writes null for an option that was not given. Any other value of an option that this release does not know may
 * change what the layer computes. */
static void read_options(struct config_lines *to, const struct config_layer *l, const char *word)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)l->config, key, value)
    {
        struct reading r = {.to = to, .layer = l, .value = value};
        char shown[CONFIG_SHOWN_BYTES];
        const bool known = keras_option_find(&r.option, word, key);
        if (known && r.option.rule != SKIP)
            read_by[r.option.rule](&r);
        else if (!known && !json_is_null(value))
            config_refuse(to, l, "its option %.60s (%s) is not known here", key,
                          config_show(value, shown));
    }
}

/* False: it is refused. */
static bool is_own(struct config_lines *to, const struct config_layer *l)
{
    if (config_is_foreign(l->json))
        config_refuse(to, l, "it is not Keras' own layer, but one of this name");
    return !config_is_foreign(l->json);
}

bool config_check_options(struct config_lines *to, const struct config_layer *l)
{
    uint32_t before = to->refusals;
    if (is_own(to, l))
        read_options(to, l, "");
    return to->refusals == before;
}

bool config_write_options(struct config_lines *to, const struct config_layer *l,
                          struct keras_class *class)
{
    uint32_t before = to->refusals;
    if (!keras_class_find(class, l->class)) {
        config_refuse(to, l, "a job has no such layer: replace it in Keras, or remove it");
        return false;
    }
    if (is_own(to, l))
        read_options(to, l, class->word);
    return to->refusals == before;
}
