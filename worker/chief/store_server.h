/* The chief stores the cuts of ps that do not share its storage: what they send is written to DIR/checkpoints,
 * what they need from there is read, on the thread of checkpoints, so that no disk holds up the chief's decisions.
 * The other end is ps/store.h; of a worker that reads a cut's encoding.json worker/control/cut_reader.h. */
#ifndef GRADWIRE_WORKER_CHIEF_STORE_SERVER_H
#define GRADWIRE_WORKER_CHIEF_STORE_SERVER_H

#include "common/net/disk_thread.h"
#include "worker/control/control.h"

enum { STORE_SERVER_READER = UINT32_MAX /* in place of a ps's number: a worker */ };

struct store_server {
    const char *checkpoints;
    struct control *control;
    struct disk_thread *disk;
    struct store_arrival *arrivals; /* the disk's thread's: files that are being sent to us */
};

/* An answer, as the letter HOST_STORED's data (store_server_answer_free); the letter's number is the ps. */
struct store_server_answer {
    uint64_t connection; /* the caller's number of the connection that asked */
    Gradwire__StoreAnswer head;
    struct errmsg error; /* what head.error points to */
    uint8_t *body;
    size_t bytes;
};
void store_server_answer_free(void *answer);

/* All are borrowed. */
void store_server_init(struct store_server *k, const char *checkpoints, struct control *control,
                       struct disk_thread *disk);
/* What is half written is removed. Behind disk_thread_settle. */
void store_server_close(struct store_server *k);

/* Thread: control's; never wait. Errors: of disk_thread_post; ERR_PROTO a file that no ps may name, or an empty piece. */
enum err store_server_put(struct store_server *k, uint32_t ps, uint64_t connection,
                          const Gradwire__StorePut *m, uint8_t *take_body, size_t bytes) MUST_CHECK;
enum err store_server_get(struct store_server *k, uint32_t ps, uint64_t connection,
                          const Gradwire__StoreGet *m) MUST_CHECK;
/* The connection is lost: what it had begun to send is removed. */
void store_server_gone(struct store_server *k, uint32_t ps, uint64_t connection);

#endif
