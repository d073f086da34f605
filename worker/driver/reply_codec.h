/* Decodes parameters of replies into the flat block. Pure, except for the coder's memory. */
#ifndef GRADWIRE_WORKER_DRIVER_REPLY_CODEC_H
#define GRADWIRE_WORKER_DRIVER_REPLY_CODEC_H

#include "common/codec/codec.h"
#include "common/wire/msg.h"

/* Decode the body of a reply that session_reply_fits has accepted and wants, and whose codec is not RAW, into the
 * flat block w; a difference is added to it. Errors: ERR_PROTO: the body cannot be decoded: close the connection;
 * the next one begins with the whole parameters; ERR_NOMEM. */
enum err reply_codec_store(struct coder *coder, const struct codec_shape *shape,
                           const Gradwire__Reply *m, const void *in, uint64_t bytes,
                           float *w) MUST_CHECK;

#endif
