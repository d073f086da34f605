/* Says whether a job's keys keep the promise of equal bits. */
#include <stdio.h>

#include "common/codec/codec.h"
#include "job/keys.h"
#include "job/read.h"

static bool loses_nothing(const struct job *job, enum codec c)
{
    return !(codec_mask(c, job->compression.allow) & ~codec_kind_mask(CODEC_IS_EXACT));
}

static const char *row_word(const char *key, enum row_codec c)
{
    return job_word_of(job_key_find(key)->words, (int)c);
}

static bool tables_lose_nothing(const struct job *job, char why[JOB_INEXACT_BYTES])
{
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct job_table *t = &job->model.table[i];
        bool push = t->push != ROW_CODEC_NONE;
        if (!push && t->reply == ROW_CODEC_NONE)
            continue;
        (void)snprintf(why, JOB_INEXACT_BYTES, "tables.%s.compression.%s: %s", t->name,
                       push ? "push" : "reply",
                       push ? row_word(JOB_TABLE_PREFIX ".compression.push", t->push)
                            : row_word(JOB_TABLE_PREFIX ".compression.reply", t->reply));
        return false;
    }
    return true;
}

bool job_is_exact(const struct job *job, uint32_t workers, char why[JOB_INEXACT_BYTES])
{
    uint32_t replicas = job_replicas(job, workers);
    bool push = loses_nothing(job, job->compression.push);
    bool reply = loses_nothing(job, job->compression.reply);
    if (job->training.update != UPDATE_SYNC)
        (void)snprintf(why, JOB_INEXACT_BYTES, "training.update: %s",
                       job_update_word(job->training.update));
    else if (!push || !reply)
        (void)snprintf(why, JOB_INEXACT_BYTES, "compression.%s: %s", push ? "reply" : "push",
                       codec_str(push ? job->compression.reply : job->compression.push));
    else if (replicas)
        (void)snprintf(why, JOB_INEXACT_BYTES, "sync.replicas_to_aggregate: %u", replicas);
    else
        return tables_lose_nothing(job, why);
    return false;
}
