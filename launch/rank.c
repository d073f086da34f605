#include "launch/base/say.h"
#include "launch/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/digits.h"
#include "common/cluster/cluster.h"
#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "common/flags/flags.h"
#include "job/job.h"
#include "common/net/listen.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "common/net/tls.h"
#include "common/peers/token.h"
#include "launch/local/ahead.h"
#include "launch/local/crew.h"
#include "launch/base/options.h"
#include "launch/base/rundir.h"
#include "launch/rendezvous.h"

enum {
    RANK_LOOK_EVERY_MS = 50,
    RANK_CHECK_EVERY_MS = 1000,
    RANK_SAY_EVERY_MS = 10000,
    RANKS_MAX = 999999,
    RANKS_NAMED = 8
};

#define RANK_TOKEN "token" /* in the same directory as the ranks' files */

struct rank {
    uint32_t rank, size;
    struct options options; /* the part that crew.c uses */
    const char *address, *token_file;
    const char *http_address;     /* address of the chief's page */
    int http_port;                /* 0: any */
    uint16_t port_low, port_high; /* 0: any */
    struct job job;
    struct site site;
    struct crew crew;
    char output[PATH_MAX - 256], attempt[RANK_ATTEMPT_BYTES];
    char folder[PATH_MAX];  /* output/rendezvous/attempt */
    int listen_fd, lock_fd; /* lock_fd: DIR/lock, held by the chief-to-be; otherwise -1 */
    uint8_t *look;          /* [size], enum rank_verdict; NULL before rank_judge */
    uint32_t bad;           /* the lowest rank whose host cannot run its part; `size`: none */
    char bad_why[RENDEZVOUS_VERDICT_BYTES];
};

/* RANK_LOOKS: the rank checks its host, and its result is not known yet. RANK_HAS_LOOKED: the result is known. */
enum rank_verdict { RANK_LOOKS_NOT = 0, RANK_LOOKS, RANK_HAS_LOOKED };

/* ---- the environment ---- */

enum err rank_find(uint32_t *rank, uint32_t *size, char *(*lookup)(const char *name),
                   struct errmsg *e)
{
    static const struct {
        const char *rank, *size, *other_size;
    } by[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
              {"PMI_RANK", "PMI_SIZE", "PMI_SIZE"},
              {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        if (!lookup(by[i].rank))
            continue;
        const char *n = lookup(by[i].size) ? lookup(by[i].size) : lookup(by[i].other_size);
        if (n && digits_read(n, 1, RANKS_MAX, size) &&
            digits_read(lookup(by[i].rank), 0, *size - 1, rank))
            return ERR_OK;
        return err_set(e, ERR_INPUT, "%s=%.40s and %s=%.40s are not a rank and the number of ranks",
                       by[i].rank, lookup(by[i].rank), by[i].other_size, n ? n : "");
    }
    return err_set(e, ERR_INPUT,
                   "no rank: none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID is set; start "
                   "rank with srun or mpirun, or use gradwire train for one host or a hosts file");
}

static const char *or_zero(const char *text)
{
    return text ? text : "0";
}

enum err rank_attempt(char out[RANK_ATTEMPT_BYTES], const char *given,
                      char *(*lookup)(const char *name), struct errmsg *e)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *by_mpi =
        lookup("PMIX_NAMESPACE") ? lookup("PMIX_NAMESPACE") : lookup("OMPI_MCA_ess_base_jobid");
    int n = 0;
    if (given)
        n = snprintf(out, RANK_ATTEMPT_BYTES, "given-%s", given);
    else if (lookup("OMPI_COMM_WORLD_RANK") && by_mpi)
        n = snprintf(out, RANK_ATTEMPT_BYTES, "mpi-%s", by_mpi);
    else if (lookup("SLURM_PROCID") && lookup("SLURM_JOB_ID"))
        n = snprintf(out, RANK_ATTEMPT_BYTES, "slurm-%s-%s-%s", lookup("SLURM_JOB_ID"),
                     or_zero(lookup("SLURM_STEP_ID")), or_zero(lookup("SLURM_RESTART_COUNT")));
    else
        return err_set(e, ERR_INPUT,
                       "nothing distinguishes this start from the last one: give all ranks the "
                       "same new --attempt ID, such as --attempt $(date +%%s)");
    if (n >= RANK_ATTEMPT_BYTES)
        return err_set(e, ERR_INPUT, "--attempt: the ID is too long");
    for (char *p = out; *p; p++)
        if (!strchr(plain, *p))
            *p = '_';
    return ERR_OK;
}

/* ---- flags ---- */

