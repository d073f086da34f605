/* Tables of rows by key: the memory that their rows will need on a ps. */
#include "worker/doctor/check.h"

void check_tables(struct check *p, struct finding *f)
{
    char text[400], full[200];
    if (!p->has_job || !p->has_cluster || !job_has_tables(&p->job))
        return;
    if (!p->looked || p->train.keys.lists == 0) {
        finding_say(f, VERDICT_WARN,
                    "not estimated: the data whose keys are looked up are not on this host");
        return;
    }
    p->tables = table_room_of(&p->job, &p->train.keys);
    table_room_text(&p->tables, p->cluster.n_ps, text, sizeof text);
    bool fits = table_room_fits(&p->tables, &p->job, p->cluster.n_ps, full, sizeof full);
    finding_say(f, fits ? VERDICT_OK : VERDICT_WARN, "%s%s%s", text, fits ? "" : "; ",
                fits ? "" : full);
    finding_mend(f, VERDICT_WARN, "raise ps.memory, or take more ps");
}
