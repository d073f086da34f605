/* The chief's messages to the launcher: its progress, the time left, and a sign of life each second. */
#include "worker/control/progress.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/digits.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/wire/msg.h"

/* ---- the time left ---- */

/* A window has a twentieth of the time so far, within these bounds, and at least so many steps. The first one counts from
 * first_s on. */
static const double part = 0.05, first_s = 0.2, shortest_s = 1, longest_s = 60, least_steps = 10;
static const double differs = 1.5; /* times the mean */

static uint64_t position_of(const struct eta_place *at)
{
    return (at->epoch - 1) * at->steps + at->step;
}

static double per_step(const struct eta_span *s)
{
    return s->seconds / s->steps;
}

static void span_add(struct eta_span *to, struct eta_span s)
{
    to->steps += s.steps;
    to->seconds += s.seconds;
}

/* Add what was measured until trained_s. */
static void mean_add(struct eta_span *to, struct eta_span s, double trained_s)
{
    double weight = trained_s * trained_s;
    span_add(to, (struct eta_span){weight * s.steps, weight * s.seconds});
}

static void look_for_turn(struct eta *t, double ratio)
{
    bool slower = ratio > differs;
    if (!slower && ratio >= 1 / differs) {
        t->turns = 0;
        return;
    }
    if (t->turns && slower != t->slower)
        t->turns = 0;
    t->slower = slower;
    t->turned[t->turns++] = t->window;
}

/* The open window as it counts. */
static struct eta_span clipped(const struct eta *t)
{
    struct eta_span s = t->window;
    if (t->mean.steps > 0)
        s.seconds = fmin(s.seconds, ETA_CLIP * per_step(&t->mean) * s.steps);
    return s;
}

static void close_window(struct eta *t)
{
    struct eta_span counts = clipped(t);
    if (t->mean.steps > 0)
        look_for_turn(t, per_step(&t->window) / per_step(&t->mean));
    t->trained_s += counts.seconds;
    mean_add(&t->mean, counts, t->trained_s);
    if (t->turns == ETA_TURN) {
        /* The last windows all differ from the mean in the same direction: begin again with them. */
        t->mean = (struct eta_span){0, 0};
        for (uint32_t i = 0; i < t->turns; i++)
            mean_add(&t->mean, t->turned[i], t->trained_s);
        t->turns = 0;
    }
    t->window = (struct eta_span){0, 0};
}

/* The wait at the end of an epoch. One that is much longer than those before had another reason; but with a second one in
 * a row, the mean begins again. */
static void note_pause(struct eta *t, double seconds)
{
    bool first = t->pauses++ == 0, longer = !first && seconds > ETA_CLIP * t->pause_s;
    if (first)
        t->pause_s = seconds;
    else if (longer && t->long_s > 0)
        t->pause_s = (t->long_s + seconds) / 2;
    else
        t->pause_s = (t->pause_s + fmin(seconds, ETA_CLIP * t->pause_s)) / 2;
    t->long_s = longer ? seconds : 0;
}

void eta_step(struct eta *t, const struct eta_place *at, double now_s)
{
    uint64_t position = position_of(at);
    bool later = t->began && position > t->position;
    if (t->began && !later && !t->all_wait)
        return; /* batches end in another order than they were dealt; or a rollback */
    if (later && t->all_wait && at->epoch > t->epoch)
        note_pause(t, now_s - t->now_s);
    else if (later)
        span_add(&t->window, (struct eta_span){(double)(position - t->position), now_s - t->now_s});
    if (!t->began || position <= t->first)
        t->first = position - 1;
    t->began = true;
    t->position = position;
    t->epoch = at->epoch;
    t->now_s = now_s;
    if (t->window.steps >= least_steps &&
        t->window.seconds >= fmin(fmax(part * t->trained_s, shortest_s), longest_s))
        close_window(t);
}

