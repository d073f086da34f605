/* Writes a shard's part of a cut to disk.
 *
 * Happy path: the shard's thread begins the file with the blocks -> the writer's thread writes them -> the rows of
 * tables come through a pipe, group by group, and the writer's thread writes them -> the file is complete in the place of
 * the cuts -> on_done.
 * Failure modes: the cut is given up (new generation, another cut, end of the process): a file that waits is dropped
 * immediately and without on_done; the writing of a file ends at its next piece of rows. If the disk fails or the chief
 * is lost, on_done gets the error. The shard's thread never waits for the writer's thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "common/checkpoint/checkpoint_rows.h"
#include "common/net/disk_thread.h"
#include "common/net/loop.h"
#include "ps/core/shard.h"

struct cut_save;
struct fault;

struct cut_saved {
    uint64_t cut;
    struct checkpoint_file file;
    struct broken broken; /* the first value of the file that is not finite */
    enum err err;         /* ERR_OK: the file is complete on disk, here or at the chief */
    struct errmsg e;
    bool given_up;  /* the shard no longer wants it */
    double seconds; /* how long the writing took; more than 0 */
};

struct cut_save_config {
    const struct place *place; /* for cuts; outlives the writer's thread */
    const struct fault *fault; /* NULL: none */
    /* The writer's thread calls both. */
    void (*on_room)(void *ctx); /* cut_save_room would now be true after it was false */
    /* Once for each file, unless it was given up before the writer's thread began. mem_free it. */
    void (*on_done)(void *ctx, struct cut_saved *take);
    void *ctx;
};

/* Takes the image, also on error. *config is copied. *out belongs to the caller until cut_save_end or cut_save_give_up.
 * Errors: ERR_NOMEM no memory or no thread; ERR_TOOBIG too many jobs of the writer's thread wait. */
enum err cut_save_begin(struct cut_save **out, struct disk_thread *writer,
                        const struct cut_save_config *config,
                        struct shard_image *take_image) MUST_CHECK;

/* ---- called by the shard's thread; none of these functions waits ---- */

uint64_t cut_save_number(const struct cut_save *s);
/* The functions that shard_io (shard.h) declares under these names. */
bool cut_save_room(struct cut_save *s);
enum err cut_save_rows(struct cut_save *s, const struct row_group *g) MUST_CHECK;
/* The shard's cut is over. A file that has all of its rows is still finished; any other file is given up. */
void cut_save_end(struct cut_save *take);
void cut_save_give_up(struct cut_save *take);

/* Carries the rows of a cut from a shard's thread to the thread that writes them: groups of rows, packed into a few
 * pieces of about 1 MiB. The shard's thread never waits: if the pipe is full, on_room is called when it has room again. */

enum { ROW_PIPE_PIECES = 8, ROW_PIPE_PIECE_BYTES = 1 << 20 };

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
