/* The last work on the files of model/ and best/: tables, then the manifest, which vouches for all of them. */
#include "worker/chief/model_end.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/place/place.h"
#include "export/export.h"
#include "common/process/output.h"
#include "common/base/log.h"
#include "common/formats/export.h"
#include "common/process/child.h"
#include "common/process/files.h"
#include "common/process/signals.h"
#include "worker/control/progress.h"

/* ---- tables ---- */

enum err model_end_tables(const struct cut_tables *t, const struct manifest *final,
                          const struct best *best, char digest[65], struct errmsg *e)
{
    struct cut_tables to = *t;
    struct manifest m;
    char of_best[65];
    bool restores = t->job->early_stopping.restore_best_weights;
    if (!best->has || best->gone)
        return cut_tables_export(&to, final, digest, e);
    enum err err = checkpoint_load((struct cut){t->checkpoints, best->cut}, &m, e);
    if (err)
        return err_wrap(e, err, "the best epoch's rows: ");
    if (m.crc != best->cut_manifest) {
        manifest_close(&m);
        return err_set(e, ERR_CORRUPT,
                       "the best epoch's rows: checkpoint %" PRIu64 " in %s is another one by now",
                       best->cut, t->checkpoints->where);
    }
    err = cut_tables_export(&to, restores ? &m : final, digest, e);
    to.to = &best->place;
    if (!err)
        err = cut_tables_export(&to, &m, of_best, e);
    manifest_close(&m);
    return err;
}

/* ---- the manifest ---- */

static enum err note(const struct place *at, const char *key, char *out, size_t bytes,
                     struct errmsg *e)
{
    bool there;
    enum err err = export_note(at, key, out, bytes, &there, e);
    if (err || there)
        return err;
    return err_set(e, ERR_CORRUPT, "%s/" EXPORT_WEIGHTS ": its metadata have no `%s`", at->where,
                   key);
}

/* The evaluator's result of the final checkpoint; NULL: there is none. */
static const struct eval_result *judged(const struct model_end *end)
{
    return end->evaluator ? eval_log_of(end->evaluator, end->final) : NULL;
}

/* The step and the digest are those of the weights in the folder. */
static enum err write_one(const struct model_end *end, const char *name, uint64_t epoch,
                          const struct evaluation *eval, struct errmsg *e)
{
    const struct epoch_end_config *c = end->config;
    char step[24], digest[65];
    struct place at;
    const struct epoch_line *line = epoch_log_find(c->log, epoch);
    place_of_job(&at, c->output, name);
    enum err err = export_read_safetensors(&at, model_layout(c->model), NULL, e);
    if (!err)
        err = note(&at, "step", step, sizeof step, e);
    if (!err)
        err = note(&at, "digest", digest, sizeof digest, e);
    if (err)
        return err;
    const struct eval_result *final = judged(end);
    const struct model_manifest_evaluator evaluator = {
        .rows = final ? (uint64_t) final->examples : 0,
        .fingerprint = final ? end->evaluator->data : NULL};
    const struct model_manifest m = {.job = c->job,
                                     .model = c->model,
                                     .data = c->data,
                                     .eval = c->eval,
                                     .evaluator = final ? &evaluator : NULL,
                                     .step = strtoull(step, NULL, 10),
                                     .epoch = epoch,
                                     .trained = line ? &line->trained : NULL,
                                     .evaluated = eval,
                                     .digest = digest};
    return model_manifest_write(&m, &at, e);
}

/* The last evaluation of the weights at the job's end; NULL: there was none. */
static const struct evaluation *last_eval(const struct model_end *end)
{
    if (!end->evaluator)
        return end->learned->has_eval ? &end->learned->eval : NULL;
    const struct eval_result *final = judged(end);
    return final ? &final->eval : NULL;
}

enum err model_end_write(const struct model_end *end, struct errmsg *e)
{
    const struct best *best = end->config->best;
    const struct epoch_log *log = end->config->log;
    uint64_t last = log->n ? log->line[log->n - 1].epoch : 0;
    bool restores = epoch_end_restores_best(end->config);
    enum err err = restores ? write_one(end, OUTPUT_MODEL, best->epoch, &best->eval, e)
                            : write_one(end, OUTPUT_MODEL, last, last_eval(end), e);
    if (!err && best->has && !best->gone)
        err = write_one(end, OUTPUT_BEST, best->epoch, &best->eval, e);
    return err;
}

enum { PATH_BYTES = FILES_PATH_MAX + 64, FLAG_BYTES = PATH_BYTES + 16 };

enum err exports_end_check(const struct job *job, struct errmsg *e)
{
    char program[PATH_MAX];
    enum err err = job->exports ? program_beside(program, "model", e) : ERR_OK;
    return err ? job_blame(job, PLACE_EXPORT, err_wrap(e, err, "export: "), e) : ERR_OK;
}

/* `export` does not overwrite a directory of an earlier one. */
static enum err remove_folder(const char *path, struct errmsg *e)
{
    char tables[PATH_BYTES + 16];
    (void)snprintf(tables, sizeof tables, "%s/tables", path);
    enum err err = files_remove_folder(tables, e);
    return err ? err : files_remove_folder(path, e);
}

static enum err run(const struct job *job, const char *output, enum export_format format,
                    struct errmsg *e)
{
    char program[PATH_MAX], path[PATH_BYTES], to[FLAG_BYTES], as[64], what[64];
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_EXPORT "/%s", output,
                   export_format_file(format));
    (void)snprintf(to, sizeof to, "--output=%s", path);
    (void)snprintf(as, sizeof as, "--format=%s", export_format_word(format));
    (void)snprintf(what, sizeof what, "export: %s", export_format_word(format));
    const char *const argv[] = {"gradwire-model", "export", output, as, to, NULL};
    const struct child_call call = {.program = program,
                                    .argv = argv,
                                    .what = what,
                                    .deadline_ms = job->timeouts.export_s * 1000U,
                                    .ends = signals_held};
    enum err err = program_beside(program, "model", e);
    if (!err && format == EXPORT_SAFETENSORS)
        err = remove_folder(path, e);
    return err ? err : child_run(&call, e);
}

void exports_end_run(const struct job *job, const char *output, int progress_fd,
                     struct exports_end *out)
{
    char folder[PATH_BYTES];
    *out = (struct exports_end){.n = 0};
    (void)snprintf(folder, sizeof folder, "%s/" OUTPUT_EXPORT, output);
    files_clean(folder, true); /* of an exporter that was killed with its chief */
    for (int i = 0; i < EXPORT_FORMATS; i++) {
        enum export_format format = (enum export_format)i;
        struct errmsg e = {""};
        if (!(job->exports >> i & 1))
            continue;
        out->of[out->n].format = format;
        if (run(job, output, format, &e)) {
            (void)snprintf(out->of[out->n].error, sizeof out->of->error, "%s", e.text);
            out->interrupted |= signals_held();
            log_warn("export: %s: %s; the job is done: run it again to export again",
                     export_format_word(format), e.text);
        } else {
            log_info("export: %s: %s/export/%s", export_format_word(format), output,
                     export_format_file(format));
            progress_say(progress_fd, "exported %s/export/%s", output, export_format_file(format));
        }
        out->n++;
    }
}
