/* exp, log, cos and pow in double, computed with additions, multiplications and divisions only. libm's results
 * differ between CPUs and versions, and the server's results must not. The error is a few ulp. Pure. */
#pragma once

#include <stdint.h>

/* e^x: 0 for x < -708, inf for x > 709.78, NaN for NaN. */
double real_exp(double x);
/* The natural logarithm: -inf for 0 and for denormals, NaN for negative x. */
double real_log(double x);
/* cos(pi x), |x| <= 1. */
double real_cos_pi(double x);
/* x^y, x >= 0: exp(y log x), exact where y is 0, 1 or 2; its relative error grows with |y log x|. */
double real_pow(double x, double y);

/* Logarithm and exponential with the same bits on every machine. They use only sums, products and quotients,
 * because IEEE 754 defines their rounding, and libm's functions differ by CPU. The error is a few ulp. Thread:
 * any. */
/* The natural logarithm of x; x must be positive and not denormal. */
double series_log(double x);
/* e^x for |x| <= 700. */
double series_exp(double x);

/* The quantile function of the normal distribution, with the same bits on every machine.
 * Returns x such that a standard normal variable is below x with probability p, 0 < p < 1. The relative error is
 * about 1e-15. It uses only sums, products, quotients and square roots, because IEEE 754 defines their rounding,
 * and libm's functions differ by CPU. Source: Wichura 1988, algorithm AS 241, PPND16. Thread: any. */
double normal_quantile(double p);

/* The value of a number of IEEE 754 binary16; every NaN gives one NaN. */
float real_of_half(uint16_t bits);

/* For qsort: doubles in ascending order. */
int real_order(const void *a, const void *b);
