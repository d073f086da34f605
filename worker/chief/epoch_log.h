/* The epochs of a job, over all of its runs: DIR/history.jsonl has a line of JSON for each. The chief's next process reads
 * them back, so that summary.json and the job's page have the whole job.
 *
 * Happy path: an epoch ends -> epoch_log_add -> its line is appended -> the next cut makes the file durable. Failure
 * modes: after a rollback to before an epoch's end, the lines from that epoch on are removed and the file is written anew; a
 * line that is torn or cannot be parsed is skipped; if the file cannot be written, a warning says so, and a restart lacks the
 * lines that were not written. */
#ifndef GRADWIRE_WORKER_CHIEF_EPOCH_LOG_H
#define GRADWIRE_WORKER_CHIEF_EPOCH_LOG_H

#include "common/base/err.h"
#include "common/job/job.h"
#include "worker/model/evaluation.h"

struct epoch_line {
    uint64_t epoch; /* from 1, over all runs */
    uint64_t step;  /* batches behind it; in sync steps */
    double seconds; /* of training, over all runs, without evaluation */
    struct evaluation
        trained; /* of its training, as far as the lead shard had it then; NAN: nothing is known */
    bool has_eval;
    struct evaluation eval;
};

struct epoch_log {
    char uuid[37]; /* of the job; "": no line has named one */
    size_t n;
    struct epoch_line *line; /* (n) by epoch, ascending */
};

void epoch_log_close(struct epoch_log *l);

/* Behind an epoch, or in its place; epochs that follow it go. Errors: ERR_NOMEM. */
enum err epoch_log_add(struct epoch_log *l, const struct epoch_line *line) MUST_CHECK;
/* What ended behind this step is undone, and goes. False: there was nothing of it. */
bool epoch_log_restore(struct epoch_log *l, uint64_t step);
/* The job is this one: lines of another one go. False: there were none. */
bool epoch_log_begin(struct epoch_log *l, const char *uuid);
const struct epoch_line *epoch_log_find(const struct epoch_log *l, uint64_t epoch); /* NULL: none */
/* As people are told them: to the bit. */
bool epoch_line_equal(const struct epoch_line *a, const struct epoch_line *b, uint32_t metrics);

/* Lines [from, n) as text, the caller's (mem_free). NULL: no memory. */
char *epoch_log_text(const struct epoch_log *l, const struct job *job, size_t from);
/* Add the lines of a text; those of the job that is named last stay. Errors: ERR_NOMEM. */
enum err epoch_log_parse(struct epoch_log *l, const struct job *job, const char *text,
                         size_t bytes) MUST_CHECK;

/* DIR/history.jsonl: none is an empty one. Errors: ERR_IO, ERR_NOMEM. */
enum err epoch_log_read(struct epoch_log *l, const struct job *job, const char *output,
                        struct errmsg *e) MUST_CHECK;
void epoch_log_path(char out[4200], const char *output);

#endif
