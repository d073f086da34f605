#include "launch/base/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/fault.h"
#include "common/base/mem.h"

const char options_help[] =
    "gradwire train JOB [flags]: a cluster of ps and worker processes, supervised\n"
    "  --ps N            parameter servers (default 2)\n"
    "  --workers N       workers (default 2); worker 0 is the chief unless --chief is given\n"
    "  --chief           one more process, which is the chief and trains too\n"
    "  --evaluator       one more process, which evaluates each checkpoint; the chief then does "
    "not\n"
    "  --hosts FILE      run on the hosts of this file, over ssh; a line is HOST [slots=N]\n"
    "                    [role=ps|worker|chief|evaluator] [ports=LO-HI] [workdir=PATH]\n"
    "  --rsh CMD         another remote shell than ssh: `CMD HOST COMMAND` (also GRADWIRE_RSH)\n"
    "  --output DIR      default runs/NAME, NAME from the job file\n"
    "  --set key=value   override a key of the job file, as often as wanted\n"
    "  --restarts N      how often dead processes are started again in all (default 10)\n"
    "  --fresh           move DIR aside (DIR.1, DIR.2, ...) and start anew\n"
    "  --detach          go to the background once the processes are started\n"
    "  --tls_cert FILE   TLS between the processes, with --tls_key FILE --tls_ca FILE: one "
    "certificate,\n"
    "                    which names 127.0.0.1 (with --hosts: every host, the files on each)\n"
    "  --fault PROCESS=FAULT   for tests and benchmarks: worker-1=nan:7, worker-1=straggle:4\n"
    "  --bin-dir DIR     the folder with ps/ps and worker/worker (also GRADWIRE_BIN_DIR)\n"
    "Ctrl-C ends after a checkpoint, a second one at once. Run again on a DIR: it resumes.\n"
    "Exit: 0 done, 2 wrong input, 1 failed, 130 after Ctrl-C, 143 after SIGTERM.\n";

enum {
    FLAG_PS = 256,
    FLAG_WORKERS,
    FLAG_CHIEF,
    FLAG_EVALUATOR,
    FLAG_HOSTS,
    FLAG_RSH,
    FLAG_OUTPUT,
    FLAG_SET,
    FLAG_RESTARTS,
    FLAG_FRESH,
    FLAG_DETACH,
    FLAG_BIN_DIR,
    FLAG_FAULT,
    FLAG_TLS_CERT,
    FLAG_TLS_KEY,
    FLAG_TLS_CA,
    FLAG_TLS_NAMES,
    FLAG_HELP
};

static const struct option options_long[] = {
    {"ps", required_argument, NULL, FLAG_PS},
    {"workers", required_argument, NULL, FLAG_WORKERS},
    {"chief", no_argument, NULL, FLAG_CHIEF},
    {"evaluator", no_argument, NULL, FLAG_EVALUATOR},
    {"hosts", required_argument, NULL, FLAG_HOSTS},
    {"rsh", required_argument, NULL, FLAG_RSH},
    {"output", required_argument, NULL, FLAG_OUTPUT},
    {"set", required_argument, NULL, FLAG_SET},
    {"restarts", required_argument, NULL, FLAG_RESTARTS},
    {"fresh", no_argument, NULL, FLAG_FRESH},
    {"detach", no_argument, NULL, FLAG_DETACH},
    {"bin-dir", required_argument, NULL, FLAG_BIN_DIR},
    {"bin_dir", required_argument, NULL, FLAG_BIN_DIR},
    {"fault", required_argument, NULL, FLAG_FAULT},
    {"tls-cert", required_argument, NULL, FLAG_TLS_CERT},
    {"tls_cert", required_argument, NULL, FLAG_TLS_CERT},
    {"tls-key", required_argument, NULL, FLAG_TLS_KEY},
    {"tls_key", required_argument, NULL, FLAG_TLS_KEY},
    {"tls-ca", required_argument, NULL, FLAG_TLS_CA},
    {"tls_ca", required_argument, NULL, FLAG_TLS_CA},
    {"tls-names", required_argument, NULL, FLAG_TLS_NAMES},
    {"tls_names", required_argument, NULL, FLAG_TLS_NAMES},
    {"help", no_argument, NULL, FLAG_HELP},
    {NULL, 0, NULL, 0},
};

static enum err options_number(uint32_t *out, const char *flag, const char *text, uint32_t least,
                               uint32_t most, struct errmsg *e)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < (long long)least || n > (long long)most)
        return err_set(e, ERR_INPUT, "%s %s: a whole number from %u to %u is wanted", flag, text,
                       least, most);
    *out = (uint32_t)n;
    return ERR_OK;
}

static enum err options_text(const char **out, const char *flag, const char *text, struct errmsg *e)
{
    if (!*text)
        return err_set(e, ERR_INPUT, "%s: something is wanted, not an empty text", flag);
    *out = text;
    return ERR_OK;
}

static enum err options_fault(struct options *o, const char *value, struct errmsg *e)
{
    const char *equals = strchr(value, '=');
    char role[8] = "";
    uint32_t index = 0;
    int end = 0;
    bool known = equals && sscanf(value, "%7[a-z]-%u=%n", role, &index, &end) == 2 && end > 0 &&
                 (strcmp(role, "worker") == 0 || strcmp(role, "chief") == 0);
    if (!known)
        return err_set(e, ERR_INPUT, "--fault %s: worker-N=FAULT or chief-0=FAULT is wanted",
                       value);
    struct fault fault;
    enum err err = fault_parse(&fault, equals + 1, e);
    if (!err && fault.kind == FAULT_NONE)
        err =
            err_set(e, ERR_INPUT, "--fault %s: what it does is missing, such as straggle:4", value);
    if (!err)
        o->faults[o->n_faults++] = value;
    return err;
}