static enum err rank_check(struct rank *r, struct errmsg *e)
{
    const char *ports = flags_given("ports");
    if (ports && !digits_ports(ports, &r->port_low, &r->port_high))
        return err_set(e, ERR_INPUT,
                       "--ports: '%s' is not allowed; allowed: a range such as 20000-20099", ports);
    enum err err = rank_find(&r->rank, &r->size, getenv, e);
    if (!err)
        err = rank_attempt(r->attempt, flags_given("attempt"), getenv, e);
    if (!err && r->options.ps >= r->size)
        err = err_set(e, ERR_INPUT,
                      "--ps %u leaves none of the %u ranks to train: start more ranks, or give a "
                      "smaller --ps",
                      r->options.ps, r->size);
    if (!err) /* the program that this process becomes reads it again */
        err = token_load(-1, r->token_file ? r->token_file : "", e);
    token_forget();
    if (!err)
        err = tls_try(&r->options.tls, NULL, e);
    if (!err)
        err = site_init(&r->site, &r->options, e);
    if (!err)
        err = job_load(&r->job, r->options.job, r->options.sets, r->options.n_sets, e);
    if (err)
        return err;
    r->options.workers = r->size - r->options.ps;
    err = job_check_workers(&r->job, r->options.workers, e);
    if (!err)
        err = job_output(&r->job, r->options.output, r->output, sizeof r->output, e);
    if (err)
        return err;
    memcpy(r->site.output, r->output, strlen(r->output) + 1);
    return crew_init(&r->crew, &r->options, r->output, e);
}

/* ---- the address ---- */

static enum err rank_bind(struct rank *r, struct errmsg *e)
{
    uint32_t count = (uint32_t)r->port_high - r->port_low + 1;
    char at[16];
    enum err err = ERR_IO;
    for (uint32_t k = 0; err && k < count; k++) {
        uint32_t port = r->port_low + (r->rank + k) % count;
        (void)snprintf(at, sizeof at, ":%u", port);
        err = listen_bind(&r->listen_fd, at, 0, e);
    }
    if (err)
        return r->port_low ? err_set(e, ERR_IO, "--ports: no port from %u to %u is free",
                                     r->port_low, r->port_high)
                           : err;
    return fcntl(r->listen_fd, F_SETFD, 0) == 0 ? ERR_OK
                                                : err_set(e, ERR_IO, "%s", strerror(errno));
}

static enum err rank_name_address(struct rank *r, char *out, size_t bytes, struct errmsg *e)
{
    char name[256] = "";
    const char *node = getenv("SLURMD_NODENAME");
    (void)gethostname(name, sizeof name - 1);
    (void)snprintf(out, bytes, "%.255s:%u",
                   r->address ? r->address
                   : node     ? node
                              : name,
                   socket_port(r->listen_fd));
    const char *problem = cluster_address_problem(out);
    return problem ? err_set(e, ERR_INPUT, "--address: '%s': %s", out, problem) : ERR_OK;
}

/* ---- the rendezvous ---- */

/* Check that no other process has come as this rank. */
static enum err rank_check_own(const struct rank *r, struct errmsg *e)
{
    struct rendezvous_rank there;
    char here[RENDEZVOUS_HOST_BYTES];
    rendezvous_host(here);
    if (!rendezvous_read(r->folder, r->rank, &there) ||
        (there.pid == (long)getpid() && strcmp(there.host, here) == 0))
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "rank %u of the start %s has come already: pid %ld on %s; give each start an "
                   "--attempt of its own",
                   r->rank, r->attempt, there.pid, there.host);
}

static enum err rank_leave_address(const struct rank *r, const char *address, struct errmsg *e)
{
    const struct process *p = &r->crew.process[r->rank];
    struct rendezvous_rank me = {.index = p->index, .pid = (long)getpid()};
    (void)snprintf(me.address, sizeof me.address, "%s", address);
    (void)snprintf(me.role, sizeof me.role, "%s", role_str(p->role));
    rendezvous_host(me.host);
    return rendezvous_leave(r->folder, r->rank, &me, e);
}

/* Rank 0 writes the token before its address, so a rank that finds the address finds the token, too. */
static enum err rank_leave_token(const struct rank *r, struct errmsg *e)
{
    char token[TOKEN_HEX_BYTES];
    if (!token_make(token))
        return err_set(e, ERR_IO, "cannot create a token: the kernel returned no random bytes");
    enum err err = files_mkdirs(r->folder, e);
    mode_t was = umask(S_IRWXG | S_IRWXO);
    if (!err)
        err = rundir_put(r->folder, RANK_TOKEN, token, sizeof token - 1, e);
    (void)umask(was);
    explicit_bzero(token, sizeof token);
    return err;
}

