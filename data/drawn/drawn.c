#include "data/drawn/drawn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/base/real.h"
#include "common/base/mem.h"

/* Only integer arithmetic, so the bytes are the same on every machine. A person's income depends on age (highest in
 * the middle of life), years of school, hours, marriage, occupation and capital gains, on two interactions (school
 * counts more in some occupations, hours more with marriage), and on luck. All other columns have no effect: a model
 * should ignore them. */

enum { SCHOOLS = 8, MARRIAGES = 5, OCCUPATIONS = 8, WORDS = 8 };

static const char *const schools[SCHOOLS] = {"9th",        "11th",      "HS-grad", "Some-college",
                                             "Assoc-acdm", "Bachelors", "Masters", "Doctorate"};
static const int school_years[SCHOOLS] = {5, 7, 9, 10, 12, 13, 14, 16};
static const char *const marriages[MARRIAGES] = {"Never-married", "Married-civ-spouse", "Divorced",
                                                 "Separated", "Widowed"};
static const char *const occupations[OCCUPATIONS] = {
    "Adm-clerical",   "Craft-repair", "Exec-managerial", "Other-service",
    "Prof-specialty", "Sales",        "Tech-support",    "Transport-moving"};
static const int occupation_pay[OCCUPATIONS] = {-30, 0, 60, -80, 50, 20, 30, -20};
static const char *const workclasses[WORDS] = {"Private",          "Private", "Private",
                                               "Self-emp-not-inc", "Private", "Local-gov",
                                               "Self-emp-inc",     "?"};
static const char *const relations[] = {"Not-in-family", "Own-child", "Unmarried",
                                        "Other-relative"};
static const char *const groups[] = {"Group-a", "Group-b", "Group-c", "Group-d"};
static const char *const countries[WORDS] = {"United-States", "United-States", "Mexico", "Canada",
                                             "Germany",       "India",         "Cuba",   "?"};

struct chance {
    uint64_t key, position;
};

/* Uniform in [0, n). */
static int below(struct chance *c, int n)
{
    return (int)((rng_u64(c->key, c->position++) >> 32) * (uint64_t)n >> 32);
}

/* Near 0, from -most to most: the mean of four. */
static int around(struct chance *c, int most)
{
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += below(c, 2 * most + 1) - most;
    return sum / 4;
}

struct person {
    int age, school, marriage, occupation, gain, loss, hours;
};

/* One random number in each statement: within an expression the compiler would choose their order. */
static struct person person_draw(struct chance *c)
{
    struct person p = {0};
    p.age = 17 + below(c, 40);
    p.age += below(c, 25);
    p.school = below(c, SCHOOLS);
    p.school = (p.school + below(c, SCHOOLS)) / 2;
    p.occupation = below(c, OCCUPATIONS);
    p.hours = 40 + around(c, 35);
    p.marriage = below(c, MARRIAGES);
    if (p.age < 25)
        p.marriage = below(c, 4) == 0;
    else if (below(c, 3) == 0)
        p.marriage = 1;
    int capital = below(c, 24), amount = below(c, 150), times = below(c, 100);
    if (capital < 2)
        p.gain = 500 + amount * times;
    else if (capital == 2)
        p.loss = 1400 + 10 * times;
    return p;
}

/* Above 0: more than 50K. */
static int score(const struct person *p, struct chance *c)
{
    int from_best = p->age - 48, married = p->marriage == 1;
    int years = school_years[p->school] - 10;
    int expert = p->occupation == 2 || p->occupation == 4 || p->occupation == 6;
    int s = -230 - from_best * from_best / 7;
    s += years * (expert ? 40 : 22) + occupation_pay[p->occupation];
    s += (p->hours - 40) * (married ? 6 : 3) + (married ? 190 : 0);
    s += p->gain / 12 + p->loss / 20;
    return s + around(c, 400);
}

/* Write the line of a row, with its newline and a NUL; returns its bytes, without the NUL. It is a function of
 * (eval, row). out: (room), at least CENSUS_LINE_BYTES. */
static size_t census_write(char *out, size_t room, int eval, uint64_t row)
{
    struct chance c = {.key = rng_key(1, RNG_SYNTHETIC, (uint64_t)eval, row)};
    struct person p = person_draw(&c);
    int rich = score(&p, &c) > 0;
    int hidden = below(&c, 18) == 0, husband = below(&c, 2), relation = below(&c, 4);
    int workclass = below(&c, WORDS), weight = 20000 + below(&c, 400000), group = below(&c, 4);
    int female = below(&c, 2), country = below(&c, WORDS);
    return (size_t)snprintf(
        out, room, "%d, %s, %d, %s, %d, %s, %s, %s, %s, %s, %d, %d, %d, %s, %s\n", p.age,
        workclasses[workclass], weight, schools[p.school], school_years[p.school],
        marriages[p.marriage], hidden ? "?" : occupations[p.occupation],
        p.marriage != 1 ? relations[relation]
        : husband       ? "Husband"
                        : "Wife",
        groups[group], female ? "Female" : "Male", p.gain, p.loss, p.hours, countries[country],
        rich ? ">50K" : "<=50K");
}

