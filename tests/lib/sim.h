/* A whole cluster in one process, for tests: the real chief, the real shards, the real sessions; simulated are
 * processes, network, time and storage. One seed decides everything that happens, so a seed replays.
 *
 * Network: a connection is first in, first out; its delays are its own, so connections overtake each other; a break
 * loses a suffix of what was sent and each end learns of it when it does; a dial to a dead process is refused. A
 * message travels packed and is unpacked at the receiver. Storage: a file is there when its write has ended; what a
 * dead process was writing is lost. Compute: a toy gradient of (parameters, batch, leaf). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/checkpoint/checkpoint_rows.h"
#include "common/parameters/plan.h"
#include "common/wire/msg.h"
#include "ps/core/gate.h"
#include "ps/core/shard.h"
#include "worker/chief/core/chief.h"
#include "worker/driver/local.h"
#include "worker/driver/push_codec.h"
#include "worker/driver/row_frames.h"
#include "worker/core/session.h"
#include "worker/core/unreached.h"

enum {
    SIM_PS_MAX = 4,
    SIM_WORKERS_MAX = 5,
    SIM_THREADS_MAX = 2,
    SIM_SHARDS_MAX = SIM_PS_MAX * SIM_THREADS_MAX,
    SIM_NODES_MAX = 32,
    SIM_FAULTS_MAX = 16,
    SIM_KEEP = 3,
    SIM_PS_REJOIN_S = 600,
};

enum sim_gradient {
    SIM_TOY,   /* depends on the parameters: every lost or doubled bit shows for ever */
    SIM_IDS,   /* a small whole number of the batch: sums are exact in any order */
    SIM_KNOWN, /* depends on the data alone: what is withheld now and sent later is the same sum */
};

enum sim_fault_kind {
    FAULT_KILL_WORKER, /* not the chief */
    FAULT_KILL_PS,
    FAULT_KILL_CHIEF,
    FAULT_KILL_ALL, /* and started again, perhaps with other numbers of ps and workers */
    FAULT_BREAK,    /* one connection */
    FAULT_BREAK_ALL,
    FAULT_GO_WORKER,
    FAULT_GO_PS,
    FAULT_GO_CHIEF, /* the job is stopped, and resumed perhaps with other numbers */
    FAULT_SAVE_FAILS,
    FAULT_PUBLISH_FAILS,
    FAULT_CORRUPT,       /* the newest cut, if there is one before it */
    FAULT_FREEZE_WORKER, /* it says and hears nothing for a while, and then goes on */
    FAULT_KINDS,
};

struct sim_fault {
    int64_t at_us;
    enum sim_fault_kind kind;
};

enum { SIM_KEYS = 24, SIM_DIM_MAX = 3, SIM_TABLES = 3, SIM_LISTS = 2 };

struct sim_config {
    uint64_t seed;
    uint32_t ps, workers, threads[SIM_PS_MAX];
    uint64_t elems;
    Gradwire__Settings settings; /* plain values */
    uint32_t every_steps, every_seconds;
    bool keeps; /* sync: each epoch is the best so far: a cut of its end is asked for and kept */
    uint32_t worker_rejoin_s;
    enum sim_gradient gradient;
    uint32_t slow;                /* 1 + the worker that computes ten times as long; 0: none */
    uint32_t broken_one_in;       /* so many batches have a gradient that is not finite; 0: none */
    bool broken_once;             /* nan_guard: check: when it is computed first */
    bool broken_odd;              /* async: it is, for workers with an odd index alone */
    int64_t delay_us, compute_us; /* up to */
    uint32_t faults;
    struct sim_fault fault[SIM_FAULTS_MAX];
    bool looks;    /* workers look once a second at which ps they reach */
    uint32_t late; /* so many of the last workers are not there before sim_join */
    bool reshape;  /* numbers of ps and workers may change when all start again */
    bool tables;   /* rows of sim_row_layout are looked up, too */
    struct row_admission admission[SIM_TABLES];
    uint32_t kept_bytes; /* of rows that a cut may keep at a time; 0: as in a real ps */
    uint32_t unseen_steps[SIM_TABLES]; /* eviction; 0: rows stay */
    bool turns; /* each chief that starts says otherwise whether there is a round; it never clips */
    struct {
        uint64_t rows; /* 0: none */
        uint32_t window, mix;
    } stream;
};

struct sim;

/* ---- sim_rows.c: tables ---- */

extern const struct row_layout sim_row_layout; /* SIM_IDS: with first values that are exact */

