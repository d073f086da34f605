/* Keras's layers follow from the table of the job's keys, which has their classes: an option of a class is the key of that name.
 * Options that no key is are listed here. */
#include "formats/keras/layers.h"

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/texts.h"
#include "formats/keras/network.h"
#include "job/keys.h"

static const struct job_word *layer_words(void)
{
    return job_key_find(JOB_LAYER_PREFIX)->words;
}

/* The key of an option; NULL: none. */
static const struct job_key *key_of(const char *word, const char *option)
{
    char path[JOB_PATH_MAX];
    (void)snprintf(path, sizeof path, JOB_LAYER_PREFIX ".%s.%s", word, option);
    return job_key_find(path);
}

/* ---- classes ---- */

void keras_group(const char *class, uint32_t same, char *out, size_t bytes)
{
    char group[KERAS_GROUP_BYTES / 2];
    job_snake_case(class, group, sizeof group);
    if (same)
        (void)snprintf(out, bytes, "layers/%s_%u/vars", group, same);
    else
        (void)snprintf(out, bytes, "layers/%s/vars", group);
}

static struct keras_class class_of_word(const struct job_word *w)
{
    const struct job_key *trainable = key_of(w->word, "trainable");
    return (struct keras_class){.name = key_of(w->word, "name")->keras,
                                .word = w->word,
                                .kind = (enum layer_kind)w->value,
                                .has_weights = trainable && trainable->type != KEY_LATER};
}

bool keras_class_find(struct keras_class *c, const char *name)
{
    for (const struct job_word *w = layer_words(); w->word; w++) {
        *c = w->value == JOB_WORD_LATER ? (struct keras_class){.name = NULL} : class_of_word(w);
        if (c->name && strcmp(c->name, name) == 0)
            return true;
    }
    return false;
}

struct keras_class keras_class_of(enum layer_kind kind)
{
    const struct job_word *words = layer_words();
    return class_of_word(job_word_find(words, job_word_of(words, (int)kind)));
}

const char *const keras_weights[KERAS_WEIGHTS] = {
    "kernel", "bias", "embeddings", "gamma", "beta", "moving_mean", "moving_variance"};

/* ---- options that are read ---- */

/* The options of Keras that are no keys. A name means the same in each class that has it; what it must be is what a job's layer
 * does. */
static const struct keras_option options[] = {
    {"axis", LAST_AXIS, NULL, NULL},
    {"data_format", MUST, "\"channels_last\"|null", NULL},
    {"groups", MUST, "1", NULL},
    {"negative_slope", MUST, "0", NULL}, /* of ReLU */
    {"threshold", MUST, "0", NULL},
    {"max_value", MUST, "null", NULL},
    {"rms_scaling", MUST, "false", NULL},
    {"synchronized", TRAINS, "false", NULL},
    {"renorm", MUST, "false", NULL},
    {"renorm_clipping", SKIP, NULL, NULL},
    {"renorm_momentum", SKIP, NULL, NULL},
    {"seed", TRAINS, "null", NULL},
    {"noise_shape", MUST, "null", NULL},
    {"mask_zero", MUST, "false", NULL},
    {"input_length", SKIP, NULL, NULL},
    {"quantization_config", MUST, "null", NULL},
    {"lora_rank", MUST, "null", NULL},
    {"beta_initializer", FIRST_VALUE, "Zeros", NULL},
    {"gamma_initializer", FIRST_VALUE, "Ones", NULL},
    {"moving_mean_initializer", FIRST_VALUE, "Zeros", NULL},
    {"moving_variance_initializer", FIRST_VALUE, "Ones", NULL},
    {"embeddings_initializer", FIRST_VALUE, "RandomUniform", NULL},
    {"activity_regularizer", MUST, "null", NULL},
    {"beta_regularizer", MUST, "null", NULL},
    {"gamma_regularizer", MUST, "null", NULL},
    {"embeddings_regularizer", MUST, "null", NULL},
    {"kernel_constraint", MUST, "null", NULL},
    {"bias_constraint", MUST, "null", NULL},
    {"beta_constraint", MUST, "null", NULL},
    {"gamma_constraint", MUST, "null", NULL},
    {"embeddings_constraint", MUST, "null", NULL},
    {NULL, RULE_END, NULL, NULL},
};
static const struct keras_option of_every_class[] = {
    {"name", SKIP, NULL, NULL},
    {"trainable", SKIP, NULL, NULL},
    {"dtype", TYPE, NULL, NULL},
    {NULL, RULE_END, NULL, NULL},
};
/* InputLayer and Rescaling, which config.c reads. */
static const struct keras_option of_inputs[] = {
    {"batch_shape", SKIP, NULL, NULL}, {"batch_input_shape", SKIP, NULL, NULL},
    {"sparse", MUST, "false", NULL},   {"ragged", MUST, "false", NULL},
    {"optional", MUST, "false", NULL}, {"scale", SKIP, NULL, NULL},
    {"offset", SKIP, NULL, NULL},      {NULL, RULE_END, NULL, NULL},
};