/* Everything is computed with integers, or with functions that have the same bits on every machine
 * (common/base/real.h). Weights and vectors of keys are not stored: they are drawn again for each row, so a
 * vocabulary of any size takes no memory. */

enum { CLICKS_CHANCE = 2, PART_MODEL = 2 }; /* parts 0 and 1 are rows; the census uses 1 */
/* The variance of the logit due to weights, and due to products. */
static const double bias = -1.2, weights_variance = 1.6, products_variance = 1.0;

/* ---- the model ---- */

/* Fields differ in size, as in real data: by the square of their number. The sum over all fields is `keys`. */
static uint32_t keys_of(uint32_t field, uint32_t fields, uint64_t keys)
{
    uint64_t below = (uint64_t)field * (field + 1) * (2 * field + 1) / 6, here = field + 1;
    uint64_t all = (uint64_t)fields * (fields + 1) * (2 * fields + 1) / 6;
    uint64_t rest = keys - fields;
    return (uint32_t)(1 + rest * (below + here * here) / all - rest * below / all);
}

void clicks_init(struct clicks *c, const struct job *job)
{
    /* a weight is the sum of four uniform 16-bit integers, an element of a vector is one */
    const double element_variance = 65536.0 * 65536.0 / 12;
    uint32_t fields = job->data.synthetic_fields, rank = job->data.synthetic_interaction;
    double pairs = (double)fields * (fields - 1) / 2;
    *c = (struct clicks){.fields = fields, .rank = rank};
    c->weight_scale = sqrt(weights_variance / (4 * element_variance * fields));
    if (rank && pairs > 0)
        c->product_scale = sqrt(products_variance / (pairs * rank)) / element_variance;
    for (uint32_t f = 0; f < fields; f++) {
        struct clicks_field *to = &c->field[f];
        to->keys = keys_of(f, fields, job->data.synthetic_keys);
        to->log_range = series_log((double)to->keys + 1);
        to->model = rng_key(CLICKS_CHANCE, RNG_SYNTHETIC, PART_MODEL, f);
    }
}

/* Word i of four, centred on 0. */
static int64_t word_of(uint64_t bits, uint32_t i)
{
    return (int64_t)(bits >> (16 * i) & 0xFFFF) - 32768;
}

static int64_t weight_of(uint64_t bits)
{
    return word_of(bits, 0) + word_of(bits, 1) + word_of(bits, 2) + word_of(bits, 3);
}

/* The sum over pairs of fields of their vectors' products: half of (sum squared - sum of squares). Exact: |sum| <
 * 2^21. */
static int64_t products(const struct clicks *c, const struct click *row)
{
    int64_t sum[4] = {0}, squares = 0, all = 0;
    for (uint32_t f = 0; f < c->fields; f++) {
        uint64_t bits = rng_u64(c->field[f].model, 2 * (uint64_t)row->key[f] + 1);
        for (uint32_t i = 0; i < c->rank; i++) {
            int64_t v = word_of(bits, i);
            sum[i] += v;
            squares += v * v;
        }
    }
    for (uint32_t i = 0; i < c->rank; i++)
        all += sum[i] * sum[i];
    return (all - squares) / 2;
}

static double logit_of(const struct clicks *c, const struct click *row)
{
    int64_t sum = 0;
    for (uint32_t f = 0; f < c->fields; f++)
        sum += weight_of(rng_u64(c->field[f].model, 2 * (uint64_t)row->key[f]));
    double logit = bias + c->weight_scale * (double)sum;
    return c->rank ? logit + c->product_scale * (double)products(c, row) : logit;
}

/* ---- a row ---- */

/* In [0, 1). */
static double unit(uint64_t chance, uint64_t position)
{
    return (double)(rng_u64(chance, position) >> 11) * 0x1p-53;
}

static uint32_t key_draw(const struct clicks_field *f, double u)
{
    double x = series_exp(u * f->log_range); /* in [1, keys + 1), except for rounding */
    return x >= f->keys ? f->keys : (uint32_t)x;
}

static uint64_t chance_of(int eval, uint64_t row)
{
    return rng_key(CLICKS_CHANCE, RNG_SYNTHETIC, (uint64_t)eval, row);
}

void clicks_draw(const struct clicks *c, int eval, uint64_t row, struct click *out)
{
    uint64_t chance = chance_of(eval, row);
    for (uint32_t f = 0; f < c->fields; f++)
        out->key[f] = key_draw(&c->field[f], unit(chance, 1 + CLICKS_NUMBERS + f));
    out->logit = logit_of(c, out);
    out->clicked = unit(chance, 0) < 1 / (1 + series_exp(-out->logit));
}

/* ---- its text ---- */

/* A count below 2^bits, with each power of two equally likely; missing in this many of 256 rows. */
static const struct {
    uint8_t bits, missing;
} numbers[CLICKS_NUMBERS] = {{7, 116}, {10, 0},  {9, 55},  {6, 55}, {17, 7},  {11, 57}, {8, 11},
                             {7, 1},   {10, 11}, {3, 116}, {5, 11}, {4, 195}, {8, 55}};

