/* A shard's part of a cut: stop at a boundary, report, continue to the named step, copy, save. Rows are copied while
 * training continues (shard_copy.c). */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/rows/key.h"
#include "ps/core/shard_state.h"

bool shard_cut_holds(const struct shard *s)
{
    return s->cut.state == CUT_STOPPED && s->mode->steps;
}

/* End the cut of the rows: they are all copied, or no longer needed. */
void shard_cut_end_rows(struct shard *s)
{
    struct row_cut *c = &s->rows.tables.cut;
    s->rows.kept_rows += c->kept_rows;
    if (c->kept_most_bytes > s->rows.kept_most_bytes)
        s->rows.kept_most_bytes = c->kept_most_bytes;
    s->rows.held = false;
    row_cut_end(c);
}

void shard_cut_reset(struct shard *s)
{
    if (s->cut.state == CUT_SAVING && !s->cut.is_saved && !s->cut.error[0])
        s->io->save_end(s->ctx);
    shard_cut_end_rows(s);
    s->cut.state = CUT_NONE;
    msg_free(s->cut.copied ? &s->cut.copied->base : NULL);
    s->cut.copied = NULL;
    s->cut.is_saved = false;
    s->cut.error[0] = s->cut.broken[0] = '\0';
}

static void tell_stopped(struct shard *s)
{
    Gradwire__CutStopped m = GRADWIRE__CUT_STOPPED__INIT;
    m.generation = &s->wire_generation;
    m.cut = s->cut.number;
    m.status = (Gradwire__ShardStatus *)shard_status(s);
    s->io->tell(s->ctx, FRAME_CUT_STOPPED, &m.base);
}

/* Report the copy. A repeated request gets the same report, although training has continued. */
static void tell_copied(struct shard *s)
{
    if (s->cut.copied)
        s->io->tell(s->ctx, FRAME_CUT_COPIED, &s->cut.copied->base);
}

static bool note_copied(struct shard *s)
{
    Gradwire__CutCopied m = GRADWIRE__CUT_COPIED__INIT;
    m.generation = &s->wire_generation;
    m.cut = s->cut.number;
    m.status = (Gradwire__ShardStatus *)shard_status(s);
    s->cut.copied = (Gradwire__CutCopied *)msg_copy(&m.base);
    return s->cut.copied != NULL;
}

/* Report the writer's result, or this shard's own error instead. */
static void tell_saved(struct shard *s)
{
    Gradwire__CutSaved m = GRADWIRE__CUT_SAVED__INIT;
    m.generation = &s->wire_generation;
    m.cut = s->cut.number;
    m.shard = s->index;
    m.error = s->cut.error;
    m.file = s->cut.saved.name;
    m.first_elem = s->cut.saved.first_elem;
    m.elems = s->cut.saved.elems;
    m.bytes = s->cut.saved.bytes;
    m.head_crc = s->cut.saved.head_crc;
    m.rows = s->cut.saved.rows;
    m.first_bucket = s->cut.saved.first_bucket;
    m.end_bucket = s->cut.saved.end_bucket;
    m.clock = s->cut.saved.clock;
    m.broken = s->cut.broken;
    s->io->tell(s->ctx, FRAME_CUT_SAVED, &m.base);
}

static void copy_and_save(struct shard *s)
{
    assert(s->cut.state == CUT_STOPPED || s->cut.state == CUT_GOES_ON);
    assert(!s->mode->steps || (s->step == s->cut.step && s->mode->at_boundary(s)));
    struct shard_image *image = note_copied(s) ? shard_image_new(s) : NULL;
    s->cut.state = CUT_SAVING;
    tell_copied(s);
    if (image)
        s->io->save(s->ctx, image);
    else
        shard_on_saved(s, s->cut.number, NULL, NULL,
                       "no memory to copy the parameters for a checkpoint");
}

void shard_cut_boundary(struct shard *s)
{
    if (s->cut.state == CUT_ASKED) {
        s->cut.state = CUT_STOPPED;
        tell_stopped(s);
    } else if (s->cut.state == CUT_GOES_ON && s->step == s->cut.step) {
        copy_and_save(s);
    }
}

void shard_on_cut(struct shard *s, const Gradwire__Cut *m)
{
    if (!shard_mine(s, m->generation) || m->cut < s->cut.number)
        return;
    bool again = m->cut == s->cut.number && s->cut.state != CUT_NONE;
    if (again && s->mode->steps) {
        if (s->cut.state == CUT_STOPPED)
            tell_stopped(s);
        return;
    }
    bool was_held = s->rows.held; /* for the previous cut, which has ended */
    shard_cut_reset(s);
    s->cut.number = m->cut;
    s->cut.state = CUT_ASKED;
    if (!s->mode->at_boundary || s->mode->at_boundary(s))
        shard_cut_boundary(s);
    else if (was_held)
        s->mode->release(s);
}

void shard_on_cut_at(struct shard *s, const Gradwire__CutAt *m)
{
    if (!shard_mine(s, m->generation) || m->cut != s->cut.number)
        return;
    if (s->cut.state == CUT_SAVING) { /* a repeated message gets its answer again */
        tell_copied(s);
        if (s->cut.is_saved || s->cut.error[0])
            tell_saved(s);
        return;
    }
    if (s->cut.state != CUT_STOPPED)
        return;
    s->cut.step = m->step;
    s->cut.state = CUT_GOES_ON;
    if (s->mode->on_cut_at)
        s->mode->on_cut_at(s, m);
    if (!s->mode->steps || s->step == m->step)
        copy_and_save(s);
    if (s->mode->release)
        s->mode->release(s);
}

void shard_on_cut_ended(struct shard *s, const Gradwire__CutEnded *m)
{
    if (!shard_mine(s, m->generation) || m->cut != s->cut.number)
        return;
    shard_cut_reset(s);
    if (s->mode->release)
        s->mode->release(s);
}

static void say_broken(struct shard *s, const struct broken *b)
{
    if (b->kind == BROKEN_ELEM)
        (void)snprintf(s->cut.broken, sizeof s->cut.broken, "the tensor %s",
                       s->layout.tensor[layout_find(&s->layout, b->elem)].name);
    else if (b->kind == BROKEN_ROW)
        (void)snprintf(s->cut.broken, sizeof s->cut.broken,
                       "the row of key %" PRIu64 " of table %s", key_unmix(b->mixed),
                       s->layout.rows->table[b->table].name);
}

void shard_on_saved(struct shard *s, uint64_t cut, const struct checkpoint_file *file,
                    const struct broken *broken, const char *error)
{
    if (cut != s->cut.number || s->cut.state != CUT_SAVING)
        return; /* of an earlier cut */
    bool was_held = s->rows.held;
    if (error)
        shard_cut_end_rows(s);
    if (file)
        s->cut.saved = *file;
    s->cut.is_saved = error == NULL;
    s->cut.broken[0] = '\0';
    if (file && broken)
        say_broken(s, broken);
    (void)snprintf(s->cut.error, sizeof s->cut.error, "%s", error ? error : "");
    shard_check(s);
    tell_saved(s);
    if (was_held && !s->rows.held && s->mode->release)
        s->mode->release(s);
}
