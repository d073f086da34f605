#include "worker/driver/push_codec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/codec/codec_choice.h"
#include "job/job.h"
#include "common/net/conn.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"

/* ---- what was withheld ---- */

static void push_free(struct residual_push *p)
{
    if (!p)
        return;
    mem_free(p->waits);
    mem_free(p->weight);
    mem_free(p->carries);
    mem_free(p->left);
    mem_free(p->carried);
    mem_free(p->body);
    mem_free(p->run);
    mem_free(p);
}

static struct residual_push *push_new(const struct plan *plan)
{
    struct residual_push *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->waits = mem_zalloc(plan->chunks, sizeof *p->waits);
    p->weight = mem_zalloc(plan->chunks, sizeof *p->weight);
    p->carries = mem_zalloc(plan->chunks, sizeof *p->carries);
    p->left = mem_floats(plan->elems);
    p->carried = mem_floats(plan->elems);
    p->body = mem_floats(plan->elems);
    p->run = mem_zalloc(plan->chunks, sizeof *p->run);
    if (p->waits && p->weight && p->carries && p->left && p->carried && p->body && p->run)
        return p;
    push_free(p);
    return NULL;
}

static void residual_free(struct residual *r)
{
    if (!r)
        return;
    while (r->pushes) {
        struct residual_push *p = r->pushes;
        r->pushes = p->next;
        push_free(p);
    }
    mem_free(r->e);
    mem_free(r->weight);
    mem_free(r);
}

/* The plan is borrowed. Errors: ERR_NOMEM. */
static enum err residual_new(struct residual **out, const struct plan *plan)
{
    struct residual *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return ERR_NOMEM;
    r->plan = plan;
    r->e = mem_floats(plan->elems);
    r->weight = mem_zalloc(plan->chunks, sizeof *r->weight);
    if (!r->e || !r->weight) {
        residual_free(r);
        return ERR_NOMEM;
    }
    *out = r;
    return ERR_OK;
}

static bool same(const struct residual_name *a, const struct residual_name *b)
{
    return a->name == b->name && a->remainder == b->remainder && a->node.level == b->node.level &&
           a->node.index == b->node.index;
}

/* True for a push that is settled and belongs to another task: its memory can be reused. */
static bool is_over(const struct residual_push *p, const struct residual_name *running)
{
    return p->open == 0 &&
           (p->name.name != running->name || p->name.remainder != running->remainder);
}

struct residual_push *residual_push(struct residual *r, const struct residual_name *name)
{
    struct residual_push *free = NULL;
    for (struct residual_push *p = r->pushes; p; p = p->next) {
        if (same(&p->name, name))
            return p;
        if (is_over(p, name))
            free = p;
    }
    if (!free) {
        free = push_new(r->plan);
        if (!free)
            return NULL;
        free->next = r->pushes;
        r->pushes = free;
    }
    free->name = *name;
    free->number = ++r->numbers;
    memset(free->run, 0, r->plan->chunks * sizeof *free->run);
    return free;
}

/* ---- one chunk ---- */

struct span {
    uint64_t at;
    size_t elems;
};

static struct span span_of(const struct residual *r, uint32_t chunk)
{
    return (struct span){plan_chunk_elem(r->plan, chunk),
                         (size_t)plan_run_elems(r->plan, chunk, 1)};
}

/* Add what is left, or what comes back, to e. */
static void keep(struct residual *r, uint32_t chunk, const float *x, double weight)
{
    struct span s = span_of(r, chunk);
    float *e = r->e + s.at;
    if (weight <= 0)
        return;
    if (r->weight[chunk] <= 0) {
        memcpy(e, x + s.at, s.elems * sizeof *e);
        r->weight[chunk] = weight;
        return;
    }
    float ratio = (float)(r->weight[chunk] / weight);
    for (size_t i = 0; i < s.elems; i++)
        e[i] += ratio * x[s.at + i];
}

static void carry(struct residual *r, struct residual_push *push, uint32_t chunk, const float *g,
                  double weight)
{
    struct span s = span_of(r, chunk);
    float *p = push->left + s.at, *carried = push->carried + s.at;
    push->open += !push->waits[chunk];
    push->waits[chunk] = true;
    push->carries[chunk] = push->weight[chunk] = 0;
    if (weight <= 0 || r->weight[chunk] <= 0) {
        memcpy(p, g, s.elems * sizeof *p);
        return;
    }
    if (r->weight[chunk] < weight || r->weight[chunk] > weight)
        kernels()->scale(carried, r->e + s.at, (float)(weight / r->weight[chunk]), s.elems);
    else
        memcpy(carried, r->e + s.at, s.elems * sizeof *carried);
    kernels()->add(p, g, carried, s.elems);
    push->carries[chunk] = weight;
    r->weight[chunk] = 0;
}

