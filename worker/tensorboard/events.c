/* Makes TensorBoard's events from values, and writes them to event files on the disk's thread. */
#include "worker/tensorboard/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "common/base/digits.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "job/keys.h"
#include "common/math/optimizer.h"
#include "common/net/disk_thread.h"

/* ---- a file of events ---- */

enum { HEAD_BYTES = 12, TAIL_BYTES = 4, HOST_BYTES = 256, NAMES_MAX = 60, LOOK_BYTES = 4096 };

static const char PREFIX[] = "events.out.tfevents.";

uint32_t events_file_masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_le(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* Write all bytes, or on error none. */
static enum err write_all(struct events_file *f, const uint8_t *data, size_t bytes,
                          struct errmsg *e)
{
    size_t done = files_put(f->fd, data, bytes);
    if (done == bytes) {
        f->bytes += bytes;
        return ERR_OK;
    }
    enum err err = err_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
    if (done > 0 &&
        (ftruncate(f->fd, (off_t)f->bytes) != 0 || lseek(f->fd, (off_t)f->bytes, SEEK_SET) < 0))
        events_file_close(f); /* records after a torn one could not be read */
    return err;
}

enum err events_file_append(struct events_file *f, const Tensorboard__Event *event,
                            struct errmsg *e)
{
    size_t bytes = tensorboard__event__get_packed_size(event);
    uint8_t *record = mem_zalloc(HEAD_BYTES + bytes + TAIL_BYTES, 1);
    if (!record)
        return err_memory_of(e, f->path);
    put_le(record, bytes, 8);
    put_le(record + 8, events_file_masked_crc(record, 8), 4);
    tensorboard__event__pack(event, record + HEAD_BYTES);
    put_le(record + HEAD_BYTES + bytes, events_file_masked_crc(record + HEAD_BYTES, bytes), 4);
    enum err err = write_all(f, record, HEAD_BYTES + bytes + TAIL_BYTES, e);
    mem_free(record);
    return err;
}

/* A process that restarts within a second, with the same pid, uses the next second's name. */
static enum err create(struct events_file *f, const char *folder, const char *host, int64_t seconds,
                       struct errmsg *e)
{
    for (int64_t later = 0; f->fd < 0; later++) {
        int n = snprintf(f->path, sizeof f->path, "%s/%s%010" PRId64 ".%s.%ld", folder, PREFIX,
                         seconds + later, host, (long)getpid());
        if (n < 0 || (size_t)n >= sizeof f->path)
            return err_set(e, ERR_IO, "%.100s...: the path is too long", folder);
        f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && (errno != EEXIST || later == NAMES_MAX))
            return files_write_error(f->path, e);
    }
    return ERR_OK;
}

enum err events_file_open(struct events_file *f, const char *folder, double wall_time,
                          struct errmsg *e)
{
    char host[HOST_BYTES] = "";
    *f = (struct events_file){.fd = -1};
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        (void)snprintf(host, sizeof host, "localhost");
    enum err err = files_mkdirs(folder, e);
    if (err)
        return err;
    err = create(f, folder, host, (int64_t)wall_time, e);
    if (err)
        return err;
    Tensorboard__Event first = TENSORBOARD__EVENT__INIT;
    first.wall_time = wall_time;
    first.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    first.file_version = (char *)"brain.Event:2";
    err = events_file_append(f, &first, e);
    if (err)
        events_file_close(f);
    return err;
}

void events_file_close(struct events_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    f->fd = -1;
}

static bool has_tag(const char *path, const char *tag)
{
    char begin[LOOK_BYTES];
    struct errmsg e;
    int fd;
    if (files_open(path, &fd, &e))
        return false;
    ssize_t bytes = files_get(fd, begin, sizeof begin);
    (void)close(fd);
    return bytes > 0 && memmem(begin, (size_t)bytes, tag, strlen(tag));
}

/* Remove the other event files of its directory that have this tag near their beginning: f repeats their contents,
 * and TensorBoard would show the first. Files that cannot be removed stay. */
