#include "ps/core/gate.h"

#include <assert.h>

#include "common/base/mem.h"

enum err gate_init(struct gate *g, uint32_t leaves, uint32_t chunks, bool picks)
{
    size_t room = picks ? 2 * (size_t)leaves : leaves;
    *g = (struct gate){.leaves = leaves, .picks = picks};
    g->chunk = mem_zalloc(chunks, sizeof *g->chunk);
    g->nodes = mem_zalloc(chunks * room, sizeof *g->nodes);
    g->pick.has = picks ? mem_zalloc(chunks, sizeof *g->pick.has) : NULL;
    g->pick.chunks = picks ? mem_zalloc(room, sizeof *g->pick.chunks) : NULL;
    if (!g->chunk || !g->nodes || (picks && (!g->pick.has || !g->pick.chunks))) {
        gate_close(g);
        return ERR_NOMEM;
    }
    for (; g->chunks < chunks; g->chunks++)
        g->chunk[g->chunks].node = g->nodes + g->chunks * room;
    return ERR_OK;
}

void gate_close(struct gate *g)
{
    for (uint32_t i = 0; i < g->chunks; i++)
        gate_clear(g, i);
    mem_free(g->chunk);
    mem_free(g->nodes);
    mem_free(g->pick.has);
    mem_free(g->pick.chunks);
    *g = (struct gate){0};
}

static void drop(struct gate_node *n)
{
    buffer_unref(n->run);
    mem_free(n->marks);
}

/* ---- the nodes that a chunk has, if the gate picks ---- */

