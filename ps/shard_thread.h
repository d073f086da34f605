/* The shell of one shard: its thread, its loop, its workers' connections, and the writer of its snapshots. Other
 * threads come in by the mailbox; what the shard tells the chief goes out as letters to the server's mailbox. */
#ifndef GRADWIRE_PS_SHARD_THREAD_H
#define GRADWIRE_PS_SHARD_THREAD_H

#include "common/net/mailbox.h"
#include "common/wire/msg.h"
#include "ps/core/shard.h"

struct shard_thread;
struct fault;
struct store;
struct tls_link;

/* Letters from a shard thread to the server. */
enum shard_letter {
    SHARD_TELLS,    /* number: frame type; data: ProtobufCMessage, for the chief */
    SHARD_STATUS,   /* data: struct shard_report, for the chief's hello */
    SHARD_MEASURED, /* the same, for HTTP */
    SHARD_FENCED,   /* number: incarnation */
    SHARD_STORE,    /* number: a request of ps/store.h */
    SHARD_SNAPSHOT, /* number: thread; data: struct shard_snapshot, when it enters and behind each snapshot */
};

struct shard_snapshot {
    uint64_t bytes; /* of its state */
    double seconds; /* that writing it took; 0: it has entered */
};

/* A worker's connection to the shard. */
struct shard_worker {
    uint32_t worker;
    uint64_t in_bytes, out_bytes;
};

/* What a shard's thread has counted since the process began. */
struct shard_counts {
    uint64_t pushes, pulls, in_bytes, out_bytes; /* frames; bytes of connections that are gone */
    uint64_t saved, not_saved;                   /* snapshots */
    double copy_s, longest_copy_s;               /* rows of snapshots: in all, and in one go */
    double copy_cpu_s, longest_copy_cpu_s;       /* the same without what others had of the core */
    double held_s;                               /* training has waited for that */
};

struct shard_report {
    struct shard_facts facts;
    uint64_t next_cut;
    Gradwire__ShardStatus *status; /* a copy; NULL: no parameters are here */
    struct shard_counts counts;    /* with the bytes of all connections */
    size_t workers;
    struct shard_worker *worker;
    char waits_for[160];
};
void shard_report_free(void *report); /* NULL: nothing */

/* Start the thread. `output`: DIR, whose checkpoints/ has the cuts where it is the chief's too; otherwise files pass
 * through its spool/ on their way to the chief and from it. `store`, `fault` and `out` outlive the thread.
 * Errors: ERR_NOMEM, ERR_IO. */
enum err shard_thread_new(struct shard_thread **t, uint32_t ps, uint32_t thread, const char *output,
                          struct store *store, const struct fault *fault, struct mailbox *out,
                          struct errmsg *e) MUST_CHECK;
/* Close its connections, end and join the thread; a snapshot of which all is copied is finished first. */
void shard_thread_free(struct shard_thread *t);

/* All of these post a letter; thread: the server's. Lost letters (a full mailbox) are told by ERR_TOOBIG. */
/* A message of the chief: FENCE, or one that shard_on_chief takes; copied. */
enum err shard_thread_tell(struct shard_thread *t, enum frame_type type,
                           const ProtobufCMessage *m) MUST_CHECK;
/* A worker's connection after its hello; all are taken. tls NULL: it is plain. */
enum err shard_thread_take(struct shard_thread *t, int take_fd, struct tls_link *take_tls,
                           Gradwire__Hello *take_hello) MUST_CHECK;
/* For a report, which comes as this letter: SHARD_STATUS or SHARD_MEASURED. */
enum err shard_thread_ask(struct shard_thread *t, enum shard_letter answer) MUST_CHECK;

#endif
