/* A shard's part of a cut: stop at a boundary, report, go on to the named step, copy, save. */
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

bool shard_cut_holds(const struct shard *s)
{
    return s->cut_state == CUT_STOPPED && s->update == UPDATE_SYNC;
}

void shard_cut_reset(struct shard *s)
{
    s->cut_state = CUT_NONE;
    msg_free(s->copied ? &s->copied->base : NULL);
    s->copied = NULL;
    s->is_saved = false;
    s->save_error[0] = '\0';
}

static void tell_stopped(struct shard *s)
{
    Gradwire__CutStopped m = GRADWIRE__CUT_STOPPED__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.generation = &g;
    m.cut = s->cut;
    m.status = (Gradwire__ShardStatus *)shard_status(s);
    s->io->tell(s->ctx, FRAME_CUT_STOPPED, &m.base);
}

/* The same again, if it is asked again: training has gone on since. */
static void tell_copied(struct shard *s)
{
    if (s->copied)
        s->io->tell(s->ctx, FRAME_CUT_COPIED, &s->copied->base);
}

static bool note_copied(struct shard *s)
{
    Gradwire__CutCopied m = GRADWIRE__CUT_COPIED__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.generation = &g;
    m.cut = s->cut;
    m.status = (Gradwire__ShardStatus *)shard_status(s);
    s->copied = (Gradwire__CutCopied *)msg_copy(&m.base);
    return s->copied != NULL;
}

/* The writer's answer, or ours in its place. */
static void tell_saved(struct shard *s)
{
    Gradwire__CutSaved m = GRADWIRE__CUT_SAVED__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.generation = &g;
    m.cut = s->cut;
    m.shard = s->index;
    m.error = s->save_error;
    m.file = s->saved.name;
    m.first_elem = s->saved.first_elem;
    m.elems = s->saved.elems;
    m.bytes = s->saved.bytes;
    m.head_crc = s->saved.head_crc;
    s->io->tell(s->ctx, FRAME_CUT_SAVED, &m.base);
}

static struct shard_image *image_new(const struct shard *s)
{
    struct shard_image *image = mem_zalloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->cut = s->cut;
    image->generation = s->generation;
    struct checkpoint_shard *b = &image->blocks;
    b->shard = s->index;
    b->generation = s->generation.number;
    b->first_elem = s->me.first_elem;
    b->elems = s->me.elems;
    b->slots = s->slots;
    b->w = mem_floats(b->elems);
    bool there = b->w != NULL;
    for (uint32_t i = 0; i < s->slots; i++) {
        b->slot[i] = mem_floats(b->elems);
        there = there && b->slot[i];
    }
    if (!there) {
        shard_image_free(image);
        return NULL;
    }
    memcpy(b->w, shard_seen(s, s->now), b->elems * sizeof(float));
    for (uint32_t i = 0; i < s->slots; i++)
        memcpy(b->slot[i], s->slot[i], b->elems * sizeof(float));
    return image;
}

static void copy_and_save(struct shard *s)
{
    struct shard_image *image = note_copied(s) ? image_new(s) : NULL;
    s->cut_state = CUT_SAVING;
    tell_copied(s);
    if (image)
        s->io->save(s->ctx, image);
    else
        shard_on_saved(s, s->cut, NULL, "no memory to copy the parameters for a cut");
}

void shard_cut_boundary(struct shard *s)
{
    if (s->cut_state == CUT_ASKED) {
        s->cut_state = CUT_STOPPED;
        tell_stopped(s);
    } else if (s->cut_state == CUT_GOES_ON && s->step == s->cut_step) {
        copy_and_save(s);
    }
}

bool shard_mine(const struct shard *s, const Gradwire__Generation *g)
{
    return s->entered && s->me.chunks && generation_equal(msg_generation_get(g), s->generation);
}

void shard_on_cut(struct shard *s, const Gradwire__Cut *m)
{
    if (!shard_mine(s, m->generation) || m->cut < s->cut)
        return;
    bool again = m->cut == s->cut && s->cut_state != CUT_NONE;
    if (again && s->update == UPDATE_SYNC) {
        if (s->cut_state == CUT_STOPPED)
            tell_stopped(s);
        return;
    }
    s->cut = m->cut;
    shard_cut_reset(s);
    s->cut_state = CUT_ASKED;
    if (s->update != UPDATE_SYNC || s->chunks_made == 0)
        shard_cut_boundary(s);
}

void shard_on_cut_at(struct shard *s, const Gradwire__CutAt *m)
{
    if (!shard_mine(s, m->generation) || m->cut != s->cut)
        return;
    if (s->cut_state == CUT_SAVING) { /* said again, answered again */
        tell_copied(s);
        if (s->is_saved || s->save_error[0])
            tell_saved(s);
        return;
    }
    if (s->cut_state != CUT_STOPPED)
        return;
    s->cut_step = m->step;
    s->cut_state = CUT_GOES_ON;
    if (s->update == UPDATE_GEO)
        shard_geo_adopt(s, m);
    if (s->update != UPDATE_SYNC || s->step == m->step)
        copy_and_save(s);
    if (s->update == UPDATE_SYNC)
        shard_sync_release(s);
}

void shard_on_cut_ended(struct shard *s, const Gradwire__CutEnded *m)
{
    if (!shard_mine(s, m->generation) || m->cut != s->cut)
        return;
    shard_cut_reset(s);
    if (s->update == UPDATE_SYNC)
        shard_sync_release(s);
}

void shard_on_saved(struct shard *s, uint64_t cut, const struct checkpoint_file *file,
                    const char *error)
{
    if (cut != s->cut || s->cut_state != CUT_SAVING)
        return; /* of a cut that is over */
    if (file)
        s->saved = *file;
    s->is_saved = error == NULL;
    (void)snprintf(s->save_error, sizeof s->save_error, "%s", error ? error : "");
    tell_saved(s);
}
