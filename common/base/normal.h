/* The normal distribution's quantile, the same bits on every machine. */
#ifndef GRADWIRE_COMMON_BASE_NORMAL_H
#define GRADWIRE_COMMON_BASE_NORMAL_H

/* The x below which a standard normal variable falls with probability p, 0 < p < 1; off by some
 * 1e-15 of its size. Sums, products, quotients and square roots alone, which IEEE 754 rounds in one
 * way; libm's functions differ by CPU. Wichura 1988, algorithm AS 241, PPND16. Thread: any. */
double normal_quantile(double p);

#endif