static const struct keras_option *find_option(const struct keras_option *in, const char *name)
{
    while (in->key && strcmp(in->key, name) != 0)
        in++;
    return in;
}

/* RULE_END: Keras has no such option. */
static enum rule rule_of(const struct job_key *key)
{
    switch ((int)key->type) {
    case KEY_U32:
    case KEY_REAL:
    case KEY_BOOL:
        return NUMBER;
    case KEY_PAIR:
        return PAIR;
    case KEY_SHAPE:
        return SHAPE;
    case KEY_WORD:
        return text_ends(key->path, ".activation") ? ACTIVATION : WORD;
    case KEY_CHOICE:
        return text_ends(key->path, "_regularizer") ? REGULARIZER : INITIALIZER;
    default:
        return RULE_END;
    }
}

bool keras_option_find(struct keras_option *o, const char *word, const char *name)
{
    const struct job_key *key = strchr(name, '.') ? NULL : key_of(word, name);
    *o = *find_option(of_every_class, name);
    if (!o->key && key)
        *o = (struct keras_option){name, rule_of(key), NULL, key};
    if (!o->key || (key && o->rule == RULE_END))
        *o = *find_option(*word ? options : of_inputs, name);
    return o->key != NULL;
}

/* ---- options that are written ---- */

static json_t *regularizer(const struct job_weights *w)
{
    if (w->regularizer == REGULARIZER_NONE)
        return json_null();
    float l1 = w->regularizer == REGULARIZER_L2 ? 0 : w->l1;
    float l2 = w->regularizer == REGULARIZER_L1 ? 0 : w->l2;
    return json_pack("{s:s, s:s, s:{s:o, s:o}, s:n}", "module", "keras.regularizers", "class_name",
                     "L1L2", "config", "l1", network_real(l1), "l2", network_real(l2),
                     "registered_name");
}

/* NULL: it is not written, or no memory is left. */
static json_t *option_json(const struct job_key *key, const struct job_layer *l)
{
    const void *at = job_key_at(key, NULL, l);
    const uint32_t *n = at;
    switch ((int)key->type) {
    case KEY_U32:
        return json_integer(*n);
    case KEY_REAL:
        return network_real(*(const float *)at);
    case KEY_BOOL:
        return json_boolean(*(const bool *)at);
    case KEY_PAIR:
        return network_shape(false, 2, n);
    case KEY_SHAPE:
        return network_shape(false, n[0], n + 1);
    case KEY_WORD:
        return json_string(job_word_of(key->words, *(const int *)at));
    case KEY_CHOICE:
        return regularizer(
            (const void *)((const char *)at - offsetof(struct job_weights, regularizer)));
    default:
        return strcmp(key->fallback, "-1") == 0 ? json_integer(-1) : json_string(key->fallback);
    }
}

/* The axes are written, though they have only one value. */
static bool is_written(const struct job_key *key, const char *option)
{
    enum rule rule = strcmp(option, "trainable") == 0 ? RULE_END : rule_of(key);
    return (rule != RULE_END && rule != INITIALIZER) || strcmp(option, "data_format") == 0 ||
           strcmp(option, "axis") == 0;
}

/* The options of our layer in the order of their keys; but Keras's momentum comes last. */
json_t *keras_options(const struct job_layer *l)
{
    char prefix[JOB_PATH_MAX];
    const struct job_key *last = NULL;
    json_t *made = json_object();
    bool ok = true;
    int n = snprintf(prefix, sizeof prefix, JOB_LAYER_PREFIX ".%s.", keras_class_of(l->kind).word);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        const char *option = key->path + n;
        if (strncmp(key->path, prefix, (size_t)n) != 0 || strchr(option, '.') ||
            !is_written(key, option))
            continue;
        if (strcmp(option, "momentum") == 0)
            last = key;
        else
            json_put(made, option, option_json(key, l), &ok);
    }
    if (last)
        json_put(made, "momentum", option_json(last, l), &ok);
    return json_whole(made, ok);
}