/* The range is sent as `sent`, decoded: what is left is the difference. */
static void residual_sent(struct residual *r, struct residual_push *push, uint32_t first,
                          uint32_t chunks, const float *sent, double weight)
{
    for (uint32_t c = first; c < first + chunks; c++) {
        struct span s = span_of(r, c);
        float *left = push->left + s.at;
        for (size_t i = 0; i < s.elems; i++) {
            float d = left[i] - sent[i];
            /* a statistic is sent unchanged, whatever its value */
            left[i] = isfinite(d) ? d : 0.0f;
        }
        push->weight[c] = weight;
        sent += s.elems;
    }
}

/* The outcome of a push's chunk. Does nothing for a chunk that has its outcome already, or was never made. */
static void residual_settle(struct residual *r, struct residual_push *push, uint32_t chunk,
                            bool taken)
{
    if (!push->waits[chunk])
        return;
    if (taken)
        keep(r, chunk, push->left, push->weight[chunk]);
    else
        keep(r, chunk, push->carried, push->carries[chunk]);
    push->waits[chunk] = false;
    push->carries[chunk] = push->weight[chunk] = 0;
    push->open--;
}

/* True if something is withheld, or may be once outcomes are known. */
static bool residual_any(const struct residual *r)
{
    for (uint32_t c = 0; c < r->plan->chunks; c++) {
        if (r->weight[c] > 0)
            return true;
        for (const struct residual_push *p = r->pushes; p; p = p->next)
            if (p->waits[c] && (p->weight[c] > 0 || p->carries[c] > 0))
                return true;
    }
    return false;
}

/* ---- the codec ---- */

enum { ERROR_SAMPLE = 64 }; /* the error is measured for one range in this many */

/* The codec of one shard's pushes. */
struct push_link {
    enum codec codec; /* of the running task */
    bool tries;       /* other codecs are tried on a sample of the task */
    struct codec_choice choice;
    struct codec_link link;
};

struct push_codec {
    const struct layout *layout;
    const struct session_terms *terms;
    struct codec_shape shape;
    enum codec configured;
    struct push_link *link; /* by shard */
    struct coder *coder;
    /* For each node: the bytes of a range are at the position of its elements. */
    float *encoded[GRADIENT_NODES_MAX];
    struct push_task task;
    struct residual *residual; /* top-k; else NULL */
    uint64_t runs;
    struct codec_cost cost;
};

enum err push_codec_new(struct push_codec **out, const struct layout *layout)
{
    struct push_codec *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return ERR_NOMEM;
    if (coder_new(&p->coder)) {
        mem_free(p);
        return ERR_NOMEM;
    }
    p->layout = layout;
    *out = p;
    return ERR_OK;
}

static void drop_encoded(struct push_codec *p)
{
    for (uint32_t i = 0; i < GRADIENT_NODES_MAX; i++) {
        mem_free(p->encoded[i]);
        p->encoded[i] = NULL;
    }
}

void push_codec_free(struct push_codec *p)
{
    if (!p)
        return;
    drop_encoded(p);
    residual_free(p->residual);
    mem_free(p->link);
    coder_free(p->coder);
    mem_free(p);
}

enum err push_codec_restart(struct push_codec *p, const struct session_terms *s)
{
    drop_encoded(p);
    p->terms = s;
    p->configured = (enum codec)s->settings.push_codec;
    p->shape = (struct codec_shape){&s->plan, p->layout, s->settings.push_ratio};
    mem_free(p->link);
    p->link = mem_zalloc(s->plan.shards, sizeof *p->link);
    for (uint32_t i = 0; p->link && i < s->plan.shards; i++) {
        p->link[i].codec = p->configured == CODEC_AUTO ? CODEC_RAW : p->configured;
        codec_choice_init(&p->link[i].choice,
                          codec_mask(p->configured, s->settings.codecs_allowed));
    }
    if (!p->link)
        return ERR_NOMEM;
    /* The withheld gradients are dropped with the generation (docs/explanation/semantics.md, "Top-k"). */
    residual_free(p->residual);
    p->residual = NULL;
    return s->feedback ? residual_new(&p->residual, &s->plan) : ERR_OK;
}

