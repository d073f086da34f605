/* exp, log, cos and pow in double, from additions, multiplications and divisions alone: libm's differ from one CPU and
 * version to another, and what the server computes with them must not. Off the true value by a few ulp. Pure. */
#ifndef GRADWIRE_COMMON_BASE_REAL_H
#define GRADWIRE_COMMON_BASE_REAL_H

/* 0 below -708, inf above 709.78; NaN in, NaN out. */
double real_exp(double x);
/* -inf of 0 and of denormals, NaN below. */
double real_log(double x);
/* cos(pi x), |x| <= 1. */
double real_cos_pi(double x);
/* x^y, x >= 0: exp(y log x), exact where y is 0, 1 or 2; its relative error grows with |y log x|. */
double real_pow(double x, double y);

#endif
