/* Errors: an enum of codes, and a fixed buffer for the message. Each caller on the way up can add context to it. */
#pragma once

#define ERR_MAP(X)                                                                                 \
    X(OK, "ok")                                                                                    \
    X(NOMEM, "out of memory")                                                                      \
    X(FILES, "too few file descriptors")                                                           \
    X(INPUT, "wrong input")        /* flags, job file, data: the user must fix it; exit 2 */       \
    X(PROTO, "protocol violation") /* a peer's bytes violate proto/README.md */                    \
    X(TOOBIG, "over the limit")                                                                    \
    X(IO, "input/output error")                                                                    \
    X(CLOSED, "connection closed")                                                                 \
    X(TIMEOUT, "timed out")                                                                        \
    X(CORRUPT, "corrupt")          /* one of our files is truncated or fails its checksum */       \
    X(NEWER, "of a newer release") /* one of our files, in a format this release lacks */          \
    X(DISK, "its own disk fails")  /* a local file failed: a restart can help; exit 138 */         \
    X(NOTFOUND, "not found")                                                                       \
    X(REFUSED, "refused")       /* a peer refused us and gave the reason */                        \
    X(STATE, "not now")         /* the call is not allowed in the present state */                 \
    X(TLS, "no TLS connection") /* one side does not accept the other; the text says why */

enum err {
#define X(name, text) ERR_##name,
    ERR_MAP(X)
#undef X
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* One line of text for the user: what is wrong, where, and what to do. It is printable, whatever it quotes
 * (printable.h). A longer text is truncated after a whole character. */
struct errmsg {
    char text[512];
};

/* Returns the text from ERR_MAP. */
const char *err_str(enum err code);

/* Returns the exit code of a process that ends with this error (docs/explanation/design.md): 0 for ERR_OK, 2 for
 * ERR_INPUT, 138 for ERR_NOMEM, ERR_FILES and ERR_DISK, otherwise 1. If the process's memory is limited, ERR_NOMEM is
 * 1: after a restart the limit is the same. */
int err_exit_code(enum err code);

/* Returns the kind of an errno value of a call that opens a file or a socket: ERR_NOMEM, ERR_FILES, otherwise ERR_IO. */
enum err err_of_errno(int error) MUST_CHECK;

/* The limits of this process, in words such as "ulimit -v is 65536 KiB"; "": none. The texts of ERR_NOMEM and ERR_FILES
 * end with them. Thread: main's, before others start. */
struct err_limits {
    char memory[80], files[40];
};
void err_limits_set(const struct err_limits *limits);

/* Writes the message and returns `code`: `return err_set(e, ERR_INPUT, "...")`. `e` can be NULL. */
enum err err_set(struct errmsg *e, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* err_set with ERR_NOMEM: "out of memory"; "NAME: out of memory"; "no memory for ...". */
enum err err_memory(struct errmsg *e);
enum err err_memory_of(struct errmsg *e, const char *name);
enum err err_memory_for(struct errmsg *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts context before the present message ("checkpoint 1200: " + "disk full") and returns `code`. `e` can be NULL. */
enum err err_wrap(struct errmsg *e, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);
