/* Converts our types to protobuf messages and back: generations, layouts, plans, optimizers, names of workers. */
#include "common/wire/msg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

/* The chief's settings and the optimizer in them. */

Gradwire__Settings msg_settings(const Gradwire__Settings *m)
{
    Gradwire__Settings plain = *m;
    plain.n_boundaries = plain.n_values = 0;
    plain.boundaries = NULL;
    plain.values = NULL;
    return plain;
}

static void schedule_set(Gradwire__Settings *m, const struct schedule *s)
{
    m->schedule = (uint32_t)s->kind;
    m->warmup_steps = s->warmup_steps;
    m->decay_steps = s->decay_steps;
    m->decay_rate = s->decay_rate;
    m->staircase = s->staircase;
    m->alpha = s->alpha;
    m->warmup_target = s->warmup_target;
    m->warmup_target_steps = s->warmup_target_steps;
    m->end_learning_rate = s->end_learning_rate;
    m->power = s->power;
    m->cycle = s->cycle;
    m->n_boundaries = s->boundaries.n;
    m->boundaries = (uint32_t *)s->boundaries.value;
    m->n_values = s->values.n;
    m->values = (float *)s->values.value;
}

#define SET(member, field, ...) m->field = o->member;
void msg_optimizer_set(Gradwire__Settings *m, const struct optimizer *o)
{
    m->optimizer = (uint32_t)o->kind;
    OPTIMIZER_NUMBERS(SET, SET, SET)
    schedule_set(m, &o->schedule);
}

static bool is_amount(float x)
{
    return x >= 0.0f && isfinite(x);
}

#define IN_RANGE(member, field, least, most) &&o->member >= least && o->member <= most
static bool in_range(const struct optimizer *o)
{
    return true OPTIMIZER_NUMBERS(IN_RANGE, OPTIMIZER_NO_MEMBER, OPTIMIZER_NO_MEMBER);
}

static enum err schedule_get(const Gradwire__Settings *m, struct schedule *s, struct errmsg *e)
{
    if (m->schedule >= SCHEDULE_KINDS)
        return err_set(e, ERR_PROTO,
                       "the chief's learning-rate schedule, number %u, is unknown here: all "
                       "processes must run the same release",
                       m->schedule);
    bool piecewise = m->schedule == SCHEDULE_PIECEWISE_CONSTANT_DECAY;
    bool decays = m->schedule != SCHEDULE_CONSTANT && !piecewise;
    if (m->n_boundaries >= SCHEDULE_LIST_MAX || (piecewise && m->n_values != m->n_boundaries + 1) ||
        m->n_values > SCHEDULE_LIST_MAX || (decays && m->decay_steps == 0) ||
        !is_amount(m->decay_rate) || !is_amount(m->alpha) || !is_amount(m->warmup_target) ||
        !is_amount(m->end_learning_rate) || !is_amount(m->power))
        return err_set(e, ERR_PROTO,
                       "a value of the chief's learning-rate schedule is out of range");
    *s = (struct schedule){
        .kind = (enum schedule_kind)m->schedule,
        .warmup_steps = m->warmup_steps,
        .decay_steps = m->decay_steps,
        .decay_rate = m->decay_rate,
        .staircase = m->staircase,
        .alpha = m->alpha,
        .warmup_target = m->warmup_target,
        .warmup_target_steps = m->warmup_target_steps,
        .end_learning_rate = m->end_learning_rate,
        .power = m->power,
        .cycle = m->cycle,
        .boundaries.n = (uint32_t)m->n_boundaries,
        .values.n = (uint32_t)m->n_values,
    };
    for (uint32_t i = 0; i < s->boundaries.n; i++)
        s->boundaries.value[i] = m->boundaries[i];
    for (uint32_t i = 0; i < s->values.n; i++) {
        s->values.value[i] = m->values[i];
        if (!is_amount(m->values[i]))
            return err_set(e, ERR_PROTO,
                           "a rate of the chief's learning-rate schedule is out of range");
    }
    return ERR_OK;
}

#define GET(member, field, ...) .member = m->field,
enum err msg_optimizer_get(const Gradwire__Settings *m, struct optimizer *o, struct errmsg *e)
{
    if (m->optimizer >= OPTIMIZER_KINDS)
        return err_set(e, ERR_PROTO,
                       "the chief's optimizer, number %u, is unknown here: all processes must run "
                       "the same release",
                       m->optimizer);
    struct optimizer made = {.kind = (enum optimizer_kind)m->optimizer,
                             OPTIMIZER_NUMBERS(GET, GET, GET)};
    if (!in_range(&made))
        return err_set(e, ERR_PROTO, "a value of the chief's optimizer is out of range");
    enum err err = schedule_get(m, &made.schedule, e);
    if (err)
        return err;
    *o = made;
    return ERR_OK;
}

