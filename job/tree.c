/* The tree of a job file: from YAML, with limits, because a file is not trusted; a value by its path, as --set gives it; to YAML and
 * to JSON. */
#include "job/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/json.h"
#include "common/base/mem.h"

/* ---- nodes ---- */

static struct job_node *node_new(enum node_kind kind, uint32_t line, const char *set)
{
    struct job_node *node = mem_zalloc(1, sizeof *node);
    if (node)
        *node = (struct job_node){.kind = kind, .line = line, .set = set};
    return node;
}

void job_tree_free(struct job_node *root)
{
    while (root) {
        struct job_node *next = root->next;
        job_tree_free(root->child);
        mem_free(root->key);
        mem_free(root->text);
        mem_free(root);
        root = next;
    }
}

static void node_append(struct job_node *parent, struct job_node *take_child)
{
    struct job_node **end = parent->last ? &parent->last->next : &parent->child;
    while (*end)
        end = &(*end)->next;
    *end = take_child;
    parent->last = take_child;
}

struct job_node *job_tree_child(const struct job_node *map, const char *key)
{
    if (map->kind != NODE_MAP)
        return NULL;
    for (struct job_node *c = map->child; c; c = c->next)
        if (strcmp(c->key, key) == 0)
            return c;
    return NULL;
}

void job_tree_remove(struct job_node *map, struct job_node *child)
{
    for (struct job_node **at = &map->child; *at; at = &(*at)->next) {
        if (*at != child)
            continue;
        *at = child->next;
        child->next = NULL;
        map->last = map->seen = NULL;
        job_tree_free(child);
        return;
    }
}

bool job_tree_is_null(const struct job_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != NODE_SCALAR || node->quoted)
        return false;
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        if (!node->text || strcmp(node->text, nulls[i]) == 0)
            return true;
    return false;
}

void job_tree_where(char *out, size_t bytes, const struct job_node *node, const char *name)
{
    if (node->set)
        (void)snprintf(out, bytes, "--set %.*s", (int)strcspn(node->set, "="), node->set);
    else
        (void)snprintf(out, bytes, "%s:%u", name, node->line);
}

/* ---- from YAML to the tree ---- */

struct tree_copy { /* state of copying a libyaml document into our nodes */
    yaml_document_t *document;
    const char *name, *set;
    unsigned nodes, depth;
    struct errmsg *e;
};

static enum err copy_refuse(const struct tree_copy *t, uint32_t line, const char *why,
                            const char *what)
{
    char where[160];
    struct job_node at = {.line = line, .set = t->set};
    job_tree_where(where, sizeof where, &at, t->name);
    return err_set(t->e, ERR_INPUT, "%s: %s%.64s", where, why, what);
}

static enum err copy_node(struct tree_copy *t, int index, struct job_node **out);

static enum err copy_scalar(struct tree_copy *t, const yaml_node_t *from, struct job_node *node)
{
    const char *text = (const char *)from->data.scalar.value;
    if (strlen(text) != from->data.scalar.length)
        return copy_refuse(t, node->line, "a NUL byte in text", "");
    node->quoted = from->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = mem_strdup(text);
    return node->text ? ERR_OK : err_memory(t->e);
}

static enum err copy_list(struct tree_copy *t, const yaml_node_t *from, struct job_node *node)
{
    struct job_node **end = &node->child;
    for (yaml_node_item_t *i = from->data.sequence.items.start; i < from->data.sequence.items.top;
         i++) {
        enum err err = copy_node(t, *i, end);
        if (err)
            return err;
        end = &(*end)->next;
    }
    return ERR_OK;
}

static enum err copy_key(struct tree_copy *t, int index, uint32_t line, char **key)
{
    const yaml_node_t *from = yaml_document_get_node(t->document, index);
    if (!from || from->type != YAML_SCALAR_NODE)
        return copy_refuse(t, line, "a key must be a plain name", "");
    const char *text = (const char *)from->data.scalar.value;
    if (!*text || strlen(text) != from->data.scalar.length)
        return copy_refuse(t, (uint32_t)from->start_mark.line + 1, "a key is empty", "");
    *key = mem_strdup(text);
    return *key ? ERR_OK : err_memory(t->e);
}

