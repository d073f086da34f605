/* Loading a data set: the reader of its format fills it, and it is checked against the model. Looking at its beginnings, and
 * counting its keys. */
#include "data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/sha256.h"
#include "data/leaf_buffer.h"
#include "data/host_copy.h"
#include "data/readers.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"

enum { COUNTED_BLOCK = 256 /* rows */ };

#define READER(kind, word, rows, meaning) [DATA_##kind] = &reader_##word,

static enum err read_format(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    static const struct reader_type *const reader[] = {JOB_FORMATS(READER, JOB_NO_ALIAS)};
    if (!r->patterns && r->job->data.format != DATA_SYNTHETIC)
        return err_set(e, ERR_INPUT, "no file is named");
    return reader[r->job->data.format]->load(d, r, e);
}

static enum err read_and_digest(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    enum err err = contents_begin(&d->contents, e);
    if (!err)
        err = read_format(d, r, e);
    if (!err)
        err = contents_finish(&d->contents, e);
    if (!err)
        d->contents.print.rows = d->rows;
    return err;
}

/* ---- what the rows have in common ---- */

/* The labels of the file are class numbers. */
static bool has_class_numbers(const struct job *job)
{
    return job->model.head[0].loss == LOSS_SPARSE_CATEGORICAL_CROSSENTROPY &&
           !job_class_names(&job->data.csv);
}

/* A metric of the job is not defined for rows of one class, as the evaluation then says. */
static bool needs_both_classes(const struct job *job)
{
    bool needs = false;
    for (uint32_t i = 0; i < job->model.metrics; i++)
        needs |= metric_needs_both_classes(job->model.metric[i].kind);
    return needs;
}

/* Warn of rows from which nothing can be learned. A look may have seen the beginnings alone. */
static void say_seen(const struct dataset *d, const struct reading *r)
{
    enum { FEW = 20 }; /* numbers can be equal by chance */
    const struct dataset_seen *s = &d->seen;
    const bool part = r->look && r->look->estimated, classes = dataset_has_classes(r->job);
    const bool equal = s->min == s->max, one = equal || s->weighed_min == s->weighed_max;
    const double label = (double)(equal ? s->min : s->weighed_min);
    const char *which = part ? "the rows that were looked at" : "all rows",
               *weigh = equal ? "" : " with a weight above 0";
    if (!s->any || r->unlabeled)
        return;
    if (!s->weighs)
        dataset_warn(r, "%s: %s have weight 0, %s", r->key, which,
                     part ? "as if they were not there" : "so there is nothing to count");
    if (s->rows >= FEW && (double)s->weight_max > s->weights / 2)
        dataset_warn(r,
                     "%s: one row has the weight %g, and %.0f rows have %g together: losses and "
                     "metrics are those of one row",
                     r->key, (double)s->weight_max, s->rows - 1,
                     s->weights - (double)s->weight_max);
    if (!r->eval && one && (classes || d->rows >= FEW))
        dataset_warn(r, "%s: %s%s have the label %g: from %s%s alone nothing can be learned",
                     r->key, which, weigh, label, part ? "rows of one " : "one ",
                     classes ? "class" : "number");
    else if (r->eval && !part && one && classes && d->rows >= FEW && !needs_both_classes(r->job))
        dataset_warn(
            r,
            "%s: all rows%s have the label %g: an evaluation on rows of one class does not "
            "tell how well the model tells it from others",
            r->key, weigh, label);
    else if (!r->eval && !part && !(s->classes[0] & 1) && has_class_numbers(r->job))
        dataset_warn(r,
                     "%s: no row has the label 0, but class numbers start at 0; if those of the "
                     "file start at 1, %s",
                     r->key,
                     job_reads_values(r->job) ? "list them: classes: [\"1\", \"2\"]"
                                              : "subtract 1 from them");
}

static void see_labels(struct dataset *d)
{
    for (uint64_t i = 0; i < d->rows; i++)
        dataset_see(&d->seen, dataset_label(d, i), 1);
}

/* Only a complete reading tells these: a look reads hardly any labels, and the beginnings of files. */
static enum err see_all(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    if (d->labels || d->y_float)
        see_labels(d);
    return same_files_warn_contents(r, &d->contents, e);
}

/* ---- rows that are held out ---- */

static enum err hold_numbers(struct order_held *h, const struct job *job, uint64_t rows)
{
    const struct job_validation *v = &job->data.validation;
    const uint64_t key = order_hold_key(job->training.seed, false),
                   last = rows - order_last(rows, v->last);
    enum err err = ERR_OK;
    for (uint64_t row = 0; row < rows && !err; row++)
        err = order_note(h, v->last > 0 ? row >= last : order_holds_out(key, row, v->share));
    return err;
}

/* The words of the rows that are left, in the order of their first occurrence there. */
struct left_words {
    struct table_schema *s;
    uint32_t **number; /* (inputs) by a cell: the cell that it gets; NULL: the column learns none */
    uint32_t **old;    /* (inputs) by a new number: the old one */
    uint32_t *count;   /* (inputs) */
    uint32_t **held;   /* (inputs) by a cell: how many rows that are held out have it */
};

