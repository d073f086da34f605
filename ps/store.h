/* File transfer between a ps and the chief if the two share no storage. The ps sends whole files (put) and fetches whole
 * files (get), piece by piece over the chief's control connection.
 *
 * Happy path: a shard's or writer's thread calls store_put and waits -> a letter to the server -> pieces, each answered
 * -> the file is on the chief's disk -> store_put returns.
 * Failure modes: no chief, or its connection is lost (ERR_CLOSED; the next chief starts the cut or the restore again); the
 * chief's disk fails (the error has the chief's text); this host's disk fails. */
#ifndef GRADWIRE_PS_STORE_H
#define GRADWIRE_PS_STORE_H

#include <pthread.h>

#include "common/net/conn.h"
#include "common/net/mailbox.h"
#include "common/wire/msg.h"

struct store_request;

struct store {
    struct mailbox *server;
    int letter; /* the type of the letter that announces a new request */
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct store_request *requests; /* of the threads that wait in store_put and store_get */
    uint64_t ids;
    bool closed;
};

void store_open(struct store *s, struct mailbox *server, int letter);
/* All waiting calls and all later calls return ERR_CLOSED. Thread: the server's. */
void store_shut(struct store *s);
/* Only when no thread can call store_put or store_get any more. */
void store_close(struct store *s);

/* Send dir/cut-N/FILE to the chief. ERR_OK: the file is on the chief's disk. Errors, with a text: ERR_CLOSED, ERR_IO,
 * ERR_NOMEM, ERR_TOOBIG the server's mailbox is full. Thread: any but the server's; blocks. */
enum err store_put(struct store *s, const char *dir, uint64_t cut, const char *file,
                   struct errmsg *e) MUST_CHECK;
/* Fetch the chief's file to dir/cut-N/FILE. Errors: also ERR_CORRUPT the chief has no such file. */
enum err store_get(struct store *s, const char *dir, uint64_t cut, const char *file,
                   struct errmsg *e) MUST_CHECK;

/* Begin a request that a letter announced. `chief` NULL: no chief is connected. Thread: the server's, as for all below. */
void store_on_letter(struct store *s, uint64_t request, struct conn *chief);
/* All waiting calls return ERR_CLOSED. */
void store_chief_gone(struct store *s);
/* The buffer for this answer's body (STORE_PIECE_BYTES). NULL: no thread waits for this answer any more. */
uint8_t *store_space(struct store *s, const Gradwire__StoreAnswer *m);
/* Handle an answer; one whose request has ended is ignored. Errors: ERR_PROTO the answer does not fit its request:
 * close the connection. */
enum err store_on_answer(struct store *s, const Gradwire__StoreAnswer *m, uint64_t body_bytes,
                         struct conn *chief) MUST_CHECK;

#endif
