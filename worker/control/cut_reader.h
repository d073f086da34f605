/* Fetches a cut's encoding.json from the chief's place (common/peers/chief_place.h), for a worker that cannot see the
 * chief's directory of cuts.
 *
 * Happy path: ask ps 0 for the chief's address, if it is not known -> connect to the chief -> hello, as a reader ->
 * HELLO_REPLY -> manifest.gw -> encoding.json, whose size and checksum the manifest has.
 * Failure modes: the chief is not there, refuses, closes the connection, or is silent for too long; ps 0 names no
 * chief in time (it is away, refuses, or waits for one); the job is already done; the cut was removed meanwhile, or
 * has no encoding.json; the bytes do not match the manifest. Each ends the fetch with an error text. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "common/cluster/cluster.h"
#include "common/process/contents.h"

#define CUT_READER_ANY UINT64_MAX

enum { CUT_READER_SILENT_MS = 30000 /* for silent_ms of a job */ };

struct cut_reader {
    const struct job *job;
    const struct cluster *cluster;
    const struct contents
        *contents;     /* the training data that this process has read; NULL: none yet */
    const char *chief; /* "host:port"; NULL: ask ps 0, which knows it when a chief has come */
    uint64_t cut;      /* CUT_READER_ANY: the chief chooses */
    int64_t silent_ms; /* the longest silence that the chief is allowed */
    int64_t
        start_ms; /* ps 0 must name the chief within this, not counted while it says that one reads its data */
    int64_t over_ms; /* if the job is done: how long to wait for a chief that continues it */
};

/* *m (manifest_close) and *text (mem_free; m->encoding.bytes, and a NUL after them) are the caller's, unchanged on
 * error. Errors: ERR_STATE: ps 0 reports that the job is done; ERR_INPUT: the chief has other training data; ERR_REFUSED, ERR_CLOSED, ERR_TIMEOUT, ERR_CORRUPT,
 * ERR_PROTO; ERR_NOTFOUND: no cut, or the cut has no encoding.json; ERR_NOMEM. Thread: any; waits, on a loop of its
 * own. */
enum err cut_reader_fetch(const struct cut_reader *r, struct manifest *m, char **text,
                          struct errmsg *e) MUST_CHECK;
/* A file of the chief's data (data.order: stream), CHECKPOINT_INDEX or CHECKPOINT_DATA_ENCODING, as the chief has kept it: *data
 * (mem_free), *bytes. Of *r the contents and the cut do not count. "": none is read, and ERR_CLOSED says that the chief is there, and has read its data.
 * Errors: as above, but not ERR_NOTFOUND. */
enum err cut_reader_file(const struct cut_reader *r, const char *file, uint8_t **data,
                         size_t *bytes, struct errmsg *e) MUST_CHECK;