static enum err copy_map(struct tree_copy *t, const yaml_node_t *from, struct job_node *node)
{
    struct job_node **end = &node->child;
    for (yaml_node_pair_t *p = from->data.mapping.pairs.start; p < from->data.mapping.pairs.top;
         p++) {
        char *key = NULL;
        enum err err = copy_key(t, p->key, node->line, &key);
        if (err)
            return err;
        const struct job_node *twin = job_tree_child(node, key);
        const yaml_node_t *at = yaml_document_get_node(t->document, p->key);
        if (twin)
            err = copy_refuse(t, (uint32_t)at->start_mark.line + 1, "this key occurs twice: ", key);
        else
            err = copy_node(t, p->value, end);
        if (err) {
            mem_free(key);
            return err;
        }
        (*end)->key = key;
        (*end)->line = (uint32_t)at->start_mark.line + 1;
        end = &(*end)->next;
    }
    return ERR_OK;
}

static bool tagged(const yaml_node_t *node)
{
    static const char *const plain[] = {
        [YAML_SCALAR_NODE] = YAML_DEFAULT_SCALAR_TAG,
        [YAML_SEQUENCE_NODE] = YAML_DEFAULT_SEQUENCE_TAG,
        [YAML_MAPPING_NODE] = YAML_DEFAULT_MAPPING_TAG,
    };
    return strcmp((const char *)node->tag, plain[node->type]) != 0;
}

static enum err copy_children(struct tree_copy *t, const yaml_node_t *from, struct job_node *node)
{
    if (from->type == YAML_SCALAR_NODE)
        return copy_scalar(t, from, node);
    if (++t->depth > JOB_TREE_DEPTH_MAX)
        return copy_refuse(t, node->line, "nested too deep", "");
    enum err err =
        from->type == YAML_SEQUENCE_NODE ? copy_list(t, from, node) : copy_map(t, from, node);
    t->depth--;
    return err;
}

/* Aliases are expanded; the limits of nodes and depth keep the result small. */
static enum err copy_node(struct tree_copy *t, int index, struct job_node **out)
{
    const yaml_node_t *from = yaml_document_get_node(t->document, index);
    uint32_t line = (uint32_t)from->start_mark.line + 1;
    if (++t->nodes > JOB_TREE_NODES_MAX)
        return copy_refuse(t, line, "too many values", "");
    if (tagged(from))
        return copy_refuse(t, line, "tags are not allowed: ", (const char *)from->tag);
    struct job_node *node = node_new(from->type == YAML_SCALAR_NODE     ? NODE_SCALAR
                                     : from->type == YAML_SEQUENCE_NODE ? NODE_LIST
                                                                        : NODE_MAP,
                                     line, t->set);
    if (!node)
        return err_memory(t->e);
    enum err err = copy_children(t, from, node);
    if (err) {
        job_tree_free(node);
        return err;
    }
    *out = node;
    return ERR_OK;
}

static enum err parse_failed(const yaml_parser_t *parser, const char *name, const char *set,
                             struct errmsg *e)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return err_memory(e);
    char where[160];
    char began[48] = "";
    const char *problem = parser->problem ? parser->problem : "cannot be read";
    size_t line = parser->problem_mark.line, context = parser->context_mark.line;
    struct job_node at = {.line = (uint32_t)line + 1, .set = set};
    job_tree_where(where, sizeof where, &at, name);
    if (parser->context && context < line)
        (void)snprintf(began, sizeof began, " that begins in line %zu", context + 1);
    return err_set(e, ERR_INPUT, "%s: not YAML: %s%s%s%s%s", where, problem,
                   parser->context ? ", " : "", parser->context ? parser->context : "", began,
                   strstr(problem, "cannot start any token") ? " (a tab? indent with blanks)" : "");
}

static enum err parse_document(yaml_parser_t *parser, struct tree_copy *t, struct job_node **root)
{
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document))
        return parse_failed(parser, t->name, t->set, t->e);
    t->document = &document;
    enum err err = yaml_document_get_root_node(&document)
                       ? copy_node(t, 1, root)
                       : copy_refuse(t, 1, "the file is empty", "");
    yaml_document_delete(&document);
    return err;
}

