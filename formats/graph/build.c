/* Makes the parts of a graph: memory that the graph owns, values, nodes, and the shapes that follow from their inputs. */
#include "formats/graph/build.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

/* ---- memory ---- */

void build_fail(struct build *b, enum err err, const char *why)
{
    if (!b->err)
        b->err = err_set(b->e, err, "%s", why);
}

static void fail_memory(struct build *b)
{
    build_fail(b, ERR_NOMEM, "no memory for the graph of the model");
}

/* Make room for `more` elements after `count`. */
static void *room(struct build *b, void *array, uint32_t count, uint32_t more, size_t size)
{
    if (b->err || more == 0)
        return array;
    void *grown = mem_extend(array, count, more, size);
    if (!grown)
        fail_memory(b);
    return grown ? grown : array;
}

void *graph_room(struct graph_memory *m, size_t count, size_t size)
{
    void **grown = m->failed ? NULL : mem_extend(m->block, m->blocks, 1, sizeof *grown);
    m->block = grown ? grown : m->block;
    void *p = grown ? mem_zalloc(count ? count : 1, size) : NULL;
    if (p)
        m->block[m->blocks++] = p;
    m->failed = !p;
    return p;
}

char *graph_vformat(struct graph_memory *m, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    size_t bytes = (size_t)vsnprintf(NULL, 0, fmt, args) + 1;
    char *text = graph_room(m, bytes, 1);
    if (text)
        (void)vsnprintf(text, bytes, fmt, again);
    va_end(again);
    return text;
}

char *graph_format(struct graph_memory *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = graph_vformat(m, fmt, args);
    va_end(args);
    return text;
}

void graph_memory_close(struct graph_memory *m)
{
    for (size_t i = 0; i < m->blocks; i++)
        mem_free(m->block[i]);
    mem_free(m->block);
}

void *build_own(struct build *b, size_t count, size_t size)
{
    void *p = b->err ? NULL : graph_room(&b->g->memory, count, size);
    if (!p)
        fail_memory(b);
    return p;
}

const char *build_text(struct build *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = b->err ? NULL : graph_vformat(&b->g->memory, fmt, args);
    va_end(args);
    if (!text)
        fail_memory(b);
    return text;
}

/* ---- values ---- */

static uint32_t add_value(struct build *b, const struct graph_value *v)
{
    struct graph *g = b->g;
    g->value = room(b, g->value, g->values, 1, sizeof *g->value);
    if (b->err)
        return 0;
    g->value[g->values] = *v;
    return g->values++;
}

/* (n, dim...) */
static struct graph_value rows_of(enum graph_type type, uint32_t rank, const uint32_t *dim)
{
    struct graph_value v = {.type = type, .rank = rank + 1, .dim = {GRAPH_ROWS}};
    assert(rank < GRAPH_RANK_MAX);
    memcpy(v.dim + 1, dim, rank * sizeof *dim);
    return v;
}

uint32_t build_input(struct build *b, const struct graph_input *of, enum graph_type type,
                     uint32_t rank, const uint32_t *dim, const char *name)
{
    struct graph *g = b->g;
    struct graph_value v = rows_of(type, rank, dim);
    v.name = build_text(b, "%s", name);
    g->input = room(b, g->input, g->inputs, 1, sizeof *g->input);
    uint32_t value = add_value(b, &v);
    if (b->err)
        return 0;
    g->input[g->inputs] = *of;
    g->input[g->inputs++].value = value;
    return value;
}

uint32_t build_constant(struct build *b, enum graph_type type, uint32_t rank, const uint32_t *dim,
                        const void *data)
{
    struct graph_value v = {.type = type, .rank = rank, .data = data};
    if (rank)
        memcpy(v.dim, dim, rank * sizeof *dim);
    return b->err ? 0 : add_value(b, &v);
}

static uint32_t scalar(struct build *b, enum graph_type type, const void *x, size_t bytes)
{
    void *data = build_own(b, 1, bytes);
    if (!data)
        return 0;
    memcpy(data, x, bytes);
    return build_constant(b, type, 0, NULL, data);
}

uint32_t build_f32(struct build *b, float x)
{
    return scalar(b, GRAPH_F32, &x, sizeof x);
}

uint32_t build_f64(struct build *b, double x)
{
    return scalar(b, GRAPH_F64, &x, sizeof x);
}

