#include "common/base/series.h"

#include <math.h>

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)): log x = e log 2 + log m, and log m = 2 artanh(s) with s = (m - 1) / (m
 * + 1), summed as a series. |s| < 0.1716, so terms after s^25 no longer change the sum. */
double series_log(double x)
{
    enum { TERMS = 12 };
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752440) {
        m *= 2.0;
        e--;
    }
    double s = (m - 1.0) / (m + 1.0), z = s * s, sum = 0.0;
    for (int i = TERMS; i > 0; i--)
        sum = (sum + 1.0 / (2 * i + 1)) * z;
    return e * 0.69314718055994530942 + 2.0 * (s + s * sum);
}

/* x = k log 2 + r: e^x is 2^k times the series of e^r. |r| <= 0.3466, so terms after r^13 no longer change the
 * sum. log 2 is split in two parts; the high part ends with 21 zero bits, so k times it is exact. */
double series_exp(double x)
{
    enum { TERMS = 13 };
    const double log2_high = 0x1.62e42fee00000p-1, log2_low = 0x1.a39ef35793c76p-33;
    double k = floor(x * 1.44269504088896340736 + 0.5);
    double r = (x - k * log2_high) - k * log2_low, sum = 1.0;
    for (int i = TERMS; i > 0; i--)
        sum = 1.0 + sum * r / i;
    return ldexp(sum, (int)k);
}