double eta_left_s(const struct eta *t, const struct eta_place *at)
{
    uint64_t total = at->epochs * at->steps, position = position_of(at);
    struct eta_span mean = t->mean, open = clipped(t);
    if (t->trained_s + open.seconds >= first_s)
        mean_add(&mean, open, t->trained_s + open.seconds);
    double steps = total > position ? (double)(total - position) : 0;
    double ends = at->epochs >= at->epoch ? (double)(at->epochs - at->epoch + 1) : 0;
    double step_s = mean.steps > 0 ? per_step(&mean) : (double)NAN;
    if (isnan(step_s) && at->steps == 1 && t->pauses)
        return steps * t->pause_s; /* each step is an epoch */
    return steps * step_s + (t->pauses ? ends * fmax(t->pause_s - step_s, 0) : 0);
}

bool eta_is_early(const struct eta *t, const struct eta_place *at)
{
    double total = (double)(at->epochs * at->steps), first = (double)t->first;
    /* in async, a batch before the first one can end after it */
    return (double)position_of(at) - first < part * (total - first);
}

enum { PROGRESS_LINE_BYTES = 2048 }; /* < PIPE_BUF */

static const double every_s = 0.5;

void progress_init(struct progress *p, const struct job *job, int fd, double now_s)
{
    *p = (struct progress){.fd = fd,
                           .job = job,
                           .started_s = now_s,
                           .said_s = now_s,
                           .epoch_s = now_s,
                           .changed_s = now_s,
                           .window_s = now_s,
                           .examples_per_s = NAN,
                           .eta = {.all_wait = job->training.update == UPDATE_SYNC}};
}

/* Each line is written as a whole, because it is shorter than PIPE_BUF. If the launcher is gone, later lines fail
 * too. */
static void PRINTF_LIKE(2, 3) write_line(int fd, const char *fmt, ...)
{
    char line[PROGRESS_LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (fd < 0 || n <= 0 || (size_t)n >= sizeof line)
        return;
    ssize_t written = write(fd, line, (size_t)n);
    (void)written;
}

/* Tells the launcher every second that this process runs, until it ends. A thread of its own does this: a chief that is busy
 * (it reads data, writes a model) gives signs, and one that is stopped, or whose host hangs, gives none. */

enum { ALIVE_EVERY_MS = 1000 };

static int alive_fd = -1;

static void *tell(void *arg)
{
    (void)arg;
    for (;;) {
        write_line(alive_fd, "{\"type\":\"alive\"}\n");
        clock_sleep_ms(ALIVE_EVERY_MS);
    }
    return NULL;
}

void alive_begin(int fd)
{
    pthread_t thread;
    sigset_t all, before;
    if (fd < 0 || alive_fd >= 0)
        return;
    alive_fd = fd;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, tell, NULL) == 0)
        (void)pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A JSON number, or null for values that JSON does not have. */
static const char *number(double x, char out[32])
{
    if (isfinite(x))
        (void)snprintf(out, 32, "%.9g", x);
    else
        (void)snprintf(out, 32, "null");
    return out;
}

/* A loss as text, with the values that JSON does not have. */
static const char *shown(double x, char out[32])
{
    (void)snprintf(out, 32, "%.9g", digits_printed(x));
    return out;
}

/* An additional key for a loss that exists but is not finite: the loss's own key is null then, as if there were
 * none. */
static const char *not_finite(char out[64], const char *key, bool there, double x)
{
    char loss[32];
    out[0] = '\0';
    if (there && !isfinite(x))
        (void)snprintf(out, 64, "\"%s_shown\":\"%s\",", key, shown(x, loss));
    return out;
}

static struct evaluation means_of(const struct progress *p, const struct sums *trained)
{
    return evaluation_of_sums(p->job, trained->examples, trained->loss, trained->metric);
}

static void tell_step(const struct progress *p, const struct eta_place *at,
                      const struct evaluation *trained)
{
    struct history_point point = {.step = (at->epoch - 1) * at->steps + at->step};
    /* The mean of an epoch's first batches fluctuates, so curves begin after a twentieth of the epoch. The first epoch
     * has no earlier curve, and begins immediately. */
    bool few = at->epoch > 1 && at->step < at->steps / 20;
    point.value[0] = few ? (double)NAN : trained->loss;
    point.value[HISTORY_RATE] = p->examples_per_s;
    point.value[HISTORY_LEFT] = eta_left_s(&p->eta, at);
    point.value[HISTORY_EARLY] = eta_is_early(&p->eta, at);
    for (uint32_t i = 0; i < p->job->model.metrics; i++)
        point.value[HISTORY_STEP_METRICS + i] = few ? (double)NAN : trained->metric[i];
    if (p->on_point)
        p->on_point(p->ctx, &point, false);
}