static enum err parse_end(yaml_parser_t *parser, struct tree_copy *t)
{
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document))
        return parse_failed(parser, t->name, t->set, t->e);
    const yaml_node_t *second = yaml_document_get_root_node(&document);
    uint32_t line = second ? (uint32_t)second->start_mark.line + 1 : 0;
    yaml_document_delete(&document);
    return second ? copy_refuse(t, line, "a second document starts here; only one is allowed", "")
                  : ERR_OK;
}

enum err job_tree_parse(struct job_node **root, const char *text, size_t bytes, const char *name,
                        const char *set, struct errmsg *e)
{
    struct tree_copy t = {.name = name, .set = set, .e = e};
    if (bytes > JOB_TREE_BYTES_MAX)
        return copy_refuse(&t, 1, "longer than 128 MiB", "");
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return err_memory(e);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    struct job_node *made = NULL;
    enum err err = parse_document(&parser, &t, &made);
    if (!err)
        err = parse_end(&parser, &t);
    yaml_parser_delete(&parser);
    if (err) {
        job_tree_free(made);
        return err;
    }
    *root = made;
    return ERR_OK;
}

/* ---- values by path ---- */

/* The next step of a path: "a", "b", "[2]" in a.b[2]. */
struct path_step {
    const char *text;
    size_t bytes;
    bool index; /* it was in brackets */
};

static bool path_next(const char **path, const char *end, struct path_step *s)
{
    const char *p = *path;
    if (p == end)
        return false;
    s->index = *p == '[';
    if (s->index || *p == '.')
        p++;
    s->text = p;
    while (p < end && *p != '.' && *p != '[' && *p != ']')
        p++;
    s->bytes = (size_t)(p - s->text);
    if (s->index && p < end && *p == ']')
        p++;
    *path = p;
    return true;
}

static enum err step_into_list(struct job_node *list, const struct path_step *s, const char *set,
                               struct job_node **out, struct errmsg *e)
{
    unsigned long index = 0, n = 0;
    bool number = s->bytes > 0 && s->bytes < 6;
    for (size_t i = 0; i < s->bytes && number; i++) {
        number = s->text[i] >= '0' && s->text[i] <= '9';
        index = index * 10 + (unsigned long)(s->text[i] - '0');
    }
    struct job_node *c = list->child;
    if (number && list->seen && index >= list->seen_index) {
        c = list->seen;
        n = list->seen_index;
    }
    for (; c; c = c->next, n++)
        if (number && n == index) {
            list->seen = *out = c;
            list->seen_index = n;
            return ERR_OK;
        }
    if (!number || (index > n) || (set && index >= n))
        return err_set(
            e, ERR_INPUT,
            "--set %.*s: '%.*s' is not an index of this list of %lu elements; the first is 0",
            set ? (int)strcspn(set, "=") : 0, set ? set : "", (int)s->bytes, s->text, n);
    struct job_node *made = node_new(NODE_SCALAR, 0, set);
    if (!made)
        return err_memory(e);
    node_append(list, made);
    list->seen = *out = made;
    list->seen_index = n;
    return ERR_OK;
}

/* A scalar inside a path becomes a map: "adam" is short for {adam: {}}. Where it is the value of an option, as in
 * "number: x", the reader knows the option's name. */
static enum err scalar_to_map(struct job_node *node, const char *set, struct errmsg *e)
{
    struct job_node *name = NULL;
    if (!job_tree_is_null(node)) {
        name = node_new(NODE_SCALAR, node->line, node->set);
        if (!name)
            return err_memory(e);
        name->was_text = true;
        name->key = node->text;
        node->text = NULL;
    }
    mem_free(node->text);
    node->text = NULL;
    node->kind = NODE_MAP;
    node->child = name;
    node->set = set;
    return ERR_OK;
}

