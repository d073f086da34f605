#include "worker/chief/epoch_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/crc32c.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "worker/evaluator/best.h"

enum { FILE_MAX_BYTES = 256 << 20 };

void epoch_log_close(struct epoch_log *l)
{
    mem_free(l->line);
    mem_free(l->evaluation);
    *l = (struct epoch_log){.n = 0};
}

/* ---- decisions ---- */

/* True if `at` does not come before the line, which is of its kind. */
static bool is_replaced(const struct epoch_line *at, const struct epoch_line *by)
{
    return by->epoch ? at->epoch >= by->epoch : at->step >= by->step;
}

enum err epoch_log_add(struct epoch_log *l, const struct epoch_line *line)
{
    struct epoch_line **lines = line->epoch ? &l->line : &l->evaluation;
    size_t *count = line->epoch ? &l->n : &l->evaluations, n = *count;
    while (n && is_replaced(&(*lines)[n - 1], line))
        n--;
    struct epoch_line *grown = mem_resize(*lines, n + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    grown[n] = *line;
    *lines = grown;
    *count = n + 1;
    return ERR_OK;
}

bool epoch_log_restore(struct epoch_log *l, uint64_t step)
{
    const size_t before = l->n + l->evaluations;
    while (l->n && l->line[l->n - 1].step > step)
        l->n--;
    while (l->evaluations && l->evaluation[l->evaluations - 1].step > step)
        l->evaluations--;
    return l->n + l->evaluations < before;
}

bool epoch_log_begin(struct epoch_log *l, const char *uuid)
{
    bool drops = l->n + l->evaluations > 0 && strcmp(l->uuid, uuid) != 0;
    if (drops)
        l->n = l->evaluations = 0;
    (void)snprintf(l->uuid, sizeof l->uuid, "%s", uuid);
    return drops;
}

const struct epoch_line *epoch_log_find(const struct epoch_log *l, uint64_t epoch)
{
    for (size_t i = l->n; i > 0; i--)
        if (l->line[i - 1].epoch == epoch)
            return &l->line[i - 1];
    return NULL;
}

const struct epoch_line *epoch_log_best(const struct epoch_log *l, uint64_t epoch)
{
    for (size_t i = l->n; i > 0; i--)
        if (l->line[i - 1].best && l->line[i - 1].epoch <= epoch)
            return &l->line[i - 1];
    return NULL;
}

uint64_t epoch_log_whole(const struct epoch_log *l, uint64_t from)
{
    for (size_t i = 0; i < l->n; i++)
        from += l->line[i].epoch == from + 1;
    return from;
}

void epoch_log_name_data(struct epoch_line *line, const struct contents *data)
{
    char hex[CONTENTS_HEX_BYTES];
    contents_hex(data, hex);
    (void)snprintf(line->data, sizeof line->data, "%.*s", EPOCH_DATA_BYTES - 1, hex);
}

static const struct epoch_line *last_other(const struct epoch_line *line, size_t n,
                                           const struct contents *data)
{
    while (n && (!*line[n - 1].data || contents_same_hex(data, line[n - 1].data)))
        n--;
    return n ? &line[n - 1] : NULL;
}

const struct epoch_line *epoch_log_other_data(const struct epoch_log *l,
                                              const struct contents *data)
{
    const struct epoch_line *epoch = last_other(l->line, l->n, data),
                            *within = last_other(l->evaluation, l->evaluations, data);
    return !epoch || (within && within->step > epoch->step) ? within : epoch;
}

static bool equal_bits(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool equal_results(const struct evaluation *a, const struct evaluation *b, uint32_t metrics)
{
    bool same = equal_bits(a->loss, b->loss) && equal_bits(a->auc_error, b->auc_error);
    for (uint32_t i = 0; i < metrics; i++)
        same = same && equal_bits(a->metric[i], b->metric[i]);
    return same;
}

bool epoch_line_equal(const struct epoch_line *a, const struct epoch_line *b, uint32_t metrics)
{
    return a->epoch == b->epoch && a->step == b->step && a->has_eval == b->has_eval &&
           equal_results(&a->trained, &b->trained, metrics) &&
           (!a->has_eval || equal_results(&a->eval, &b->eval, metrics));
}

/* ---- text ---- */

/* The key is there only if the line has it. */
static const char best_by[] = "best_by";

/* How a line ends: with the CRC-32C of all that stands before. Lines of 0.1.0 end without it. */
enum { CRC_BYTES = sizeof ",\"crc\":\"01234567\"}" - 1 };

static void crc_text(char out[CRC_BYTES + 1], const char *line, size_t bytes)
{
    (void)snprintf(out, CRC_BYTES + 1, ",\"crc\":\"%08" PRIx32 "\"}", crc32c(0, line, bytes));
}

/* False: the line has a checksum, and this is not what was written. */
static bool crc_fits(const char *line, size_t bytes)
{
    char is[CRC_BYTES + 1];
    if (bytes < CRC_BYTES || memcmp(line + bytes - CRC_BYTES, ",\"crc\":", 7) != 0)
        return true;
    crc_text(is, line, bytes - CRC_BYTES);
    return memcmp(line + bytes - CRC_BYTES, is, CRC_BYTES) == 0;
}

static char *line_text(const struct epoch_line *line, const char *uuid, const struct job *job)
{
    const char *monitor = line->best ? best_monitor_name(job) : NULL;
    const bool within = !line->epoch;
    json_t *all = json_pack("{s:s, s:o*, s:I, s:o, s:o*, s:o, s:s*, s:s*}", "job", uuid, "epoch",
                            within ? NULL : json_integer((json_int_t)line->epoch), "step",
                            (json_int_t)line->step, "seconds", json_number(line->seconds), "train",
                            within ? NULL : evaluation_json(job, &line->trained), "eval",
                            line->has_eval ? evaluation_json(job, &line->eval) : json_null(),
                            "eval_data", *line->data ? line->data : NULL, best_by, monitor);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

/* Add a line to the text, which is freed without memory. */
static char *append_text(char *all, size_t *bytes, const struct epoch_line *of, const char *uuid,
                         const struct job *job)
{
    char *line = all ? line_text(of, uuid, job) : NULL;
    size_t more = line ? strlen(line) - 1 : 0; /* without the last brace */
    char *grown = line ? mem_resize(all, *bytes + more + CRC_BYTES + 2, 1) : NULL;
    if (!grown) {
        mem_free(all);
    } else {
        memcpy(grown + *bytes, line, more);
        crc_text(grown + *bytes + more, line, more);
        *bytes += more + CRC_BYTES;
        grown[(*bytes)++] = '\n';
        grown[*bytes] = '\0';
    }
    free(line);
    return grown;
}

char *epoch_log_text(const struct epoch_log *l, const struct job *job,
                     const struct epoch_line *only)
{
    size_t bytes = 0;
    char *all = mem_zalloc(1, 1);
    if (only)
        return append_text(all, &bytes, only, l->uuid, job);
    for (size_t i = 0; all && i < l->n; i++)
        all = append_text(all, &bytes, &l->line[i], l->uuid, job);
    for (size_t i = 0; all && i < l->evaluations; i++)
        all = append_text(all, &bytes, &l->evaluation[i], l->uuid, job);
    return all;
}

static bool line_of(const json_t *one, const struct job *job, const char **uuid,
                    struct epoch_line *line)
{
    const json_t *trained = json_object_get(one, "train"), *eval = json_object_get(one, "eval");
    const char *data = json_string_value(json_object_get(one, "eval_data"));
    *uuid = json_string_value(json_object_get(one, "job"));
    const char *by = json_string_value(json_object_get(one, best_by));
    *line = (struct epoch_line){.seconds = json_number_at(one, "seconds"),
                                .trained = evaluation_read(job, trained, json_number_at),
                                .has_eval = json_is_object(eval),
                                .eval = evaluation_read(job, eval, json_number_at),
                                /* the best by another monitor is not the best */
                                .best = by && job->training.monitor != MONITOR_NONE &&
                                        strcmp(by, best_monitor_name(job)) == 0};
    (void)snprintf(line->data, sizeof line->data, "%s", data ? data : "");
    const bool whole = json_is_object(trained) && json_count_at(one, "epoch", &line->epoch) &&
                       line->epoch > 0,
               within = !trained && !json_object_get(one, "epoch") && line->has_eval;
    return *uuid && (whole || within) && !isnan(line->seconds) &&
           json_count_at(one, "step", &line->step);
}

/* Adds a line (without its newline). *damaged: it was skipped. Errors: ERR_NOMEM. */
static enum err take_line(struct epoch_log *l, const struct job *job, const char *at, size_t bytes,
                          bool *damaged)
{
    const char *uuid;
    struct epoch_line line;
    enum err err = ERR_OK;
    json_t *one = crc_fits(at, bytes) ? json_loadb(at, bytes, 0, NULL) : NULL;
    *damaged = !one || !line_of(one, job, &uuid, &line);
    if (!*damaged) {
        (void)epoch_log_begin(l, uuid);
        err = epoch_log_add(l, &line);
    }
    json_decref(one);
    return err;
}

enum err epoch_log_parse(struct epoch_log *l, const struct job *job, const char *text, size_t bytes,
                         struct epoch_damage *d)
{
    enum err err = ERR_OK;
    const char *end, *at = text;
    *d = (struct epoch_damage){0};
    for (size_t n = 1; !err && (end = memchr(at, '\n', bytes - (size_t)(at - text))); n++) {
        bool damaged;
        err = take_line(l, job, at, (size_t)(end - at), &damaged);
        if (damaged && !d->damaged++)
            d->first = n;
        at = end + 1;
    }
    return err;
}

/* ---- the file ---- */

void epoch_log_path(char out[4200], const char *output)
{
    (void)snprintf(out, 4200, "%s/" OUTPUT_HISTORY, output);
}

enum err epoch_log_read(struct epoch_log *l, const struct job *job, const char *output,
                        struct epoch_damage *d, struct errmsg *e)
{
    char path[4200];
    uint8_t *text;
    size_t bytes;
    *d = (struct epoch_damage){0};
    epoch_log_path(path, output);
    enum err err = files_read_regular(path, FILE_MAX_BYTES, &text, &bytes, e);
    if (err)
        return err == ERR_NOTFOUND ? ERR_OK : err;
    err = epoch_log_parse(l, job, (const char *)text, bytes, d);
    mem_free(text);
    return err ? err_set(e, err, "%s: out of memory", path) : ERR_OK;
}
