#include "launch/remote/fleet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/net/listen.h"
#include "common/net/socket.h"
#include "common/process/files.h"
#include "common/base/sha256.h"
#include "common/base/version.h"
#include "launch/base/say.h"
#include "common/process/output.h"
#include "common/cluster/address.h"
#include "launch/remote/check.h"
#include "launch/base/rundir.h"
#include "launch/local/ahead.h"
#include "launch/remote/talk.h"

/* Bits for roles. A worker that is the chief has both bits. */
enum {
    RUNS_CHIEF = 1 << ROLE_CHIEF,
    RUNS_WORKER = 1 << ROLE_WORKER,
    RUNS_PS = 1 << ROLE_PS,
    RUNS_EVALUATOR = 1 << ROLE_EVALUATOR
};

/* A line of the hosts file. */
struct remote {
    struct fleet *fleet;
    const struct host_line *line;
    uint32_t index; /* index of the line */
    uint32_t n;     /* processes */
    unsigned runs;  /* RUNS_* bits of their roles */
    struct link link;
    char *command;          /* the remote shell's command */
    char program[PATH_MAX]; /* path of the launcher on that host */
    struct site site;
    char tls_file[3][PATH_MAX]; /* of site.tls */
    struct event *again;        /* timer for the next attempt to connect */
    int64_t again_ms, lost_ms;
    char said[LINK_WORDS_BYTES + 128]; /* the last logged reason for its loss */
    bool settled;                      /* its ports are bound: processes can start */
    /* before the run */
    bool failed, asked, answered;
    int64_t asked_ms, answered_ms; /* CLOCK_REALTIME */
    json_t *answer;
    char data_hash[SHA256_HEX_BYTES]; /* "": no process there needs data */
};

/* The remote part of one process. */
struct remote_place {
    struct remote *remote;
    uint32_t index; /* index in the crew */
    uint16_t port;  /* 0: not bound yet */
    bool sent;      /* the start request was sent to the runner */
    int log_fd;     /* -1: closed */
};

struct fleet {
    struct fleet_config config;
    const char *rsh;
    char cwd[PATH_MAX];
    char *job_hash;
    struct remote *remote;      /* (lines of the hosts file); n is 0 for a line without processes */
    struct remote_place *place; /* (processes) */
    bool running; /* the checks are over: from now on a lost connection is opened again */
    bool closed;
    struct problems *problems; /* before the run */
    const struct process_events *events;
    void *arg;
    const struct guardian *guardian;
    struct web web;
    bool has_door;
    struct listener door;  /* accepts browsers for the job's page */
    struct loop door_loop; /* config.base in the form that the listener needs */
};

enum { FLEET_KEY_HEX = 32 };

/* ---- processes on other hosts: struct process_ops ---- */

static json_t *argv_json(char *const *argv)
{
    json_t *list = json_array();
    for (; *argv; argv++)
        (void)json_array_append_new(list, json_string(*argv));
    return list;
}

/* Tell the runner to start the process. The host is connected, and its ports are bound. */
static void remote_send(struct process *p)
{
    struct remote_place *place = p->place;
    struct fleet *f = place->remote->fleet;
    place->sent = true;
    talk_send(&place->remote->link.talk, TALK_START, place->index,
              json_pack("{s:o, s:s?, s:b, s:I}", "argv", argv_json(p->argv), "token",
                        f->config.token, "progress", (int)(place->index == f->config.crew->chief),
                        "grace_ms", (json_int_t)f->config.job->timeouts.grace_s * 1000));
}

static enum err remote_start(struct process *p, struct errmsg *e)
{
    struct remote_place *place = p->place;
    files_close(&place->log_fd);
    enum err err = process_open_log(p, &place->log_fd, e);
    if (err)
        return err;
    p->state = PROCESS_AWAITED;
    if (place->remote->settled)
        remote_send(p);
    return ERR_OK;
}

static void remote_signal(struct process *p, int sig)
{
    struct remote_place *place = p->place;
    if (place->sent)
        talk_send(&place->remote->link.talk, TALK_SIGNAL, place->index,
                  json_pack("{s:i}", "signal", sig));
    else
        p->state = PROCESS_ENDED; /* it was only waiting for its host */
}

static void remote_cancel(struct process *p)
{
    const struct remote_place *place = p->place;
    if (!place->sent)
        p->state = PROCESS_ENDED;
}

static const struct process_ops remote_ops = {
    .start = remote_start, .signal = remote_signal, .cancel = remote_cancel};