static void keep_word(struct left_words *w, uint32_t input, uint32_t cell)
{
    if (!cell || w->number[input][cell])
        return;
    w->old[input][w->count[input]++] = cell - 1;
    w->number[input][cell] = w->count[input];
}

/* Words that a checkpoint has taught keep their numbers. */
static enum err left_words_begin(struct left_words *w, struct table *t, struct errmsg *e)
{
    struct table_schema *s = t->schema;
    *w = (struct left_words){.s = s,
                             .number = mem_zalloc(s->inputs, sizeof *w->number),
                             .old = mem_zalloc(s->inputs, sizeof *w->old),
                             .count = mem_zalloc(s->inputs, sizeof *w->count),
                             .held = mem_zalloc(s->inputs, sizeof *w->held)};
    t->renumber = w->number;
    bool there = w->number && w->old && w->count && w->held;
    for (uint32_t i = 0; i < s->inputs && there; i++) {
        const struct schema_input *in = &s->input[i];
        if (!in->learns)
            continue;
        w->number[i] = mem_zalloc((size_t)in->words.count + 1, sizeof *w->number[i]);
        w->old[i] = mem_zalloc((size_t)in->words.count + 1, sizeof *w->old[i]);
        w->held[i] = mem_zalloc((size_t)in->words.count + 1, sizeof *w->held[i]);
        there = w->number[i] && w->old[i] && w->held[i];
        for (uint32_t word = 0; word < in->known && there; word++)
            keep_word(w, i, word + 1);
    }
    return there ? ERR_OK : err_memory_for(e, "the words of the rows that are left");
}

/* More than a quarter of the rows, but a few, as of an eval part (csv.c). */
static void say_new_words(const struct left_words *w, const struct dataset *d,
                          const struct reading *r)
{
    enum { FEW = 20 };
    const uint64_t rows = d->held.rows - d->held_bad;
    for (uint32_t i = 0; w->s && i < w->s->inputs; i++) {
        const struct schema_input *in = &w->s->input[i];
        uint64_t unknown = 0;
        const char *word = "";
        size_t bytes = 0;
        for (uint32_t cell = w->number[i] ? in->words.count : 0; cell; cell--)
            if (w->held[i][cell] && !w->number[i][cell]) {
                unknown += w->held[i][cell];
                word = vocabulary_text(&in->words, cell - 1, &bytes);
            }
        if (unknown >= FEW && unknown > rows / 4)
            dataset_warn(
                r,
                "%s: column %s: %" PRIu64 " of %" PRIu64
                " rows have a word that no other row has, such as \"%s\": the model does not know "
                "it; leave the column out, or hold out in another way",
                dataset_eval_name(r->job), SHOWN(in->name), unknown, rows,
                printable_name((char[PRINTABLE_NAME_BYTES]){""}, word, bytes));
    }
}

static enum err forget_others(const struct left_words *w, uint32_t input)
{
    struct vocabulary *words = &w->s->input[input].words, left = {0};
    enum err err = ERR_OK;
    for (uint32_t i = 0, number; i < w->count[input] && !err; i++) {
        size_t bytes;
        const char *word = vocabulary_text(words, w->old[input][i], &bytes);
        err = vocabulary_add(&left, word, bytes, &number);
    }
    if (err) {
        vocabulary_close(&left);
        return err;
    }
    vocabulary_close(words);
    *words = left;
    return ERR_OK;
}

static enum err left_words_end(struct left_words *w, enum err err, struct errmsg *e)
{
    const uint32_t inputs = w->s ? w->s->inputs : 0;
    for (uint32_t i = 0; i < inputs && !err; i++)
        if (w->number[i] && forget_others(w, i))
            err = err_memory_for(e, "the words of the rows that are left");
    for (uint32_t i = 0; w->old && w->held && i < inputs; i++) {
        mem_free(w->old[i]);
        mem_free(w->held[i]);
    }
    mem_free(w->old);
    mem_free(w->held);
    mem_free(w->count);
    return err;
}

/* ---- what is left ---- */

/* Count a row; returns whether it is left to train on. */
static bool count_row(struct dataset *d, uint64_t row, float label, float weight)
{
    const bool held = order_is_held(&d->held, row), bad = isnan(label);
    dataset_see(held ? &d->held_seen : &d->seen, label, weight);
    d->held_bad += held && bad;
    return !held && !bad;
}

static void count_numbers(struct dataset *d, uint64_t *left)
{
    for (uint64_t row = 0; row < d->rows; row++)
        *left += count_row(d, row, dataset_label(d, row), 1);
}

/* The rows of a table are not scaled yet. */
static enum err count_cells(struct dataset *d, struct left_words *w, uint64_t *left,
                            struct errmsg *e)
{
    const struct table_schema *s = d->table.schema;
    uint32_t *buffer = mem_resize(NULL, TABLE_ROW_CELLS_MAX, sizeof *buffer);
    const uint32_t *cells;
    enum err err = buffer ? ERR_OK : err_memory(e);
    for (uint64_t row = 0, n; row < d->table.rows && !err;) {
        n = d->table.rows - row;
        err = table_look(&d->table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, e);
        for (; n > 0 && !err; n--, row++, cells += schema_packed_raw_cells(s, cells)) {
            const float label = schema_float(cells[s->inputs]);
            const bool is =
                count_row(d, row, label, s->weighted ? schema_float(cells[s->inputs + 1]) : 1);
            *left += is;
            for (uint32_t i = 0; w->s && !isnan(label) && i < s->inputs; i++)
                if (w->number[i] && is)
                    keep_word(w, i, cells[i]);
                else if (w->number[i])
                    w->held[i][cells[i]]++;
        }
    }
    mem_free(buffer);
    return err;
}

