/* TLS 1.3 with a certificate on both sides, by OpenSSL: who a process is (tls.c), one connection of it (tls_link.c),
 * which names a peer may have (tls_names.c), what is told of it (tls_report.c).
 *
 * Happy path: tls_load at start-up; each connection that is dialed or accepted gets a tls_link of the
 * files as they are then; handshake, read and write never block, and say what they wait for.
 * Failure modes: files that do not fit each other are refused at start-up by name; later they are
 * kept out with a warning and looked at again. A peer without a certificate of our CA gets an alert
 * and nothing else; why it was refused is one line here, and one at the peer.
 *
 * One identity for a process, as with the token; tests have more. Without one all is plain TCP. */
#ifndef GRADWIRE_COMMON_NET_TLS_H
#define GRADWIRE_COMMON_NET_TLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cluster/cluster.h"
#include "common/base/err.h"

enum {
    TLS_RECORD_BYTES = 16384,    /* of plain text, at most (RFC 8446, 5.1) */
    TLS_REKEY_RECORDS = 1 << 23, /* under one key; AES-GCM's bound is 2^24.5 (RFC 8446, 5.5) */
    TLS_HANDSHAKE_MS = 10000,    /* for the whole of it */
    TLS_SILENT_MS =
        2000, /* who says nothing for so long does not only look whether the port is there */
    TLS_LOOK_MS = 1000, /* between two looks at the files */
    TLS_SAY_MS = 10000, /* between two log lines of a kind about refused peers */
    TLS_WHY_BYTES = 256,
};

struct metrics;
struct tls;      /* who this process is */
struct tls_link; /* one connection */

struct tls_files {
    const char *cert, *key, *ca; /* PEM; "": not given */
    const char *names; /* "worker=NAME,chief=NAME": more names that a role may have; "": none */
};

/* ---- who this process is ---- */

/* Errors: ERR_INPUT with one line that names the file, and what would be right; ERR_NOMEM.
 * Thread: start-up; reads files. */
enum err tls_new(struct tls **t, const struct tls_files *f, struct errmsg *e) MUST_CHECK;
void tls_free(struct tls *t); /* NULL is ignored; links live on */
/* Look whether a file is another one than before (by inode, time and size: kubelet swaps a symlink), not
 * more often than each TLS_LOOK_MS, and take the new ones for connections from now on. True: taken.
 * Thread: any; reads three small files when they have changed. */
bool tls_look(struct tls *t, int64_t now_ms);

/* The process's own, from its flags: nothing given is none. Errors: as tls_new; some of the three are
 * missing. */
enum err tls_load(const struct tls_files *f, struct errmsg *e) MUST_CHECK;
void tls_forget(void);
struct tls *tls_own(void); /* NULL: none */
/* For who starts others: would tls_load do, and does the certificate name `address` (host:port), as others dial it, and is it
 * of the CA that is given beside it? NULL: nobody dials. Nothing is kept. Errors: as tls_load. */
enum err tls_try(const struct tls_files *f, const char *address, struct errmsg *e) MUST_CHECK;
/* Tests: another one, which stays the caller's. */
void tls_own_set(struct tls *t);

/* ---- one connection ---- */

enum tls_io {
    TLS_OK,
    TLS_WANTS_READ, /* nothing happened: again when the socket is readable */
    TLS_WANTS_WRITE,
    TLS_END,   /* the peer hung up */
    TLS_ERROR, /* errno, or 0 and tls_link_why */
};

/* `host` is who was dialed, as it was asked for: its certificate must name it. NULL: accepted. Errors:
 * ERR_NOMEM. Thread: any; the link is one thread's at a time. */
enum err tls_link_new(struct tls_link **l, struct tls *t, int fd, const char *host) MUST_CHECK;
void tls_link_free(struct tls_link *l); /* NULL is ignored; the socket is left alone */
bool tls_link_dialed(const struct tls_link *l);
enum tls_io tls_link_shake(struct tls_link *l);
/* At most one record. */
enum tls_io tls_link_read(struct tls_link *l, void *p, size_t bytes, size_t *got);
/* What the next record has: `bytes` at `from`, which is `at`, or where the owner has them. After TLS_WANTS_* it waits: as
 * many bytes, and the same ones, go with the next call. OpenSSL has encrypted them already; so they may stand elsewhere
 * by then, but not with the kernel's TLS, of which it keeps no copy, but the address (its issue 21202). */
struct tls_record {
    size_t bytes; /* 0: none waits */
    bool stays;   /* it is the kernel's: in `at`, which is as it was while it waits */
    const uint8_t *from;
    uint8_t at[TLS_RECORD_BYTES];
};
struct tls_record *tls_link_record(struct tls_link *l); /* the link's, as long as it lives */
/* Write that record. Its `bytes` are 0 again when *sent of them have left. */
enum tls_io tls_link_write(struct tls_link *l, size_t *sent);
bool tls_link_pending(
    const struct tls_link *l);         /* bytes are here that the socket will not tell of */
void tls_link_bye(struct tls_link *l); /* close_notify, if the socket takes it */
bool tls_link_untouched(const struct tls_link *l); /* the peer has sent nothing at all */
bool tls_link_in_kernel(const struct tls_link *l); /* the kernel encrypts what is sent */
/* Why the last TLS_ERROR came, in words for the log; "" for one of the socket. */
const char *tls_link_why(const struct tls_link *l);

/* ---- names ---- */

/* Whether the peer's certificate lets it be trainer `worker` (0: the chief) of this cluster: it names the host of that
 * entry, where the entry is known here, or has one of the names that `t` allows for the role. If not, `why` has who
 * it is and what was expected. */
bool tls_link_may_be(const struct tls_link *l, const struct tls *t, const struct cluster *c,
                     uint32_t worker, char *why, size_t bytes);
/* Who accepts trainers must know what they may be called: ERR_INPUT where the cluster does not list them and
 * --tls_names does not say. */
enum err tls_check_cluster(const struct tls *t, const struct cluster *c,
                           struct errmsg *e) MUST_CHECK;

/* ---- what is told ---- */

enum tls_refusal {
    TLS_PLAIN,       /* no TLS at all */
    TLS_CERTIFICATE, /* none, not of our CA, expired, or of another host */
    TLS_NAME,        /* not that of the role that the hello claims */
    TLS_HANDSHAKE,   /* stalled, ended, garbled */
    TLS_REFUSALS
};

/* A peer that came to us was refused: counted, and told now and then. Thread: any. */
void tls_refused(enum tls_refusal kind, const char *peer, const char *why);
enum tls_refusal tls_link_refusal(const struct tls_link *l); /* what a failed handshake was */
void tls_count_up(const struct tls_link *l);                 /* a handshake succeeded */
uint64_t tls_refusals(enum tls_refusal kind);

/* Families gradwire_tls_*; nothing without TLS. */
void tls_metrics(struct metrics *m);
/* For /status: file names, names and dates of certificates, never a key; null without TLS. */
json_t *tls_json(void);

#endif
