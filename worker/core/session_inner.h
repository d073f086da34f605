/* The inside of a session, for the files of worker that make it up. */
#ifndef GRADWIRE_WORKER_CORE_SESSION_INNER_H
#define GRADWIRE_WORKER_CORE_SESSION_INNER_H

#include "worker/core/session.h"

/* session.c */
bool session_running(
    const struct session *s); /* a batch is being computed, or pushed and not acknowledged */
void session_ranges_add(struct session_ranges *r, uint64_t first, uint64_t count);
void session_say_held(struct session *s);
bool session_run_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m);
/* The body's length is what its codec makes of such a run, and that codec may be here. */
bool session_codec_fits(const struct session *s, const Gradwire__Reply *m, uint64_t body_bytes);

void session_pull_any(struct session *s); /* not ssp: the parameters that are there */

/* session_average.c */
void averages_link_up(struct session *s, uint32_t shard);
enum err averages_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                             uint64_t body_bytes, uint64_t *first_elem, bool *wanted,
                             struct errmsg *e) MUST_CHECK;
void averages_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m);

/* session_ssp.c: what bounded staleness does in the place of the rest, or beside it. */
void ssp_wake(struct session *s);               /* idle, and there may be work */
void ssp_pull(struct session *s, bool bounded); /* at my clock, or what is there */
void ssp_redo(struct session *s);               /* ids to be done while all are held */
void ssp_begin(struct session *s);              /* a batch is begun */
void ssp_computed(struct session *s); /* it is computed, and all were sent it that are connected */
void ssp_link_up(struct session *s, uint32_t shard);
enum err ssp_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                        uint64_t body_bytes, uint64_t *first_elem, bool *wanted,
                        struct errmsg *e) MUST_CHECK;
void ssp_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m);

bool session_is_clean(const struct session *s); /* nothing is left to be pushed that could be */

/* session_geo.c */
bool geo_is_clean(const struct session *s);                 /* true in other modes */
bool geo_pushes(struct session *s, struct session_task *t); /* a round is due: *t */
void geo_computed(struct session *s);
void geo_pushed(struct session *s);

/* session_feedback.c */
bool feedback_is_clean(const struct session *s); /* true without */
void feedback_say_held(struct session *s);       /* sync: if there is nothing to wait for */
void feedback_begin(struct session *s);          /* sync: a task is begun: does it go whole? */
bool feedback_pushes(struct session *s, struct session_task *t); /* async: a remainder is due */

#endif
