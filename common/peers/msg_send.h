/* Sends a protobuf-c message as a frame. */
#ifndef GRADWIRE_COMMON_PEERS_MSG_SEND_H
#define GRADWIRE_COMMON_PEERS_MSG_SEND_H

#include "common/net/conn.h"
#include "common/wire/msg.h"

/* Packs `m` as the head of a frame and sends it with `body` (NULL: none). The body is not copied: see conn_send.
 * An error closes the connection; on_close gets the reason. Thread: the connection's loop. */
void msg_send(struct conn *c, enum frame_type type, const ProtobufCMessage *m, const void *body,
              uint64_t body_bytes);

#endif