static void events_file_replace(const struct events_file *f, const char *tag)
{
    const char *own = strrchr(f->path, '/') + 1;
    char path[FILES_PATH_MAX];
    int folder = (int)(own - f->path);
    (void)snprintf(path, sizeof path, "%.*s", folder, f->path);
    DIR *d = opendir(path);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
        int n = snprintf(path, sizeof path, "%.*s%s", folder, f->path, entry->d_name);
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            strcmp(entry->d_name, own) != 0 && n > 0 && (size_t)n < sizeof path &&
            has_tag(path, tag))
            (void)unlink(path);
    }
    if (d)
        (void)closedir(d);
}

/* ---- a note: an Event that is being made ---- */

struct events_note {
    struct events *of; /* set when it is posted */
    enum events_run run;
    uint64_t step;
    double wall_time;
    bool restart, failed; /* failed: there was no memory for a value; the note is not posted */
    uint8_t *summary;     /* a packed Summary */
    size_t bytes;
};

/* Prefix of the session's tags. */
#define EVENTS_SESSION_TAG "_hparams_/"

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

static void events_note_free(void *note)
{
    struct events_note *n = note;
    mem_free(n->summary);
    mem_free(n);
}

static enum err events_note_write(const struct events_note *n, struct events_file *to,
                                  struct errmsg *e)
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

struct events {
    char logs[FILES_PATH_MAX];
    struct disk_thread *disk;
    /* used by the disk's thread */
    struct events_file file[EVENTS_RUNS];
    bool complained;
};

/* ---- the disk's thread ---- */

static void write_note(void *note)
{
    const struct events_note *n = note;
    struct events *ev = n->of;
    struct errmsg e = {""};
    struct events_file *file = &ev->file[n->run];
    bool begins = file->fd < 0;
    static const char *const folders[] = {"/train", "/eval", ""};
    char folder[FILES_PATH_MAX + 8];
    (void)snprintf(folder, sizeof folder, "%s%s", ev->logs, folders[n->run]);
    enum err err = begins ? events_file_open(file, folder, n->wall_time, &e) : ERR_OK;
    if (!err)
        err = events_note_write(n, file, &e);
    if (!err && begins && n->run == EVENTS_SESSION)
        events_file_replace(file, EVENTS_SESSION_TAG);
    if (err && !ev->complained)
        log_warn("TensorBoard's files are incomplete (logged once): %s", e.text);
    ev->complained |= err != ERR_OK;
    events_note_free(note);
}

/* ---- life ---- */

struct events *events_new(const char *logs, struct disk_thread *disk)
{
    struct events *ev = mem_zalloc(1, sizeof *ev);
    if (!ev) {
        log_warn("no memory for the thread that writes TensorBoard's files: none are written");
        return NULL;
    }
    ev->disk = disk;
    (void)snprintf(ev->logs, sizeof ev->logs, "%s", logs);
    for (int i = 0; i < EVENTS_RUNS; i++)
        ev->file[i].fd = -1;
    return ev;
}

void events_free(struct events *ev)
{
    if (!ev)
        return;
    disk_thread_settle(ev->disk);
    for (int i = 0; i < EVENTS_RUNS; i++)
        events_file_close(&ev->file[i]);
    mem_free(ev);
}

void events_post(struct events *ev, struct events_note *take)
{
    if (!take)
        return;
    take->of = ev;
    if (!ev || take->failed) {
        events_note_free(take);
    } else if (disk_thread_post(ev->disk, write_note, take)) {
        log_debug("an event for TensorBoard is dropped: too many wait for the disk");
        events_note_free(take);
    }
}

void events_restart(struct events *ev, enum events_run which, uint64_t step)
{
    struct events_note *n = ev ? events_note(which, step) : NULL;
    if (n)
        n->restart = true;
    events_post(ev, n);
}

/* ---- histograms ---- */

struct counting {
    struct events_histogram *out;
    const struct layout *l;
    const struct events_values *v;
    atomic_uint next;
};

static double value_at(const struct events_values *v, uint64_t i)
{
    double sum = 0;
    for (uint32_t b = 0; b < v->blocks; b++)
        sum += (double)v->block[b][i];
    return v->scale * sum;
}

