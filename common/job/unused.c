/* Keys that are well-formed, and do nothing beside the job's others: refused, unless they have their default. Their rows
 * say when (`heeded`). The keys of `data.synthetic` stay beside another format: so an example is turned to files by --set
 * data.format. What one mode of training.update makes more of than another stays, so that one job can be run in all of
 * them. sync.dropped stays without backup workers: a job that had some goes on without them by `redo`. */
#include <string.h>

#include "common/job/keys.h"
#include "common/job/read.h"

static enum err refuse(struct job_reader *r, const struct job_key *key)
{
    const char *why = key->unheeded, *gap = strstr(why, "%s");
    int head = (int)(gap ? gap - why : (long)strlen(why));
    return job_refuse(r, NULL, key->path, "%.*s%s%s", head, why,
                      gap ? job_update_word(r->job->training.update) : "", gap ? gap + 2 : "");
}

static enum err check_bad_rows(struct job_reader *r)
{
    const struct job_key *most = job_key_find("data.bad_rows_max");
    if (r->job->data.csv.bad_rows != BAD_ROWS_STOP || job_key_is_default(most, r->job))
        return ERR_OK;
    return job_refuse(r, NULL, most->path,
                      "it is of data.bad_rows: skip; give that, or leave it out");
}

enum err job_check_unused(struct job_reader *r)
{
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->heeded && !key->heeded(r->job) && job_key_active(key, r->job, NULL) &&
            !job_key_is_default(key, r->job))
            return refuse(r, key);
    return check_bad_rows(r);
}