struct sim_row {
    bool there;
    uint32_t count, touches; /* touches: while it was not there */
    uint64_t stamp;
    float w[SIM_DIM_MAX], slots[OPTIMIZER_SLOTS_MAX * SIM_DIM_MAX]; /* slot by slot */
};
struct sim_rows_state {
    struct sim_row row[SIM_TABLES][SIM_KEYS];
    uint64_t admitted[SIM_TABLES], dropped[SIM_TABLES], refused[SIM_TABLES]; /* so far */
    uint64_t squeezed;
    /* ps.memory, of each shard: rows with a stamp up to the floor are gone; no row is made; bytes for new rows, and what its
     * parts have taken of it in the step that leads here */
    uint64_t floor[SIM_SHARDS_MAX];
    bool closed[SIM_SHARDS_MAX];
    uint64_t room[SIM_SHARDS_MAX], taken[SIM_SHARDS_MAX][ROW_PARTS];
    bool lacked[SIM_SHARDS_MAX]; /* some row of that step had no room */
};
struct sim_rows {
    uint64_t mixed[SIM_LISTS][SIM_KEYS]; /* the keys that there are, ascending */
    struct sim_rows_state *state;        /* sync: after each number of steps */
    struct plan plan; /* with a bound for rows: whose shards have it, from begin to end */
};

/* Over all runs of the program, for tests to see that what they are about has come up. */
struct sim_rows_seen {
    uint64_t guesses,
        wrong_guesses;  /* asks with a push; of these of other leaves than came to be computed */
    uint64_t keyless;   /* asks without a key for some shard */
    uint64_t chunkless; /* tasks of a job in which a shard has no chunks */
    uint64_t before, making,
        gone;            /* answers: as of the step before, while a step is being made; refused */
    uint64_t taken_over; /* takeovers while a gate holds rows */
    uint64_t duplicates; /* async: runs of parts that were applied before */
    uint64_t by_ask, by_keys; /* pushes that refer to an ask; with the keys */
    uint64_t bounded;         /* ssp: answers at a clock */
    uint64_t cuts, cut_rows;  /* that were compared, and their rows */
    uint64_t reads;           /* async: rows that were compared */
    uint64_t admitted,
        dropped;          /* the plain loop: rows that touches made, and touches that made none */
    uint64_t kept, held;  /* rows that were kept for a cut; times that training waited for it */
    uint64_t ended;       /* cuts that were over before all of their rows were copied */
    uint64_t clipped;     /* steps of the plain loop whose gradient was scaled down */
    uint64_t broken;      /* rejected ones, and batches, for a row's gradient */
    uint64_t half_redone; /* async: pushes that continue another worker's batch */
    uint64_t stale;       /* async: parts whose rate was divided */
    uint64_t late;        /* decisions that found a shard with all parts summed held for a cut */
    uint64_t evicted;     /* rows of the plain loop that had gone by a later step */
    uint64_t too_late;    /* backup workers: pushes of rows to a step that is over, or decided */
    uint64_t torn;        /* nodes of which a shard had some chunks and parts at the decision */
    uint64_t squeezed,
        refused; /* rows of it that had no room any more; touches that made none for that */
};
extern struct sim_rows_seen sim_rows_seen;

/* Tables b and c have optimizers of their own from here on, and rates that move. */
void sim_rows_own_optimizers(struct row_layout *l);
void sim_rows_init(struct sim *sim);
void sim_rows_close(struct sim *sim);
bool sim_leaf_has(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t list,
                  uint32_t key);
/* The leaves of a step, or of a batch. */
struct sim_leaves {
    const struct sim_leaf *leaf;
    const struct tree_leaves *set; /* of these; NULL: all */
};
/* The gradient of one row, summed over the node's leaves that have its key. False: none has. */
bool sim_row_gradient(const struct sim_config *c, struct sim_leaves of, struct tree_node node,
                      uint32_t table, uint32_t key, const float *w, float *g);
/* Is it a row that is broken of this leaf, and not the block? */
bool sim_breaks_row(const struct sim_config *c, uint64_t batch, uint32_t leaf);
/* Which of the keys it is. */
uint32_t sim_rows_place(const struct sim *sim, uint32_t list, uint64_t mixed);
/* The sum of squares of all rows of the step's summed gradient. */
long double sim_rows_squares(const struct sim *sim, uint64_t step);
void sim_rows_next_step(struct sim *sim, const struct optimizer *o, uint64_t step,
                        uint32_t examples, float scale);
/* These are what a worker begins the step with; async: what some batches, each once, may have made. */
void sim_check_rows(struct sim *sim, uint64_t step, const struct row_values *v);
/* A cut has the rows of its step, or of its resolved batches, and no other ones. `o`: what updated them. */
void sim_check_cut_rows(struct sim *sim, const struct manifest *m, const struct optimizer *o);

/* ---- sim_queue.c: time, chance, what happens next ---- */

struct sim_proc {
    struct sim *sim;
    enum sim_role { SIM_PS, SIM_WORKER } role;
    uint32_t index;
    bool up, exited;
    bool away; /* it left, and stays away */
    int exit_code;
    uint64_t life;     /* changes when it starts and when it dies */
    int64_t frozen_us; /* until then nothing reaches it */
};

