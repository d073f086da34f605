/* Whether float32, or float64, is enough for the numbers of a column: estimates how many different numbers it has, and how many
 * of them are left. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* Estimates the number of different keys with a sketch of 4 KiB, right to about 2 %. Flajolet et al. 2007,
 * "HyperLogLog"; the estimate is that of Ertl 2017, "New cardinality estimation algorithms for HyperLogLog
 * sketches", section 4: it has no bias for few keys. Pure. */
enum { DISTINCT_BITS = 12, DISTINCT_REGISTERS = 1 << DISTINCT_BITS };

/* All zero: no keys yet. */
struct distinct {
    uint8_t longest[DISTINCT_REGISTERS];
};

/* Add a mixed key (common/rows/key.h), whose bits are as good as random. */
void distinct_add(struct distinct *d, uint64_t mixed);
double distinct_keys(const struct distinct *d);

struct rounding_counts {
    struct distinct numbers, floats;
};

/* Two samples. That of rows shows what is left of numbers in few floats, or of rows that are sorted. That of floats has all
 * numbers of one float in 32, so it shows what is left in many floats, in any order of the rows. */
struct rounding {
    bool noted;
    struct rounding_counts rows, floats;
};

/* The number as arithmetic takes it: a denormal one is 0. */
float rounding_flushed(float number);
/* Whether a number that becomes this float is in the sample of floats. 0 is not: many numbers can become it. */
bool rounding_picks(float number);
/* Equal for equal numbers. An integer can have digits that a double loses. */
uint64_t rounding_key(double number);
uint64_t rounding_key_of_integer(uint64_t bits);
/* Note a number, by its key, of which `left` is left. row: it is of a row in the sample of rows. */
void rounding_add(struct rounding *r, uint64_t number, double left, bool row);
/* The same in one sample. */
void rounding_count(struct rounding_counts *c, uint64_t number, double left);
/* Add what another one has noted; the order does not matter. */
void rounding_join(struct rounding *r, const struct rounding *other);
/* Of the different numbers of an amount float32 must leave a tenth. Integers that are too long for a double are ids or times, in
 * which each counts; the sketches err by 2 %. */
#define ROUNDING_OF_FLOATS 0.1
#define ROUNDING_OF_DOUBLES 0.9
/* Returns true if less than this share of the different numbers is left in the sample, or in one of the samples. They are
 * about so many in all of what the sample is for. */
bool rounding_counts_lose(const struct rounding_counts *c, double share, double *numbers,
                          double *left);
bool rounding_loses(const struct rounding *r, double share, double *numbers, double *left);
