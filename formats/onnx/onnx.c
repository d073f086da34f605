/* Describes the inputs and the output, and writes them with the nodes of lower.c as one protobuf message, which can have 2 GiB. */
#include "formats/onnx/onnx.h"

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/onnx/parts.h"

/* The versions of the file format, of the standard operators and of ai.onnx.ml. */
enum { IR_VERSION = 8, OPERATORS = 18, ML_OPERATORS = 2 };

/* ---- inputs and the output ---- */

static Onnx__Shape *shape_of(struct onnx *o, const struct graph_value *v)
{
    Onnx__Shape *shape = graph_room(&o->memory, 1, sizeof *shape);
    Onnx__Dimension **list = graph_room(&o->memory, v->rank, sizeof(void *));
    Onnx__Dimension *dim = graph_room(&o->memory, v->rank, sizeof *dim);
    for (uint32_t i = 0; dim && i < v->rank; i++) {
        list[i] = &dim[i];
        dim[i] = (Onnx__Dimension)ONNX__DIMENSION__INIT;
        bool rows = v->dim[i] == GRAPH_ROWS;
        dim[i].value_case =
            rows ? ONNX__DIMENSION__VALUE_DIM_PARAM : ONNX__DIMENSION__VALUE_DIM_VALUE;
        if (rows)
            dim[i].dim_param = (char *)"n";
        else
            dim[i].dim_value = v->dim[i];
    }
    if (!dim)
        return NULL;
    *shape = (Onnx__Shape)ONNX__SHAPE__INIT;
    shape->dim = list;
    shape->n_dim = v->rank;
    return shape;
}

static Onnx__Value *describe(struct onnx *o, uint32_t value)
{
    const struct graph_value *v = &o->g->value[value];
    Onnx__Value *described = graph_room(&o->memory, 1, sizeof *described);
    Onnx__Type *type = graph_room(&o->memory, 1, sizeof *type);
    Onnx__TensorType *tensor = graph_room(&o->memory, 1, sizeof *tensor);
    if (!tensor)
        return NULL;
    *tensor = (Onnx__TensorType)ONNX__TENSOR_TYPE__INIT;
    tensor->elem_type = (int32_t)onnx_type(v->type);
    tensor->shape = shape_of(o, v);
    *type = (Onnx__Type)ONNX__TYPE__INIT;
    type->tensor_type = tensor;
    *described = (Onnx__Value)ONNX__VALUE__INIT;
    described->name = (char *)v->name;
    described->type = type;
    return described;
}

/* ---- the file ---- */

static uint64_t varint_bytes(uint64_t x)
{
    uint64_t bytes = 1;
    for (; x > 0x7f; x >>= 7)
        bytes++;
    return bytes;
}

/* LabelEncoder has both as lists of integers. */
uint64_t onnx_key_bytes(uint64_t key, uint64_t number)
{
    return varint_bytes(key) + varint_bytes(number);
}

static enum err pack(const char *path, const Onnx__Model *m, graph_told *told, struct errmsg *e)
{
    size_t bytes = onnx__model__get_packed_size(m);
    if (bytes > INT32_MAX)
        return err_set(e, ERR_INPUT,
                       "%s: an ONNX file of this model would have %zu MiB; protobuf, its format, "
                       "allows 2048. Keep tables out of the graph: a smaller --tables_mb",
                       path, bytes >> 20);
    uint8_t *data = mem_resize(NULL, bytes, 1);
    if (!data)
        return err_memory_of(e, path);
    if (told)
        told(path, bytes);
    (void)onnx__model__pack(m, data);
    enum err err = files_write(path, data, bytes, e);
    mem_free(data);
    return err;
}

static enum err write_model(const char *path, struct onnx *o, Onnx__Graph *graph, graph_told *told,
                            struct errmsg *e)
{
    Onnx__OperatorSet standard = ONNX__OPERATOR_SET__INIT, ml = ONNX__OPERATOR_SET__INIT;
    Onnx__OperatorSet *sets[] = {&standard, &ml};
    Onnx__Model m = ONNX__MODEL__INIT;
    standard.version = OPERATORS;
    ml.domain = (char *)"ai.onnx.ml";
    ml.version = ML_OPERATORS;
    m.ir_version = IR_VERSION;
    m.producer_name = (char *)"gradwire";
    m.graph = graph;
    m.opset_import = sets;
    m.n_opset_import = 2;
    graph->name = (char *)o->g->value[o->g->output].name;
    graph->node = o->node;
    graph->n_node = o->nodes;
    graph->initializer = o->tensor;
    graph->n_initializer = o->tensors;
    return pack(path, &m, told, e);
}

enum err onnx_write(const char *path, const struct graph *g, graph_told *told, struct errmsg *e)
{
    struct onnx o;
    Onnx__Graph graph = ONNX__GRAPH__INIT;
    onnx_begin(&o, g);
    onnx_lower(&o);
    Onnx__Value **inputs = graph_room(&o.memory, g->inputs, sizeof(void *)),
                *output = describe(&o, g->output);
    for (uint32_t i = 0; !o.memory.failed && i < g->inputs; i++)
        inputs[i] = describe(&o, g->input[i].value);
    graph.input = inputs;
    graph.n_input = g->inputs;
    graph.output = &output;
    graph.n_output = 1;
    enum err err =
        o.memory.failed ? err_memory_of(e, path) : write_model(path, &o, &graph, told, e);
    onnx_close(&o);
    return err;
}
