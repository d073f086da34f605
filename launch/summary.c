#include "launch/summary.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/json.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "launch/base/rundir.h"

static const char *summary_status(int exit_code)
{
    if (exit_code == 0)
        return "done";
    return exit_code == SUPERVISOR_EXIT_INT || exit_code == SUPERVISOR_EXIT_TERM ? "interrupted"
                                                                                 : "failed";
}

static void summary_set(json_t *summary, const char *key, json_t *take_value)
{
    (void)json_object_set_new(summary, key, take_value ? take_value : json_null());
}

/* Make a summary from the launcher's own knowledge, for a job whose chief wrote none. */
static json_t *summary_alone(const struct supervisor_result *result, const struct options *o,
                             const struct job *job)
{
    return json_pack("{s:s, s:i, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "status",
                     summary_status(result->exit_code), "exit_code", result->exit_code, "error",
                     *result->error ? json_text(result->error) : json_null(), "job", job->name,
                     "update", job_update_word(job->training.update), "ps", (json_int_t)o->ps,
                     "workers", (json_int_t)options_trainers(o), "microbatches",
                     (json_int_t)job->training.microbatches, "steps", (json_int_t)result->step,
                     "epochs", result->epoch > 0 ? (json_int_t)result->epoch - 1 : (json_int_t)0);
}

static json_t *summary_rss(const struct crew *crew)
{
    json_t *rss = json_object();
    for (uint32_t i = 0; i < crew->n; i++)
        summary_set(rss, crew->process[i].name,
                    json_integer((json_int_t)crew->process[i].peak_rss_bytes));
    return rss;
}

/* Why the job ended. A chief that was asked to go says only what it left, so the launcher's reason comes first. A chief that
 * failed by itself knows better. */
static void summary_agree_on_error(json_t *summary, const char *reason, bool asked)
{
    const char *error = json_string_value(json_object_get(summary, "error"));
    if (!error || !*error)
        summary_set(summary, "error", json_text(reason));
    else if (asked)
        summary_set(summary, "error", json_sprintf("%s; %s", reason, error));
}

static void summary_agree_on_status(json_t *summary, const struct supervisor_result *result)
{
    const char *interrupted = summary_status(SUPERVISOR_EXIT_INT);
    const char *status = summary_status(result->exit_code);
    const char *was = json_string_value(json_object_get(summary, "status"));
    bool asked = strcmp(status, interrupted) == 0 || (was && strcmp(was, interrupted) == 0);
    if (!was || strcmp(was, status) != 0)
        summary_set(summary, "status", json_string(status));
    if (*result->error)
        summary_agree_on_error(summary, result->error, asked);
}

enum err summary_complete(const char *dir, const struct supervisor_result *result,
                          const struct options *o, const struct job *job, const struct crew *crew,
                          struct errmsg *e)
{
    char path[PATH_MAX];
    enum err err = rundir_file(dir, OUTPUT_SUMMARY, path, e);
    if (err)
        return err;
    json_t *summary = json_load_file(path, 0, NULL);
    if (!json_is_object(summary)) {
        json_decref(summary);
        summary = summary_alone(result, o, job);
    }
    summary_agree_on_status(summary, result);
    summary_set(summary, "exit_code", json_integer(result->exit_code));
    summary_set(summary, "first_step_s",
                isnan(result->first_step_s) ? json_null() : json_real(result->first_step_s));
    summary_set(summary, "restarts", json_integer(result->restarts));
    summary_set(summary, "peak_rss_bytes", summary_rss(crew));
    return files_write_json(path, summary, JSON_INDENT(2), e);
}

bool summary_restore(const char *dir)
{
    char path[PATH_MAX], before[PATH_MAX];
    if (rundir_file(dir, OUTPUT_SUMMARY, path, NULL) ||
        rundir_file(dir, OUTPUT_SUMMARY_BEFORE, before, NULL) || access(path, F_OK) == 0)
        return false;
    json_t *summary = json_load_file(before, 0, NULL);
    const char *status = json_string_value(json_object_get(summary, "status"));
    bool done = status && strcmp(status, summary_status(0)) == 0;
    json_decref(summary);
    return done && rename(before, path) == 0;
}

enum summary_end summary_end(const char *dir)
{
    char path[PATH_MAX];
    if (rundir_file(dir, OUTPUT_SUMMARY, path, NULL))
        return SUMMARY_FAILED;
    if (access(path, F_OK) != 0)
        return SUMMARY_NONE;
    json_t *summary = json_load_file(path, 0, NULL);
    const char *status = json_string_value(json_object_get(summary, "status"));
    enum summary_end end = SUMMARY_FAILED;
    if (status && strcmp(status, summary_status(0)) == 0)
        end = SUMMARY_DONE;
    else if (status && strcmp(status, summary_status(SUPERVISOR_EXIT_INT)) == 0)
        end = SUMMARY_INTERRUPTED;
    json_decref(summary);
    return end;
}