/* Mark the process as ended. The caller then sends the event. */
static void remote_over(struct process *p)
{
    struct remote_place *place = p->place;
    files_close(&place->log_fd);
    place->sent = false;
    p->state = PROCESS_ENDED;
    p->pid = 0;
}

/* ---- a runner's messages about processes ---- */

static void remote_ended(struct fleet *f, struct process *p, const json_t *m)
{
    process_peak_rss(p, (uint64_t)json_integer_value(json_object_get(m, "rss")));
    remote_over(p);
    f->events->ended(f->arg, p, (int)json_integer_value(json_object_get(m, "status")));
}

static void remote_failed(struct fleet *f, struct process *p, const json_t *m)
{
    char why[400];
    const char *text = json_string_value(json_object_get(m, "why"));
    (void)snprintf(why, sizeof why, "on %s: %s", p->host, text ? text : "it cannot be started");
    remote_over(p);
    f->events->failed(f->arg, p, why);
}

static void remote_started(struct fleet *f, struct process *p, const json_t *m)
{
    p->pid = (pid_t)json_integer_value(json_object_get(m, "pid"));
    p->state = PROCESS_RUNS;
    p->started_ms = clock_now_ms();
    f->events->started(f->arg, p);
}

static bool remote_message(struct fleet *f, struct process *p, enum talk_type type,
                           const char *data, size_t bytes)
{
    const struct remote_place *place = p->place;
    if (type == TALK_OUT) {
        ssize_t wrote = write(place->log_fd, data, bytes);
        (void)wrote; /* a full disk loses the log, not the job */
        return true;
    }
    if (type == TALK_PROGRESS) {
        f->events->progress(f->arg, data, bytes);
        return true;
    }
    static void (*const take[TALK_TYPES])(struct fleet *, struct process *,
                                          const json_t *) = {[TALK_STARTED] = remote_started,
                                                             [TALK_FAILED] = remote_failed,
                                                             [TALK_ENDED] = remote_ended};
    json_t *m = json_loadb(data, bytes, 0, NULL);
    bool right = m && take[type];
    if (right)
        take[type](f, p, m);
    json_decref(m);
    return right;
}

/* ---- remote hosts ---- */

/* Before the run: add a problem of this host. */
static void remote_problem(const struct remote *c, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    problems_add(c->fleet->problems, "%s:%u: %s: %s", c->fleet->config.hosts->file, c->line->line,
                 c->line->name, text);
}

/* Send the runner a request. The answer goes to remote_answered or, before the run, to c->answer. */
static void remote_ask(struct remote *c, json_t *take_ask)
{
    c->asked_ms = clock_wall_ms();
    talk_send(&c->link.talk, TALK_ASK, 0, take_ask);
}

/* Make the request {"what": "bind"} for all processes of the host, with their previous ports. */
static json_t *remote_ask_bind(struct remote *c)
{
    const struct fleet *f = c->fleet;
    json_t *processes = json_array(), *ports = json_array();
    for (uint32_t i = 0; i < f->config.crew->n; i++)
        if (f->config.host_of[i] == c->index) {
            (void)json_array_append_new(processes, json_integer(i));
            (void)json_array_append_new(ports, json_integer(f->place[i].port));
        }
    return json_pack("{s:s, s:i, s:i, s:o, s:o}", "what", "bind", "low", c->line->port_low, "high",
                     c->line->port_high, "processes", processes, "ports", ports);
}

/* Connect to the host. Errors: ERR_IO, ERR_NOMEM. */
static enum err remote_open(struct remote *c, struct errmsg *e)
{
    struct fleet *f = c->fleet;
    enum err err = link_open(&c->link, f->rsh, c->line->name, c->command, e);
    if (!err && f->guardian && guardian_register(f->guardian, c->link.pid, WARD_LINK, e))
        say_warn("host %s: %s; if the launcher is killed, its remote shell may keep running",
                 c->line->name, e->text);
    return err;
}

static void remote_again(struct remote *c)
{
    struct timeval after = clock_timeval(c->again_ms);
    c->again_ms = 2 * c->again_ms < FLEET_AGAIN_MAX_MS ? 2 * c->again_ms : FLEET_AGAIN_MAX_MS;
    (void)event_add(c->again, &after);
}

