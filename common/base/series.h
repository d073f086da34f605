/* Logarithm and exponential with the same bits on every machine. They use only sums, products and quotients,
 * because IEEE 754 defines their rounding, and libm's functions differ by CPU. The error is a few ulp. Thread:
 * any. */
#ifndef GRADWIRE_COMMON_BASE_SERIES_H
#define GRADWIRE_COMMON_BASE_SERIES_H

/* The natural logarithm of x; x must be positive and not denormal. */
double series_log(double x);
/* e^x for |x| <= 700. */
double series_exp(double x);

#endif
