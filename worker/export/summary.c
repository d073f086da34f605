/* summary.json: what a script reads at the end of a job. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/process/files.h"
#include "common/base/json_number.h"
#include "common/base/mem.h"
#include "worker/export/export.h"

/* null where there is no text; '?' for what is beyond ASCII in text that is no UTF-8 (an error may
 * quote a file). */
static json_t *text_or_null(const char *text)
{
    if (!text)
        return json_null();
    json_t *json = json_string(text);
    if (json)
        return json;
    char *ascii = mem_strdup(text);
    if (!ascii)
        return NULL;
    for (char *p = ascii; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    json = json_string(ascii);
    mem_free(ascii);
    return json;
}

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Add to an object that may have failed before: *ok says whether all went well. */
static void put(json_t *object, const char *key, json_t *take_value, int *ok)
{
    if (json_object_set_new(object, key, take_value) != 0)
        *ok = 0;
}

/* {"loss":..,"accuracy":..} */
static json_t *results(const struct summary *s, double loss, const double *metric, int *ok)
{
    json_t *object = json_object();
    put(object, "loss", json_number(loss), ok);
    for (uint32_t i = 0; i < s->metrics; i++)
        put(object, s->metric_name[i], json_number(metric[i]), ok);
    return object;
}

static json_t *batches(const struct summary *s, int *ok)
{
    json_t *object = json_object();
    put(object, "dealt", count(s->dealt), ok);
    put(object, "applied_min", count(s->applied_min), ok);
    put(object, "applied_max", count(s->applied_max), ok);
    put(object, "duplicates", count(s->duplicates), ok);
    put(object, "lost", count(s->lost), ok);
    put(object, "clipped", count(s->clipped), ok);
    put(object, "dropped", count(s->dropped), ok);
    put(object, "redone", count(s->redone), ok);
    put(object, "rejected", count(s->rejected), ok);
    put(object, "recoveries", count(s->recoveries), ok);
    return object;
}

static json_t *history(const struct summary *s, int *ok)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->history_epochs; i++) {
        const struct summary_epoch *from = &s->history[i];
        json_t *one = json_object();
        put(one, "epoch", count(from->epoch), ok);
        put(one, "seconds", json_number(from->seconds), ok);
        put(one, "eval", results(s, from->eval_loss, from->eval_metric, ok), ok);
        if (json_array_append_new(all, one) != 0)
            *ok = 0;
    }
    return all;
}

static json_t *accounts(const struct summary *s, int *ok)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->accounts; i++) {
        const struct summary_worker *from = &s->account[i];
        json_t *one = json_object();
        put(one, "worker", count(from->worker), ok);
        put(one, "tasks", count(from->tasks), ok);
        put(one, "examples", json_number(from->examples), ok);
        put(one, "computed_s", json_number(from->computed_s), ok);
        put(one, "waited_s", json_number(from->waited_s), ok);
        put(one, "bytes_out", count(from->bytes_out), ok);
        put(one, "bytes_in", count(from->bytes_in), ok);
        put(one, "dropped", count(from->dropped), ok);
        if (json_array_append_new(all, one) != 0)
            *ok = 0;
    }
    return all;
}

static json_t *mean_staleness(const struct staleness *of)
{
    return of->count ? json_real((double)of->sum / (double)of->count) : json_null();
}

/* The least staleness of each bucket, up to the last one that is of use. */
static json_t *buckets(const struct staleness *of, int *ok, int bounds)
{
    json_t *list = json_array();
    uint32_t end = of->count ? staleness_bucket(of->max) + 1 : 0;
    for (uint32_t i = 0; i < end; i++)
        if (json_array_append_new(list, count(bounds ? staleness_least(i) : of->bucket[i])) != 0)
            *ok = 0;
    return list;
}

