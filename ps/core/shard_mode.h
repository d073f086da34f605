/* An update mode: what a shard does with pushes and pulls, as one table of functions over a state of its own. shard.c
 * calls the table of the settings, and does not ask which one it has. NULL in a table: the mode has nothing to do there. */
#ifndef GRADWIRE_PS_CORE_SHARD_MODE_H
#define GRADWIRE_PS_CORE_SHARD_MODE_H

#include "ps/core/shard.h"

struct shard_mode {
    bool steps;      /* all shards make the same step, from one weight block into the other */
    bool optimizes;  /* the optimizer runs here: there are slots */
    bool remainders; /* a push may be what its worker withheld before */

    /* ---- settings that this mode alone heeds ---- */

    bool (*takes)(const Gradwire__Settings *m); /* they are in range; NULL: any are */
    /* The run-time key that memory was laid out by, and that a new chief has otherwise; NULL: none. */
    const char *(*laid_out_otherwise)(const struct shard *s, const Gradwire__Settings *m);

    /* ---- a generation: the state is zeros before open and after close ---- */

    /* Settings and memory for the plan's chunks; NULL: none is wanted. Errors: ERR_NOMEM, without a text; others with one. */
    enum err (*open)(struct shard *s, const Gradwire__Settings *m, struct errmsg *e);
    void (*close)(struct shard *s);
    /* What a cut has beside weights, slots and counters; these are there. Errors: ERR_CORRUPT with a text. */
    enum err (*restore)(struct shard *s, const struct manifest *m, uint64_t cut, struct errmsg *e);
    /* A new chief's run-time keys. Those of a round hold from a step on that no shard has begun. */
    void (*take_over)(struct shard *s, const Gradwire__Settings *m, uint64_t round_from);
    /* A generation is entered, or was to be: workers begin anew. Also comes before close. */
    void (*begin)(struct shard *s);

    /* ---- workers ---- */

    enum err (*join)(struct shard *s, uint32_t worker, uint64_t incarnation); /* ERR_NOMEM */
    void (*on_hello)(struct shard *s, const Gradwire__Hello *m);              /* it is let in */
    /* The push is of this shard's chunks; *wanted: its body is. NULL: always. Errors: ERR_PROTO. */
    enum err (*push_fits)(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                          struct errmsg *e);
    enum err (*on_push)(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e);
    enum err (*on_pull)(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                        struct errmsg *e);
    /* The push is of parts of this shard; *wanted: its body is. Errors: ERR_PROTO. NULL: there are no tables. */
    enum err (*rows_push_fits)(const struct shard *s, const Gradwire__RowsPush *m, bool *wanted,
                               struct errmsg *e);
    enum err (*on_rows_push)(struct shard *s, struct shard_peer *peer, const Gradwire__RowsPush *m,
                             struct buffer *body, uint64_t bytes, struct errmsg *e);
    /* The keys are of this shard. */
    enum err (*on_rows_ask)(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                            struct buffer *body, struct errmsg *e);
    enum err (*on_tick)(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                        struct errmsg *e);
    void (*on_gone)(struct shard *s, const Gradwire__Gone *m);
    /* The worker is sent these chunks, counted from the shard's first, as they are now. */
    void (*sent)(struct shard *s, uint32_t worker, uint32_t first, uint32_t count);

    /* ---- the chief ---- */

    void (*on_decision)(struct shard *s, const Gradwire__StepDecision *m);
    void (*on_step_ask)(struct shard *s);
    bool (*at_boundary)(const struct shard *s); /* a cut may stop it now; NULL: always */
    void (*on_cut_at)(struct shard *s, const Gradwire__CutAt *m); /* before it is copied */
    void (*release)(struct shard *s); /* no cut holds it any more: go on with what has come */

    void (*check)(const struct shard *s); /* assert what holds between two events */
    void (*status)(struct shard *s, Gradwire__ShardStatus *m);
    /* Which workers it waits for; nothing is set where it waits for none. `bits`: room for m->missing. */
    void (*wait)(const struct shard *s, Gradwire__Wait *m, uint8_t bits[TREE_LEAVES_MAX / 8]);
    /* A line for people; false: "N batches applied" says all. */
    bool (*waits_for)(const struct shard *s, char *out, size_t bytes);
};

extern const struct shard_mode shard_mode_sync, shard_mode_async, shard_mode_ssp, shard_mode_geo;
extern const struct shard_mode shard_mode_remainder; /* async, where workers withhold: top_k */

#endif
