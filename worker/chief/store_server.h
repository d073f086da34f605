/* The chief as keeper of the cuts of ps that do not share its storage: what they send is written to DIR/checkpoints,
 * what they need from there is read, on a thread of its own, so that no disk holds up the chief's decisions.
 * The other end is ps/store.h. */
#ifndef GRADWIRE_WORKER_CHIEF_STORE_SERVER_H
#define GRADWIRE_WORKER_CHIEF_STORE_SERVER_H

#include "worker/control/control.h"

struct store_server;

/* An answer, as the letter HOST_STORED's data (store_server_answer_free); the letter's number is the ps. */
struct store_server_answer {
    uint64_t connection; /* the caller's number of the connection that asked */
    Gradwire__StoreAnswer head;
    struct errmsg error; /* what head.error points to */
    uint8_t *body;
    size_t bytes;
};
void store_server_answer_free(void *answer);

/* Starts no thread yet. `checkpoints` is copied. Errors: ERR_NOMEM. */
enum err store_server_new(struct store_server **k, const char *checkpoints,
                          struct control *control) MUST_CHECK;
/* What waits is dropped, what is half written removed. */
void store_server_free(struct store_server *k);

/* Thread: control's; never wait. Errors: ERR_NOMEM; ERR_PROTO a file that no ps may name, or an empty piece. */
enum err store_server_put(struct store_server *k, uint32_t ps, uint64_t connection,
                          const Gradwire__StorePut *m, uint8_t *take_body, size_t bytes) MUST_CHECK;
enum err store_server_get(struct store_server *k, uint32_t ps, uint64_t connection,
                          const Gradwire__StoreGet *m) MUST_CHECK;
/* The connection is lost: what it had begun to send is removed. */
void store_server_gone(struct store_server *k, uint32_t ps, uint64_t connection);

#endif
