/* Synthetic text (data.synthetic: census, clicks) that is read like a csv file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

/* A synthetic census, as text in the format of UCI's "Adult": people, and whether each earns more than 50K. */
enum { CENSUS_LINE_BYTES = 320 };

/* A synthetic log of clicks, as text in the format of Criteo's: label, 13 counts of which some are missing, and
 * words of key columns. The probability of each click is known, so the best possible AUC and logloss are known too.
 *
 * The planted model: logit = bias + the sum of a weight for each field's key, and with an interaction of rank r the
 * sum over all pairs of fields of the dot product of their keys' vectors (r): a factorization machine (Rendle 2010).
 * The counts have no influence. Key k of a field of n keys has the probability log(1 + 1/k) / log(n + 1), about 1 /
 * k (Zipf's law). */
enum {
    CLICKS_NUMBERS = 13,
    /* label; counts of at most 6 digits; words of 8; each with its delimiter */
    CLICKS_LINE_BYTES = 2 + CLICKS_NUMBERS * 7 + JOB_CLICK_FIELDS_MAX * 9
};

/* The planted model: a function of the job's keys of data, but not of its seed. Constant after clicks_init. */
struct clicks {
    uint32_t fields, rank;
    /* factors for weights and products, which are computed as integers */
    double weight_scale, product_scale;
    struct clicks_field {
        uint32_t keys;
        double log_range; /* log(keys + 1) */
        uint64_t model;   /* seed of its keys' weights and vectors */
    } field[JOB_CLICK_FIELDS_MAX];
};

struct click {
    /* (fields): from 1, the most frequent key, to the field's number of keys */
    uint32_t key[JOB_CLICK_FIELDS_MAX];
    double logit;
    bool clicked;
};

void clicks_init(struct clicks *c, const struct job *job);
/* Draw one row: a function of (the model, eval, row), the same bits on every machine. Thread: any. */
void clicks_draw(const struct clicks *c, int eval, uint64_t row, struct click *out);
/* The same as a line of text with its newline; returns its bytes. out: (CLICKS_LINE_BYTES). */
size_t clicks_write(const struct clicks *c, char *out, char delimiter, int eval, uint64_t row);

enum { DRAWN_LINE_BYTES = CLICKS_LINE_BYTES };
_Static_assert((int)DRAWN_LINE_BYTES >= (int)CENSUS_LINE_BYTES, "a line of the census has room");

struct drawn {
    int eval; /* the eval part, else the training part */
    enum synthetic_kind kind;
    struct clicks clicks;
    char delimiter;              /* for clicks; the census has a fixed one */
    uint64_t row, rows;          /* row: the next one; rows: in all */
    char line[DRAWN_LINE_BYTES]; /* the line that is being read, of the row before `row` */
    size_t line_bytes, at;
};

/* Begin with the part's first row. `delimiter`: the one that the csv reader expects. */
void drawn_init(struct drawn *d, const struct job *job, int eval, char delimiter);
/* Read the next `bytes` bytes of the text; returns less only at its end. */
size_t drawn_read(struct drawn *d, char *out, size_t bytes);

/* Measures the planted model of data.synthetic: clicks on the rows of data.eval: no other model is better, except by
 * chance. */
/* Draw the rows again, about 2 us each, and score them by the probabilities that they were drawn with. auc: NAN if
 * all rows have one class; scores closer than 1 / 2048 of a logit count as ties, which changes it by less than 1e-6
 * for 100,000 rows. Errors: ERR_NOMEM. Thread: any. */
enum err planted_measure(const struct job *job, double *auc, double *logloss,
                         struct errmsg *e) MUST_CHECK;
