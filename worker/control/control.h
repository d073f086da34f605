/* The control thread of a worker process: its loop has the connection to the chief (chief_link.c) or, in the chief's
 * process, to everybody (worker/chief/host.c); signals, timers. It never computes, so it answers while a step runs.
 * Between it and the training thread: letters. */
#ifndef GRADWIRE_WORKER_CONTROL_CONTROL_H
#define GRADWIRE_WORKER_CONTROL_CONTROL_H

#include "common/cluster/cluster.h"
#include "common/serve/http.h"
#include "common/job/job.h"
#include "common/net/mailbox.h"
#include "common/wire/msg.h"

struct control;
struct meter;

/* Letters to the training thread. */
enum train_letter {
    TRAIN_CHIEF, /* number: frame type; data: a message of the chief */
    TRAIN_HELLO, /* the connection to the chief is up: a hello is wanted (CONTROL_SEND) */
    TRAIN_RESTORED, /* the generation that WELCOME is next to tell begins with what a cut of step `number` has */
    TRAIN_EPOCH,     /* not in sync: epoch `number` is over: evaluate */
    TRAIN_FINISH,    /* all is learned: final parameters, evaluation */
    TRAIN_KEPT,      /* data: struct train_kept */
    TRAIN_PUBLISHED, /* the final checkpoint, of step `number`, is published: model/ */
    TRAIN_GO,        /* SIGTERM */
    TRAIN_STOP,      /* end now; number: exit code; data: why, a string */
};

/* Letters to the control thread. */
enum control_letter {
    CONTROL_SEND,      /* number: frame type; data: a message for the chief */
    CONTROL_STEP,      /* sync: parameters of step `number` are here */
    CONTROL_EVALUATED, /* data: struct evaluation (model/evaluation.h) */
    CONTROL_FINISHED,  /* number: step; the final evaluation is done */
    CONTROL_DIVERGED, /* number: step; data: what an evaluation found that is not finite, a string */
    CONTROL_ENOUGH, /* data: uint64_t, the generation. Nothing more is to be learned; sync: after step `number` */
    CONTROL_REACHED,     /* a parked worker reaches every ps again */
    CONTROL_TURNED_AWAY, /* by a shard: the chief is to welcome us anew, or to say who has our place */
    CONTROL_KEEP, /* number: an ask, not 0: a cut of what is learned now is wanted; data: uint64_t, of which step at the
                   * latest. TRAIN_KEPT says of it */
    CONTROL_GENERATION,  /* of a worker that is not the chief: a shard is in generation `number` */
    CONTROL_STEP_POINT,  /* data: struct history_point, after a step */
    CONTROL_EPOCH_POINT, /* the same, of an epoch */
    CONTROL_EPOCH_LINE,  /* data: a line of the history (worker/chief/epoch_log.h), a string */
    CONTROL_EPOCH_LINES, /* the same: all lines, in the place of those that the file has */
    CONTROL_QUIT,        /* from control_close */
    CONTROL_ROLE,        /* the first of the role's own: control_ops.on_letter gets them */
};

/* The cut that was asked for: it is copied, so training may go on; then published, or with neither it has failed. */
struct train_kept {
    uint64_t ask, cut, step;
    bool copied, published;
    int hold; /* published: of checkpoint_hold, the receiver's; otherwise -1 */
};

/* What a role does on the control thread. */
struct control_ops {
    enum err (*start)(void *role, struct control *c, struct errmsg *e);
    void (*on_letter)(void *role, struct mail *m);
    void (*on_tick)(void *role, int64_t now_ms);
    void (*on_go)(void *role, int64_t now_ms);
    void (*stop)(void *role); /* close all connections */
    /* For HTTP: whom training waits for, NULL: it runs; what the role adds to /metrics; to /status. */
    const char *(*waits_for)(void *role);
    void (*metrics)(void *role, struct metrics *m);
    enum err (*status)(void *role, json_t *to);
};

/* The chief's rows mean something else than this worker's: what a refusal says of it. */
struct control_encoding {
    bool there;
    uint64_t cut;       /* whose encoding.json says it */
    uint8_t digest[32]; /* of the chief's */
    char chief[300];    /* its address */
};

struct control_config {
    const struct job *job;
    const struct cluster *cluster;
    struct mailbox *train;
    int http_fd; /* the caller's; -1: none */
    bool waits;  /* --when_done=wait */
    const char
        *checkpoints; /* of a worker that is not the chief: where the final manifest may be */
    bool
        handed; /* a launcher started it, for the first time: nobody changes its files while the job starts */
    const struct control_encoding *read_by; /* the rows were read anew by it; NULL: they were not */
    const struct meter *meter;
};

struct control {
    struct control_config config;
    const struct control_ops *ops;
    void *role;
    struct loop loop;
    struct mailbox in;
    struct loop_signal term, interrupt;
    struct loop_timer tick;
    pthread_t pthread;
    struct http *http; /* NULL: none */
    bool going, ended;
    int exit_code;      /* once it has ended */
    char end_text[640]; /* what failed (struct errmsg), and what is wrong with a ps */
    bool nobody_came;   /* no chief within timeouts.start_s; read behind control_close */
    struct control_encoding encoding; /* there: that is why it has ended; the same */
    int64_t going_ms;
};

/* Start the thread. `role` is used on it alone until control_close. Errors: ERR_IO, ERR_NOMEM, what start gives. */
enum err control_init(struct control *c, const struct control_config *config,
                      const struct control_ops *ops, void *role, struct errmsg *e) MUST_CHECK;
/* End and join the thread. */
void control_close(struct control *c);

/* Post to the training thread; message and text are copied. Thread: control's. */
void control_to_train(struct control *c, enum train_letter type, uint64_t number);
void control_message_to_train(struct control *c, enum frame_type type, const ProtobufCMessage *m);
void control_kept_to_train(struct control *c, const struct train_kept *kept);
void control_stop_train(struct control *c, int exit_code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Post to the control thread: an enum control_letter, or one of the role's. Thread: any. */
void control_send(struct control *c, enum frame_type type, const ProtobufCMessage *m);
void control_post(struct control *c, int type, uint64_t number, void *take_data,
                  void (*release)(void *));

enum { CONTROL_REFUSAL_BYTES = 400 };
/* A peer refused us: the line for people, with the key that differs where that is known. */
void control_refusal(const struct control_config *config, const char *who,
                     const Gradwire__Refuse *m, char *out, size_t bytes);
/* The same into `said`; the log says it, if it is another reason than the last one. */
void control_refused(const struct control_config *config, const char *who,
                     const Gradwire__Refuse *m, char said[CONTROL_REFUSAL_BYTES]);

#endif