/* The host is lost: log the reason if it differs from the last one. */
static void remote_say_away(struct remote *c, const char *why)
{
    if (strcmp(c->said, why) == 0)
        return;
    (void)snprintf(c->said, sizeof c->said, "%s", why);
    say_warn("host %s is not reachable: %s; still trying", c->line->name, why);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct remote *c = arg;
    struct errmsg e = {""};
    char why[128];
    int64_t away_s = (clock_now_ms() - c->lost_ms) / 1000;
    uint32_t bound_s = c->fleet->config.job->timeouts.ps_rejoin_s;
    if (away_s > bound_s &&
        (c->runs & (RUNS_PS | RUNS_CHIEF))) { /* the job cannot train without it */
        (void)snprintf(why, sizeof why, "it did not come back within %u s (timeouts.ps_rejoin_s)",
                       bound_s);
        c->fleet->events->end(c->fleet->arg, c->line->name, why);
        return;
    }
    if (remote_open(c, &e)) {
        remote_say_away(c, e.text);
        remote_again(c);
    }
}

/* out = "ps 0, worker 1": the processes that ran on the host. */
static void remote_list(const struct remote *c, char *out, size_t bytes)
{
    const struct fleet_config *config = &c->fleet->config;
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < config->crew->n && at < bytes; i++)
        if (config->host_of[i] == c->index && c->fleet->place[i].sent)
            at += (size_t)snprintf(out + at, bytes - at, "%s%s", at ? ", " : " with ",
                                   config->crew->process[i].name);
}

static void remote_lost(struct remote *c, const char *why)
{
    const struct fleet_config *config = &c->fleet->config;
    char names[256];
    bool was_settled = c->settled;
    c->settled = false;
    if (c->runs & RUNS_CHIEF)
        web_talk(&c->fleet->web, NULL);
    if (was_settled) {
        remote_list(c, names, sizeof names);
        say_warn("host %s is lost%s: %s; it is used again when it is back", c->line->name, names,
                 why);
        c->lost_ms = clock_now_ms();
        c->again_ms = FLEET_AGAIN_FIRST_MS;
        c->said[0] = 0;
    } else {
        remote_say_away(c, why);
    }
    for (uint32_t i = 0; i < config->crew->n; i++) {
        struct process *p = &config->crew->process[i];
        if (config->host_of[i] != c->index || !c->fleet->place[i].sent)
            continue;
        remote_over(p);
        c->fleet->events->lost(c->fleet->arg, p);
    }
    remote_again(c);
}

/* The new runner has bound the old ports: start the processes that wait for this host. */
static void remote_back(struct remote *c)
{
    const struct fleet_config *config = &c->fleet->config;
    say_info("host %s is back after %lld s", c->line->name,
             (long long)(clock_now_ms() - c->lost_ms) / 1000);
    c->settled = true;
    if (c->runs & RUNS_CHIEF)
        web_talk(&c->fleet->web, &c->link.talk);
    for (uint32_t i = 0; i < config->crew->n; i++)
        if (config->host_of[i] == c->index && config->crew->process[i].state == PROCESS_AWAITED)
            remote_send(&config->crew->process[i]);
}

/* Disconnect, so that the runner exits and releases its ports. */
static void remote_send_away(struct remote *c, const char *why)
{
    remote_say_away(c, why);
    link_drop(&c->link);
    remote_again(c);
}

/* Handle the answer to remote_ask_bind of a host that was lost. */
static void remote_rebound(struct remote *c, const json_t *answer)
{
    const json_t *problems = json_object_get(answer, "problems");
    if (json_array_size(problems) == 0)
        remote_back(c);
    else
        remote_send_away(c, json_string_value(json_array_get(problems, 0)));
}

static bool remote_answered(struct remote *c, const char *data, size_t bytes)
{
    json_t *answer = json_loadb(data, bytes, 0, NULL);
    if (!answer)
        return false;
    if (c->fleet->running) {
        if (!c->settled)
            remote_rebound(c, answer);
        json_decref(answer);
        return true;
    }
    c->answered_ms = clock_wall_ms();
    json_decref(c->answer);
    c->answer = answer;
    c->answered = true;
    return true;
}

/* ---- struct link_ops ---- */

static void on_ready(void *arg, const json_t *about)
{
    struct remote *c = arg;
    char why[200];
    const char *version = json_string_value(json_object_get(about, "version"));
    json_int_t cores = json_integer_value(json_object_get(about, "cores"));
    c->site.cores = cores > 0 ? (uint32_t)cores : 1;
    json_int_t memory = json_integer_value(json_object_get(about, "memory_bytes"));
    c->site.memory_bytes = memory > 0 ? (uint64_t)memory : 0;
    bool same = version && strcmp(version, GRADWIRE_VERSION) == 0;
    (void)snprintf(
        why, sizeof why,
        "it has version %.32s, and this host has %s: install the same version on all hosts",
        version ? version : "?", GRADWIRE_VERSION);
    if (!same && !c->fleet->running) {
        remote_problem(c, "%s", why);
        c->failed = true;
    } else if (!same) {
        remote_send_away(c, why);
    } else if (c->fleet->running) {
        remote_ask(c, remote_ask_bind(c));
    }
}

