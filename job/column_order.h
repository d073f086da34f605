/* Compares what a model's weights stand for, in two identity texts: the order and the scales of its input columns
 * (numbers and categories), and the order of its classes. Neither features nor classes have names in a model, so only
 * its position assigns a weight to a column or class. Pure. */
#ifndef GRADWIRE_JOB_COLUMN_ORDER_H
#define GRADWIRE_JOB_COLUMN_ORDER_H

#include "common/base/err.h"

/* Checks that columns of the same name have the same position. A column that only one job has is not compared.
 * Errors: ERR_INPUT, naming the first column that moved. */
enum err column_order_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* Checks that numbers of the same name and position have the same scale. Errors: ERR_INPUT, naming the first column that
 * has another, and how to go on. */
enum err column_scale_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* Checks that a class of the same name has the same number; names can be new. A label without names has the numbers as names.
 * Errors: ERR_INPUT, naming the class. */
enum err class_order_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;

#endif
