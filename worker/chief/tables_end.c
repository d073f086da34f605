#include "worker/chief/tables_end.h"

#include <inttypes.h>

enum err tables_end_export(const struct cut_tables *t, const struct manifest *final,
                           const struct best *best, char digest[65], struct errmsg *e)
{
    struct cut_tables to = *t;
    struct manifest m;
    char of_best[65];
    bool restores = t->job->early_stopping.restore_best_weights;
    to.folder = "model";
    if (!best->has || best->gone)
        return cut_tables_export(&to, final, digest, e);
    enum err err = checkpoint_load(t->checkpoints, best->cut, &m, e);
    if (err)
        return err_wrap(e, err, "the best epoch's rows: ");
    if (m.crc != best->cut_manifest) {
        manifest_close(&m);
        return err_set(e, ERR_CORRUPT,
                       "the best epoch's rows: checkpoint %" PRIu64 " in %s is another one by now",
                       best->cut, t->checkpoints);
    }
    err = cut_tables_export(&to, restores ? &m : final, digest, e);
    to.folder = "best";
    if (!err)
        err = cut_tables_export(&to, &m, of_best, e);
    manifest_close(&m);
    return err;
}
