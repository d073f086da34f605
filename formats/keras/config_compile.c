/* The loss, the metrics and the optimizer that a model was compiled with. Each object has a table of its options with the
 * values that change nothing here; an option that is not in it, or has another value, is noted.
 *
 * A prediction does not depend on any of them, so a model is refused only for a loss that a job does not have. */
#include <ctype.h>
#include <string.h>

#include "common/base/texts.h"
#include "formats/keras/config.h"
#include "formats/keras/config_lines.h"
#include "job/keys.h"

/* ---- the tables ---- */

enum { KNOWN_MAX = 14 };

struct known {
    const char *key;
    /* JSON values separated by '|'. ANY: each value is taken over, or changes nothing. Begins with NOTED: another value is
     * noted, and does not make another metric of it. */
    const char *usual;
};
#define ANY NULL
#define NOTED "+"
#define KNOWN(key, usual)                                                                          \
    {                                                                                              \
        key, usual                                                                                 \
    }
#define NAME KNOWN("name", ANY)
#define NAME_AND_TYPE NAME, KNOWN("dtype", "null|\"float32\"")

struct object {
    const char *names; /* of the class, its function and its short forms, separated by blanks */
    const char *word;  /* in a job */
    int metric;        /* enum metric_kind; of a loss nothing */
    const char *loss;  /* a metric: the job's loss that it needs; NULL: each that it fits */
    struct known option[KNOWN_MAX];
};

#define REDUCTION KNOWN("reduction", "\"sum_over_batch_size\"|\"mean\"")
#define SPARSE "sparse_categorical_crossentropy"
#define BINARY "binary_crossentropy"
#define LOGITS KNOWN("from_logits", ANY)
#define SMOOTHING KNOWN("label_smoothing", "0|null")
#define AXIS KNOWN("axis", "-1")
#define LOSS(names, word, ...)                                                                     \
    {                                                                                              \
        names, word, 0, NULL,                                                                      \
        {                                                                                          \
            NAME_AND_TYPE, REDUCTION, __VA_ARGS__                                                  \
        }                                                                                          \
    }

static const struct object losses[] = {
    LOSS("SparseCategoricalCrossentropy sparse_categorical_crossentropy", SPARSE, LOGITS,
         {"ignore_class", "null"}, AXIS),
    LOSS("CategoricalCrossentropy categorical_crossentropy", SPARSE, LOGITS, SMOOTHING, AXIS),
    LOSS("BinaryCrossentropy binary_crossentropy bce BCE", BINARY, LOGITS, SMOOTHING, AXIS),
    LOSS("MeanSquaredError mean_squared_error mse MSE", "mean_squared_error", {NULL, NULL}),
    LOSS("MeanAbsoluteError mean_absolute_error mae MAE", "mean_absolute_error", {NULL, NULL}),
};

/* Keras' Accuracy and "Accuracy" compare outputs with labels as numbers; only "accuracy" chooses by the loss. */
#define METRIC(names, kind, loss, ...)                                                             \
    {                                                                                              \
        names, NULL, METRIC_##kind, loss,                                                          \
        {                                                                                          \
            NAME_AND_TYPE, __VA_ARGS__                                                             \
        }                                                                                          \
    }
#define HALF KNOWN("thresholds", "null|0.5|[0.5]")
static const struct object metrics[] = {
    METRIC("accuracy acc", ACCURACY, NULL, {NULL, NULL}),
    METRIC("SparseCategoricalAccuracy sparse_categorical_accuracy", ACCURACY, SPARSE, {NULL, NULL}),
    METRIC("CategoricalAccuracy categorical_accuracy", ACCURACY, SPARSE, {NULL, NULL}),
    METRIC("BinaryAccuracy binary_accuracy", ACCURACY, BINARY, {"threshold", "0.5"}),
    METRIC("AUC auc", AUC, BINARY, {"num_thresholds", NOTED "200"}, {"curve", "\"ROC\""},
           {"summation_method", "\"interpolation\""}, {"multi_label", "false"},
           {"num_labels", "null"}, {"label_weights", "null"}, LOGITS),
    METRIC("Precision precision", PRECISION, BINARY, HALF, {"top_k", "null"},
           {"class_id", "null|0"}),
    METRIC("Recall recall", RECALL, BINARY, HALF, {"top_k", "null"}, {"class_id", "null|0"}),
    METRIC("BinaryCrossentropy binary_crossentropy bce BCE", LOGLOSS, BINARY, LOGITS, SMOOTHING),
    METRIC("MeanAbsoluteError mean_absolute_error mae MAE", MEAN_ABSOLUTE_ERROR, NULL,
           {NULL, NULL}),
    METRIC("MeanSquaredError mean_squared_error mse MSE", MEAN_SQUARED_ERROR, NULL, {NULL, NULL}),
};