void push_codec_task(struct push_codec *p, const struct push_task *task)
{
    p->task = *task;
}

void push_codec_begin(struct push_codec *p, uint32_t shard, const struct conn *conn)
{
    struct push_link *l = &p->link[shard];
    struct link_progress progress;
    if (p->configured != CODEC_AUTO)
        return;
    if (conn && conn_progress(conn, &progress) == ERR_OK)
        codec_choice_link(&l->choice, &l->link, &progress);
    l->codec = codec_choice_next(&l->choice);
    l->tries = true;
}

void push_codec_sent(struct push_codec *p, uint32_t shard, const struct conn *conn)
{
    struct link_progress progress;
    if (p->configured == CODEC_AUTO && conn && conn_progress(conn, &progress) == ERR_OK)
        codec_choice_sent(&p->link[shard].choice, &p->link[shard].link, &progress);
}

enum codec push_codec_in_use(const struct push_codec *p, uint32_t shard)
{
    return p->configured == CODEC_AUTO ? p->link[shard].choice.now : p->configured;
}

const struct codec_cost *push_codec_cost(const struct push_codec *p)
{
    return &p->cost;
}

static enum err say_not_finite(const struct push_codec *p, enum codec codec, const float *x,
                               uint64_t first_elem, uint64_t elems, struct errmsg *e)
{
    uint64_t i = 0;
    while (i < elems && isfinite(x[i]))
        i++;
    const struct tensor *t = &p->layout->tensor[layout_find(p->layout, first_elem + i)];
    return err_set(
        e, ERR_INPUT,
        "the gradient of %s is not finite, and compression.push: %s carries only finite numbers",
        t->name, codec_str(codec));
}

/* Add up the encoding error. */
static void count_error(struct push_codec *p, const float *x, const float *back, uint64_t elems)
{
    for (uint64_t i = 0; i < elems; i++) {
        double d = (double)back[i] - (double)x[i];
        p->cost.error += d * d;
        p->cost.norm += (double)x[i] * (double)x[i];
    }
}

static void measure_error(struct push_codec *p, enum codec codec, uint32_t first, uint32_t chunks,
                          const float *x, const uint8_t *in, uint64_t bytes)
{
    uint64_t elems = plan_run_elems(p->shape.plan, first, chunks);
    float *back = codec_is_lossless(codec) ? NULL : coder_floats(p->coder, elems);
    if (back && codec_decode(p->coder, &p->shape, codec, first, chunks, in, bytes, back) == ERR_OK)
        count_error(p, x, back, elems);
}

static uint64_t push_key(const struct push_codec *p, const struct gradient_node *n)
{
    return rng_key(p->terms->settings.seed, RNG_PUSH_CODEC, p->task.name,
                   (uint64_t)n->node.level << 32 | n->node.index);
}

/* Sync: the shards' guard must see this gradient, and decides for all of them. */
static bool guarded(const struct push_codec *p)
{
    return p->terms->sync && nan_guard_refuses(p->terms->settings.nan_guard);
}

/* ---- with error feedback ---- */

/* Encode push->left to push->body, and leave in it what is not sent. */
static enum err withhold(struct push_codec *p, struct residual_push *push, double weight,
                         uint64_t key, uint32_t first, uint32_t chunks, struct residual_run *run)
{
    uint64_t at = plan_chunk_elem(p->shape.plan, first);
    uint64_t elems = plan_run_elems(p->shape.plan, first, chunks);
    uint8_t *out = (uint8_t *)(push->body + at);
    float *back = coder_floats(p->coder, elems);
    double began = clock_now_s();
    run->codec = p->configured;
    enum err err = back ? codec_encode(p->coder, &p->shape, &run->codec, key, first, chunks,
                                       push->left + at, out, &run->bytes)
                        : ERR_NOMEM;
    if (!err)
        err = codec_decode(p->coder, &p->shape, run->codec, first, chunks, out, run->bytes, back);
    if (!err && p->runs++ % ERROR_SAMPLE == 0)
        count_error(p, push->left + at, back, elems);
    if (!err)
        residual_sent(p->residual, push, first, chunks, back, weight);
    p->cost.encode_s += clock_now_s() - began;
    return err;
}

