/* Compares the order of the model's input columns, numbers and categories, in two identity texts. Features have no
 * names, so only its position assigns a weight to a column. Pure. */
#ifndef GRADWIRE_COMMON_JOB_COLUMN_ORDER_H
#define GRADWIRE_COMMON_JOB_COLUMN_ORDER_H

#include "common/base/err.h"

/* Checks that columns of the same name have the same position. A column that only one job has is not compared.
 * Errors: ERR_INPUT, naming the first column that moved. */
enum err column_order_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;

#endif
