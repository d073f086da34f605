/* The journal of the NaN guard's actions, and of all else that makes a job's result another one, kept next to the manifests.
 * It is no part of a cut, because it must survive a rollback. This file has the list; journal_file.h keeps it on the disk. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { JOURNAL_WHAT_MAX = 160 };

enum journal_kind {
    JOURNAL_REJECTED, /* no update was made of this batch */
    /* the job went back to a cut because of this batch, and skips it from then on */
    JOURNAL_RECOVERED,
    /* the following are no batches */
    JOURNAL_BLAS, /* what: a process and its kernels, "worker 1: Haswell (OpenBLAS 0.3.21)" */
    /* what: the journal's own name, by which a chief finds that its predecessor had another one. batch: the epochs that the job
     * had by then; an earlier release wrote no history of them */
    JOURNAL_NAME,
    /* what: the first reason why the job is not exact any more, apart from kernels */
    JOURNAL_INEXACT,
};

struct journal_entry {
    enum journal_kind kind;
    uint64_t batch, generation;
    uint64_t cut; /* RECOVERED: the newest at that time; UINT64_MAX: none ("none" in text) */
    char what[JOURNAL_WHAT_MAX]; /* "the gradient of dense/kernel is not finite" */
};

struct journal {
    size_t n;
    struct journal_entry *entry;
};

void journal_close(struct journal *j);
enum err journal_add(struct journal *j, const struct journal_entry *entry) MUST_CHECK;
/* Add all entries of `from`. Without memory some of them are added. */
enum err journal_join(struct journal *to, const struct journal *from) MUST_CHECK;

/* A text from a file or a peer stays on its line. */
void journal_one_line(struct journal_entry *entry);

/* Returns an entry that this process multiplies with these kernels (Hello.blas, from a peer). */
struct journal_entry journal_blas_entry(const char *process, const char *blas);
bool journal_has_blas(const struct journal *j, const struct journal_entry *entry);
/* The text of the i-th such entry; NULL: there are no more. */
const char *journal_blas(const struct journal *j, size_t i);
/* The text of an entry whose kernels are others than these; NULL: none. */
const char *journal_blas_other(const struct journal *j, const char *blas);
/* True if the entries name the same kernels. */
bool journal_blas_same(const struct journal *j);

/* Returns an entry that names the journal (UUID_BYTES) of a job with so many epochs. */
struct journal_entry journal_name_entry(const char *name, uint64_t epochs);
const char *journal_name(const struct journal *j);      /* "": it has none */
uint64_t journal_named_epochs(const struct journal *j); /* without a name: 0 */
const char *
journal_inexact(const struct journal *j); /* the text of the first JOURNAL_INEXACT; NULL: none */

/* The first n lines of a journal, as others know them: a journal that does not begin with these lines lacks some. Manifests have
 * the CRC: the numbers of the kinds are permanent. */
struct journal_lines {
    uint64_t n;
    uint32_t crc; /* CRC-32C, as in proto/README.md */
};
struct journal_lines journal_lines(const struct journal *j, uint64_t n); /* n: at most j->n */
bool journal_begins_with(const struct journal *j, struct journal_lines lines);

/* journal_has: the batch has an entry. journal_skips: it has a RECOVERED entry. */
bool journal_has(const struct journal *j, uint64_t batch);
bool journal_skips(const struct journal *j, uint64_t batch);
/* The number of batches with entries; a batch that replays have named more than once counts once. */
uint64_t journal_rejected(const struct journal *j);
/* The number of RECOVERED entries: those that name this cut, and all. */
uint32_t journal_recoveries(const struct journal *j, uint64_t cut);
uint32_t journal_all_recoveries(const struct journal *j);
/* The number of batches right before this one that have entries: in sync, the steps rejected in a row. */
uint32_t journal_row(const struct journal *j, uint64_t batch);
