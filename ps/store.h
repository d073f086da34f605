/* A ps's way to the files of the chief, where the two share no storage: whole files are sent to it (put) and fetched
 * from it (get), piece by piece over the chief's control connection.
 *
 * Happy path: a shard's or writer's thread calls store_put and waits -> a letter to the server -> pieces, each answered
 * -> the chief has it on disk -> the caller goes on. Failure modes: no chief, or its connection is lost (ERR_CLOSED: the
 * cut, or the restore, begins anew with the next chief), the chief's disk (its words), ours. */
#ifndef GRADWIRE_PS_STORE_H
#define GRADWIRE_PS_STORE_H

#include <pthread.h>

#include "common/net/conn.h"
#include "common/net/mailbox.h"
#include "common/wire/msg.h"

struct store_request;

struct store {
    struct mailbox *server;
    int letter; /* the type of the letters that name a new request */
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct store_request *requests; /* of threads that wait */
    uint64_t ids;
    bool closed;
};

void store_open(struct store *s, struct mailbox *server, int letter);
/* Everybody who waits is told ERR_CLOSED, and so is who comes later. */
void store_shut(struct store *s);
void store_close(struct store *s);

/* DIR/cut-N/FILE to the chief; ERR_OK: it is on its disk. Errors: ERR_CLOSED, ERR_IO, ERR_NOMEM, with the reason.
 * Thread: any but the server's; waits. */
enum err store_put(struct store *s, const char *dir, uint64_t cut, const char *file,
                   struct errmsg *e) MUST_CHECK;
/* The chief's file to DIR/cut-N/FILE. Errors: also ERR_CORRUPT, the chief has no such file. */
enum err store_get(struct store *s, const char *dir, uint64_t cut, const char *file,
                   struct errmsg *e) MUST_CHECK;

/* The server's thread. `chief` NULL: it is not there. */
void store_on_letter(struct store *s, uint64_t request, struct conn *chief);
void store_chief_gone(struct store *s);
/* Where the body of this answer goes (room for STORE_PIECE_BYTES); NULL: nobody waits for it any more. */
uint8_t *store_space(struct store *s, const Gradwire__StoreAnswer *m);
/* Errors: ERR_PROTO, the answer makes no sense: close the connection. */
enum err store_on_answer(struct store *s, const Gradwire__StoreAnswer *m, uint64_t body_bytes,
                         struct conn *chief) MUST_CHECK;

#endif