/* The histogram of elements [from, to). */
static void histogram(struct events_histogram *h, const struct events_values *v, uint64_t from,
                      uint64_t to)
{
    *h = (struct events_histogram){.min = INFINITY, .max = -INFINITY};
    for (uint64_t i = from; i < to; i++) {
        double x = value_at(v, i);
        if (!isfinite(x))
            continue;
        h->min = x < h->min ? x : h->min;
        h->max = x > h->max ? x : h->max;
        h->num += 1;
        h->sum += x;
        h->sum_squares += x * x;
    }
    double scale = h->max > h->min ? EVENTS_BUCKETS / (h->max - h->min) : 0;
    for (uint64_t i = from; i < to; i++) {
        double x = value_at(v, i);
        if (!isfinite(x))
            continue;
        int at = (int)((x - h->min) * scale);
        h->bucket[at < EVENTS_BUCKETS ? at : EVENTS_BUCKETS - 1] += 1;
    }
}

static void count_tensors(void *ctx, uint32_t thread)
{
    struct counting *c = ctx;
    uint32_t i;
    (void)thread;
    while ((i = atomic_fetch_add(&c->next, 1)) < c->l->tensors) {
        const struct tensor *t = &c->l->tensor[i];
        histogram(&c->out[i], c->v, t->offset_elems, t->offset_elems + t->elems);
    }
}

void events_histograms(struct events_histogram *out, const struct layout *l,
                       const struct events_values *v, struct pool *pool)
{
    struct counting c = {.out = out, .l = l, .v = v};
    atomic_init(&c.next, 0);
    pool_run(pool, count_tensors, &c);
}

static const double every_s = 1; /* interval of points within an epoch, in seconds */

static void forget(struct curves *c, uint64_t step, double now_s)
{
    c->seen = c->epoch_step = step;
    c->window = (struct sums){0};
    c->examples = 0;
    c->epoch_s = c->window_s = now_s;
    c->paused_s = 0;
}

/* Write all points from `step` on again. The first step of a run shows where it resumes: a chief that takes over
 * continues at the shards' step, not at its last cut. */
static void begin(struct curves *c, uint64_t step, double now_s)
{
    forget(c, step - 1, now_s);
    events_restart(c->events, EVENTS_TRAIN, step);
    if (c->begun)
        return;
    c->begun = true;
    struct events_note *n = events_note(EVENTS_TRAIN, step);
    events_text(n, "job", c->job->canonical);
    events_post(c->events, n);
}

/* ---- life ---- */

void curves_init(struct curves *c, const struct job *job, const struct layout *layout,
                 uint64_t batches_per_epoch, uint64_t rows, const char *logs,
                 struct disk_thread *disk)
{
    *c = (struct curves){.job = job,
                         .layout = layout,
                         .batches_per_epoch = batches_per_epoch,
                         .rows = rows,
                         .events = job->logs.tensorboard ? events_new(logs, disk) : NULL};
    struct events_note *session = c->events ? events_note(EVENTS_SESSION, 0) : NULL;
    events_session(session, job);
    events_post(c->events, session);
}

void curves_close(struct curves *c, bool success)
{
    struct events_note *end = c->events ? events_note(EVENTS_SESSION, 0) : NULL;
    events_session_end(end, success);
    events_post(c->events, end);
    events_free(c->events);
    c->events = NULL;
}

/* ---- training ---- */

static void put_results(struct events_note *n, const struct job *job, const char *prefix,
                        const char *suffix, const struct evaluation *found)
{
    const struct results r = results_of(job, found);
    for (uint32_t i = 0; i < r.n; i++)
        events_scalar(n, prefix, r.of[i].name, suffix, r.of[i].value);
}

static void put_means(struct events_note *n, const struct job *job, const char *prefix,
                      const struct sums *sums)
{
    const struct evaluation means =
        evaluation_of_sums(job, sums->examples, sums->loss, sums->metric);
    if (sums->examples > 0)
        put_results(n, job, prefix, "", &means);
}

