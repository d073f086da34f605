/* Checkpoints in a place: one file per shard, and a manifest that is written last (proto/checkpoint.proto). A checkpoint
 * is complete if its manifest exists.
 * Layout: cut-<number, 10 digits>/shard-<i>.gw and cut-.../manifest.gw.
 * A shard's file: 8 bytes magic, zstd frames with content checksums, head (protobuf), tail. Weights and each slot are
 * split into frames of at most 1 MiB of floats: a writer then needs little memory, and a reader skips frames that it
 * does not need. The head has the sizes and CRC-32s of the frames, so it can be written only after them. In a job
 * with tables, frames of rows follow those of the blocks (checkpoint_rows.h).
 * The tail: u32 head bytes, u32 CRC-32 of the head, the magic again.
 * The manifest: magic, head, tail. It has the CRC of each file's head, which has those of the frames: so a file of
 * another cut, shard or generation is detected, and so is any single changed byte. Everything is little-endian. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/math/optimizer.h"
#include "common/math/bins.h"
#include "common/rows/row_layout.h"
#include "job/job.h"

struct place;
struct checkpoint_rows;
struct checkpoint_rows_wanted;

/* A cut in a place (DIR/checkpoints). */
struct cut {
    const struct place *at;
    uint64_t id; /* its number */
};

/* A shard's part of a cut. The caller owns the arrays. */
struct checkpoint_shard {
    uint64_t generation; /* must equal the manifest's */
    uint32_t shard;
    uint64_t first_elem, elems; /* range of the flat block */
    uint32_t slots;
    float *w, *slot[OPTIMIZER_SLOTS_MAX]; /* (elems) each */
    struct bins
        *bins; /* (CHECKPOINT_EPOCHS), of the shard with element 0; NULL, or count NULL: none */
    /* see checkpoint_rows.h; NULL: the job has no tables */
    const struct checkpoint_rows *rows;          /* rows to write */
    const struct checkpoint_rows_wanted *wanted; /* rows to read */
};

/* A file of a cut, as the manifest lists it. */
struct checkpoint_file {
    char name[32];
    uint64_t first_elem, elems, bytes;
    uint32_t head_crc;
    uint64_t rows; /* rows of tables, in buckets [first_bucket, end_bucket) */
    uint32_t first_bucket, end_bucket;
    uint64_t clock; /* the table clock, the same in all files */
};

/* Of checkpoints and generations: the next ones must have a number, too. */
#define CHECKPOINT_NUMBER_MAX (UINT64_C(1) << 62)
enum { CHECKPOINT_EPOCHS = 4 }; /* the lead shard keeps the sums of this many epochs */
struct epoch_sums {
    uint64_t epoch; /* from 0; valid if batches > 0 */
    uint64_t batches;
    double examples, loss, metric[SUMS_MAX];
};

/* The last of the first `most` epochs with at least one batch; NULL: none. epochs_learned: its number + 1, of all; or 0. */
const struct epoch_sums *epochs_last(const struct epoch_sums sums[CHECKPOINT_EPOCHS],
                                     uint64_t most);
uint64_t epochs_learned(const struct epoch_sums sums[CHECKPOINT_EPOCHS]);

/* For sync.dropped: redo: the position of the cut within its epoch (common/parameters/epochs.h). */
struct manifest_redo {
    bool there; /* false: the manifest has no such position */
    uint64_t epoch, begin, redone;
    uint32_t dropped_bytes;
    uint8_t *dropped;
};

/* The cut's encoding.json: how rows are encoded for the learned weights. bytes 0: none. */
struct manifest_encoding {
    uint64_t bytes;
    uint32_t crc;
};

/* The start of each run of a job (checkpoint.run) that continued from an earlier run: the date and the table
 * clock. A row that was not touched since then has a stamp of at most that clock. The first run is not listed: it
 * began without rows. Pure. */