enum err dataset_hold_out(struct dataset *d, const struct reading *r, bool learning,
                          struct errmsg *e)
{
    const uint64_t rows = d->table.schema ? d->table.rows : d->rows;
    struct left_words words = {.s = NULL};
    uint64_t left = 0;
    d->seen = (struct dataset_seen){.any = false};
    if (!d->held.bits && hold_numbers(&d->held, r->job, rows))
        return err_memory_for(e, "the rows that are held out");
    assert(d->held.noted == rows);
    enum err err = learning ? left_words_begin(&words, &d->table, e) : ERR_OK;
    if (!err && d->table.schema)
        err = count_cells(d, &words, &left, e);
    else if (!err)
        count_numbers(d, &left);
    if (!err)
        err = reading_check_parts(r, d, left, e);
    if (!err)
        say_new_words(&words, d, r);
    return left_words_end(&words, err, e);
}

/* ---- the units of data.train and data.eval ---- */

enum {
    UNIT_COLUMNS = 256, /* of more the first ones */
    UNIT_ROWS = 16,     /* of a block */
    UNIT_BLOCKS = 64,   /* spread over all rows */
    UNIT_ROWS_MIN = 100,
    UNIT_FAR = 10 /* deviations */
};

struct unit {
    uint32_t input, feature;
    double zero; /* the feature of the number 0 */
};
struct moments {
    double rows, mean[UNIT_COLUMNS], squares[UNIT_COLUMNS];
    /* rows that have 0; and, in data.eval, that have the mean of data.train */
    double zeros[UNIT_COLUMNS], same[UNIT_COLUMNS];
};

/* How a column of data.eval is another than in data.train. */
enum unit_other { UNIT_EQUAL, UNIT_OF_ANOTHER, UNIT_ONE_BEFORE, UNIT_ZERO_NOW, UNIT_OTHERS };

/* Rows whose numbers can be gathered. */
static uint64_t rows_there(const struct dataset *d)
{
    return d->x || d->x_float ? d->rows : d->table.rows;
}

/* Pixels are no columns. */
static uint32_t choose_units(struct unit out[static UNIT_COLUMNS], const struct dataset *d)
{
    const struct table_schema *s = d->table.schema;
    const uint32_t inputs = s ? s->inputs : d->rank == 1 ? d->features : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < inputs && n < UNIT_COLUMNS; i++)
        if (!s)
            out[n++] = (struct unit){i, i, 0};
        else if (s->input[i].kind == COLUMN_NUMBER && s->input[i].bucketing == BUCKETS_NONE &&
                 !s->input[i].ids)
            out[n++] = (struct unit){i, s->input[i].feature,
                                     (double)schema_float(schema_scaled_cell(&s->input[i], 0))};
    return n;
}

/* before: of data.train; NULL: these are its own */
static void add_moments(struct moments *m, const struct moments *before, const struct unit *unit,
                        uint32_t units, const float *x)
{
    m->rows++;
    for (uint32_t k = 0; k < units; k++) {
        const double v = (double)x[unit[k].feature], from = v - m->mean[k];
        m->mean[k] += from / m->rows;
        m->squares[k] += from * (v - m->mean[k]);
        m->zeros[k] += v == unit[k].zero;
        m->same[k] += before && v == before->mean[k];
    }
}

static enum err sample_moments(struct moments *m, const struct moments *before,
                               const struct dataset *d, const struct unit *unit, uint32_t units,
                               struct errmsg *e)
{
    const struct leaf_form form = dataset_form(d);
    const uint64_t rows = rows_there(d), step = rows / UNIT_BLOCKS;
    struct leaf_buffer *buffer = NULL;
    struct leaf leaf;
    enum err err = leaf_buffer_new(&buffer, &form, UNIT_ROWS, LEAF_VALUES, e);
    for (uint64_t first = 0; first + UNIT_ROWS <= rows && !err;
         first += step > UNIT_ROWS ? step : UNIT_ROWS) {
        uint64_t *row = leaf_buffer_numbers(buffer);
        for (uint32_t i = 0; i < UNIT_ROWS; i++)
            row[i] = first + i;
        err = dataset_gather(d, row, UNIT_ROWS, NULL, buffer, &leaf, e);
        for (uint32_t i = 0; !err && i < leaf.n; i++)
            add_moments(m, before, unit, units, leaf.x + (size_t)i * form.features);
    }
    leaf_buffer_free(buffer);
    return err;
}

