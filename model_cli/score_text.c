/* Predictions as text: the names of the columns, and the scores of a row as the kind of its columns says. */
#include "model_cli/score_text.h"

#include <math.h>
#include <string.h>

#include "common/base/texts.h"
#include "job/range.h"

/* ---- what the model predicts ---- */

enum err score_columns_init(struct score_columns *c, const struct folder *f, bool all, uint32_t top,
                            struct errmsg *e)
{
    *c = (struct score_columns){.outputs = model_outputs(f->model), .all = all, .top = top};
    c->names = job_class_names(&f->job.data.csv);
    c->kind = c->outputs > 1                 ? SCORE_CLASSES
              : model_classes(f->model) == 2 ? SCORE_BINARY
                                             : SCORE_VALUE;
    if ((all || top) && c->kind != SCORE_CLASSES)
        return err_set(e, ERR_INPUT,
                       "--%s is for a model with an output for each class, but this "
                       "one has one output",
                       all ? "scores" : "top");
    if (all && top)
        return err_set(e, ERR_INPUT, "give --scores or --top, not both");
    if (top > c->outputs)
        return err_set(e, ERR_INPUT, "--top=%u: the model has %u classes", top, c->outputs);
    return ERR_OK;
}

/* ---- classes ---- */

/* The first name of a class, of those that the job gives it. */
static void add_class(const struct score_columns *c, uint32_t class, struct text *t)
{
    const char *name = c->names;
    size_t bytes;
    for (uint32_t i = 0; name && i < class; i++)
        name = texts_next(name, &bytes);
    if (name) {
        char plain[JOB_TEXT_MAX];
        (void)texts_next(name, &bytes);
        bytes = job_class_name_bytes(name, bytes);
        text_add_field(t, plain, job_class_name_plain(plain, name, bytes));
    } else
        text_add_count(t, class);
}

/* a before b in the order of scores; equal ones in that of their numbers; NaN is last */
static bool comes_before(const float *z, uint32_t a, uint32_t b)
{
    if (isnan(z[a]) || isnan(z[b]))
        return isnan(z[b]) && (!isnan(z[a]) || a < b);
    return z[a] > z[b] || (z[a] == z[b] && a < b);
}

/* The best class that comes after `last`; UINT32_MAX: the best of all. */
static uint32_t next_best(const struct score_columns *c, const float *z, uint32_t last)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < c->outputs; i++) {
        bool may = last == UINT32_MAX || comes_before(z, last, i);
        if (may && (best == UINT32_MAX || comes_before(z, i, best)))
            best = i;
    }
    return best;
}

/* ---- the first line ---- */

static void begin_field(struct text *t, bool *first)
{
    if (!*first)
        text_add(t, ",", 1);
    *first = false;
}

static void add_name(struct text *t, const char *name, bool *first)
{
    begin_field(t, first);
    text_add_field(t, name, strlen(name));
}

static void add_numbered(struct text *t, const char *name, uint32_t number, bool *first)
{
    add_name(t, name, first);
    text_add(t, "_", 1);
    text_add_count(t, number);
}

void score_text_header(const struct score_columns *c, struct text *t)
{
    bool first = true;
    for (uint32_t i = 0; c->keep && i < c->keep->columns; i++)
        add_name(t, c->keep->name[i], &first);
    if (c->kind != SCORE_CLASSES)
        add_name(t, c->kind == SCORE_BINARY ? "score" : "prediction", &first);
    else if (!c->top)
        add_name(t, "class", &first);
    for (uint32_t i = 1; i <= c->top; i++) {
        add_numbered(t, "class", i, &first);
        add_numbered(t, "score", i, &first);
    }
    if (c->kind == SCORE_CLASSES && !c->all && !c->top)
        add_name(t, "score", &first);
    for (uint32_t i = 0; c->all && i < c->outputs; i++) {
        begin_field(t, &first);
        add_class(c, i, t);
    }
    text_add(t, "\n", 1);
}

/* How many fields of the line of csv are this one, all with their quotes. */
static uint32_t count_fields(const char *line, size_t bytes, const char *field, size_t field_bytes)
{
    uint32_t found = 0;
    bool quoted = false;
    for (size_t i = 0, begin = 0; i < bytes; i++) {
        quoted ^= line[i] == '"';
        if (quoted || (line[i] != ',' && i + 1 < bytes)) /* the line end ends the last field */
            continue;
        found += i - begin == field_bytes && memcmp(line + begin, field, field_bytes) == 0;
        begin = i + 1;
    }
    return found;
}

uint32_t score_text_named(const struct score_columns *c, const char *name)
{
    struct score_columns scores = *c;
    struct text line = {.at = NULL}, field = {.at = NULL};
    scores.keep = NULL;
    score_text_header(&scores, &line);
    text_add_field(&field, name, strlen(name));
    uint32_t found =
        line.failed || field.failed ? 0 : count_fields(line.at, line.bytes, field.at, field.bytes);
    text_close(&line);
    text_close(&field);
    return found;
}

/* ---- a row ---- */

static void add_float(struct text *t, const float *z, uint32_t i)
{
    if (z)
        text_add_float(t, z[i]);
}

static void add_best(const struct score_columns *c, const float *z, bool first, struct text *t)
{
    uint32_t best = UINT32_MAX, n = c->top ? c->top : 1;
    for (uint32_t i = 0; i < n; i++) {
        begin_field(t, &first);
        best = z ? next_best(c, z, best) : UINT32_MAX;
        if (z)
            add_class(c, best, t);
        if (c->all)
            continue;
        text_add(t, ",", 1);
        add_float(t, z, best);
    }
}

static void add_floats(const struct score_columns *c, const float *z, struct text *t)
{
    const float none = NAN;
    for (uint32_t i = 0; i < c->outputs; i++)
        text_add(t, z ? z + i : &none, sizeof none);
}

void score_text_row(const struct score_columns *c, const struct csv_text *kept, const float *z,
                    struct text *t)
{
    bool first = true;
    if (c->floats) {
        add_floats(c, z, t);
        return;
    }
    for (uint32_t i = 0; c->keep && i < c->keep->columns; i++) {
        begin_field(t, &first);
        text_add_field(t, kept[i].at, kept[i].bytes);
    }
    if (c->kind == SCORE_CLASSES) {
        add_best(c, z, first, t);
    } else {
        begin_field(t, &first);
        add_float(t, z, 0);
    }
    for (uint32_t i = 0; c->all && i < c->outputs; i++) {
        text_add(t, ",", 1);
        add_float(t, z, i);
    }
    text_add(t, "\n", 1);
}