enum { BEGINNINGS_MAX = 4096 };

struct beginnings {
    uint32_t runs;
    /* (runs) seconds since 1970; not always ascending, because the clock of the chief's host can be set back */
    uint64_t *date;
    uint64_t *clock; /* (runs) table clock, ascending; several runs can begin at the same clock */
};

void beginnings_close(struct beginnings *b);
/* Makes *to a copy of `runs` entries. The caller owns *to: beginnings_close. *to is unchanged on error. Errors:
 * ERR_NOMEM. */
enum err beginnings_copy(struct beginnings *to, uint32_t runs, const uint64_t *date,
                         const uint64_t *clock) MUST_CHECK;
/* Makes *to the entries of `from` and one more. If `from` has BEGINNINGS_MAX entries, every second one is dropped: a
 * row can then stay longer, but is never evicted too early. Ownership and errors as beginnings_copy. */
enum err beginnings_after(struct beginnings *to, const struct beginnings *from, uint64_t date,
                          uint64_t clock) MUST_CHECK;
/* Returns the index of the newest run that began at least `days` days before `now` (seconds since 1970); b->runs
 * if there is none. */
uint32_t beginnings_find(const struct beginnings *b, uint64_t now, uint32_t days);

/* The formats that this release reads: proto/README.md, "Checkpoints of other releases". A checkpoint with tables
 * is written in CHECKPOINT_FORMAT, any other in the first format, with the same bytes as in the first release. */
enum { CHECKPOINT_FORMAT_FIRST = 1, CHECKPOINT_FORMAT_TABLES = 2, CHECKPOINT_FORMAT = 2 };

/* Everything in a cut except the blocks and the rows. Zeros are an empty one. The caller owns it: manifest_close. */
struct manifest {
    uint32_t format; /* set by a read */
    /* of the head, set by a read: another checkpoint of the same number has another one */
    uint32_t crc;
    uint64_t cut;        /* number, one higher for each attempted cut */
    uint64_t generation; /* the generation in which it was taken */
    char uuid[37];
    char run[JOB_NAME_MAX]; /* checkpoint.run of the chief that took it; "": none */
    bool final;
    uint64_t step; /* sync: steps made; async: batches applied */
    uint64_t t;    /* updates applied */
    /* Batches assigned; pushes that a shard had already applied (the largest number of a shard); geo: batches of dead
     * workers that no shard applied; batches that clip_norm changed. */
    uint64_t dealt, duplicates, lost, clipped;
    uint64_t dropped; /* microbatches dropped because their workers were late */
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
    double seconds; /* training time so far, over all runs */
    uint64_t restarts;
    /* journal_lines, journal_crc: of the journal at that time; 0: not known */
    uint64_t journal_lines;
    uint32_t journal_crc;
    char *identity_text; /* see job_identity_compare */
    uint8_t data_fingerprint[32];
    bool tables;      /* the files have rows */
    uint32_t counted; /* tables with an entry in `table`, in their order; 0: no counts were saved */
    uint64_t squeezed; /* rows evicted because ps.memory was full, over all shards */
    struct row_counts table[ROW_TABLES_MAX]; /* over all shards */
    struct beginnings begun;                 /* only with tables */
    struct manifest_encoding encoding;
    uint32_t files;
    /* ordered by first_elem; they cover [0, total_elems) exactly once, and with tables all buckets */
    struct checkpoint_file *file;
    uint32_t ps, *ps_threads; /* the plan: the number of shards of each ps */
};
void manifest_close(struct manifest *m);
/* Makes *to a copy, which the caller owns; *to is unchanged on error. Errors: as checkpoint_publish; ERR_NOMEM. */
enum err manifest_copy(struct manifest *to, const struct manifest *from,
                       struct errmsg *e) MUST_CHECK;
/* Returns, for sync, the number of complete epochs of `per_epoch` batches. */
uint64_t manifest_epochs(const struct manifest *m, uint64_t per_epoch);

