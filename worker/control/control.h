/* The control thread of a worker process. Its loop has the connection to the chief (chief_link.c) or, in the chief's
 * process, those to all others (worker/chief/host.c), the signals and the timers. It never computes, so it answers
 * while a step runs. It exchanges letters with the training thread. */
#pragma once

#include "common/cluster/cluster.h"
#include "common/serve/http.h"
#include "job/job.h"
#include "common/net/loop.h"
#include "common/net/mailbox.h"
#include "common/wire/msg.h"

struct contents;
struct control;
struct meter;

/* Letters to the training thread. */
enum train_letter {
    TRAIN_CHIEF, /* number: frame type; data: a message of the chief */
    TRAIN_HELLO, /* the connection to the chief is up: a hello is wanted (CONTROL_SEND) */
    /* the generation of the next WELCOME begins with a cut's state; number: the cut's step */
    TRAIN_RESTORED,
    TRAIN_EPOCH,  /* not in sync: evaluate epoch `number`, which is over */
    TRAIN_FINISH, /* all is learned: get the final parameters, and evaluate */
    TRAIN_KEPT,   /* data: struct train_kept */
    TRAIN_NOTED,  /* the line of an epoch is in the history's file, or cannot be written */
    /* the final checkpoint, of step `number`, is published: write model/. Answered by CONTROL_WRITTEN */
    TRAIN_PUBLISHED,
    TRAIN_GO,   /* SIGTERM */
    TRAIN_STOP, /* end immediately; number: exit code; data: the reason, a string */
};

/* Letters to the control thread. */
enum control_letter {
    CONTROL_SEND,      /* number: frame type; data: a message for the chief */
    CONTROL_STEP,      /* sync: the parameters of step `number` have arrived */
    CONTROL_EVALUATED, /* data: struct evaluation (model/evaluation.h) */
    CONTROL_FINISHED,  /* number: step; the final evaluation is done */
    CONTROL_WRITTEN,   /* model/ is written; data: why it cannot be, a string, or NULL */
    CONTROL_INEXACT, /* data: why the result can differ from the undisturbed one, a string, or NULL */
    CONTROL_LEAVES, /* the run has ended; number: exit code; data: its reason, a string, or NULL */
    /* number: step; data: the value that an evaluation found not finite, a string */
    CONTROL_DIVERGED,
    /* data: uint64_t, the generation. Stop learning; in sync: after step `number` */
    CONTROL_ENOUGH,
    CONTROL_REACHED, /* a parked worker reaches every ps again */
    /* a shard turned us away: the chief must welcome us again, or name the process that has our number */
    CONTROL_TURNED_AWAY,
    /* number: a request, not 0, for a cut of what is learned now; data: uint64_t, the latest step that the cut may
     * have. Answered by TRAIN_KEPT */
    CONTROL_KEEP,
    CONTROL_BACK, /* sync: roll back to the last cut, to evaluate step `number` again */
    /* from a worker that is not the chief: a shard is in generation `number` */
    CONTROL_GENERATION,
    CONTROL_STEP_POINT,  /* data: struct history_point, after a step */
    CONTROL_EPOCH_POINT, /* the same, for an epoch */
    /* data: a line of the history (worker/chief/epoch_log.h), a string. Answered by TRAIN_NOTED */
    CONTROL_EPOCH_LINE,
    CONTROL_EPOCH_LINES, /* data: all lines, which replace those in the file, a string */
    CONTROL_QUIT,        /* from control_close */
    CONTROL_NO_MEMORY,   /* for a message to the chief: the process ends */
    CONTROL_ROLE,        /* the first of the role's own letters, for control_ops.on_letter */
};

/* The state of a requested cut: `copied` (training can continue), then `published`; neither: it has failed. */
struct train_kept {
    uint64_t ask, cut, step;
    bool copied, published;
    int hold; /* if published: of checkpoint_hold, owned by the receiver; otherwise -1 */
};

