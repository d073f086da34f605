/* A job file as a tree of values that know where they came from: a line of the file, or a --set.
 * Built by libyaml, changed by --set, read by read.c, and written back by libyaml. */
#ifndef GRADWIRE_COMMON_JOB_TREE_H
#define GRADWIRE_COMMON_JOB_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    /* A job that is written out has about 10 values for each of 4,096 columns, and one for each of 65,536 lookups. */
    JOB_TREE_BYTES_MAX = 8 << 20, /* of text */
    JOB_TREE_NODES_MAX = 1 << 18, /* after aliases are written out */
    JOB_TREE_DEPTH_MAX = 32,
};

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct job_node {
    enum node_kind kind;
    bool quoted;   /* scalar: it was in quotes, so it is text whatever it looks like */
    uint32_t line; /* of the file, from 1 */
    const char
        *set;   /* the "key=value" of the --set that it came from, the caller's; NULL: the file */
    char *key;  /* its name in a map; NULL elsewhere */
    char *text; /* scalar */
    struct job_node *child, *next; /* of a list or a map, in order */
};

/* Parse one YAML document. `name` stands for the file in messages; with `set` the values are that
 * --set's. Owns: *root is the caller's, job_tree_free; unchanged on error. Errors: ERR_INPUT with
 * file and line: not YAML, a key twice, tags, too big or too deep; ERR_NOMEM. */
enum err job_tree_parse(struct job_node **root, const char *text, size_t bytes, const char *name,
                        const char *set, struct errmsg *e) MUST_CHECK;
void job_tree_free(struct job_node *root);

/* Apply one "key=value": the value is plain text unless it starts with [ { or a quote, then YAML.
 * A key is names with dots; elements of lists as model.layers[1] or model.layers.1. `set` must
 * outlive root. Errors: ERR_INPUT, ERR_NOMEM. */
enum err job_tree_set(struct job_node *root, const char *set, struct errmsg *e) MUST_CHECK;

/* A map without entries, and a scalar put into it (what is on the way is made; [i] makes lists). */
enum err job_tree_new(struct job_node **root, struct errmsg *e) MUST_CHECK;
enum err job_tree_put(struct job_node *root, const char *path, const char *text, bool quoted,
                      struct errmsg *e) MUST_CHECK;
enum err job_tree_put_map(struct job_node *root, const char *path, struct errmsg *e) MUST_CHECK;

/* The tree as YAML; *text is the caller's (mem_free). */
enum err job_tree_emit(const struct job_node *root, char **text, struct errmsg *e) MUST_CHECK;

/* The entry of a map by that name, or NULL. */
struct job_node *job_tree_child(const struct job_node *map, const char *key);
void job_tree_remove(struct job_node *map, struct job_node *child);
/* Nothing was written: an empty plain scalar, ~ or null. */
bool job_tree_is_null(const struct job_node *node);
/* "mlp.yaml:12" or "--set training.epochs". */
void job_tree_where(char *out, size_t bytes, const struct job_node *node, const char *name);

#endif