/* In geo the others' examples become known at the end of a push round: the time from then until now does not count. */
static void measure_rate(struct progress *p)
{
    if (!(p->examples > p->window_examples && p->changed_s > p->window_s))
        return;
    p->examples_per_s = (p->examples - p->window_examples) / (p->changed_s - p->window_s);
    p->window_examples = p->examples;
    p->window_s = p->changed_s;
}

/* Or nothing. */
static const char *left_json(char out[100], const struct progress *p, const struct eta_place *at)
{
    char seconds[32];
    double left_s = eta_left_s(&p->eta, at);
    out[0] = '\0';
    if (!isnan(left_s))
        (void)snprintf(out, 100, ",\"left_s\":%s,\"early\":%s,\"at_most\":%s",
                       number(left_s, seconds), eta_is_early(&p->eta, at) ? "true" : "false",
                       p->job->early_stopping.patience ? "true" : "false");
    return out;
}

void progress_step(struct progress *p, double examples, const struct sums *trained, uint64_t epoch,
                   uint64_t step, uint64_t steps, double now_s)
{
    const struct eta_place at = {epoch, p->job->training.epochs, step, steps};
    eta_step(&p->eta, &at, now_s);
    if (examples > p->examples) {
        p->examples = examples;
        p->changed_s = now_s;
    }
    if (!p->first_told) {
        write_line(p->fd, "{\"type\":\"first_step\"}\n");
        p->first_told = true;
        p->window_s = now_s; /* the time before it is no training */
        p->window_examples = p->examples;
    }
    if (now_s - p->said_s < every_s)
        return;
    char loss[32], metric[32], rate[32], odd[64], left[100];
    const struct job *job = p->job;
    const struct evaluation means = means_of(p, trained);
    const struct results r = results_of(job, &means);
    const struct result first = r.n > 1 ? r.of[1] : (struct result){"", NAN};
    measure_rate(p);
    tell_step(p, &at, &means);
    write_line(p->fd,
               "{\"type\":\"progress\",\"epoch\":%" PRIu64 ",\"epochs\":%u,\"step\":%" PRIu64
               ",\"steps\":%" PRIu64 ",\"total_steps\":%" PRIu64
               ",\"loss\":%s,%s\"metric_name\":\"%s\",\"metric\":%s,\"examples_per_s\":%s%s}\n",
               epoch, job->training.epochs, step, steps, steps * job->training.epochs,
               number(means.loss, loss), not_finite(odd, "loss", trained->examples > 0, means.loss),
               first.name, number(first.value, metric), number(p->examples_per_s, rate),
               left_json(left, p, &at));
    p->said_s = now_s;
}

void progress_words(char out[PROGRESS_WORDS_BYTES], const struct job *job,
                    const struct evaluation *found)
{
    char text[32];
    const struct results r = results_of(job, found);
    size_t n = 0;
    for (uint32_t i = 0; i < r.n && n < PROGRESS_WORDS_BYTES; i++)
        n += (size_t)snprintf(out + n, PROGRESS_WORDS_BYTES - n, " %s %s", r.of[i].name,
                              i == 0 || isfinite(r.of[i].value) ? shown(r.of[i].value, text) : "-");
    if (found->auc_error > 0 && n < PROGRESS_WORDS_BYTES)
        (void)snprintf(out + n, PROGRESS_WORDS_BYTES - n, " auc_error %s",
                       shown(found->auc_error, text));
}

const char *progress_planted(const struct planted *planted, char out[64])
{
    out[0] = '\0';
    if (planted->known)
        (void)snprintf(out, 64, " (planted: auc %.4f logloss %.4f)", digits_printed(planted->auc),
                       digits_printed(planted->logloss));
    return out;
}