static bool on_message(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes)
{
    struct remote *c = arg;
    struct fleet *f = c->fleet;
    if (type == TALK_ANSWER)
        return remote_answered(c, data, bytes);
    if (type == TALK_WEB_DATA || type == TALK_WEB_CLOSE) {
        if (f->web.talk == &c->link.talk)
            web_on_message(&f->web, type, process, data, bytes, 0);
        return true;
    }
    if (process >= f->config.crew->n || f->config.host_of[process] != c->index ||
        !f->place[process].sent)
        return false;
    return remote_message(f, &f->config.crew->process[process], type, data, bytes);
}

/* True: the remote shell works, but could not execute the launcher: its message contains the path. */
static bool remote_says_missing(const struct remote *c)
{
    const char *workdir = c->line->workdir ? c->line->workdir : c->fleet->cwd;
    const char *words = c->link.words;
    bool program = strstr(words, c->program),
         folder = strstr(words, "cd") && strstr(words, workdir);
    if (program)
        remote_problem(c, "%s does not run there (%s): build it there%s", c->program, words,
                       c->line->workdir ? "" : ", or give its location with workdir=");
    else if (folder)
        remote_problem(c, "cannot change to the directory %s there (%s)%s", workdir, words,
                       c->line->workdir ? "" : ": give the corresponding directory with workdir=");
    return program || folder;
}

static void on_down(void *arg, const char *why)
{
    struct remote *c = arg;
    if (c->fleet->running) {
        remote_lost(c, why);
        return;
    }
    if (!c->failed && !remote_says_missing(c))
        problems_add(c->fleet->problems, "%s:%u: %s cannot be reached: %s",
                     c->fleet->config.hosts->file, c->line->line, c->line->name, why);
    c->failed = true;
}

static const struct link_ops link_ops = {.ready = on_ready, .message = on_message, .down = on_down};

/* ---- life ---- */

/* Translate a path of this host to one of that host: a path below the current directory becomes one below workdir. */
static enum err remote_map(const struct remote *c, char out[PATH_MAX], const char *path,
                           struct errmsg *e)
{
    const char *cwd = c->fleet->cwd, *workdir = c->line->workdir;
    size_t n = strlen(cwd);
    if (!printable_is_utf8(path))
        return err_set(e, ERR_INPUT, "%.300s: a path of a job on several hosts must be UTF-8",
                       path);
    bool below = workdir && n > 1 && strncmp(path, cwd, n) == 0 && path[n] == '/';
    int m = below ? snprintf(out, PATH_MAX, "%s%s", workdir, path + n)
                  : snprintf(out, PATH_MAX, "%s", path);
    return m >= 0 && m < PATH_MAX ? ERR_OK
                                  : err_set(e, ERR_INPUT, "%.200s...: the path is too long", path);
}

/* Translate all paths of a command line. The host has its own certificates, under the same paths. */
static enum err remote_map_all(struct remote *c, const char *launcher, struct errmsg *e)
{
    const struct fleet_config *config = &c->fleet->config;
    const struct tls_files *tls = &config->options->tls;
    const struct {
        char *there;
        const char *here;
    } path[] = {{c->program, launcher},
                {c->site.ps_program, config->here->ps_program},
                {c->site.worker_program, config->here->worker_program},
                {c->site.job, config->here->job},
                {c->site.output, config->output},
                {c->tls_file[0], tls->cert},
                {c->tls_file[1], tls->key},
                {c->tls_file[2], tls->ca}};
    enum err err = ERR_OK;
    for (size_t i = 0; i < sizeof path / sizeof *path && !err; i++)
        err = remote_map(c, path[i].there, path[i].here, e);
    c->site.tls = (struct tls_files){c->tls_file[0], c->tls_file[1], c->tls_file[2], tls->names};
    return err;
}

/* Append text in single quotes, for a shell, to *out. */
static void quote(char *out, size_t room, const char *text)
{
    size_t at = strlen(out);
    for (const char *p = text; at + 6 < room && *p; p++)
        at += (size_t)snprintf(out + at, room - at, *p == '\'' ? "'\\''" : "%c", *p);
}

/* The name of a job's lock on a host, made of the launcher's user and host, DIR, and the line of the hosts file. One runner at
 * a time holds it. */
