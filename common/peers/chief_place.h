/* The chief's place of cuts, for a ps or a worker that does not share its storage: objects are written and read in pieces over a
 * connection to the chief. The other end is worker/chief/store_server.h. Only files of cuts can be written and read.
 *
 * Happy path: a thread writes or reads a piece and waits -> a letter to the server, the thread of the connection -> the piece, or a
 * request for it -> the chief's answer wakes the thread. With the last piece the file is on the chief's storage.
 * Failure modes: no chief, or its connection is lost (ERR_CLOSED; the next chief starts the cut or the restore again); the
 * chief's storage fails (the error has the chief's text). */
#pragma once

#include <pthread.h>

#include "common/net/conn.h"
#include "common/net/loop.h"
#include "common/net/mailbox.h"
#include "common/place/place.h"
#include "common/wire/msg.h"

struct chief_place {
    struct place place; /* for other threads */
    struct mailbox *server;
    int letter; /* the type of the letter that announces a new piece */
    struct loop *
        loop; /* the server's, if its thread is also the one that waits; NULL: other threads wait */
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct chief_piece *pieces; /* of the threads that wait */
    uint64_t ids;               /* of objects that were opened */
    uint64_t losses;            /* of the chief's connection: what was begun before is lost */
    bool closed;
};

void chief_place_open(struct chief_place *c, struct mailbox *server, int letter);
/* All calls that wait and all later ones return ERR_CLOSED. Thread: the server's. */
void chief_place_shut(struct chief_place *c);
/* Only when no thread can use c->place any more. */
void chief_place_close(struct chief_place *c);

/* Begin a piece that a letter announced. `chief` NULL: no chief is connected. Thread: the server's, as for all below. */
void chief_place_on_letter(struct chief_place *c, uint64_t object, struct conn *chief);
/* All calls that wait return ERR_CLOSED. */
void chief_place_gone(struct chief_place *c);
/* The buffer for this answer's body (STORE_PIECE_BYTES). NULL: no thread waits for this answer any more. */
uint8_t *chief_place_space(struct chief_place *c, const Gradwire__StoreAnswer *m);
/* Handle an answer; one whose piece has ended is ignored. Errors: ERR_PROTO the answer does not fit: close the connection. */
enum err chief_place_on_answer(struct chief_place *c, const Gradwire__StoreAnswer *m,
                               uint64_t body_bytes, struct errmsg *e) MUST_CHECK;
