/* The order of the columns that a model's input has, number and category, by the identity texts of two jobs: features have no
 * names, so a weight is a column's by its place alone. Pure. */
#ifndef GRADWIRE_COMMON_JOB_COLUMN_ORDER_H
#define GRADWIRE_COMMON_JOB_COLUMN_ORDER_H

#include "common/base/err.h"

/* Do columns of one name stand at one place? One that the other job does not name is not compared. Errors: ERR_INPUT
 * naming the first that moved. */
enum err column_order_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;

#endif
