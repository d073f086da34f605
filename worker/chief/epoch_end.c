#include "worker/chief/epoch_end.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/process/output.h"
#include "common/base/log.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "common/process/files.h"
#include "common/parameters/norm.h"
#include "evaluate/evaluate.h"
#include "export/export.h"
#include "worker/control/progress.h"
#include "model/evaluation.h"

bool best_cut_ask(struct best_cut *c, struct control *control, uint64_t epoch, uint64_t step,
                  const struct evaluation *eval)
{
    assert(!c->asked);
    *c = (struct best_cut){.asks = c->asks + 1, .epoch = epoch, .eval = *eval};
    uint64_t *of = mem_zalloc(1, sizeof *of);
    if (!of)
        return false;
    *of = step;
    c->asked = true;
    control_post(control, CONTROL_KEEP, c->asks, of, mem_free);
    return true;
}

/* Handle TRAIN_KEPT; takes kept->hold. A report about another request is ignored. Errors: the cut of c->epoch failed, or is not
 * the best one's now. */
static enum err best_cut_on(struct best_cut *c, struct best *best, struct train_kept *kept,
                            struct errmsg *e)
{
    if (!c->asked || kept->ask != c->asks)
        return ERR_OK;
    c->copied |= kept->copied;
    if (kept->copied && !kept->published)
        return ERR_OK;
    c->asked = false;
    int hold = kept->hold;
    kept->hold = -1;
    if (hold < 0)
        return err_set(e, ERR_STATE, "the checkpoint with its rows failed");
    enum err err = best_keep_cut(best, c->epoch, &c->eval, kept->cut, hold, e);
    if (!err)
        log_info("epoch %" PRIu64 " is the best: its rows are in checkpoint %" PRIu64
                 ", step %" PRIu64,
                 c->epoch, best->cut, best->cut_step);
    return err;
}

/* An evaluation by the chief: the weights it is of, its rows, its time, and the letter with its result. */

/* An evaluation of what the job has learned, by the chief: at the present step, of a data set, with the rows that the shards
 * have. Its callers say when: at the end of an epoch, or of the job.
 *
 * Happy path: the averages of the weights, if the job keeps any, are requested -> they are here -> evaluating_run ->
 * CONTROL_EVALUATED.
 * Failure modes: another generation, another incarnation of a ps or the end of the run interrupts it: the caller
 * evaluates again, or the next chief does. Thread: the training thread. */

struct evaluating {
    const struct train_parts *parts;
    struct evaluator *evaluator; /* has the data set */
};

/* The weights that are evaluated: the averages, if the job keeps any. */
static inline float *evaluating_weights(const struct evaluating *v)
{
    return v->parts->averages ? v->parts->averages : v->parts->w;
}

/* False: the averages are requested, and arrive while the loop runs. */
static bool evaluating_is_ready(const struct evaluating *v)
{
    struct session *session = driver_session(v->parts->driver);
    if (!v->parts->averages || session_take_averages(session))
        return true;
    session_pull_averages(session);
    return false;
}

/* Reads rows of tables from the shards. */
static enum err look_rows(void *ctx, struct row_values *v, struct errmsg *e)
{
    const struct evaluating *of = ctx;
    return driver_look(of->parts->driver, v, e);
}

/* Evaluate at this step, and post the result to the control thread; the time counts as a pause of the training. *out changes
 * only with ERR_OK. Errors: ERR_STATE: it was interrupted; ERR_NOMEM; those of evaluator_run. */
static enum err evaluating_run(struct evaluating *v, uint64_t step, struct evaluation *out,
                               struct errmsg *e)
{
    struct driver *driver = v->parts->driver;
    const struct row_reader rows = {.read = look_rows, .ctx = v};
    double began = clock_now_s();
    struct sums sums;
    e->text[0] = '\0';
    enum err err = evaluator_run(v->evaluator, evaluating_weights(v), &rows, &sums, e);
    if (err)
        return err;
    struct evaluation *copy = mem_zalloc(1, sizeof *copy);
    if (!copy) /* the next checkpoint would have an earlier evaluation */
        return err_memory_for(e, "an evaluation");
    *copy = (struct evaluation){.step = step, .loss = sums.loss};
    memcpy(copy->metric, sums.metric, sizeof copy->metric);
    *out = *copy;
    control_post(driver_control(driver), CONTROL_EVALUATED, step, copy, mem_free);
    double took_s = clock_now_s() - began;
    driver_paused(driver, took_s);
    metrics_observe(&driver_meter(driver)->evaluation, took_s);
    return ERR_OK;
}

enum {
    /* the control thread gets steps at most this often, and at each epoch's end */
    STEP_LETTER_MS = 50,
    DIVERGED_BYTES = 192
};

