#include "worker/evaluate/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/files.h"
#include "common/base/log.h"
#include "worker/export/export.h"
#include "worker/model/metric.h"

enum { NOTES_MAX = 5 + METRICS_MAX };

/* ---- what is monitored ---- */

static bool monitors(const struct best *b)
{
    return b->job->training.monitor != MONITOR_NONE;
}

static const char *monitor_name(const struct job *job)
{
    uint32_t monitor = job->training.monitor;
    return monitor == MONITOR_LOSS ? "loss"
                                   : metric_name((enum metric_kind)(monitor - MONITOR_METRIC));
}

static double monitored(const struct job *job, const struct evaluation *eval)
{
    if (job->training.monitor == MONITOR_LOSS)
        return eval->loss;
    for (uint32_t i = 0; i < job->model.metrics; i++)
        if (MONITOR_METRIC + (uint32_t)job->model.metric[i] == job->training.monitor)
            return eval->metric[i];
    return NAN;
}

/* Keras's mode "auto". */
static bool larger_is_better(const struct job *job)
{
    return job->training.monitor >= MONITOR_METRIC &&
           metric_larger_is_better((enum metric_kind)(job->training.monitor - MONITOR_METRIC));
}

static bool better(const struct best *b, double value)
{
    double delta = (double)b->job->early_stopping.min_delta;
    if (!b->has)
        return !isnan(value);
    return larger_is_better(b->job) ? value - delta > b->value : value + delta < b->value;
}

bool best_stops(const struct best *b, uint64_t epoch)
{
    uint64_t patience = b->job->early_stopping.patience;
    uint64_t since = b->has ? b->epoch : b->job->early_stopping.start_from_epoch;
    return monitors(b) && patience > 0 && epoch > since && epoch - since >= patience;
}

/* ---- the file ---- */

static double number_of(const char *path, const char *key)
{
    char text[64];
    return export_note(path, key, text, sizeof text) ? NAN : strtod(text, NULL);
}

/* What the file says of itself; false where it is none of this job's monitor. */
static bool take_up(struct best *b)
{
    char name[JOB_NAME_MAX];
    struct errmsg e = {""};
    if (export_note(b->path, "monitor", name, sizeof name)) {
        log_warn("%s says no monitor: it is not used, and overwritten", b->path);
        return false;
    }
    if (strcmp(name, monitor_name(b->job)) != 0) {
        log_info("%s is the best by %s, and %s is asked for: it counts no more", b->path, name,
                 monitor_name(b->job));
        return false;
    }
    if (export_check_safetensors(b->path, b->layout, &e)) {
        log_warn("%s: it is not used, and overwritten", e.text);
        return false;
    }
    b->eval.loss = number_of(b->path, "loss");
    for (uint32_t i = 0; i < b->job->model.metrics; i++)
        b->eval.metric[i] = number_of(b->path, metric_name(b->job->model.metric[i]));
    double epoch = number_of(b->path, "epoch"), step = number_of(b->path, "step");
    b->value = monitored(b->job, &b->eval);
    if (!(epoch >= 1 && epoch <= 1e15 && step >= 0 && step <= 1e15) || isnan(b->value)) {
        log_warn("%s does not say its epoch, step and %s: it is not used, and overwritten", b->path,
                 name);
        return false;
    }
    b->epoch = (uint64_t)epoch;
    b->eval.step = (uint64_t)step;
    return true;
}

enum err best_init(struct best *b, const struct job *job, const struct layout *layout,
                   const char *output, struct errmsg *e)
{
    *b = (struct best){.job = job, .layout = layout};
    if (!monitors(b))
        return ERR_OK;
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%s/best", output);
    (void)snprintf(b->path, sizeof b->path, "%s/weights.safetensors", folder);
    enum err err = files_mkdirs(folder, e);
    if (err)
        return err;
    if (access(b->path, F_OK) == 0)
        b->has = take_up(b);
    return ERR_OK;
}

/* Numbers read back to the same bits. */
static enum err keep(const struct best *b, uint64_t epoch, const struct evaluation *eval,
                     const float *w, struct errmsg *e)
{
    struct export_note notes[NOTES_MAX];
    size_t n = 0;
    notes[n] = (struct export_note){.key = "monitor"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%s", monitor_name(b->job));
    notes[n] = (struct export_note){.key = "epoch"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu64, epoch);
    notes[n] = (struct export_note){.key = "step"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu64, eval->step);
    notes[n] = (struct export_note){.key = "loss"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%.17g", eval->loss);
    for (uint32_t i = 0; i < b->job->model.metrics; i++) {
        notes[n] = (struct export_note){.key = metric_name(b->job->model.metric[i])};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%.17g", eval->metric[i]);
    }
    return export_safetensors(b->path, b->layout, w, notes, n, e);
}

enum err best_see(struct best *b, uint64_t epoch, const struct evaluation *eval, const float *w,
                  struct errmsg *e)
{
    if (!monitors(b) || epoch <= b->job->early_stopping.start_from_epoch ||
        !better(b, monitored(b->job, eval)))
        return ERR_OK;
    enum err err = keep(b, epoch, eval, w, e);
    if (err)
        return err;
    b->has = true;
    b->value = monitored(b->job, eval);
    b->epoch = epoch;
    b->eval = *eval;
    return ERR_OK;
}

enum err best_read(const struct best *b, float *w, struct errmsg *e)
{
    if (!b->has)
        return err_set(e, ERR_NOTFOUND, "no evaluation was ever the best");
    return export_read_safetensors(b->path, b->layout, w, e);
}