/* ---- for people ---- */

static void summary_print_head(FILE *out, const json_t *s)
{
    const char *job = json_string_value(json_object_get(s, "job"));
    const char *status = json_string_value(json_object_get(s, "status"));
    const char *error = json_string_value(json_object_get(s, "error"));
    const json_t *seconds = json_object_get(s, "seconds"),
                 *rate = json_object_get(s, "examples_per_s");
    /* the seconds are those of the runs that trained */
    bool again = status && strcmp(status, summary_status(0)) == 0 &&
                 json_is_null(json_object_get(s, "first_step_s"));
    (void)fprintf(out, "%s: %s%s", PRINTABLE(job ? job : "job"), status ? status : "?",
                  again ? " before" : "");
    if (json_is_number(seconds))
        (void)fprintf(out, " in %.1f s", json_number_value(seconds));
    (void)fprintf(out, ", %lld epochs, %lld steps",
                  (long long)json_integer_value(json_object_get(s, "epochs")),
                  (long long)json_integer_value(json_object_get(s, "steps")));
    if (json_is_number(rate))
        (void)fprintf(out, ", %.0f examples/s", json_number_value(rate));
    (void)fprintf(out, "%s\n", again ? "; nothing was trained now" : "");
    bool asked = status && strcmp(status, "interrupted") == 0; /* the user ended it */
    if (error && *error)
        (void)fprintf(out, "  %s%s\n", asked ? "" : "error: ", PRINTABLE(error));
}

/* Print the numbers under `key` in one line, "  eval: loss 0.0712, accuracy 0.9789, auc -"; prints nothing if there are none.
 * Training does not compute some metrics, so `train` leaves out those without a number.
 * unit: numbers are whole multiples of it; 0: they are losses and metrics. */
static void summary_print_numbers(FILE *out, const json_t *s, const char *key, const char *title,
                                  double unit, const char *unit_name)
{
    char shown[DIGITS_SHOWN_BYTES];
    json_t *numbers = json_object_get(s, key), *value;
    const char *name;
    bool any = false;
    json_object_foreach(numbers, name, value)
    {
        if (any && !json_is_number(value) && strcmp(key, "eval") == 0)
            (void)fprintf(out, ", %s -", PRINTABLE(name));
        if (!json_is_number(value))
            continue;
        if (!any)
            (void)fprintf(out, "  %s: ", title);
        (void)fprintf(out, "%s%s ", any ? ", " : "", PRINTABLE(name));
        if (unit > 0)
            (void)fprintf(out, "%.0f%s", json_number_value(value) / unit, unit_name);
        else
            (void)fprintf(out, "%s", digits_shown(json_number_value(value), shown));
        any = true;
    }
    if (any)
        (void)fprintf(out, "\n");
}

static void summary_print_cluster(FILE *out, const json_t *s)
{
    const char *update = json_string_value(json_object_get(s, "update"));
    const json_t *first = json_object_get(s, "first_step_s");
    (void)fprintf(out, "  %s, %lld ps, %lld workers, %lld restarts", update ? update : "?",
                  (long long)json_integer_value(json_object_get(s, "ps")),
                  (long long)json_integer_value(json_object_get(s, "workers")),
                  (long long)json_integer_value(json_object_get(s, "restarts")));
    if (json_is_number(first))
        (void)fprintf(out, "; first step after %.2f s", json_number_value(first));
    (void)fprintf(out, "\n");
}

void summary_print(FILE *out, const char *dir)
{
    char path[PATH_MAX];
    json_t *s = rundir_file(dir, OUTPUT_SUMMARY, path, NULL) ? NULL : json_load_file(path, 0, NULL);
    if (!s)
        return;
    const char *digest = json_string_value(json_object_get(s, "digest"));
    summary_print_head(out, s);
    summary_print_numbers(out, s, "train", "train", 0, "");
    summary_print_numbers(out, s, "eval", "eval", 0, "");
    summary_print_numbers(out, s, "planted", "planted", 0, "");
    summary_print_cluster(out, s);
    summary_print_numbers(out, s, "peak_rss_bytes", "peak memory", 1e6, " MB");
    if (digest)
        (void)fprintf(out, "  digest %s\n", digest);
    (void)fprintf(out, "  %s\n", PRINTABLE(path));
    json_decref(s);
}