struct sim_event {
    int64_t at_us;
    uint64_t order;
    struct sim_proc *proc; /* the event's process: dropped if that life is over; NULL: none */
    uint64_t life;
    void (*run)(struct sim *sim, struct sim_event *e);
    void (*drop)(void *p); /* frees p of an event that does not run */
    uint64_t a, b;
    void *p;
};

struct sim_event *sim_after(struct sim *sim, int64_t us, struct sim_proc *proc,
                            void (*run)(struct sim *, struct sim_event *));
bool sim_next(struct sim *sim); /* run one event; false: none is left */
void sim_queue_close(struct sim *sim);
uint64_t sim_below(struct sim *sim, uint64_t n); /* [0, n); 0 for n = 0 */
bool sim_chance(struct sim *sim, uint32_t one_in);
int64_t sim_ms(const struct sim *sim);
void sim_fail(struct sim *sim, const char *fmt, ...) PRINTF_LIKE(2, 3);
void sim_trace(struct sim *sim, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- sim_net.c ---- */

enum sim_conn_kind {
    CONN_LINK,    /* worker -> shard */
    CONN_CONTROL, /* chief -> ps */
    CONN_MEMBER,  /* worker -> chief; worker 0: inside its process */
};
enum { DIALER, ACCEPTOR };

struct sim_conn {
    struct sim_conn *next;
    enum sim_conn_kind kind;
    uint32_t from, to; /* worker and shard; 0 and ps; worker and 0 */
    struct sim_proc *proc[2];
    uint64_t life[2];
    bool open[2];
    int64_t last_us[2]; /* arrival of the last message to that end */
    int64_t cut_us;     /* a message that would arrive later is lost */
    uint32_t sent;      /* by the dialer; the hello is the first */
    bool said_hello;    /* the acceptor has taken the hello */
    bool answered;      /* and the dialer has its answer */
    struct sim_thread *thread;
    struct shard_peer peer;
    struct sim_message *paused[2], **paused_end[2]; /* arrived while that end does not read */
};

struct sim_message {
    struct sim_message *next;
    struct sim_conn *conn;
    int to; /* DIALER or ACCEPTOR */
    uint16_t type;
    size_t bytes;
    uint8_t *head;
    float *body;
    uint64_t elems, body_bytes; /* elems: rounded up, where the body is no floats */
    const float *from;          /* where the sender keeps the body: must not change under it */
    struct sim_message *unsent_next, **unsent_at;
};

/* sim_worker_dialed or sim_chief_dialed tells the dialer; `tell` with c == NULL: refused. */
void sim_dial(struct sim *sim, enum sim_conn_kind kind, uint32_t from, uint32_t to,
              struct sim_proc *dialer, struct sim_proc *acceptor, uint64_t token);
struct sim_conn *sim_connect(struct sim *sim, enum sim_conn_kind kind, uint32_t from, uint32_t to,
                             struct sim_proc *dialer, struct sim_proc *acceptor);
void sim_send(struct sim *sim, struct sim_conn *c, int to, enum frame_type type,
              const ProtobufCMessage *m);
void sim_send_body(struct sim *sim, struct sim_conn *c, int to, enum frame_type type,
                   const ProtobufCMessage *m, const float *body, uint64_t elems,
                   struct sim_message **unsent);
void sim_send_bytes(struct sim *sim, struct sim_conn *c, int to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes,
                    struct sim_message **unsent);
void sim_unsent_forget(struct sim_message **unsent, const float *lo,
                       uint64_t elems); /* lo NULL: all */
void sim_close(struct sim *sim, struct sim_conn *c,
               int end); /* this end; the other gets an end of file */
void sim_break(struct sim *sim, struct sim_conn *c);
/* They do not reach each other until then (INT64_MAX: permanently), though the chief reaches both: an open connection is found
 * dead after a while, a new one gets no answer. For config.looks. */
void sim_block(struct sim *sim, uint32_t worker, uint32_t ps, int64_t until_us);
bool sim_open(const struct sim_conn *c, int end);
void sim_message_free(void *m);
void sim_resume_reading(struct sim *sim, struct sim_conn *c, int end);
void sim_net_close(struct sim *sim);

/* ---- sim_disk.c ---- */

struct sim_file {
    struct sim_file *next;
    uint64_t cut, generation;
    struct checkpoint_file name;
    uint32_t slots;
    float *w, *slot[OPTIMIZER_SLOTS_MAX];
    struct row_copy *rows; /* NULL: the job has no tables */
    struct bins bins[CHECKPOINT_EPOCHS];
    bool corrupt;
};

struct sim_manifest {
    struct sim_manifest *next; /* newest first */
    struct manifest m;
    uint64_t pushed; /* sim_geo.c: bit i: a push brought batch i */
};

void sim_disk_save(struct sim_thread *t, struct shard_image *take_image);
/* As shard_io has them. */
bool sim_disk_save_room(struct sim_thread *t);
void sim_disk_save_rows(struct sim_thread *t, const struct row_group *g);
void sim_disk_save_end(struct sim_thread *t);
enum err sim_disk_load(struct sim *sim, uint64_t cut, struct manifest *m,
                       struct checkpoint_shard *blocks, struct errmsg *e) MUST_CHECK;
enum err sim_disk_find(struct sim *sim, uint64_t below, struct manifest *m) MUST_CHECK;
void sim_disk_publish(struct sim *sim, const struct manifest *m);
void sim_disk_discard(struct sim *sim, uint64_t cut);
const struct sim_manifest *sim_disk_newest(const struct sim *sim);
/* Elements [first, first + n) of a published cut; slots where not NULL. */
enum err sim_disk_read(const struct sim *sim, const struct manifest *m, uint64_t first, uint64_t n,
                       float *w, float *const slot[OPTIMIZER_SLOTS_MAX]) MUST_CHECK;
/* The rows of a published cut. */
enum err sim_disk_read_rows(const struct sim *sim, const struct manifest *m,
                            const struct checkpoint_rows_wanted *w, struct errmsg *e) MUST_CHECK;
void sim_disk_corrupt(struct sim *sim);
void sim_disk_close(struct sim *sim);

/* ---- sim_ps.c ---- */

/* sim_async_rows.c */
enum { SIM_IDS_MAX = 64, SIM_LEFT_MAX = 64 /* batches of a job with geo */ };
struct sim_thread_row {
    bool there;
    float w[SIM_DIM_MAX];
};
struct sim_thread_rows {
    struct sim_thread_row before[SIM_TABLES][SIM_KEYS]; /* a push is taken: what rows were */
    uint64_t part_t[ROW_PARTS], part_clock[ROW_PARTS];  /* the same of parts */
    uint64_t sent_t[SIM_WORKERS_MAX][ROW_PARTS];        /* when the worker was sent rows last */
    uint8_t by[SIM_IDS_MAX][ROW_PARTS];                 /* of each batch: 1 + who had it applied */
};

struct sim_thread {
    struct sim *sim;
    struct sim_ps *ps;
    uint32_t index;
    struct shard *core;
    struct sim_message *unsent;
    struct buffer_pool pool;
    struct generation seen; /* generations only grow */
    int64_t in_us, out_us;  /* when its last letter arrives, each way */
    uint64_t next_cut;
    struct sim_save *save;                 /* the cut that is being saved */
    uint64_t incarnation[SIM_WORKERS_MAX]; /* the largest that was let in */
    uint64_t read_clock;                   /* ssp: the largest that was read at, in `seen` */
    struct sim_mirror *mirror;             /* sim_stale.c */
    struct sim_thread_rows rows;
    ProtobufCMessage *last_push; /* the last one of last_generation that was let in */
    struct generation last_generation;
    bool replays; /* the next refusal is of last_push, and goes to nobody */
    bool refused;
};

struct sim_ps {
    struct sim_proc proc;
    uint32_t threads;
    struct sim_thread thread[SIM_THREADS_MAX];
    struct sim_conn *control;
    char uuid[37], journal[37];
    uint64_t journal_lines;
    uint32_t journal_crc;
    bool going, asked_status;
    struct sim_report *report[SIM_THREADS_MAX]; /* for the chief's hello: being gathered */
    uint32_t fence_waits[SIM_WORKERS_MAX];
    uint64_t fence[SIM_WORKERS_MAX];
    size_t leases;
    Gradwire__WorkerLease *lease[64];
};

void sim_ps_start(struct sim *sim, struct sim_ps *ps);
void sim_ps_stop(struct sim *sim, struct sim_ps *ps);
void sim_ps_go(struct sim *sim, struct sim_ps *ps);
bool sim_thread_reads(const struct sim_conn *c); /* the shard's end of a link */
void sim_thread_go_on(struct sim_thread *t); /* it reads the messages that wait, if it can now */
void sim_ps_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                    ProtobufCMessage *head);
void sim_ps_lost(struct sim *sim, struct sim_conn *c);