/* Writes a shard's file. Fills *f. On error no part of the file is left. Errors: ERR_IO ("...: No space left on device"),
 * ERR_NOMEM, ERR_TOOBIG. Thread: any; blocks on the disk; needs about 4 MiB of memory besides s. */
enum err checkpoint_write_shard(struct cut c, const struct checkpoint_shard *s,
                                struct checkpoint_file *f, struct errmsg *e) MUST_CHECK;

/* Reads the cut's bins into the ones that have room: bins without a counterpart stay as they are. Errors: as checkpoint_read. */
enum err checkpoint_read_bins(const struct place *place, const struct manifest *m,
                              struct bins bins[CHECKPOINT_EPOCHS], struct errmsg *e) MUST_CHECK;

/* Writes the cut's encoding.json in the same way. Call it before checkpoint_publish; the manifest must contain *f.
 * Errors: ERR_IO. */
enum err checkpoint_write_encoding(struct cut c, const char *text, size_t bytes,
                                   struct manifest_encoding *f, struct errmsg *e) MUST_CHECK;
/* Checks that the bytes are the encoding.json that the manifest lists. `path` names it in messages. Errors:
 * ERR_CORRUPT. */
enum err checkpoint_check_encoding(const struct manifest_encoding *f, const void *data,
                                   size_t bytes, const char *path, struct errmsg *e) MUST_CHECK;
/* Reads and checks the encoding.json of a manifest that lists one. The caller owns *text (mem_free), which a NUL
 * follows. Errors: ERR_CORRUPT, also if it is missing; ERR_IO; ERR_NOMEM. */
enum err checkpoint_read_encoding(const struct place *place, const struct manifest *m, char **text,
                                  size_t *bytes, struct errmsg *e) MUST_CHECK;

/* Writes the manifest in the same way: from then on the checkpoint is complete. On error it is not, unless it was
 * before. Errors: ERR_STATE m's files do not cover [0, total_elems) exactly once, in order; ERR_TOOBIG; ERR_IO;
 * ERR_NOMEM. */
enum err checkpoint_publish(const struct place *place, const struct manifest *m,
                            struct errmsg *e) MUST_CHECK;

/* Lists the published cuts, newest first. The caller owns *cuts (mem_free). A missing place gives an empty list.
 * Errors: ERR_IO, ERR_NOMEM. */
enum err checkpoint_list(const struct place *place, uint64_t **cuts, size_t *n,
                         struct errmsg *e) MUST_CHECK;
/* Does the cut have a manifest? One that cannot be seen for another reason than that there is none counts: who reads it says
 * why. */
bool checkpoint_published(struct cut c);
/* Finds the newest cut above `above` that has files, but no manifest: the cut was never finished, or its
 * manifest was lost. *cut is its number, or `above` if there is none. Errors: ERR_IO, ERR_NOMEM. */
enum err checkpoint_unfinished(const struct place *place, uint64_t above, uint64_t *cut,
                               struct errmsg *e) MUST_CHECK;

/* Reads and checks a manifest, and checks that each file it lists exists with the right size and head. It reads
 * little, whatever the model's size. The caller owns *m (manifest_close); *m is unchanged on error. Errors name
 * the file and the reason: ERR_CORRUPT, also for a missing file; ERR_NEWER written by a newer release;
 * ERR_NOTFOUND no manifest; ERR_IO; ERR_NOMEM. */
enum err checkpoint_load(struct cut c, struct manifest *m, struct errmsg *e) MUST_CHECK;

/* The same, and checks all bytes of the cut's files: only such a cut is used to continue a job. Reads the whole cut. Errors:
 * as checkpoint_load. */
enum err checkpoint_load_whole(struct cut c, struct manifest *m, struct errmsg *e) MUST_CHECK;