uint32_t build_i64(struct build *b, int64_t x)
{
    return scalar(b, GRAPH_I64, &x, sizeof x);
}

static const struct tensor *find_tensor(const struct build *b, const char *layer, const char *what)
{
    const struct tensor *t = layout_weight(model_layout(b->folder->model), layer, what);
    assert(t); /* the model was made from the same layers */
    return t;
}

const float *build_tensor_data(const struct build *b, const char *layer, const char *what)
{
    return b->folder->w + find_tensor(b, layer, what)->offset_elems;
}

uint32_t build_tensor(struct build *b, const char *layer, const char *what)
{
    const struct tensor *t = find_tensor(b, layer, what);
    uint32_t value =
        build_constant(b, GRAPH_F32, t->rank, t->shape, b->folder->w + t->offset_elems);
    if (!b->err)
        b->g->value[value].name = build_text(b, "%s", t->name);
    return value;
}

struct graph_value build_look(const struct build *b, uint32_t value)
{
    return b->err ? (struct graph_value){.rank = 1, .dim = {1}} : b->g->value[value];
}

/* ---- nodes ---- */

static uint32_t add_node(struct build *b, struct graph_node n, const uint32_t *input,
                         struct graph_value out)
{
    struct graph *g = b->g;
    g->node = room(b, g->node, g->nodes, 1, sizeof *g->node);
    g->input_of_node =
        room(b, g->input_of_node, g->node_inputs, n.inputs, sizeof *g->input_of_node);
    out.data = NULL;
    out.name = NULL;
    n.output = add_value(b, &out);
    if (b->err)
        return 0;
    n.first_input = g->node_inputs;
    memcpy(g->input_of_node + n.first_input, input, n.inputs * sizeof *input);
    g->node_inputs += n.inputs;
    g->node[g->nodes++] = n;
    return n.output;
}

uint32_t build_unary(struct build *b, enum graph_op op, uint32_t x)
{
    struct graph_value out = build_look(b, x);
    if (op == GRAPH_IS_NAN)
        out.type = GRAPH_BOOL;
    return add_node(b, (struct graph_node){.op = op, .inputs = 1}, &x, out);
}

uint32_t build_cast(struct build *b, enum graph_type type, uint32_t x)
{
    struct graph_value out = build_look(b, x);
    if (out.type == type)
        return x;
    out.type = type;
    return add_node(b, (struct graph_node){.op = GRAPH_CAST, .inputs = 1}, &x, out);
}

/* The shape of both together, as NumPy broadcasts. */
static struct graph_value broadcast(const struct graph_value *x, const struct graph_value *y)
{
    const struct graph_value *more = x->rank >= y->rank ? x : y, *less = more == x ? y : x;
    struct graph_value out = *more;
    uint32_t skip = more->rank - less->rank;
    for (uint32_t i = 0; i < less->rank; i++) {
        uint32_t *d = &out.dim[skip + i];
        assert(*d == less->dim[i] || *d == 1 || less->dim[i] == 1);
        *d = *d == 1 ? less->dim[i] : *d;
    }
    out.type = x->type;
    return out;
}

uint32_t build_binary(struct build *b, enum graph_op op, uint32_t x, uint32_t y)
{
    const struct graph_value l = build_look(b, x), r = build_look(b, y);
    struct graph_value out = broadcast(&l, &r);
    assert(b->err || l.type == r.type);
    if (op == GRAPH_EQUAL || op == GRAPH_GREATER_OR_EQUAL)
        out.type = GRAPH_BOOL;
    return add_node(b, (struct graph_node){.op = op, .inputs = 2}, (uint32_t[]){x, y}, out);
}

uint32_t build_select(struct build *b, uint32_t condition, uint32_t x, uint32_t y)
{
    const struct graph_value c = build_look(b, condition), l = build_look(b, x),
                             r = build_look(b, y);
    struct graph_value out = broadcast(&l, &r);
    out = broadcast(&out, &c);
    assert(b->err || (l.type == r.type && c.type == GRAPH_BOOL));
    return add_node(b, (struct graph_node){.op = GRAPH_SELECT, .inputs = 3},
                    (uint32_t[]){condition, x, y}, out);
}