/* ---- sim_worker.c: a worker's shell; sim_chief.c: the additional parts of worker 0 ---- */

enum { SIM_LEAVES_MAX = 8, SIM_NODE_ROWS = 5 * SIM_LEAVES_MAX };

struct sim_node {
    struct tree_node node;
    uint32_t examples;
    double sums[GATE_SUMS_MAX];
    uint16_t marks[SIM_NODE_ROWS]; /* (examples) */
    float *value;                  /* (elems) */
    struct row_sums rows;
    const struct row_values *asked;
};

struct sim_worker {
    struct sim_proc proc;
    struct session *session;
    const struct session_terms *terms; /* the session's */
    bool link_up[SIM_SHARDS_MAX];
    bool bounded; /* ssp: its last pull, and at which clock */
    uint64_t clock;
    struct unreached unreached;
    bool turned_away; /* by a shard, and the chief has not welcomed it since */
    bool over;        /* the chief said DONE, with this code */
    int exit_code;
    struct local *local; /* geo */
    struct push_codec *codec;
    struct numbered *stream;   /* NULL: none */
    struct row_values rows[2]; /* of the present task, and of the next one */
    uint32_t rows_now;         /* which of them the task has */
    struct row_values *asked;
    bool guessed; /* the last request was a guess, of step guessed_name */
    uint64_t guessed_name;
    float *w;        /* (elems) */
    float *averages; /* (elems) the chief's, as they were pulled last */
    struct sim_conn *link[SIM_SHARDS_MAX];
    uint64_t link_token[SIM_SHARDS_MAX];
    struct sim_conn *member;
    uint64_t member_token;
    bool chief_up_due; /* the next WELCOME is the first on this connection */
    uint64_t task;     /* counts; a compute event of another one is stale */
    struct generation task_generation;
    uint64_t task_name, task_batch;
    const struct epochs_work *task_work;       /* while it is computed */
    uint32_t nodes, piece_shard, piece_chunks; /* streaming: chunks of that shard not yet sent */
    struct sim_node node[SIM_NODES_MAX];

