/* Logarithm and exponential, the same bits on every machine: sums, products and quotients alone, which IEEE 754 rounds
 * in one way; libm's functions differ by CPU. Off by a few units of the last place. Thread: any. */
#ifndef GRADWIRE_COMMON_BASE_SERIES_H
#define GRADWIRE_COMMON_BASE_SERIES_H

/* The natural logarithm of x, x > 0 and no denormal. */
double series_log(double x);
/* e to the power of x, |x| <= 700. */
double series_exp(double x);

#endif
