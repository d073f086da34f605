/* The manual pages: the table of flags as roff, and the words and paragraphs of Markdown in it. */
#include "common/flags/flags.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/version.h"
#include "common/flags/table.h"
#include "job/keys.h"

enum { COLUMNS = 72, CELLS_MAX = 8, WORD_BYTES = 512 };

static void escaped(FILE *out, char c, bool code)
{
    if (c == '\\')
        fputs("\\e", out);
    else if (c == '-' && code)
        fputs("\\-", out);
    else
        fputc(c, out);
}

/* Writes text as one argument of a macro: without line breaks, and with the characters escaped that roff would
 * interpret. */
static void roff_word(FILE *out, const char *text, size_t bytes)
{
    fputs("\\&", out); /* so that a word is never a macro */
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == ' ')
            fputs("\\ ", out);
        else if (text[i] != '`')
            escaped(out, text[i], true);
}

/* Where the text of a link ends: at "](address)", whose length goes to *skip; NULL: it is no link. */
static const char *link_end(const char *at, const char *end, size_t *skip)
{
    const char *close = at;
    while (close < end && *close != ']' && *close != '`')
        close++;
    if (close + 1 >= end || close[0] != ']' || close[1] != '(')
        return NULL;
    const char *paren = memchr(close, ')', (size_t)(end - close));
    if (!paren)
        return NULL;
    *skip = (size_t)(paren + 1 - close);
    return close;
}

/* A line that is being filled. */
struct line {
    FILE *out;
    size_t column;
    bool code, strong;
    const char *link; /* where the text of a link ends; NULL: in none */
    size_t skip;
};

static void end_line(struct line *l)
{
    if (l->column)
        fputc('\n', l->out);
    l->column = 0;
}

static void put_word(struct line *l, const char *word, size_t bytes, const char *end)
{
    if (l->column && l->column + bytes + 1 > COLUMNS)
        end_line(l);
    if (l->column)
        fputc(' ', l->out);
    else if (*word == '.' || *word == '\'')
        fputs("\\&", l->out);
    l->column += bytes + 1;
    char last = ' ';
    for (size_t i = 0; i < bytes; i++) {
        const char *at = word + i;
        if (l->link == at) {
            i += l->skip - 1;
            l->link = NULL;
        } else if (*at == '`') {
            l->code = !l->code;
            fputs(l->code ? "\\fB" : "\\fP", l->out);
        } else if (!l->code && i + 1 < bytes && at[0] == '*' && at[1] == '*') {
            l->strong = !l->strong;
            fputs(l->strong ? "\\fB" : "\\fP", l->out);
            i++;
        } else if (!l->code && !l->link && *at == '[' &&
                   (l->link = link_end(at + 1, end, &l->skip)) != NULL) {
            continue;
        } else {
            escaped(l->out, *at, l->code);
            last = *at;
        }
    }
    if (!l->code && bytes > 1 && strchr(".?!", last))
        end_line(l);
}

void roff_text(FILE *out, const char *text, size_t bytes)
{
    struct line l = {.out = out};
    const char *end = text + bytes;
    while (text < end) {
        text += strspn(text, " \n");
        size_t n = strcspn(text, " \n");
        if (text >= end || !n)
            break;
        n = n < (size_t)(end - text) ? n : (size_t)(end - text);
        put_word(&l, text, n, end);
        text += n;
    }
    end_line(&l);
}

/* ---- pages ---- */

static size_t line_bytes(const char *at)
{
    return strcspn(at, "\n");
}

static const char *next_line(const char *at)
{
    at += line_bytes(at);
    return *at ? at + 1 : at;
}

static bool starts(const char *at, const char *with)
{
    return strncmp(at, with, strlen(with)) == 0;
}

/* The cells of a table's row, without the blanks around them. Returns how many. */
struct cells {
    size_t n;
    struct {
        const char *text;
        size_t bytes;
    } cell[CELLS_MAX];
};

static void split_row(const char *line, struct cells *cells)
{
    const char *end = line + line_bytes(line);
    cells->n = 0;
    for (line++; line < end && cells->n < CELLS_MAX; line++) {
        const char *from = line;
        while (line < end && (*line != '|' || line[-1] == '\\'))
            line++;
        const char *to = line;
        while (from < to && *from == ' ')
            from++;
        while (to > from && to[-1] == ' ')
            to--;
        cells->cell[cells->n].text = from;
        cells->cell[cells->n++].bytes = (size_t)(to - from);
    }
}