struct epoch_end {
    struct epoch_end_config config;
    const struct train_parts *parts;
    struct session *session;
    const struct session_terms *terms; /* the session's */
    struct epoch_end_result *result;
    struct evaluating evaluating;
    struct progress progress;
    double examples; /* of all workers, in this process */
    bool finish_asked, evaluate_asked;
    bool final_seen; /* async: the last evaluation is done */
    /* the weights to export are ready; they are exported when the final checkpoint is published */
    bool finished;
    uint64_t epoch_asked;
    /* epochs that were reported before this generation, and that it does not undo */
    uint64_t told_epochs;
    uint64_t enough_epoch, enough_step; /* the epoch and step of early stopping; epoch 0: none */
    uint64_t evaluated_step;            /* UINT64_MAX: none */
    uint64_t due_step; /* of evaluate.every_steps: the next one is due from here on; 0: not known */
    bool step_due;     /* the control thread must still get this step */
    uint64_t made;     /* not in sync: batches that are dealt, up to the last one of this process */
    uint64_t unkept_step; /* of config, until this process is at it or before it */
    bool goes_back;       /* a rollback is asked for */
    uint32_t lines_due;   /* lines of the history that are being written */
    bool may_lack;        /* epochs before the next one that ends here may have ended elsewhere */
    struct best_cut best_cut; /* with tables */
    double asked_s;           /* when the last evaluation was requested */
    int64_t told_ms;
};

static void stop(struct epoch_end *end, int exit_code, const char *text)
{
    driver_stop(end->parts->driver, exit_code, text);
}

static void stop_without_memory(struct epoch_end *end)
{
    struct errmsg e;
    enum err err = err_set(&e, ERR_NOMEM, "no memory to end the training");
    stop(end, err_exit_code(err), e.text);
}

static void post(struct epoch_end *end, int type, void *take_data)
{
    control_post(driver_control(end->parts->driver), type, session_step(end->session), take_data,
                 mem_free);
}

/* For struct progress. */
static void tell_point(void *ctx, const struct history_point *p, bool of_epoch)
{
    struct history_point *copy = mem_zalloc(1, sizeof *copy);
    if (!copy)
        return; /* the curve lacks this point */
    *copy = *p;
    post(ctx, of_epoch ? CONTROL_EPOCH_POINT : CONTROL_STEP_POINT, copy);
}

/* Write the whole log to the file again. NULL: no memory, and the file stays unchanged. */
static void write_log(struct epoch_end *end)
{
    post(end, CONTROL_EPOCH_LINES, epoch_log_text(end->config.log, end->config.job, NULL));
}

/* The epochs after this step are trained again, and so decide again which of them is the best, and the last. */
static void undo_best(struct epoch_end *end, uint64_t step)
{
    if (end->config.finished)
        return;
    best_undo(end->config.best, step, end->terms->settings.batches_per_epoch);
    if (end->enough_step > step)
        end->enough_epoch = end->enough_step = 0;
}

/* The best epoch before the undone ones may be overwritten by one of these. */
static void expect_best(struct epoch_end *end)
{
    const struct epoch_line *line = epoch_log_best(end->config.log, UINT64_MAX);
    struct evaluation eval;
    if (!line || end->config.finished)
        return;
    eval = line->eval;
    eval.step = line->step;
    best_expect(end->config.best, line->epoch, &eval);
}

static void restored(void *ctx, uint64_t step)
{
    struct epoch_end *end = ctx;
    undo_best(end, step);
    if (epoch_log_restore(end->config.log, step))
        write_log(end);
    expect_best(end);
    if (step > end->unkept_step)
        end->unkept_step = 0; /* its cut had failed, and training went on */
}

static void begin_log(struct epoch_end *end)
{
    const struct epoch_log *log = end->config.log;
    struct errmsg e = {""};
    enum err err = best_begin(end->config.best, end->terms->uuid, &e);
    if (err)
        stop(end, err_exit_code(err), e.text);
    if (epoch_log_begin(end->config.log, end->terms->uuid))
        write_log(end);
    end->told_epochs = log->n ? log->line[log->n - 1].epoch : 0;
}

static void welcomed(void *ctx)
{
    struct epoch_end *end = ctx;
    begin_log(end);
    end->finish_asked = end->evaluate_asked = end->step_due = false;
    end->final_seen = end->finished = end->goes_back = false;
    end->best_cut.asked = end->best_cut.copied = false;
    end->evaluated_step = UINT64_MAX;
    end->made = end->due_step = 0;
    end->may_lack |= end->config.log->n > 0; /* this process was killed while it was parked */
    if (end->enough_epoch && end->terms->settings.redo)
        session_stop_behind(end->session, end->enough_epoch);
    else if (end->enough_epoch)
        session_stop_at(end->session, end->enough_step);
}

static void parked(void *ctx)
{
    struct epoch_end *end = ctx;
    end->may_lack = end->terms->sync;
}

static void evaluate_asked(void *ctx, uint64_t epoch)
{
    struct epoch_end *end = ctx;
    end->evaluate_asked = true;
    end->epoch_asked = epoch;
}

static void finish_asked(void *ctx)
{
    struct epoch_end *end = ctx;
    end->finish_asked = true;
}

/* The job can end with another model than the undisturbed one, which matters where the result is exact. */
static void lose_exact(struct epoch_end *end, const char *why)
{
    log_warn("%s", why);
    if (end->terms->sync)
        control_post(driver_control(end->parts->driver), CONTROL_INEXACT, 0, mem_strdup(why),
                     mem_free);
}

