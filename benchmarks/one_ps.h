/* A real ps process with one shard thread, over loopback, for programs that measure an exchange with it. They play the chief
 * (hello, ENTER with a plan, async) and one worker, on one thread and one loop, with the connections of the product.
 *
 * Happy path: fork the ps -> control: HELLO -> HELLO_REPLY -> ENTER -> ENTERED -> link: HELLO -> HELLO_REPLY -> `joined`, and
 * what is measured -> one_ps_done: DONE -> the ps exits 0.
 * Failure modes: anything that closes a connection, or the deadline, is one line on stderr and exit 1.
 *
 * The job file only gives both sides the same name and identity. With --tls both sides take tls.crt, tls.key and ca.crt of a
 * folder, whose certificate names 127.0.0.1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/job.h"
#include "common/net/conn.h"
#include "common/parameters/layout.h"
#include "common/wire/msg.h"

struct one_ps;

struct one_ps_options {
    const char *ps, *job, *tls; /* tls: NULL: without */
    bool checksums;             /* as between two hosts */
    uint32_t deadline_s;
};

/* Callbacks of the worker's connection; `owner` is one_ps's. */
struct one_ps_ops {
    void (*joined)(void *owner);
    /* Does the frame's body fit to its head? */
    enum err (*fits)(void *owner, const struct frame *f, const ProtobufCMessage *m);
    /* Where the body of m goes: as conn_ops.on_space. */
    enum err (*space)(void *owner, const ProtobufCMessage *m, uint64_t at, uint64_t left, void **p,
                      size_t *bytes);
    void (*answer)(void *owner, enum frame_type type, const ProtobufCMessage *m);
};

struct one_ps {
    const struct one_ps_options *options;
    const struct one_ps_ops *ops;
    void *owner;
    const struct layout *layout;
    Gradwire__Settings settings; /* of ENTER; what all have in common is there */
    struct conn *link;

    char cert[4096], key[4096], ca[4096]; /* of --tls */
    struct job job;
    struct loop loop;
    struct loop_timer deadline;
    struct conn *control;
    pid_t process;
    uint16_t port, http_port;
    char address[32];
    uint16_t type; /* of the frame that comes in */
    ProtobufCMessage *message;
    bool over;
};

void one_ps_init(struct one_ps *x, const struct one_ps_options *options,
                 const struct one_ps_ops *ops, void *owner, const struct layout *layout);
void one_ps_close(struct one_ps *x);

/* Until the ps has ended. */
void one_ps_run(struct one_ps *x);
/* All is measured. */
void one_ps_done(struct one_ps *x);

/* Of the worker's connection. The body stays until it is out. */
void one_ps_send(struct one_ps *x, enum frame_type type, const ProtobufCMessage *m,
                 const void *body, uint64_t body_bytes);
/* The generation for heads; valid as long as the program runs. */
Gradwire__Generation one_ps_generation(void);
/* Seconds of processor time that the ps has had. */
double one_ps_cpu_s(const struct one_ps *x);
/* The present value of a series of its /metrics: NAME{LABELS} and a space. Blocks until they are read. */
uint64_t one_ps_metric(const struct one_ps *x, const char *series);