const char *worker_name(char out[WORKER_NAME_BYTES], uint32_t worker, bool separate_chief)
{
    if (separate_chief && worker == 0)
        (void)snprintf(out, WORKER_NAME_BYTES, "the chief");
    else
        (void)snprintf(out, WORKER_NAME_BYTES, "worker %u", worker - separate_chief);
    return out;
}

#define X(name, word, number, kind)                                                                \
    _Static_assert((int)CODEC_##name == (int)GRADWIRE__CODEC__##name, #word);
CODEC_MAP(X)
#undef X

Gradwire__Generation msg_generation(struct generation g)
{
    Gradwire__Generation out = GRADWIRE__GENERATION__INIT;
    out.number = g.number;
    out.tag = g.tag;
    return out;
}

struct generation msg_generation_get(const Gradwire__Generation *g)
{
    return g ? (struct generation){g->number, g->tag} : (struct generation){0, 0};
}

Gradwire__CodecCost msg_codec_cost(const struct codec_cost *c)
{
    Gradwire__CodecCost m = GRADWIRE__CODEC_COST__INIT;
    m.raw_bytes = c->raw_bytes;
    m.bytes = c->bytes;
    m.encode_s = c->encode_s;
    m.decode_s = c->decode_s;
    m.error = c->error;
    m.norm = c->norm;
    return m;
}

struct staleness msg_staleness_get(const Gradwire__WorkerStaleness *m)
{
    struct staleness s = {m->count, m->sum, m->max, {0}};
    for (size_t k = 0; k < m->n_histogram && k < STALENESS_BUCKETS; k++)
        s.bucket[k] = m->histogram[k];
    return s;
}

struct codec_cost msg_codec_cost_get(const Gradwire__CodecCost *m)
{
    if (!m)
        return (struct codec_cost){0};
    return (struct codec_cost){m->raw_bytes, m->bytes, m->encode_s, m->decode_s, m->error, m->norm};
}

bool generation_equal(struct generation a, struct generation b)
{
    return a.number == b.number && a.tag == b.tag;
}

const ProtobufCMessageDescriptor *msg_descriptor(uint32_t type)
{
    static const ProtobufCMessageDescriptor *const of[] = {
#define X(name, message, number, to) [number] = &gradwire__##message##__descriptor,
        FRAME_TYPE_MAP(X)
#undef X
    };
    return type < sizeof of / sizeof *of ? of[type] : NULL;
}

ProtobufCMessage *msg_unpack(uint16_t type, const uint8_t *head, size_t bytes)
{
    const ProtobufCMessageDescriptor *d = msg_descriptor(type);
    return d ? protobuf_c_message_unpack(d, NULL, bytes, head) : NULL;
}

void msg_free(void *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

ProtobufCMessage *msg_copy(const ProtobufCMessage *m)
{
    size_t bytes = protobuf_c_message_get_packed_size(m);
    uint8_t *packed = mem_zalloc(bytes + 1, 1);
    if (!packed)
        return NULL;
    protobuf_c_message_pack(m, packed);
    ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, bytes, packed);
    mem_free(packed);
    return copy;
}

static enum err tensor_get(const Gradwire__Tensor *from, uint64_t end, uint64_t elems,
                           struct tensor *to)
{
    size_t name = from->name ? strlen(from->name) : 0;
    if (name == 0 || name >= TENSOR_NAME_MAX || from->n_shape > TENSOR_RANK_MAX ||
        from->offset < end || from->elems == 0 || from->elems > elems ||
        from->offset > elems - from->elems || from->init > INIT_TRUNCATED_NORMAL ||
        from->role > TENSOR_STATISTIC || !(from->momentum >= 0.0f && from->momentum <= 1.0f))
        return ERR_PROTO;
    *to = (struct tensor){.rank = (uint32_t)from->n_shape,
                          .offset_elems = from->offset,
                          .elems = from->elems,
                          .init = (enum init_kind)from->init,
                          .init_value = from->init_value,
                          .init_center = from->init_center,
                          .role = (enum tensor_role)from->role,
                          .undecayed = from->undecayed,
                          .momentum = from->momentum};
    memcpy(to->name, from->name, name + 1);
    uint64_t product = 1;
    for (size_t i = 0; i < from->n_shape; i++) {
        to->shape[i] = from->shape[i];
        if (__builtin_mul_overflow(product, (uint64_t)from->shape[i], &product))
            return ERR_PROTO;
    }
    return product == from->elems ? ERR_OK : ERR_PROTO;
}

static enum err admission_get(const Gradwire__Table *from, struct row_admission *to)
{
    bool counts = from->min_count > 1;
    if (from->min_count > ROW_MIN_COUNT_MAX || from->sketch_mb > ROW_SKETCH_MB_MAX ||
        counts != (from->sketch_mb > 0) || !(from->probability >= 0 && from->probability < 1))
        return ERR_PROTO;
    *to = (struct row_admission){.min_count = from->min_count,
                                 .probability = from->probability,
                                 .initial = from->unadmitted_initial,
                                 .sketch_mb = from->sketch_mb};
    return ERR_OK;
}

static enum err table_optimizer_get(const Gradwire__Table *from, struct row_table_spec *to)
{
    struct errmsg e;
    if (!from->optimizer)
        return ERR_OK;
    to->has_optimizer = true;
    enum err err = msg_optimizer_get(from->optimizer, &to->optimizer, &e);
    return !err && !optimizer_is_lazy(&to->optimizer) ? ERR_PROTO : err;
}

static enum err table_get(const Gradwire__Table *from, const struct row_table_spec *before,
                          struct row_table_spec *to)
{
    size_t name = from->name ? strlen(from->name) : 0;
    uint32_t list = before ? before->list : 0;
    bool next = from->list == list || (before && from->list == list + 1);
    if (name == 0 || name >= ROW_TABLE_NAME_MAX || from->dim == 0 || from->dim > ROW_DIM_MAX ||
        !next || from->init > INIT_TRUNCATED_NORMAL || from->unseen_steps > ROW_UNSEEN_STEPS_MAX)
        return ERR_PROTO;
    *to = (struct row_table_spec){.dim = from->dim,
                                  .list = from->list,
                                  .init = (enum init_kind)from->init,
                                  .init_value = from->init_value,
                                  .init_center = from->init_center,
                                  .unseen_steps = from->unseen_steps};
    memcpy(to->name, from->name, name + 1);
    return admission_get(from, &to->admission) ? ERR_PROTO : table_optimizer_get(from, to);
}

enum err msg_row_codecs_get(const Gradwire__Plan *p, struct row_codecs *codecs)
{
    struct row_codecs out = {.push = {ROW_CODEC_NONE}};
    if (p->n_tables > ROW_TABLES_MAX)
        return ERR_PROTO;
    for (size_t i = 0; i < p->n_tables; i++) {
        const Gradwire__Table *t = p->tables[i];
        if (t->push_codec > ROW_CODEC_INT8 || t->reply_codec > ROW_CODEC_BF16)
            return ERR_PROTO;
        out.push[i] = (enum row_codec)t->push_codec;
        out.reply[i] = (enum row_codec)t->reply_codec;
    }
    *codecs = out;
    return ERR_OK;
}

/* *rows is NULL if the plan has no tables. */
static enum err tables_get(const Gradwire__Plan *p, struct row_layout **rows, struct errmsg *e)
{
    *rows = NULL;
    if (p->n_tables == 0)
        return ERR_OK;
    if (p->n_tables > ROW_TABLES_MAX)
        return err_set(e, ERR_PROTO, "the chief's plan has %zu tables; allowed: up to %d",
                       p->n_tables, ROW_TABLES_MAX);
    struct row_layout *out = mem_zalloc(1, sizeof *out);
    if (!out)
        return err_memory_for(e, "%zu tables", p->n_tables);
    for (size_t i = 0; i < p->n_tables; i++) {
        if (table_get(p->tables[i], i ? &out->table[i - 1] : NULL, &out->table[i])) {
            mem_free(out);
            return err_set(e, ERR_PROTO, "table %zu of the chief's plan is invalid", i);
        }
        out->tables++;
    }
    if (msg_row_codecs_get(p, &out->codecs)) {
        mem_free(out);
        return err_set(e, ERR_PROTO, "a table of the chief's plan has an unknown codec");
    }
    out->lists = out->table[out->tables - 1].list + 1;
    *rows = out;
    return ERR_OK;
}

enum err msg_layout_get(const Gradwire__Plan *p, struct layout *l, struct errmsg *e)
{
    struct layout out = {.elems = p->elems};
    out.tensor = mem_zalloc(p->n_tensors, sizeof *out.tensor);
    if (!out.tensor)
        return err_memory_for(e, "%zu tensors", p->n_tensors);
    uint64_t end = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        struct tensor *t = &out.tensor[out.tensors++];
        if (tensor_get(p->tensors[i], end, p->elems, t) || (i == 0 && t->offset_elems != 0)) {
            mem_free(out.tensor);
            return err_set(e, ERR_PROTO,
                           "tensor %zu of the chief's plan does not fit the flat block", i);
        }
        end = t->offset_elems + t->elems;
    }
    enum err err = tables_get(p, &out.rows, e);
    if (err) {
        mem_free(out.tensor);
        return err;
    }
    *l = out;
    return ERR_OK;
}