static void lose_best(struct epoch_end *end, uint64_t epoch, const char *why)
{
    char text[sizeof(struct errmsg) + 80];
    (void)snprintf(text, sizeof text, "epoch %" PRIu64 " is the best, but could not be kept: %s",
                   epoch, why);
    lose_exact(end, text);
}

static void kept(void *ctx, struct train_kept *kept)
{
    struct epoch_end *end = ctx;
    struct errmsg e;
    bool held_up = best_cut_is_made(&end->best_cut);
    if (best_cut_on(&end->best_cut, end->config.best, kept, &e))
        lose_best(end, end->best_cut.epoch, e.text);
    if (end->terms->sync && held_up && !best_cut_is_made(&end->best_cut))
        driver_paused(end->parts->driver, clock_now_s() - end->asked_s);
}

static void noted(void *ctx)
{
    struct epoch_end *end = ctx;
    assert(end->lines_due > 0);
    end->lines_due--;
}

/* ---- a step was made ---- */

/* The position in its epoch of the step that was made, for progress lines. */
static struct session_place place_of(const struct epoch_end *end, uint64_t made)
{
    uint64_t per_epoch = end->terms->settings.batches_per_epoch;
    struct session_place here = session_place(end->session);
    uint64_t begin = session_step(end->session) - here.steps;
    if (!end->terms->settings.redo)
        return (struct session_place){made / per_epoch, made % per_epoch, per_epoch};
    if (made >= begin)
        return (struct session_place){here.epochs, made - begin, here.of};
    return (struct session_place){here.epochs - 1, per_epoch - 1, per_epoch};
}

static void step_made(void *ctx, uint64_t id, const struct sums *sums, double now_s)
{
    struct epoch_end *end = ctx;
    if (isnan(end->result->first_step_s))
        end->result->first_step_s = now_s - end->progress.started_s;
    struct session_place place = place_of(end, id);
    struct sums trained;
    end->made = end->terms->sync ? 0 : id + 1;
    (void)session_epoch(end->session, place.epochs, &trained);
    end->examples =
        end->terms->sync ? end->examples + sums->examples : session_examples(end->session);
    progress_step(&end->progress, end->examples, &trained, place.epochs + 1, place.steps + 1,
                  place.of, now_s);
    curves_step(end->config.curves, id + 1, sums, end->progress.examples_per_s, now_s);
    int64_t now_ms = (int64_t)(now_s * 1000);
    if (session_place(end->session).steps == 0)
        return; /* posted after the evaluation: with backup workers the others wait for that */
    if (end->terms->sync && now_ms - end->told_ms >= STEP_LETTER_MS) {
        end->told_ms = now_ms;
        post(end, CONTROL_STEP, NULL);
    }
}

/* ---- evaluation ---- */

/* The weights that are evaluated, kept as the best and exported. */
static float *learned(const struct epoch_end *end)
{
    return evaluating_weights(&end->evaluating);
}

/* NULL: no result; *missing: it was to have one, but a new generation or the end of the run interrupted it, or it failed: then
 * this process ends, and the next chief evaluates. */
static const struct evaluation *evaluate(struct epoch_end *end, uint64_t step, bool *missing)
{
    struct epoch_end_result *r = end->result;
    struct errmsg e;
    *missing = false;
    if (!end->evaluating.evaluator)
        return NULL;
    enum err err = evaluating_run(&end->evaluating, step, &r->eval, &e);
    *missing = err != ERR_OK;
    if (err && err != ERR_STATE)
        stop(end, err_exit_code(err), e.text);
    r->has_eval |= !err;
    return err ? NULL : &r->eval;
}

/* The number of batches at an epoch's end; in sync steps, of which some may be extra ones. */
static uint64_t end_of(const struct epoch_end *end, uint64_t epoch)
{
    return end->terms->sync ? session_step(end->session)
                            : epoch * end->terms->settings.batches_per_epoch;
}

static struct epoch_line line_of(const struct epoch_end *end, uint64_t epoch,
                                 const struct sums *trained, double now_s)
{
    const struct job *job = end->config.job;
    struct epoch_line line = {
        .epoch = epoch,
        .step = end_of(end, epoch),
        .seconds = end->result->seconds_before + driver_trained_s(end->parts->driver, now_s),
        .trained = evaluation_of_sums(job, trained->examples, trained->loss, trained->metric),
        .has_eval = end->evaluating.evaluator != NULL,
        .eval = end->result->eval,
        .best = end->evaluating.evaluator && !end->enough_epoch && /* look_at will keep it */
                best_is_beaten(end->config.best, epoch, &end->result->eval)};
    if (line.has_eval)
        epoch_log_name_data(&line, end->config.eval->contents);
    return line;
}

/* True if this epoch's end was reported before. If a generation begins at an epoch's end, that epoch is evaluated
 * again. In async this includes later pushes of the other workers, so only the last epoch is reported again: it has
 * the model's result. */
