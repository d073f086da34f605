/* A shard's tables: rows that come in and go out. How a step or a batch changes them is the mode's part. */
#pragma once

#include "ps/core/shard.h"
#include "ps/rows/row_push.h"
#include "ps/rows/row_tables.h"

/* Memory that a running cut may take in addition to the tables. */
struct shard_beside {
    uint64_t least_bytes;
    uint32_t percent; /* of the tables' memory, if that is more */
};

struct shard_rows {
    bool on;
    bool before_there; /* steps: rows of step - 1 are set aside, and no row of step + 1 is made */
    struct row_tables tables;
    struct row_load *load; /* while a cut is being read */
    struct shard_beside beside;
    uint64_t memory_unit; /* bytes per unit of Settings.row_memory: 1 MiB, in tests less */
    bool held;            /* steps: a complete part waits for the copy of a cut */
    uint64_t kept_rows, kept_most_bytes, holds; /* totals of all cuts so far */
    uint64_t clock_before;                      /* table clock minus step number */
    struct buffer_pool pool;                    /* for answers, sums, and rows set aside */
};

enum err
shard_rows_open(struct shard *s) MUST_CHECK; /* for a generation's plan; errors: ERR_NOMEM */
void shard_rows_close(struct shard *s);
/* Set the memory budget of the rows to that of s->settings. */
void shard_rows_take_budget(struct shard *s);
/* Errors: ERR_TOOBIG: the budget is less than tables without rows take. */
enum err shard_rows_check_budget(const struct shard *s, struct errmsg *e) MUST_CHECK;
/* Write to *e that this table's rows exceed the budget. Returns ERR_TOOBIG. */
enum err shard_rows_say_full(const struct shard *s, uint32_t table, struct errmsg *e) MUST_CHECK;
/* Handle the result of an update of rows: on ERR_TOOBIG ask the chief to end the job. Returns `err`. */
enum err shard_rows_updated(struct shard *s, enum err err) MUST_CHECK;
/* Take rates and schedules from a new chief's plan and optimizer, and the encoding of rows from its plan.
 * Errors: ERR_PROTO: the plan has other tables. */
enum err shard_rows_take_over(struct shard *s, const Gradwire__Plan *m, const struct optimizer *o,
                              struct errmsg *e) MUST_CHECK;
uint32_t shard_rows_parts(const struct shard *s); /* 0: the job has no tables */
void shard_rows_advance(struct shard *s); /* a step is made, or a batch resolved: evict old rows */

/* A push's sections, one per part. */
struct shard_sections {
    const float *at[ROW_PARTS]; /* at[i]: the section of part first_part + i */
    struct buffer *held;        /* owns their memory; the caller holds a reference */
};
/* Errors: ERR_PROTO the body does not fit its head; ERR_NOMEM. On error *out owns nothing. */
enum err shard_rows_sections(struct shard *s, const struct shard_peer *from,
                             const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes,
                             struct shard_sections *out, struct errmsg *e) MUST_CHECK;
/* Check that a request's keys ascend and belong to this shard. */
enum err shard_rows_check_ask(const struct shard *s, const Gradwire__RowsAsk *m,
                              const struct buffer *body, struct errmsg *e) MUST_CHECK;

/* Answer a checked request now, as of `step`. aside: read touched rows from the copies that were set aside. The request
 * is kept for pushes, unless it is for an evaluation. Errors: ERR_NOMEM. */
enum err shard_rows_answer(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m,
                           struct buffer *body, uint64_t step, bool aside,
                           struct errmsg *e) MUST_CHECK;
/* Answer that the shard no longer has rows of the requested step. */
void shard_rows_say_gone(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m);
/* Keep the request until one of the two functions below answers it. The two latest requests of a connection are kept;
 * an older one is dropped. Errors: ERR_NOMEM. */
enum err shard_rows_wait(struct shard *s, struct shard_peer *of, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e) MUST_CHECK;
/* Answer one waiting request; answer all that wait for s->step, which is made. */
void shard_rows_answer_ask(struct shard *s, struct shard_peer *of, struct shard_ask *ask);
void shard_rows_answer_waiting(struct shard *s);
void shard_rows_drop_asks(struct shard_peer *of); /* frees their keys, too */