uint32_t build_matmul(struct build *b, uint32_t x, uint32_t kernel)
{
    struct graph_value out = build_look(b, x);
    const struct graph_value k = build_look(b, kernel);
    assert(b->err || out.dim[out.rank - 1] == k.dim[0]);
    out.dim[out.rank - 1] = k.dim[k.rank - 1];
    return add_node(b, (struct graph_node){.op = GRAPH_MATMUL, .inputs = 2},
                    (uint32_t[]){x, kernel}, out);
}

/* ---- shapes ---- */

uint32_t build_reshape(struct build *b, uint32_t x, uint32_t rank, const uint32_t *dim)
{
    const struct graph_value from = build_look(b, x);
    struct graph_value to = rows_of(from.type, rank, dim);
    assert(b->err || graph_elems(&from) == graph_elems(&to));
    if (from.rank == to.rank && !memcmp(from.dim, to.dim, to.rank * sizeof *to.dim))
        return x;
    return add_node(b, (struct graph_node){.op = GRAPH_RESHAPE, .inputs = 1}, &x, to);
}

uint32_t build_widen(struct build *b, uint32_t x)
{
    struct graph_value v = build_look(b, x);
    v.dim[v.rank] = 1;
    return build_reshape(b, x, v.rank, v.dim + 1);
}

uint32_t build_concat(struct build *b, const uint32_t *x, uint32_t values)
{
    struct graph_value out = build_look(b, x[0]);
    uint32_t *last = &out.dim[out.rank - 1];
    for (uint32_t i = 1; i < values; i++) {
        const struct graph_value v = build_look(b, x[i]);
        *last += v.dim[v.rank - 1];
    }
    if (values == 1)
        return x[0];
    return add_node(b, (struct graph_node){.op = GRAPH_CONCAT, .inputs = values}, x, out);
}

uint32_t build_slice(struct build *b, uint32_t x, uint32_t begin, uint32_t count)
{
    struct graph_value out = build_look(b, x);
    uint32_t *last = &out.dim[out.rank - 1];
    assert(b->err || (begin <= *last && count <= *last - begin));
    if (b->err || *last == count)
        return x;
    *last = count;
    return add_node(b, (struct graph_node){.op = GRAPH_SLICE, .inputs = 1, .begin = begin}, &x,
                    out);
}

uint32_t build_reduce(struct build *b, enum graph_op op, uint32_t x, uint32_t axis, uint32_t end,
                      bool keeps_axes)
{
    struct graph_value out = build_look(b, x);
    struct graph_node n = {
        .op = op, .inputs = 1, .axis = axis, .end_axis = end, .keeps_axes = keeps_axes};
    if (b->err)
        return 0;
    for (uint32_t i = axis; i < end; i++)
        out.dim[i] = 1;
    if (!keeps_axes) {
        memmove(out.dim + axis, out.dim + end, (out.rank - end) * sizeof *out.dim);
        out.rank -= end - axis;
    }
    return add_node(b, n, &x, out);
}

uint32_t build_gather(struct build *b, uint32_t table, uint32_t rows)
{
    const struct graph_value t = build_look(b, table);
    struct graph_value out = build_look(b, rows);
    if (b->err)
        return 0;
    assert(out.rank + t.rank - 1 <= GRAPH_RANK_MAX);
    memcpy(out.dim + out.rank, t.dim + 1, (t.rank - 1) * sizeof *t.dim);
    out.rank += t.rank - 1;
    out.type = t.type;
    return add_node(b, (struct graph_node){.op = GRAPH_GATHER, .inputs = 2},
                    (uint32_t[]){table, rows}, out);
}

uint32_t build_find(struct build *b, enum graph_op op, uint32_t x, uint32_t of, uint32_t numbers)
{
    struct graph_value out = build_look(b, x);
    out.type = GRAPH_I64;
    return add_node(b, (struct graph_node){.op = op, .inputs = op == GRAPH_FIND_WORD ? 3 : 2},
                    (uint32_t[]){x, of, numbers}, out);
}

uint32_t build_window(struct build *b, enum graph_op op, uint32_t x, uint32_t kernel,
                      const struct graph_window window[2], bool same, const uint32_t out[3])
{
    struct graph_node n = {.op = op, .inputs = op == GRAPH_CONV2D ? 2 : 1, .same = same};
    memcpy(n.window, window, sizeof n.window);
    return add_node(b, n, (uint32_t[]){x, kernel}, rows_of(GRAPH_F32, 3, out));
}