static bool is_told(const struct epoch_end *end, const struct epoch_line *line)
{
    const struct epoch_line *told = epoch_log_find(end->config.log, line->epoch);
    if (!told || told->step != line->step || told->has_eval != line->has_eval)
        return false;
    bool before = line->epoch <= end->told_epochs && (end->terms->sync || !end->finish_asked);
    return before || epoch_line_equal(told, line, end->config.job->model.metrics);
}

/* Add a line to the history, for summary.json and the next process. Without memory the line is missing, but
 * training continues. */
static void note_line(struct epoch_end *end, const struct epoch_line *line)
{
    struct epoch_log *log = end->config.log;
    if (epoch_log_add(log, line)) {
        log_warn("%s %" PRIu64 " is not in the history: out of memory",
                 line->epoch ? "epoch" : "step", line->epoch ? line->epoch : line->step);
        return;
    }
    post(end, CONTROL_EPOCH_LINE, epoch_log_text(log, end->config.job, line));
    end->lines_due++;
}

/* Report that a value is not finite; the chief then ends the job. */
static void say_diverged(struct epoch_end *end)
{
    static const char evaluation[] = "the loss of the evaluation is not finite";
    const struct layout *l = model_layout(end->config.model);
    const char *tensor = norm_broken_tensor(l, 0, learned(end), (size_t)l->elems, DBL_MAX);
    char *what = mem_zalloc(DIVERGED_BYTES, 1);
    if (what && tensor)
        (void)snprintf(what, DIVERGED_BYTES, "%s, nor is the tensor %s", evaluation, tensor);
    else if (what)
        (void)snprintf(what, DIVERGED_BYTES, "%s", evaluation);
    if (what)
        post(end, CONTROL_DIVERGED, what);
    else
        stop_without_memory(end);
}

/* Report that no step from this one on is wanted. The generation is sent too: if microbatches are trained again,
 * another generation may end at another step. */
static void say_enough(struct epoch_end *end)
{
    uint64_t *generation = mem_zalloc(1, sizeof *generation);
    if (!generation) {
        stop_without_memory(end);
        return;
    }
    *generation = end->terms->generation.number;
    post(end, CONTROL_ENOUGH, generation);
}

/* The job's state with this epoch, before it is kept. False: nothing is monitored. */
static bool best_with(const struct epoch_end *end, uint64_t epoch, const struct evaluation *eval,
                      struct progress_best *out)
{
    const struct best *best = end->config.best;
    const struct job *job = end->config.job;
    if (!eval || job->training.monitor == MONITOR_NONE)
        return false;
    bool is_best = best_is_beaten(best, epoch, eval);
    bool any = is_best || best->has;
    *out = (struct progress_best){.name = best_monitor_name(job),
                                  .value = is_best ? best_monitored(job, eval) : best->value,
                                  .epoch = !any      ? 0
                                           : is_best ? epoch
                                                     : best->epoch,
                                  .waited = is_best ? 0 : best_waited(best, epoch),
                                  .patience = job->early_stopping.patience};
    return any;
}

/* ---- metrics.by ---- */

/* Of one slice, in this order. */
static const char *const slice_names[] = {
    "rows", "positives", "logloss", "normalized_entropy", "calibration", "auc", "auc_error"};
enum { SLICE_VALUES = sizeof slice_names / sizeof slice_names[0] };

static void slice_values(const double of[SLICE_NUMBERS], double out[SLICE_VALUES])
{
    const double rows = of[0], positives = of[1], p = positives / rows;
    const double entropy = -(p * log(p) + (1 - p) * log(1 - p)); /* NAN: one class */
    const double values[SLICE_VALUES] = {
        rows,  positives, of[2], of[2] / entropy, positives > 0 ? of[3] / positives : (double)NAN,
        of[4], of[5]};
    memcpy(out, values, sizeof values);
}

/* One slice's line for people, and its object. */
static json_t *tell_slice(const struct epoch_end *end, const char *value, size_t bytes,
                          const double values[SLICE_VALUES])
{
    json_t *one = json_pack("{s:o}", "value", value ? json_stringn(value, bytes) : json_null());
    char text[512], shown[PRINTABLE_NAME_BYTES] = "others";
    bool ok = true;
    if (value)
        (void)printable_name(shown, value, bytes);
    int n = snprintf(text, sizeof text, "  %s:", shown);
    for (int i = 0; i < SLICE_VALUES; i++) {
        json_put(one, slice_names[i],
                 i < 2 ? json_integer((json_int_t)values[i]) : json_number(values[i]), &ok);
        if (n < (int)sizeof text && isfinite(values[i]))
            n += snprintf(text + n, sizeof text - (size_t)n, i < 2 ? " %s %.0f" : " %s %.4f",
                          slice_names[i], values[i]);
        else if (n < (int)sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, " %s -", slice_names[i]);
    }
    progress_say(end->progress.fd, "%s", text);
    log_info("%s", text);
    return json_whole(one, ok);
}

