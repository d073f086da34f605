/* The contents of the hello, the token that it proves, and the rules by which a process accepts or refuses it. greeting.h
 * handles the connection; proto/README.md has the order of the frames. */
#ifndef GRADWIRE_COMMON_PEERS_HELLO_H
#define GRADWIRE_COMMON_PEERS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/cluster/cluster.h"
#include "common/net/conn.h"
#include "common/process/contents.h"
#include "common/wire/msg.h"
#include "job/job.h"

struct tls_files;

/* The job's token: a secret that exactly the processes of a job have. A connecting process proves in its hello that
 * it has the token, without revealing it. The accepting side sends a nonce, and the hello comes with
 * HMAC-SHA256(token, label | nonce | the hello's bytes) (RFC 2104, FIPS 180-4). So a proof is valid only for this
 * connection and this hello: a recorded one is useless.
 * A process has one token, set at start-up, or none: then hellos have no proof. */
/* Authentication: whether a process that connects to us must prove that it belongs to the job, and if not, on which
 * addresses we can listen.
 * - --auth=auto (the default): a proof is required if this process has a token or certificates. Without them it can
 *   listen on loopback addresses only; in the image, whose entrypoint sets AUTH_POD, also on the pod's addresses,
 *   with a warning.
 * - required: refuse to start without a token or certificates.
 * - none: require no proof, on any address. */

/* An environment variable: this process runs in a pod, and TF_CONFIG or the hosts form has assigned its role. */
#define AUTH_POD "GRADWIRE_POD"

/* Loads the secrets of a process that uses them, and checks the flag --auth against them. It warns if every user of this host
 * can read or change the token's file. Errors: as token_load, tls_load and auth_check. Thread: start-up's; blocks. */
enum err auth_load(const char *flag, int token_fd, const char *token_file,
                   const struct tls_files *tls, struct errmsg *e) MUST_CHECK;

/* Checks the flag against the secrets that this process has. Errors: ERR_INPUT required without any, none with
 * some, or an unknown word. Thread: start-up's, after token_load and tls_load. */
enum err auth_check(const char *flag, struct errmsg *e) MUST_CHECK;

/* Checks whether processes without a secret can reach this listening socket. If they can and --auth=none allows it, it
 * logs this; with AUTH_POD it warns. Errors: ERR_INPUT, with what to do, if they can and must not. Thread:
 * start-up's. */
enum err auth_check_listener(const char *flag, int fd, struct errmsg *e) MUST_CHECK;

/* Returns the proof that a connecting process must give: "tls" (plus the token, if this process has both), "token"
 * or "none". Thread: any, after start-up. */
const char *auth_word(void);

enum {
    TOKEN_BYTES_MIN = 16,
    TOKEN_BYTES_MAX = 512,
    TOKEN_NONCE_BYTES = 32,
    TOKEN_PROOF_BYTES = 32,
    TOKEN_HEX_BYTES = 65 /* for token_make, with the NUL */
};

/* Reads the token from a descriptor (-1: none) to its end and closes it, or from a file ("": none). White space at
 * the end is ignored. With neither, this process has no token. Errors: ERR_INPUT both are given, or the token is
 * too short, too long or unreadable. Thread: start-up's; blocks. */
enum err token_load(int fd, const char *file, struct errmsg *e) MUST_CHECK;
void token_forget(void);
bool token_held(void);

/* token_make writes a new random token as hex. Both return false if the kernel gives no random bytes. */
bool token_make(char hex[TOKEN_HEX_BYTES]);
bool token_nonce(uint8_t nonce[TOKEN_NONCE_BYTES]);

/* Computes the proof for a hello with this process's token. Returns false if it could not be computed. Thread:
 * any. */
bool token_prove(uint8_t proof[TOKEN_PROOF_BYTES], const uint8_t nonce[TOKEN_NONCE_BYTES],
                 const void *hello, size_t bytes) MUST_CHECK;
/* Compares in constant time. */
bool token_equal(const uint8_t a[TOKEN_PROOF_BYTES], const uint8_t b[TOKEN_PROOF_BYTES]);

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
    const char *uuid;                /* for a ps: the run that it holds; "": none */
    uint64_t encoding_cut;           /* for the chief: as in Refuse */
    const struct contents *contents; /* for the chief: the training data that it has read */
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

#endif
