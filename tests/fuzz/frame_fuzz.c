/* libFuzzer: any bytes, torn anyhow, into a connection whose owner unpacks heads as ps and worker
 * do. clang -fsanitize=fuzzer,address,undefined ... tests/fuzz/frame_fuzz.c The first byte says how
 * the rest is torn. Must hold: one on_close and nothing after it; a header that is accepted encodes
 * to the same bytes; no frame that was not sent. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/conn.h"
#include "common/base/log.h"
#include "common/net/loop.h"
#include "common/wire/msg.h"

enum { BODY_MAX = 1 << 16 };

struct owner {
    struct conn *conn;
    size_t frames, bytes;
    int closed;
    uint8_t body[BODY_MAX];
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct owner *o = owner;
    (void)c;
    must(!o->closed);
    o->frames++;
    o->bytes += FRAME_HEADER_BYTES + f->head_bytes + (size_t)f->body_bytes;
    ProtobufCMessage *m = msg_unpack(f->type, head, f->head_bytes);
    if (!m)
        return ERR_PROTO;
    msg_free(m);
    return ERR_OK;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    struct owner *o = owner;
    (void)c;
    must(!o->closed && at + left <= BODY_MAX);
    *p = o->body + at;
    *bytes = left > 100 ? 100 : (size_t)left;
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct owner *o = owner;
    (void)c;
    must(code != ERR_OK && *why != '\0');
    must(o->closed++ == 0);
    o->conn = NULL;
}

static const struct conn_ops ops = {.on_head = on_head, .on_space = on_space, .on_close = on_close};

static void check_header(const uint8_t *data, size_t bytes)
{
    struct frame f;
    uint8_t again[FRAME_HEADER_BYTES];
    char why[200];
    if (bytes < FRAME_HEADER_BYTES)
        return;
    const struct frame_limits limits = {FRAME_PLAIN | FRAME_CHECKED, FRAME_HEAD_MAX, BODY_MAX};
    if (frame_decode(&f, data, &limits) == ERR_OK) {
        frame_encode(again, &f);
        must(memcmp(again, data, sizeof(again)) == 0);
    } else {
        frame_explain(data, &limits, why, sizeof(why));
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_init("fuzz", LOG_ERROR);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct owner o;
    struct loop loop;
    int a[2];
    if (bytes < 1)
        return 0;
    size_t torn = data[0] ? data[0] * (size_t)data[0] : bytes;
    data++, bytes--;
    check_header(data, bytes);
    o.frames = o.bytes = 0;
    o.closed = 0;
    must(loop_init(&loop) == ERR_OK);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a) == 0);
    must(conn_new(&o.conn, &loop, a[0], "fuzz", &ops, &o) == ERR_OK);
    conn_limits(o.conn, FRAME_HEAD_MAX, BODY_MAX);
    conn_offer_checksums(o.conn); /* the first frame decides */
    for (size_t at = 0; at < bytes && !o.closed;) {
        size_t n = bytes - at < torn ? bytes - at : torn;
        ssize_t sent = send(a[1], data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        at += sent > 0 ? (size_t)sent : 0;
        must(loop_tick(&loop, NULL) == ERR_OK);
    }
    close(a[1]);
    while (!o.closed)
        must(loop_tick(&loop, NULL) == ERR_OK);
    must(o.frames <= bytes / FRAME_HEADER_BYTES);
    loop_close(&loop);
    return 0;
}
