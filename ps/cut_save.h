/* Writes a shard's part of a cut to disk.
 *
 * Happy path: the shard's thread begins the file with the blocks -> the writer's thread writes them -> the rows of
 * tables come through a pipe, group by group, and the writer's thread writes them -> the file is complete in the place of
 * the cuts -> on_done.
 * Failure modes: the cut is given up (new generation, another cut, end of the process): a file that waits is dropped
 * immediately and without on_done; the writing of a file ends at its next piece of rows. If the disk fails or the chief
 * is lost, on_done gets the error. The shard's thread never waits for the writer's thread. */
#ifndef GRADWIRE_PS_CUT_SAVE_H
#define GRADWIRE_PS_CUT_SAVE_H

#include "common/net/disk_thread.h"
#include "common/process/files.h"
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

#endif
