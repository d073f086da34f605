/* Send a protobuf-c message as a frame. */
#ifndef GRADWIRE_COMMON_PEERS_MSG_SEND_H
#define GRADWIRE_COMMON_PEERS_MSG_SEND_H

#include "common/net/conn.h"
#include "common/wire/msg.h"

/* Pack `m` as the head of one frame, with `body` behind it (NULL: none; it stays where it is, see conn_send). What
 * fails closes the connection, whose on_close says why.
 * Thread: the connection's loop. */
void msg_send(struct conn *c, enum frame_type type, const ProtobufCMessage *m, const void *body,
              uint64_t body_bytes);

#endif
