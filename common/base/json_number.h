/* JSON has no NaN and no infinity. */
#ifndef GRADWIRE_COMMON_BASE_JSON_NUMBER_H
#define GRADWIRE_COMMON_BASE_JSON_NUMBER_H

#include <jansson.h>

/* A new reference: null where x is not finite; NULL without memory. */
json_t *json_number(double x);

#endif
