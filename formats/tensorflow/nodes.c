#include "formats/tensorflow/nodes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they stand");

/* ---- memory ---- */

enum { BLOCK_BYTES = 1 << 16, TEXT_BYTES = 256 };

struct nodes_block {
    struct nodes_block *next;
    size_t used, bytes;
    _Alignas(16) unsigned char at[];
};

static struct nodes_block *add_block(struct nodes *n, size_t bytes)
{
    size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct nodes_block *b = mem_zalloc(1, sizeof *b + room);
    if (!b)
        return NULL;
    *b = (struct nodes_block){.next = n->blocks, .bytes = room};
    n->blocks = b;
    return b;
}

void *nodes_room(struct nodes *n, size_t count, size_t size)
{
    if (n->failed || (size && count > (SIZE_MAX >> 1) / size)) {
        n->failed = true;
        return NULL;
    }
    size_t bytes = (count * size + 15) & ~(size_t)15;
    struct nodes_block *b = n->blocks;
    if (!b || b->bytes - b->used < bytes)
        b = add_block(n, bytes);
    if (!b) {
        n->failed = true;
        return NULL;
    }
    void *at = b->at + b->used;
    b->used += bytes;
    return at;
}

void nodes_close(struct nodes *n)
{
    while (n->blocks) {
        struct nodes_block *b = n->blocks;
        n->blocks = b->next;
        mem_free(b);
    }
    mem_free(n->node);
    *n = (struct nodes){0};
}

char *nodes_text(struct nodes *n, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t bytes = strlen(text) + 1;
    char *copy = nodes_room(n, bytes, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- nodes ---- */

/* An entry of the list of nodes for `node`. */
static bool enlist(struct nodes *n, Tensorflow__Node *node)
{
    Tensorflow__Node **grown = mem_extend(n->node, n->count, 1, sizeof(Tensorflow__Node *));
    n->failed = !grown;
    if (!grown)
        return false;
    n->node = grown;
    n->node[n->count++] = node;
    return true;
}

Tensorflow__Node *nodes_add(struct nodes *n, const char *op, const char *name,
                            const char *const *input, size_t inputs)
{
    Tensorflow__Node *node = nodes_room(n, 1, sizeof *node);
    const char **names = nodes_room(n, inputs, sizeof *names);
    Tensorflow__AttrEntry **attrs = nodes_room(n, NODES_ATTRS_MAX, sizeof(void *));
    if (n->failed || !enlist(n, node))
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
    Tensorflow__TensorShape *s = nodes_room(n, 1, sizeof *s);
    Tensorflow__Dimension **dims = nodes_room(n, rank, sizeof *dims),
                          *each = nodes_room(n, rank, sizeof *each);
    if (n->failed)
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
    Tensorflow__AttrEntry *entry = nodes_room(n, 1, sizeof *entry);
    Tensorflow__AttrValue *value = nodes_room(n, 1, sizeof *value);
    if (n->failed)
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
    int64_t *copy = nodes_room(n, count, sizeof *copy);
    return copy ? memcpy(copy, v, count * sizeof *copy) : NULL;
}

void nodes_attr_ints(struct nodes *n, Tensorflow__Node *to, const char *key, const int64_t *v,
                     size_t count)
{
    Tensorflow__AttrList *list = nodes_room(n, 1, sizeof *list);
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
    Tensorflow__Tensor *t = nodes_room(n, 1, sizeof *t);
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
