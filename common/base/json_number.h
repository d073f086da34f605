/* Numbers in JSON, which has no NaN and no infinity. */
#ifndef GRADWIRE_COMMON_BASE_JSON_NUMBER_H
#define GRADWIRE_COMMON_BASE_JSON_NUMBER_H

#include <jansson.h>

/* Returns a new reference: the number, or null if x is not finite. NULL if memory runs out. */
json_t *json_number(double x);

#endif
