#include "tests/lib/quiet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

enum { TAG = 7 };

/* ---- chief_io ---- */

void quiet_to_worker(void *ctx, uint32_t worker, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ctx, (void)worker, (void)type, (void)m;
}

enum err quiet_find_no_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    (void)ctx, (void)below, (void)m, (void)e;
    return ERR_NOTFOUND;
}

void quiet_publish(void *ctx, const struct manifest *m)
{
    (void)ctx, (void)m;
}

void quiet_discard(void *ctx, uint64_t cut)
{
    (void)ctx, (void)cut;
}

void quiet_finish(void *ctx)
{
    (void)ctx;
}

void quiet_say(void *ctx, int is_warning, const char *text)
{
    (void)ctx, (void)is_warning, (void)text;
}

void quiet_restored(void *ctx, const struct manifest *m)
{
    (void)ctx, (void)m;
}

uint64_t quiet_random(void *ctx)
{
    (void)ctx;
    return TAG;
}

void quiet_journal(void *ctx, const struct journal_entry *entry)
{
    (void)ctx, (void)entry;
}

void quiet_never_ends(void *ctx, int exit_code, const char *text)
{
    (void)ctx;
    fail_msg("ended with %d: %s", exit_code, text);
}

void quiet_ps_up(struct chief *chief, uint32_t ps, uint64_t generation, int64_t now_ms)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__Generation g = quiet_generation(generation);
    m.threads = 1;
    m.generation = &g;
    m.entered = generation > 0;
    chief_on_ps_up(chief, ps, &m, now_ms);
}

void quiet_entered(struct chief *chief, uint32_t n, struct generation generation, int64_t now_ms)
{
    Gradwire__Entered m = GRADWIRE__ENTERED__INIT;
    Gradwire__Generation g = msg_generation(generation);
    m.generation = &g;
    for (m.shard = 0; m.shard < n; m.shard++)
        chief_on_ps(chief, m.shard, FRAME_ENTERED, &m.base, now_ms);
}

/* ---- shard_io ---- */

void quiet_before_write(void *ctx, const float *lo, uint64_t elems)
{
    (void)ctx, (void)lo, (void)elems;
}

void quiet_save(void *ctx, struct shard_image *take_image)
{
    (void)ctx;
    shard_image_free(take_image);
}

bool quiet_save_room(void *ctx)
{
    (void)ctx;
    return true;
}

enum err quiet_save_rows(void *ctx, const struct row_group *g)
{
    (void)ctx, (void)g;
    return ERR_OK;
}

void quiet_save_end(void *ctx)
{
    (void)ctx;
}

enum err quiet_load_no_cut(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *b,
                           struct errmsg *e)
{
    (void)ctx, (void)m, (void)b;
    return err_set(e, ERR_NOTFOUND, "there is no cut %u", (unsigned)cut);
}

void quiet_drop_peers(void *ctx, enum err why)
{
    (void)why;
    (void)ctx;
}

double quiet_now_s(void *ctx)
{
    (void)ctx;
    return 0;
}

enum err quiet_no_progress(void *ctx, const struct shard_peer *of, struct link_progress *p)
{
    (void)ctx, (void)of, (void)p;
    return ERR_STATE;
}

const Gradwire__Reply *quiet_reply(enum frame_type type, const ProtobufCMessage *m)
{
    if (type != FRAME_REPLY)
        fail_msg("answered with %s", frame_type_str((uint16_t)type));
    return (const Gradwire__Reply *)m;
}

const float *quiet_weights(const struct shard *s, uint64_t *first_elem, uint64_t *elems)
{
    *first_elem = s->me.first_elem;
    *elems = s->me.elems;
    return s->block[s->now];
}

void quiet_plan(struct layout *layout, Gradwire__Plan *plan, uint32_t chunks)
{
    const uint32_t threads = 1;
    struct tensor t = {.name = "w", .rank = 1, .shape = {chunks * QUIET_CHUNK}, .init = INIT_ZEROS};
    struct errmsg e;
    assert_int_equal(layout_add(layout, &t, &e), ERR_OK);
    assert_int_equal(msg_plan_set(plan, layout, &threads, 1), ERR_OK);
}

void quiet_tables(struct layout *layout, Gradwire__Plan *plan, uint32_t shards,
                  const struct row_table_spec *table, uint32_t tables)
{
    struct tensor t = {.name = "w", .rank = 1, .shape = {QUIET_CHUNK}, .init = INIT_ZEROS};
    struct errmsg e;
    assert_int_equal(layout_add(layout, &t, &e), ERR_OK);
    layout->rows = mem_zalloc(1, sizeof *layout->rows);
    layout->rows->tables = tables;
    for (uint32_t i = 0; i < tables; i++) {
        layout->rows->table[i] = table[i];
        if (layout->rows->lists <= table[i].list)
            layout->rows->lists = table[i].list + 1;
    }
    assert_int_equal(msg_plan_set(plan, layout, &shards, 1), ERR_OK);
}

Gradwire__Generation quiet_generation(uint64_t number)
{
    return msg_generation((struct generation){number, TAG});
}

void quiet_enter(struct shard *shard, Gradwire__Plan *plan, Gradwire__Settings *settings,
                 uint64_t number, Gradwire__EnterMode mode, uint64_t cut)
{
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = quiet_generation(number);
    m.generation = &g;
    m.uuid = (char *)"job";
    m.mode = mode;
    m.plan = plan;
    m.settings = settings;
    m.cut = cut;
    shard_on_chief(shard, FRAME_ENTER, &m.base);
}