/* A line for each slice, and DIR/slices.json, which has the last epoch's. */
static void tell_slices(const struct epoch_end *end, uint64_t epoch)
{
    const struct session_slices *s = session_slices(end->session);
    const struct job *job = end->config.job;
    const char *at = job->metrics.values;
    char path[FILES_PATH_MAX + 16];
    struct errmsg e;
    if (!*job->metrics.by || s->n != job_slices(job) || s->epoch + 1 != epoch)
        return;
    json_t *all = json_array();
    bool ok = true;
    progress_say(end->progress.fd, "epoch %" PRIu64 " by %s:", epoch, SHOWN(job->metrics.by));
    log_info("epoch %" PRIu64 " by %s:", epoch, SHOWN(job->metrics.by));
    for (uint32_t i = 0; i < s->n; i++) {
        double values[SLICE_VALUES];
        size_t bytes = 0;
        const char *value = at;
        slice_values(s->of[i], values);
        if (at)
            at = texts_next(at, &bytes);
        json_push(all, tell_slice(end, value, bytes, values), &ok);
    }
    (void)snprintf(path, sizeof path, "%s/slices.json", end->config.output);
    all = json_whole(all, ok);
    json_t *file = all ? json_pack("{s:I, s:s, s:o}", "epoch", (json_int_t)epoch, "by",
                                   job->metrics.by, "slices", all)
                       : NULL;
    if (files_write_json(path, file, JSON_INDENT(2), &e))
        log_warn("%s", e.text);
}

/* Report an epoch's end to people, and to the history. */
static void tell_epoch(struct epoch_end *end, uint64_t epoch, const struct sums *trained,
                       const struct evaluation *eval, double now_s)
{
    struct progress_best best;
    const struct epoch_line line = line_of(end, epoch, trained, now_s);
    if (end->config.finished || is_told(end, &line)) {
        progress_go_on(&end->progress, now_s);
        return;
    }
    progress_epoch(&end->progress, epoch, trained, eval,
                   best_with(end, epoch, eval, &best) ? &best : NULL, now_s);
    tell_slices(end, epoch);
    note_line(end, &line);
}

static const char gone[] =
    "its weights in best/ are gone (damaged, removed, or replaced by an epoch that was undone)";

/* The undisturbed job would keep a best epoch whose weights are gone here. This one takes the next epoch. */
static void give_up_best(struct epoch_end *end, uint64_t epoch, const struct evaluation *eval)
{
    struct best *best = end->config.best;
    if (!best_is_given_up(best, epoch, eval))
        return;
    lose_best(end, best->epoch, gone);
    best_give_up(best);
}

/* False: no epoch was better for too long. */
static bool keep_if_best(struct epoch_end *end, uint64_t epoch, const struct evaluation *eval)
{
    struct best *best = end->config.best;
    struct errmsg e = {""};
    give_up_best(end, epoch, eval);
    if (model_layout(end->config.model)->rows) {
        if (!best_is_beaten(best, epoch, eval))
            return !best_stops(best, epoch);
        end->asked_s = clock_now_s();
        if (!best_cut_ask(&end->best_cut, driver_control(end->parts->driver), epoch,
                          end->terms->sync ? session_step(end->session) : UINT64_MAX, eval))
            stop_without_memory(end); /* the next chief keeps it */
        return true;
    }
    if (best_see(best, epoch, eval, learned(end), &e))
        lose_best(end, epoch, e.text);
    return !best_stops(best, epoch);
}

/* Keep the epoch if it is the best; end the job if none was better for too long. */
static void look_at(struct epoch_end *end, uint64_t epoch, const struct evaluation *eval)
{
    const struct job *job = end->config.job;
    const struct best *best = end->config.best;
    if (end->enough_epoch)
        return; /* async: batches that were pushed after the end do not count */
    if (keep_if_best(end, epoch, eval) || epoch >= job->training.epochs)
        return;
    char text[160];
    (void)snprintf(text, sizeof text,
                   "epoch %" PRIu64
                   ": no better evaluation for %u epochs, the best was that of epoch %" PRIu64
                   ": training stops early",
                   epoch, job->early_stopping.patience, best->epoch);
    log_info("%s", text);
    progress_say(end->progress.fd, "early stopping: %s%s", text,
                 job->early_stopping.restore_best_weights ? "; its weights are restored" : "");
    end->enough_epoch = epoch;
    end->enough_step = session_step(end->session);
    session_stop_at(end->session, end->enough_step);
    say_enough(end);
}

/* The last gradient that this process computed: the mean over the examples of its own leaves. */
static struct events_values last_gradient(struct epoch_end *end, const float **block)
{
    uint32_t nodes, examples = 0;
    const struct gradient_node *node = gradient_nodes(end->parts->gradient, &nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        block[i] = node[i].value;
        examples += node[i].examples;
    }
    return (struct events_values){block, examples ? nodes : 0, examples ? 1.0 / examples : 0};
}

/* No epoch could be the best. */
static void stop_without_monitor(struct epoch_end *end, uint64_t epoch)
{
    struct errmsg e;
    enum err err = err_set(&e, ERR_INPUT,
                           "epoch %" PRIu64
                           ": training.monitor: the rows of %s%s have no %s, because they are all "
                           "of one class: name evaluation data of both classes, or monitor: loss",
                           epoch, dataset_eval_name(end->config.job),
                           job_has_weights(end->config.job) ? " with a weight above 0" : "",
                           best_monitor_name(end->config.job));
    stop(end, err_exit_code(err), e.text);
}