static enum unit_other other_unit(const struct moments m[2], uint32_t k)
{
    const double deviation = sqrt(m[0].squares[k] / m[0].rows);
    if (deviation == 0) /* a few can be rare marks */
        return m[1].same[k] < m[1].rows * 0.75 ? UNIT_ONE_BEFORE : UNIT_EQUAL;
    if (deviation > 0 && fabs(m[1].mean[k] - m[0].mean[k]) > UNIT_FAR * deviation)
        return UNIT_OF_ANOTHER;
    return m[1].zeros[k] == m[1].rows && m[0].zeros[k] == 0 ? UNIT_ZERO_NOW : UNIT_EQUAL;
}

static void say_unit(const struct moments m[2], const struct unit *unit, uint32_t units,
                     enum unit_other other, const struct dataset *d, const struct reading *r)
{
    uint32_t far = 0, first = 0;
    char name[16], more[48] = "";
    for (uint32_t k = units; k-- > 0;) {
        if (other_unit(m, k) != other)
            continue;
        far++;
        first = k;
    }
    if (!far)
        return;
    (void)snprintf(name, sizeof name, "%u", unit[first].input);
    if (far > 1)
        (void)snprintf(more, sizeof more, " (and %u more columns)", far - 1);
    const struct table_schema *s = d->table.schema;
    const char *column =
        s && s->input[unit[first].input].name[0] ? SHOWN(s->input[unit[first].input].name) : name;
    if (other == UNIT_OF_ANOTHER)
        dataset_warn(r,
                     "%s: column %s%s: as the model reads it, a sample has the mean %.6g, and one "
                     "of data.train %.6g with a deviation of %.3g; are both in the same unit, and "
                     "neither alone scaled?",
                     r->key, column, more, m[1].mean[first], m[0].mean[first],
                     sqrt(m[0].squares[first] / m[0].rows));
    else if (other == UNIT_ONE_BEFORE)
        dataset_warn(r,
                     "%s: column %s%s: in data.train all rows of a sample have one number, and "
                     "here many have others, of which the model learns nothing: check data.train, "
                     "or leave the column out",
                     r->key, column, more);
    else
        dataset_warn(r,
                     "%s: column %s%s: all rows of a sample have 0, and in data.train none has: if "
                     "it stands for missing values, leave these fields empty, or add \"0\" to "
                     "data.missing",
                     r->key, column, more);
}

/* Warn of the columns that are others in *d than in r->learned, by a sample of both. */
static enum err units_note(const struct dataset *d, const struct reading *r, struct errmsg *e)
{
    const struct dataset *train = r->learned;
    struct unit unit[UNIT_COLUMNS];
    const uint32_t units = choose_units(unit, d);
    if (!units || rows_there(train) < UNIT_ROWS_MIN || rows_there(d) < UNIT_ROWS_MIN ||
        train->shares != d->shares) /* of which arrays.c warns */
        return ERR_OK;
    struct moments *m = mem_zalloc(2, sizeof *m);
    enum err err = m ? sample_moments(&m[0], NULL, train, unit, units, e) : err_memory(e);
    if (!err)
        err = sample_moments(&m[1], &m[0], d, unit, units, e);
    for (enum unit_other i = UNIT_OF_ANOTHER; i < UNIT_OTHERS && !err; i++)
        say_unit(m, unit, units, i, d, r);
    mem_free(m);
    return err;
}

static enum err load(struct dataset *out, const struct reading *r, struct errmsg *e)
{
    struct dataset d = {.scale = r->job->data.scale};
    enum err err = read_and_digest(&d, r, e);
    if (!err && !r->look)
        err = see_all(&d, r, e);
    if (!err && r->eval && r->learned)
        err = units_note(&d, r, e);
    if (!err && !r->look && reading_holds_out(r) && !d.table.schema)
        err = dataset_hold_out(&d, r, false, e);
    if (err) {
        dataset_close(&d);
        bool output = r->sink && err == ERR_IO; /* or input, whose file the error names */
        bool named = r->eval && r->job->data.eval_named;
        return output || named ? err : err_wrap(e, err, "%s: ", r->key);
    }
    say_seen(&d, r);
    if (!r->eval)
        d.augment = r->job->data.augment;
    *out = d;
    return ERR_OK;
}

const char *dataset_eval_name(const struct job *job)
{
    if (!job->data.eval_named)
        return !job->data.eval && (job->data.validation.files || job_holds_rows_out(job))
                   ? "data.validation"
                   : "data.eval";
    return strchr(job->data.eval, '\n') ? "the data" : job->data.eval;
}

/* `classes`: from the model, if it is known; for two classes the loss is enough. */
static struct reading reading_of(const struct job *job, int eval, uint32_t classes)
{
    if (!classes && job_loss_labels(job->model.head[0].loss) == LABELS_TWO_CLASSES)
        classes = 2;
    return (struct reading){.job = job,
                            .key = eval ? dataset_eval_name(job) : "data.train",
                            .patterns = eval ? job_eval_files(job) : job->data.train,
                            .classes = classes,
                            .eval = eval};
}

enum err dataset_load(struct dataset *d, const struct job *job, int eval, uint32_t classes,
                      struct errmsg *e)
{
    const struct reading r = reading_of(job, eval, classes);
    return load(d, &r, e);
}

