/* A shard's tables. What a step, or a batch, does to them is the mode's; here is what comes in, and what goes out. */
#ifndef GRADWIRE_PS_CORE_SHARD_ROWS_H
#define GRADWIRE_PS_CORE_SHARD_ROWS_H

#include "ps/core/shard.h"
#include "ps/rows/row_push.h"
#include "ps/rows/row_tables.h"

/* Memory that a running cut may take beside the tables. */
struct shard_beside {
    uint64_t least_bytes;
    uint32_t percent; /* of the tables, if that is more */
};

struct shard_rows {
    bool on;
    bool
        before_there; /* steps: what is set aside is of step - 1, and nothing of step + 1 is made */
    struct row_tables tables;
    struct row_load *load; /* while a cut is read */
    struct shard_beside beside;
    uint64_t memory_unit; /* bytes of a MiB of Settings.row_memory; tests have smaller ones */
    bool held;            /* steps: a complete part waits for the copy of a cut */
    uint64_t kept_rows, kept_most_bytes, holds; /* for cuts so far */
    uint64_t clock_before;                      /* the table clock is so much ahead of the steps */
    struct buffer_pool pool;                    /* of answers, sums, and what is set aside */
};

enum err shard_rows_open(struct shard *s) MUST_CHECK; /* for a generation's plan; ERR_NOMEM */
void shard_rows_close(struct shard *s);
/* The memory that its rows may take becomes that of s->settings. */
void shard_rows_take_budget(struct shard *s);
/* Errors: ERR_TOOBIG: that is less than tables without rows take. */
enum err shard_rows_check_budget(const struct shard *s, struct errmsg *e) MUST_CHECK;
/* This table's rows have no room. Returns ERR_TOOBIG. */
enum err shard_rows_say_full(const struct shard *s, uint32_t table, struct errmsg *e) MUST_CHECK;
/* What an update of rows has come to. ERR_TOOBIG: the chief is told to end the job. Returns it. */
enum err shard_rows_updated(struct shard *s, enum err err) MUST_CHECK;
/* Rates and schedules become a new chief's, from its plan and its optimizer, and the plan says how rows travel from now on.
 * Errors: ERR_PROTO: its tables are others. */
enum err shard_rows_take_over(struct shard *s, const Gradwire__Plan *m, const struct optimizer *o,
                              struct errmsg *e) MUST_CHECK;
uint32_t shard_rows_parts(const struct shard *s); /* 0: there are no tables */
void shard_rows_advance(struct shard *s); /* a step is made, or a batch resolved: rows go by age */

/* A push's sections, one of each of its parts. */
struct shard_sections {
    const float *at[ROW_PARTS]; /* at[i] is that of part first_part + i */
    struct buffer *held;        /* holds their memory; a reference is the caller's */
};
/* Errors: ERR_PROTO the body is not what it has to be; ERR_NOMEM. *out owns nothing then. */
enum err shard_rows_sections(struct shard *s, const struct shard_peer *from,
                             const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes,
                             struct shard_sections *out, struct errmsg *e) MUST_CHECK;
/* The keys of an ask ascend, and are of this shard. */
enum err shard_rows_check_ask(const struct shard *s, const Gradwire__RowsAsk *m,
                              const struct buffer *body, struct errmsg *e) MUST_CHECK;

/* An ask that was checked: answer it now. `aside`: with what was set aside. */
enum err shard_rows_answer(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m,
                           struct buffer *body, uint64_t step, bool aside,
                           struct errmsg *e) MUST_CHECK;
void shard_rows_say_gone(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m);
/* It waits, until it is answered by one of the two below. Of each connection the two latest asks are kept: an older one ends. */
enum err shard_rows_wait(struct shard *s, struct shard_peer *of, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e) MUST_CHECK;
/* One that waits is answered now; all are: s->step is made. */
void shard_rows_answer_ask(struct shard *s, struct shard_peer *of, struct shard_ask *ask);
void shard_rows_answer_waiting(struct shard *s);
void shard_rows_drop_asks(struct shard_peer *of); /* their keys are gone, too */

#endif
