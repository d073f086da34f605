/* TLS 1.3 with certificates on both sides, by OpenSSL. tls.c: the identity of a process, the names that a peer can have, and
 * the reports (log, metrics, status); tls_link.c: one connection.
 * Use: call tls_load at start-up. Each connection, dialed or accepted, gets a tls_link made from the present files.
 * Handshake, read and write never block; they return which socket event to wait for.
 * Failures: files that do not match each other are refused at start-up, by name. Later, such files are ignored with a
 * warning, and checked again. A peer without a certificate of our CA gets an alert and no data; both sides log one
 * line with the reason.
 * A process has one identity, as with the token; tests have several. Without an identity all connections are plain
 * TCP. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/cluster/cluster.h"

enum {
    TLS_RECORD_BYTES = 16384, /* most plaintext bytes of a record (RFC 8446, 5.1) */
    /* records per key; the bound of AES-GCM is 2^24.5 (RFC 8446, 5.5) */
    TLS_REKEY_RECORDS = 1 << 23,
    TLS_HANDSHAKE_MS = 10000, /* for the complete handshake */
    /* A peer that closes without having sent a byte: before this time it counts as a port check, later as a peer
     * without TLS. */
    TLS_SILENT_MS = 2000,
    TLS_LOOK_MS = 1000, /* interval of the checks for changed files */
    TLS_SAY_MS = 10000, /* time between two log lines about refused peers of one kind */
    TLS_WHY_BYTES = 256,
};

struct metrics;
struct tls;      /* the identity of this process */
struct tls_link; /* one connection */

struct tls_files {
    const char *cert, *key, *ca; /* PEM; "": not given */
    /* "worker=NAME,chief=NAME": more names that peers of a role can have; "": none */
    const char *names;
};

/* ---- identity ---- */

/* Reads the files. Errors: ERR_INPUT with one line that names the file and what is needed; ERR_NOMEM. Thread:
 * start-up's; reads files. */
enum err tls_new(struct tls **t, const struct tls_files *f, struct errmsg *e) MUST_CHECK;
void tls_free(struct tls *t); /* NULL is ignored; each existing tls_link stays valid */
/* Checks, at most every TLS_LOOK_MS, whether a file was replaced: its inode, time or size differs (kubelet swaps a
 * symbolic link). New files are used for connections from now on. Returns true if new files are in use. Thread:
 * any; reads three small files if they have changed. */
bool tls_look(struct tls *t, int64_t now_ms);

/* Loads this process's identity from its flags; without flags it has none. Errors: as tls_new; also if only some
 * of the three files are given. */
enum err tls_load(const struct tls_files *f, struct errmsg *e) MUST_CHECK;
void tls_forget(void);     /* frees the identity of tls_load */
struct tls *tls_own(void); /* NULL: no TLS */
/* A check before starting another process: would tls_load succeed there, does the certificate contain the host of
 * `address` (host:port), under which others connect to the process, and has the given CA signed the certificate?
 * `address` NULL: no process connects to it. Nothing is kept. Errors: as tls_load. */
enum err tls_try(const struct tls_files *f, const char *address, struct errmsg *e) MUST_CHECK;
/* Tests: use another identity, which still belongs to the caller; NULL: none. */
void tls_own_set(struct tls *t);

/* ---- one connection ---- */

enum tls_io {
    TLS_OK,
    TLS_WANTS_READ, /* nothing was done: retry when the socket is readable */
    TLS_WANTS_WRITE,
    TLS_END,   /* the peer has closed the connection */
    TLS_ERROR, /* errno is set; or errno is 0 and tls_link_why has the reason */
};

/* `host`: the name that we connect to, which the peer's certificate must contain; NULL: accepted. The socket still
 * belongs to the caller. Errors: ERR_NOMEM. Thread: any, but only one at a time. */
enum err tls_link_new(struct tls_link **l, struct tls *t, int fd, const char *host) MUST_CHECK;
void tls_link_free(struct tls_link *l); /* NULL is ignored; does not close the socket */
bool tls_link_dialed(const struct tls_link *l);
enum tls_io tls_link_shake(struct tls_link *l); /* advances the handshake; TLS_OK: it is complete */
/* Reads at most one record; *got is the number of bytes, also 0. */
enum tls_io tls_link_read(struct tls_link *l, void *p, size_t bytes, size_t *got);
/* The contents of the next record: `bytes` at `from`, which is `at` or the owner's memory. After TLS_WANTS_* the
 * record waits: the next call must pass the same bytes. OpenSSL has encrypted them already, so they can be at
 * another address by then. With the kernel's TLS the address must stay the same, because OpenSSL keeps only the
 * address (its issue 21202). */
struct tls_record {
    size_t bytes; /* 0: no record waits */
    bool stays;   /* the kernel encrypts: use `at`, and leave it unchanged while the record waits */
    const uint8_t *from;
    uint8_t at[TLS_RECORD_BYTES];
};
struct tls_record *tls_link_record(struct tls_link *l); /* valid as long as the link */
/* Writes that record. On TLS_OK, *sent bytes have left and the record's `bytes` is 0. */
enum tls_io tls_link_write(struct tls_link *l, size_t *sent);
/* Returns whether bytes are buffered here: the socket gives no event for them. */
bool tls_link_pending(const struct tls_link *l);
void tls_link_bye(struct tls_link *l);             /* sends close_notify if the socket accepts it */
bool tls_link_untouched(const struct tls_link *l); /* the peer has sent no byte */
bool tls_link_in_kernel(const struct tls_link *l); /* the kernel encrypts outgoing data */
/* The reason of the last TLS_ERROR, as text for the log; "" if errno was the reason. */
const char *tls_link_why(const struct tls_link *l);

/* ---- names ---- */

/* Returns whether the peer's certificate allows it to be worker `worker` (0: the chief) of this cluster: it
 * contains the host of that entry, if the entry is known here, or a name that `t` allows for the role. If not,
 * `why` has the certificate's names and the expected ones. */
bool tls_link_may_be(const struct tls_link *l, const struct tls *t, const struct cluster *c,
                     uint32_t worker, char *why, size_t bytes);
/* Checks, in a process that accepts connections of workers, that it knows the workers' names. Errors: ERR_INPUT if
 * neither the cluster's list nor --tls_names has them. */
enum err tls_check_cluster(const struct tls *t, const struct cluster *c,
                           struct errmsg *e) MUST_CHECK;

/* ---- reports ---- */

enum tls_refusal {
    TLS_PLAIN,       /* the peer does not use TLS */
    TLS_CERTIFICATE, /* no certificate, wrong CA, expired, or for another host */
    TLS_NAME,        /* no name for the role that the hello claims */
    TLS_HANDSHAKE,   /* timed out, ended or invalid */
    TLS_REFUSALS
};

/* Counts a peer that connected to us and was refused; logs it at most every TLS_SAY_MS per kind. Thread: any. */
void tls_refused(enum tls_refusal kind, const char *peer, const char *why);
enum tls_refusal tls_link_refusal(const struct tls_link *l); /* the kind of a failed handshake */
void tls_count_up(const struct tls_link *l);                 /* counts a completed handshake */
uint64_t tls_refusals(enum tls_refusal kind);

/* The metrics gradwire_tls_*; none without TLS. */
void tls_metrics(struct metrics *m);
/* For /status: file names, the certificate's names and expiry, and counters; never a key. null without TLS.
 * Returns a new reference, or NULL if memory runs out. */
json_t *tls_json(void);
