/* Carries the rows of a cut from a shard's thread to the thread that writes them: groups of rows, packed into a few
 * pieces of about 1 MiB. The shard's thread never waits: if the pipe is full, on_room is called when it has room again. */
#ifndef GRADWIRE_PS_ROW_PIPE_H
#define GRADWIRE_PS_ROW_PIPE_H

#include <pthread.h>
#include <stdbool.h>

#include "common/checkpoint/checkpoint_rows.h"

enum { ROW_PIPE_PIECES = 8, ROW_PIPE_PIECE_BYTES = 1 << 20 };

struct row_piece;

struct row_pipe {
    const struct checkpoint_table *table; /* (tables) the caller's; outlives the pipe */
    uint32_t tables;
    void (*on_room)(void *ctx); /* called by the writer's thread */
    void *ctx;
    struct row_piece *filling; /* used by the shard's thread only */
    struct row_piece *reading; /* used by the writer's thread only */
    uint32_t pieces;           /* allocated so far */
    pthread_mutex_t lock;      /* guards the fields below */
    pthread_cond_t changed;
    struct row_piece *full, **full_end, *empty;
    bool over;       /* all rows are in */
    bool given_up;   /* the rows are no longer needed */
    bool wants_room; /* the shard's thread waits for on_room */
};

void row_pipe_open(struct row_pipe *p, const struct checkpoint_table *table, uint32_t tables,
                   void (*on_room)(void *ctx), void *ctx);
/* Only after both threads have made their last call. */
void row_pipe_close(struct row_pipe *p);

/* ---- called by the shard's thread; none of these functions waits ---- */

/* True: the pipe has room for one group of any size. False: on_room is called when it has. */
bool row_pipe_room(struct row_pipe *p);
/* Copy a group into the pipe. Only after row_pipe_room returned true. Errors: ERR_NOMEM. */
enum err row_pipe_put(struct row_pipe *p, const struct row_group *g) MUST_CHECK;
/* All rows are in the pipe. */
void row_pipe_end(struct row_pipe *p);
/* The writer's next call returns ERR_CLOSED. */
void row_pipe_give_up(struct row_pipe *p);

/* ---- called by the writer's thread ---- */

/* Implements checkpoint_rows.next; blocks until rows arrive. *g points into the pipe until the next call; after the
 * last group row_group_ends(g) is true. Errors: ERR_CLOSED given up. */
enum err row_pipe_next(void *pipe, struct row_group *g, struct errmsg *e) MUST_CHECK;

#endif
