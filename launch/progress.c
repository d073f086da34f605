#include "launch/progress.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/json.h"
#include "common/base/printable.h"

static uint64_t progress_count(const json_t *object, const char *key)
{
    double value = json_number_at(object, key);
    return value > 0 && value < 0x1p63 ? (uint64_t)value : 0; /* false for NAN */
}

static void progress_text(char *out, size_t bytes, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    (void)printable_text(out, bytes, text ? text : "");
}

static bool progress_type_of(enum progress_type *type, const json_t *object)
{
    static const char *const names[] = {"progress", "epoch",     "first_step", "checkpoint", "log",
                                        "wait",     "untrained", "loading",    "alive"};
    const char *name = json_string_value(json_object_get(object, "type"));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *type = (enum progress_type)i;
            return true;
        }
    return false;
}

static void progress_metrics(struct progress_event *event, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && i < PROGRESS_METRICS_MAX; i++) {
        const json_t *one = json_array_get(list, i);
        struct progress_metric *m = &event->of_epoch[i];
        progress_text(m->name, sizeof m->name, one, "name");
        m->train = json_number_at(one, "train");
        m->eval = json_number_at(one, "eval");
        m->of_training = !json_object_get(one, "eval");
        event->n_of_epoch = i + 1;
    }
}

static void progress_best(struct progress_event_best *best, const json_t *object)
{
    best->epoch = progress_count(object, "epoch");
    progress_text(best->name, sizeof best->name, object, "name");
    best->value = json_number_at(object, "value");
    best->waited = progress_count(object, "waited");
    best->patience = progress_count(object, "patience");
}

static void progress_add_loading(struct progress_event *event, const json_t *object)
{
    struct progress_loading *l = &event->loading[event->n_loading];
    if (event->n_loading == PROGRESS_LOADING_MAX || !json_object_get(object, "bytes"))
        return;
    progress_text(l->name, sizeof l->name, object, "name");
    l->bytes = progress_count(object, "bytes");
    l->of_bytes = progress_count(object, "of_bytes");
    l->rows = progress_count(object, "rows");
    l->left_s = json_number_at(object, "left_s");
    event->n_loading++;
}

static void progress_all_loading(struct progress_event *event, const json_t *object)
{
    const json_t *workers = json_object_get(object, "workers");
    event->n_loading = 0;
    event->more_loading = progress_count(object, "more");
    progress_add_loading(event, object);
    for (size_t i = 0; i < json_array_size(workers); i++)
        progress_add_loading(event, json_array_get(workers, i));
}

static void progress_fill(struct progress_event *event, const json_t *object)
{
    event->epoch = progress_count(object, "epoch");
    event->epochs = progress_count(object, "epochs");
    event->step = progress_count(object, "step");
    event->steps = progress_count(object, "steps");
    event->cut = progress_count(object, "cut");
    event->left_s = json_number_at(object, "left_s");
    event->early = json_is_true(json_object_get(object, "early"));
    event->at_most = json_is_true(json_object_get(object, "at_most"));
    event->loss = json_number_at(object, "loss");
    event->metric = json_number_at(object, "metric");
    event->examples_per_s = json_number_at(object, "examples_per_s");
    event->train_loss = json_number_at(object, "train_loss");
    event->eval_loss = json_number_at(object, "eval_loss");
    event->seconds = json_number_at(object, "seconds");
    progress_text(event->metric_name, sizeof event->metric_name, object, "metric_name");
    progress_text(event->loss_shown, sizeof event->loss_shown, object, "loss_shown");
    progress_text(event->train_loss_shown, sizeof event->train_loss_shown, object,
                  "train_loss_shown");
    progress_text(event->eval_loss_shown, sizeof event->eval_loss_shown, object, "eval_loss_shown");
    progress_text(event->text, sizeof event->text, object, "text");
    event->n_of_epoch = 0;
    progress_metrics(event, json_object_get(object, "metrics"));
    progress_best(&event->best, json_object_get(object, "best"));
    progress_all_loading(event, object);
}

enum err progress_parse(struct progress_event *event, const char *line, size_t bytes)
{
    json_t *object = json_loadb(line, bytes, 0, NULL);
    enum progress_type type;
    if (!progress_type_of(&type, object)) {
        json_decref(object);
        return ERR_PROTO;
    }
    event->type = type;
    progress_fill(event, object);
    json_decref(object);
    return ERR_OK;
}

uint64_t progress_total_step(const struct progress_event *event)
{
    uint64_t before = event->epoch > 0 ? (event->epoch - 1) * event->steps : 0;
    return before + event->step;
}

/* A growing line; text that does not fit is cut off. */
struct line {
    char *text;
    size_t n, room;
};

