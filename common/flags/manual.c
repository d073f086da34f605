#include "common/flags/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/roff.h"
#include "common/base/version.h"
#include "common/flags/table.h"
#include "job/keys.h"

#define MANUAL_DATE "November 26, 2026" /* of the last change that readers should notice */

/* The commands of gradwire(1), in its order. */
static const char *const commands[] = {"train",  "rank",   "lr-finder", "doctor",   "status",
                                       "logs",   "stop",   "old",       "evaluate", "predict",
                                       "encode", "export", "compare"};

static const struct variable {
    unsigned programs;
    const char *name, *text;
} variables[] = {
    {FLAGS_PROCESS, "TF_CONFIG",
     "The role of the process and its peers, as JSON. Flags take precedence."},
    {FLAGS_CLUSTER, "GRADWIRE_BIN_DIR", "The directory of the programs ps, worker and hdf5."},
    {FLAGS_CLUSTER, "GRADWIRE_RSH", "The command to use instead of ssh."},
    {FLAGS_CLUSTER, "NO_COLOR", "If set, print no colors and no progress bar."},
};

static const struct flags_program *find_program(const char *name)
{
    const struct flags_program *p = flags_programs;
    while (p->name && strcmp(p->name, name) != 0)
        p++;
    return p;
}

static void head(FILE *out, const char *page, int section, const char *about)
{
    fputs(".Dd " MANUAL_DATE "\n.Dt ", out);
    for (const char *c = page; *c; c++)
        fputc(toupper((unsigned char)*c), out);
    fprintf(out, " %d\n.Os gradwire %s\n.Sh NAME\n.Nm %s\n.Nd %s\n", section, GRADWIRE_VERSION,
            page, about);
}

/* ".Nm gradwire", then the rest of a usage such as "gradwire train JOB". */
static void synopsis(FILE *out, const char *name, const char *usage)
{
    fprintf(out, ".Nm %s\n", name);
    usage += strcspn(usage, " ");
    while (*(usage += strspn(usage, " "))) {
        size_t n = strcspn(usage, " "), flag = strcspn(usage, "=");
        if (strncmp(usage, "--", 2) == 0 && flag < n)
            fprintf(out, ".Fl \\-%.*s Ns = Ns Ar %.*s\n", (int)flag - 2, usage + 2,
                    (int)(n - flag - 1), usage + flag + 1);
        else if (*usage == '[')
            fprintf(out, ".Op Ar %.*s%s\n", (int)strcspn(usage + 1, "]"), usage + 1,
                    n > 3 && strncmp(usage + n - 3, "...", 3) == 0 ? " ..." : "");
        else
            fprintf(out, ".%s %.*s\n", isupper((unsigned char)*usage) ? "Ar" : "Cm", (int)n, usage);
        usage += n;
    }
    fputs(".Op Ar FLAG ...\n", out);
}

static void write_flag(FILE *out, const struct flag *f)
{
    fprintf(out, ".It Fl \\-%s", f->name);
    if (f->value) {
        fprintf(out, "%s", f->kind == FLAG_LIST ? " Ar " : " Ns = Ns Ar ");
        roff_word(out, f->value, strlen(f->value));
    }
    if (f->letter)
        fprintf(out, " , Fl %c", f->letter);
    fputs("\n", out);
    roff_text(out, f->help, strlen(f->help));
}

/* The flags of a program. Its groups are headed, or `flat`: in one list, without those that every program has. */
static void write_flags(FILE *out, const struct flags_program *p, bool flat)
{
    bool open = false;
    for (const struct flag *f = flags_table; f->programs; f++) {
        if (!(f->programs & p->is) || !f->help ||
            (flat && (f->kind == FLAG_HEADING || f->programs == FLAGS_ALL)))
            continue;
        if (f->kind == FLAG_HEADING) {
            fprintf(out, "%s.Ss %.*s\n", open ? ".El\n" : "", (int)strcspn(f->help, ":"), f->help);
            open = false;
            continue;
        }
        if (!open)
            fputs(".Bl -tag -width Ds\n", out);
        open = true;
        write_flag(out, f);
    }
    if (open)
        fputs(".El\n", out);
}

/* "0 done, 1 failed.\n" as a list. */
static void write_codes(FILE *out, const char *at)
{
    fputs(".Bl -tag -width 4n -compact\n", out);
    while (*(at += strspn(at, " ,.\n"))) {
        const char *end = at;
        while (*end && !(*end == ',' && isdigit((unsigned char)end[2])) && strcmp(end, ".\n") != 0)
            end++;
        size_t code = strspn(at, "0123456789");
        fprintf(out, ".It %.*s\n", (int)code, at);
        roff_text(out, at + code, (size_t)(end - at) - code);
        at = end;
    }
    fputs(".El\n", out);
}

