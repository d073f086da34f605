/* Keys that are well-formed, and of which nothing would come beside the job's others: refused. Where nobody heeds the
 * default, it may stand. The keys of `data.synthetic` stay beside another format: so an example is turned to files by
 * --set data.format. Those of one mode of training.update are in update.c; what one mode makes more of than another
 * stays, so that one job can be run in all of them. sync.dropped stays without backup workers: a job that had some goes
 * on without them by `redo`. */
#include "common/job/keys.h"
#include "common/job/read.h"

enum { MAX_REJECTED = 10, MAX_RECOVERIES = 3, BAD_ROWS_MAX = 1000 }; /* the defaults */

struct unused {
    bool is; /* given, not its default, and nobody heeds it */
    const char *path, *why;
};

static enum err refuse_first(struct job_reader *r, const struct unused *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key[i].is)
            return job_refuse(r, job_given(r, key[i].path), key[i].path, "%s", key[i].why);
    return ERR_OK;
}

static enum err check_training(struct job_reader *r)
{
    const struct job *job = r->job;
    enum nan_guard guard = job->training.nan_guard;
    bool rejects = guard == NAN_GUARD_SKIP || guard == NAN_GUARD_ROLLBACK;
    const struct unused key[] = {
        {job->optimizer.kind == OPT_SGD && job->optimizer.nesterov && job->optimizer.momentum == 0,
         "optimizer.sgd.nesterov",
         "it is a kind of momentum, which is 0; give that, or leave it out"},
        {job->training.max_rejected != MAX_REJECTED && !rejects, "training.max_rejected",
         "it is of batches that training.nan_guard: skip rejects (in sync rollback, too); give "
         "that, or leave it out"},
        {job->training.max_recoveries != MAX_RECOVERIES && guard != NAN_GUARD_ROLLBACK,
         "training.max_recoveries",
         "it is of training.nan_guard: rollback; give that, or leave it out"},
    };
    return refuse_first(r, key, sizeof key / sizeof key[0]);
}

static enum err check_allow(struct job_reader *r)
{
    const struct job *job = r->job;
    bool chooses = job->compression.push == CODEC_AUTO || job->compression.reply == CODEC_AUTO;
    const struct unused key = {job->compression.allow && !chooses, "compression.allow",
                               "it is what `auto` may choose; give compression.push: auto or "
                               "compression.reply: auto, or leave it out"};
    return refuse_first(r, &key, 1);
}

static enum err check_csv_keys(struct job_reader *r)
{
    static const char *const why =
        "it is of csv: data.format: csv, or synthetic with data.synthetic: census; leave it out";
    const struct job *job = r->job;
    const struct job_csv *c = &job->data.csv;
    const struct unused key[] = {
        {c->columns > 0, "data.columns", why},
        {c->header != HEADER_NONE, "data.header", why},
        {c->delimiter != DELIMITER_COMMA, "data.delimiter", why},
        {!c->quotes, "data.quotes", why},
        {c->trim, "data.trim", why},
        {c->comment[0] != 0, "data.comment", why},
        {c->missing && *c->missing, "data.missing", why},
        {c->bad_rows != BAD_ROWS_STOP, "data.bad_rows", why},
        {c->bad_rows_max != BAD_ROWS_MAX, "data.bad_rows_max", why},
        {job->data.memory_mb > 0, "data.memory_mb", why},
        {job->data.spill != NULL, "data.spill", why},
    };
    const struct unused most = {c->bad_rows == BAD_ROWS_STOP && c->bad_rows_max != BAD_ROWS_MAX,
                                "data.bad_rows_max",
                                "it is of data.bad_rows: skip; give that, or leave it out"};
    return job_reads_csv(job) ? refuse_first(r, &most, 1)
                              : refuse_first(r, key, sizeof key / sizeof key[0]);
}

enum err job_check_unused(struct job_reader *r)
{
    enum err err = check_training(r);
    if (!err)
        err = check_allow(r);
    return err ? err : check_csv_keys(r);
}