/* A list of ranks as text: "3, 5 and 7 more". */
struct rank_list {
    char *out;
    size_t bytes, at;
    uint32_t n, named;
};

static void rank_list_add(struct rank_list *l, uint32_t i)
{
    l->n++;
    if (l->at + 16 >= l->bytes || l->named >= RANKS_NAMED)
        return;
    l->at += (size_t)snprintf(l->out + l->at, l->bytes - l->at, "%s%u", l->named ? ", " : "", i);
    l->named++;
}

static uint32_t rank_list_end(const struct rank_list *l)
{
    if (l->n > l->named)
        (void)snprintf(l->out + l->at, l->bytes - l->at, " and %u more", l->n - l->named);
    return l->n;
}

/* List the ranks without a file. Returns their number. */
static uint32_t rank_missing(struct rank *r, char *out, size_t bytes)
{
    struct rank_list missing = {.out = out, .bytes = bytes};
    struct rendezvous_rank found;
    for (uint32_t i = 0; i < r->size; i++) {
        struct process *p = &r->crew.process[i];
        if (!p->address[0] && rendezvous_read(r->folder, i, &found))
            memcpy(p->address, found.address, sizeof found.address);
        else if (!p->address[0])
            rank_list_add(&missing, i);
    }
    return rank_list_end(&missing);
}

static enum err rank_check_start(const struct rank *r, struct errmsg *e)
{
    char why[RENDEZVOUS_VERDICT_BYTES];
    if (rendezvous_refused(r->folder, why))
        return err_set(e, ERR_TIMEOUT, "%s", why);
    return rank_check_own(r, e);
}

/* Wait until `missing`, which lists the missing ranks and returns their number, returns 0. */
static enum err rank_await(struct rank *r,
                           uint32_t (*missing)(struct rank *r, char *out, size_t bytes),
                           const char *did_not, struct errmsg *e)
{
    int64_t began_ms = clock_now_ms(), said_ms = began_ms, checked_ms = 0;
    char names[160] = "";
    while (missing(r, names, sizeof names)) {
        int64_t now_ms = clock_now_ms();
        enum err err = ERR_OK;
        if (!checked_ms || now_ms - checked_ms >= RANK_CHECK_EVERY_MS) {
            checked_ms = now_ms;
            err = rank_check_start(r, e);
        }
        if (err)
            return err;
        if (now_ms - began_ms > (int64_t)r->job.timeouts.start_s * 1000)
            return err_set(
                e, ERR_TIMEOUT,
                "these of the %u ranks did not %s %.200s within %u s (timeouts.start_s): %s",
                r->size, did_not, r->folder, r->job.timeouts.start_s, names);
        if (now_ms - said_ms >= RANK_SAY_EVERY_MS) {
            said_ms = now_ms;
            log_info("waiting %lld s for ranks %s of %u in %s",
                     (long long)(now_ms - began_ms) / 1000, names, r->size, r->folder);
        }
        clock_sleep_ms(RANK_LOOK_EVERY_MS);
    }
    return ERR_OK;
}

/* ---- checks before the ranks become processes of the job ---- */

/* True: ranks i and k are on the same host, according to their addresses. */
static bool rank_beside(const struct rank *r, uint32_t i, uint32_t k)
{
    const char *one = r->crew.process[i].address, *two = r->crew.process[k].address;
    size_t host = (size_t)(strrchr(one, ':') - one);
    return strncmp(one, two, host) == 0 && two[host] == ':' && !strchr(two + host + 1, ':');
}

/* True: rank i is the first on its host, which checks for all ranks there. */
static bool rank_is_first(const struct rank *r, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (rank_beside(r, i, k))
            return false;
    return true;
}

/* True: the scheduler has given each rank its own cores. */
static bool rank_is_bound(const struct rank *r)
{
    return (long)r->site.cores < sysconf(_SC_NPROCESSORS_ONLN);
}

static void say_it(void *arg, const char *text)
{
    (void)arg;
    log_warn("%s", text);
}

