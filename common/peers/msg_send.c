#include "common/peers/msg_send.h"

#include <assert.h>

#include "common/base/mem.h"

enum { SMALL_BYTES = 1024 }; /* heads of pushes and replies fit without an allocation */

void msg_send(struct conn *c, enum frame_type type, const ProtobufCMessage *m, const void *body,
              uint64_t body_bytes)
{
    assert(m->descriptor == msg_descriptor(type));
    uint8_t small[SMALL_BYTES];
    size_t bytes = protobuf_c_message_get_packed_size(m);
    uint8_t *head = bytes <= sizeof small ? small : mem_zalloc(bytes, 1);
    if (!head) {
        conn_close(c, ERR_NOMEM, "no memory for a message");
        return;
    }
    protobuf_c_message_pack(m, head);
    enum err err = conn_send(c, type, head, bytes, body, body_bytes);
    (void)err; /* on an error the connection closes itself; on_close gets the reason */
    if (head != small)
        mem_free(head);
}
