#include "ps/gate.h"

#include <string.h>

#include "common/mem.h"

enum err gate_init(struct gate *g, uint32_t leaves, uint32_t chunks)
{
    struct gate gate = {.leaves = leaves, .chunks = chunks};
    gate.chunk = mem_zalloc(chunks, sizeof *gate.chunk);
    gate.nodes = mem_zalloc((size_t)chunks * leaves, sizeof *gate.nodes);
    if (!gate.chunk || !gate.nodes) {
        mem_free(gate.chunk);
        mem_free(gate.nodes);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < chunks; i++)
        gate.chunk[i].node = gate.nodes + (size_t)i * leaves;
    *g = gate;
    return ERR_OK;
}

void gate_close(struct gate *g)
{
    for (uint32_t i = 0; i < g->chunks; i++)
        gate_clear(g, i);
    mem_free(g->chunk);
    mem_free(g->nodes);
    *g = (struct gate){0};
}

static bool leaf_there(const struct gate_chunk *c, uint32_t leaf)
{
    return c->there[leaf / 64] >> (leaf % 64) & 1;
}

static bool all_there(const struct gate_chunk *c, struct tree_node n)
{
    for (uint32_t leaf = tree_first_leaf(n); leaf < tree_end_leaf(n); leaf++)
        if (!leaf_there(c, leaf))
            return false;
    return true;
}

static void drop_below(struct gate_chunk *c, struct tree_node above)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (tree_covers(above, c->node[i].node))
            buffer_unref(c->node[i].run);
        else
            c->node[kept++] = c->node[i];
    }
    c->nodes = kept;
}

enum gate_verdict gate_admit(struct gate *g, uint32_t chunk, const struct gate_node *n)
{
    struct gate_chunk *c = &g->chunk[chunk];
    if (all_there(c, n->node))
        return GATE_DUPLICATE;
    drop_below(c, n->node);
    if (n->run)
        buffer_ref(n->run);
    c->node[c->nodes++] = *n;
    for (uint32_t leaf = tree_first_leaf(n->node); leaf < tree_end_leaf(n->node); leaf++)
        c->there[leaf / 64] |= UINT64_C(1) << (leaf % 64);
    return GATE_ADDED;
}

uint32_t gate_first_missing(const struct gate *g, uint32_t chunk)
{
    uint32_t leaf = 0;
    while (leaf < g->leaves && leaf_there(&g->chunk[chunk], leaf))
        leaf++;
    return leaf;
}

bool gate_complete(const struct gate *g, uint32_t chunk)
{
    return gate_first_missing(g, chunk) == g->leaves;
}

uint64_t gate_examples(const struct gate *g, uint32_t chunk)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->chunk[chunk].nodes; i++)
        n += g->chunk[chunk].node[i].examples;
    return n;
}

void gate_clear(struct gate *g, uint32_t chunk)
{
    struct gate_chunk *c = &g->chunk[chunk];
    for (uint32_t i = 0; i < c->nodes; i++)
        buffer_unref(c->node[i].run);
    c->nodes = 0;
    memset(c->there, 0, sizeof c->there);
}
