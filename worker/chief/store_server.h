/* The chief stores the cuts of ps that do not share its storage. It writes their files to DIR/checkpoints, and reads
 * the files that they request. Both happen on the disk thread of checkpoints, so that no disk delays the chief's
 * decisions. The other end is common/peers/chief_place.h, in a ps and in a worker that reads a
 * cut's encoding.json. */
#pragma once

#include "common/net/loop.h"
#include "worker/control/control.h"
#include "common/net/disk_thread.h"

enum { STORE_SERVER_READER = UINT32_MAX /* as the number of a ps: the peer is a worker */ };

/* The other end of a connection, as the control thread knows it. */
struct store_peer {
    uint32_t ps;
    uint64_t connection; /* the caller's number; an answer that names another one is dropped */
    uint32_t asks, most; /* pieces that are not answered yet; more than `most` are refused */
};

struct store_server {
    const struct place *checkpoints;
    struct control *control;
    struct disk_thread *disk;
    struct store_arrival *arrivals; /* used on the disk's thread: files that are being received */
};

/* An answer, as the data of the letter HOST_STORED (store_server_answer_free); the letter's number is the ps. */
struct store_server_answer {
    uint64_t connection; /* the caller's number of the connection that made the request */
    Gradwire__StoreAnswer head;
    struct errmsg error; /* head.error points to it */
    uint8_t *body;
    size_t bytes;
};

/* All arguments are borrowed. */
void store_server_init(struct store_server *k, const struct place *checkpoints,
                       struct control *control, struct disk_thread *disk);
/* Remove the files that are half written. Call after disk_thread_settle. */
void store_server_close(struct store_server *k);

/* Handle a request; a letter HOST_STORED brings the answer, which the caller counts (peer->asks). `expected`: the chief
 * waits for this file of this ps (chief_expects_file); another one is answered with an error. Thread: the control
 * thread; never waits. Errors: of disk_thread_post; ERR_NOMEM; ERR_PROTO, which is logged: a file name that no ps uses,
 * an empty piece, or too many pieces at the same time. */
enum err store_server_put(struct store_server *k, struct store_peer *peer,
                          const Gradwire__StorePut *m, uint8_t *take_body, size_t bytes,
                          bool expected) MUST_CHECK;
enum err store_server_get(struct store_server *k, struct store_peer *peer,
                          const Gradwire__StoreGet *m) MUST_CHECK;
/* The connection is lost: files that are half received over it are removed. */
void store_server_gone(struct store_server *k, const struct store_peer *peer);
/* The checkpoint is given up: what is received of it is removed, also pieces that wait for the disk. */
void store_server_discard(struct store_server *k, uint64_t cut);

/* Letters from the chief's own threads to its control thread. */

enum host_letter {
    HOST_STORED = CONTROL_ROLE, /* number: ps; data: struct store_server_answer */
    HOST_HELD, /* number: the hold (a descriptor) of the cut that the next HOST_PUBLISHED names */
    HOST_PUBLISHED, /* number: cut; data: an error text or NULL */
    HOST_JOURNALED, /* one entry is written; data: an error text or NULL */
    /* number: a cut; data: the evaluator's time for it (ms, int64_t); NULL: no result */
    HOST_LOOKED,
    HOST_DIR, /* DIR was checked; data: an error text if it is no longer this job's, or NULL */
};