/* {"name":...,"train":...,"eval":...},... of all metrics. */
static void metrics_json(char *out, size_t room, const struct results *trained,
                         const struct results *eval, double auc_error)
{
    char a[32], b[32];
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 1; i < trained->n && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s{\"name\":\"%s\",\"train\":%s,\"eval\":%s}",
                              i > 1 ? "," : "", trained->of[i].name,
                              number(trained->of[i].value, a), number(eval->of[i].value, b));
    if (auc_error > 0 && n < room)
        (void)snprintf(out + n, room - n, ",{\"name\":\"auc_error\",\"train\":%s}",
                       number(auc_error, a));
}

/* ,"best":{...} */
static void best_json(char *out, size_t room, const struct progress_best *best)
{
    char value[32];
    out[0] = '\0';
    if (best && best->epoch)
        (void)snprintf(out, room,
                       ",\"best\":{\"epoch\":%" PRIu64 ",\"name\":\"%s\",\"value\":%s,"
                       "\"waited\":%" PRIu64 ",\"patience\":%" PRIu64 "}",
                       best->epoch, best->name, number(best->value, value), best->waited,
                       best->patience);
}

void progress_epoch(struct progress *p, uint64_t epoch, const struct sums *trained,
                    const struct evaluation *eval, const struct progress_best *best, double now_s)
{
    char a[32], c[32], learned[PROGRESS_WORDS_BYTES] = "", evaluated[PROGRESS_WORDS_BYTES] = "",
                       planted[64];
    char odd[64], odd_eval[64], metrics[1200], best_text[160];
    const struct job *job = p->job;
    const struct evaluation means = means_of(p, trained);
    const struct results of_train = results_of(job, &means), of_eval = results_of(job, eval);
    metrics_json(metrics, sizeof metrics, &of_train, &of_eval, means.auc_error);
    best_json(best_text, sizeof best_text, best);
    write_line(p->fd,
               "{\"type\":\"epoch\",\"epoch\":%" PRIu64 ",\"epochs\":%u,\"train_loss\":%s,%s"
               "\"eval_loss\":%s,%s\"metrics\":[%s],\"seconds\":%.3f%s}\n",
               epoch, job->training.epochs, number(means.loss, a),
               not_finite(odd, "train_loss", trained->examples > 0, means.loss),
               number(eval ? eval->loss : NAN, c),
               not_finite(odd_eval, "eval_loss", eval != NULL, eval ? eval->loss : 0), metrics,
               now_s - p->epoch_s, best_text);
    struct history_point point = history_epoch(epoch, job->model.metrics, &means, eval);
    if (p->on_point)
        p->on_point(p->ctx, &point, true);
    if (trained->examples > 0)
        progress_words(learned, job, &means);
    if (eval)
        progress_words(evaluated, job, eval);
    log_info("epoch %" PRIu64 "/%u:%s%s%s%s%s%s", epoch, job->training.epochs, learned,
             *learned && *evaluated ? "," : "", *evaluated ? " eval" : "",
             *evaluated && job->optimizer.use_ema ? " of the averages:" : "", evaluated,
             eval ? progress_planted(&p->planted, planted) : "");
    progress_go_on(p, now_s);
}

void progress_go_on(struct progress *p, double now_s)
{
    p->epoch_s = now_s;
    if (p->job->training.update != UPDATE_SYNC)
        return; /* the others train while this process evaluates */
    p->window_s = now_s;
    p->window_examples = p->examples;
}

enum { LOADING_NAMED = 16, LOADING_BYTES = 160, LOADING_ALL_BYTES = 1700 };

/* The members of an object, with a comma before each. */
static void loading_members(char out[LOADING_BYTES], const struct loading *now)
{
    char left[32];
    (void)snprintf(out, LOADING_BYTES,
                   ",\"bytes\":%" PRIu64 ",\"of_bytes\":%" PRIu64 ",\"rows\":%" PRIu64
                   ",\"left_s\":%s",
                   now->bytes, now->of_bytes, now->rows, number(now->left_s, left));
}

