/* Errors: one enum, and a fixed buffer in which context is added on the way up. */
#ifndef GRADWIRE_COMMON_BASE_ERR_H
#define GRADWIRE_COMMON_BASE_ERR_H

#define ERR_MAP(X)                                                                                 \
    X(OK, "ok")                                                                                    \
    X(NOMEM, "out of memory")                                                                      \
    X(INPUT, "wrong input")        /* flags, job file, data: the user mends it; exit 2 */          \
    X(PROTO, "protocol violation") /* a peer's bytes are not what proto/README.md says */          \
    X(TOOBIG, "over the limit")                                                                    \
    X(IO, "input/output error")                                                                    \
    X(CLOSED, "connection closed")                                                                 \
    X(TIMEOUT, "timed out")                                                                        \
    X(CORRUPT, "corrupt")          /* a file of ours fails its checksum, or ends early */          \
    X(NEWER, "of a newer release") /* a file of ours, in a format that is not known here yet */    \
    X(DISK, "its own disk fails")  /* a file of this process alone: a fresh start may mend it */   \
    X(NOTFOUND, "not found")                                                                       \
    X(REFUSED, "refused")       /* a peer named a reason for turning us away */                    \
    X(STATE, "not now")         /* the call does not fit the present state */                      \
    X(TLS, "no TLS connection") /* one of the two sides does not take the other, and why is said */

enum err {
#define X(name, text) ERR_##name,
    ERR_MAP(X)
#undef X
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* One line of text for a person: what is wrong, where, and what would be right. */
struct errmsg {
    char text[512];
};

/* The strings of ERR_MAP. */
const char *err_str(enum err code);

/* The exit code that a process ends with for it (docs/explanation/design.md): 2, 138 or 1; 0 of ERR_OK. */
int err_exit_code(enum err code);

/* Write the message and hand the code back: `return err_set(e, ERR_INPUT, "...")`. `e` may be NULL. */
enum err err_set(struct errmsg *e, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Put context in front of what is there ("checkpoint 1200: " + "disk full"); hands the code back. */
enum err err_wrap(struct errmsg *e, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