/* In sync the others train on while this session is parked. The epochs that ended meanwhile were not evaluated: one of
 * them may have been the best, or the last. */
static void look_for_missed(struct epoch_end *end, uint64_t epoch)
{
    const struct epoch_log *log = end->config.log;
    uint64_t first = log->n ? log->line[log->n - 1].epoch + 1 : 1;
    bool missed = end->may_lack && first < epoch;
    char text[160], to[40] = "";
    end->may_lack = false;
    if (!missed || !end->terms->sync || end->config.finished)
        return;
    if (first + 1 < epoch)
        (void)snprintf(to, sizeof to, "s %" PRIu64 " to", first);
    (void)snprintf(text, sizeof text,
                   "epoch%s %" PRIu64
                   " ended while the chief's own worker was away, without an evaluation",
                   to, epoch - 1);
    if (end->config.job->training.monitor != MONITOR_NONE)
        lose_exact(end, text);
    else
        log_warn("%s; the history has a gap there", text);
}

/* False: the evaluation must be repeated: in the present generation, or by the next process. */
static bool end_epoch(struct epoch_end *end, uint64_t epoch)
{
    bool missing;
    double began = clock_now_s();
    const float *block[GRADIENT_NODES_MAX];
    const struct events_values gradient = last_gradient(end, block);
    struct sums trained;
    (void)session_epoch(end->session, epoch - 1, &trained);
    curves_epoch(end->config.curves, end_of(end, epoch), &trained, end->parts->w, &gradient,
                 end->parts->pool, began);
    driver_paused(end->parts->driver, clock_now_s() - began);
    /* with evaluations within epochs in the order of steps */
    const bool by_step = end->config.job->evaluate.every_steps > 0;
    const struct evaluation *eval =
        evaluate(end, by_step ? end_of(end, epoch) : session_step(end->session), &missing);
    if (missing)
        return false;
    double now_s = clock_now_s();
    curves_paused(end->config.curves, now_s - began);
    look_for_missed(end, epoch);
    tell_epoch(end, epoch, &trained, eval, now_s);
    if (eval)
        curves_evaluated(end->config.curves, end_of(end, epoch), true, eval);
    if (eval && !isfinite(eval->loss) && end->config.job->training.nan_guard == NAN_GUARD_CHECK)
        say_diverged(end);
    else if (eval && best_is_undefined(end->config.best, eval))
        stop_without_monitor(end, epoch);
    else if (eval)
        look_at(end, epoch, eval);
    return true;
}

/* ---- within an epoch ---- */

/* True if evaluate.every_steps asks for an evaluation at this step: the first one that this process has from a multiple on. One
 * at the end of an epoch counts. No step is due that comes before the last one of the history: in async the batches of a worker that
 * died are made late, and the last process can have noted a later step. */
static bool is_due(struct epoch_end *end, uint64_t step)
{
    const struct epoch_log *log = end->config.log;
    const uint64_t every = end->config.job->evaluate.every_steps,
                   noted = log->evaluations ? log->evaluation[log->evaluations - 1].step : 0,
                   seen = end->evaluated_step == UINT64_MAX ? 0 : end->evaluated_step;
    if (!every || step <= noted || !end->evaluating.evaluator || end->config.finished ||
        end->enough_epoch)
        return false;
    if (!end->due_step)
        end->due_step = step % every == 0 ? step : (step / every + 1) * every;
    if (seen >= end->due_step && seen <= step)
        end->due_step = (seen / every + 1) * every;
    return step >= end->due_step;
}

/* Not in sync: true if the step is in the epoch behind the last one in the history, so its line comes in the order of steps. */
static bool is_in_epoch(const struct epoch_end *end, uint64_t step)
{
    const struct epoch_log *log = end->config.log;
    const uint64_t per_epoch = end->terms->settings.batches_per_epoch;
    return step % per_epoch != 0 && step / per_epoch == (log->n ? log->line[log->n - 1].epoch : 0);
}

static void tell_evaluation(struct epoch_end *end, const struct evaluation *eval)
{
    char words[PROGRESS_WORDS_BYTES];
    struct epoch_line line = {.step = eval->step,
                              .seconds = end->result->seconds_before +
                                         driver_trained_s(end->parts->driver, clock_now_s()),
                              .has_eval = true,
                              .eval = *eval};
    epoch_log_name_data(&line, end->config.eval->contents);
    progress_words(words, end->config.job, eval);
    log_info("step %" PRIu64 ": eval%s", eval->step, words);
    progress_say(end->progress.fd, "step %" PRIu64 ": eval%s", eval->step, words);
    note_line(end, &line);
    curves_evaluated(end->config.curves, eval->step, false, eval);
}

