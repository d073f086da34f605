#include "common/base/normal.h"

#include <math.h>

/* Coefficients of AS 241, from the highest power down. */
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

/* log(x), x > 0 and no denormal: e log 2 + log m, m in [sqrt(1/2), sqrt(2)), by the series of
 * 2 artanh((m - 1) / (m + 1)); |s| < 0.1716, so s^25 is the last that counts. */
static double log_of(double x)
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

double normal_quantile(double p)
{
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * ratio(near_num, near_den, 0.180625 - q * q);
    double r = sqrt(-log_of(q < 0.0 ? p : 1.0 - p));
    double x = r <= 5.0 ? ratio(tail_num, tail_den, r - 1.6) : ratio(far_num, far_den, r - 5.0);
    return q < 0.0 ? -x : x;
}