/* The operations of a role on the control thread. */
struct control_ops {
    enum err (*start)(void *role, struct control *c, struct errmsg *e);
    void (*on_letter)(void *role, struct mail *m);
    void (*on_tick)(void *role, int64_t now_ms);
    void (*on_go)(void *role, int64_t now_ms);
    void (*stop)(void *role); /* close all connections */
    /* For HTTP: the text of what training waits for (NULL: nothing); additions to /metrics; additions to /status. */
    const char *(*waits_for)(void *role);
    void (*metrics)(void *role, struct metrics *m);
    enum err (*status)(void *role, json_t *to);
};

/* The chief's rows have another meaning than this worker's: the contents of that refusal. */
struct control_encoding {
    bool there;
    uint64_t cut;       /* the chief's cut whose encoding.json has the chief's meaning */
    uint8_t digest[32]; /* of the chief's encoding */
    char chief[300];    /* the chief's address */
};

struct control_config {
    const struct job *job;
    const struct cluster *cluster;
    struct mailbox *train;
    int http_fd; /* owned by the caller; -1: none */
    bool waits;  /* --when_done=wait */
    /* for a worker that is not the chief: the directory that may have the final manifest */
    const struct place *checkpoints;
    /* a launcher started it, for the first time: its files do not change while the job starts */
    bool handed;
    /* the encoding from the chief by which the rows were read again; NULL: they were not */
    const struct control_encoding *read_by;
    const struct meter *meter;
    const struct contents *contents; /* the training data; NULL: none is read */
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
    struct http *http; /* NULL: no HTTP */
    bool going, ended;
    int exit_code;      /* valid once `ended` */
    char end_text[640]; /* the failure (struct errmsg), and what is wrong with a ps */
    bool nobody_came;   /* no chief came within timeouts.start_s; read after control_close */
    struct control_encoding encoding; /* there: the chief refused us for this */
    int64_t going_ms;
};

/* Start the thread. Only that thread uses `role` until control_close. Errors: ERR_IO, ERR_NOMEM, those of
 * ops->start. */
enum err control_init(struct control *c, const struct control_config *config,
                      const struct control_ops *ops, void *role, struct errmsg *e) MUST_CHECK;
/* Stop and join the thread. */
void control_close(struct control *c);

/* Post to the training thread; message and text are copied; kept->hold passes to the receiver. A letter that cannot be
 * posted is lost, which is logged. Thread: the control thread; control_to_train: any. */
void control_to_train(struct control *c, enum train_letter type, uint64_t number);
void control_message_to_train(struct control *c, enum frame_type type, const ProtobufCMessage *m);
void control_kept_to_train(struct control *c, const struct train_kept *kept);
void control_stop_train(struct control *c, int exit_code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Post to the control thread: an enum control_letter, or a letter of the role. release: frees the data; NULL with data
 * NULL. A letter that cannot be posted is lost, which is logged. Thread: any. */
void control_send(struct control *c, enum frame_type type, const ProtobufCMessage *m);
void control_post(struct control *c, int type, uint64_t number, void *take_data,
                  void (*release)(void *));

enum { CONTROL_REFUSAL_BYTES = 400 };
/* Format a peer's refusal as a log line; it names the identity key that differs, if that is known. */
void control_refusal(const struct control_config *config, const char *who,
                     const Gradwire__Refuse *m, char *out, size_t bytes);
/* Format the refusal, log the line if it differs from the text in `said`, and keep it in `said` ("": none yet). */
void control_refused(const struct control_config *config, const char *who,
                     const Gradwire__Refuse *m, char said[CONTROL_REFUSAL_BYTES]);
/* Returns whether this process must end with 2, because the same peer has refused it for its data for so long that it is no
 * process of an earlier job, which is about to end. *since_ms: of the peer; 0: it has not refused us for this. */
bool control_other_data(const Gradwire__Refuse *m, int64_t *since_ms);
