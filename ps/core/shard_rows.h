/* A shard's tables. What a step, or a batch, does to them is the mode's; here is what comes in, and what goes out. */
#ifndef GRADWIRE_PS_CORE_SHARD_ROWS_H
#define GRADWIRE_PS_CORE_SHARD_ROWS_H

#include "ps/core/shard.h"
#include "ps/rows/row_tables.h"

struct shard_rows {
    bool on;
    bool
        before_there; /* steps: what is set aside is of step - 1, and nothing of step + 1 is made */
    struct row_tables tables;
    uint64_t clock_before;   /* the table clock is so much ahead of the steps */
    struct buffer_pool pool; /* of answers, sums, and what is set aside */
};

enum err shard_rows_open(struct shard *s) MUST_CHECK; /* for a generation's plan; ERR_NOMEM */
void shard_rows_close(struct shard *s);
void shard_rows_take_over(struct shard *s); /* the optimizer has a new chief's run-time keys */
uint32_t shard_rows_parts(const struct shard *s); /* 0: there are no tables */

/* A push's sections, one of each of its parts, are as they have to be: at[i] is that of part first_part + i. */
enum err shard_rows_sections(const struct shard *s, const Gradwire__RowsPush *m,
                             const struct buffer *body, uint64_t bytes, const float *at[ROW_PARTS],
                             struct errmsg *e) MUST_CHECK;
/* The keys of an ask ascend, and are of this shard. */
enum err shard_rows_check_ask(const struct shard *s, const Gradwire__RowsAsk *m,
                              const struct buffer *body, struct errmsg *e) MUST_CHECK;

/* An ask that was checked: answer it now. `aside`: with what was set aside. */
enum err shard_rows_answer(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m,
                           struct buffer *body, uint64_t step, bool aside,
                           struct errmsg *e) MUST_CHECK;
void shard_rows_say_gone(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m);
/* Keep it until its step is made. The oldest ends if there are too many. */
enum err shard_rows_wait(struct shard *s, struct shard_peer *of, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e) MUST_CHECK;
void shard_rows_answer_waiting(struct shard *s); /* s->step is made */
void shard_rows_drop_asks(struct shard_peer *of);

#endif
