#include "common/base/json_number.h"

#include <math.h>

json_t *json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}