static json_t *staleness(const struct summary *s, int *ok)
{
    struct staleness all = {0};
    json_t *object = json_object(), *workers = json_array();
    for (size_t i = 0; i < s->stales; i++)
        staleness_join(&all, &s->stale[i].counted);
    put(object, "mean", mean_staleness(&all), ok);
    put(object, "max", count(all.max), ok);
    put(object, "from", buckets(&all, ok, 1), ok);
    for (size_t i = 0; i < s->stales; i++) {
        const struct staleness *of = &s->stale[i].counted;
        json_t *one = json_object();
        put(one, "worker", count(s->stale[i].worker), ok);
        put(one, "mean", mean_staleness(of), ok);
        put(one, "max", count(of->max), ok);
        put(one, "histogram", buckets(of, ok, 0), ok);
        if (json_array_append_new(workers, one) != 0)
            *ok = 0;
    }
    put(object, "workers", workers, ok);
    return object;
}

static json_t *codec(const struct summary_codec *c, int *ok)
{
    json_t *object = json_object();
    put(object, "codec", text_or_null(c->codec), ok);
    put(object, "raw_bytes", count(c->raw_bytes), ok);
    put(object, "bytes", count(c->bytes), ok);
    put(object, "ratio", json_number((double)c->raw_bytes / (double)c->bytes), ok);
    put(object, "encode_s", json_number(c->encode_s), ok);
    put(object, "decode_s", json_number(c->decode_s), ok);
    put(object, "error", json_number(c->error), ok);
    if (c->feedback)
        put(object, "residuals_lost", count(c->residuals_lost), ok);
    return object;
}

static json_t *compression(const struct summary *s, int *ok)
{
    json_t *object = json_object();
    put(object, "push", codec(&s->push, ok), ok);
    put(object, "reply", codec(&s->reply, ok), ok);
    return object;
}

static json_t *evaluator(const struct summary *s, int *ok)
{
    json_t *object = json_object();
    put(object, "cut", s->evaluated ? count(s->evaluated_cut) : json_null(), ok);
    put(object, "step", s->evaluated ? count(s->evaluated_step) : json_null(), ok);
    put(object, "final", json_boolean(s->evaluated_final), ok);
    return object;
}

/* Keys in the order in which they are read. */
static json_t *document(const struct summary *s, int *ok)
{
    json_t *all = json_object();
    put(all, "status", text_or_null(s->status), ok);
    put(all, "exit_code", json_integer(s->exit_code), ok);
    put(all, "error", text_or_null(s->error), ok);
    put(all, "job", text_or_null(s->job), ok);
    put(all, "update", text_or_null(s->update), ok);
    put(all, "ps", count(s->ps), ok);
    put(all, "workers", count(s->workers), ok);
    put(all, "microbatches", count(s->microbatches), ok);
    put(all, "steps", count(s->steps), ok);
    put(all, "epochs", count(s->epochs), ok);
    put(all, "train", results(s, s->train_loss, s->train_metric, ok), ok);
    put(all, "eval", results(s, s->eval_loss, s->eval_metric, ok), ok);
    put(all, "examples_per_s", json_number(s->examples_per_s), ok);
    put(all, "seconds", json_number(s->seconds), ok);
    put(all, "first_step_s", json_number(s->first_step_s), ok);
    put(all, "peak_rss_bytes", json_object(), ok);
    put(all, "restarts", count(s->restarts), ok);
    put(all, "batches", batches(s, ok), ok);
    put(all, "exact", json_boolean(s->exact), ok);
    put(all, "digest", text_or_null(s->digest && s->digest[0] ? s->digest : NULL), ok);
    put(all, "staleness", s->stales ? staleness(s, ok) : json_null(), ok);
    put(all, "history", history(s, ok), ok);
    put(all, "per_worker", accounts(s, ok), ok);
    put(all, "compression", compression(s, ok), ok);
    put(all, "evaluator", s->has_evaluator ? evaluator(s, ok) : json_null(), ok);
    put(all, "learning_rate", json_number(s->learning_rate), ok);
    put(all, "averaged", json_boolean(s->averaged), ok);
    return all;
}

enum err export_summary(const char *path, const struct summary *s, struct errmsg *e)
{
    int ok = 1;
    json_t *all = document(s, &ok);
    char *text = ok ? json_dumps(all, JSON_INDENT(2)) : NULL; /* reals by %.17g: they read back */
    json_decref(all);
    if (!text)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in the place of the NUL: files are written by length */
    enum err err = files_write(path, text, bytes + 1, e);
    free(text);
    return err;
}
