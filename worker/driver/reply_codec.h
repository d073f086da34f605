/* How parameters that come in encoded become the flat block. Pure, but for the memory that the coder keeps. */
#ifndef GRADWIRE_WORKER_DRIVER_REPLY_CODEC_H
#define GRADWIRE_WORKER_DRIVER_REPLY_CODEC_H

#include "common/codec/codec.h"
#include "common/wire/msg.h"

/* Decode the body of a reply that session_reply_fits has let in and wants, whose codec is not RAW, into the flat block
 * w, or add it where it is a difference.
 * Errors: ERR_PROTO it does not decode: close the link, the next one begins with the whole parameters; ERR_NOMEM. */
enum err reply_codec_store(struct coder *coder, const struct codec_shape *shape,
                           const Gradwire__Reply *m, const void *in, uint64_t bytes,
                           float *w) MUST_CHECK;

#endif
