/* The quantile function of the normal distribution, with the same bits on every machine. */
#ifndef GRADWIRE_COMMON_BASE_NORMAL_H
#define GRADWIRE_COMMON_BASE_NORMAL_H

/* Returns x such that a standard normal variable is below x with probability p, 0 < p < 1. The relative error is
 * about 1e-15. It uses only sums, products, quotients and square roots, because IEEE 754 defines their rounding,
 * and libm's functions differ by CPU. Source: Wichura 1988, algorithm AS 241, PPND16. Thread: any. */
double normal_quantile(double p);

#endif
