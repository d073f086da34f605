/* The epochs of a job, and its evaluations within epochs, over all of its runs: DIR/history.jsonl has a line of JSON for each. The
 * chief's next process reads the lines back, so that summary.json and the job's page cover the whole job.
 *
 * Happy path: an epoch ends -> epoch_log_add -> its line is appended -> the next cut makes the file durable.
 * Failure modes: after a rollback to before an epoch's end, the lines from that epoch on are removed and the file is
 * written again from scratch; a line that is torn or damaged (by its checksum) is skipped; if the file cannot be
 * written, a warning reports it, and the next process lacks the lines that were not written. */
#pragma once

#include "common/base/err.h"
#include "job/job.h"
#include "common/process/contents.h"
#include "model/evaluation.h"

enum { EPOCH_DATA_BYTES = 17 };

struct epoch_line {
    uint64_t epoch; /* from 1, over all runs; 0: an evaluation within one, without `trained` */
    uint64_t step;  /* batches done by the end of this epoch; in sync steps */
    double seconds; /* of training over all runs, without evaluation */
    /* over the epoch's training, as far as the lead shard had it at that time; NAN: not known */
    struct evaluation trained;
    bool has_eval;
    struct evaluation eval;
    /* the begin of the evaluation data's fingerprint; "": it is not known */
    char data[EPOCH_DATA_BYTES];
    bool best; /* by training.monitor, of the epochs up to this one */
};

struct epoch_log {
    char uuid[37]; /* the job's UUID; "": no line has named one */
    size_t n;
    struct epoch_line *line; /* (n) in ascending order of `epoch` */
    size_t evaluations;
    struct epoch_line *evaluation; /* (evaluations) within epochs, in ascending order of `step` */
};

void epoch_log_close(struct epoch_log *l);

/* Add a line, or replace the line of the same epoch, or step within one; later lines of this kind are removed. Errors: ERR_NOMEM. */
enum err epoch_log_add(struct epoch_log *l, const struct epoch_line *line) MUST_CHECK;
/* Remove the lines of later steps, because a rollback has undone them. False: there were none. */
bool epoch_log_restore(struct epoch_log *l, uint64_t step);
/* Begin the job with this UUID: lines of another job are removed. False: there were none. */
bool epoch_log_begin(struct epoch_log *l, const char *uuid);
const struct epoch_line *epoch_log_find(const struct epoch_log *l, uint64_t epoch); /* NULL: none */
/* The last line up to `epoch` whose evaluation was the best so far; NULL: none. */
const struct epoch_line *epoch_log_best(const struct epoch_log *l, uint64_t epoch);
/* The last of the epochs behind `from` that have a line before one is missing; `from`: none. */
uint64_t epoch_log_whole(const struct epoch_log *l, uint64_t from);
/* True if both lines have the same content, to the bit. */
bool epoch_line_equal(const struct epoch_line *a, const struct epoch_line *b, uint32_t metrics);

/* Note on which data the epoch is evaluated. */
void epoch_log_name_data(struct epoch_line *line, const struct contents *data);
/* The last line that was evaluated on other data than these; NULL: none. */
const struct epoch_line *epoch_log_other_data(const struct epoch_log *l,
                                              const struct contents *data);

/* All lines, or `only` this one (NULL: all), as text; the caller frees it (mem_free). NULL: no memory. */
char *epoch_log_text(const struct epoch_log *l, const struct job *job,
                     const struct epoch_line *only);
/* The lines that were skipped, apart from an incomplete last one: their number, and that of the first, from 1. */
struct epoch_damage {
    size_t damaged, first;
};
/* Add the lines of a text. If it names several jobs, the lines of the job named last stay. Errors: ERR_NOMEM. */
enum err epoch_log_parse(struct epoch_log *l, const struct job *job, const char *text, size_t bytes,
                         struct epoch_damage *d) MUST_CHECK;

/* Read DIR/history.jsonl; a missing file counts as an empty one. Errors: ERR_IO, ERR_NOMEM. */
enum err epoch_log_read(struct epoch_log *l, const struct job *job, const char *output,
                        struct epoch_damage *d, struct errmsg *e) MUST_CHECK;
void epoch_log_path(char out[4200], const char *output);