static enum err step_into_map(struct job_node *map, const struct path_step *s, const char *set,
                              struct job_node **out, struct errmsg *e)
{
    for (struct job_node *c = map->child; c; c = c->next)
        if (strlen(c->key) == s->bytes && memcmp(c->key, s->text, s->bytes) == 0) {
            *out = c;
            return ERR_OK;
        }
    struct job_node *made = node_new(NODE_SCALAR, 0, set);
    char *key = mem_zalloc(s->bytes + 1, 1);
    if (!made || !key) {
        mem_free(key);
        job_tree_free(made);
        return err_memory(e);
    }
    memcpy(key, s->text, s->bytes);
    made->key = key;
    node_append(map, made);
    *out = made;
    return ERR_OK;
}

static enum err step_into(struct job_node *node, const struct path_step *s, const char *set,
                          struct job_node **out, struct errmsg *e)
{
    if (node->kind == NODE_SCALAR && s->index && job_tree_is_null(node)) {
        mem_free(node->text);
        node->text = NULL;
        node->kind = NODE_LIST;
    }
    if (node->kind == NODE_SCALAR) {
        enum err err = scalar_to_map(node, set, e);
        if (err)
            return err;
    }
    return node->kind == NODE_LIST ? step_into_list(node, s, set, out, e)
                                   : step_into_map(node, s, set, out, e);
}

/* Puts `take` at the end of the path in place of the present value; the key stays. */
static enum err tree_place(struct job_node *root, const char *path, size_t bytes,
                           struct job_node *take, const char *set, struct errmsg *e)
{
    struct job_node *node = root;
    struct path_step s;
    unsigned depth = 0;
    const char *end = path + bytes;
    enum err err = ERR_OK;
    while (!err && path_next(&path, end, &s)) {
        if (s.bytes == 0 || ++depth > JOB_TREE_DEPTH_MAX)
            err = err_set(e, ERR_INPUT, "--set %.*s: not a key; write names with dots between them",
                          set ? (int)strcspn(set, "=") : 0, set ? set : "");
        else
            err = step_into(node, &s, set, &node, e);
    }
    if (err) {
        job_tree_free(take);
        return err;
    }
    job_tree_free(node->child);
    mem_free(node->text);
    *node = (struct job_node){.kind = take->kind,
                              .quoted = take->quoted,
                              .line = take->line,
                              .set = take->set,
                              .key = node->key,
                              .text = take->text,
                              .child = take->child,
                              .next = node->next};
    mem_free(take);
    return ERR_OK;
}

static enum err scalar_new(struct job_node **out, const char *text, bool quoted, const char *set,
                           struct errmsg *e)
{
    struct job_node *node = node_new(NODE_SCALAR, 0, set);
    char *copy = mem_strdup(text);
    if (!node || !copy) {
        mem_free(copy);
        job_tree_free(node);
        return err_memory(e);
    }
    node->text = copy;
    node->quoted = quoted;
    *out = node;
    return ERR_OK;
}

enum err job_tree_set(struct job_node *root, const char *set, struct errmsg *e)
{
    const char *equals = strchr(set, '=');
    if (!equals || equals == set)
        return err_set(e, ERR_INPUT, "--set %.64s: write it as key=value", set);
    const char *value = equals + 1;
    struct job_node *node = NULL;
    enum err err = *value && strchr("[{\"'", *value)
                       ? job_tree_parse(&node, value, strlen(value), "", set, e)
                       : scalar_new(&node, value, false, set, e);
    return err ? err : tree_place(root, set, (size_t)(equals - set), node, set, e);
}

enum err job_tree_new(struct job_node **root, struct errmsg *e)
{
    struct job_node *node = node_new(NODE_MAP, 1, NULL);
    if (!node)
        return err_memory(e);
    *root = node;
    return ERR_OK;
}

enum err job_tree_put(struct job_node *root, const char *path, const char *text, bool quoted,
                      struct errmsg *e)
{
    struct job_node *node = NULL;
    enum err err = scalar_new(&node, text, quoted, NULL, e);
    return err ? err : tree_place(root, path, strlen(path), node, NULL, e);
}

enum err job_tree_put_map(struct job_node *root, const char *path, struct errmsg *e)
{
    struct job_node *node = NULL;
    enum err err = job_tree_new(&node, e);
    return err ? err : tree_place(root, path, strlen(path), node, NULL, e);
}

/* ---- from the tree to YAML ---- */

