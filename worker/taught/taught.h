/* The encoding of this process's rows. Words, scales and buckets belong to the checkpoint, together with the weights
 * that were learned with them.
 *
 * Happy path: each process finds the newest cut by itself (the chief has already read it), takes its encoding.json,
 * and reads its rows by it. A job that resumes takes it unchanged; a new run (checkpoint.run) follows data.encoding.
 * The rule is the same for all, and extending twice changes nothing, so no process waits for another.
 * Failure modes: a worker does not see the cuts, and the digest in its hello differs from that of the chief's rows:
 * it asks the chief for the encoding.json of the chief's cut, and reads its rows again; a cut of an earlier release
 * may have no encoding.json. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "common/cluster/cluster.h"
#include "common/process/contents.h"
#include "data/dataset.h"
#include "data/meaning/encoding_given.h"

struct taught {
    bool there;
    /* a cut of 0.1.0 has none: the training part teaches it again, by the older arithmetic */
    bool rounds;
    struct encoding_given given;
    char *text, from[4400];
};

/* base: the cut whose encoding to take (the chief's); NULL: find the newest cut. Without columns, or without a cut,
 * *t is empty (taught_given returns NULL). Errors: ERR_INPUT: a new run would begin with a cut that has no
 * encoding; ERR_IO, ERR_CORRUPT, ERR_NOMEM. */
enum err taught_find(struct taught *t, const struct job *job, const char *output,
                     const struct place *checkpoints, const struct manifest *base,
                     struct errmsg *e) MUST_CHECK;
/* Fetch the encoding of cut `cut` from the chief, and replace the one in *t; *t is unchanged on error. chief:
 * "host:port"; NULL: ask ps 0 for it. CUT_READER_ANY: the chief's last cut. contents: the training part that
 * this process has read; NULL: none yet. over_ms: as in struct cut_reader. Errors: of cut_reader_fetch; ERR_INPUT: the cut
 * belongs to another job, or to other data. */
enum err taught_ask(struct taught *t, const struct job *job, const struct cluster *cluster,
                    const char *chief, uint64_t cut, const struct contents *contents,
                    int64_t over_ms, struct errmsg *e) MUST_CHECK;
/* The chief keeps the encoding of its rows for workers that have no cut (data.order: stream). Errors: ERR_IO; ERR_NOMEM. */
enum err taught_keep(const struct job *job, const struct table_schema *s,
                     const struct place *checkpoints, struct errmsg *e) MUST_CHECK;
/* In a worker: its text, as fetched from the chief. take_text moves. */
void taught_learn_from_chief(struct taught *t, char *take_text, size_t bytes);
/* True if the training part teaches something about these columns. */
bool taught_learns(const struct job_csv *csv);
/* NULL: the training part teaches the encoding, by the present arithmetic. */
const struct encoding_given *taught_given(const struct taught *t);
/* After the rows are read: *encoding is their encoding.json, the caller's (free), or NULL; the job gets its digest,
 * for the hello. New words are reported to the log and the launcher (progress_fd: as in progress_init). Errors:
 * ERR_INPUT: an embedding has no row for a new word; ERR_NOMEM. */
enum err taught_agree(const struct taught *t, struct job *job, const struct dataset *d,
                      int progress_fd, char **encoding, struct errmsg *e) MUST_CHECK;
/* Flags of the features that belong to new words: *fresh (features), the caller's (mem_free); NULL: none. s NULL: no
 * columns. Errors: ERR_NOMEM. */
enum err taught_fresh(const struct taught *t, const struct table_schema *s, uint8_t **fresh,
                      struct errmsg *e) MUST_CHECK;
/* Check that each embedding has a row for each word, for columns of which only a part was read; taught_agree
 * includes it. Errors: ERR_INPUT. */
enum err taught_check(const struct taught *t, const struct job *job, const struct table_schema *s,
                      struct errmsg *e) MUST_CHECK;
/* "cut 5: 6 words of column town, 2 of them new, ..."; `least`: not all rows were read. */
const char *taught_words(const struct taught *t, const struct table_schema *s, bool least,
                         char *out, size_t bytes);
void taught_close(struct taught *t);
