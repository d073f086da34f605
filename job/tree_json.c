#include "job/tree_json.h"

#include <string.h>

/* A number as JSON writes it: no hex, no "inf", no "+1". Other plain text, such as the name 007, stays text. */
static json_t *number(const char *text)
{
    json_error_t error;
    return json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
}

static json_t *scalar(const struct job_node *node)
{
    json_t *json = NULL;
    if (job_tree_is_null(node))
        return json_null();
    if (!node->quoted && strspn(node->text, "-0123456789truefals.eE+") == strlen(node->text))
        json = number(node->text);
    return json ? json : json_string(node->text);
}

/* Adds a child to the list or map. False: no memory. */
static bool add(json_t *to, const struct job_node *child)
{
    json_t *json = job_tree_json(child);
    return (child->key ? json_object_set_new(to, child->key, json)
                       : json_array_append_new(to, json)) == 0;
}

json_t *job_tree_json(const struct job_node *node)
{
    if (node->kind == NODE_SCALAR)
        return scalar(node);
    json_t *all = node->kind == NODE_MAP ? json_object() : json_array();
    bool ok = all != NULL;
    for (const struct job_node *c = node->child; c && ok; c = c->next)
        ok = add(all, c);
    if (ok)
        return all;
    json_decref(all);
    return NULL;
}
