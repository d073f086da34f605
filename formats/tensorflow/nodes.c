#include "formats/tensorflow/nodes.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they stand");

void nodes_close(struct nodes *n)
{
    graph_memory_close(&n->memory);
    mem_free(n->node);
    *n = (struct nodes){0};
}

/* ---- nodes ---- */

/* An entry of the list of nodes for `node`. */
static bool enlist(struct nodes *n, Tensorflow__Node *node)
{
    Tensorflow__Node **grown = mem_extend(n->node, n->count, 1, sizeof(Tensorflow__Node *));
    n->memory.failed = !grown;
    if (!grown)
        return false;
    n->node = grown;
    n->node[n->count++] = node;
    return true;
}

Tensorflow__Node *nodes_add(struct nodes *n, const char *op, const char *name,
                            const char *const *input, size_t inputs)
{
    Tensorflow__Node *node = graph_room(&n->memory, 1, sizeof *node);
    const char **names = graph_room(&n->memory, inputs, sizeof *names);
    Tensorflow__AttrEntry **attrs = graph_room(&n->memory, NODES_ATTRS_MAX, sizeof(void *));
    if (n->memory.failed || !enlist(n, node))
        return NULL;
    for (size_t i = 0; i < inputs; i++)
        names[i] = input[i];
    *node = (Tensorflow__Node)TENSORFLOW__NODE__INIT;
    node->op = (char *)op;
    node->name = (char *)name;
    node->input = (char **)names;
    node->n_input = inputs;
    node->attr = attrs;
    return node;
}

Tensorflow__TensorShape *nodes_shape(struct nodes *n, const int64_t *dim, size_t rank)
{
    Tensorflow__TensorShape *s = graph_room(&n->memory, 1, sizeof *s);
    Tensorflow__Dimension **dims = graph_room(&n->memory, rank, sizeof *dims),
                          *each = graph_room(&n->memory, rank, sizeof *each);
    if (n->memory.failed)
        return NULL;
    for (size_t i = 0; i < rank; i++) {
        each[i] = (Tensorflow__Dimension)TENSORFLOW__DIMENSION__INIT;
        each[i].size = dim[i];
        dims[i] = &each[i];
    }
    *s = (Tensorflow__TensorShape)TENSORFLOW__TENSOR_SHAPE__INIT;
    s->dim = dims;
    s->n_dim = rank;
    return s;
}

/* ---- attributes ---- */

/* A new attribute of the node, or NULL. */
static Tensorflow__AttrValue *attr(struct nodes *n, Tensorflow__Node *to, const char *key,
                                   Tensorflow__AttrValue__ValueCase kind)
{
    Tensorflow__AttrEntry *entry = graph_room(&n->memory, 1, sizeof *entry);
    Tensorflow__AttrValue *value = graph_room(&n->memory, 1, sizeof *value);
    if (n->memory.failed)
        return NULL;
    assert(to->n_attr < NODES_ATTRS_MAX);
    *entry = (Tensorflow__AttrEntry)TENSORFLOW__ATTR_ENTRY__INIT;
    *value = (Tensorflow__AttrValue)TENSORFLOW__ATTR_VALUE__INIT;
    value->value_case = kind;
    entry->key = (char *)key;
    entry->value = value;
    to->attr[to->n_attr++] = entry;
    return value;
}

void nodes_attr_type(struct nodes *n, Tensorflow__Node *to, const char *key, Tensorflow__DataType v)
{
    Tensorflow__AttrValue *a = attr(n, to, key, TENSORFLOW__ATTR_VALUE__VALUE_TYPE);
    if (a)
        a->type = v;
}

void nodes_attr_bool(struct nodes *n, Tensorflow__Node *to, const char *key, bool v)
{
    Tensorflow__AttrValue *a = attr(n, to, key, TENSORFLOW__ATTR_VALUE__VALUE_B);
    if (a)
        a->b = v;
}

void nodes_attr_int(struct nodes *n, Tensorflow__Node *to, const char *key, int64_t v)
{
    Tensorflow__AttrValue *a = attr(n, to, key, TENSORFLOW__ATTR_VALUE__VALUE_I);
    if (a)
        a->i = v;
}

void nodes_attr_text(struct nodes *n, Tensorflow__Node *to, const char *key, const char *v)
{
    Tensorflow__AttrValue *a = attr(n, to, key, TENSORFLOW__ATTR_VALUE__VALUE_S);
    if (a)
        a->s = (ProtobufCBinaryData){strlen(v), (uint8_t *)v};
}

void nodes_attr_shape(struct nodes *n, Tensorflow__Node *to, const char *key,
                      Tensorflow__TensorShape *v)
{
    Tensorflow__AttrValue *a = attr(n, to, key, TENSORFLOW__ATTR_VALUE__VALUE_SHAPE);
    if (a)
        a->shape = v;
}

static int64_t *copy_integers(struct nodes *n, const int64_t *v, size_t count)
{
    int64_t *copy = graph_room(&n->memory, count, sizeof *copy);
    return copy ? memcpy(copy, v, count * sizeof *copy) : NULL;
}

void nodes_attr_ints(struct nodes *n, Tensorflow__Node *to, const char *key, const int64_t *v,
                     size_t count)
{
    Tensorflow__AttrList *list = graph_room(&n->memory, 1, sizeof *list);
    int64_t *copy = copy_integers(n, v, count);
    Tensorflow__AttrValue *a = attr(n, to, key, TENSORFLOW__ATTR_VALUE__VALUE_LIST);
    if (!a)
        return;
    *list = (Tensorflow__AttrList)TENSORFLOW__ATTR_LIST__INIT;
    list->i = copy;
    list->n_i = count;
    a->list = list;
}

/* ---- constants ---- */

const char *nodes_constant(struct nodes *n, const char *name, Tensorflow__DataType type,
                           Tensorflow__TensorShape *shape, const struct nodes_elements *elements)
{
    Tensorflow__Tensor *t = graph_room(&n->memory, 1, sizeof *t);
    Tensorflow__Node *node = nodes_add(n, "Const", name, NULL, 0);
    nodes_attr_type(n, node, "dtype", type);
    Tensorflow__AttrValue *value = attr(n, node, "value", TENSORFLOW__ATTR_VALUE__VALUE_TENSOR);
    if (!value)
        return NULL;
    *t = (Tensorflow__Tensor)TENSORFLOW__TENSOR__INIT;
    t->dtype = type;
    t->tensor_shape = shape;
    t->tensor_content = (ProtobufCBinaryData){elements->bytes, (uint8_t *)elements->data};
    t->string_val = elements->text;
    t->n_string_val = elements->texts;
    value->tensor = t;
    return name;
}

static const char *add_integers(struct nodes *n, const char *name, const int64_t *v, size_t count,
                                size_t rank)
{
    int64_t dim = (int64_t)count;
    const struct nodes_elements elements = {.data = copy_integers(n, v, count),
                                            .bytes = count * sizeof *v};
    return nodes_constant(n, name, TENSORFLOW__DATA_TYPE__DT_INT64, nodes_shape(n, &dim, rank),
                          &elements);
}

const char *nodes_integers(struct nodes *n, const char *name, const int64_t *v, size_t count)
{
    return add_integers(n, name, v, count, 1);
}

const char *nodes_integer(struct nodes *n, const char *name, int64_t v)
{
    return add_integers(n, name, &v, 1, 0);
}