/* A cell's text; in a table | is written \|. */
static void cell_text(FILE *out, const char *text, size_t bytes)
{
    char plain[4 * WORD_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < bytes && n < sizeof plain - 1; i++)
        if (text[i] != '\\' || i + 1 == bytes || text[i + 1] != '|')
            plain[n++] = text[i];
    plain[n] = 0;
    roff_text(out, plain, n);
}

/* The row's first cell as the tag; its last one; then all between with their headings, as one sentence. */
static void write_row(FILE *out, const struct cells *head, const struct cells *row)
{
    fputs(".It Sy ", out);
    roff_word(out, row->cell[0].text, row->cell[0].bytes);
    fputs("\n", out);
    cell_text(out, row->cell[row->n - 1].text, row->cell[row->n - 1].bytes);
    char rest[4 * WORD_BYTES] = "";
    size_t n = 0;
    for (size_t i = 1; i + 1 < row->n && i < head->n && n < sizeof rest; i++)
        if (row->cell[i].bytes)
            n += (size_t)snprintf(rest + n, sizeof rest - n, "%s%c%.*s: %.*s", n ? "; " : "",
                                  n ? tolower((unsigned char)*head->cell[i].text)
                                    : *head->cell[i].text,
                                  (int)head->cell[i].bytes - 1, head->cell[i].text + 1,
                                  (int)row->cell[i].bytes, row->cell[i].text);
    if (!n)
        return;
    fputs(".br\n", out);
    cell_text(out, rest, strlen(rest));
}

static const char *write_table(FILE *out, const char *at)
{
    struct cells head, row;
    split_row(at, &head);
    fputs(".Bl -tag -width Ds\n", out);
    for (at = next_line(next_line(at)); *at == '|'; at = next_line(at)) {
        split_row(at, &row);
        write_row(out, &head, &row);
    }
    fputs(".El\n", out);
    return at;
}

static const char *write_code(FILE *out, const char *at)
{
    fputs(".Bd -literal -offset indent\n", out);
    for (at = next_line(at); *at && !starts(at, "```"); at = next_line(at)) {
        if (*at == '.' || *at == '\'')
            fputs("\\&", out);
        for (size_t i = 0; i < line_bytes(at); i++)
            escaped(out, at[i], true);
        fputc('\n', out);
    }
    fputs(".Ed\n", out);
    return next_line(at);
}

/* A paragraph or an item of a list goes up to an empty line, or to where another block begins. */
static const char *text_end(const char *at)
{
    do
        at = next_line(at);
    while (*at && *at != '\n' && *at != '#' && *at != '|' && !starts(at, "- ") &&
           !starts(at, "```"));
    return at;
}

static const char *write_list(FILE *out, const char *at)
{
    fputs(".Bl -bullet\n", out);
    while (starts(at, "- ")) {
        const char *end = text_end(at);
        fputs(".It\n", out);
        roff_text(out, at + 2, (size_t)(end - at - 2));
        at = end;
    }
    fputs(".El\n", out);
    return at;
}

static const char *write_heading(FILE *out, const char *at)
{
    size_t level = strspn(at, "#");
    const char *title = at + level + 1;
    if (starts(at, "## Contents\n")) {
        for (at = next_line(at); *at && !starts(at, "## ");)
            at = next_line(at);
        return at;
    }
    if (level > 1)
        fprintf(out, ".%s %.*s\n", level == 2 ? "Sh" : "Ss", (int)line_bytes(title), title);
    return next_line(at);
}

void roff_markdown(FILE *out, const char *page)
{
    bool first = true; /* of its section: no space before it */
    for (const char *at = page; *at;) {
        if (*at == '\n' || starts(at, "<!--")) {
            at = next_line(at);
            continue;
        }
        if (*at == '#') {
            at = write_heading(out, at);
            first = true;
            continue;
        }
        if (starts(at, "```")) {
            at = write_code(out, at);
        } else if (*at == '|') {
            at = write_table(out, at);
        } else if (starts(at, "- ")) {
            at = write_list(out, at);
        } else {
            const char *end = text_end(at);
            if (!first)
                fputs(".Pp\n", out);
            roff_text(out, at, (size_t)(end - at));
            at = end;
        }
        first = false;
    }
}

#define MANUAL_DATE "November 26, 2026" /* of the last change that readers should notice */

/* The commands of gradwire(1), in its order. */
static const char *const commands[] = {"train",  "rank",   "lr-finder", "doctor",   "status",
                                       "logs",   "stop",   "old",       "evaluate", "predict",
                                       "encode", "export", "compare",   "convert"};

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