    struct chief *chief; /* worker 0 */
    bool model_written;  /* by this process */
    struct sim_conn *control[SIM_PS_MAX], *members[SIM_WORKERS_MAX];
    uint64_t control_token[SIM_PS_MAX];
    uint64_t told_step;
    struct generation told_generation;
    uint64_t averaged_step; /* at whose begin they were looked at, in averaged_generation */
    struct generation averaged_generation;
    /* the ask of the cut of kept_step, the end of epoch kept_epoch, in kept_generation */
    uint64_t keep_asks, kept_step, kept_epoch;
    struct generation kept_generation;
    bool keeping, keep_open; /* until it is copied; until it is kept */
    bool noting;             /* the epoch's line is being written */
    uint64_t unkept_step;    /* the best of its predecessor, which was not kept; 0: it was */
    bool goes_back;          /* it has asked for a rollback, in back_generation */
    struct generation back_generation;
    uint64_t epochs_told; /* async: by its chief, of the batches that are done */
    int64_t journal_us;   /* when the last entry is on disk */
    char journal[32];     /* its name */
    bool finishing;
    bool flawed; /* nan_guard: check: the loss of the task that is computed is not finite */
};

void sim_worker_start(struct sim *sim, struct sim_worker *k);
void sim_worker_stop(struct sim *sim, struct sim_worker *k);
void sim_worker_go(struct sim *sim, struct sim_worker *k);
void sim_worker_dialed(struct sim *sim, struct sim_worker *k, enum sim_conn_kind kind, uint32_t to,
                       uint64_t token, struct sim_conn *c);
void sim_worker_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                        ProtobufCMessage *head);
void sim_worker_torn(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                     ProtobufCMessage *head);
void sim_worker_lost(struct sim *sim, struct sim_conn *c);
bool sim_worker_reads(const struct sim *sim, const struct sim_conn *c);
void sim_worker_lose_withheld(struct sim_worker *k);
void sim_worker_pump(struct sim *sim, struct sim_worker *k);

void sim_chief_start(struct sim *sim, struct sim_worker *k);
/* The chief, which is not up, starts next in a directory without a journal. */
void sim_move_chief(struct sim *sim);
void sim_chief_stop(struct sim *sim, struct sim_worker *k);
void sim_chief_dialed(struct sim *sim, struct sim_worker *k, uint32_t ps, uint64_t token,
                      struct sim_conn *c);
void sim_chief_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                       ProtobufCMessage *head);
void sim_chief_lost(struct sim *sim, struct sim_conn *c);
bool sim_chief_between(struct sim *sim, struct sim_worker *k);
/* false: no task is begun */ /* two tasks */
void sim_chief_pump(struct sim *sim, struct sim_worker *k);

/* Over all runs of the program, for tests to see that what they are about has come up. */
struct sim_seen {
    uint64_t reads, encoded; /* ssp: at a clock; of these in a codec */
    uint64_t behind;         /* of these with somebody else's behind */
    /* updates of clock c - s that came after a read at c: the most that is allowed */
    uint64_t missed;
    uint64_t late_tasks;        /* batches that late workers began to compute */
    uint64_t joins;             /* ssp: first entries where others are beyond the first clock */
    uint64_t gone;              /* ssp: live clocks that a shard dropped */
    uint64_t freed;             /* and gated reads that went on by that */
    uint64_t deaths, leaves;    /* workers: killed, asked to stop */
    uint64_t old;               /* pushes of a generation that was over, each refused */
    uint64_t recomputed;        /* chunks: with delay compensation or a rate by staleness */
    uint64_t stale;             /* of these with others' updates since the worker's read */
    uint64_t kept;              /* cuts that were asked for and are published */
    uint64_t adopted;           /* of these by a chief that did not ask for them */
    uint64_t moved;             /* ps that a chief took over in a directory without a journal */
    uint64_t gone_back;         /* takeovers behind an epoch's end that was not kept */
    uint64_t skipped;           /* backup workers: steps rejected after a recovery */
    uint64_t raised;            /* async: shards whose t a cut raises */
    uint64_t flawed_cuts;       /* nan_guard: check: cuts that were not published */
    uint64_t flaws;             /* nan_guard: check: jobs that ended by it, and began again */
    uint64_t parked, came_back; /* workers that did not reach a ps */
    uint64_t own_parked;        /* of these the chief's own */
    uint64_t turned_away;       /* by shards, that the chief welcomed again */
    uint64_t lost;              /* geo: batches in published cuts that nobody pushed */
};
extern struct sim_seen sim_seen;