/* Checks that each file of the manifest exists with the right size and head, also before the manifest is published.
 * *bad: the index of the first file that does not. Errors: as checkpoint_load. */
enum err checkpoint_check_files(const struct place *place, const struct manifest *m, uint32_t *bad,
                                struct errmsg *e) MUST_CHECK;

/* Reads and checks only the manifest, not the files that it lists. Errors: as checkpoint_load. */
enum err checkpoint_load_manifest(struct cut c, struct manifest *m, struct errmsg *e) MUST_CHECK;

/* Is this error, of a call that reads a cut, a reason to use an older cut? True if the cut's files are missing or damaged,
 * or their storage fails. False if nothing is wrong with the cut: memory or descriptors ran out, a newer release wrote it,
 * or the connection that brings it was lost. */
bool checkpoint_unusable(enum err err);

/* Reads each file of a loaded checkpoint completely and checks every byte. Call it before a restore:
 * checkpoint_read checks only the frames that it reads. Errors: as checkpoint_load. */
enum err checkpoint_verify(const struct place *place, const struct manifest *m,
                           struct errmsg *e) MUST_CHECK;

/* Reads elements [first, first + n) of the weights, and of each slot whose slot[i] is not NULL, from all files
 * that contain them; checksums are verified. `w` can be NULL (only slots), and so can `slot`. On error w and the
 * slots are undefined. Errors: as checkpoint_load; ERR_STATE the checkpoint has no such range or slot. */
enum err checkpoint_read(const struct place *place, const struct manifest *m, uint64_t first,
                         uint64_t n, float *w, float *const slot[OPTIMIZER_SLOTS_MAX],
                         struct errmsg *e) MUST_CHECK;

/* Reads the learned parameters of the complete flat block: the moving averages of the weights if `o` keeps them,
 * otherwise the weights. Errors: as checkpoint_read. */
enum err checkpoint_read_learned(const struct place *place, const struct manifest *m,
                                 const struct optimizer *o, float *w, struct errmsg *e) MUST_CHECK;

/* Removes all published cuts but `keep` (at least 1), the manifest of each first; also unpublished leftovers older
 * than the newest published cut, and temporary files in the cuts that stay.
 * The newest cut stays. If keep >= 3, two more stay: the newest cut whose manifest is at least CHECKPOINT_OLD_S
 * older than the newest cut's, and the one that will be that old next. The other cuts that stay are the newest.
 * A cut that is held stays until a later call. Failures are logged. */
enum { CHECKPOINT_OLD_S = 60 };
void checkpoint_prune(const struct place *place, uint32_t keep);
/* Holds a published cut for reading, so that no process's checkpoint_prune removes it: its manifest is held (place_hold). In a
 * place without locks a reader can find files missing. Free *hold with place_release. Errors: as place_hold. */
enum err checkpoint_hold(struct cut c, int *hold, struct errmsg *e) MUST_CHECK;
/* Removes an unfinished cut; does nothing if the cut has a manifest. */
void checkpoint_discard(struct cut c);

/* File names of cuts, as exchanged between a ps and a chief that share no storage (proto: StorePut, StoreGet,
 * StoreAnswer). */
enum { STORE_PIECE_BYTES = 1 << 20, STORE_NAME_MAX = 32 };

/* Return whether `file` is the name of a shard's file ("shard-12.gw"), of the manifest, or of encoding.json. The chief
 * must open no other file for a peer. */
bool cut_file_is_shard(const char *file);
/* The same for a shard's file, with the shard's number. */
bool cut_file_shard(const char *file, uint32_t *shard);
bool cut_file_is_manifest(const char *file);
/* Of data.order: stream: the index of the data, and the encoding of their rows. They are of no cut, but objects of the place itself. */
#define CHECKPOINT_INDEX "data.index"
#define CHECKPOINT_DATA_ENCODING "data.encoding.json"
bool cut_file_is_of_place(const char *file);
bool cut_file_is_encoding(const char *file);
