/* Memory, nodes, attributes and constants of the ONNX graph; and which of a value's two orders is there already. */
#include "formats/onnx/parts.h"

#include <string.h>

#include "common/base/mem.h"

/* ---- memory ---- */

/* Room for one more element. */
static void *one_more(struct onnx *o, void *array, size_t count, size_t size)
{
    void *grown = o->memory.failed ? NULL : mem_extend(array, count, 1, size);
    o->memory.failed = !grown;
    return grown ? grown : array;
}

void onnx_begin(struct onnx *o, const struct graph *g)
{
    *o = (struct onnx){.g = g};
    o->name = graph_room(&o->memory, g->values, sizeof *o->name);
    for (uint32_t i = 0; o->name && i < g->inputs; i++)
        o->name[g->input[i].value][ONNX_LAST] = g->value[g->input[i].value].name;
}

void onnx_close(struct onnx *o)
{
    graph_memory_close(&o->memory);
    mem_free(o->node);
    mem_free(o->tensor);
    *o = (struct onnx){.g = NULL};
}

/* ---- nodes ---- */

Onnx__Node *onnx_node(struct onnx *o, const char *op, const char *const *input, size_t inputs,
                      const char *output)
{
    o->node = one_more(o, o->node, o->nodes, sizeof *o->node);
    Onnx__Node *node = graph_room(&o->memory, 1, sizeof *node);
    char **names = graph_room(&o->memory, inputs + 1, sizeof *names);
    Onnx__Attribute **attributes = graph_room(&o->memory, ONNX_ATTRIBUTES_MAX, sizeof(void *));
    if (!attributes)
        return NULL;
    *node = (Onnx__Node)ONNX__NODE__INIT;
    node->op_type = (char *)op;
    node->name = (char *)output;
    node->attribute = attributes;
    node->input = names;
    node->n_input = inputs;
    memcpy(names, input, inputs * sizeof *names);
    names[inputs] = (char *)output;
    node->output = names + inputs;
    node->n_output = 1;
    o->node[o->nodes++] = node;
    return node;
}

static Onnx__Attribute *attribute(struct onnx *o, Onnx__Node *to, const char *name,
                                  Onnx__Attribute__Type type)
{
    Onnx__Attribute *a = graph_room(&o->memory, 1, sizeof *a);
    if (!a || !to)
        return NULL;
    *a = (Onnx__Attribute)ONNX__ATTRIBUTE__INIT;
    a->name = (char *)name;
    a->type = type;
    to->attribute[to->n_attribute++] = a;
    return a;
}

void onnx_attribute_int(struct onnx *o, Onnx__Node *to, const char *name, int64_t i)
{
    Onnx__Attribute *a = attribute(o, to, name, ONNX__ATTRIBUTE__TYPE__INT);
    if (a)
        a->i = i;
}

void onnx_attribute_text(struct onnx *o, Onnx__Node *to, const char *name, const char *text)
{
    Onnx__Attribute *a = attribute(o, to, name, ONNX__ATTRIBUTE__TYPE__STRING);
    if (a)
        a->s = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

void onnx_attribute_ints(struct onnx *o, Onnx__Node *to, const char *name, const int64_t *i,
                         size_t n)
{
    Onnx__Attribute *a = attribute(o, to, name, ONNX__ATTRIBUTE__TYPE__INTS);
    if (!a)
        return;
    a->ints = (int64_t *)i;
    a->n_ints = n;
}

void onnx_attribute_texts(struct onnx *o, Onnx__Node *to, const char *name,
                          const struct graph_text *text, size_t n)
{
    Onnx__Attribute *a = attribute(o, to, name, ONNX__ATTRIBUTE__TYPE__STRINGS);
    ProtobufCBinaryData *strings = graph_room(&o->memory, n, sizeof *strings);
    if (!a || !strings)
        return;
    for (size_t i = 0; i < n; i++)
        strings[i] = (ProtobufCBinaryData){text[i].bytes, (uint8_t *)text[i].at};
    a->strings = strings;
    a->n_strings = n;
}

/* ---- constants ---- */

Onnx__DataType onnx_type(enum graph_type t)
{
    static const Onnx__DataType types[] = {[GRAPH_F32] = ONNX__DATA_TYPE__FLOAT,
                                           [GRAPH_F64] = ONNX__DATA_TYPE__DOUBLE,
                                           [GRAPH_I64] = ONNX__DATA_TYPE__INT64,
                                           [GRAPH_BOOL] = ONNX__DATA_TYPE__BOOL,
                                           [GRAPH_TEXT] = ONNX__DATA_TYPE__STRING};
    return types[t];
}

const char *onnx_constant(struct onnx *o, const char *name, enum graph_type type,
                          const int64_t *dim, size_t rank, const void *data)
{
    o->tensor = one_more(o, o->tensor, o->tensors, sizeof *o->tensor);
    Onnx__Tensor *t = graph_room(&o->memory, 1, sizeof *t);
    int64_t *dims = graph_room(&o->memory, rank, sizeof *dims);
    size_t bytes = graph_type_bytes(type);
    if (!dims)
        return NULL;
    for (size_t i = 0; i < rank; i++) {
        dims[i] = dim[i];
        bytes *= (size_t)dim[i];
    }
    *t = (Onnx__Tensor)ONNX__TENSOR__INIT;
    t->dims = dims;
    t->n_dims = rank;
    t->data_type = (int32_t)onnx_type(type);
    t->name = (char *)name;
    t->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)data};
    o->tensor[o->tensors++] = t;
    return name;
}

const char *onnx_integers(struct onnx *o, const char *name, const int64_t *i, size_t n)
{
    const int64_t dim[] = {(int64_t)n};
    int64_t *copy = graph_room(&o->memory, n, sizeof *copy);
    if (!copy)
        return NULL;
    memcpy(copy, i, n * sizeof *copy);
    return onnx_constant(o, name, GRAPH_I64, dim, 1, copy);
}

/* ---- values ---- */

const char *onnx_make(struct onnx *o, uint32_t value, enum onnx_order order)
{
    const char *name = o->g->value[value].name;
    if (order == ONNX_FIRST)
        name = graph_format(&o->memory, "%s/channels_first", name);
    if (!o->memory.failed)
        o->name[value][order] = name;
    return name;
}

/* For values whose channels are second, a constant (channels) becomes (channels, 1, 1). */
static const char *constant_in(struct onnx *o, uint32_t value, enum onnx_order order)
{
    const struct graph_value *v = &o->g->value[value];
    int64_t dim[GRAPH_RANK_MAX] = {0, 1, 1};
    for (uint32_t i = 0; i < v->rank; i++)
        dim[i] = v->dim[i];
    return onnx_constant(o, onnx_make(o, value, order), v->type, dim,
                         order == ONNX_FIRST ? 3 : v->rank, v->data);
}

const char *onnx_value(struct onnx *o, uint32_t value, enum onnx_order order)
{
    static const int64_t orders[ONNX_ORDERS][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}};
    const struct graph_value *v = &o->g->value[value];
    if (o->memory.failed)
        return NULL;
    if (v->data && v->rank == 0)
        order = ONNX_LAST;
    if (o->name[value][order])
        return o->name[value][order];
    if (v->data)
        return constant_in(o, value, order);
    const char *from = o->name[value][order == ONNX_LAST ? ONNX_FIRST : ONNX_LAST];
    const char *to = onnx_make(o, value, order);
    onnx_attribute_ints(o, onnx_node(o, "Transpose", &from, 1, to), "perm", orders[order], 4);
    return to;
}