static void go_whole(struct push_codec *p, struct residual_push *push, const float *x,
                     uint32_t first, uint32_t chunks, struct residual_run *run)
{
    uint64_t at = plan_chunk_elem(p->shape.plan, first);
    run->codec = CODEC_RAW;
    run->bytes = plan_run_elems(p->shape.plan, first, chunks) * sizeof(float);
    memcpy(push->body + at, x, run->bytes);
}

static enum err make_run(struct push_codec *p, struct residual_push *push,
                         const struct gradient_node *n, uint32_t first, uint32_t chunks,
                         struct errmsg *e)
{
    uint64_t at = plan_chunk_elem(p->shape.plan, first);
    struct residual_run run = {.made = true, .chunks = chunks};
    double weight = n->examples == 0 ? 0 : p->terms->sync ? p->task.weight : n->examples;
    enum err err = ERR_OK;
    /* push->left becomes p = g + e. `weight`: the step's examples; 0: e is not added, because a push without examples is
     * not applied. */
    for (uint32_t c = first; c < first + chunks; c++)
        carry(p->residual, push, c, n->value + plan_chunk_elem(p->shape.plan, c), weight);
    if (p->task.whole || p->task.remainder)
        go_whole(p, push, push->left + at, first, chunks, &run);
    else
        err = withhold(p, push, weight, push_key(p, n), first, chunks, &run);
    if (err == ERR_INPUT && guarded(p)) {
        /* The range is sent without e (its gradient is not finite): e comes back, and nothing is left. */
        for (uint32_t c = first; c < first + chunks; c++) {
            keep(p->residual, c, push->carried, push->carries[c]);
            push->carries[c] = push->weight[c] = 0;
        }
        go_whole(p, push, n->value + at, first, chunks, &run);
    } else if (err == ERR_INPUT) {
        return say_not_finite(p, p->configured, push->left + at, at,
                              plan_run_elems(p->shape.plan, first, chunks), e);
    } else if (err) {
        return err_set(e, err, "no memory to encode a gradient");
    }
    push->run[first] = run;
    return ERR_OK;
}

static enum err feedback_run(struct push_codec *p, const struct gradient_node *n, uint32_t first,
                             uint32_t chunks, struct push_body *body, struct errmsg *e)
{
    const struct residual_name name = {p->task.name, n->node, p->task.remainder};
    struct residual_push *push = residual_push(p->residual, &name);
    if (!push)
        return err_memory_for(e, "a gradient that is being sent");
    enum err err = push->run[first].made ? ERR_OK : make_run(p, push, n, first, chunks, e);
    if (err)
        return err;
    assert(push->run[first].chunks == chunks); /* ranges are always counted from a shard's end */
    *body = (struct push_body){push->run[first].codec,
                               push->body + plan_chunk_elem(p->shape.plan, first),
                               push->run[first].bytes, push->number};
    p->cost.raw_bytes += plan_run_elems(p->shape.plan, first, chunks) * sizeof(float);
    p->cost.bytes += body->bytes;
    return ERR_OK;
}

static bool is_taken(const Gradwire__Reply *m, uint64_t number, uint32_t chunk)
{
    for (size_t i = 0; i < m->n_taken; i++) {
        const Gradwire__Taken *t = m->taken[i];
        if (t->number == number && chunk >= t->first_chunk && chunk - t->first_chunk < t->chunks)
            return true;
    }
    return false;
}

/* True if this reply has the outcome of that push. In sync: the step is over, whatever was asked. */
static bool tells_of(const struct push_codec *p, const Gradwire__Reply *m,
                     const struct residual_name *name)
{
    if (p->terms->sync)
        return m->step > name->name;
    return !m->pulled && m->name == name->name && m->remainder == name->remainder;
}

void push_codec_answered(struct push_codec *p, const Gradwire__Reply *m)
{
    if (!p->residual)
        return;
    for (struct residual_push *push = p->residual->pushes; push; push = push->next) {
        if (push->open == 0 || !tells_of(p, m, &push->name))
            continue;
        for (uint32_t c = m->first_chunk; c < m->first_chunk + m->chunks; c++)
            residual_settle(p->residual, push, c,
                            push->name.remainder || is_taken(m, push->number, c));
    }
}

bool push_codec_withholds(const struct push_codec *p)
{
    return p->residual && residual_any(p->residual);
}