static enum err remote_key(const struct remote *c, char key[static SHA256_HEX_BYTES],
                           struct errmsg *e)
{
    char name[256] = "", text[2 * PATH_MAX + 1024];
    const char *output = c->fleet->config.output;
    (void)gethostname(name, sizeof name - 1);
    int n = snprintf(text, sizeof text, "%s\n%s%s%s\n%s\n%d", name,
                     output[0] == '/' ? "" : c->fleet->cwd, output[0] == '/' ? "" : "/", output,
                     c->line->address, c->line->has_role ? (int)c->line->role : -1);
    struct sha256 *h = sha256_new();
    if (h)
        sha256_add(h, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    return sha256_hex(h, key) ? err_memory(e) : ERR_OK;
}

static enum err remote_make_command(struct remote *c, struct errmsg *e)
{
    char key[SHA256_HEX_BYTES], text[4 * PATH_MAX] = "cd '";
    enum err err = remote_key(c, key, e);
    if (err)
        return err;
    quote(text, sizeof text, c->line->workdir ? c->line->workdir : c->fleet->cwd);
    strcat(text, "' && exec '");
    quote(text, sizeof text - 64, c->program);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "' runner %.*s", FLEET_KEY_HEX,
                   key);
    c->command = mem_strdup(text);
    return c->command ? ERR_OK : err_memory(e);
}

static enum err remote_init(struct remote *c, struct fleet *f, uint32_t index, const char *launcher,
                            struct errmsg *e)
{
    c->fleet = f;
    c->index = index;
    c->line = &f->config.hosts->host[index];
    c->again_ms = FLEET_AGAIN_FIRST_MS;
    for (uint32_t i = 0; i < f->config.crew->n; i++) {
        if (f->config.host_of[i] != index)
            continue;
        c->n++;
        c->runs |= 1u << f->config.crew->process[i].role;
        c->runs |= i == f->config.crew->chief ? RUNS_CHIEF : 0u;
    }
    if (!c->n)
        return ERR_OK;
    enum err err = remote_map_all(c, launcher, e);
    if (!err)
        err = remote_make_command(c, e);
    if (err)
        return err;
    c->again = evtimer_new(f->config.base, on_again, c);
    if (!c->again || link_init(&c->link, f->config.base, &link_ops, c))
        return err_memory(e);
    return ERR_OK;
}

static void fleet_settle(struct fleet *f)
{
    for (uint32_t i = 0; i < f->config.crew->n; i++) {
        struct process *p = &f->config.crew->process[i];
        f->place[i] = (struct remote_place){
            .remote = &f->remote[f->config.host_of[i]], .index = i, .log_fd = -1};
        p->ops = &remote_ops;
        p->place = &f->place[i];
        p->host = f->place[i].remote->line->name;
    }
}

/* The hosts get them in JSON. */
static enum err check_sets(const struct options *o, struct errmsg *e)
{
    for (size_t i = 0; i < o->n_sets; i++)
        if (!printable_is_utf8(o->sets[i]))
            return err_set(e, ERR_INPUT, "--set %.300s: it must be UTF-8", o->sets[i]);
    return ERR_OK;
}

enum err fleet_new(struct fleet **out, const struct fleet_config *config, struct errmsg *e)
{
    char launcher[PATH_MAX];
    struct fleet *f = mem_zalloc(1, sizeof *f);
    ssize_t n = readlink("/proc/self/exe", launcher, sizeof launcher - 1);
    if (!f)
        return err_memory(e);
    *out = f;
    f->config = *config;
    f->rsh = config->options->rsh ? config->options->rsh : getenv("GRADWIRE_RSH");
    f->rsh = f->rsh && *f->rsh ? f->rsh : LINK_RSH_DEFAULT;
    f->remote = mem_zalloc(config->hosts->n, sizeof *f->remote);
    f->place = mem_zalloc(config->crew->n, sizeof *f->place);
    if (!f->remote || !f->place)
        return err_memory(e);
    if (n <= 0 || !getcwd(f->cwd, sizeof f->cwd))
        return err_set(e, ERR_IO, "the current directory: %s", strerror(errno));
    launcher[n] = 0;
    enum err err = check_sets(config->options, e);
    for (uint32_t i = 0; !err && i < config->hosts->n; i++)
        err = remote_init(&f->remote[i], f, i, launcher, e);
    if (!err)
        fleet_settle(f);
    return err;
}

void fleet_tell(struct fleet *f, const struct process_events *events, void *arg)
{
    f->events = events;
    f->arg = arg;
}

enum err fleet_guard(struct fleet *f, const struct guardian *g, struct errmsg *e)
{
    enum err err = ERR_OK;
    f->guardian = g;
    for (uint32_t i = 0; !err && i < f->config.hosts->n; i++)
        if (f->remote[i].link.pid > 0)
            err = guardian_register(g, f->remote[i].link.pid, WARD_LINK, e);
    return err;
}

