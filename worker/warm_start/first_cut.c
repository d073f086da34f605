#include "worker/warm_start/first_cut.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

/* elements of one file of the cut; in memory, plus as many for each slot */
enum { PIECE_ELEMS = 1 << 22 };

struct piece {
    uint64_t room;
    uint32_t slots;
    float *w, *slot[OPTIMIZER_SLOTS_MAX]; /* (room) each */
};

static void piece_close(struct piece *p)
{
    mem_free(p->w);
    for (uint32_t i = 0; i < p->slots; i++)
        mem_free(p->slot[i]);
}

static enum err piece_init(struct piece *p, const struct first_cut *c)
{
    uint64_t elems = c->layout->elems;
    uint64_t least = (elems + FIRST_CUT_FILES_MAX - 1) / FIRST_CUT_FILES_MAX;
    *p = (struct piece){.room = least > PIECE_ELEMS ? least : PIECE_ELEMS};
    p->room = p->room < elems ? p->room : elems;
    p->slots = c->job->training.update == UPDATE_GEO ? 0 : optimizer_slots(&c->job->optimizer);
    p->w = mem_floats(p->room);
    bool there = p->w;
    for (uint32_t i = 0; i < p->slots; i++)
        there = (p->slot[i] = mem_floats(p->room)) && there;
    if (there)
        return ERR_OK;
    piece_close(p);
    return ERR_NOMEM;
}

/* Also sets the slots to their state before the first update. */
static enum err piece_fill(struct piece *p, const struct first_cut *c, uint64_t first, uint64_t n,
                           struct errmsg *e)
{
    const struct optimizer *o = &c->job->optimizer;
    uint32_t average = optimizer_average_slot(o);
    memset(p->w, 0, n * sizeof *p->w);
    enum err err = c->fill(c->ctx, p->w, first, n, e);
    for (uint32_t i = 0; i < p->slots && !err; i++)
        for (uint64_t k = 0; k < n; k++)
            p->slot[i][k] = i == average ? p->w[k] : optimizer_slot_initial(o, i);
    return err;
}

/* With tables each file has a share of the buckets. */
static enum err write_pieces(struct piece *p, const struct first_cut *c, struct manifest *to,
                             struct errmsg *e)
{
    uint64_t room = p->room ? p->room : 1, pieces = (to->total_elems + room - 1) / room;
    uint32_t files = pieces ? (uint32_t)pieces : c->rows != NULL;
    enum err err = ERR_OK;
    while (to->files < files && !err) {
        uint64_t first = to->files * room;
        uint64_t left = to->total_elems - first, n = left < room ? left : room;
        err = piece_fill(p, c, first, n, e);
        struct checkpoint_shard shard = {.generation = to->generation,
                                         .shard = to->files,
                                         .first_elem = first,
                                         .elems = n,
                                         .slots = p->slots,
                                         .w = p->w};
        memcpy(shard.slot, p->slot, sizeof shard.slot);
        if (c->rows)
            shard.rows = c->rows(c->ctx, bucket_shard(to->files, files));
        if (!err)
            err = checkpoint_write_shard((struct cut){c->checkpoints, to->cut}, &shard,
                                         &to->file[to->files], e);
        to->files++;
    }
    return err;
}

enum err first_cut_name(const struct first_cut *c, struct manifest *m,
                        struct checkpoint_file files[FIRST_CUT_FILES_MAX], struct errmsg *e)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(e, ERR_IO, "no random numbers: %s", strerror(errno));
    uuid_make(m->uuid, random[0], random[1]);
    (void)snprintf(m->run, sizeof m->run, "%s", c->job->checkpoint.run);
    memcpy(m->data_fingerprint, c->data_fingerprint, sizeof m->data_fingerprint);
    m->total_elems = c->layout->elems;
    m->microbatches = c->job->training.microbatches;
    m->identity_text = c->job->identity_text;
    m->file = files;
    return ERR_OK;
}

enum err first_cut_write(const struct first_cut *c, struct manifest *m, struct errmsg *e)
{
    struct piece p;
    if (piece_init(&p, c))
        return err_memory_for(e, "the job's first checkpoint");
    m->slots = p.slots;
    m->tables = c->rows != NULL;
    enum err err = write_pieces(&p, c, m, e);
    piece_close(&p);
    if (!err && c->encoding)
        err = checkpoint_write_encoding((struct cut){c->checkpoints, m->cut}, c->encoding,
                                        strlen(c->encoding), &m->encoding, e);
    return err;
}
