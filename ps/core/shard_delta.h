/* Differences of parameters that workers push in rounds 1, 2, .. of their incarnation: each (worker, incarnation, round)
 * is added once to each chunk, whatever is retried. */
#ifndef GRADWIRE_PS_CORE_SHARD_DELTA_H
#define GRADWIRE_PS_CORE_SHARD_DELTA_H

#include "ps/core/shard.h"

struct delta;

/* Add elements [at, at + elems) of the shard, one chunk, to block[0]. */
typedef void shard_delta_add(struct shard *s, const Gradwire__Push *m, uint32_t chunk, uint64_t at,
                             uint64_t elems, const float *delta);

/* Rounds of a later incarnation begin anew. Errors: ERR_NOMEM. */
enum err shard_delta_join(struct shard *s, uint32_t worker, uint64_t incarnation) MUST_CHECK;
void shard_delta_close(struct shard *s);
/* Whose round the push is of. Errors: ERR_PROTO: it comes out of turn. */
enum err shard_delta_turn(const struct shard *s, const struct shard_peer *peer,
                          const Gradwire__Push *m, struct delta **of, struct errmsg *e) MUST_CHECK;
/* Add what the running round has not got yet; *added: so many chunks. `body` NULL, or of a round that is over: nothing.
 * True: the round is whole, and over. */
bool shard_delta_take(struct shard *s, struct delta *of, const Gradwire__Push *m,
                      const struct buffer *body, shard_delta_add *add, uint32_t *added);

#endif