/* Run the checks of `train` (launch/local/ahead.h) for the ranks of this host. */
static enum err rank_look(const struct rank *r, struct errmsg *e)
{
    struct ahead a = {.worker_program = r->site.worker_program,
                      .job = r->site.job,
                      .sets = r->options.sets,
                      .n_sets = r->options.n_sets,
                      .crew = {.all_ps = r->options.ps, .all_workers = r->options.workers}};
    char text[AHEAD_TEXT_BYTES];
    for (uint32_t i = 0; i < r->size; i++) {
        bool here = rank_beside(r, r->rank, i), ps = r->crew.process[i].role == ROLE_PS;
        a.crew.ps += here && ps;
        a.crew.workers += here && !ps;
    }
    if (!rank_is_bound(r) && !ahead_count(a.crew.workers, r->site.cores, "", text))
        return err_set(e, ERR_INPUT, "%s", text);
    if (!rank_is_bound(r) && *text)
        say_it(NULL, text);
    return ahead_ask(&a, say_it, NULL, e);
}

/* True: rank i's result is known. It is read from shared storage only once, since it does not change. */
static bool rank_has_looked(struct rank *r, uint32_t i)
{
    char why[RENDEZVOUS_VERDICT_BYTES];
    if (!rendezvous_verdict(r->folder, i, why))
        return false;
    r->look[i] = RANK_HAS_LOOKED;
    if (*why && i < r->bad) {
        r->bad = i;
        memcpy(r->bad_why, why, sizeof why);
    }
    return true;
}

/* List the ranks whose results are missing. Returns their number. */
static uint32_t rank_unjudged(struct rank *r, char *out, size_t bytes)
{
    struct rank_list unjudged = {.out = out, .bytes = bytes};
    for (uint32_t i = 0; i < r->size; i++)
        if (r->look[i] == RANK_LOOKS && !rank_has_looked(r, i))
            rank_list_add(&unjudged, i);
    return rank_list_end(&unjudged);
}

/* ---- DIR ---- */

static void rank_on_lock_wait(const char *dir, pid_t holder)
{
    log_info("%s is locked by pid %ld; waiting up to %d s", dir, (long)holder, DIRLOCK_WAIT_S);
}

/* The process that holds DIR may be the chief of another start. */
static void rank_name_holder(const struct rank *r, struct errmsg *why)
{
    char attempt[NAME_MAX + 1];
    struct rendezvous_rank chief;
    pid_t pid = dirlock_holder(r->output, NULL);
    if (pid && rendezvous_of(r->output, pid, attempt, &chief))
        err_set(why, ERR_TIMEOUT,
                "%.200s is in use by the start %s (pid %ld on %s): wait until it has ended, or use "
                "another --output",
                r->output, attempt, (long)pid, chief.host);
}

/* The rank that becomes the chief locks DIR. If it cannot, all ranks of this start end. */
static enum err rank_lock(struct rank *r, struct errmsg *e)
{
    enum err err = dirlock_take(r->output, &r->lock_fd, rank_on_lock_wait, e);
    if (!err)
        return rendezvous_begin(r->folder, e);
    struct errmsg untold = {""};
    if (err == ERR_TIMEOUT)
        rank_name_holder(r, e);
    if (rendezvous_refuse(r->folder, e->text, &untold))
        log_warn("the other ranks of this start do not learn of this: %s", untold.text);
    return err;
}

/* ---- the verdict ---- */

static bool rank_is_chief(const struct rank *r, uint32_t i)
{
    return i == r->options.ps;
}

/* Wait for the results of all hosts, and until the chief-to-be has locked DIR. If one host cannot run its part, all ranks
 * end. */
static enum err rank_judge(struct rank *r, struct errmsg *e)
{
    struct errmsg why = {""};
    enum err err = ERR_OK;
    r->bad = r->size;
    r->look = mem_zalloc(r->size, sizeof *r->look);
    if (!r->look)
        return err_memory(e);
    for (uint32_t i = 0; i < r->size; i++)
        r->look[i] = rank_is_first(r, i) || rank_is_chief(r, i) ? RANK_LOOKS : RANK_LOOKS_NOT;
    if (rank_is_chief(r, r->rank))
        err = rank_lock(r, e);
    if (!err && r->look[r->rank]) {
        enum err found = rank_is_first(r, r->rank) ? rank_look(r, &why) : ERR_OK;
        err = rendezvous_leave_verdict(r->folder, r->rank, found ? why.text : "", e);
    }
    if (!err)
        err = rank_await(r, rank_unjudged, "report the check of their hosts in", e);
    if (!err && r->bad < r->size)
        err = err_set(e, ERR_INPUT, "%s", r->bad_why);
    return err;
}

/* ---- becoming ps or worker ---- */

/* Set site_of[]: ranks on one host share its cores, unless the scheduler has given each rank its own cores. */
static void rank_share(struct rank *r, uint32_t *site_of)
{
    bool bound = rank_is_bound(r);
    for (uint32_t i = 0; i < r->size; i++)
        site_of[i] = i == r->rank || (rank_beside(r, r->rank, i) && !bound) ? 0 : 1;
}