/* Evaluate. It keeps no weights, and stops nothing: both are decided at an epoch's end. If it is interrupted, it is due again. */
static void evaluate_within(struct epoch_end *end, uint64_t step)
{
    bool missing;
    const double began = clock_now_s();
    const struct evaluation *eval = evaluate(end, step, &missing);
    if (!eval)
        return;
    end->evaluated_step = step;
    curves_paused(end->config.curves, clock_now_s() - began);
    tell_evaluation(end, eval);
    if (!isfinite(eval->loss) && end->config.job->training.nan_guard == NAN_GUARD_CHECK)
        say_diverged(end);
}

/* ---- the end of the job ---- */

bool epoch_end_restores_best(const struct epoch_end_config *config)
{
    return config->best->has && !config->best->gone &&
           config->job->early_stopping.restore_best_weights;
}

/* Write weights.safetensors of model/. The digest of a model with tables is added when the tables are written. */
static enum err export_weights(const struct epoch_end_config *config, const struct place *model,
                               const float *w, uint64_t step, const char *digest, struct errmsg *e)
{
    const struct layout *l = model_layout(config->model);
    struct export_note notes[] = {{.key = "job"}, {.key = "step"}, {.key = "digest"}};
    if (epoch_end_restores_best(config))
        step = l->rows ? config->best->cut_step : config->best->eval.step;
    (void)snprintf(notes[0].value, sizeof notes->value, "%s", config->job->name);
    (void)snprintf(notes[1].value, sizeof notes->value, "%" PRIu64, step);
    (void)snprintf(notes[2].value, sizeof notes->value, "%s", digest);
    return export_safetensors(model, l, w, notes, l->rows ? 2 : 3, e);
}

enum err epoch_end_export(const struct epoch_end_config *config, const float *w, uint64_t step,
                          char digest[65], struct errmsg *e)
{
    struct place model;
    place_of_job(&model, config->output, OUTPUT_MODEL);
    enum err err = model_manifest_remove(&model, e);
    if (err)
        return err;
    export_digest(model_layout(config->model), w, NULL, digest);
    err = export_weights(config, &model, w, step, digest, e);
    if (err)
        return err;
    err = place_put(&model, "job.yaml", config->job->canonical, strlen(config->job->canonical), e);
    const struct table_schema *schema = config->data->table.schema;
    if (!err && schema)
        err = export_encoding(&model, config->job, schema, e);
    if (err)
        digest[0] = '\0';
    return err;
}

/* Load the best epoch's weights in place of the last ones. */
static enum err restore_best(struct epoch_end *end, struct errmsg *e)
{
    if (!epoch_end_restores_best(&end->config))
        return ERR_OK;
    end->result->eval = end->config.best->eval;
    return best_read(end->config.best, learned(end), e);
}

static void finish(struct epoch_end *end)
{
    struct errmsg e = {""};
    driver_finish(end->parts->driver); /* the time from here on is not training */
    end->finish_asked = false;
    if (end->result->has_eval && !isfinite(end->result->eval.loss)) {
        say_diverged(end);
        return;
    }
    enum err err = restore_best(end, &e);
    if (err) {
        stop(end, err_exit_code(err), e.text);
        return;
    }
    const struct best *best = end->config.best;
    if (best->has && best->gone && end->config.job->early_stopping.restore_best_weights &&
        !end->config.finished)
        lose_best(end, best->epoch, gone); /* the last weights are exported */
    end->finished = true;
    post(end, CONTROL_FINISHED, NULL);
}

/* Export only now: the shards check the weights while they write them, and weights that are not finite are not
 * exported. A job that was done before has its model already, with a manifest. */
static void published(void *ctx, uint64_t step)
{
    struct epoch_end *end = ctx;
    struct errmsg e = {""};
    enum err err = ERR_OK;
    if (end->finished && !end->config.finished) {
        err = epoch_end_export(&end->config, learned(end), step, end->result->digest, &e);
        if (!err)
            err = end->config.write_rest(end->config.rest, &e);
    }
    int code = err_exit_code(err);
    char *why = err && code != 138 ? mem_strdup(e.text) : NULL;
    if (err &&
        !why) /* 138: the next process writes it. Otherwise the others hear it as this one ends. */
        stop(end, code, e.text);
    else
        control_post(driver_control(end->parts->driver), CONTROL_WRITTEN, 0, why,
                     why ? mem_free : NULL);
}

/* ---- between two tasks ---- */

/* True: the shards are beyond the step of an evaluation that was the best and is not kept. A rollback is asked for. */
static bool goes_back(struct epoch_end *end)
{
    if (end->goes_back || !end->unkept_step)
        return end->goes_back;
    end->goes_back = session_step(end->session) > end->unkept_step;
    if (end->goes_back)
        control_post(driver_control(end->parts->driver), CONTROL_BACK, end->unkept_step, NULL,
                     NULL);
    else
        end->unkept_step = 0;
    return end->goes_back;
}

/* The job ends here. If training.epochs was lowered, this can be in the middle of an epoch, and these weights have no evaluation
 * yet. False: the averages are on their way, or it was interrupted. */