/* The end of a help: lines, then "Exit codes: 0 done, 1 failed." up to the end. */
static void write_end(FILE *out, const char *text, bool first)
{
    static const char codes[] = "Exit codes:";
    for (; *text; first = false) {
        if (!first)
            fputs(".Pp\n", out);
        if (strncmp(text, codes, strlen(codes)) == 0) {
            fputs(first ? "" : "Exit codes:\n", out);
            write_codes(out, text + strlen(codes));
            return;
        }
        size_t n = strcspn(text, "\n");
        roff_text(out, text, n);
        text += n + (text[n] ? 1 : 0);
    }
}

static void write_environment(FILE *out, unsigned programs)
{
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (variables[i].programs & programs) {
            fprintf(out, ".It Ev %s\n", variables[i].name);
            roff_text(out, variables[i].text, strlen(variables[i].text));
        }
    fputs(".El\n", out);
}

static void see_also(FILE *out, const char *page)
{
    static const char *const pages[] = {"gradwire 1", "gradwire-ps 1", "gradwire-worker 1",
                                        "gradwire-job 5"};
    bool first = true;
    fputs(".Sh SEE ALSO\n", out);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strncmp(pages[i], page, strlen(page)) == 0 && pages[i][strlen(page)] == ' ')
            continue;
        fprintf(out, "%s.Xr %s", first ? "" : " ,\n", pages[i]);
        first = false;
    }
    fputs("\n.Pp\nThe guides and the reference are installed in\n.Pa share/gradwire/docs .\n", out);
}

static void write_process(FILE *out, const char *page, const char *name)
{
    const struct flags_program *p = find_program(name);
    head(out, page, 1,
         strcmp(name, "ps") == 0 ? "a parameter server of a gradwire job"
                                 : "a worker, chief or evaluator of a gradwire job");
    fputs(".Sh SYNOPSIS\n", out);
    synopsis(out, page, p->usage);
    fputs(".Sh DESCRIPTION\n", out);
    roff_text(out, p->about, strlen(p->about));
    fputs(".Xr gradwire 1\n"
          "starts and supervises these processes.\n"
          "This page is for people who start them without that command.\n"
          ".Sh OPTIONS\n"
          "In the names of flags, \\- and _ are the same.\n",
          out);
    write_flags(out, p, false);
    write_environment(out, p->is);
    fputs(".Sh EXIT STATUS\n", out);
    write_end(out, p->end, true);
    see_also(out, page);
}

static void write_command(FILE *out)
{
    head(out, "gradwire", 1, "train models with parameter servers over TCP");
    fputs(".Sh SYNOPSIS\n", out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        synopsis(out, "gradwire", find_program(commands[i])->usage);
    fputs(".Sh DESCRIPTION\n", out);
    fputs(".Nm\nruns a training job as a cluster of parameter servers and workers.\n"
          "JOB is a job file,\n.Xr gradwire-job 5 .\n"
          "DIR is the output directory of a job:\n.Pa runs/NAME ,\n"
          "or the value of\n.Fl \\-output .\n"
          ".Pp\nEvery command also takes\n.Fl \\-help\nand\n.Fl \\-version .\n"
          "In the names of flags, \\- and _ are the same.\n"
          ".Sh COMMANDS\n",
          out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct flags_program p = *find_program(commands[i]);
        fprintf(out, ".Ss %s\n", commands[i]);
        roff_text(out, p.about, strlen(p.about));
        if (p.is & FLAGS_DOCTOR) {
            fputs("It also takes the flags of\n.Xr gradwire-worker 1 .\n", out);
            p.is = FLAGS_DOCTOR;
        }
        write_flags(out, &p, true);
        write_end(out, p.end, false);
    }
    write_environment(out, FLAGS_CLUSTER);
    fputs(".Sh FILES\n"
          ".Bl -tag -width Ds\n"
          ".It Pa runs/NAME\n"
          "The output directory of the job NAME: checkpoints, logs, the trained model.\n"
          ".El\n"
          ".Sh EXAMPLES\n"
          "Train a job, then show its state in another terminal:\n"
          ".Bd -literal -offset indent\n"
          "gradwire train mlp.yaml \\-\\-workers 4\n"
          "gradwire status runs/mlp\n"
          ".Ed\n",
          out);
    see_also(out, "gradwire");
}

static void write_job(FILE *out)
{
    char *page = NULL;
    size_t bytes = 0;
    FILE *in = open_memstream(&page, &bytes);
    if (!in)
        abort();
    job_reference_write(in);
    if (fclose(in) != 0)
        abort();
    head(out, "gradwire-job", 5, "the job file of gradwire");
    fputs(".Sh DESCRIPTION\n", out);
    roff_markdown(out, page);
    see_also(out, "gradwire-job");
    free(page);
}

void manual_write(FILE *out, const char *page)
{
    if (strcmp(page, "gradwire-job") == 0)
        write_job(out);
    else if (strcmp(page, "gradwire") == 0)
        write_command(out);
    else
        write_process(out, page, page + strlen("gradwire-"));
}
