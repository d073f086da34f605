#include "model_cli/compare_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/printable.h"

enum {
    WIDTH_DEFAULT = 100,
    WIDTH_LEAST = 40,
    LABEL_BYTES = 512,
    CELL_MOST = 32,    /* characters of a column */
    LABEL_MOST = 44,   /* of the first column */
    DIGEST_SHOWN = 12, /* characters of a digest: enough to tell two apart */
    CURVE_ROWS = 20,
};

/* A part of the table: jobs [first, end), in columns of these widths. */
struct part {
    const json_t *jobs;
    size_t first, end;
    int label, cell[COMPARE_JOBS_MAX];
};

static int terminal_width(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
        return WIDTH_DEFAULT;
    return w.ws_col < WIDTH_LEAST ? WIDTH_LEAST : w.ws_col;
}

/* ---- cells ---- */

/* A value as text, printable: a file may have any. */
static void cell_text(char out[static LABEL_BYTES], const json_t *value)
{
    if (!value || json_is_null(value)) {
        (void)snprintf(out, LABEL_BYTES, "-");
    } else if (json_is_string(value) && !*json_string_value(value)) {
        (void)snprintf(out, LABEL_BYTES, "\"\"");
    } else if (json_is_string(value)) {
        (void)snprintf(out, LABEL_BYTES, "%s", json_string_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(out, LABEL_BYTES, "%.6g", json_real_value(value));
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        (void)snprintf(out, LABEL_BYTES, "%s", text ? text : "?");
        free(text);
    }
    (void)printable_text(out, LABEL_BYTES, out);
}

/* Print right-aligned in `width` characters. A longer path loses its beginning, because its end tells more; other text loses
 * its end. */
static void print_cell(const char *text, int width)
{
    int n = (int)strlen(text);
    char out[LABEL_BYTES];
    if (n > width && strchr(text, '/'))
        printf("  ..%s", printable_end(text, (size_t)width - 2));
    else if (n > width)
        printf("  %s..", printable_text(out, (size_t)width - 1, text));
    else
        printf("  %*s", width, text);
}

static int capped(size_t n, int most)
{
    return n < (size_t)most ? (int)n : most;
}

static void grow(int *width, const char *text, int most)
{
    int n = capped(strlen(text), most);
    *width = n > *width ? n : *width;
}

/* A longer label has a line of its own: any part of it can be what tells two keys apart. */
static void print_label(const struct part *p, const char *text)
{
    bool fits = strlen(text) <= (size_t)p->label;
    if (!fits)
        printf("%s\n", text);
    printf("%-*s", p->label, fits ? text : "");
}

/* ---- rows of results ---- */

/* The value at a path such as "data.fingerprint". */
static const json_t *at(const json_t *job, const char *path)
{
    char name[LABEL_BYTES];
    while (job && *path) {
        size_t n = strcspn(path, ".");
        (void)snprintf(name, sizeof name, "%.*s", (int)n, path);
        job = json_object_get(job, name);
        path += n + (path[n] == '.');
    }
    return job;
}

static const struct row {
    const char *label, *path;
    bool digest;
} rows[] = {
    {"job", "job", false},
    {"status", "status", false},
    {"gradwire", "gradwire", false},
    {"update", "update", false},
    {"steps", "steps", false},
    {"epochs", "epochs", false},
    {"seconds", "seconds", false},
    {"rows of the training data", "data.rows", false},
    {"fingerprint of the training data", "data.fingerprint", true},
    {"fingerprint of the evaluation data", "data.eval_fingerprint", true},
    {"digest", "digest", true},
    {"best epoch", "best.epoch", false},
};

static void row_text(char out[static LABEL_BYTES], const struct row *r, const json_t *job)
{
    cell_text(out, at(job, r->path));
    if (r->digest && strlen(out) > DIGEST_SHOWN)
        out[DIGEST_SHOWN] = '\0';
}

/* True if a job of the part has a value there. */
static bool is_known(const struct part *p, const char *path)
{
    bool known = false;
    for (size_t i = p->first; i < p->end && !known; i++) {
        const json_t *value = at(json_array_get(p->jobs, i), path);
        known = value && !json_is_null(value);
    }
    return known;
}

static void print_rows(const struct part *p)
{
    char text[LABEL_BYTES];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (!is_known(p, rows[r].path))
            continue;
        print_label(p, rows[r].label);
        for (size_t i = p->first; i < p->end; i++) {
            row_text(text, &rows[r], json_array_get(p->jobs, i));
            print_cell(text, p->cell[i]);
        }
        (void)putchar('\n');
    }
}

/* ---- metrics ---- */

/* True if the object at `path` has this name in an earlier job. */
static bool is_told(const struct part *p, size_t job, const char *path, const char *name)
{
    for (size_t i = p->first; i < job; i++)
        if (json_object_get(at(json_array_get(p->jobs, i), path), name))
            return true;
    return false;
}

static void print_metric(const struct part *p, const char *title, const char *path,
                         const char *name)
{
    char text[LABEL_BYTES];
    (void)snprintf(text, sizeof text, "%s.%s", path, name);
    if (!is_known(p, text))
        return;
    (void)snprintf(text, sizeof text, "%s %s", title, name);
    print_label(p, text);
    for (size_t i = p->first; i < p->end; i++) {
        cell_text(text, json_object_get(at(json_array_get(p->jobs, i), path), name));
        print_cell(text, p->cell[i]);
    }
    (void)putchar('\n');
}

