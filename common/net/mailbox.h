/* Letters: messages from any thread to one loop. A mailbox has a mutex, two arrays that are swapped, and an eventfd.
 * Posting never waits for the reader and allocates nothing. One wake-up serves all waiting letters. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"

enum { MAILBOX_MAX = 4096 }; /* waiting letters; more are refused */

struct mail {
    int type;             /* from the reader's own enum */
    uint64_t number;      /* a value that needs no memory: an id, a step, a descriptor */
    void *data;           /* can be NULL */
    void (*free)(void *); /* frees `data` if the reader did not take it; NULL: not freed */
};

struct mailbox {
    pthread_mutex_t lock;
    struct mail *in, *out; /* in: posted; out: being read */
    size_t n_in, n_out, read;
    int fd;
    struct event event;
    void (*fn)(void *arg, struct mail *m);
    void *arg;
};

/* `fn` gets each letter on the loop's thread, in the order of posting. It takes m->data by setting it to NULL.
 * Errors: ERR_NOMEM, ERR_FILES, ERR_IO. */
enum err mailbox_init(struct mailbox *mb, struct loop *l, void (*fn)(void *arg, struct mail *m),
                      void *arg) MUST_CHECK;
/* Frees the data of unread letters. The caller must make sure that no thread posts during the call or afterwards.
 * Thread: the loop's, but not inside fn. */
void mailbox_close(struct mailbox *mb);

/* Copies *m and takes m->data; on error the data is freed. Errors: ERR_TOOBIG if MAILBOX_MAX letters wait
 * already. Thread: any; never waits for the reader. */
enum err mailbox_post(struct mailbox *mb, const struct mail *m) MUST_CHECK;
