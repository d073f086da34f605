/* exp, log, cos and pow in double, computed with additions, multiplications and divisions only. libm's results
 * differ between CPUs and versions, and the server's results must not. The error is a few ulp. Pure. */
#ifndef GRADWIRE_COMMON_BASE_REAL_H
#define GRADWIRE_COMMON_BASE_REAL_H

/* e^x: 0 for x < -708, inf for x > 709.78, NaN for NaN. */
double real_exp(double x);
/* The natural logarithm: -inf for 0 and for denormals, NaN for negative x. */
double real_log(double x);
/* cos(pi x), |x| <= 1. */
double real_cos_pi(double x);
/* x^y, x >= 0: exp(y log x), exact where y is 0, 1 or 2; its relative error grows with |y log x|. */
double real_pow(double x, double y);

#endif
