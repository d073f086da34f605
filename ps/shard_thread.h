/* The shell of one shard: its thread, its loop, its workers' connections, and the writer of its snapshots. Other threads
 * reach it through its mailbox. Its messages to the chief go out as letters to the server's mailbox. */
#pragma once

#include "common/net/conn.h"
#include "common/net/loop.h"
#include "common/net/mailbox.h"
#include "common/wire/msg.h"
#include "common/peers/chief_place.h"
#include "ps/core/shard.h"

struct shard_thread;
struct fault;
struct tls_link;

/* Letters from a shard thread to the server. */
enum shard_letter {
    SHARD_TELLS,  /* number: frame type; data: ProtobufCMessage for the chief */
    SHARD_STATUS, /* number: thread; data: struct shard_report, for the reply to a chief's hello */
    SHARD_MEASURED, /* the same, for HTTP */
    SHARD_FENCED,   /* number: incarnation */
    SHARD_STORE,    /* number: an object of chief_place.h */
    SHARD_SNAPSHOT, /* number: thread; data: struct shard_snapshot, sent on entering and after each snapshot */
};

struct shard_snapshot {
    uint64_t bytes; /* size of the shard's state */
    double seconds; /* how long the writing took; 0: just entered, nothing is written */
};

/* A worker's connection to the shard. */
struct shard_worker {
    uint32_t worker;
    uint64_t in_bytes, out_bytes;
};

/* Counters of a shard's thread since the process started. */
struct shard_counts {
    uint64_t pushes, pulls, in_bytes, out_bytes; /* frames; bytes: of closed connections only */
    uint64_t saved, not_saved;                   /* snapshots */
    double copy_s, longest_copy_s;         /* copying rows: total; the longest wait of a frame */
    double copy_cpu_s, longest_copy_cpu_s; /* the same in CPU time */
    double held_s;                         /* time that training has waited for these copies */
};

struct shard_report {
    struct shard_facts facts;
    uint64_t next_cut;
    Gradwire__ShardStatus *status; /* a copy; NULL: the shard holds no parameters */
    struct shard_counts counts;    /* bytes: of open connections, too */
    size_t workers;
    struct shard_worker *worker;
    char waits_for[160];
};
void shard_report_free(void *report); /* NULL: nothing */

/* Start the thread. `output`: DIR. If this host shares it with the chief, the cuts are in DIR/checkpoints; otherwise in
 * `chief`, the chief's place. `chief`, `fault` and `out` outlive the thread.
 * Errors: ERR_NOMEM, ERR_IO. */
enum err shard_thread_new(struct shard_thread **t, uint32_t ps, uint32_t thread, const char *output,
                          const struct chief_place *chief, const struct fault *fault,
                          struct mailbox *out, struct errmsg *e) MUST_CHECK;
/* Close the thread's connections, write a snapshot whose rows are all copied, end the thread and join it. Blocks. Takes
 * NULL. */
void shard_thread_free(struct shard_thread *t);

/* Each of the functions below posts a letter. Thread: the server's. Errors: ERR_TOOBIG the mailbox is full; ERR_NOMEM. */
/* Pass on a message of the chief: FENCE, or one that shard_on_chief takes. The message is copied. */
enum err shard_thread_tell(struct shard_thread *t, enum frame_type type,
                           const ProtobufCMessage *m) MUST_CHECK;
/* Pass on a worker's connection after its hello; what *take has and the hello are taken, also on error. */
enum err shard_thread_take(struct shard_thread *t, struct conn_handover *take,
                           Gradwire__Hello *take_hello) MUST_CHECK;
/* Request a report; it arrives as a letter of this type, SHARD_STATUS or SHARD_MEASURED. If the thread has no memory
 * for SHARD_MEASURED, none arrives. */
enum err shard_thread_ask(struct shard_thread *t, enum shard_letter answer) MUST_CHECK;
/* ERR_OK, or why the process must end, with *why the reason, as old as the thread: no peer can repeat what the thread has
 * lost, or it has no memory for a step. It comes as no letter, because a letter could be lost, too. */
enum err shard_thread_failed(const struct shard_thread *t, const char **why) MUST_CHECK;
