/* The contents of the hello, and the rules by which a process accepts or refuses it. Pure: greeting.h handles the
 * connection; proto/README.md has the order of the frames. */
#pragma once

#include "common/cluster/cluster.h"
#include "common/net/conn.h"
#include "common/process/contents.h"
#include "common/wire/msg.h"
#include "job/job.h"

/* Fills the hello of a worker (the chief included) for a control connection to ps `ps` or to the chief. For another
 * connection or role, the caller then changes the members that differ. The message borrows the strings. */
void hello_make(Gradwire__Hello *m, const struct job *job, const struct cluster *cluster,
                uint32_t ps);

/* Adds what this process has read as training data. *room is borrowed by the message. */
void hello_add_contents(Gradwire__Hello *m, Gradwire__Contents *room, const struct contents *c);

/* The checksum at the end of a hello's head, which also offers checksums of all later frames: the field `crc`. Nothing else
 * protects the hello itself: it is the first frame. */
enum { HELLO_CRC_BYTES = 6 };
enum hello_crc { HELLO_CRC_NONE, HELLO_CRC_RIGHT, HELLO_CRC_WRONG };
/* Writes it behind the head's `bytes`, and returns the bytes with it. */
size_t hello_add_crc(uint8_t *head, size_t bytes);
enum hello_crc hello_check_crc(const uint8_t *head, size_t bytes);

enum { HELLO_WHY_BYTES = 400 };

/* The accepting process: a ps or the chief. */
struct hello_host {
    const struct job *job;
    const struct cluster *cluster;
    const char *uuid;      /* for a ps: the run that it holds; "": none */
    uint64_t encoding_cut; /* for the chief: as in Refuse */
    /* for the chief: the training data that it has read; NULL: it reads them now, so they are not compared */
    const struct contents *contents;
    /* for a ps: the fingerprint of the training data of the run that it holds, 32 bytes; NULL: none */
    const uint8_t *data;
    char *refused; /* (HELLO_WHY_BYTES) gets the text of each refusal; NULL: nobody asks for it */
};

struct hello_refusal {
    Gradwire__Reason reason;
    bool encoding;         /* the peer encodes its rows differently */
    const char *differing; /* the host's path of the first file that differs; NULL: none */
    char text[HELLO_WHY_BYTES];
};
/* Fills the message of a refusal. It borrows the strings of all arguments, and *room. */
void hello_refuse(Gradwire__Refuse *m, Gradwire__Contents *room, const struct hello_host *host,
                  const struct hello_refusal *why);
/* For the process that is refused with OTHER_DATA: writes the refusal's text, with this process's paths of files.
 * contents: of this process, or NULL. */
void hello_other_data(const Gradwire__Refuse *m, const struct cluster *cluster,
                      const struct contents *contents, char *out, size_t bytes);

/* Returns whether `host` accepts a peer with this hello. If not, *why is filled. */
bool hello_judge(const struct hello_host *host, const Gradwire__Hello *m,
                 struct hello_refusal *why) MUST_CHECK;

/* Sends a protobuf-c message as a frame. */

/* Packs `m` as the head of a frame and sends it with `body` (NULL: none). The body is not copied: see conn_send.
 * An error closes the connection; on_close gets the reason. Thread: the connection's loop. */
void msg_send(struct conn *c, enum frame_type type, const ProtobufCMessage *m, const void *body,
              uint64_t body_bytes);
