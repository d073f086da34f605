/* Messages to every ps, log lines, lines of the journal, and the end of the job. */
#include <stdarg.h>
#include <stdio.h>

#include "common/base/printable.h"

#include "worker/chief/core/chief_state.h"

void chief_say(struct chief *c, int warning, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    c->io->say(c->ctx, warning, text);
}

bool chief_is_ours(const struct chief *c, const Gradwire__Generation *g)
{
    return generation_equal(msg_generation_get(g), c->generation);
}

uint32_t chief_ps_away(const struct chief *c)
{
    uint32_t i = 0;
    while (i < c->config.ps && c->ps[i].up)
        i++;
    return i;
}

void chief_to_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        if ((i == ps || ps == EVERY_PS) && c->ps[i].up)
            c->io->to_ps(c->ctx, i, type, m);
}

void chief_send_fence(struct chief *c, uint32_t ps, uint32_t worker, uint64_t incarnation)
{
    Gradwire__Fence m = GRADWIRE__FENCE__INIT;
    m.generation = &c->named;
    m.worker = worker;
    m.incarnation = incarnation;
    chief_to_ps(c, ps, FRAME_FENCE, &m.base);
}

void chief_note(struct chief *c, struct journal_entry *entry)
{
    entry->generation = c->generation.number;
    entry->cut = c->published_cut;
    journal_one_line(entry);
    if (journal_add(&c->journal, entry))
        chief_say(c, 1, "no memory to note in the journal: %s", entry->what);
    c->unwritten++;
    c->io->journal(c->ctx, entry);
}

struct journal_lines chief_journal_lines(const struct chief *c)
{
    return journal_lines(&c->journal,
                         c->journal.n > c->unwritten ? c->journal.n - c->unwritten : 0);
}

void chief_tell_journal(struct chief *c)
{
    const struct journal_lines lines = chief_journal_lines(c);
    Gradwire__Journaled m = GRADWIRE__JOURNALED__INIT;
    m.generation = &c->named;
    m.journal_lines = lines.n;
    m.journal_crc = lines.crc;
    if (c->entered)
        chief_to_ps(c, 0, FRAME_JOURNALED, &m.base);
}

void chief_end(struct chief *c, int exit_code, const char *text)
{
    if (c->phase == CHIEF_ENDED)
        return;
    c->phase = CHIEF_ENDED;
    c->io->ended(c->ctx, exit_code, text);
}

/* True if a member does not know of the end yet, and may never see the chief's files. A failure is not confirmed: a member
 * that is connected gets it, and one that never came may come now. */
static bool someone_may_ask(const struct chief *c, bool fails)
{
    for (uint32_t i = 1; i < c->workers; i++) {
        const struct chief_worker *w = &c->worker[i];
        if (w->member && (fails ? !w->up : w->incarnation && !w->acked))
            return true;
    }
    return false;
}

void chief_send_done(struct chief *c, int exit_code, const char *text, bool to_ps)
{
    Gradwire__Done m = GRADWIRE__DONE__INIT;
    Gradwire__Over over = GRADWIRE__OVER__INIT;
    m.exit_code = exit_code;
    m.text = (char *)text;
    m.over = exit_code ? NULL : &over;
    over.epochs = c->config.finished ? c->config.learned_epochs : epochs_learned(c->epoch);
    over.run = c->config.checkpoint.run;
    m.linger_s =
        to_ps && someone_may_ask(c, exit_code != 0) ? c->config.timeouts.worker_rejoin_s : 0;
    if (to_ps)
        chief_to_ps(c, EVERY_PS, FRAME_DONE, &m.base);
    for (uint32_t i = 1; i < c->workers && !to_ps; i++) {
        c->worker[i].done_ms = c->now_ms;
        if (c->worker[i].up)
            c->io->to_worker(c->ctx, i, FRAME_DONE, &m.base);
    }
}

void chief_fail_with(struct chief *c, int exit_code, const char *text)
{
    if (c->phase == CHIEF_ENDED)
        return;
    (void)snprintf(c->failed, sizeof c->failed, "%s", text);
    /* connected processes must learn that the job is done */
    int told = c->config.finished ? 0 : exit_code;
    chief_send_done(c, told, c->failed, false);
    chief_send_done(c, told, c->failed, true);
    chief_end(c, exit_code, c->failed);
}

void chief_fail(struct chief *c, const char *fmt, ...)
{
    char text[sizeof c->failed];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    chief_fail_with(c, 1, text);
}