static void line_add(struct line *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void line_add(struct line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(l->text + l->n, l->room - l->n, fmt, args);
    va_end(args);
    if (n > 0)
        l->n = l->n + (size_t)n < l->room ? l->n + (size_t)n : l->room - 1;
}

/* Add a loss. False: there is none. */
static bool line_add_loss(struct line *l, const char *before, double loss, const char *shown)
{
    if (*shown)
        line_add(l, "%sloss %s", before, shown);
    else if (!isnan(loss))
        line_add(l, "%sloss %s", before, digits_shown(loss, (char[DIGITS_SHOWN_BYTES]){""}));
    return *shown || !isnan(loss);
}

static void line_add_metric(struct line *l, const char *before, double metric, const char *name)
{
    if (!isnan(metric) && *name)
        line_add(l, "%s%s %s", before, name, digits_shown(metric, (char[DIGITS_SHOWN_BYTES]){""}));
    else if (*name) /* undefined: auc in training, or for rows of one class */
        line_add(l, "%s%s -", before, name);
}

static void line_add_eta(struct line *l, const char *most, const char *about, double left_s)
{
    if (!(left_s >= 0 && left_s < 1e9))
        return;
    unsigned long long seconds = (unsigned long long)(left_s + 0.5);
    line_add(l, "  ETA %s%s", most, about);
    if (seconds >= 3600)
        line_add(l, "%llu:%02llu:%02llu", seconds / 3600, seconds / 60 % 60, seconds % 60);
    else
        line_add(l, "%llu:%02llu", seconds / 60, seconds % 60);
}

static void line_add_time_left(struct line *l, const struct progress_event *event)
{
    line_add_eta(l, event->at_most ? "at most " : "", event->early ? "about " : "", event->left_s);
}

static void line_add_rate(struct line *l, const struct progress_event *event)
{
    if (event->examples_per_s > 0)
        line_add(l, "  %.0f examples/s", event->examples_per_s);
}

void progress_format_step(char *out, size_t bytes, const struct progress_event *event)
{
    struct line l = {.text = out, .room = bytes};
    line_add(&l, "epoch %llu/%llu  step %llu/%llu", (unsigned long long)event->epoch,
             (unsigned long long)event->epochs, (unsigned long long)event->step,
             (unsigned long long)event->steps);
    (void)line_add_loss(&l, "  ", event->loss, event->loss_shown);
    line_add_metric(&l, "  ", event->metric, event->metric_name);
    line_add_rate(&l, event);
    line_add_time_left(&l, event);
}

static void line_add_reader(struct line *l, const struct progress_loading *loading)
{
    if (*loading->name)
        line_add(l, "%s reads its data", loading->name);
    else
        line_add(l, "reading the data");
}

static void line_add_read(struct line *l, const struct progress_loading *loading)
{
    line_add(l, " %.0f", (double)loading->bytes / 1e6);
    if (loading->of_bytes)
        line_add(l, " of %.0f", (double)loading->of_bytes / 1e6);
    line_add(l, " MB, %llu rows", (unsigned long long)loading->rows);
    line_add_eta(l, "", "", loading->left_s);
}

/* ---- the bar ---- */

enum { BAR_LEAST = 8, BAR_LOADING = 16, BAR_MOST = 40, TAIL_BYTES = 256, OTHERS_COLUMNS = 16 };
enum { WITH_ETA = 1, WITH_LOSS, WITH_METRIC, WITH_RATE }; /* each level includes those before it */

static void line_add_tail(struct line *l, const struct progress_event *event, int with)
{
    line_add(l, " %llu/%llu", (unsigned long long)event->step, (unsigned long long)event->steps);
    if (with >= WITH_LOSS)
        (void)line_add_loss(l, "  ", event->loss, event->loss_shown);
    if (with >= WITH_METRIC)
        line_add_metric(l, "  ", event->metric, event->metric_name);
    if (with >= WITH_RATE)
        line_add_rate(l, event);
    if (with >= WITH_ETA)
        line_add_time_left(l, event);
}

/* Add "[====>   ]" with `inside` columns between the brackets. */
static void line_add_bar(struct line *l, uint64_t done, uint64_t of, size_t inside)
{
    double part = of ? (double)done / (double)of : 0;
    size_t full = (size_t)((part < 1 ? part : 1) * (double)inside);
    line_add(l, "[");
    for (size_t i = 0; i < inside; i++)
        line_add(l, "%s", i < full ? "=" : i == full ? ">" : " ");
    line_add(l, "]");
}

void progress_format_bar(char *out, size_t bytes, const struct progress_event *event, size_t width)
{
    char text[TAIL_BYTES];
    struct line tail = {.text = text, .room = sizeof text};
    struct line l = {.text = out, .room = bytes < width + 1 ? bytes : width + 1};
    line_add(&l, "epoch %llu/%llu ", (unsigned long long)event->epoch,
             (unsigned long long)event->epochs);
    for (int with = WITH_RATE; with >= 0; with--) {
        tail.n = 0;
        line_add_tail(&tail, event, with);
        if (l.n + tail.n + BAR_LEAST + 2 <= width)
            break;
    }
    if (l.n + tail.n + BAR_LEAST + 2 <= width) {
        size_t inside = width - l.n - tail.n - 2;
        line_add_bar(&l, event->step, event->steps, inside < BAR_MOST ? inside : BAR_MOST);
    }
    line_add(&l, "%s", text);
}

/* These n and `left` workers in all, as far as they fit into `room` columns. */
static void line_add_others(struct line *l, const struct progress_loading *of, size_t n,
                            uint64_t left, size_t room)
{
    for (size_t i = 0; i < n; i++, left--) {
        char text[TAIL_BYTES];
        struct line one = {.text = text, .room = sizeof text};
        line_add(&one, "; %s", of[i].name);
        if (of[i].of_bytes)
            line_add(&one, " %.0f %%", 100 * (double)of[i].bytes / (double)of[i].of_bytes);
        line_add_eta(&one, "", "", of[i].left_s);
        if (l->n + one.n + (left > 1 ? OTHERS_COLUMNS : 0) > room)
            break;
        line_add(l, "%s", text);
    }
    if (left && l->n + OTHERS_COLUMNS <= room)
        line_add(l, "; and %llu more", (unsigned long long)left);
}

void progress_format_loading(char *out, size_t bytes, const struct progress_loading *of, size_t n,
                             uint64_t more, size_t width)
{
    char text[TAIL_BYTES];
    struct line tail = {.text = text, .room = sizeof text};
    struct line l = {.text = out, .room = !width || bytes < width + 1 ? bytes : width + 1};
    line_add_reader(&l, of);
    line_add_read(&tail, of);
    bool bar = of->of_bytes && l.n + 1 + BAR_LOADING + 2 + tail.n <= width;
    if (bar) {
        line_add(&l, " ");
        line_add_bar(&l, of->bytes, of->of_bytes, BAR_LOADING);
    }
    line_add(&l, "%s%s", bar ? "" : ":", text);
    line_add_others(&l, of + 1, n - 1, n - 1 + more, l.room - 1);
}

static void line_add_trained(struct line *l, const struct progress_event *event)
{
    if (!line_add_loss(l, ": ", event->train_loss, event->train_loss_shown))
        return;
    for (const struct progress_metric *m = event->of_epoch; m < event->of_epoch + event->n_of_epoch;
         m++)
        if (!isnan(m->train))
            line_add_metric(l, ", ", m->train, m->name);
}

static void line_add_evaluated(struct line *l, const struct progress_event *event)
{
    if (!line_add_loss(l, "; eval ", event->eval_loss, event->eval_loss_shown))
        return;
    for (const struct progress_metric *m = event->of_epoch; m < event->of_epoch + event->n_of_epoch;
         m++)
        if (!m->of_training)
            line_add_metric(l, ", ", m->eval, m->name);
}

static void line_add_best(struct line *l, const struct progress_event *event)
{
    const struct progress_event_best *best = &event->best;
    if (best->epoch == event->epoch)
        line_add(l, "; best so far");
    else
        line_add(l, "; best: epoch %llu (eval %s %s)", (unsigned long long)best->epoch, best->name,
                 digits_shown(best->value, (char[DIGITS_SHOWN_BYTES]){""}));
    if (best->patience && best->waited)
        line_add(l, ", %llu of %llu epochs without a better one", (unsigned long long)best->waited,
                 (unsigned long long)best->patience);
}

void progress_format_epoch(char *out, size_t bytes, const struct progress_event *event)
{
    struct line l = {.text = out, .room = bytes};
    line_add(&l, "epoch %llu/%llu done", (unsigned long long)event->epoch,
             (unsigned long long)event->epochs);
    if (!isnan(event->seconds))
        line_add(&l, " in %.1f s", event->seconds);
    line_add_trained(&l, event);
    line_add_evaluated(&l, event);
    if (event->best.epoch)
        line_add_best(&l, event);
}

static void progress_lines_end(struct progress_lines *l,
                               void (*on_line)(void *arg, const char *line, size_t bytes),
                               void *arg)
{
    if (!l->skipping && l->n > 0)
        on_line(arg, l->bytes, l->n);
    l->n = 0;
    l->skipping = false;
}

void progress_lines_feed(struct progress_lines *l, const char *bytes, size_t n,
                         void (*on_line)(void *arg, const char *line, size_t bytes), void *arg)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            progress_lines_end(l, on_line, arg);
        else if (l->n == sizeof l->bytes)
            l->skipping = true;
        else
            l->bytes[l->n++] = bytes[i];
    }
}