/* ---- sim_check.c: what is right ---- */

/* ssp: a batch that somebody computed, and at which clock. */
struct sim_update {
    struct generation generation;
    uint32_t worker;
    uint64_t incarnation, id, clock;
    bool outside; /* redone while all were held */
};

void sim_note_update(struct sim_worker *k, uint64_t id);
/* A shard answers a pull at a clock; it takes a push, of chunks or of rows. */
void sim_check_read(struct sim_thread *t, const struct shard_peer *to, const Gradwire__Reply *m);
void sim_check_rows_read(struct sim_thread *t, const struct shard_peer *to,
                         const Gradwire__Rows *m);
void sim_check_update(struct sim_thread *t, const struct shard_peer *from,
                      const Gradwire__Generation *g, uint64_t name);
/* A shard hears of a worker that begins, and of one that is gone. */
void sim_note_entry(struct sim_thread *t, const struct shard_peer *from, const Gradwire__Tick *m);
void sim_shard_gone(struct sim_thread *t, const Gradwire__Gone *m);

/* ---- sim_stale.c: async with delay compensation or a rate by staleness: each update recomputed from what the worker
 * computed it of and the weights as they were ---- */

/* A worker computes a batch of these parameters. */
struct sim_computed {
    struct sim_computed *next; /* newest first */
    struct generation generation;
    uint32_t worker;
    uint64_t incarnation, id;
    float *w; /* (elems) */
};

bool sim_stale_on(const struct sim_config *config);
void sim_stale_computed(struct sim_worker *k, uint64_t id);
void sim_stale_sent(struct sim_thread *t, const struct shard_peer *to, const Gradwire__Reply *m);
void sim_stale_loaded(struct sim_thread *t, const struct manifest *m);
void sim_stale_entered(struct sim_thread *t, struct generation before, const Gradwire__Enter *m);
void sim_stale_pushing(struct sim_thread *t); /* a push is about to be taken */
/* A push is applied, or was of no use: after the shard took it. `g`: its elements, NULL: none. */
void sim_stale_pushed(struct sim_thread *t, const struct shard_peer *from, const Gradwire__Push *m,
                      const float *g);
void sim_stale_saved(struct sim_thread *t, const struct shard_image *image);
void sim_stale_thread_close(struct sim_thread *t);
void sim_stale_close(struct sim *sim);

/* ---- sim_geo.c: which batches are lost ---- */

/* A shard has entered a generation, or has taken a push; the chief begins to publish a cut. */
void sim_geo_entered(struct sim_thread *t, const Gradwire__Enter *m);
void sim_geo_pushed(struct sim_thread *t, const Gradwire__Push *m);
void sim_geo_publish(struct sim *sim, struct sim_manifest *m);

/* ---- sim_async_rows.c: async with tables ---- */

/* A shard has entered a generation; it sends rows; a push of rows is about to be taken, and was. */
void sim_async_rows_entered(struct sim_thread *t, const Gradwire__Enter *m);
void sim_async_rows_sent(struct sim_thread *t, const struct shard_peer *to);
void sim_async_rows_pushing(struct sim_thread *t);
void sim_async_rows_pushed(struct sim_thread *t, const struct shard_peer *from,
                           const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes);

/* ---- sim_stream.c: data.order: stream ---- */

/* Over all runs of the program: the rows of all leaves that were compared. */
struct sim_stream_seen {
    uint64_t rows;
};
extern struct sim_stream_seen sim_stream_seen;

/* The rows and windows of a stream, at random; the epochs become longer. */
void sim_stream_random(struct sim_config *c);
/* chief_config.window_batches */
uint32_t sim_stream_window(const struct sim_config *c);
void sim_stream_start(struct sim_worker *k);
void sim_stream_stop(struct sim_worker *k);
/* The worker computes a task: its rows are those that the contract names. */
void sim_stream_take(struct sim_worker *k, const struct session_task *t);

/* ---- sim_backup.c: which leaves each step is made of, where that is decided as the job runs ---- */

struct sim_history {
    struct sim_history *next; /* newest first */
    struct generation generation;
    struct tree_leaves *set; /* of each step; empty: nothing is decided yet */
    bool *rejected;          /* each step that the chief rejected */
};

