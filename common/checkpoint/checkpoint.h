/* Checkpoints on disk: one file per shard, a manifest last (proto/checkpoint.proto). There is a
 * complete checkpoint, or there is none. Layout: DIR/cut-<number, 10 digits>/shard-<i>.gw and
 * DIR/cut-.../manifest.gw. A shard's file: 8 bytes magic, zstd frames with content checksums, head
 * (protobuf), tail. Weights and each slot are cut into frames of at most 1 MiB of floats, so that a
 * writer needs little memory beside training and a reader skips what it does not want; the head,
 * which has their sizes and CRC-32s, is known only behind them. In a job with tables frames of rows
 * follow those of the blocks (checkpoint_rows.h). The tail: u32 head bytes, u32
 * CRC-32 of the head, the magic again. The manifest: magic, head, tail. It holds the CRC of each
 * file's head, which holds those of the frames: a file of another cut, shard or generation never
 * passes, nor does any single changed byte. All little-endian. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_CHECKPOINT_H
#define GRADWIRE_COMMON_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/checkpoint/beginnings.h"
#include "common/job/job.h"
#include "common/math/optimizer.h"
#include "common/rows/row_counts.h"
#include "common/rows/row_layout.h"

struct checkpoint_rows;
struct checkpoint_rows_wanted;

/* What one shard gives to a cut. Arrays are the caller's. */
struct checkpoint_shard {
    uint64_t generation; /* the manifest's */
    uint32_t shard;
    uint64_t first_elem, elems; /* of the flat block */
    uint32_t slots;
    float *w, *slot[OPTIMIZER_SLOTS_MAX]; /* (elems) each */
    /* checkpoint_rows.h; NULL: the job has no tables */
    const struct checkpoint_rows *rows;          /* to be written */
    const struct checkpoint_rows_wanted *wanted; /* to be read */
};

/* One file, as the manifest names it. */
struct checkpoint_file {
    char name[32];
    uint64_t first_elem, elems, bytes;
    uint32_t head_crc;
    uint64_t rows; /* of tables, in buckets [first_bucket, end_bucket) */
    uint32_t first_bucket, end_bucket;
    uint64_t clock; /* of the tables; the same of all files */
};

enum { CHECKPOINT_EPOCHS = 4 }; /* epochs whose sums are still kept on the lead shard */
struct epoch_sums {
    uint64_t epoch; /* from 0; valid if batches > 0 */
    uint64_t batches;
    double examples, loss, metric[SUMS_MAX];
};

/* Epochs of which anything was learned: their sums travel with the gradients. */
uint64_t epochs_learned(const struct epoch_sums sums[CHECKPOINT_EPOCHS]);

/* sync.dropped: redo: where in its epoch the cut stands (common/parameters/epochs.h). */
struct manifest_redo {
    bool there;
    uint64_t epoch, begin, redone;
    uint32_t dropped_bytes;
    uint8_t *dropped;
};

/* The cut's encoding.json: what rows mean, as the learned weights want them. bytes 0: it has none. */
struct manifest_encoding {
    uint64_t bytes;
    uint32_t crc;
};

/* Formats that are read: proto/README.md, "Checkpoints of other releases". A checkpoint with tables is written in
 * CHECKPOINT_FORMAT, another one in the first format, byte by byte as ever. */
enum { CHECKPOINT_FORMAT_FIRST = 1, CHECKPOINT_FORMAT_TABLES = 2, CHECKPOINT_FORMAT = 2 };

/* All that a cut is beside the blocks. */
struct manifest {
    uint32_t format;     /* as it was read */
    uint64_t cut;        /* rises by one per published or tried cut */
    uint64_t generation; /* in which it was taken */
    char uuid[37];
    char run[JOB_NAME_MAX]; /* checkpoint.run of the chief that took it; empty: none */
    bool final;
    uint64_t step; /* sync: steps made; async: batches applied */
    uint64_t t;    /* updates applied */
    uint64_t dealt, duplicates, lost, clipped;
    uint64_t dropped; /* microbatches of workers that were late */
    struct manifest_redo redo;
    uint64_t total_elems;
    uint32_t slots, microbatches;
    uint64_t mark; /* async: every id below it is resolved */
    uint32_t window_bits_bytes;
    uint8_t *window_bits; /* async: resolved ids above the mark, bit i = mark + i */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS];
    struct {
        double loss, metric[METRICS_MAX];
        uint64_t step;
        bool valid;
    } eval;
    double seconds; /* of training so far, over all runs */
    uint64_t restarts;
    char *identity_text; /* job_identity_compare */
    uint8_t data_fingerprint[32];
    bool tables; /* the files have rows */
    uint32_t
        counted; /* tables that `table` has the counts of, in their order; 0: none were written */
    uint64_t squeezed; /* rows that ps.memory had no room for any more, over all shards */
    struct row_counts table[ROW_TABLES_MAX]; /* over all shards */
    struct beginnings begun;                 /* with tables */
    struct manifest_encoding encoding;
    uint32_t files;
    struct checkpoint_file *
        file; /* by first_elem; together they cover [0, total_elems) once, with tables all buckets */
    uint32_t ps, *ps_threads; /* the plan: shards of each ps */
};
void manifest_close(struct manifest *m);
/* Sync: so many epochs of `per_epoch` batches are behind it. */
uint64_t manifest_epochs(const struct manifest *m, uint64_t per_epoch);

