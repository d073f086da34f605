/* A job file's tree as JSON. */
#ifndef GRADWIRE_JOB_TREE_JSON_H
#define GRADWIRE_JOB_TREE_JSON_H

#include <jansson.h>

#include "job/tree.h"

/* Returns a new reference: maps as objects, lists as arrays. A plain scalar becomes true, false, null or a number if it
 * is one in JSON, and otherwise text. NULL: no memory, or text that is not UTF-8. */
json_t *job_tree_json(const struct job_node *node);

#endif