const struct residual *push_codec_residual(const struct push_codec *p)
{
    return p->residual;
}

/* ---- without error feedback ---- */

static bool try_codec(struct push_codec *p, struct push_link *l, enum codec codec, uint32_t first,
                      uint32_t chunks, const float *x)
{
    uint64_t elems = plan_run_elems(p->shape.plan, first, chunks), bytes = elems * sizeof(float);
    float *out = coder_floats(p->coder, elems);
    enum codec made_by = codec;
    double began = clock_now_s();
    enum err err = out ? codec_encode(p->coder, &p->shape, &made_by, 0, first, chunks, x,
                                      (uint8_t *)out, &bytes)
                       : ERR_NOMEM;
    double took = clock_now_s() - began;
    p->cost.encode_s += took;
    if (err && err != ERR_TOOBIG)
        return false;
    codec_choice_cost(&l->choice, codec, elems, bytes, took);
    return true;
}

/* Measure other codecs on the beginning of a task's first range. */
static void try_codecs(struct push_codec *p, struct push_link *l, uint32_t first, uint32_t chunks,
                       const float *x)
{
    enum codec codec;
    if (!l->tries)
        return;
    l->tries = false;
    uint32_t sample = codec_choice_sample(p->shape.plan, chunks);
    while ((codec = codec_choice_trial(&l->choice)) != CODEC_RAW &&
           try_codec(p, l, codec, first, sample, x))
        ;
}

enum err push_codec_run(struct push_codec *p, uint32_t shard, const struct gradient_node *n,
                        uint32_t first, uint32_t chunks, struct push_body *body, struct errmsg *e)
{
    if (p->residual)
        return feedback_run(p, n, first, chunks, body, e);
    uint64_t at = plan_chunk_elem(p->shape.plan, first);
    uint64_t elems = plan_run_elems(p->shape.plan, first, chunks);
    const float *x = n->value + at;
    *body = (struct push_body){.codec = CODEC_RAW, .data = x, .bytes = elems * sizeof(float)};
    p->cost.raw_bytes += body->bytes;
    try_codecs(p, &p->link[shard], first, chunks, x);
    if (p->link[shard].codec == CODEC_RAW) {
        p->cost.bytes += body->bytes;
        return ERR_OK;
    }
    float **encoded = &p->encoded[n->number];
    if (!*encoded && !(*encoded = mem_floats(p->shape.plan->elems)))
        return err_memory_for(e, "an encoded gradient");
    uint8_t *out = (uint8_t *)(*encoded + at);
    double began = clock_now_s();
    uint64_t made;
    enum codec made_by = p->link[shard].codec;
    enum err err =
        codec_encode(p->coder, &p->shape, &made_by, push_key(p, n), first, chunks, x, out, &made);
    double took = clock_now_s() - began;
    p->cost.encode_s += took;
    if (!err || err == ERR_TOOBIG)
        codec_choice_cost(&p->link[shard].choice, p->link[shard].codec, elems,
                          err ? body->bytes : made, took);
    if (err == ERR_INPUT && !guarded(p))
        return say_not_finite(p, made_by, x, at, elems, e);
    if (err == ERR_NOMEM)
        return err_set(e, err, "no memory to encode a gradient");
    if (!err) { /* otherwise raw is smaller, or the guard must see it */
        *body = (struct push_body){.codec = made_by, .data = out, .bytes = made};
        if (p->runs++ % ERROR_SAMPLE == 0)
            measure_error(p, made_by, first, chunks, x, out, made);
    }
    p->cost.bytes += body->bytes;
    return ERR_OK;
}

/* ---- replies ---- */

enum err reply_codec_store(struct coder *coder, const struct codec_shape *shape,
                           const Gradwire__Reply *m, const void *in, uint64_t bytes, float *w)
{
    uint64_t elems = plan_run_elems(shape->plan, m->first_chunk, m->chunks);
    float *to = w + plan_chunk_elem(shape->plan, m->first_chunk);
    float *plain = m->difference ? coder_floats(coder, elems) : to;
    if (!plain)
        return ERR_NOMEM;
    enum err err = codec_decode(coder, shape, (enum codec)m->codec, m->first_chunk, m->chunks, in,
                                bytes, plain);
    if (!err && m->difference)
        kernels()->add(to, to, plain, elems);
    return err;
}