static char *decimal_put(char *out, uint32_t number)
{
    char digits[10];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

static char *number_put(char *out, uint32_t i, uint64_t bits)
{
    if ((bits & 0xFF) < numbers[i].missing)
        return out;
    uint32_t size = (uint32_t)(bits >> 8 & 0xFFFF) % (numbers[i].bits + 1U);
    return decimal_put(out, (uint32_t)(bits >> 32) & ((1U << size) - 1));
}

/* 8 hex digits, a different word for each key of the field: each line is a bijection (MurmurHash3's finalizer). */
static char *word_put(char *out, const struct clicks_field *f, uint32_t key)
{
    uint32_t x = key ^ (uint32_t)f->model;
    x = (x ^ x >> 16) * 0x85EBCA6BU;
    x = (x ^ x >> 13) * 0xC2B2AE35U;
    x ^= x >> 16;
    for (int i = 0; i < 8; i++, x <<= 4)
        *out++ = "0123456789abcdef"[x >> 28];
    return out;
}

size_t clicks_write(const struct clicks *c, char *out, char delimiter, int eval, uint64_t row)
{
    struct click drawn;
    uint64_t chance = chance_of(eval, row);
    char *to = out;
    clicks_draw(c, eval, row, &drawn);
    *to++ = drawn.clicked ? '1' : '0';
    for (uint32_t i = 0; i < CLICKS_NUMBERS; i++) {
        *to++ = delimiter;
        to = number_put(to, i, rng_u64(chance, 1 + i));
    }
    for (uint32_t f = 0; f < c->fields; f++) {
        *to++ = delimiter;
        to = word_put(to, &c->field[f], drawn.key[f]);
    }
    *to++ = '\n';
    return (size_t)(to - out);
}

void drawn_init(struct drawn *d, const struct job *job, int eval, char delimiter)
{
    *d = (struct drawn){.eval = eval,
                        .kind = job->data.synthetic,
                        .delimiter = delimiter,
                        .rows =
                            eval ? job->data.synthetic_eval_rows : job->data.synthetic_train_rows};
    if (d->kind == SYNTHETIC_CLICKS)
        clicks_init(&d->clicks, job);
}

static void next_line(struct drawn *d)
{
    if (d->kind == SYNTHETIC_CLICKS)
        d->line_bytes = clicks_write(&d->clicks, d->line, d->delimiter, d->eval, d->row++);
    else
        d->line_bytes = census_write(d->line, sizeof d->line, d->eval, d->row++);
    d->at = 0;
}

size_t drawn_read(struct drawn *d, char *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        if (d->at == d->line_bytes) {
            if (d->row == d->rows)
                break;
            next_line(d);
        }
        size_t left = d->line_bytes - d->at, n = left < bytes - done ? left : bytes - done;
        memcpy(out + done, d->line + d->at, n);
        d->at += n;
        done += n;
    }
    return done;
}

/* Rows are counted by their logit in steps of 1 / 2048, so nothing needs sorting. Rows of one step count as ties. */
enum { STEPS = 1 << 16, STEPS_PER_UNIT = 2048 };

struct counts {
    uint32_t clicked[STEPS], others[STEPS];
};

static uint32_t step_of(double logit)
{
    double at = (logit + (double)(STEPS / 2) / STEPS_PER_UNIT) * STEPS_PER_UNIT;
    return at < 0 ? 0 : at >= STEPS ? STEPS - 1 : (uint32_t)at;
}

/* -log of the probability of the outcome. */
static double loss_of(const struct click *row)
{
    return series_log(1 + series_exp(row->clicked ? -row->logit : row->logit));
}

/* The share of pairs of a click and another row in which the click has the higher logit, ties counting half. */
static double auc_of(const struct counts *c)
{
    double clicks = 0, others = 0, area = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        area += (double)c->clicked[i] * (others + 0.5 * (double)c->others[i]);
        clicks += (double)c->clicked[i];
        others += (double)c->others[i];
    }
    return clicks > 0 && others > 0 ? area / (clicks * others) : NAN;
}

enum err planted_measure(const struct job *job, double *auc, double *logloss, struct errmsg *e)
{
    struct clicks model;
    struct click row;
    uint32_t rows = job->data.synthetic_eval_rows;
    struct counts *counts = mem_zalloc(1, sizeof *counts);
    double loss = 0;
    if (!counts)
        return err_set(e, ERR_NOMEM, "out of memory for the planted model's counts");
    clicks_init(&model, job);
    for (uint32_t i = 0; i < rows; i++) {
        clicks_draw(&model, 1, i, &row);
        (row.clicked ? counts->clicked : counts->others)[step_of(row.logit)]++;
        loss += loss_of(&row);
    }
    *auc = auc_of(counts);
    *logloss = loss / rows;
    mem_free(counts);
    return ERR_OK;
}
