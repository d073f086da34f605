/* An update mode: a table of functions that handle pushes and pulls, with the mode's own state. shard.c calls the table
 * that the settings select, and never tests which mode it is. NULL in a table: the mode has nothing to do at this
 * event. Never NULL: close, restore, on_push, on_pull; if the mode has tables also the functions for rows. Any error of
 * on_push, on_pull, on_rows_push, on_rows_ask and on_tick closes the worker's connection. */
#ifndef GRADWIRE_PS_CORE_SHARD_MODE_H
#define GRADWIRE_PS_CORE_SHARD_MODE_H

#include "ps/core/shard.h"

struct shard_mode {
    bool steps;      /* all shards make the same step, from one weight block into the other */
    bool optimizes;  /* the optimizer runs on the shard, which has slots */
    bool remainders; /* a push may consist of values that its worker withheld before */

    /* ---- settings that only this mode uses ---- */

    bool (*takes)(const Gradwire__Settings *m); /* true: they are in range; NULL: any are */
    /* The run-time key whose value determined the layout of memory and differs for the new chief; NULL: none differs. */
    const char *(*laid_out_otherwise)(const struct shard *s, const Gradwire__Settings *m);

    /* ---- a generation: the state is zeros before open and after close ---- */

    /* Check the settings, allocate for the plan's chunks; NULL: nothing to do. Errors: ERR_NOMEM, without a text; others with
     * a text. */
    enum err (*open)(struct shard *s, const Gradwire__Settings *m, struct errmsg *e);
    void (*close)(struct shard *s);
    /* Restore the mode's own part of a cut; weights, slots and counters are already restored. Errors: ERR_CORRUPT with a
     * text. */
    enum err (*restore)(struct shard *s, const struct manifest *m, uint64_t cut, struct errmsg *e);
    /* Take a new chief's run-time keys. Keys of a commit round apply from step round_from on, which no shard has begun. */
    void (*take_over)(struct shard *s, const Gradwire__Settings *m, uint64_t round_from);
    /* A generation is entered, or the attempt has failed: workers start again. Also called before close. */
    void (*begin)(struct shard *s);

    /* ---- workers ---- */

    enum err (*join)(struct shard *s, uint32_t worker, uint64_t incarnation); /* ERR_NOMEM */
    void (*on_hello)(struct shard *s, const Gradwire__Hello *m); /* the worker is admitted */
    /* The push names chunks of this shard. *wanted: read its body. NULL: always read it. Errors: ERR_PROTO. */
    enum err (*push_fits)(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                          struct errmsg *e);
    enum err (*on_push)(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e);
    enum err (*on_pull)(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                        struct errmsg *e);
    /* The push names parts of this shard. *wanted: read its body. NULL: the mode has no tables. Errors: ERR_PROTO. */
    enum err (*rows_push_fits)(const struct shard *s, const Gradwire__RowsPush *m, bool *wanted,
                               struct errmsg *e);
    enum err (*on_rows_push)(struct shard *s, struct shard_peer *peer, const Gradwire__RowsPush *m,
                             struct buffer *body, uint64_t bytes, struct errmsg *e);
    /* All keys belong to this shard. */
    enum err (*on_rows_ask)(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                            struct buffer *body, struct errmsg *e);
    enum err (*on_tick)(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                        struct errmsg *e);
    void (*on_gone)(struct shard *s, const Gradwire__Gone *m);
    /* The worker is being sent the present values of these chunks, counted from the shard's first. */
    void (*sent)(struct shard *s, uint32_t worker, uint32_t first, uint32_t count);

    /* ---- the chief ---- */

    void (*on_decision)(struct shard *s, const Gradwire__StepDecision *m);
    void (*on_step_ask)(struct shard *s);
    bool (*at_boundary)(
        const struct shard *s); /* true: a cut may stop the shard now; NULL: always */
    void (*on_cut_at)(struct shard *s,
                      const Gradwire__CutAt *m); /* called before the cut is copied */
    void (*release)(
        struct shard *s); /* no cut stops the shard any more: process what has arrived */

    void (*check)(const struct shard *s); /* assert the invariants between two events */
    void (*status)(struct shard *s, Gradwire__ShardStatus *m);
    /* Fill in the workers that the shard waits for; nothing is set if it waits for none. `bits`: memory for m->missing. */
    void (*wait)(const struct shard *s, Gradwire__Wait *m, uint8_t bits[TREE_LEAVES_MAX / 8]);
    /* Write a line for people. False: "N batches applied" is enough. */
    bool (*waits_for)(const struct shard *s, char *out, size_t bytes);
};

extern const struct shard_mode shard_mode_sync, shard_mode_async, shard_mode_ssp, shard_mode_geo;
extern const struct shard_mode shard_mode_remainder; /* async with error feedback: top_k */

#endif