/* Write one shard's file: temporary name, write, fsync, rename, fsync of the folder; every result
 * checked. Makes the folders it needs. Fills *f. On error nothing of it is left. Errors: ERR_IO
 * ("...: No space left on device"), ERR_NOMEM. Thread: any; about 4 MiB of memory beside s. */
enum err checkpoint_write_shard(const char *dir, uint64_t cut, const struct checkpoint_shard *s,
                                struct checkpoint_file *f, struct errmsg *e) MUST_CHECK;

/* Write the cut's encoding.json in the same way, before its manifest, which names it by *f. */
enum err checkpoint_write_encoding(const char *dir, uint64_t cut, const char *text, size_t bytes,
                                   struct manifest_encoding *f, struct errmsg *e) MUST_CHECK;
/* Is this the encoding.json that a manifest names? `path` is its name in messages. Errors: ERR_CORRUPT. */
enum err checkpoint_check_encoding(const struct manifest_encoding *f, const void *data,
                                   size_t bytes, const char *path, struct errmsg *e) MUST_CHECK;
/* Read and check the encoding.json of a manifest that has one. *text is the caller's (mem_free), with a NUL behind it.
 * Errors: ERR_CORRUPT (it is missing, too); ERR_IO; ERR_NOMEM. */
enum err checkpoint_read_encoding(const char *dir, const struct manifest *m, char **text,
                                  size_t *bytes, struct errmsg *e) MUST_CHECK;

/* Write the manifest in the same way: the checkpoint exists from here on. On error it does not,
 * unless it did before. Errors: ERR_STATE where m's files do not cover [0, total_elems) once in
 * order; ERR_TOOBIG; as above. */
enum err checkpoint_publish(const char *dir, const struct manifest *m, struct errmsg *e) MUST_CHECK;

/* The cuts that have a manifest, newest first; *cuts is the caller's (mem_free). A missing dir is
 * none. */
enum err checkpoint_list(const char *dir, uint64_t **cuts, size_t *n, struct errmsg *e) MUST_CHECK;
/* *cut = the newest folder above the cut `above` that has no manifest: nobody finished it, or its manifest is lost; `above`
 * if there is none. */
enum err checkpoint_unfinished(const char *dir, uint64_t above, uint64_t *cut,
                               struct errmsg *e) MUST_CHECK;

/* Read and check a manifest, and that each file it names is there with its size and a head that
 * fits: what is read is little, whatever the size of the model. *m is the caller's
 * (manifest_close), unchanged on error. Errors: ERR_CORRUPT (a file that is missing, too),
 * ERR_NEWER (a release that is newer wrote it), ERR_NOTFOUND (no manifest), ERR_IO, ERR_NOMEM: say which file and why. */
enum err checkpoint_load(const char *dir, uint64_t cut, struct manifest *m,
                         struct errmsg *e) MUST_CHECK;

/* Read and check a manifest alone, whatever is there of its files. Errors: as checkpoint_load. */
enum err checkpoint_load_manifest(const char *dir, uint64_t cut, struct manifest *m,
                                  struct errmsg *e) MUST_CHECK;

/* Read each file of a loaded checkpoint through and check every byte of it. Before a restore:
 * checkpoint_read checks only what it reads. Errors: as checkpoint_load. */
enum err checkpoint_verify(const char *dir, const struct manifest *m, struct errmsg *e) MUST_CHECK;

/* Read elements [first, first + n) of the weights and, where slot[i] is not NULL, of the slots,
 * from however many files hold them; checksums are checked. `w` may be NULL: slots alone; `slot`
 * too. On error w and the slots are undefined. Errors: as checkpoint_load; ERR_STATE for a range or
 * a slot that the checkpoint does not have. */
enum err checkpoint_read(const char *dir, const struct manifest *m, uint64_t first, uint64_t n,
                         float *w, float *const slot[OPTIMIZER_SLOTS_MAX],
                         struct errmsg *e) MUST_CHECK;

/* What the checkpoint has learned, all of it: the moving averages of the weights where `o` keeps them, otherwise the
 * weights. Errors: as checkpoint_read. */
enum err checkpoint_read_learned(const char *dir, const struct manifest *m,
                                 const struct optimizer *o, float *w, struct errmsg *e) MUST_CHECK;

/* Remove all but `keep` (at least 1) published cuts (manifest first), unpublished leftovers older than the newest
 * published cut, and temporary names in those that stay. The newest stays. With a `keep` of 3 or more so do the newest of
 * those whose manifest is CHECKPOINT_OLD_S older than its own, and the one that will be that old next; the others that
 * stay are the newest. One that is held stays until the next time. Failures are logged, never fatal. */
enum { CHECKPOINT_OLD_S = 60 };
void checkpoint_prune(const char *dir, uint32_t keep);
/* Hold a published cut while it is read: no checkpoint_prune of any process removes it. It is a lock on its manifest
 * (flock), so a holder that dies holds nothing. Where the storage knows no locks nothing is held, and a reader finds
 * files missing. Errors: ERR_NOTFOUND it is gone; ERR_IO. */
enum err checkpoint_hold(const char *dir, uint64_t cut, int *hold, struct errmsg *e) MUST_CHECK;
void checkpoint_release(int hold);
/* Remove one unfinished cut; one that has its manifest is left alone. */
void checkpoint_discard(const char *dir, uint64_t cut);

#endif
