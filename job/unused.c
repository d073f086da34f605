/* Refuses keys that are well-formed but have no effect with the job's other keys, unless they have their default.
 * Their rows have the condition (`heeded`).
 * Exceptions: keys of `data.synthetic` are allowed with another format, so that an example can be switched to
 * files with --set data.format. Keys that only some modes of training.update use are allowed, so that one job file
 * works for all modes. sync.dropped is allowed without backup workers, because a job with `redo` can resume
 * without them. */
#include <string.h>

#include "job/keys.h"
#include "job/read.h"

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
                      "it has no effect without data.bad_rows: skip; set that, or remove it");
}

enum err job_check_unused(struct job_reader *r)
{
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->heeded && !key->heeded(r->job) && job_key_active(key, r->job, NULL) &&
            !job_key_is_default(key, r->job))
            return refuse(r, key);
    return check_bad_rows(r);
}