static int emit_node(yaml_document_t *d, const struct job_node *node);

static int emit_list(yaml_document_t *d, const struct job_node *node)
{
    bool flat = true;
    for (const struct job_node *c = node->child; c; c = c->next)
        flat = flat && c->kind == NODE_SCALAR && !c->quoted;
    int id = yaml_document_add_sequence(
        d, NULL, flat ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE);
    for (const struct job_node *c = node->child; c && id; c = c->next) {
        int item = emit_node(d, c);
        if (!item || !yaml_document_append_sequence_item(d, id, item))
            return 0;
    }
    return id;
}

static int emit_text(yaml_document_t *d, const char *text, bool quoted)
{
    return yaml_document_add_scalar(d, NULL, (const yaml_char_t *)text, (int)strlen(text),
                                    quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                           : YAML_ANY_SCALAR_STYLE);
}

static int emit_map(yaml_document_t *d, const struct job_node *node)
{
    int id = yaml_document_add_mapping(
        d, NULL, node->child ? YAML_BLOCK_MAPPING_STYLE : YAML_FLOW_MAPPING_STYLE);
    for (const struct job_node *c = node->child; c && id; c = c->next) {
        int key = emit_text(d, c->key, false), value = emit_node(d, c);
        if (!key || !value || !yaml_document_append_mapping_pair(d, id, key, value))
            return 0;
    }
    return id;
}

/* Adds the node and returns its number in the document; 0: out of memory. */
static int emit_node(yaml_document_t *d, const struct job_node *node)
{
    switch (node->kind) {
    case NODE_SCALAR:
        return emit_text(d, node->text ? node->text : "", node->quoted);
    case NODE_LIST:
        return emit_list(d, node);
    case NODE_MAP:
        return emit_map(d, node);
    }
    return 0;
}

/* Also deletes the document. */
static int emit_document(yaml_document_t *d, FILE *out)
{
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter)) {
        yaml_document_delete(d);
        return 0;
    }
    yaml_emitter_set_output_file(&emitter, out);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    int ok = yaml_emitter_dump(&emitter, d) && yaml_emitter_close(&emitter);
    yaml_emitter_delete(&emitter);
    return ok;
}

static int emit_tree(const struct job_node *root, FILE *out)
{
    yaml_document_t document;
    if (!yaml_document_initialize(&document, NULL, NULL, NULL, 1, 1))
        return 0;
    if (emit_node(&document, root))
        return emit_document(&document, out);
    yaml_document_delete(&document);
    return 0;
}

enum err job_tree_emit(const struct job_node *root, char **text, struct errmsg *e)
{
    char *made = NULL;
    size_t bytes;
    FILE *out = open_memstream(&made, &bytes);
    bool ok = out && emit_tree(root, out);
    ok = out && fclose(out) == 0 && ok;
    if (ok)
        *text = made;
    else
        free(made);
    return ok ? ERR_OK : err_memory(e);
}

/* ---- from the tree to JSON ---- */

/* A number as JSON writes it: no hex, no "inf", no "+1". Other plain text, such as the name 007, stays text. */
static json_t *json_of_number(const char *text)
{
    json_error_t error;
    return json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
}

static json_t *json_of_scalar(const struct job_node *node)
{
    json_t *json = NULL;
    if (job_tree_is_null(node))
        return json_null();
    if (!node->quoted && strspn(node->text, "-0123456789truefals.eE+") == strlen(node->text))
        json = json_of_number(node->text);
    return json ? json : json_string(node->text);
}

/* Adds a child to the list or map. False: no memory. */
static bool json_add_child(json_t *to, const struct job_node *child)
{
    json_t *json = job_tree_json(child);
    return (child->key ? json_object_set_new(to, child->key, json)
                       : json_array_append_new(to, json)) == 0;
}

json_t *job_tree_json(const struct job_node *node)
{
    if (node->kind == NODE_SCALAR)
        return json_of_scalar(node);
    json_t *all = node->kind == NODE_MAP ? json_object() : json_array();
    bool ok = all != NULL;
    for (const struct job_node *c = node->child; c && ok; c = c->next)
        ok = json_add_child(all, c);
    return json_whole(all, ok);
}