static enum err options_one(struct options *o, int option, const char *value, struct errmsg *e)
{
    switch (option) {
    case FLAG_PS:
        return options_number(&o->ps, "--ps", value, 1, OPTIONS_PS_MAX, e);
    case FLAG_WORKERS:
        return options_number(&o->workers, "--workers", value, 0, OPTIONS_WORKERS_MAX, e);
    case FLAG_CHIEF:
        o->chief = true;
        return ERR_OK;
    case FLAG_EVALUATOR:
        o->evaluator = true;
        return ERR_OK;
    case FLAG_HOSTS:
        return options_text(&o->hosts, "--hosts", value, e);
    case FLAG_RSH:
        return options_text(&o->rsh, "--rsh", value, e);
    case FLAG_OUTPUT:
        return options_text(&o->output, "--output", value, e);
    case FLAG_SET:
        o->sets[o->n_sets++] = value;
        return ERR_OK;
    case FLAG_RESTARTS:
        return options_number(&o->restarts, "--restarts", value, 0, OPTIONS_RESTARTS_MAX, e);
    case FLAG_FRESH:
        o->fresh = true;
        return ERR_OK;
    case FLAG_DETACH:
        o->detach = true;
        return ERR_OK;
    case FLAG_BIN_DIR:
        return options_text(&o->bin_dir, "--bin-dir", value, e);
    case FLAG_FAULT:
        return options_fault(o, value, e);
    case FLAG_TLS_CERT:
        return options_text(&o->tls.cert, "--tls_cert", value, e);
    case FLAG_TLS_KEY:
        return options_text(&o->tls.key, "--tls_key", value, e);
    case FLAG_TLS_CA:
        return options_text(&o->tls.ca, "--tls_ca", value, e);
    case FLAG_TLS_NAMES:
        return options_text(&o->tls.names, "--tls_names", value, e);
    case FLAG_HELP:
        o->help = true;
        return ERR_OK;
    default:
        return err_set(e, ERR_INPUT, "wrong flag; `gradwire train --help` lists them");
    }
}

/* What getopt found wrong with argv[at]. */
static enum err options_refuse(int found, const char *flag, struct errmsg *e)
{
    if (found == ':')
        return err_set(e, ERR_INPUT, "%s wants a value", flag);
    return err_set(e, ERR_INPUT, "%s: no such flag, or a value too many; see gradwire train --help",
                   flag);
}

static bool options_has_process(const struct options *o, const char *fault)
{
    uint32_t index = (uint32_t)strtoul(strchr(fault, '-') + 1, NULL, 10);
    return fault[0] == 'w' ? index < o->workers : o->chief && index == 0;
}

static enum err options_refuse_process(const struct options *o, const char *fault, struct errmsg *e)
{
    char workers[48] = "";
    if (o->workers > 0)
        (void)snprintf(workers, sizeof workers,
                       o->workers > 1 ? "worker-0 .. worker-%u" : "worker-%u", o->workers - 1);
    return err_set(e, ERR_INPUT, "--fault %s: there is no such process; there are %s%s%s", fault,
                   o->chief ? "chief-0" : "", o->chief && o->workers > 0 ? ", " : "", workers);
}

static enum err options_check(struct options *o, int argc, char **argv, struct errmsg *e)
{
    if (o->help)
        return ERR_OK;
    if (optind >= argc)
        return err_set(e, ERR_INPUT, "no job file; try gradwire train examples/mnist/mlp.yaml");
    if (optind + 1 < argc)
        return err_set(e, ERR_INPUT, "one job file is wanted; %s is a second one",
                       argv[optind + 1]);
    o->job = argv[optind];
    if (options_trainers(o) == 0)
        return err_set(e, ERR_INPUT, "--workers 0 leaves nobody to train; give --chief as well");
    if (o->rsh && !o->hosts)
        return err_set(e, ERR_INPUT, "--rsh reaches the hosts of --hosts FILE, which is not given");
    for (size_t i = 0; i < o->n_faults; i++)
        if (!options_has_process(o, o->faults[i]))
            return options_refuse_process(o, o->faults[i], e);
    return ERR_OK;
}

enum err options_init(struct options *o, int argc, char **argv, struct errmsg *e)
{
    *o = (struct options){.ps = 2,
                          .workers = 2,
                          .restarts = 10,
                          .tls = {.cert = "", .key = "", .ca = "", .names = ""}};
    o->bin_dir = getenv("GRADWIRE_BIN_DIR");
    o->sets = mem_zalloc((size_t)argc + 1, sizeof *o->sets);
    o->faults = mem_zalloc((size_t)argc + 1, sizeof *o->faults);
    if (!o->sets || !o->faults)
        return err_set(e, ERR_NOMEM, "out of memory");
    optind = 1;
    opterr = 0;
    for (;;) {
        int at = optind;
        int found = getopt_long(argc, argv, ":", options_long, NULL);
        if (found == -1)
            return options_check(o, argc, argv, e);
        if (found == '?' || found == ':')
            return options_refuse(found, argv[optind > at ? optind - 1 : at], e);
        enum err err = options_one(o, found, optarg, e);
        if (err)
            return err;
    }
}

void options_close(struct options *o)
{
    mem_free(o->sets);
    mem_free(o->faults);
    o->sets = o->faults = NULL;
}

uint32_t options_trainers(const struct options *o)
{
    return o->workers + (o->chief ? 1 : 0);
}

uint32_t options_processes(const struct options *o)
{
    return o->ps + options_trainers(o) + (o->evaluator ? 1 : 0);
}
