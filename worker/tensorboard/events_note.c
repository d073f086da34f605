#include "worker/tensorboard/events_note.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job/keys.h"
#include "common/base/digits.h"
#include "common/base/mem.h"
#include "model/evaluation.h"

enum { TAG_MAX = TENSOR_NAME_MAX + 64 };

static double wall_time(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct events_note *events_note(enum events_run run, uint64_t step)
{
    struct events_note *n = mem_zalloc(1, sizeof *n);
    if (n)
        *n = (struct events_note){.run = run, .step = step, .wall_time = wall_time()};
    return n;
}

void events_note_free(void *note)
{
    struct events_note *n = note;
    mem_free(n->summary);
    mem_free(n);
}

enum err events_note_write(const struct events_note *n, struct events_file *to, struct errmsg *e)
{
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    Tensorboard__SessionLog start = TENSORBOARD__SESSION_LOG__INIT;
    event.wall_time = n->wall_time;
    event.step = (int64_t)n->step;
    if (n->restart) {
        start.status = TENSORBOARD__SESSION_STATUS__SESSION_START;
        event.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
        event.session_log = &start;
    } else {
        event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
        event.summary = (ProtobufCBinaryData){n->bytes, n->summary};
    }
    return events_file_append(to, &event, e);
}

/* Two packed messages in sequence are one message with the values of both. */
static void append(struct events_note *n, Tensorboard__Value *value)
{
    Tensorboard__Summary s = TENSORBOARD__SUMMARY__INIT;
    s.n_value = 1;
    s.value = &value;
    size_t bytes = tensorboard__summary__get_packed_size(&s);
    uint8_t *grown = n->failed ? NULL : mem_resize(n->summary, n->bytes + bytes, 1);
    n->failed = grown == NULL;
    if (!grown)
        return;
    n->summary = grown;
    n->bytes += tensorboard__summary__pack(&s, grown + n->bytes);
}

void events_scalar(struct events_note *n, const char *prefix, const char *name, const char *suffix,
                   double x)
{
    char tag[TAG_MAX];
    Tensorboard__Value value = TENSORBOARD__VALUE__INIT;
    if (!n || isnan(x))
        return;
    (void)snprintf(tag, sizeof tag, "%s%s%s", prefix, name, suffix);
    value.tag = tag;
    value.value_case = TENSORBOARD__VALUE__VALUE_SIMPLE_VALUE;
    value.simple_value = (float)x;
    append(n, &value);
}

void events_histogram(struct events_note *n, const char *name, const char *suffix,
                      const struct events_histogram *h)
{
    char tag[TAG_MAX];
    double limit[EVENTS_BUCKETS], bucket[EVENTS_BUCKETS];
    Tensorboard__Value value = TENSORBOARD__VALUE__INIT;
    Tensorboard__Histogram message = TENSORBOARD__HISTOGRAM__INIT;
    if (!n || !(h->num > 0))
        return;
    for (int i = 0; i < EVENTS_BUCKETS; i++) {
        limit[i] = i == EVENTS_BUCKETS - 1 ? h->max
                                           : h->min + (h->max - h->min) * (i + 1) / EVENTS_BUCKETS;
        bucket[i] = h->bucket[i];
    }
    message.min = h->min;
    message.max = h->max;
    message.num = h->num;
    message.sum = h->sum;
    message.sum_squares = h->sum_squares;
    message.n_bucket_limit = message.n_bucket = EVENTS_BUCKETS;
    message.bucket_limit = limit;
    message.bucket = bucket;
    (void)snprintf(tag, sizeof tag, "%s%s", name, suffix);
    value.tag = tag;
    value.value_case = TENSORBOARD__VALUE__VALUE_HISTO;
    value.histo = &message;
    append(n, &value);
}

/* ---- plugins ---- */

/* A value for a plugin, with data in the plugin's format. */
static void append_plugin(struct events_note *n, const char *tag, const char *plugin,
                          ProtobufCBinaryData content, Tensorboard__Tensor *tensor)
{
    Tensorboard__PluginData data = TENSORBOARD__PLUGIN_DATA__INIT;
    Tensorboard__Metadata metadata = TENSORBOARD__METADATA__INIT;
    Tensorboard__Value value = TENSORBOARD__VALUE__INIT;
    data.plugin_name = (char *)plugin;
    data.content = content;
    metadata.plugin_data = &data;
    value.tag = (char *)tag;
    value.metadata = &metadata;
    value.value_case = TENSORBOARD__VALUE__VALUE_TENSOR;
    value.tensor = tensor;
    append(n, &value);
}

/* Indent each line by four blanks, which Markdown shows unchanged. */
static char *indented(const char *text)
{
    size_t lines = 1, at = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    char *out = mem_zalloc(strlen(text) + 4 * lines + 1, 1);
    for (const char *c = text; out && *c; c++) {
        if (c == text || c[-1] == '\n') {
            memcpy(out + at, "    ", 4);
            at += 4;
        }
        out[at++] = *c;
    }
    return out;
}

void events_text(struct events_note *n, const char *name, const char *text)
{
    Tensorboard__Tensor tensor = TENSORBOARD__TENSOR__INIT;
    Tensorboard__Shape shape = TENSORBOARD__SHAPE__INIT;
    char *lines = n ? indented(text) : NULL;
    if (n && !lines)
        n->failed = true;
    if (!lines)
        return;
    ProtobufCBinaryData string = {strlen(lines), (uint8_t *)lines};
    tensor.dtype = TENSORBOARD__DATA_TYPE__DT_STRING;
    tensor.shape = &shape;
    tensor.n_string_val = 1;
    tensor.string_val = &string;
    append_plugin(n, name, "text", (ProtobufCBinaryData){0, NULL}, &tensor);
    mem_free(lines);
}

/* ---- the session of hyperparameters ---- */

/* The plugin reads its content; it also needs an empty tensor. */
static void append_hparams(struct events_note *n, const char *tag, Tensorboard__HparamsData *data)
{
    Tensorboard__Tensor tensor = TENSORBOARD__TENSOR__INIT;
    Tensorboard__Shape shape = TENSORBOARD__SHAPE__INIT;
    Tensorboard__Dimension none = TENSORBOARD__DIMENSION__INIT, *dims = &none;
    uint8_t *packed = mem_zalloc(tensorboard__hparams_data__get_packed_size(data) + 1, 1);
    n->failed |= packed == NULL;
    if (!packed)
        return;
    tensor.dtype = TENSORBOARD__DATA_TYPE__DT_FLOAT;
    tensor.shape = &shape;
    shape.n_dim = 1;
    shape.dim = &dims;
    append_plugin(n, tag, "hparams",
                  (ProtobufCBinaryData){tensorboard__hparams_data__pack(data, packed), packed},
                  &tensor);
    mem_free(packed);
}

enum { HPARAMS = 7 };

struct hparams {
    Tensorboard__Hparam value[HPARAMS];
    Tensorboard__HparamEntry entry[HPARAMS], *entries[HPARAMS];
    Tensorboard__HparamInfo info[HPARAMS], *infos[HPARAMS];
    size_t n;
};

static Tensorboard__Hparam *hparam(struct hparams *h, const char *key, Tensorboard__HparamType type)
{
    size_t i = h->n++;
    tensorboard__hparam__init(&h->value[i]);
    tensorboard__hparam_entry__init(&h->entry[i]);
    tensorboard__hparam_info__init(&h->info[i]);
    h->entry[i].key = h->info[i].name = (char *)key;
    h->entry[i].value = &h->value[i];
    h->info[i].type = type;
    h->entries[i] = &h->entry[i];
    h->infos[i] = &h->info[i];
    return &h->value[i];
}

static void hparam_number(struct hparams *h, const char *key, double value)
{
    Tensorboard__Hparam *v = hparam(h, key, TENSORBOARD__HPARAM_TYPE__TYPE_FLOAT64);
    v->kind_case = TENSORBOARD__HPARAM__KIND_NUMBER_VALUE;
    v->number_value = value;
}

static void hparam_text(struct hparams *h, const char *key, const char *value)
{
    Tensorboard__Hparam *v = hparam(h, key, TENSORBOARD__HPARAM_TYPE__TYPE_STRING);
    v->kind_case = TENSORBOARD__HPARAM__KIND_STRING_VALUE;
    v->string_value = (char *)value;
}

/* The shortest decimal that reads back to the same float: 0.001, not 0.0010000000474974513. */
static double shortest(float x)
{
    char text[DIGITS_REAL_BYTES];
    return strtod(digits_float((double)x, text), NULL);
}

static void hparams_of(struct hparams *h, const struct job *job)
{
    h->n = 0;
    hparam_text(h, "optimizer",
                job_word_of(job_key_find("optimizer")->words, (int)job->optimizer.kind));
    hparam_number(h, "learning_rate", shortest(job->optimizer.learning_rate));
    hparam_number(h, "batch_size", job->training.batch_size);
    hparam_number(h, "epochs", job->training.epochs);
    hparam_text(h, "update", job_update_word(job->training.update));
    hparam_number(h, "clip_norm", shortest(job->training.clip_norm));
    hparam_number(h, "seed", (double)job->training.seed);
}

enum { MEASURED_MAX = 2 * (1 + METRICS_MAX) };

struct measured {
    char tag[MEASURED_MAX][64];
    Tensorboard__MetricName name[MEASURED_MAX];
    Tensorboard__MetricInfo info[MEASURED_MAX], *infos[MEASURED_MAX];
    size_t n;
};

static void measure(struct measured *m, const char *name)
{
    static const char *const group[] = {"train", "eval"};
    for (int i = 0; i < 2; i++) {
        size_t at = m->n++;
        (void)snprintf(m->tag[at], sizeof m->tag[at], "epoch_%s", name);
        tensorboard__metric_name__init(&m->name[at]);
        tensorboard__metric_info__init(&m->info[at]);
        m->name[at].group = (char *)group[i];
        m->name[at].tag = m->tag[at];
        m->info[at].name = &m->name[at];
        m->infos[at] = &m->info[at];
    }
}

void events_session(struct events_note *n, const struct job *job)
{
    struct hparams h;
    struct measured m = {.n = 0};
    Tensorboard__Experiment experiment = TENSORBOARD__EXPERIMENT__INIT;
    Tensorboard__SessionStartInfo start = TENSORBOARD__SESSION_START_INFO__INIT;
    Tensorboard__HparamsData data = TENSORBOARD__HPARAMS_DATA__INIT;
    if (!n)
        return;
    hparams_of(&h, job);
    const struct results r = results_of(job, NULL);
    for (uint32_t i = 0; i < r.n; i++)
        measure(&m, r.of[i].name);
    experiment.n_hparam_infos = h.n;
    experiment.hparam_infos = h.infos;
    experiment.n_metric_infos = m.n;
    experiment.metric_infos = m.infos;
    data.data_case = TENSORBOARD__HPARAMS_DATA__DATA_EXPERIMENT;
    data.experiment = &experiment;
    append_hparams(n, EVENTS_SESSION_TAG "experiment", &data);
    start.n_hparams = h.n;
    start.hparams = h.entries;
    start.start_time_secs = n->wall_time;
    data.data_case = TENSORBOARD__HPARAMS_DATA__DATA_SESSION_START_INFO;
    data.session_start_info = &start;
    append_hparams(n, EVENTS_SESSION_TAG "session_start_info", &data);
}

void events_session_end(struct events_note *n, bool success)
{
    Tensorboard__SessionEndInfo end = TENSORBOARD__SESSION_END_INFO__INIT;
    Tensorboard__HparamsData data = TENSORBOARD__HPARAMS_DATA__INIT;
    if (!n)
        return;
    end.status =
        success ? TENSORBOARD__STATUS__STATUS_SUCCESS : TENSORBOARD__STATUS__STATUS_FAILURE;
    end.end_time_secs = n->wall_time;
    data.data_case = TENSORBOARD__HPARAMS_DATA__DATA_SESSION_END_INFO;
    data.session_end_info = &end;
    append_hparams(n, EVENTS_SESSION_TAG "session_end_info", &data);
}
