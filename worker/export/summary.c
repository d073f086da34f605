/* summary.json: what a script reads at the end of a job. */
#include <stdint.h>

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

/* The same for a list. */
static void add(json_t *list, json_t *take_value, int *ok)
{
    if (json_array_append_new(list, take_value) != 0)
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

static json_t *batches(const struct summary *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "dealt", count(s->dealt),
                     "applied_min", count(s->applied_min), "applied_max", count(s->applied_max),
                     "duplicates", count(s->duplicates), "lost", count(s->lost), "clipped",
                     count(s->clipped), "dropped", count(s->dropped), "redone", count(s->redone),
                     "rejected", count(s->rejected), "recoveries", count(s->recoveries));
}

static json_t *history(const struct summary *s, int *ok)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->history_epochs; i++) {
        const struct summary_epoch *from = &s->history[i];
        add(all,
            json_pack("{s:o, s:o, s:o}", "epoch", count(from->epoch), "seconds",
                      json_number(from->seconds), "eval",
                      results(s, from->eval_loss, from->eval_metric, ok)),
            ok);
    }
    return all;
}

static json_t *accounts(const struct summary *s, int *ok)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->accounts; i++) {
        const struct summary_worker *from = &s->account[i];
        add(all,
            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "worker", count(from->worker),
                      "tasks", count(from->tasks), "examples", json_number(from->examples),
                      "computed_s", json_number(from->computed_s), "waited_s",
                      json_number(from->waited_s), "bytes_out", count(from->bytes_out), "bytes_in",
                      count(from->bytes_in), "dropped", count(from->dropped)),
            ok);
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
        add(list, count(bounds ? staleness_least(i) : of->bucket[i]), ok);
    return list;
}

static json_t *staleness(const struct summary *s, int *ok)
{
    struct staleness all = {0};
    json_t *workers = json_array();
    for (size_t i = 0; i < s->stales; i++) {
        const struct staleness *of = &s->stale[i].counted;
        staleness_join(&all, of);
        add(workers,
            json_pack("{s:o, s:o, s:o, s:o}", "worker", count(s->stale[i].worker), "mean",
                      mean_staleness(of), "max", count(of->max), "histogram", buckets(of, ok, 0)),
            ok);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", mean_staleness(&all), "max", count(all.max),
                     "from", buckets(&all, ok, 1), "workers", workers);
}

static json_t *codec(const struct summary_codec *c, int *ok)
{
    json_t *object = json_pack("{s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "codec", c->codec,
                               "raw_bytes", count(c->raw_bytes), "bytes", count(c->bytes), "ratio",
                               json_number((double)c->raw_bytes / (double)c->bytes), "encode_s",
                               json_number(c->encode_s), "decode_s", json_number(c->decode_s),
                               "error", json_number(c->error));
    if (c->feedback)
        put(object, "residuals_lost", count(c->residuals_lost), ok);
    return object;
}

static json_t *evaluator(const struct summary *s)
{
    return json_pack("{s:o, s:o, s:b}", "cut", s->evaluated ? count(s->evaluated_cut) : json_null(),
                     "step", s->evaluated ? count(s->evaluated_step) : json_null(), "final",
                     s->evaluated_final);
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
    put(all, "batches", batches(s), ok);
    put(all, "exact", json_boolean(s->exact), ok);
    put(all, "digest", text_or_null(s->digest && s->digest[0] ? s->digest : NULL), ok);
    put(all, "staleness", s->stales ? staleness(s, ok) : json_null(), ok);
    put(all, "history", history(s, ok), ok);
    put(all, "per_worker", accounts(s, ok), ok);
    put(all, "compression",
        json_pack("{s:o, s:o}", "push", codec(&s->push, ok), "reply", codec(&s->reply, ok)), ok);
    put(all, "evaluator", s->has_evaluator ? evaluator(s) : json_null(), ok);
    put(all, "learning_rate", json_number(s->learning_rate), ok);
    put(all, "averaged", json_boolean(s->averaged), ok);
    return all;
}

enum err export_summary(const char *path, const struct summary *s, struct errmsg *e)
{
    int ok = 1;
    json_t *all = document(s, &ok);
    if (!ok) {
        json_decref(all);
        all = NULL;
    }
    return files_write_json(path, all, JSON_INDENT(2), e);
}
