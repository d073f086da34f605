/* Checks before the run: all hosts are checked in parallel, and each problem is reported with its line of the hosts file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/wire/msg.h"
#include "common/process/output.h"
#include "common/cluster/address.h"
#include "launch/remote/check.h"
#include "launch/remote/fleet_state.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"
#include "launch/local/ahead.h"

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
