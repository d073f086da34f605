/* A shard's part of a cut on its way to disk.
 *
 * Happy path: the shard's thread begins it with the blocks -> the writer's thread writes them -> rows of tables come
 * through a pipe, group by group, and are written -> the file is there, and at the chief -> `done`.
 * Failure modes: the cut is given up (new generation, another cut, end of the process): what waits is dropped at once, and
 * what is being written ends at its next piece of rows; a disk that fails, a chief that is lost: `done` has the error. The
 * shard's thread never waits for the writer's. */
#ifndef GRADWIRE_PS_CUT_SAVE_H
#define GRADWIRE_PS_CUT_SAVE_H

#include "common/net/disk_thread.h"
#include "common/process/files.h"
#include "ps/core/shard.h"

struct cut_save;
struct fault;
struct store;

struct cut_saved {
    uint64_t cut;
    struct checkpoint_file file;
    struct broken broken; /* of what the file has */
    enum err err;         /* ERR_OK: the file is there */
    struct errmsg e;
    bool given_up;
    double seconds;
};

struct cut_save_config {
    const char *dir;     /* of checkpoints; outlives the writer's thread */
    struct store *store; /* the file is the chief's, by way of dir; NULL: dir is the chief's */
    const struct fault *fault; /* NULL: none */
    /* Both from the writer's thread. */
    void (*on_room)(void *ctx);                         /* for rows, where there was none */
    void (*on_done)(void *ctx, struct cut_saved *take); /* mem_free; once for each that has begun */
    void *ctx;
};

/* Takes the image. Errors: ERR_NOMEM, also where no thread could be started; ERR_TOOBIG. */
enum err cut_save_begin(struct cut_save **out, struct disk_thread *writer,
                        const struct cut_save_config *config,
                        struct shard_image *take_image) MUST_CHECK;

/* ---- the shard's thread; none of these waits ---- */

uint64_t cut_save_number(const struct cut_save *s);
/* As shard_io has them. */
bool cut_save_room(struct cut_save *s);
enum err cut_save_rows(struct cut_save *s, const struct row_group *g) MUST_CHECK;
/* It is of no use any more, unless all of its rows are in: then it may come to its end. */
void cut_save_end(struct cut_save *take);
void cut_save_give_up(struct cut_save *take);

#endif
