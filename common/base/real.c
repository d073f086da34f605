/* exp, log, cos and pow; then a logarithm and an exponential as series; then the quantiles of the normal distribution. The results of
 * real_log and series_log, and of the exponentials, differ in their last bits: both stay, because values depend on each. */
#include "common/base/real.h"

#include <math.h>
#include <string.h>

enum { EXPONENT_BIAS = 1023, MANTISSA_BITS = 52 };

/* 2^n, -1022 <= n <= 1023 */
static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + EXPONENT_BIAS) << MANTISSA_BITS;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x) = 2^n exp(r) with |r| <= ln(2)/2; ln 2 is split in two parts. exp(r) = 1 + 2 p / (q - p): Cephes exp.c
 * (Moshier). */
double real_exp(double x)
{
    if (x != x)
        return x;
    if (x > 709.78)
        return INFINITY;
    if (x < -708.0)
        return 0;
    double n = floor(1.4426950408889634073599 * x + 0.5);
    double r = (x - n * 6.93145751953125E-1) - n * 1.42860682030941723212E-6;
    double z = r * r;
    double p = r * ((1.26177193074810590878E-4 * z + 3.02994407707441961300E-2) * z +
                    9.99999999999999999910E-1);
    double q = ((3.00198505138664455042E-6 * z + 2.52448340349684104192E-3) * z +
                2.27265548208155028766E-1) *
                   z +
               2.00000000000000000005E0;
    int half = (int)n / 2;
    return (1.0 + 2.0 * (p / (q - p))) * power_of_two(half) * power_of_two((int)n - half);
}

/* log(x) = n ln 2 + log(m) with m in [sqrt(1/2), sqrt(2)). log(m) = 2 atanh(s) with s = (m - 1) / (m + 1), |s| <
 * 0.172, summed as a series: the first omitted term is below 2e-17 of the sum. */
double real_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x || x == INFINITY)
        return x;
    if (x < power_of_two(1 - EXPONENT_BIAS))
        return x < 0 ? NAN : -INFINITY;
    int n = (int)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
    double m = x * power_of_two(-n / 2) * power_of_two(-n - -n / 2);
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        n++;
    }
    double s = (m - 1.0) / (m + 1.0), z = s * s, sum = 0;
    for (int k = 21; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * z;
    return (n * -2.121944400546905827679e-4 + 2.0 * s * sum) + 2.0 * s + n * 0.693359375;
}

/* The Taylor series of cos and sin about 0, for |x| <= pi/4: the first omitted term is below 1e-17. */
static double cos_near_0(double x)
{
    double z = x * x, sum = 0;
    for (int k = 16; k >= 2; k -= 2)
        sum = (1.0 + sum) * -z / (k * (k - 1));
    return 1.0 + sum;
}

static double sin_near_0(double x)
{
    double z = x * x, sum = 0;
    for (int k = 17; k >= 3; k -= 2)
        sum = (1.0 + sum) * -z / (k * (k - 1));
    return x + x * sum;
}

double real_cos_pi(double x)
{
    const double pi = 3.14159265358979323846;
    x = fabs(x);
    if (x <= 0.25)
        return cos_near_0(pi * x);
    if (x <= 0.75)
        return sin_near_0(pi * (0.5 - x));
    return -cos_near_0(pi * (1.0 - x));
}

double real_pow(double x, double y)
{
    if (y == 0 || x == 1)
        return 1;
    if (y == 1)
        return x;
    if (y == 2)
        return x * x;
    return real_exp(y * real_log(x));
}

/* ---- the logarithm and the exponential as series ---- */

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

/* ---- the normal distribution ---- */

/* The coefficients of AS 241, from the highest power down. */
static const double near_num[8] = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                                   6.7265770927008700853e+4, 4.5921953931549871457e+4,
                                   1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                   1.3314166789178437745e+2, 3.3871328727963666080e+0};
static const double near_den[8] = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                                   3.9307895800092710610e+4, 2.1213794301586595867e+4,
                                   5.3941960214247511077e+3, 6.8718700749205790830e+2,
                                   4.2313330701600911252e+1, 1.0};
static const double tail_num[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                   2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                   3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                   4.63033784615654529590e+0, 1.42343711074968357734e+0};
static const double tail_den[8] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                   1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                   6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                   2.05319162663775882187e+0, 1.0};
static const double far_num[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                  1.24266094738807843860e-3, 2.65321895265761230930e-2,
                                  2.96560571828504891230e-1, 1.78482653991729133580e+0,
                                  5.46378491116411436990e+0, 6.65790464350110377720e+0};
static const double far_den[8] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                  1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                  1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                  5.99832206555887937690e-1,  1.0};

static double ratio(const double num[8], const double den[8], double r)
{
    double a = num[0], b = den[0];
    for (int i = 1; i < 8; i++) {
        a = a * r + num[i];
        b = b * r + den[i];
    }
    return a / b;
}

double normal_quantile(double p)
{
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * ratio(near_num, near_den, 0.180625 - q * q);
    double r = sqrt(-series_log(q < 0.0 ? p : 1.0 - p));
    double x = r <= 5.0 ? ratio(tail_num, tail_den, r - 1.6) : ratio(far_num, far_den, r - 5.0);
    return q < 0.0 ? -x : x;
}

float real_of_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31 && fraction)
        return NAN;
    float v = exponent == 31 ? INFINITY
              : exponent     ? ldexpf((float)(fraction + 1024), exponent - 25)
                             : ldexpf((float)fraction, -24);
    return bits >> 15 ? -v : v;
}

int real_order(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}