void curves_step(struct curves *c, uint64_t step, const struct sums *sums, double examples_per_s,
                 double now_s)
{
    if (!c->events)
        return;
    bool rolled_back = step <= c->seen && c->job->training.update == UPDATE_SYNC;
    if (!c->begun || rolled_back)
        begin(c, step, now_s);
    c->seen = step > c->seen ? step : c->seen;
    c->examples += sums->examples;
    sums_add(&c->window, sums);
    if (now_s - c->window_s < every_s)
        return;
    struct events_note *n = events_note(EVENTS_TRAIN, c->seen);
    put_means(n, c->job, "batch_", &c->window);
    if (isfinite(examples_per_s))
        events_scalar(n, "batch_", "examples_per_second", "", examples_per_s);
    events_post(c->events, n);
    c->window = (struct sums){0};
    c->window_s = now_s;
}

void curves_paused(struct curves *c, double seconds)
{
    c->paused_s += seconds;
    c->window_s += seconds;
}

static void put_histograms(const struct curves *c, struct events_note *n, const float *w,
                           const struct events_values *gradient, struct pool *pool)
{
    const struct layout *l = c->layout;
    const struct events_values weights = {&w, 1, 1};
    struct events_histogram *h = c->job->logs.histograms ? mem_zalloc(l->tensors, sizeof *h) : NULL;
    if (!h)
        return;
    events_histograms(h, l, &weights, pool);
    for (uint32_t i = 0; i < l->tensors; i++)
        events_histogram(n, l->tensor[i].name, "", &h[i]);
    if (gradient->blocks)
        events_histograms(h, l, gradient, pool);
    for (uint32_t i = 0; gradient->blocks && i < l->tensors; i++)
        if (l->tensor[i].role == TENSOR_WEIGHT) /* a push for a statistic is not a gradient */
            events_histogram(n, l->tensor[i].name, "_grad", &h[i]);
    mem_free(h);
}

/* Examples of all workers: in async the chief has only seen its own batches. */
static double examples_of_epoch(const struct curves *c, uint64_t step)
{
    if (c->job->training.update == UPDATE_SYNC)
        return c->examples;
    return (double)(step - c->epoch_step) / (double)c->batches_per_epoch * (double)c->rows;
}

void curves_epoch(struct curves *c, uint64_t step, const struct sums *trained, const float *w,
                  const struct events_values *gradient, struct pool *pool, double now_s)
{
    if (!c->events || step <= c->epoch_step || !(c->examples > 0))
        return; /* the epoch was made before this run began */
    const struct optimizer *o = &c->job->optimizer;
    uint64_t updates = optimizer_updates(o, step);
    double seconds = now_s - c->epoch_s - c->paused_s;
    struct events_note *n = events_note(EVENTS_TRAIN, step);
    put_means(n, c->job, "epoch_", trained);
    events_scalar(n, "epoch_", "learning_rate", "", optimizer_rate(o, updates ? updates : 1));
    if (seconds > 0)
        events_scalar(n, "epoch_", "examples_per_second", "", examples_of_epoch(c, step) / seconds);
    if (n)
        put_histograms(c, n, w, gradient, pool);
    events_post(c->events, n);
    uint64_t seen = c->seen > step ? c->seen : step;
    forget(c, step, now_s);
    c->seen = seen;
}

/* ---- evaluation ---- */

void curves_put_evaluation(struct events *ev, const struct job *job, uint64_t step, bool ends_epoch,
                           const struct evaluation *eval)
{
    static const char *const before[] = {"evaluation_", "epoch_"};
    static const char *const after[] = {"_vs_iterations", ""};
    struct events_note *n = ev ? events_note(EVENTS_EVAL, step) : NULL;
    for (int which = 0; which < 1 + ends_epoch; which++)
        put_results(n, job, before[which], after[which], eval);
    events_post(ev, n);
}

void curves_evaluated(struct curves *c, uint64_t step, bool ends_epoch,
                      const struct evaluation *eval)
{
    if (!c->events)
        return;
    /* For the first evaluation of this run, and for a step that was evaluated before: drop its points, and all later
     * ones. */
    if (step <= c->evaluated || c->evaluated == 0)
        events_restart(c->events, EVENTS_EVAL, step);
    c->evaluated = step;
    curves_put_evaluation(c->events, c->job, step, ends_epoch, eval);
}
