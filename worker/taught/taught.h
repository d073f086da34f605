/* The meaning of this process's rows. Words, scales and buckets belong to the checkpoint, with the weights that were learned
 * by them.
 *
 * Happy path: each process finds the newest cut by itself (the chief has read it already), takes its encoding.json, and reads
 * its rows by it. A job that continues takes it unchanged; a run that begins anew (checkpoint.run) follows data.encoding. The
 * rule is the same for all, and extending twice changes nothing, so no process waits for another. Failure modes: a worker does
 * not see the cuts, and its hello has another digest than the chief's rows: it asks the chief for the encoding.json of its cut,
 * and reads its rows anew; a cut of an earlier release may have no encoding.json. */
#ifndef GRADWIRE_WORKER_TAUGHT_TAUGHT_H
#define GRADWIRE_WORKER_TAUGHT_TAUGHT_H

#include "common/checkpoint/checkpoint.h"
#include "common/cluster/cluster.h"
#include "worker/data/dataset.h"
#include "worker/data/encoding_given.h"

struct taught {
    bool there;
    struct encoding_given given;
    char *text, from[4400];
};

/* base: of the chief; NULL: look for the newest. Errors: ERR_INPUT a new run would begin by a cut that does not say it;
 * ERR_IO, ERR_CORRUPT, ERR_NOMEM. */
enum err taught_find(struct taught *t, const struct job *job, const char *output,
                     const char *checkpoints, const struct manifest *base,
                     struct errmsg *e) MUST_CHECK;
/* The same from the chief, at `chief` ("host:port"; NULL: ps 0 says it), of this cut (CUT_READER_ANY: of its last one); what was found before is closed. *t is unchanged on error.
 * data_fingerprint: of the training part that this process has read. over_ms: as in struct cut_reader.
 * Errors: of cut_reader_fetch; ERR_INPUT the cut is of another job, or of other data. */
enum err taught_ask(struct taught *t, const struct job *job, const struct cluster *cluster,
                    const char *chief, uint64_t cut, const uint8_t data_fingerprint[32],
                    int64_t over_ms, struct errmsg *e) MUST_CHECK;
/* NULL: the training part is what teaches. */
const struct encoding_given *taught_given(const struct taught *t);
/* When the rows are read: *encoding is their encoding.json, the caller's (free), or NULL; the job gets its digest, for the
 * hello. Which words are new is told, to the launcher, too (progress_fd: as in progress_init). Errors: ERR_INPUT an embedding has no row for a new word; ERR_NOMEM. */
enum err taught_agree(const struct taught *t, struct job *job, const struct dataset *d,
                      int progress_fd, char **encoding, struct errmsg *e) MUST_CHECK;
/* Which features of these columns are those of new words, (features), the caller's (mem_free); NULL: none. s: NULL: no columns.
 * Errors: ERR_NOMEM. */
enum err taught_fresh(const struct taught *t, const struct table_schema *s, uint8_t **fresh,
                      struct errmsg *e) MUST_CHECK;
/* Has each embedding a row for each word? Of columns that were looked at alone: taught_agree does it, too. Errors: ERR_INPUT. */
enum err taught_check(const struct taught *t, const struct job *job, const struct table_schema *s,
                      struct errmsg *e) MUST_CHECK;
/* "cut 5: 6 words of column town, 2 of them new, .."; `least`: not all rows were looked at. */
const char *taught_words(const struct taught *t, const struct table_schema *s, bool least,
                         char *out, size_t bytes);
void taught_close(struct taught *t);

#endif
