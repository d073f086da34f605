/* Differences of parameters that workers push, in push rounds 1, 2, ... of their incarnation. Each (worker, incarnation,
 * round) is added once to each chunk, however often it is retried. */
#ifndef GRADWIRE_PS_CORE_SHARD_DELTA_H
#define GRADWIRE_PS_CORE_SHARD_DELTA_H

#include "ps/core/shard.h"

struct delta; /* which rounds of a worker are added, and which chunks of the running one */

/* Add a push's values, `delta` (elems), to elements [at, at + elems) of block[0]: chunk `chunk`, counted from the
 * shard's first. */
typedef void shard_delta_add(struct shard *s, const Gradwire__Push *m, uint32_t chunk, uint64_t at,
                             uint64_t elems, const float *delta);

/* A worker has sent a hello. A later incarnation starts again with round 1. Errors: ERR_NOMEM. */
enum err shard_delta_join(struct shard *s, uint32_t worker, uint64_t incarnation) MUST_CHECK;
void shard_delta_close(struct shard *s);
/* Find the delta of the push's worker. Errors: ERR_PROTO: the worker has sent no hello, or the push's round is later
 * than the running one. */
enum err shard_delta_turn(const struct shard *s, const struct shard_peer *peer,
                          const Gradwire__Push *m, struct delta **of, struct errmsg *e) MUST_CHECK;
/* Add those of the push's chunks that the running round still lacks; *added grows by their number. Adds nothing if
 * `body` is NULL or the push's round is over. True: all chunks of the round are added, and the round is over. */
bool shard_delta_take(struct shard *s, struct delta *of, const Gradwire__Push *m,
                      const struct buffer *body, shard_delta_add *add, uint32_t *added);

#endif
