#include "worker/chief/best_cut.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/mem.h"

bool best_cut_ask(struct best_cut *c, struct control *control, uint64_t epoch, uint64_t step,
                  const struct evaluation *eval)
{
    assert(!c->asked);
    *c = (struct best_cut){.asks = c->asks + 1, .epoch = epoch, .eval = *eval};
    uint64_t *of = mem_zalloc(1, sizeof *of);
    if (!of)
        return false;
    *of = step;
    c->asked = true;
    control_post(control, CONTROL_KEEP, c->asks, of, mem_free);
    return true;
}

void best_cut_drop(struct best_cut *c)
{
    c->asked = c->copied = false;
}

enum err best_cut_on(struct best_cut *c, struct best *best, struct train_kept *kept,
                     struct errmsg *e)
{
    if (!c->asked || kept->ask != c->asks)
        return ERR_OK;
    c->copied |= kept->copied;
    if (kept->copied && !kept->published)
        return ERR_OK;
    c->asked = false;
    int hold = kept->hold;
    kept->hold = -1;
    if (hold < 0)
        return err_set(e, ERR_STATE, "the checkpoint with its rows failed");
    enum err err = best_keep_cut(best, c->epoch, &c->eval, kept->cut, hold, e);
    if (!err)
        log_info("epoch %" PRIu64 " is the best: its rows are in checkpoint %" PRIu64
                 ", step %" PRIu64,
                 c->epoch, best->cut, best->cut_step);
    return err;
}