static bool is_judged(struct epoch_end *end, uint64_t step)
{
    bool missing = false;
    if (session_place(end->session).steps == 0 || end->evaluated_step == step ||
        end->config.finished)
        return true;
    if (!evaluating_is_ready(&end->evaluating))
        return false;
    (void)evaluate(end, step, &missing);
    if (!missing)
        end->evaluated_step = step;
    return !missing;
}

/* False: the next step must not begin. */
static bool between_steps(struct epoch_end *end)
{
    uint64_t step = session_step(end->session);
    struct session_place place = session_place(end->session);
    if (goes_back(end))
        return false;
    if (end->config.best->has && end->config.best->eval.step > step)
        restored(end, step); /* the chief that went back was killed before it did this */
    if (step && place.steps == 0 && end->evaluated_step != step) {
        if (best_cut_is_open(&end->best_cut))
            return false;
        if (!evaluating_is_ready(&end->evaluating) || !end_epoch(end, place.epochs))
            return true;
        end->evaluated_step = step;
        end->step_due = true;
    }
    if (place.steps != 0 && is_due(end, step)) {
        if (!evaluating_is_ready(&end->evaluating))
            return true;
        evaluate_within(end, step);
    }
    if (end->lines_due || best_cut_is_made(&end->best_cut))
        return false;
    if (end->step_due) {
        end->step_due = false;
        if (end->terms->settings.redo && session_is_at_end(end->session))
            say_enough(end);
        post(end, CONTROL_STEP, NULL);
    }
    if (end->finish_asked && session_is_at_end(end->session) && !best_cut_is_open(&end->best_cut) &&
        is_judged(end, step))
        finish(end);
    return true;
}

/* Not in sync. If training.epochs was lowered, the job may already have more. */
static uint64_t last_epoch(const struct epoch_end *end)
{
    uint64_t made = session_step(end->session) / end->terms->settings.batches_per_epoch;
    uint64_t wanted = end->config.job->training.epochs;
    if (end->enough_epoch)
        return end->enough_epoch;
    return made > wanted ? made : wanted;
}

static void between_batches(struct epoch_end *end)
{
    if (best_cut_is_open(&end->best_cut))
        return; /* the request is handled when the best cut is settled */
    if (end->finish_asked && session_is_final(end->session)) {
        if (!evaluating_is_ready(&end->evaluating))
            return;
        if (end->final_seen || end_epoch(end, last_epoch(end))) {
            end->final_seen = true;
            if (!best_cut_is_open(&end->best_cut))
                finish(end);
        }
    } else if (end->evaluate_asked && !end->finish_asked && !end->enough_epoch &&
               !end->finished && /* the exported weights must be those of the last evaluation */
               evaluating_is_ready(&end->evaluating)) {
        const struct generation begun = end->terms->generation;
        end->evaluate_asked = false;
        /* Interrupted by another incarnation: once more. Interrupted by another generation: the epoch may be trained
         * again. */
        if (!end_epoch(end, end->epoch_asked) && generation_equal(begun, end->terms->generation))
            end->evaluate_asked = true;
        end->evaluated_step = end->made;
    } else if (!end->evaluate_asked && !end->finish_asked && !end->finished &&
               is_in_epoch(end, end->made) && is_due(end, end->made) &&
               evaluating_is_ready(&end->evaluating)) {
        evaluate_within(end, end->made);
    }
}

static bool between(void *ctx)
{
    struct epoch_end *end = ctx;
    if (session_phase(end->session) != SESSION_READY)
        return true;
    if (end->terms->sync)
        return between_steps(end);
    between_batches(end);
    return true;
}

const struct driver_chief epoch_end_ops = {
    .restored = restored,
    .welcomed = welcomed,
    .parked = parked,
    .step = step_made,
    .between = between,
    .evaluate = evaluate_asked,
    .finish = finish_asked,
    .published = published,
    .kept = kept,
    .noted = noted,
};

/* ---- life ---- */

enum err epoch_end_new(struct epoch_end **out, const struct epoch_end_config *config,
                       const struct train_parts *parts, struct epoch_end_result *result,
                       struct errmsg *e)
{
    struct epoch_end *end = mem_zalloc(1, sizeof *end);
    if (!end)
        return err_set(e, ERR_NOMEM, "no memory to evaluate");
    struct session *session = driver_session(parts->driver);
    *end = (struct epoch_end){.config = *config,
                              .parts = parts,
                              .session = session,
                              .terms = session_terms(session),
                              .result = result,
                              .unkept_step = config->unkept_step,
                              .evaluated_step = UINT64_MAX};
    progress_init(&end->progress, config->job, config->progress_fd, clock_now_s());
    end->progress.planted = config->planted;
    end->progress.on_point = tell_point;
    end->progress.ctx = end;
    end->evaluating.parts = parts;
    enum err err = config->eval ? evaluator_new(&end->evaluating.evaluator, config->job,
                                                config->model, config->eval, parts->pool, e)
                                : ERR_OK;
    if (err) {
        epoch_end_free(end);
        return err;
    }
    *out = end;
    return ERR_OK;
}

void epoch_end_free(struct epoch_end *end)
{
    if (!end)
        return;
    evaluator_free(end->evaluating.evaluator);
    mem_free(end);
}
