/* A job file as a tree of values, each with its origin: a line of the file, or a --set. libyaml builds it, --set
 * changes it, read.c reads it, and libyaml writes it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    /* A complete job written by gradwire has about 10 values for each of up to 65,536 columns, and one for each of
     * up to 65,536 lookups. */
    JOB_TREE_BYTES_MAX = 128 << 20, /* of text */
    JOB_TREE_NODES_MAX = 1 << 21,   /* after aliases are expanded */
    JOB_TREE_DEPTH_MAX = 32,
};

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct job_node {
    enum node_kind kind;
    bool quoted; /* scalar: quoted, so it is always text */
    bool
        was_text; /* its key was the scalar in place of which a --set has made the map that it is in */
    uint32_t line; /* line of the file, from 1 */
    /* the "key=value" of the --set that it comes from, owned by the caller; NULL: the file */
    const char *set;
    char *key;                     /* its name in a map; NULL elsewhere */
    char *text;                    /* of a scalar */
    struct job_node *child, *next; /* of a list or a map, in order */
    struct job_node *last;         /* the child that was added last; NULL: not known */
    struct job_node *seen; /* the element that was looked for last, `seen_index`; NULL: none */
    unsigned long seen_index;
};

/* Parses a YAML document. `name` is the file's name in messages; with `set`, the values come from that --set. The
 * caller owns *root (job_tree_free); *root is unchanged on error. Errors: ERR_INPUT with file and line: not YAML,
 * a duplicate key, a tag, too big or too deep; ERR_NOMEM. */
enum err job_tree_parse(struct job_node **root, const char *text, size_t bytes, const char *name,
                        const char *set, struct errmsg *e) MUST_CHECK;
void job_tree_free(struct job_node *root); /* NULL is ignored */

/* Applies one "key=value". The value is plain text, unless it starts with [ { or a quote: then it is YAML. A key
 * consists of names separated by dots; elements of lists are model.layers[1] or model.layers.1. `set` must outlive
 * root. Errors: ERR_INPUT, ERR_NOMEM. */
enum err job_tree_set(struct job_node *root, const char *set, struct errmsg *e) MUST_CHECK;

/* job_tree_new makes an empty map, which the caller owns (job_tree_free). The others put a scalar or an empty map at
 * `path`; missing maps on the path are created, and lists for [i]. Errors: ERR_INPUT, ERR_NOMEM. */
enum err job_tree_new(struct job_node **root, struct errmsg *e) MUST_CHECK;
enum err job_tree_put(struct job_node *root, const char *path, const char *text, bool quoted,
                      struct errmsg *e) MUST_CHECK;
enum err job_tree_put_map(struct job_node *root, const char *path, struct errmsg *e) MUST_CHECK;

/* Writes the tree as YAML. The caller owns *text (mem_free). Errors: ERR_NOMEM. */
enum err job_tree_emit(const struct job_node *root, char **text, struct errmsg *e) MUST_CHECK;

/* Returns the map's entry with that key, or NULL. */
struct job_node *job_tree_child(const struct job_node *map, const char *key);
/* Removes the entry `child` from the map and frees it. */
void job_tree_remove(struct job_node *map, struct job_node *child);
/* Returns whether the value is missing: an empty plain scalar, ~ or null. */
bool job_tree_is_null(const struct job_node *node);
/* Writes where the value comes from: "mlp.yaml:12" or "--set training.epochs". */
void job_tree_where(char *out, size_t bytes, const struct job_node *node, const char *name);

/* Returns a new reference: maps as objects, lists as arrays. A plain scalar becomes true, false, null or a number if it
 * is one in JSON, and otherwise text. NULL: no memory, or text that is not UTF-8. */
json_t *job_tree_json(const struct job_node *node);