/* ---- the page ---- */

/* web_accept closes a connection beyond the limit. */
static void on_browser(void *owner, int fd, const char *peer)
{
    (void)peer;
    struct fleet *f = owner;
    web_accept(&f->web, fd);
    listen_release(&f->door);
}

enum err fleet_serve_page(struct fleet *f, struct errmsg *e)
{
    struct process *chief = &f->config.crew->process[f->config.crew->chief];
    int fd;
    enum err err = listen_bind(&fd, "127.0.0.1:0", 0, e);
    if (err)
        return err;
    uint16_t port = socket_port(fd);
    f->door_loop.base = f->config.base;
    if (listen_start(&f->door, &f->door_loop, fd, WEB_MAX, on_browser, f))
        return err_memory(e);
    f->has_door = true;
    web_init(&f->web, f->config.base);
    web_talk(&f->web, &((struct remote_place *)chief->place)->remote->link.talk);
    (void)snprintf(chief->http, sizeof chief->http, "127.0.0.1:%u", port);
    return ERR_OK;
}

void fleet_reaped(struct fleet *f, pid_t pid)
{
    for (uint32_t i = 0; i < f->config.hosts->n; i++)
        if (f->remote[i].n && link_reaped(&f->remote[i].link, pid))
            return;
}

void fleet_close(struct fleet *f)
{
    int64_t began_ms = clock_now_ms();
    if (f->closed)
        return;
    f->closed = true;
    web_talk(&f->web, NULL);
    if (f->has_door)
        listen_close(&f->door);
    f->has_door = false;
    for (uint32_t i = 0; i < f->config.hosts->n; i++) {
        struct remote *c = &f->remote[i];
        if (c->link.tick)
            link_hang_up(&c->link);
        if (c->again)
            (void)event_del(c->again);
        if (c->n && f->running && !c->settled)
            say_warn(
                "host %s is still unreachable; its processes end %d s after they lose the launcher",
                c->line->name, (TALK_SILENCE_MS + GUARDIAN_GRACE_MS) / 1000);
    }
    for (uint32_t i = 0; i < f->config.hosts->n; i++)
        if (f->remote[i].link.tick)
            link_wait(&f->remote[i].link, began_ms);
}

void fleet_free(struct fleet *f)
{
    if (!f)
        return;
    fleet_close(f);
    for (uint32_t i = 0; f->remote && i < f->config.hosts->n; i++) {
        struct remote *c = &f->remote[i];
        link_free(&c->link);
        if (c->again)
            event_free(c->again);
        json_decref(c->answer);
        mem_free(c->command);
    }
    for (uint32_t i = 0; f->place && i < f->config.crew->n; i++)
        files_close(&f->place[i].log_fd);
    mem_free(f->remote);
    mem_free(f->place);
    mem_free(f->job_hash);
    mem_free(f);
}

/* Checks before the run: all hosts are checked in parallel, and each problem is reported with its line of the hosts file. */

enum { FLEET_ANSWER_MS = 60000 };

/* ---- one request to all hosts ---- */

static bool fleet_waits(const struct fleet *f)
{
    for (uint32_t i = 0; i < f->config.hosts->n; i++) {
        const struct remote *c = &f->remote[i];
        if (c->n && !c->failed && (c->asked ? !c->answered : c->link.state != LINK_READY))
            return true;
    }
    return false;
}

static void fleet_wait(struct fleet *f)
{
    int64_t until_ms = clock_now_ms() + FLEET_ANSWER_MS;
    while (fleet_waits(f) && clock_now_ms() < until_ms) /* the links' timers run, too */
        (void)event_base_loop(f->config.base, EVLOOP_ONCE);
    for (uint32_t i = 0; i < f->config.hosts->n; i++) {
        struct remote *c = &f->remote[i];
        if (c->n && !c->failed && c->asked && !c->answered) {
            remote_problem(c, "it does not answer");
            c->failed = true;
        }
    }
}

static void remote_take_problems(struct remote *c)
{
    size_t i;
    json_t *one, *list = json_object_get(c->answer, "problems");
    if (!json_is_array(list))
        remote_problem(c, "its answer is invalid");
    json_array_foreach(list, i, one) if (json_is_string(one))
        remote_problem(c, "%s", json_string_value(one));
}