/* Options of every optimizer that a job does not have, or that are not Keras's. */
static const struct known optimizer_options[] = {
    NAME,
    {"rowwise", "null"},
    {"clipnorm", "null"},
    {"clipvalue", "null"},
    {"loss_scale_factor", "null|1"},
    {"gradient_accumulation_steps", "null|1"},
    {NULL, NULL},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* NULL: a job does not have it, or the class is not Keras' own. */
static const struct object *find(const struct object *in, size_t n, const json_t *v)
{
    const char *name = config_name(v);
    for (size_t i = 0; i < n && name && !config_is_foreign(v); i++)
        if (text_has_word(in[i].names, name))
            return &in[i];
    return NULL;
}

static const struct known *find_known(const struct known *in, const char *key)
{
    for (size_t i = 0; i < KNOWN_MAX && in[i].key; i++)
        if (strcmp(in[i].key, key) == 0)
            return &in[i];
    return NULL;
}

static const json_t *options_of(const json_t *v)
{
    const json_t *config = json_object_get(v, "config");
    return json_is_object(config) ? config : NULL;
}

static bool is_noted(const struct known *k)
{
    return k && k->usual && *k->usual == *NOTED;
}

static bool is_usual(const struct known *k, const json_t *value)
{
    return k && (!k->usual || config_is_one_of(value, k->usual + is_noted(k)));
}

/* The first option that would make another metric of it here. NULL: none. */
static const char *first_other(const struct object *o, const json_t *v, const json_t **value)
{
    const char *key;
    json_t *is;
    json_object_foreach((json_t *)(uintptr_t)options_of(v), key, is)
    {
        const struct known *k = find_known(o->option, key);
        *value = is;
        if (!is_usual(k, is) && !is_noted(k))
            return key;
    }
    return NULL;
}

/* Note the options with other values. */
static void note_options(struct config_lines *to, const char *what, const struct object *o,
                         const json_t *v)
{
    char of[CONFIG_SHOWN_BYTES], shown[CONFIG_SHOWN_BYTES];
    const char *key;
    json_t *value;
    (void)snprintf(of, sizeof of, "the %s %.40s", what, config_name(v));
    json_object_foreach((json_t *)(uintptr_t)options_of(v), key, value)
    {
        if (!is_usual(find_known(o->option, key), value))
            config_not_taken(to, of, key, config_show(value, shown));
    }
}

/* The only entry of a list or map by output, or the value itself. */
static const json_t *only(const json_t *v)
{
    if (json_array_size(v) == 1)
        return json_array_get(v, 0);
    void *first = json_object_iter((json_t *)(uintptr_t)v);
    bool by_output = json_object_size(v) == 1 && !json_object_get(v, "class_name");
    return by_output ? json_object_iter_value(first) : v;
}

/* ---- the loss ---- */

static void write_loss(struct config_lines *to, const char *word, bool from_logits)
{
    (void)fprintf(to->yaml, from_logits ? "  loss: {%s: {from_logits: true}}\n" : "  loss: %s\n",
                  word);
}

/* Without a loss: by the last activation and the number of outputs. */
static const char *guess_loss(struct config_lines *to, const struct config_end *end)
{
    const char *word = "mean_squared_error";
    bool logits = false;
    if (strcmp(end->activation, "softmax") == 0)
        word = SPARSE;
    else if (strcmp(end->activation, "sigmoid") == 0)
        word = BINARY;
    else if (!end->one) {
        word = SPARSE;
        logits = true;
    }
    write_loss(to, word, logits);
    to->loss_is_chosen = true;
    (void)fprintf(to->notes,
                  "the model was not compiled: model.loss is %s%s, which fits its last layer\n",
                  word, logits ? " with from_logits" : "");
    return word;
}

/* Returns the job's word. NULL: refused. */
static const char *read_loss(struct config_lines *to, const json_t *loss,
                             const struct config_end *end)
{
    static const struct config_layer model = {.name = "the model", .class = "loss"};
    char shown[CONFIG_SHOWN_BYTES];
    if (!loss || json_is_null(loss))
        return guess_loss(to, end);
    const struct object *o = find(losses, COUNT(losses), loss);
    if (!o) {
        config_refuse(to, &model,
                      "%s; compile it with a crossentropy, mean_squared_error or "
                      "mean_absolute_error",
                      config_show(loss, shown));
        return NULL;
    }
    if (text_has_word(o->names, "CategoricalCrossentropy"))
        (void)fputs("labels are class numbers: the loss is sparse_categorical_crossentropy in "
                    "place of categorical_crossentropy\n",
                    to->notes);
    note_options(to, "loss", o, loss);
    write_loss(to, o->word, json_is_true(json_object_get(options_of(loss), "from_logits")));
    return o->word;
}

/* ---- metrics ---- */

static void leave_out(struct config_lines *to, const json_t *one, const char *why)
{
    char shown[CONFIG_SHOWN_BYTES];
    const char *name = config_name(one);
    if (!name || config_is_foreign(one))
        name = config_show(one, shown);
    (void)fprintf(to->notes, "not taken over: the metric %.80s%s\n", name, why);
}

/* A crossentropy of logits is another number than that of the same outputs as probabilities. */
static bool differs_in_logits(const struct object *o, const json_t *one, const json_t *loss)
{
    const json_t *of_loss = json_object_get(options_of(loss), "from_logits");
    return o->metric == METRIC_LOGLOSS &&
           json_is_true(json_object_get(options_of(one), "from_logits")) != json_is_true(of_loss);
}

static void read_metric(struct config *c, struct config_lines *to, const json_t *one,
                        const json_t *loss, const char *loss_word)
{
    const struct object *o = find(metrics, COUNT(metrics), one);
    char why[2 * CONFIG_SHOWN_BYTES], shown[CONFIG_SHOWN_BYTES];
    const json_t *value = NULL;
    if (!o) {
        leave_out(to, one, ": a job has no such metric");
        return;
    }
    const char *key = first_other(o, one, &value);
    if (key)
        (void)snprintf(why, sizeof why, ": its %.40s is %s", key, config_show(value, shown));
    else if (o->loss && strcmp(o->loss, loss_word) != 0)
        (void)snprintf(why, sizeof why, ": in a job it needs the loss %s", o->loss);
    else if (differs_in_logits(o, one, loss))
        (void)snprintf(why, sizeof why, ": its from_logits is not that of the loss");
    else
        why[0] = '\0';
    if (why[0]) {
        leave_out(to, one, why);
        return;
    }
    note_options(to, "metric", o, one);
    for (uint32_t i = 0; i < c->metrics; i++)
        if (c->metric[i] == (enum metric_kind)o->metric)
            return;
    if (c->metrics < METRICS_MAX)
        c->metric[c->metrics++] = (enum metric_kind)o->metric;
    else
        leave_out(to, one, ": a job has no more");
}

/* A metric, or lists of them. */
static void read_metrics(struct config *c, struct config_lines *to, const json_t *list,
                         const json_t *loss, const char *loss_word)
{
    size_t i;
    json_t *one;
    while (list != only(list))
        list = only(list);
    if (!json_is_array(list) && list && !json_is_null(list))
        read_metric(c, to, list, loss, loss_word);
    json_array_foreach(list, i, one) read_metric(c, to, one, loss, loss_word);
}

/* ---- the optimizer ---- */

static void write_value(FILE *to, const json_t *v)
{
    char shown[CONFIG_SHOWN_BYTES];
    if (json_is_real(v))
        config_write_real(to, json_real_value(v));
    else
        (void)fputs(config_show(v, shown), to);
}

/* Options of the average count only with it, and nesterov only with a momentum: a job refuses them otherwise. */
static bool is_without_effect(const json_t *options, const char *key)
{
    bool averages = json_is_true(json_object_get(options, "use_ema"));
    bool moves = json_number_value(json_object_get(options, "momentum")) > 0;
    return (strncmp(key, "ema_", 4) == 0 && !averages) || (strcmp(key, "nesterov") == 0 && !moves);
}

/* training.KEY. False: a job cannot have the value. */
static bool write_rate(struct config_lines *to, const char *key, const json_t *value)
{
    if (!(json_number_value(value) > 0))
        return false;
    (void)fprintf(to->training, "  %s: ", key);
    write_value(to->training, value);
    (void)fputc('\n', to->training);
    return true;
}

/* A job's optimizers and their options have Keras's names: the class in small letters, and its keys.
 * NULL: a job does not have it, or the class is not Keras's own. */
static const char *optimizer_word(const json_t *optimizer)
{
    char word[32] = "";
    const char *class = config_name(optimizer);
    for (size_t i = 0; class && class[i] && i < sizeof word - 1; i++)
        word[i] = (char)tolower((unsigned char)class[i]);
    const struct job_word *found = job_word_find(job_key_find("optimizer")->words, word);
    return found && found->value != JOB_WORD_LATER && !config_is_foreign(optimizer) ? found->word
                                                                                    : NULL;
}

/* NULL: a job has no such option. */
static const struct job_key *optimizer_key(const char *word, const char *key)
{
    char path[JOB_PATH_MAX];
    (void)snprintf(path, sizeof path, "optimizer.%s.%.80s", word, key);
    const struct job_key *found = job_key_find(path);
    return found && found->fallback ? found : NULL;
}

/* The job's default need not be written; where it is 0, Keras may have null. */
static bool is_default(const struct job_key *key, const json_t *value)
{
    return config_is_one_of(value, key->fallback) ||
           (json_is_null(value) && strcmp(key->fallback, "0") == 0);
}

/* False: a job cannot have the option's value. *begun: an option was written. */
static bool read_option(struct config_lines *to, const char *word, const json_t *options,
                        const char *key, const json_t *value, bool *begun)
{
    const struct known *known = find_known(optimizer_options, key);
    const struct job_key *job = known ? NULL : optimizer_key(word, key);
    if (strcmp(key, "learning_rate") == 0)
        return write_rate(to, "learning_rate", value);
    if (strcmp(key, "global_clipnorm") == 0)
        return json_is_null(value) || write_rate(to, "clip_norm", value);
    if (!job)
        return is_usual(known, value);
    if (is_default(job, value) || is_without_effect(options, key))
        return true;
    if (!json_is_number(value) && !json_is_boolean(value))
        return false;
    if (*begun)
        (void)fprintf(to->optimizer, ", %s: ", key);
    else
        (void)fprintf(to->optimizer, "{%s: {%s: ", word, key);
    write_value(to->optimizer, value);
    *begun = true;
    return true;
}

static void read_optimizer(struct config_lines *to, const json_t *optimizer)
{
    const json_t *options = options_of(optimizer);
    const char *key;
    bool begun = false;
    char of[CONFIG_SHOWN_BYTES], shown[CONFIG_SHOWN_BYTES];
    const char *name = config_name(optimizer), *word = optimizer_word(optimizer);
    json_t *value;
    if (!optimizer || json_is_null(optimizer))
        return;
    if (!word) {
        (void)fprintf(to->notes, "not taken over: the optimizer %.80s: the job has adam\n",
                      name && !config_is_foreign(optimizer) ? name : config_show(optimizer, shown));
        return;
    }
    (void)snprintf(of, sizeof of, "the optimizer %.40s", name);
    (void)fputs("optimizer: ", to->optimizer);
    json_object_foreach((json_t *)(uintptr_t)options, key,
                        value) if (!read_option(to, word, options, key, value, &begun))
        config_not_taken(to, of, key, config_show(value, shown));
    (void)fprintf(to->optimizer, "%s\n", begun ? "}}" : word);
}

/* ---- all ---- */

/* Arguments that change nothing that is computed. */
static const struct known arguments[] = {
    {"optimizer", ANY},       {"loss", ANY},
    {"metrics", ANY},         {"loss_weights", "null|1|[1]"},
    {"run_eagerly", ANY},     {"weighted_metrics", "null|[]"},
    {"jit_compile", ANY},     {"steps_per_execution", ANY},
    {"auto_scale_loss", ANY}, {NULL, NULL},
};

static void note_arguments(struct config_lines *to, const json_t *compiled)
{
    const char *key;
    json_t *value;
    char shown[CONFIG_SHOWN_BYTES];
    json_object_foreach((json_t *)(uintptr_t)compiled, key, value)
    {
        const struct known *k = find_known(arguments, key);
        if (!is_usual(k, value))
            config_not_taken(to, "compile()", key, config_show(value, shown));
    }
}

void config_read_compiled(struct config *c, struct config_lines *to, const json_t *compiled,
                          const struct config_end *end)
{
    const json_t *loss = only(json_object_get(compiled, "loss"));
    const char *word = read_loss(to, loss, end);
    if (word)
        read_metrics(c, to, json_object_get(compiled, "metrics"), loss, word);
    read_optimizer(to, json_object_get(compiled, "optimizer"));
    note_arguments(to, compiled);
}