/* The metrics of all jobs at `path`, in the order of the first job that has each. */
static void print_metrics(const struct part *p, const char *title, const char *path)
{
    const char *name;
    json_t *value;
    for (size_t i = p->first; i < p->end; i++) {
        json_t *of = (json_t *)(uintptr_t)at(json_array_get(p->jobs, i), path);
        json_object_foreach(of, name, value) if (!is_told(p, i, path, name))
            print_metric(p, title, path, name);
    }
}

/* ---- curves ---- */

static json_int_t epoch_of(const json_t *point)
{
    return json_integer_value(json_object_get(point, "epoch"));
}

static json_int_t last_epoch(const struct part *p)
{
    json_int_t last = 0;
    for (size_t i = p->first; i < p->end; i++) {
        const json_t *history = json_object_get(json_array_get(p->jobs, i), "history");
        for (size_t k = 0; k < json_array_size(history); k++) {
            json_int_t epoch = epoch_of(json_array_get(history, k));
            last = epoch > last ? epoch : last;
        }
    }
    return last;
}

static const json_t *point_at(const json_t *job, json_int_t epoch)
{
    const json_t *history = json_object_get(job, "history");
    for (size_t k = 0; k < json_array_size(history); k++)
        if (epoch_of(json_array_get(history, k)) == epoch)
            return json_array_get(history, k);
    return NULL;
}

/* The loss of the evaluation, or without one that of the training. */
static bool has_eval(const struct part *p)
{
    for (size_t i = p->first; i < p->end; i++) {
        const json_t *history = json_object_get(json_array_get(p->jobs, i), "history");
        if (json_is_number(at(json_array_get(history, 0), "eval.loss")))
            return true;
    }
    return false;
}

static void print_epoch(const struct part *p, const char *path, json_int_t epoch)
{
    char text[LABEL_BYTES];
    (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, epoch);
    print_label(p, text);
    for (size_t i = p->first; i < p->end; i++) {
        const json_t *point = point_at(json_array_get(p->jobs, i), epoch);
        cell_text(text, point ? at(point, path) : NULL);
        print_cell(text, p->cell[i]);
    }
    (void)putchar('\n');
}

/* At most CURVE_ROWS epochs, evenly spread; the last one is among them. */
static void print_curves(const struct part *p)
{
    json_int_t last = last_epoch(p), every = last / CURVE_ROWS + (last % CURVE_ROWS != 0);
    const char *path = has_eval(p) ? "eval.loss" : "train.loss";
    if (last <= 0)
        return;
    printf("\nepoch: loss of the %s\n", has_eval(p) ? "evaluation" : "training");
    json_int_t epoch = last % every ? last % every : every;
    for (; epoch < last; epoch += every)
        print_epoch(p, path, epoch);
    print_epoch(p, path, last);
}

/* ---- keys ---- */

static void print_differ(const struct part *p, const json_t *differ)
{
    char text[LABEL_BYTES];
    printf("\n%s\n", json_array_size(differ) ? "keys of the job file that differ"
                                             : "no key of the job file differs");
    for (size_t k = 0; k < json_array_size(differ); k++) {
        const json_t *one = json_array_get(differ, k);
        (void)printable_text(text, sizeof text, json_string_value(json_object_get(one, "key")));
        print_label(p, text);
        for (size_t i = p->first; i < p->end; i++) {
            cell_text(text, json_array_get(json_object_get(one, "values"), i));
            print_cell(text, p->cell[i]);
        }
        (void)putchar('\n');
    }
}

/* ---- the table ---- */

static void measure(struct part *p, const json_t *differ, size_t jobs)
{
    char text[LABEL_BYTES];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        grow(&p->label, rows[r].label, LABEL_MOST);
    for (size_t k = 0; k < json_array_size(differ); k++)
        grow(&p->label, json_string_value(json_object_get(json_array_get(differ, k), "key")),
             LABEL_MOST);
    for (size_t i = 0; i < jobs; i++) {
        const json_t *job = json_array_get(p->jobs, i);
        p->cell[i] = 8; /* a number */
        cell_text(text, json_object_get(job, "path"));
        grow(&p->cell[i], text, CELL_MOST);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            row_text(text, &rows[r], job);
            grow(&p->cell[i], text, CELL_MOST);
        }
        for (size_t k = 0; k < json_array_size(differ); k++) {
            cell_text(text,
                      json_array_get(json_object_get(json_array_get(differ, k), "values"), i));
            grow(&p->cell[i], text, CELL_MOST);
        }
    }
}

static void print_part(const struct part *p, const json_t *differ)
{
    char text[LABEL_BYTES];
    print_label(p, "");
    for (size_t i = p->first; i < p->end; i++) {
        cell_text(text, json_object_get(json_array_get(p->jobs, i), "path"));
        print_cell(text, p->cell[i]);
    }
    (void)putchar('\n');
    print_rows(p);
    print_metrics(p, "train", "train");
    print_metrics(p, "eval", "eval");
    print_metrics(p, "best epoch's eval", "best.eval");
    print_curves(p);
    print_differ(p, differ);
}

void compare_text(const json_t *all)
{
    struct part p = {.jobs = json_object_get(all, "jobs")};
    const json_t *differ = json_object_get(all, "differ");
    size_t jobs = json_array_size(p.jobs);
    int width = terminal_width();
    measure(&p, differ, jobs < COMPARE_JOBS_MAX ? jobs : COMPARE_JOBS_MAX);
    while (p.end < jobs && p.end < COMPARE_JOBS_MAX) {
        int used = p.label;
        p.first = p.end;
        do
            used += 2 + p.cell[p.end++];
        while (p.end < jobs && used + 2 + p.cell[p.end] <= width);
        if (p.first > 0)
            (void)putchar('\n');
        print_part(&p, differ);
    }
}