static enum err load_train(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    *d = (struct dataset){.rows = 0};
    enum err err = host_copy_load(d, r, load, e);
    if (err)
        dataset_close(d);
    return err;
}

enum err dataset_load_given(struct dataset *d, const struct job *job,
                            const struct encoding_given *given, uint32_t classes, struct errmsg *e)
{
    struct reading r = reading_of(job, 0, classes);
    r.given = given;
    return load_train(d, &r, e);
}

enum err dataset_load_unfitted(struct dataset *d, const struct job *job, uint32_t classes,
                               struct errmsg *e)
{
    struct reading r = reading_of(job, 0, classes);
    r.unfitted = true;
    return load_train(d, &r, e);
}

/* The fingerprint of the rows that are held out: of that of all rows, and which of them they are. */
static enum err held_fingerprint(uint8_t out[static SHA256_BYTES], const struct dataset *whole,
                                 const uint8_t of[static SHA256_BYTES])
{
    const struct order_held *h = &whole->held;
    struct sha256 *hash = sha256_new();
    if (!hash)
        return ERR_NOMEM;
    sha256_add(hash, of, SHA256_BYTES);
    sha256_add(hash, h->bits, (size_t)((h->noted + 7) / 8));
    const bool failed = sha256_final(hash, out) != 0;
    sha256_free(hash);
    return failed ? ERR_NOMEM : ERR_OK;
}

/* The rows that are held out of *whole, as a set. */
static enum err view_rows(struct dataset *d, const struct dataset *whole, struct errmsg *e)
{
    const struct order_held *h = &whole->held;
    uint64_t *row = mem_resize(NULL, h->rows, sizeof *row), n = 0;
    struct contents contents = {.fast = whole->contents.fast};
    if (!row || held_fingerprint(contents.fingerprint, whole, whole->contents.fingerprint)) {
        mem_free(row);
        return err_memory_for(e, "the rows that are held out");
    }
    if (contents.fast)
        contents_mark(contents.fingerprint);
    for (uint64_t i = 0; i < h->noted; i++)
        if (order_is_held(h, i))
            row[n++] = i;
    assert(n == h->rows);
    *d = (struct dataset){.rows = n,
                          .seen = whole->held_seen,
                          .bad_rows = whole->held_bad,
                          .contents = contents,
                          .whole = whole,
                          .row = row,
                          .features = whole->features,
                          .rank = whole->rank,
                          .scale = whole->scale};
    memcpy(d->shape, whole->shape, sizeof d->shape);
    return ERR_OK;
}

static enum err view_held(struct dataset *d, const struct job *job, const struct dataset *whole,
                          struct errmsg *e)
{
    const struct reading r = reading_of(job, 1, 0);
    enum err err = view_rows(d, whole, e);
    if (!err)
        say_seen(d, &r);
    return err;
}

enum err dataset_know_before(struct dataset *d, const struct job *job, int eval, struct errmsg *e)
{
    struct contents *c = &d->contents;
    struct reading r = reading_of(job, eval, 0);
    struct dataset again = {.rows = 0};
    enum err err = ERR_OK;
    if (!c->fast || c->knows_before)
        return ERR_OK;
    if (d->whole) {
        assert(d->whole->contents.knows_before);
        err = held_fingerprint(c->before, d->whole, d->whole->contents.before) ? err_memory(e)
                                                                               : ERR_OK;
    } else {
        r.before = true;
        err = read_and_digest(&again, &r, e);
        if (!err)
            memcpy(c->before, again.contents.fingerprint, sizeof c->before);
        dataset_close(&again);
    }
    c->knows_before = err == ERR_OK;
    return err;
}

/* The view becomes the set that has all rows, of which it names some. */
static void keep_whole(struct dataset *d, struct dataset *whole)
{
    whole->rows = d->rows;
    whole->bad_rows = d->bad_rows;
    whole->seen = d->seen;
    whole->row = d->row;
    *d = *whole;
}

enum err dataset_load_eval(struct dataset *d, const struct job *job, const struct dataset *train,
                           uint32_t classes, struct errmsg *e)
{
    const bool held = !job->data.eval && job_holds_rows_out(job);
    if (held && train->held.bits)
        return view_held(d, job, train, e);
    struct reading r = reading_of(job, !held, classes);
    r.schema = train->table.schema;
    r.spill = train->table.spill;
    r.train = held ? NULL : &train->contents;
    r.learned = train;
    if (!held)
        return load(d, &r, e);
    struct dataset whole;
    enum err err = load(&whole, &r, e);
    if (err)
        return err;
    err = view_held(d, job, &whole, e);
    if (err)
        dataset_close(&whole);
    else
        keep_whole(d, &whole);
    return err;
}

enum err dataset_stream(const struct job *job, struct table_schema *schema, uint32_t classes,
                        const struct dataset_sink *sink, struct dataset_streamed *out,
                        struct errmsg *e)
{
    struct dataset d;
    struct errmsg unread = {""};
    struct reading r = reading_of(job, 1, classes);
    r.schema = schema;
    r.unlabeled = true;
    r.sink = sink;
    r.unread = &unread;
    enum err err = load(&d, &r, e);
    if (err)
        return err;
    *out = (struct dataset_streamed){d.rows, d.bad_rows, unread};
    dataset_close(&d);
    return ERR_OK;
}