/* Send each host the request that `make` returns (NULL: none). `judge` checks the answers that have no problems. */
static void fleet_ask(struct fleet *f, json_t *(*make)(struct remote *),
                      void (*judge)(struct remote *))
{
    for (uint32_t i = 0; i < f->config.hosts->n; i++) {
        struct remote *c = &f->remote[i];
        json_t *ask = c->n && !c->failed ? make(c) : NULL;
        c->asked = c->link.busy = ask != NULL;
        c->answered = false;
        if (ask)
            remote_ask(c, ask);
    }
    fleet_wait(f);
    for (uint32_t i = 0; i < f->config.hosts->n; i++) {
        struct remote *c = &f->remote[i];
        c->link.busy = false;
        if (!c->answered)
            continue;
        size_t before = f->problems->n;
        remote_take_problems(c);
        if (judge && f->problems->n == before)
            judge(c);
        json_decref(c->answer);
        c->answer = NULL;
        c->answered = c->asked = false;
    }
}

/* ---- clocks ---- */

static json_t *ask_clock(struct remote *c)
{
    (void)c;
    return json_pack("{s:s}", "what", "clock");
}

static void judge_clock(struct remote *c)
{
    char off[80];
    int64_t there_ms = json_integer_value(json_object_get(c->answer, "time_ms"));
    const struct skew skew = skew_of(c->asked_ms, c->answered_ms, there_ms);
    if (!skew_is_large(&skew))
        return;
    skew_text(&skew, off, sizeof off);
    remote_problem(
        c, "its clock is %s; at most %d s are allowed: synchronize both clocks with chrony or ntpd",
        off, SKEW_MAX_MS / 1000);
}

/* ---- the job file and the data ---- */

/* True: a process there needs a certificate that names the host. Workers can have another name (--tls_name); no process
 * connects to an evaluator. */
static bool remote_is_named(const struct remote *c)
{
    unsigned worker = *c->fleet->config.options->tls.names ? 0 : RUNS_WORKER;
    return c->runs & (RUNS_PS | RUNS_CHIEF | worker);
}

static json_t *ask_tls(const struct remote *c)
{
    const struct tls_files *f = &c->site.tls;
    char address[ADDRESS_TEXT_MAX] = "";
    if (remote_is_named(c))
        (void)snprintf(address, sizeof address, "%s:0", c->line->address);
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "cert", f->cert, "key", f->key, "ca", f->ca,
                     "names", f->names, "address", address);
}

static struct ahead_crew remote_crew(const struct remote *c)
{
    const struct options *o = c->fleet->config.options;
    const struct crew *crew = c->fleet->config.crew;
    struct ahead_crew here = {.all_ps = o->ps, .all_workers = options_trainers(o)};
    for (uint32_t i = 0; i < crew->n; i++) {
        enum role role = crew->process[i].role;
        if (c->fleet->config.host_of[i] != c->index)
            continue;
        here.ps += role == ROLE_PS;
        here.evaluators += role == ROLE_EVALUATOR;
        here.workers += role == ROLE_WORKER || role == ROLE_CHIEF;
    }
    return here;
}

static json_t *ask_crew(const struct remote *c)
{
    const struct ahead_crew n = remote_crew(c);
    return json_pack("[I, I, I, I, I]", (json_int_t)n.ps, (json_int_t)n.workers,
                     (json_int_t)n.evaluators, (json_int_t)n.all_ps, (json_int_t)n.all_workers);
}

static json_t *ask_check(struct remote *c)
{
    const struct options *o = c->fleet->config.options;
    json_t *sets = json_array();
    for (size_t i = 0; i < o->n_sets; i++)
        (void)json_array_append_new(sets, json_string(o->sets[i]));
    return json_pack("{s:s, s:s, s:s, s:o, s:[s, s], s:b, s:o, s:o}", "what", "check", "job",
                     c->site.job, "job_sha256", c->fleet->job_hash, "sets", sets, "programs",
                     c->site.ps_program, c->site.worker_program, "data",
                     (c->runs & ~(unsigned)RUNS_PS) != 0, "tls", ask_tls(c), "crew", ask_crew(c));
}

/* Check the number of workers against the cores that the host has reported. */
static void remote_count_workers(const struct remote *c)
{
    char text[AHEAD_TEXT_BYTES];
    const struct ahead_crew crew = remote_crew(c);
    bool fit = ahead_count(crew.workers, c->site.cores, "", text);
    if (!fit)
        remote_problem(c, "%s", text);
    else if (*text)
        say_warn("%s: %s", c->line->name, text);
}

static void remote_tell_warnings(const struct remote *c)
{
    size_t i;
    json_t *one, *list = json_object_get(c->answer, "warnings");
    json_array_foreach(list, i, one) if (json_is_string(one))
        say_warn("%s: %s", c->line->name, json_string_value(one));
}

