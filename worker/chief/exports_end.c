#include "worker/chief/exports_end.h"

#include <limits.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/formats/export.h"
#include "common/process/child.h"
#include "common/process/files.h"
#include "common/process/signals.h"
#include "common/process/output.h"
#include "worker/control/progress.h"

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
