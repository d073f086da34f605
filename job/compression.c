/* Checks compression against the rest of the job. */
#include "common/codec/codec.h"
#include "job/keys.h"
#include "job/read.h"

/* The words of codecs that a reply can use in every update mode. */
#define WHOLE_EXACT(word) #word ", "
#define WHOLE_ROUNDED WHOLE_EXACT
#define WHOLE_DIFFERENCE(word)
#define WHOLE_PARTIAL(word)
#define X(name, word, number, kind) WHOLE_##kind(word)
#define WHOLE CODEC_MAP(X)

/* In async and ssp, each worker gets its replies at different times, so a difference would need a copy of each
 * worker's parameters. In geo, the servers must move by exactly the same amount as the worker. */
static enum err check_reply(struct job_reader *r)
{
    enum codec c = r->job->compression.reply;
    enum update_mode update = r->job->training.update;
    if (update == UPDATE_GEO && c != CODEC_RAW)
        return job_refuse(r, NULL, "compression.reply",
                          "with training.update: geo, workers and servers must apply the same "
                          "numbers, and %s can change them; allowed here: none",
                          codec_str(c));
    if (update != UPDATE_SYNC && c != CODEC_AUTO && codec_kind_mask(CODEC_IS_DIFFERENCE) >> c & 1)
        return job_refuse(r, NULL, "compression.reply",
                          "%s sends differences from what all workers have, which only "
                          "training.update: sync knows; "
                          "allowed here: " WHOLE "auto",
                          codec_str(c));
    return ERR_OK;
}

/* In geo, a push round moves the worker's copy by its own values and the shards by the received ones: they must be
 * equal. */
static enum err check_push(struct job_reader *r)
{
    enum codec c = r->job->compression.push;
    if (r->job->training.update != UPDATE_GEO || c == CODEC_RAW)
        return ERR_OK;
    return job_refuse(r, NULL, "compression.push",
                      "%s is for gradients, and training.update: geo sends changes of parameters; "
                      "allowed here: none",
                      codec_str(c));
}

/* top_k adds unsent values to a later gradient. The sum stays the same only if the update is linear in the
 * gradient. It is also not allowed where a process must see complete gradients by a given time. */
static enum err check_top_k(struct job_reader *r)
{
    const struct job *job = r->job;
    const char *key = "compression.push";
    if (job->compression.push != CODEC_TOP_K)
        return ERR_OK;
    if (!optimizer_is_linear(&job->optimizer))
        return job_refuse(
            r, NULL, key,
            "top_k sends each gradient in parts, and %s divides by the size of complete gradients; "
            "allowed with optimizer: sgd, with or without momentum",
            job_word_of(job_key_find("optimizer")->words, (int)job->optimizer.kind));
    if (job->training.update == UPDATE_SSP)
        return job_refuse(r, NULL, key,
                          "top_k holds back a part of each gradient, and training.update: ssp "
                          "promises complete ones; allowed with training.update: sync, async");
    if (job->sync.replicas_to_aggregate)
        return job_refuse(r, NULL, key,
                          "a checkpoint waits until a step has the parts that top_k held back, and "
                          "no step has those of a worker that is always too late; allowed without "
                          "sync.replicas_to_aggregate");
    if (job->sync.dropped == DROPPED_REDO)
        return job_refuse(
            r, NULL, key,
            "top_k sends its remaining parts at the end of each epoch, and sync.dropped: redo adds "
            "steps after that; allowed with sync.dropped: lost");
    if (job->training.update == UPDATE_ASYNC && job->optimizer.accumulation_steps > 1)
        return job_refuse(r, NULL, key,
                          "top_k in async pushes remaining parts separately, and "
                          "training.gradient_accumulation_steps would count them as a gradient; "
                          "remove one of the two");
    if (job->training.update == UPDATE_ASYNC && job->optimizer.use_ema)
        return job_refuse(r, NULL, key,
                          "top_k in async pushes remaining parts separately, and use_ema would "
                          "average them wrongly; remove one of the two");
    return ERR_OK;
}

enum err job_check_compression(struct job_reader *r)
{
    enum err err = check_push(r);
    if (!err)
        err = check_top_k(r);
    return err ? err : check_reply(r);
}