/* Check that names and sizes of the data files equal those of the first host with workers. */
static void judge_check(struct remote *c)
{
    remote_count_workers(c);
    remote_tell_warnings(c);
    static const char key[] = "data_sha256";
    const char *mine = json_string_value(json_object_get(c->answer, key));
    for (uint32_t i = 0; mine && i < c->index; i++) {
        const struct remote *other = &c->fleet->remote[i];
        if (!other->data_hash[0])
            continue;
        if (strcmp(other->data_hash, mine) != 0)
            remote_problem(
                c, "its data differ from the data on %.200s: file names or sizes are not the same",
                other->line->name);
        break;
    }
    if (mine)
        (void)snprintf(c->data_hash, sizeof c->data_hash, "%s", mine);
}

/* ---- ports ---- */

static void judge_bind(struct remote *c)
{
    const struct fleet_config *config = &c->fleet->config;
    json_t *ports = json_object_get(c->answer, "ports");
    size_t k = 0;
    for (uint32_t i = 0; i < config->crew->n; i++) {
        struct process *p = &config->crew->process[i];
        if (config->host_of[i] != c->index)
            continue;
        c->fleet->place[i].port = (uint16_t)json_integer_value(json_array_get(ports, k++));
        (void)snprintf(p->address, sizeof p->address, "%s:%u", c->line->address,
                       c->fleet->place[i].port);
        if (c->fleet->place[i].port == 0)
            remote_problem(c, "its answer is invalid");
    }
    c->settled = true;
}

static json_t *ask_reach(struct remote *c)
{
    const struct crew *crew = c->fleet->config.crew;
    json_t *addresses = json_array();
    for (uint32_t i = 0; i < crew->n; i++)
        (void)json_array_append_new(addresses, json_string(crew->process[i].address));
    return json_pack("{s:s, s:o}", "what", "reach", "addresses", addresses);
}

/* ---- all of it ---- */

static enum err fleet_make_argv(struct fleet *f, struct errmsg *e)
{
    const struct fleet_config *config = &f->config;
    /* the runner there adds its own descriptors */
    const struct handed none = {.listen = -1, .http = -1, .progress = -1, .lock = -1};
    enum err err = ERR_OK;
    for (uint32_t i = 0; !err && i < config->crew->n; i++)
        err = crew_make_argv(config->crew, i, config->options, config->job,
                             &f->remote[config->host_of[i]].site, config->host_of, &none, e);
    return err;
}

static enum err fleet_open_all(struct fleet *f, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; !err && i < f->config.hosts->n; i++)
        err = f->remote[i].n ? remote_open(&f->remote[i], e) : ERR_OK;
    if (!err)
        fleet_wait(f);
    return err;
}

enum err fleet_check(struct fleet *f, struct problems *p, struct errmsg *e)
{
    char hash[SHA256_HEX_BYTES];
    f->problems = p;
    if (!check_hash_file(f->config.options->job, hash))
        return err_set(e, ERR_INPUT, "%s: %s", f->config.options->job, strerror(errno));
    f->job_hash = mem_strdup(hash);
    enum err err = f->job_hash ? fleet_open_all(f, e) : err_memory(e);
    if (err)
        return err;
    fleet_ask(f, ask_clock, judge_clock);
    fleet_ask(f, ask_check, judge_check);
    if (!p->n)
        fleet_ask(f, remote_ask_bind, judge_bind);
    if (!p->n)
        fleet_ask(f, ask_reach, NULL);
    return p->n ? ERR_INPUT : fleet_make_argv(f, e);
}

/* ---- DIR ---- */

/* True: the process must see the launcher's DIR. That is the case for the chief and the evaluator, and for a ps if
 * checkpoint.store is shared. */
static bool remote_shares(const struct remote *c)
{
    unsigned ps = c->fleet->config.job->checkpoint.store == STORE_SHARED ? RUNS_PS : 0;
    return c->runs & (RUNS_CHIEF | RUNS_EVALUATOR | ps);
}

static json_t *ask_shared(struct remote *c)
{
    if (!remote_shares(c))
        return NULL;
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_HOSTS, c->site.output);
    return json_pack("{s:s, s:s, s:s}", "what", "shared", "path", path, "text",
                     c->fleet->config.shared_text);
}

enum err fleet_check_shared(struct fleet *f, struct problems *p, struct errmsg *e)
{
    f->problems = p;
    enum err err = rundir_put(f->config.output, OUTPUT_HOSTS, f->config.shared_text,
                              strlen(f->config.shared_text), e);
    if (err)
        return err;
    fleet_ask(f, ask_shared, NULL);
    f->running = p->n == 0;
    return p->n ? ERR_INPUT : ERR_OK;
}