enum err dataset_columns(const struct job *job, struct table_schema *schema,
                         const struct dataset_sink *sink, struct dataset_streamed *out,
                         struct errmsg *e)
{
    struct dataset d;
    struct reading r = reading_of(job, 1, 0);
    r.schema = schema;
    r.sink = sink;
    enum err err = load(&d, &r, e);
    if (err)
        return err;
    *out = (struct dataset_streamed){.rows = d.rows, .bad = d.bad_rows};
    dataset_close(&d);
    return ERR_OK;
}

enum err dataset_load_unlabeled(struct dataset *d, const struct job *job, struct errmsg *e)
{
    struct reading r = reading_of(job, 1, 0);
    r.unlabeled = true;
    return load(d, &r, e);
}

/* Look at an eval part of csv with the words at the beginning of the training part. */
static enum err look_with(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    struct reading train = reading_of(r->job, 0, r->classes);
    struct dataset first;
    struct dataset_look unused = {0};
    if (!r->eval || !job_reads_columns(r->job))
        return load(d, r, e);
    train.look = &unused;
    train.sampled = r->sampled;
    train.given = r->given;
    enum err err = load(&first, &train, e);
    if (err)
        return err;
    struct reading eval = *r;
    eval.schema = first.table.schema;
    eval.spill = first.table.spill;
    err = load(d, &eval, e);
    dataset_close(&first);
    return err;
}

static enum err look_at(struct dataset_look *out, struct job *job, struct reading *reading,
                        struct table_schema **schema, struct errmsg *e)
{
    struct dataset d;
    struct dataset_look look = {0};
    int eval = reading->eval;
    reading->look = &look;
    enum err err = look_with(&d, reading, e);
    if (err)
        return err;
    look.rows = d.rows;
    look.rank = d.rank;
    look.seen = d.seen;
    memcpy(look.shape, d.shape, sizeof look.shape);
    if (!eval)
        dataset_tell(&d, job);
    if (!eval && dataset_has_keys(&d))
        err = dataset_count_keys(&d, d.rows, DATASET_COUNTED_LOOKUPS, &look.keys, e);
    if (!look.bytes)
        look.bytes = d.rows * ((uint64_t)d.features + 1);
    if (!err) {
        *out = look;
        *schema = d.table.schema ? schema_ref(d.table.schema) : NULL;
    }
    dataset_close(&d);
    return err;
}

enum err dataset_look(struct dataset_look *out, struct job *job, int eval, uint32_t classes,
                      struct errmsg *e)
{
    struct table_schema *schema;
    struct reading r = reading_of(job, eval, classes);
    r.sampled = true;
    enum err err = look_at(out, job, &r, &schema, e);
    if (!err)
        schema_unref(schema);
    return err;
}

enum err dataset_sample(struct dataset *d, struct job *job, const struct encoding_given *given,
                        struct key_growth *keys, struct errmsg *e)
{
    struct dataset_look look;
    struct table_schema *schema;
    struct reading r = reading_of(job, 0, 0);
    r.given = given;
    r.sampled = true;
    enum err err = look_at(&look, job, &r, &schema, e);
    if (err)
        return err;
    schema_unref(schema);
    d->seen = look.seen;
    d->row_bytes = look.rows ? look.bytes / look.rows : 0;
    *keys = look.keys;
    return ERR_OK;
}

enum err dataset_look_given(struct dataset_look *out, struct job *job,
                            const struct encoding_given *given, int eval, uint32_t classes,
                            struct table_schema **schema, struct errmsg *e)
{
    struct reading r = reading_of(job, eval, classes);
    r.given = given;
    return look_at(out, job, &r, schema, e);
}

void dataset_close(struct dataset *d)
{
    if (!d->copied) {
        mem_free(d->held.bits);
        mem_free(d->x);
        mem_free(d->labels);
        mem_free(d->x_float);
        mem_free(d->y_float);
    }
    mem_free(d->row);
    stream_rows_free(d->stream);
    table_close(&d->table);
    contents_close(&d->contents);
    if (d->copied || d->refused)
        host_copy_leave();
    *d = (struct dataset){0};
}

static enum err check_label(float y, uint32_t classes, struct errmsg *e)
{
    if (y < 0 || y >= (float)classes || (!isnan(y) && y != truncf(y)))
        return err_set(e, ERR_INPUT, "a label is %g, the model has %u classes (labels 0 to %u)",
                       (double)y, classes, classes - 1);
    return ERR_OK;
}

/* A bad row's label is NaN. */
static enum err check_table(const struct dataset *d, uint32_t classes, struct errmsg *e)
{
    uint32_t *buffer = mem_resize(NULL, TABLE_ROW_CELLS_MAX, sizeof *buffer);
    const uint32_t inputs = d->table.schema->inputs;
    enum err err = buffer ? ERR_OK : err_memory(e);
    for (uint64_t row = 0; row < d->rows && !err;) {
        uint64_t n = d->rows - row;
        const uint32_t *cells;
        err = table_look(&d->table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, e);
        for (; n > 0 && !err; n--, row++, cells += table_packed_cells(d->table.schema, cells))
            err = check_label(schema_float(cells[inputs]), classes, e);
    }
    mem_free(buffer);
    return err;
}