void progress_loading(int fd, const struct loading *now, bool separate_chief)
{
    char own[LOADING_BYTES] = "", one[LOADING_BYTES], name[WORKER_NAME_BYTES];
    char workers[LOADING_ALL_BYTES] = "";
    struct loading of;
    uint32_t named = 0, more = 0;
    size_t n = 0;
    if (now)
        loading_members(own, now);
    for (uint32_t i = 0; fd >= 0 && i < LOADING_WORKERS; i++) {
        if (!loading_heard(i, &of))
            continue;
        loading_members(one, &of);
        if (named == LOADING_NAMED || n + LOADING_BYTES + WORKER_NAME_BYTES + 12 > sizeof workers)
            more++;
        else
            n += (size_t)snprintf(workers + n, sizeof workers - n, "%s{\"name\":\"%s\"%s}",
                                  named++ ? "," : "", worker_name(name, i, separate_chief), one);
    }
    write_line(fd, "{\"type\":\"loading\"%s,\"workers\":[%s],\"more\":%u}\n", own, workers, more);
}

void progress_checkpoint(int fd, uint64_t cut, uint64_t step)
{
    write_line(fd, "{\"type\":\"checkpoint\",\"cut\":%" PRIu64 ",\"step\":%" PRIu64 "}\n", cut,
               step);
}

void progress_wait(int fd, const char *whom, double seconds)
{
    write_line(fd, "{\"type\":\"wait\",\"text\":\"%s\",\"seconds\":%.1f}\n", whom, seconds);
}

static void write_text(int fd, const char *type, const char *text)
{
    json_t *said = json_text(text);
    char *quoted = json_dumps(said, JSON_ENCODE_ANY);
    if (quoted)
        write_line(fd, "{\"type\":\"%s\",\"text\":%s}\n", type, quoted);
    free(quoted);
    json_decref(said);
}

void progress_untrained(int fd, const char *text)
{
    write_text(fd, "untrained", text);
}

void progress_say(int fd, const char *fmt, ...)
{
    char text[384];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    write_text(fd, "log", text);
}

struct history_point history_epoch(uint64_t epoch, uint32_t metrics, const struct evaluation *found,
                                   const struct evaluation *eval)
{
    struct history_point p = {.step = epoch};
    double *trained = p.value, *evaluated = p.value + 1 + metrics;
    trained[0] = found->loss;
    evaluated[0] = eval ? eval->loss : (double)NAN;
    for (uint32_t i = 0; i < metrics; i++) {
        trained[1 + i] = found->metric[i];
        evaluated[1 + i] = eval ? eval->metric[i] : (double)NAN;
    }
    return p;
}

void history_drop(struct history *h, uint64_t step)
{
    uint32_t before = h->n;
    while (h->n && h->point[h->n - 1].step >= step)
        h->n--;
    if (h->n == 0)
        h->every = 1;
    if (h->n < before)
        h->seen = h->n ? (h->n - 1) * h->every + 1 : 0;
}

/* Point number `seen` is kept permanently if `every` divides it; the newest point is kept until the next one comes. */
void history_add(struct history *h, const struct history_point *p)
{
    if (h->every == 0)
        h->every = 1;
    history_drop(h, p->step);
    bool keep_last = h->n == 0 || (h->seen - 1) % h->every == 0;
    if (keep_last && h->n == HISTORY_MAX) {
        for (uint32_t i = 0; 2 * i < h->n; i++)
            h->point[i] = h->point[2 * i];
        h->n = (h->n + 1) / 2;
        h->every *= 2;
    }
    h->point[keep_last ? h->n++ : h->n - 1] = *p;
    h->seen++;
    assert(h->n <= HISTORY_MAX);
}

json_t *history_json(const struct history *h, uint32_t values)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < h->n; i++) {
        json_t *one = json_array();
        (void)json_array_append_new(one, json_integer((json_int_t)h->point[i].step));
        for (uint32_t k = 0; k < values && k < HISTORY_VALUES; k++)
            (void)json_array_append_new(one, json_number(h->point[i].value[k]));
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}