static void set_node(struct tree_nodes *s, uint32_t bit)
{
    s->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

/* A node has arrived: mark it, and each node above it whose other half is marked. */
static void note_node(struct gate *g, uint32_t chunk, uint32_t bit)
{
    struct gate_pick *p = &g->pick;
    while (bit && !tree_has_node(&p->has[chunk], bit)) {
        set_node(&p->has[chunk], bit);
        assert(p->chunks[bit] < g->chunks);
        if (++p->chunks[bit] == g->chunks) {
            set_node(&p->whole, bit);
            p->wholes++;
        }
        bit = tree_has_node(&p->has[chunk], bit ^ 1) ? bit / 2 : 0;
    }
}

static void forget_nodes(struct gate *g, uint32_t chunk)
{
    struct gate_pick *p = &g->pick;
    for (uint32_t bit = 1; bit < 2 * g->leaves; bit++) {
        if (!tree_has_node(&p->has[chunk], bit))
            continue;
        assert(p->chunks[bit] > 0 && (p->chunks[bit] < g->chunks || p->wholes > 0));
        if (p->chunks[bit]-- == g->chunks) {
            p->whole.bits[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
            p->wholes--;
        }
    }
    p->has[chunk] = (struct tree_nodes){{0}};
    /* Assert that `wholes` counts the nodes that all chunks have. */
    uint32_t wholes = 0;
    for (size_t i = 0; i < sizeof p->whole.bits / sizeof *p->whole.bits; i++)
        wholes += (uint32_t)__builtin_popcountll(p->whole.bits[i]);
    assert(wholes == p->wholes);
    (void)wholes;
}

static const struct gate_node *find(const struct gate_chunk *c, struct tree_node n)
{
    for (uint32_t i = 0; i < c->nodes; i++)
        if (c->node[i].node.level == n.level && c->node[i].node.index == n.index)
            return &c->node[i];
    return NULL;
}

static bool wants_some(const struct tree_leaves *leaves, struct tree_node n)
{
    for (uint32_t leaf = tree_first_leaf(n); leaf < tree_end_leaf(n); leaf++)
        if (tree_has_leaf(leaves, leaf))
            return true;
    return false;
}

/* Mark in `kept` the largest nodes that cover exactly those of the leaves that are below n. False: impossible. */
static bool cover(const struct gate_chunk *c, const struct tree_leaves *leaves, struct tree_node n,
                  bool *kept)
{
    if (!wants_some(leaves, n))
        return true;
    const struct gate_node *here = find(c, n);
    if (here && tree_has_leaves(leaves, tree_first_leaf(n), tree_end_leaf(n))) {
        kept[here - c->node] = true;
        return true;
    }
    return n.level > 0 && cover(c, leaves, (struct tree_node){n.level - 1, n.index * 2}, kept) &&
           cover(c, leaves, (struct tree_node){n.level - 1, n.index * 2 + 1}, kept);
}

static struct tree_node root_of(const struct gate *g)
{
    return (struct tree_node){(uint32_t)__builtin_ctz(g->leaves), 0};
}

bool gate_covers(const struct gate *g, uint32_t chunk, const struct tree_leaves *leaves)
{
    bool kept[TREE_NODES_MAX];
    return cover(&g->chunk[chunk], leaves, root_of(g), kept);
}

void gate_pick(struct gate *g, uint32_t chunk, const struct tree_leaves *leaves)
{
    struct gate_chunk *c = &g->chunk[chunk];
    bool kept[TREE_NODES_MAX] = {false};
    uint32_t n = 0;
    assert(g->picks);
    bool covered = cover(c, leaves, root_of(g), kept);
    assert(covered);
    (void)covered;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (kept[i])
            c->node[n++] = c->node[i];
        else
            drop(&c->node[i]);
    }
    c->nodes = n;
    c->picked = true;
}

/* ---- nodes ---- */

enum gate_verdict gate_admit(struct gate *g, uint32_t chunk, const struct gate_node *n)
{
    struct gate_chunk *c = &g->chunk[chunk];
    uint32_t first = tree_first_leaf(n->node), end = tree_end_leaf(n->node);
    uint32_t bit = tree_node_bit(g->leaves, n->node);
    assert(chunk < g->chunks);
    assert(!g->picks || c->nodes > 0 || c->picked || tree_count_leaves(&c->there) == 0);
    if (c->picked || (g->picks ? tree_has_node(&g->pick.has[chunk], bit)
                               : tree_has_leaves(&c->there, first, end)))
        return GATE_DUPLICATE;
    if (!g->picks) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < c->nodes; i++) {
            if (tree_covers(n->node, c->node[i].node))
                drop(&c->node[i]);
            else
                c->node[kept++] = c->node[i];
        }
        c->nodes = kept;
    }
    if (n->run)
        buffer_ref(n->run);
    c->node[c->nodes++] = *n;
    tree_add_leaves(&c->there, first, end);
    if (g->picks)
        note_node(g, chunk, bit);
    assert(c->nodes <= (g->picks ? 2 * g->leaves : g->leaves));
    return GATE_ADDED;
}

void gate_add_missing(const struct gate *g, uint32_t chunk, struct tree_leaves *to)
{
    for (uint32_t leaf = 0; leaf < g->leaves; leaf++)
        if (!tree_has_leaf(&g->chunk[chunk].there, leaf))
            tree_add_leaves(to, leaf, leaf + 1);
}

uint32_t gate_first_missing(const struct gate *g, uint32_t chunk)
{
    uint32_t leaf = 0;
    while (leaf < g->leaves && tree_has_leaf(&g->chunk[chunk].there, leaf))
        leaf++;
    return leaf;
}

bool gate_complete(const struct gate *g, uint32_t chunk)
{
    return g->picks ? g->chunk[chunk].picked : gate_first_missing(g, chunk) == g->leaves;
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
        drop(&c->node[i]);
    c->nodes = 0;
    c->picked = false;
    c->there = (struct tree_leaves){{0}};
    if (g->picks)
        forget_nodes(g, chunk);
}

void gate_disown(struct gate *g)
{
    for (uint32_t c = 0; c < g->chunks; c++)
        for (uint32_t i = 0; i < g->chunk[c].nodes; i++)
            g->chunk[c].node[i].incarnation = 0;
}