/* Over all runs of the program, for tests to see that what they are about has come up. */
struct sim_backup_seen {
    uint64_t dropped, steps; /* microbatches, and steps that dropped some */
    uint64_t mixed;          /* pushes that shards answered with different steps */
    uint64_t redone;         /* extra steps, of jobs that came to their end */
};
extern struct sim_backup_seen sim_backup_seen;

/* Backup workers, at random from r: perhaps a slow worker, perhaps what is dropped is trained again. */
void sim_backup_random(struct sim_config *c, uint64_t r);
/* A push of rows, a decision is about to come in. */
void sim_backup_rows_push(const struct sim_thread *t, const Gradwire__RowsPush *m);
void sim_backup_deciding(const struct sim_thread *t, const Gradwire__StepDecision *m);
/* A shard has entered a generation (`before`: that it was in), it has taken a decision. */
void sim_backup_entered(struct sim_thread *t, struct generation before, const Gradwire__Enter *m);
void sim_backup_decided(struct sim_thread *t, const Gradwire__StepDecision *m);
/* More steps than this a job does not have: where what is dropped is trained again, twice its batches. */
uint64_t sim_steps_max(const struct sim_config *config);
/* Of two generations with one number the later; NULL: nobody has entered it. */
const struct sim_history *sim_backup_history(const struct sim *sim, uint64_t generation);
void sim_backup_close(struct sim *sim);

/* A leaf of a step of the plain loop. */
struct sim_leaf {
    uint64_t batch;
    uint32_t leaf;
    bool there; /* else it has no examples */
};
struct sim_place {
    uint64_t epoch;
    uint64_t regular; /* batches of the epoch before it */
    struct sim_leaf leaf[SIM_LEAVES_MAX];
    size_t left; /* of the epoch's list: what is dropped, and was not trained yet, before it */
    struct sim_leaf *list;
};

struct sim_oracle {
    uint64_t steps, elems;
    uint32_t slots;
    float **w;                         /* after each number of steps; async: w[0] alone */
    float **view;                      /* the same as workers see it: w, or of lossy replies */
    float **slot[OPTIMIZER_SLOTS_MAX]; /* sync */
    uint64_t *t;
    struct epoch_sums (*epoch)[CHECKPOINT_EPOCHS]; /* sync: after each number of steps */
    /* sync: of each step; what is dropped may be trained at the epoch's end */
    struct sim_place *place;
    struct tree_leaves *set; /* sync: of each step; without backup workers all leaves */
    bool *rejected;          /* backup workers: of each step, whatever its gradient is */
    uint64_t known;          /* backup workers: so many steps are as `set` says */
};

/* Is something of these leaves of the batch not finite? NULL: of all leaves. */
bool sim_broken(const struct sim_config *config, uint64_t batch, const struct tree_leaves *of);
/* For this worker: with broken_odd two workers may find different things of the same batch. */
bool sim_broken_for(const struct sim_config *config, uint64_t batch, uint32_t worker);
uint32_t sim_examples(const struct sim_config *config, uint64_t batch, uint32_t leaf);
uint32_t sim_batch_examples(const struct sim_config *config, uint64_t batch); /* of all leaves */
/* metrics.progressive: the bin of one of the leaf's examples, and its label. */
uint16_t sim_mark(const struct sim_config *config, uint64_t batch, uint32_t leaf, uint32_t example);
double sim_sum(const struct sim_config *config, uint64_t batch, uint32_t leaf, uint32_t which);
void sim_leaf_gradient(const struct sim_config *config, uint64_t batch, uint32_t leaf,
                       const float *w, uint64_t elems, float *out);
/* A worker begins step `step` with parameters w: all that do so in one generation have the same. */
void sim_check_parameters(struct sim *sim, struct generation g, uint64_t step, const float *w);
/* Sync: what the chief was sent as the averages of `step`. */
void sim_check_averages(struct sim *sim, struct generation g, uint64_t step, const float *averages);
/* Sync: what the chief shows of an epoch that is over before the step begins, whoever died. */
void sim_check_epoch(struct sim *sim, struct generation g, uint64_t step, uint64_t epoch,
                     const struct session *s);
void sim_oracle_init(struct sim *sim);
void sim_oracle_close(struct sim *sim);
void sim_check_manifest(struct sim *sim, const struct manifest *m);
void sim_check_end(struct sim *sim);

/* ---- sim_flaw.c: nan_guard: check ---- */

/* Of this batch and leaf, whatever the guard is. */
bool sim_flaw_drawn(const struct sim_config *config, uint64_t batch, uint32_t *leaf);
void sim_flaw_take(struct sim *sim, struct sim_worker *k, const struct session_task *t);
bool sim_flaw_shows(struct sim *sim, struct sim_worker *k); /* no more of the task leaves */
bool sim_flaw_ends(const struct sim *sim, const char *text);
bool sim_flaw_is_told(const struct sim *sim);
void sim_flaw_mend(struct sim *sim);

/* ---- sim_run.c ---- */

