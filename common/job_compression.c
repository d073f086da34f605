/* What holds between compression and the rest of a job. */
#include "common/codec.h"
#include "common/job_read.h"

/* Replies of async are made for each worker at another time: a difference would need a copy of what each holds. In ssp
 * parameters come as answers to reads, whole. */
static enum err check_reply(struct job_reader *r)
{
    enum codec c = r->job->compression.reply;
    enum update_mode update = r->job->training.update;
    if (update != UPDATE_SYNC && update != UPDATE_ASYNC && c != CODEC_RAW)
        return job_refuse(
            r, job_given(r, "compression.reply"), "compression.reply",
            "%s encodes answers to pushes, and this training.update answers reads with whole "
            "parameters; allowed here: none",
            codec_str(c));
    if (update != UPDATE_SYNC && (c == CODEC_INT8 || c == CODEC_INT8_ZSTD))
        return job_refuse(
            r, job_given(r, "compression.reply"), "compression.reply",
            "%s sends differences to what all workers hold, which only update: sync knows; "
            "allowed here: none, fp16, bf16, zstd, auto",
            codec_str(c));
    return ERR_OK;
}

/* A round of geo moves the worker's copy by what it computed and the shards by what came: they must be the same. */
static enum err check_push(struct job_reader *r)
{
    enum codec c = r->job->compression.push;
    if (r->job->training.update != UPDATE_GEO || c == CODEC_RAW)
        return ERR_OK;
    return job_refuse(
        r, job_given(r, "compression.push"), "compression.push",
        "%s is for gradients, and update: geo sends moves of parameters; allowed here: none",
        codec_str(c));
}

enum err job_check_compression(struct job_reader *r)
{
    enum err err = check_push(r);
    return err ? err : check_reply(r);
}
