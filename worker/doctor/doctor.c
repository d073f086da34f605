#include "worker/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/signals.h"
#include "common/base/version.h"
#include "worker/doctor/check.h"

static const struct {
    const char *name;
    void (*check)(struct check *p, struct finding *f);
} checks[] = {
    /* each check may use the results of those above it */
    {"version", check_version}, {"cluster", check_cluster},
    {"job", check_job},         {"data", check_data},
    {"weights", check_weights}, {"export", check_exports},
    {"token", check_token},     {"certificates", check_certificates},
    {"names", check_names},     {"port", check_port},
    {"peers", check_peers},     {"versions", check_versions},
    {"clocks", check_clocks},   {"tables", check_tables},
    {"memory", check_memory},   {"checkpoint", check_checkpoint},
    {"grace", check_grace},
};

enum { CHECKS = sizeof checks / sizeof checks[0], EXIT_WRONG = 2 };

static const struct {
    const char *name;
    void (*check)(struct check *p, struct finding *f);
} crew_checks[] = {{"model", check_crew_model}, {"memory", check_crew_memory}};

static void print_line(const struct finding *f)
{
    char line[2048];
    if (f->verdict == VERDICT_NONE)
        return;
    finding_line(f, line, sizeof line);
    (void)puts(line);
    (void)fflush(stdout);
}

static void print_json(const struct finding *all, bool failed)
{
    json_t *list = json_array();
    for (size_t i = 0; i < CHECKS; i++)
        if (all[i].verdict != VERDICT_NONE)
            (void)json_array_append_new(list, finding_json(&all[i]));
    json_t *root =
        json_pack("{s:s, s:b, s:o}", "version", GRADWIRE_VERSION, "ok", !failed, "checks", list);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    (void)puts(text ? text : "{}");
    free(text);
    json_decref(root);
}

/* Write the failures, one a line, as the container's termination message. */
static void leave_words(const struct flags *flags, const struct finding *all)
{
    char text[TERMINATION_BYTES];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < CHECKS && at + 2 < sizeof text; i++) {
        if (all[i].verdict != VERDICT_FAIL)
            continue;
        if (at)
            text[at++] = '\n';
        finding_line(&all[i], text + at, sizeof text - at);
        at += strlen(text + at);
    }
    termination_write(flags->termination_message, at ? text : "done");
}

static void check_close(struct check *p)
{
    model_free(p->model);
    schema_unref(p->schema);
    taught_close(&p->taught);
    mem_free(p->visit);
    mem_free(p->reach);
    if (p->has_job)
        job_close(&p->job);
    if (p->has_cluster)
        cluster_close(&p->cluster);
}

int doctor_run_crew(const struct flags *flags)
{
    static struct check p;
    enum verdict worst = VERDICT_NONE;
    p.flags = flags;
    log_init("doctor", LOG_ERROR);
    if (!check_crew_read(&p.crew, flags->doctor_crew)) {
        (void)fprintf(stderr, "--crew=%s: expected PS,WORKERS,EVALUATORS,ALL_PS,ALL_WORKERS\n",
                      PRINTABLE(flags->doctor_crew));
        return EXIT_WRONG;
    }
    for (size_t i = 0; i < sizeof crew_checks / sizeof crew_checks[0]; i++) {
        struct finding f = {.name = crew_checks[i].name};
        crew_checks[i].check(&p, &f);
        print_line(&f);
        worst = f.verdict > worst ? f.verdict : worst;
    }
    check_close(&p);
    return worst == VERDICT_FAIL ? EXIT_WRONG : 0;
}

/* The verdict of all checks, and what to do next. */
static void print_end(const struct finding *all)
{
    unsigned failed = 0, warned = 0;
    for (size_t i = 0; i < CHECKS; i++) {
        failed += all[i].verdict == VERDICT_FAIL;
        warned += all[i].verdict == VERDICT_WARN;
    }
    if (failed)
        (void)puts("The job cannot start: fix the lines that begin with FAIL.");
    else
        (void)puts(warned ? "The job can start; read the warnings." : "The job can start.");
}

int doctor_run(const struct flags *flags)
{
    static struct check p;
    static struct finding all[CHECKS];
    bool failed = false;
    p.flags = flags;
    log_init("doctor", LOG_ERROR); /* all results are in the printed lines */
    for (size_t i = 0; i < CHECKS; i++) {
        all[i].name = checks[i].name;
        checks[i].check(&p, &all[i]);
        failed |= all[i].verdict == VERDICT_FAIL;
        if (!flags->doctor_json)
            print_line(&all[i]);
    }
    if (flags->doctor_json)
        print_json(all, failed);
    else
        print_end(all);
    leave_words(flags, all);
    check_close(&p);
    return failed ? EXIT_WRONG : 0;
}