struct sim_agreed {
    struct generation generation;
    uint64_t hash;
};

struct sim {
    struct sim_config config;
    int64_t now_us;
    uint64_t key, drawn, order;
    size_t events, room;
    struct sim_event **event; /* heap */
    bool tracing, failed, over;
    char failure[2048];
    uint64_t messages;

    struct layout layout;
    struct sim_rows rows;
    struct sim_oracle oracle;
    struct sim_conn *conns;
    struct sim_file *files;
    struct sim_manifest *manifests;
    struct journal journal; /* on disk */
    bool shortened;         /* sim_shorten: the job can end beyond its last epoch */
    uint32_t moves;         /* of the chief, to a directory without a journal: sim_move_chief */
    /* on disk, with sim_config.keeps: the end of the last epoch that has a line, and the best that is kept */
    uint64_t noted_step, best_step, best_epoch;
    bool best_excused; /* an epoch may be missing: its cut could not be written */
    struct sim_history *history;
    uint32_t crc; /* of the next file */
    /* until then the pair does not reach each other */
    int64_t blocked_us[SIM_WORKERS_MAX][SIM_PS_MAX];
    uint32_t save_failures, publish_failures; /* still to come */
    bool failures_given; /* two in all: the third of the final cut would rightly end the job */

    struct sim_ps ps[SIM_PS_MAX];
    struct sim_worker worker[SIM_WORKERS_MAX];
    size_t updates, updates_room;
    struct sim_update *update;
    struct sim_computed *computed;
    bool flawed[SIM_LEFT_MAX],
        mended[SIM_LEFT_MAX]; /* sim_flaw.c: batches that were reported; that are whole */
    float left[SIM_LEFT_MAX]; /* geo: the part of a batch that its round leaves out */
    uint64_t saved_generation, saved_cut, saved_ids; /* sim_stale.c: what the last copies have */
    uint64_t pushed; /* geo: bit i: a push brought batch i, in what the shards have now */
    bool died;       /* somebody was killed */
    bool fenced;     /* a chief has given a worker's place away, or did not wait for it */
    /* (elems) the most that cuts may lack of a mean gradient: who had it died, or had no leaves */
    double *withheld;
    bool took_over; /* so began the last generation */
    bool restored;  /* a shard was filled from a cut: what lossy replies had left is gone */
    struct sim_agreed *agreed; /* per step: the parameters that workers began it with */
    uint64_t entered_tag;
    uint64_t entered; /* the largest generation that any shard has entered */
    int64_t last_fault_us;
    uint32_t rounds;          /* times that all were started */
    struct chief_facts facts; /* at the end */
    float *learned;           /* the weights that were evaluated last */
    bool has_learned;
};

/* A random configuration, without faults. */
void sim_config_random(struct sim_config *config, uint64_t seed, bool sync);
void sim_faults_random(struct sim_config *config);
/* Open a cluster and start all processes. */
struct sim *sim_new(const struct sim_config *config);
void sim_free(struct sim *sim);
/* Until the job has ended or something is wrong (sim->failed). */
void sim_run(struct sim *sim);
/* Runs one to its end; a failure fails the test, with `what` and the seed. */
void sim_try(const struct sim_config *config, const char *what, uint64_t seed);
/* Run until `until` returns true or the job is over; false: the latter. */
bool sim_run_until(struct sim *sim, bool (*until)(struct sim *sim));
/* A process dies; it is started again after `restart_us` (negative: not). False: it is down. */
bool sim_kill(struct sim *sim, struct sim_proc *proc, int64_t restart_us);
void sim_exit(struct sim *sim, struct sim_proc *proc, int code);
/* The late ones come. A worker gets SIGTERM, and is not started again; false: it is down, or the chief. */
void sim_join(struct sim *sim);
bool sim_leave(struct sim *sim, struct sim_worker *k);
void sim_restart_all(struct sim *sim);
/* From its next chief on the job has so many epochs, which it may already have. */
void sim_shorten(struct sim *sim, uint64_t epochs);
void sim_waits(struct sim *sim, char *out, size_t bytes);
#ifdef __SANITIZE_THREAD__
enum { SIM_SHORT = 16 }; /* slow, and a simulation has one thread */
#else
enum { SIM_SHORT = 8 };
#endif
uint64_t sim_number(const char *name, uint64_t otherwise); /* of the environment */
/* How many seeds a sweep takes: GRADWIRE_SIM_RUNS, else `runs`; with GRADWIRE_SHORT, and in an emulator, `short_runs`. A seed
 * is the same run on each processor. */
uint64_t sim_runs(uint64_t runs, uint64_t short_runs);
/* By GRADWIRE_SIM_SEED that seed alone. */
void sim_sweep_mode(const char *name, uint64_t base, uint32_t runs, Gradwire__Update update,
                    bool faults);
void sim_sweep(const char *name, uint64_t base, uint32_t runs, bool sync, bool faults);
