/* Tokens and certificates. Their secret contents are never printed. */
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/peers/hello.h"
#include "worker/doctor/check.h"

/* "127.0.0.1:1", "localhost:1", "[::1]:1" */
static bool on_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncasecmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]:", 6) == 0;
}

static bool all_on_loopback(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->n_ps; i++)
        if (!on_loopback(c->ps[i]))
            return false;
    return !c->chief || on_loopback(c->chief);
}

static void check_mode(const char *file, struct finding *f)
{
    struct stat s;
    if (stat(file, &s) != 0 || !(s.st_mode & (S_IROTH | S_IWOTH)))
        return;
    finding_say(f, VERDICT_WARN, "--token_file=%s: every user of this host can %s it", file,
                s.st_mode & S_IWOTH ? "write" : "read");
    finding_mend(f, VERDICT_WARN, "chmod 600, or defaultMode: 0440 of the Secret's volume");
}

void check_token(struct check *p, struct finding *f)
{
    const struct flags *flags = p->flags;
    struct errmsg e = {""};
    if (finding_error(f, token_load(flags->token_fd, flags->token_file, &e), &e))
        return;
    if (token_held()) {
        check_mode(flags->token_file, f);
        finding_say(f, VERDICT_OK, "%s", flags->token_file[0] ? flags->token_file : "given");
        return;
    }
    if (p->has_cluster && p->cluster.alone && !flags->tls.cert[0])
        return; /* a job on one host needs none */
    bool one_host = p->has_cluster && all_on_loopback(&p->cluster);
    if (flags->tls.cert[0] || one_host) {
        finding_say(f, VERDICT_OK, "none, and none is needed %s",
                    flags->tls.cert[0] ? "with TLS" : "on one host");
        return;
    }
    finding_say(f, VERDICT_WARN, "none: any process that reaches a port can talk to the job");
    finding_mend(
        f, VERDICT_WARN,
        "--token_file=FILE, in Kubernetes the Secret gradwire-token (docs/guides/kubernetes.md)");
}

/* A process that others connect to must have the name that they expect; so must a worker, unless its ps have other
 * names configured. */
static void check_name(const struct check *p, struct finding *f)
{
    const struct cluster *c = &p->cluster;
    bool dialed = c->role == ROLE_PS || c->is_chief;
    enum verdict v = dialed ? VERDICT_FAIL : VERDICT_WARN;
    struct errmsg e;
    if (!p->has_cluster || c->alone || !c->self || c->role == ROLE_EVALUATOR ||
        (!dialed && p->flags->tls.names[0]) || !tls_try(&p->flags->tls, c->self, &e))
        return;
    finding_say(f, v, "%s", e.text);
    finding_mend(f, v,
                 dialed ? "a certificate with that subjectAltName"
                        : "a certificate with that subjectAltName, or --tls_names=worker=NAME for "
                          "all processes");
}

void check_certificates(struct check *p, struct finding *f)
{
    char *copy = mem_strdup(p->flags->certificates), *rest = copy;
    struct certificate_files files = {0};
    const char **at[] = {&files.cert, &files.key, &files.ca};
    for (size_t i = 0; i < 3 && rest && *rest; i++)
        *at[i] = strsep(&rest, ",");
    const struct tls_files *own = &p->flags->tls;
    struct errmsg e = {""};
    if (!finding_error(f, tls_load(own, &e), &e)) { /* used for connections to peers */
        bool ours = tls_own() && !files.cert;
        if (ours)
            files = (struct certificate_files){own->cert, own->key, own->ca};
        bool alone = p->has_cluster && p->cluster.alone; /* a lone worker needs none */
        if (!alone || files.cert || files.key || files.ca)
            certificate_check(f, &files, time(NULL));
        if (ours)
            check_name(p, f);
    }
    if (f->verdict != VERDICT_FAIL) /* token and certificate are loaded by now */
        (void)finding_error(f, auth_check(p->flags->auth, &e), &e);
    mem_free(copy);
}
