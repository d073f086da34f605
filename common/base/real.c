#include "common/base/real.h"

#include <math.h>
#include <stdint.h>
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
