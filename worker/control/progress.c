#include "worker/control/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/printable.h"

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

/* The mean of an epoch's first batches fluctuates, so curves begin after a twentieth of the epoch. The first epoch
 * has no earlier curve, and begins immediately. */
static bool too_few(uint64_t epoch, uint64_t step, uint64_t steps)
{
    return epoch > 1 && step < steps / 20;
}

static void tell_step(const struct progress *p, const struct eta_place *at,
                      const struct evaluation *trained)
{
    struct history_point point = {.step = (at->epoch - 1) * at->steps + at->step};
    bool few = too_few(at->epoch, at->step, at->steps);
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
                         const struct results *eval)
{
    char a[32], b[32];
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 1; i < trained->n && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s{\"name\":\"%s\",\"train\":%s,\"eval\":%s}",
                              i > 1 ? "," : "", trained->of[i].name,
                              number(trained->of[i].value, a), number(eval->of[i].value, b));
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
    metrics_json(metrics, sizeof metrics, &of_train, &of_eval);
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

void progress_loading(int fd, const struct loading *now)
{
    char left[32];
    if (!now)
        write_line(fd, "{\"type\":\"loading\"}\n");
    else
        write_line(fd,
                   "{\"type\":\"loading\",\"bytes\":%" PRIu64 ",\"of_bytes\":%" PRIu64
                   ",\"rows\":%" PRIu64 ",\"left_s\":%s}\n",
                   now->bytes, now->of_bytes, now->rows, number(now->left_s, left));
}

void progress_alive(int fd)
{
    write_line(fd, "{\"type\":\"alive\"}\n");
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
