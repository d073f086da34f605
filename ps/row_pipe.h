/* Rows of a cut on their way from a shard's thread to the thread that writes them: groups in a few pieces of about 1 MiB.
 * The shard's thread never waits: where there is no room it comes again when it is told that there is. */
#ifndef GRADWIRE_PS_ROW_PIPE_H
#define GRADWIRE_PS_ROW_PIPE_H

#include <pthread.h>
#include <stdbool.h>

#include "common/checkpoint/checkpoint_rows.h"

enum { ROW_PIPE_PIECES = 8, ROW_PIPE_PIECE_BYTES = 1 << 20 };

struct row_piece;

struct row_pipe {
    const struct checkpoint_table *table; /* (tables) the caller's, for as long */
    uint32_t tables;
    void (*on_room)(void *ctx); /* from the writer's thread */
    void *ctx;
    struct row_piece *filling; /* the shard's thread */
    struct row_piece *reading; /* the writer's thread */
    uint32_t pieces;           /* that were made */
    pthread_mutex_t lock;      /* of what follows */
    pthread_cond_t changed;
    struct row_piece *full, **full_end, *empty;
    bool over;       /* all rows are in */
    bool given_up;   /* they are not wanted any more */
    bool wants_room; /* the shard's thread comes again */
};

void row_pipe_open(struct row_pipe *p, const struct checkpoint_table *table, uint32_t tables,
                   void (*on_room)(void *ctx), void *ctx);
void row_pipe_close(struct row_pipe *p);

/* ---- the shard's thread: none of these waits ---- */

/* There is room for any group. False: on_room is called when there is. */
bool row_pipe_room(struct row_pipe *p);
/* There is room. Errors: ERR_NOMEM. */
enum err row_pipe_put(struct row_pipe *p, const struct row_group *g) MUST_CHECK;
void row_pipe_end(struct row_pipe *p);
/* The writer gets ERR_CLOSED for its next group, or piece. */
void row_pipe_give_up(struct row_pipe *p);

/* ---- the writer's thread ---- */

/* As checkpoint_rows.next; waits for rows. Errors: ERR_CLOSED. */
enum err row_pipe_next(void *pipe, struct row_group *g, struct errmsg *e) MUST_CHECK;

#endif
