/* A synthetic log of clicks, as text in the format of Criteo's: label, 13 counts of which some are missing, and
 * words of key columns. The probability of each click is known, so the best possible AUC and logloss are known too.
 *
 * The planted model: logit = bias + the sum of a weight for each field's key, and with an interaction of rank r the
 * sum over all pairs of fields of the dot product of their keys' vectors (r): a factorization machine (Rendle 2010).
 * The counts have no influence. Key k of a field of n keys has the probability log(1 + 1/k) / log(n + 1), about 1 /
 * k (Zipf's law). */
#ifndef GRADWIRE_DATA_DRAWN_CLICKS_H
#define GRADWIRE_DATA_DRAWN_CLICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

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

#endif