/* protobuf-c's structs have no const, but packing changes nothing. */
static Gradwire__Tensor *tensor_new(const struct tensor *t)
{
    Gradwire__Tensor m = GRADWIRE__TENSOR__INIT;
    m.name = (char *)t->name;
    m.shape = (uint32_t *)t->shape;
    m.n_shape = t->rank;
    m.offset = t->offset_elems;
    m.elems = t->elems;
    m.init = (uint32_t)t->init;
    m.init_value = t->init_value;
    m.init_center = t->init_center;
    m.role = t->role;
    m.undecayed = t->undecayed;
    m.momentum = t->momentum;
    return (Gradwire__Tensor *)msg_copy(&m.base);
}

static Gradwire__Table *table_new(const struct row_table_spec *t)
{
    Gradwire__Table m = GRADWIRE__TABLE__INIT;
    Gradwire__Settings optimizer = GRADWIRE__SETTINGS__INIT;
    m.name = (char *)t->name;
    m.dim = t->dim;
    m.list = t->list;
    m.init = (uint32_t)t->init;
    m.init_value = t->init_value;
    m.init_center = t->init_center;
    m.min_count = t->admission.min_count;
    m.probability = t->admission.probability;
    m.unadmitted_initial = t->admission.initial;
    m.sketch_mb = t->admission.sketch_mb;
    m.unseen_steps = t->unseen_steps;
    if (t->has_optimizer) {
        msg_optimizer_set(&optimizer, &t->optimizer);
        m.optimizer = &optimizer;
    }
    return (Gradwire__Table *)msg_copy(&m.base);
}