enum err dataset_check_classes(const struct dataset *d, uint32_t classes, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (classes && d->table.schema)
        return check_table(d, classes, e);
    for (uint64_t row = 0; row < d->rows && classes && !err; row++)
        err = check_label(dataset_label(d, row), classes, e);
    return err;
}

enum err dataset_name_label(const struct job *job, const struct encoding_given *given,
                            uint32_t classes, struct errmsg *e)
{
    struct dataset again;
    enum err err = dataset_load_given(&again, job, given, classes, e);
    if (err)
        return err;
    dataset_close(&again); /* data.bad_rows: skip leaves such rows out */
    return err_set(e, ERR_INPUT,
                   "data.train has labels beyond the model's %u classes (labels 0 to %u); "
                   "data.bad_rows leaves such rows out only if model.input.shape is not auto",
                   classes, classes - 1);
}

bool dataset_has_keys(const struct dataset *d)
{
    return d->table.schema && d->table.schema->lookups > 0;
}

/* Add the keys of a block of rows that were gathered. */
static enum err sample_block(struct key_sample *sample, const struct leaf_keys *keys,
                             uint32_t block, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < keys->lists; i++)
        for (uint32_t k = 0; k < keys->list[i].keys && !err; k++)
            err = key_sample_add(&sample[i], keys->list[i].mixed[k], block);
    return err ? err_set(e, err, "out of memory to count keys") : ERR_OK;
}

/* Count the keys of every step-th block. */
static enum err sample_blocks(const struct dataset *d, uint64_t step, struct leaf_buffer *buffer,
                              struct key_sample *sample, uint64_t *counted, struct errmsg *e)
{
    uint64_t *row = leaf_buffer_numbers(buffer), there = d->table.rows;
    struct leaf leaf;
    enum err err = ERR_OK;
    uint32_t block = 0;
    for (uint64_t first = 0; first < there && !err; first += step * COUNTED_BLOCK) {
        uint32_t n = there - first < COUNTED_BLOCK ? (uint32_t)(there - first) : COUNTED_BLOCK;
        for (uint32_t i = 0; i < n; i++)
            row[i] = first + i;
        err = dataset_gather(d, row, n, NULL, buffer, &leaf, e);
        if (!err)
            err = sample_block(sample, leaf.keys, block++, e);
        *counted += n;
    }
    return err;
}

enum err dataset_count_keys(const struct dataset *d, uint64_t rows, uint64_t lookups,
                            struct key_growth *g, struct errmsg *e)
{
    const struct table_schema *s = d->table.schema;
    static_assert((int)ROW_TABLES_MAX <= (int)KEY_GROWTH_LISTS_MAX, "each list has a place");
    assert(dataset_has_keys(d) && rows >= d->table.rows);
    uint64_t step = d->table.rows * s->lookups / lookups + 1;
    const struct leaf_form form = leaf_form_of_cells(s);
    struct leaf_buffer *buffer = NULL;
    struct key_sample *sample = mem_zalloc(s->lists, sizeof *sample);
    *g = (struct key_growth){.rows = rows};
    enum err err =
        sample ? leaf_buffer_new(&buffer, &form, COUNTED_BLOCK, LEAF_LOOKUPS | LEAF_REPEATED, e)
               : err_set(e, ERR_NOMEM, "out of memory to count keys");
    if (!err)
        err = sample_blocks(d, step, buffer, sample, &g->counted, e);
    if (!err)
        key_growth_finish(g, sample, s->lists);
    for (uint32_t i = 0; i < s->lists && sample; i++)
        key_sample_close(&sample[i]);
    leaf_buffer_free(buffer);
    mem_free(sample);
    return err;
}

/* The source over a data set in memory or in a file: its rows as leaves and as blocks. */

/* ---- data.augment ---- */

enum { NOTHING = -1 }; /* a pixel outside of the image */

/* Uniform in -most to most, from 15 bits. */
static int32_t offset_of(uint64_t bits, uint32_t most)
{
    return (int32_t)(((bits & 0x7FFF) * (2 * most + 1)) >> 15) - (int32_t)most;
}

/* The source of each pixel of a side, or NOTHING. */
static void side_map(int32_t *from, uint32_t side, int32_t window, int32_t shift, bool mirrored)
{
    int32_t last = (int32_t)side - 1;
    for (int32_t i = 0; i <= last; i++) {
        int32_t at = i + window;
        if (at < 0 || at > last) {
            from[i] = NOTHING;
            continue;
        }
        at = (mirrored ? last - at : at) + shift;
        from[i] = at < 0 ? 0 : at > last ? last : at;
    }
}

static void copy_line(float *out, const uint8_t *in, float s, const int32_t *from,
                      const struct image *image)
{
    uint32_t channels = image->channels;
    for (uint32_t i = 0; i < image->cols; i++, out += channels) {
        if (from[i] == NOTHING) {
            memset(out, 0, channels * sizeof *out);
            continue;
        }
        const uint8_t *pixel = in + (size_t)from[i] * channels;
        for (uint32_t c = 0; c < channels; c++)
            out[c] = (float)pixel[c] * s;
    }
}

