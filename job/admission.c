/* Checks a table's admission keys in the section `tables`: keys that exclude each other, and keys without effect. */
#include <stdlib.h>

#include "job/keys.h"
#include "job/read.h"

enum err job_check_admission(struct job_reader *r)
{
    const struct job_table *t = &r->job->model.table[r->table];
    const bool counted = t->min_count > 1, drawn = t->probability < 1;
    static const char both[] = JOB_TABLE_PREFIX ".probability",
                      unadmitted[] = JOB_TABLE_PREFIX ".unadmitted",
                      sketch[] = JOB_TABLE_PREFIX ".sketch_mb";
    if (counted && drawn)
        return job_refuse(r, NULL, both,
                          "it excludes min_count, which is %u; remove one of the two",
                          t->min_count);
    if (t->unadmitted != UNADMITTED_ZEROS && !counted && !drawn)
        return job_refuse(r, NULL, unadmitted,
                          "it has no effect, because every touch makes a row; set min_count above "
                          "1 or probability below 1, or remove it");
    if (t->sketch_mb != strtoul(job_key_find(sketch)->fallback, NULL, 10) && !counted)
        return job_refuse(r, NULL, sketch,
                          "it has no effect without min_count above 1; set that, or remove it");
    return ERR_OK;
}
