/* Names, ports, and the peers that this process connects to: workers connect to the ps and the chief, a ps to none. */
#include "worker/doctor/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/cluster/address.h"
#include "common/cluster/cluster.h"
#include "common/net/listen.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"
#include "common/serve/http.h"
#include "common/wire/msg.h"
#include "job/job.h"

enum { LISTENING = 0x0A }; /* TCP_LISTEN, as in /proc/net/tcp */

/* The inode of the socket that listens; 0: none. */
static unsigned long listening_inode(const char *table, uint16_t port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");
    while (file && !inode && fgets(line, sizeof line, file)) {
        unsigned local, state;
        unsigned long found;
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", &local,
                   &state, &found) == 3 &&
            local == port && state == LISTENING)
            inode = found;
    }
    if (file)
        (void)fclose(file);
    return inode;
}

static bool has_open(const char *pid, const char *socket)
{
    char path[300], target[64];
    (void)snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    DIR *d = opendir(path);
    bool found = false;
    for (struct dirent *entry; d && !found && (entry = readdir(d));) {
        (void)snprintf(path, sizeof path, "/proc/%.16s/fd/%.32s", pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        found = n > 0 && (size_t)n == strlen(socket) && memcmp(target, socket, (size_t)n) == 0;
    }
    if (d)
        (void)closedir(d);
    return found;
}

static void program_name(const char *pid, char *name, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(name, (int)bytes, file))
        (void)snprintf(name, bytes, "?");
    name[strcspn(name, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

pid_t holder_of_port(uint16_t port, char *name, size_t bytes)
{
    char socket[64];
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    if (!inode)
        inode = listening_inode("/proc/net/tcp6", port);
    if (!inode)
        return 0;
    (void)snprintf(socket, sizeof socket, "socket:[%lu]", inode);
    DIR *d = opendir("/proc");
    pid_t holder = 0;
    for (struct dirent *entry; d && !holder && (entry = readdir(d));) {
        if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
            !has_open(entry->d_name, socket))
            continue;
        holder = (pid_t)strtol(entry->d_name, NULL, 10);
        program_name(entry->d_name, name, bytes);
    }
    if (d)
        (void)closedir(d);
    return holder;
}

/* Visits a peer of the job: checks whether it can be reached, and whether it would accept a process with our job,
 * version and token. The peer reports that in its answer to a hello with the role DOCTOR, and changes nothing. */
/* Happy path: reach_all -> for each peer that listens, a dialer -> hello -> HELLO_REPLY or REFUSE; the loop ends
 * with the last answer. Failure modes: a peer that does not answer within VISIT_MS is reported with the dialer's
 * reason. */

enum { VISIT_MS = 6000 }; /* for the hellos: longer than a connection waits for a challenge */

struct visit {
    char what[24];           /* "ps 0", "the chief" */
    uint32_t ps;             /* index; 0 for the chief */
    struct reach *reach;     /* the caller's: &r[i] of visit_all */
    bool taken;              /* it would accept us */
    bool refused;            /* it would refuse us */
    Gradwire__Reason reason; /* if refused */
    char why[400];           /* if refused: the text; else why there was no answer */
    /* CLOCK_REALTIME: our clock when the hello was sent and when the answer came; time_ms: the peer's clock in its
     * answer, 0: not reported */
    int64_t asked_ms, answered_ms, time_ms;
};

struct round {
    struct loop loop;
    struct loop_timer bound;
    const struct job *job;
    const struct cluster *cluster;
    struct call *call;
    size_t n, open; /* open: number of those that have not answered */
};

struct call {
    struct round *round;
    struct visit *visit;
    struct dialer *dialer;
    struct conn *conn;
    ProtobufCMessage *message;
    uint16_t type;
    bool over;
};

static void call_over(struct call *c)
{
    if (c->over)
        return;
    c->over = true;
    if (--c->round->open == 0)
        loop_stop(&c->round->loop);
}

static void on_open(struct conn *conn, void *owner)
{
    struct call *c = owner;
    Gradwire__Hello m;
    hello_make(&m, c->round->job, c->round->cluster, c->visit->ps);
    m.role = GRADWIRE__ROLE__DOCTOR;
    m.worker = 0;
    c->conn = conn;
    c->visit->asked_ms = clock_wall_ms();
    dial_hello(c->dialer, conn, &m);
}

static enum err on_head(struct conn *conn, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)conn;
    struct call *c = owner;
    c->type = f->type;
    if (f->body_bytes)
        return ERR_PROTO;
    c->message = msg_unpack(f->type, head, f->head_bytes);
    return c->message ? ERR_OK : ERR_PROTO;
}

static void on_refuse(struct call *c, const Gradwire__Refuse *m)
{
    struct visit *v = c->visit;
    struct errmsg e = {""};
    v->refused = true;
    v->reason = m->reason;
    if (m->identity_text[0])
        (void)!job_identity_compare(m->identity_text, c->round->job->identity_text, &e);
    (void)snprintf(v->why, sizeof v->why, "%.200s%s%.180s%s", m->text, e.text[0] ? " (" : "",
                   e.text, e.text[0] ? ")" : "");
    call_over(c);
}

static enum err on_frame(struct conn *conn, void *owner)
{
    struct call *c = owner;
    ProtobufCMessage *m = c->message;
    c->message = NULL;
    if (c->type == FRAME_REFUSE) {
        on_refuse(c, (const Gradwire__Refuse *)m);
    } else if (c->type == FRAME_HELLO_REPLY) {
        c->visit->taken = true;
        c->visit->answered_ms = clock_wall_ms();
        c->visit->time_ms = ((const Gradwire__HelloReply *)m)->time_ms;
        call_over(c);
    }
    msg_free(m);
    if (c->over)
        conn_close(conn, ERR_OK, "answered");
    return ERR_OK;
}

static void on_close(struct conn *conn, void *owner, enum err code, const char *why)
{
    (void)conn, (void)code;
    struct call *c = owner;
    msg_free(c->message);
    c->message = NULL;
    c->conn = NULL;
    if (!c->over)
        (void)snprintf(c->visit->why, sizeof c->visit->why, "%.200s", why);
    call_over(c);
}

static const struct conn_ops call_ops = {
    .on_open = on_open, .on_head = on_head, .on_frame = on_frame, .on_close = on_close};

static void on_bound(void *arg)
{
    struct round *r = arg;
    for (size_t i = 0; i < r->n; i++) {
        struct call *c = &r->call[i];
        if (c->dialer && !c->over)
            (void)snprintf(c->visit->why, sizeof c->visit->why, "it does not answer%s%.200s",
                           dial_why(c->dialer)[0] ? ": " : "", dial_why(c->dialer));
    }
    loop_stop(&r->loop);
}

static enum err call_begin(struct round *r, struct call *c, struct visit *v)
{
    *c = (struct call){.round = r, .visit = v};
    if (v->reach->is != REACH_OPEN)
        return ERR_OK;
    enum err err = dial_new(&c->dialer, &r->loop, v->what, v->reach->address, &call_ops, c, NULL);
    if (err)
        return err;
    r->open++;
    dial_start(c->dialer);
    return ERR_OK;
}

static enum err talk(struct round *r, struct visit *v)
{
    enum err err = ERR_OK;
    loop_timer_init(&r->bound, &r->loop, on_bound, r);
    for (size_t i = 0; i < r->n && !err; i++)
        err = call_begin(r, &r->call[i], &v[i]);
    if (!err && r->open)
        err = loop_timer_once(&r->bound, VISIT_MS);
    if (!err && r->open)
        err = loop_run(&r->loop);
    loop_timer_stop(&r->bound);
    for (struct call *c = r->call; c < r->call + r->n; c++) {
        c->over = true;
        if (c->conn)
            conn_close(c->conn, ERR_CLOSED, "the visit is over");
        if (c->dialer)
            dial_free(c->dialer);
    }
    return err;
}

/* Visit the n peers v (n), all at the same time: first fill in r (n), whether each can be reached; then send hellos to
 * the peers that can. `job` NULL: send no hellos. Errors: ERR_NOMEM, ERR_IO. Blocks for at most REACH_NAMES_MS +
 * REACH_MS for each 64 peers, and VISIT_MS for the hellos. */
static enum err visit_all(struct visit *v, struct reach *reach, size_t n, const struct job *job,
                          const struct cluster *cluster, struct errmsg *e)
{
    struct round r = {.job = job, .cluster = cluster, .n = n};
    enum err err = reach_all(reach, n, REACH_MS);
    if (err)
        return err_set(e, err, "out of memory");
    if (!job)
        return ERR_OK;
    r.call = mem_zalloc(n + 1, sizeof *r.call);
    if (!r.call)
        return err_memory(e);
    err = loop_init(&r.loop);
    if (!err) {
        err = talk(&r, v);
        loop_close(&r.loop); /* frees the closed connections */
    }
    mem_free(r.call);
    return err ? err_set(e, err, "%s", err_str(err)) : ERR_OK;
}

/* ---- the peers ---- */

static bool list_peers(struct check *p)
{
    const struct cluster *c = &p->cluster;
    p->visit = mem_zalloc((size_t)c->n_ps + 1, sizeof *p->visit);
    p->reach = mem_zalloc((size_t)c->n_ps + 1, sizeof *p->reach);
    if (!p->visit || !p->reach)
        return false;
    if (c->role == ROLE_PS)
        return true;
    for (uint32_t i = 0; i < c->n_ps; i++) {
        struct visit *v = &p->visit[p->visits++];
        v->ps = i;
        p->reach[i].address = c->ps[i];
        (void)snprintf(v->what, sizeof v->what, "ps %u", i);
    }
    if (c->chief && !c->is_chief && c->role != ROLE_EVALUATOR) {
        p->reach[p->visits].address = c->chief;
        p->visit[p->visits++] = (struct visit){.what = "the chief"};
    }
    for (size_t i = 0; i < p->visits; i++)
        p->visit[i].reach = &p->reach[i];
    return true;
}

/* ---- names ---- */

void check_names(struct check *p, struct finding *f)
{
    if (!p->has_cluster)
        return;
    if (!list_peers(p) || reach_names(p->reach, p->visits)) {
        finding_say(f, VERDICT_FAIL, "out of memory");
        return;
    }
    for (size_t i = 0; i < p->visits; i++) {
        const struct reach *r = &p->reach[i];
        if (r->is == REACH_OPEN)
            continue;
        bool wrong = r->is != REACH_NAMELESS; /* not even a valid address */
        finding_say(f, wrong ? VERDICT_FAIL : VERDICT_WARN, "%s, %s, %s%s", p->visit[i].what,
                    r->address, wrong ? "" : "not yet: ", r->why);
    }
    finding_mend(f, VERDICT_WARN,
                 "a pod's name resolves when the pod is ready; the job waits for it for "
                 "timeouts.start_s; a name that never resolves is misspelled or in another "
                 "namespace, or its Service is missing");
    if (p->visits)
        finding_say(f, VERDICT_OK, "all %zu names that it connects to resolve", p->visits);
    else if (!p->cluster.alone)
        finding_say(f, VERDICT_OK, "it connects to no other process");
}

/* ---- its own ports ---- */

static bool is_ours(const char *program)
{
    static const char *const names[] = {"ps", "worker", "gradwire-ps", "gradwire-worker"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(program, names[i]) == 0)
            return true;
    return false;
}

static void say_taken(struct finding *f, const char *address, const struct errmsg *e)
{
    char host[ADDRESS_HOST_MAX], program[64] = "";
    uint16_t port = 0;
    pid_t pid = address_split(address, false, host, &port, NULL)
                    ? 0
                    : holder_of_port(port, program, sizeof program);
    if (pid && is_ours(program)) {
        finding_say(f, VERDICT_WARN, "%s is held by pid %d, %s", address, (int)pid, program);
        finding_mend(f, VERDICT_WARN, "if that is this process, already running, nothing is wrong");
    } else if (pid) {
        finding_say(f, VERDICT_FAIL, "%s is held by pid %d, %s", address, (int)pid, program);
        finding_mend(f, VERDICT_FAIL, "end it, or use another port");
    } else {
        finding_say(f, VERDICT_FAIL, "%s", e->text);
        finding_mend(f, VERDICT_FAIL,
                     "the port may belong to another container on this host's network, or the "
                     "address to another host");
    }
}

/* `auth`: --auth if the job's port is tried; NULL: HTTP, which needs no proof. */
static void try_bind(struct finding *f, const char *address, const char *auth)
{
    struct errmsg e = {""};
    int fd = -1;
    if (listen_bind(&fd, address, 0, &e)) {
        say_taken(f, address, &e);
        return;
    }
    if (auth)
        (void)finding_error(f, auth_check_listener(auth, fd, &e), &e);
    (void)close(fd);
    finding_say(f, VERDICT_OK, "%s can be bound", address);
}

void check_port(struct check *p, struct finding *f)
{
    const struct cluster *c = &p->cluster;
    const struct flags *flags = p->flags;
    char http[ADDRESS_TEXT_MAX];
    if (!p->has_cluster)
        return;
    bool listens = c->role == ROLE_PS || (c->is_chief && !c->alone);
    listens = listens && flags->listen_fd < 0 && c->bind;
    if (listens)
        try_bind(f, c->bind, flags->auth);
    struct errmsg e = {""};
    const struct http_place *place = &flags->http;
    if (!finding_error(f, http_place_check(place, c->bind, listens, &e), &e) && place->port &&
        place->fd < 0) {
        http_place_at(place, c->bind, http);
        try_bind(f, http, NULL);
    }
    if (f->verdict == VERDICT_NONE && !c->alone)
        finding_say(f, VERDICT_OK, "it listens on none");
}

/* ---- peers ---- */

static void judge(const struct visit *v, struct finding *f)
{
    const char *address = v->reach->address;
    switch (v->reach->is) {
    case REACH_NAMELESS: /* reported by check_names */
        return;
    case REACH_REFUSED:
        finding_say(f, VERDICT_WARN, "%s at %s: nothing listens there yet", v->what, address);
        return;
    case REACH_SILENT:
        finding_say(f, VERDICT_FAIL, "%s at %s: no answer in %d s", v->what, address,
                    REACH_MS / 1000);
        return;
    case REACH_FAILED:
        finding_say(f, VERDICT_FAIL, "%s at %s: %s", v->what, address, v->reach->why);
        return;
    case REACH_OPEN:
        break;
    }
    if (v->refused && v->reason != GRADWIRE__REASON__OTHER_VERSION)
        finding_say(f, VERDICT_FAIL, "%s at %s would refuse it: %s", v->what, address, v->why);
    else if (!v->refused && !v->taken && v->why[0])
        finding_say(f, VERDICT_FAIL, "%s at %s: %s", v->what, address, v->why);
}

static void mend_peers(const struct check *p, struct finding *f)
{
    bool silent = false, refused = false;
    for (size_t i = 0; i < p->visits; i++) {
        silent |= p->reach[i].is == REACH_SILENT || p->reach[i].is == REACH_FAILED;
        refused |= p->visit[i].refused;
    }
    finding_mend(f, VERDICT_FAIL,
                 silent    ? "a firewall or a NetworkPolicy drops it, or its host is down"
                 : refused ? "all processes of a job get the same job file, ps list and token"
                           : "is it a gradwire process, and does it have the token?");
    finding_mend(f, VERDICT_WARN, "the job waits for them for timeouts.start_s");
}

void check_peers(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    if (!p->has_cluster)
        return;
    const struct job *job = p->has_job ? &p->job : NULL;
    if (finding_error(f, visit_all(p->visit, p->reach, p->visits, job, &p->cluster, &e), &e))
        return;
    size_t there = 0;
    for (size_t i = 0; i < p->visits; i++) {
        judge(&p->visit[i], f);
        there += p->reach[i].is == REACH_OPEN;
    }
    mend_peers(p, f);
    if (p->visits)
        finding_say(f, VERDICT_OK, "%zu of %zu are reached%s", there, p->visits,
                    p->has_job && there ? ", and would accept it" : "");
    else if (!p->cluster.alone)
        finding_say(f, VERDICT_OK, "it connects to no other process");
}

void check_versions(struct check *p, struct finding *f)
{
    size_t same = 0;
    for (size_t i = 0; i < p->visits; i++) {
        const struct visit *v = &p->visit[i];
        same += v->taken;
        if (v->refused && v->reason == GRADWIRE__REASON__OTHER_VERSION)
            finding_say(f, VERDICT_FAIL, "%s at %s: %s", v->what, v->reach->address, v->why);
    }
    finding_mend(f, VERDICT_FAIL, "give all pods the same image");
    if (p->visits)
        finding_say(f, VERDICT_OK, "%zu of %zu peers reported theirs, which match", same,
                    p->visits);
}

void check_clocks(struct check *p, struct finding *f)
{
    size_t told = 0;
    char text[80];
    for (size_t i = 0; i < p->visits; i++) {
        const struct visit *v = &p->visit[i];
        if (!v->time_ms)
            continue;
        told++;
        const struct skew skew = skew_of(v->asked_ms, v->answered_ms, v->time_ms);
        skew_text(&skew, text, sizeof text);
        if (skew_is_large(&skew))
            finding_say(f, VERDICT_FAIL, "that of %s is %s", v->what, text);
    }
    finding_mend(f, VERDICT_FAIL, "let chrony or ntpd set them; up to %d s are allowed",
                 SKEW_MAX_MS / 1000);
    if (p->visits)
        finding_say(f, VERDICT_OK,
                    "%zu of %zu peers reported theirs, none is off by more than %d s", told,
                    p->visits, SKEW_MAX_MS / 1000);
}