void augment_image(float *out, const uint8_t *in, float s, const struct image *image,
                   const struct job_augment *a, uint64_t bits)
{
    int32_t row[JOB_AUGMENT_SIDE_MAX], col[JOB_AUGMENT_SIDE_MAX];
    size_t line = (size_t)image->cols * image->channels;
    assert(image->rows <= JOB_AUGMENT_SIDE_MAX && image->cols <= JOB_AUGMENT_SIDE_MAX);
    bool mirrored = a->flip == FLIP_HORIZONTAL && bits >> 63;
    side_map(row, image->rows, offset_of(bits, a->crop), offset_of(bits >> 15, a->shift), false);
    side_map(col, image->cols, offset_of(bits >> 30, a->crop), offset_of(bits >> 45, a->shift),
             mirrored);
    for (uint32_t i = 0; i < image->rows; i++) {
        if (row[i] == NOTHING)
            memset(out + i * line, 0, line * sizeof *out);
        else
            copy_line(out + i * line, in + (size_t)row[i] * line, s, col, image);
    }
}

/* ---- rows ---- */

static void row_of(const struct dataset *d, uint64_t row, float *x)
{
    const struct kernels *k = kernels();
    float s = 1.0F / d->scale;
    if (!d->x_float)
        k->u8_to_float(x, d->x + row * d->features, s, d->features);
    for (uint32_t i = 0; d->x_float && i < d->features; i++)
        x[i] = d->x_float[row * d->features + i] * s;
}

/* Rows outside a table. */
static void add_numbers(const struct dataset *d, const uint64_t *rows, uint32_t n,
                        const uint64_t *augment, struct leaf_buffer *buffer)
{
    const struct image image = {d->shape[0], d->shape[1], d->rank == 3 ? d->shape[2] : 1};
    const bool augments = augment && augment_any(&d->augment);
    for (uint32_t i = 0; i < n; i++) {
        float *x = leaf_buffer_add_numbers(buffer, dataset_label(d, rows[i]));
        if (augments)
            augment_image(x, d->x + rows[i] * d->features, 1.0F / d->scale, &image, &d->augment,
                          rng_u64(*augment, i));
        else
            row_of(d, rows[i], x);
    }
}

static enum err add_cells(void *buffer, const uint32_t *cells, struct errmsg *e)
{
    return leaf_buffer_add(buffer, cells, e);
}

enum err dataset_gather(const struct dataset *d, const uint64_t *rows, uint32_t n,
                        const uint64_t *augment, struct leaf_buffer *buffer, struct leaf *leaf,
                        struct errmsg *e)
{
    enum err err = ERR_OK;
    leaf_buffer_clear(buffer);
    if (d->x || d->x_float)
        add_numbers(d, rows, n, augment, buffer);
    else
        err = table_visit(&d->table, rows, n, add_cells, buffer, e);
    return err ? err : leaf_buffer_finish(buffer, leaf, e);
}

struct leaf_form dataset_form(const struct dataset *d)
{
    return d->table.schema ? leaf_form_of_cells(d->table.schema)
                           : (struct leaf_form){.features = d->features};
}

/* Leave out the rows that are held out; returns how many stay. */
static uint32_t leave_held(const struct dataset *d, uint64_t *rows, uint32_t n)
{
    uint32_t stay = 0;
    for (uint32_t i = 0; i < n && d->held.bits; i++)
        if (!order_is_held(&d->held, rows[i]))
            rows[stay++] = rows[i];
    return d->held.bits ? stay : n;
}

static enum err gather_leaf(struct source *s, uint64_t id, uint32_t leaf,
                            struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    const struct dataset *d = ((struct dataset_source *)s)->data;
    const uint64_t augment = rng_key(s->order.seed, RNG_AUGMENT, id, leaf);
    uint64_t *rows = leaf_buffer_numbers(buffer);
    uint32_t n = leave_held(d, rows, order_leaf(&s->order, id, leaf, rows));
    return dataset_gather(d, rows, n, &augment, buffer, out, e);
}

static enum err gather_block(struct source *s, uint64_t first, uint32_t n,
                             struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    const struct dataset *d = ((struct dataset_source *)s)->data;
    uint64_t *rows = leaf_buffer_numbers(buffer);
    if (d->held_rows)
        return source_block(d->held_rows, first, n, buffer, out, e);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = d->row ? d->row[first + i] : first + i;
    return dataset_gather(d->whole ? d->whole : d, rows, n, NULL, buffer, out, e);
}

void dataset_source_init(struct dataset_source *s, const struct dataset *d,
                         const struct order *order)
{
    static const struct source_type type = {.leaf = gather_leaf, .block = gather_block};
    const struct dataset *of = d->whole ? d->whole : d;
    *s = (struct dataset_source){.source = {.type = &type,
                                            .rows = d->rows,
                                            .absent = d->bad_rows + (d->row ? 0 : d->held.rows),
                                            .form = dataset_form(of),
                                            .contents = &d->contents,
                                            .spill = of->table.spill},
                                 .data = d};
    if (order)
        s->source.order = *order;
}
