#include "worker/tables_ahead.h"

#include <stdio.h>

#include "common/base/log.h"
#include "worker/control/progress.h"
#include "worker/doctor/estimate.h"
#include "worker/doctor/table_room.h"

static void warn_of_room(const struct table_room *room, const struct job *job,
                         const struct cluster *cluster)
{
    char needed[24], there[24], text[200];
    uint32_t here = table_room_ps_here(cluster);
    uint64_t bytes =
        here * table_room_ps_bytes(room->all.memory_bytes, cluster->n_ps, job->ps.memory);
    uint64_t free_bytes = table_room_free_bytes();
    if (bytes <= free_bytes)
        return;
    (void)snprintf(text, sizeof text,
                   "tables: they will not fit: %s for %u ps on this host, but %s are free",
                   estimate_text(needed, bytes), here, estimate_text(there, free_bytes));
    log_warn("%s", text);
}

void tables_ahead_say(const struct job *job, const struct cluster *cluster,
                      const struct dataset *data, int progress_fd)
{
    struct key_growth growth;
    struct errmsg e = {""};
    char text[400];
    if (!dataset_has_keys(data))
        return;
    if (dataset_count_keys(data, data->rows, DATASET_COUNTED_LOOKUPS, &growth, &e)) {
        log_warn("tables: not estimated: %s", e.text);
        return;
    }
    const struct table_room room = table_room_of(job, &growth);
    table_room_text(&room, cluster->n_ps, text, sizeof text);
    log_info("tables: %s", text);
    progress_say(progress_fd, "tables: %s", text);
    if (!table_room_fits(&room, job, cluster->n_ps, text, sizeof text))
        log_warn("tables: %s", text);
    warn_of_room(&room, job, cluster);
}
