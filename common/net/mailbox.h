/* Letters from any thread to one loop: a mutex, two arrays that change places, an eventfd.
 * Posting never blocks on the reader and allocates nothing; the loop is woken once for all that
 * wait. */
#ifndef GRADWIRE_COMMON_NET_MAILBOX_H
#define GRADWIRE_COMMON_NET_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"

enum { MAILBOX_MAX = 4096 }; /* letters that wait; more are refused */

struct mail {
    int type;             /* the reader's own enum */
    uint64_t number;      /* an id, a step, a descriptor: what needs no memory */
    void *data;           /* may be NULL */
    void (*free)(void *); /* how data is freed where nobody took it; NULL: not at all */
};

struct mailbox {
    pthread_mutex_t lock;
    struct mail *in, *out; /* posted; being read */
    size_t n_in, n_out, read;
    int fd;
    struct event event;
    void (*fn)(void *arg, struct mail *m);
    void *arg;
};

/* `fn` gets each letter on the loop's thread, in the order of posting; it takes m->data by setting
 * it to NULL. */
enum err mailbox_init(struct mailbox *mb, struct loop *l, void (*fn)(void *arg, struct mail *m),
                      void *arg) MUST_CHECK;
/* Frees the data of letters that nobody read. Thread: the loop's, never inside fn; nobody posts
 * from here on. */
void mailbox_close(struct mailbox *mb);

/* m is copied; m->data moves, even on error (it is freed then).
 * Errors: ERR_TOOBIG MAILBOX_MAX letters wait already.
 * Thread: any; never blocks. */
enum err mailbox_post(struct mailbox *mb, const struct mail *m) MUST_CHECK;

#endif
