/* Checks a table's admission keys in the section `tables`: keys that exclude each other, and keys without effect. */
#include <stdlib.h>

#include "common/job/keys.h"
#include "common/job/read.h"

enum err job_check_admission(struct job_reader *r)
{
    const struct job_table *t = &r->job->model.table[r->table];
    const bool counted = t->min_count > 1, drawn = t->probability < 1;
    static const char both[] = JOB_TABLE_PREFIX ".probability",
                      unadmitted[] = JOB_TABLE_PREFIX ".unadmitted",
                      sketch[] = JOB_TABLE_PREFIX ".sketch_mb";
    if (counted && drawn)
        return job_refuse(r, NULL, both,
                          "it does not go with min_count, which is %u: leave one of the two out",
                          t->min_count);
    if (t->unadmitted != UNADMITTED_ZEROS && !counted && !drawn)
        return job_refuse(r, NULL, unadmitted,
                          "every touch makes a row: it does nothing without min_count above 1, or "
                          "probability below 1");
    if (t->sketch_mb != strtoul(job_key_find(sketch)->fallback, NULL, 10) && !counted)
        return job_refuse(r, NULL, sketch,
                          "nothing is counted: it does nothing without min_count above 1");
    return ERR_OK;
}
