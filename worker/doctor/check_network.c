/* Names, ports, and the peers that this process connects to: workers connect to the ps and the chief, a ps to none. */
#include <string.h>
#include <stdio.h>
#include <unistd.h>

#include "common/peers/auth.h"
#include "common/serve/http.h"
#include "common/net/listen.h"
#include "common/base/mem.h"
#include "common/process/skew.h"
#include "common/cluster/address.h"
#include "worker/doctor/holder.h"
#include "worker/doctor/check.h"

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