/* Bind the port of the job's page. Only on the chief. */
static enum err rank_open_page(const struct rank *r, int *fd, struct errmsg *e)
{
    char name[RENDEZVOUS_HOST_BYTES], host[256], at[300];
    bool bare_v6 = strchr(r->http_address, ':') && r->http_address[0] != '[';
    (void)snprintf(host, sizeof host, bare_v6 ? "[%.250s]" : "%.250s", r->http_address);
    (void)snprintf(at, sizeof at, "%s:%d", host, r->http_port);
    enum err err = listen_bind(fd, at, LISTEN_TAKEN_MS, e);
    if (err)
        return err_wrap(e, err, "--http_address, --http_port: ");
    rendezvous_host(name);
    log_info("the job's page: http://%s:%u/ on %s", host, socket_port(*fd), name);
    if (fcntl(*fd, F_SETFD, 0) != 0)
        return err_set(e, ERR_IO, "%s", strerror(errno));
    return rendezvous_leave_page(r->folder, host, socket_port(*fd), e);
}

static enum err rank_become(struct rank *r, struct errmsg *e)
{
    char token[PATH_MAX + 32];
    uint32_t *site_of = mem_zalloc(r->size, sizeof *site_of);
    if (!site_of)
        return err_memory(e);
    rank_share(r, site_of);
    if (r->token_file)
        (void)snprintf(token, sizeof token, "--token_file=%.4000s", r->token_file);
    else
        (void)snprintf(token, sizeof token, "--token_file=%s/" RANK_TOKEN, r->folder);
    r->crew.token_flag = token;
    struct handed fds = {.listen = r->listen_fd,
                         .http = -1,
                         .progress = -1,
                         .lock = r->lock_fd,
                         .http_name = r->http_address};
    enum err err = rank_is_chief(r, r->rank) ? rank_open_page(r, &fds.http, e) : ERR_OK;
    fds.http_port = fds.http >= 0 ? socket_port(fds.http) : 0;
    if (!err)
        err = crew_make_argv(&r->crew, r->rank, &r->options, &r->job, &r->site, site_of, &fds, e);
    mem_free(site_of);
    if (err)
        return err;
    child_set_environment();
    char **argv = r->crew.process[r->rank].argv;
    (void)execv(argv[0], argv);
    return err_set(e, ERR_IO, "%s: %s", argv[0], strerror(errno));
}

static enum err rank_run(struct rank *r, struct errmsg *e)
{
    char address[PROCESS_ADDRESS_BYTES], who[32];
    (void)snprintf(who, sizeof who, "rank %u", r->rank);
    log_init(who, LOG_INFO);
    (void)snprintf(r->folder, sizeof r->folder, "%s/" OUTPUT_RENDEZVOUS "/%s", r->output,
                   r->attempt);
    enum err err = rundir_make(r->output, e);
    if (!err)
        err = rank_bind(r, e);
    if (!err)
        err = rank_name_address(r, address, sizeof address, e);
    bool dialed = r->rank <= r->options.ps; /* other processes connect to a ps and to the chief */
    if (!err && (dialed || !*r->options.tls.names))
        err = tls_try(&r->options.tls, address, e);
    if (!err)
        err = rank_check_own(r, e);
    if (!err && r->rank == 0 && !r->token_file)
        err = rank_leave_token(r, e);
    if (!err)
        err = rank_leave_address(r, address, e);
    if (!err)
        err = rank_await(r, rank_missing, "arrive in", e);
    if (!err)
        err = rank_judge(r, e);
    if (!err && r->rank == 0)
        rendezvous_forget_others(r->output, r->attempt, r->job.timeouts.start_s + DIRLOCK_WAIT_S);
    return err ? err : rank_become(r, e);
}

int rank_main(int argc, char **argv)
{
    struct errmsg e = {""};
    flags_parse("rank", argc, argv);
    struct rank r = {.listen_fd = -1,
                     .lock_fd = -1,
                     .address = flags_given("address"),
                     .token_file = flags_given("token_file"),
                     .http_address = flags_text("http_address"),
                     .http_port = (int)flags_number("http_port")};
    options_init(&r.options);
    enum err err = rank_check(&r, &e);
    if (!err)
        err = rank_run(&r, &e);
    mem_free(r.look);
    crew_close(&r.crew);
    job_close(&r.job);
    if (!err)
        return 0;
    say_plain("%s", e.text);
    return options_exit_code(err);
}