static enum err tables_set(Gradwire__Plan *p, const struct row_layout *rows)
{
    p->tables = mem_zalloc(rows->tables, sizeof *p->tables);
    if (!p->tables)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < rows->tables; i++) {
        p->tables[i] = table_new(&rows->table[i]);
        if (!p->tables[i])
            return ERR_NOMEM;
        p->tables[i]->push_codec = rows->codecs.push[i];
        p->tables[i]->reply_codec = rows->codecs.reply[i];
        p->n_tables = i + 1;
    }
    return ERR_OK;
}

enum err msg_plan_set(Gradwire__Plan *p, const struct layout *l, const uint32_t *threads,
                      uint32_t ps)
{
    gradwire__plan__init(p);
    p->elems = l->elems;
    p->tensors = mem_zalloc(l->tensors, sizeof *p->tensors);
    p->threads = mem_zalloc(ps, sizeof *p->threads);
    if (!p->tensors || !p->threads)
        goto nomem;
    memcpy(p->threads, threads, ps * sizeof *threads);
    p->n_threads = ps;
    for (uint32_t i = 0; i < l->tensors; i++) {
        p->tensors[i] = tensor_new(&l->tensor[i]);
        if (!p->tensors[i])
            goto nomem;
        p->n_tensors = i + 1;
    }
    if (l->rows && tables_set(p, l->rows))
        goto nomem;
    return ERR_OK;
nomem:
    msg_plan_close(p);
    return ERR_NOMEM;
}

void msg_plan_close(Gradwire__Plan *p)
{
    for (size_t i = 0; i < p->n_tensors; i++)
        gradwire__tensor__free_unpacked(p->tensors[i], NULL);
    for (size_t i = 0; i < p->n_tables; i++)
        gradwire__table__free_unpacked(p->tables[i], NULL);
    mem_free(p->tables);
    mem_free(p->tensors);
    mem_free(p->threads);
    gradwire__plan__init(p);
}
