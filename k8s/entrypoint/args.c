#include "k8s/entrypoint/args.h"

#include <stdio.h>
#include <string.h>

enum kind {
    OWN,   /* its value stays here */
    NOTED, /* its value is looked at, and handed on */
    SET,   /* a key of the job file: --set */
    ASK,   /* takes no value */
};

static const struct known {
    const char *name;
    enum kind kind;
    size_t at;       /* in struct args, of OWN, NOTED and ASK */
    const char *key; /* of SET */
} known[] = {
    {"epochs", SET, 0, "training.epochs"},
    {"batch_size", SET, 0, "training.batch_size"},
    {"learning_rate", SET, 0, "training.learning_rate"},
    {"role", OWN, offsetof(struct args, role), NULL},
    {"index", OWN, offsetof(struct args, index), NULL},
    {"ps", OWN, offsetof(struct args, ps), NULL},
    {"workers", OWN, offsetof(struct args, workers), NULL},
    {"ps_host", OWN, offsetof(struct args, ps_host), NULL},
    {"worker_host", OWN, offsetof(struct args, worker_host), NULL},
    {"worker_ips", OWN, offsetof(struct args, worker_ips), NULL},
    {"current_ip", OWN, offsetof(struct args, current_ip), NULL},
    {"port", OWN, offsetof(struct args, port), NULL},
    {"job_name", NOTED, offsetof(struct args, job_name), NULL},
    {"job", NOTED, offsetof(struct args, job), NULL},
    {"token_file", NOTED, offsetof(struct args, token), NULL},
    {"token_fd", NOTED, offsetof(struct args, token), NULL},
    {"tls_cert", NOTED, offsetof(struct args, tls), NULL},
    {"auth", NOTED, offsetof(struct args, auth), NULL},
    {"http_port", NOTED, offsetof(struct args, http_port), NULL},
    {"print", ASK, offsetof(struct args, print), NULL},
    {"help", ASK, offsetof(struct args, help), NULL},
    {"version", ASK, offsetof(struct args, version), NULL},
    {"doctor", ASK, offsetof(struct args, doctor), NULL},
};

/* The name of a word that is a flag, with underscores; false: it is none. */
static bool flag_name(const char *word, char *name, size_t bytes)
{
    size_t dashes = strspn(word, "-"), n = strcspn(word + dashes, "=");
    if (dashes == 0 || dashes > 2 || n == 0 || n >= bytes)
        return false;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)(word[dashes + i] == '-' ? '_' : word[dashes + i]);
    name[n] = 0;
    return true;
}

static const struct known *find(const char *word)
{
    char name[64];
    if (!flag_name(word, name, sizeof name))
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

static enum err hand_on(struct args *a, const char *word, struct errmsg *e)
{
    if (a->n_rest == ARGS_MAX)
        return err_set(e, ERR_INPUT, "more than %d words", ARGS_MAX);
    a->rest[a->n_rest++] = word;
    return ERR_OK;
}

static enum err add_set(struct args *a, const struct known *k, const char *value, struct errmsg *e)
{
    if (a->n_sets == sizeof a->sets / sizeof a->sets[0])
        return err_set(e, ERR_INPUT, "--%s: given too often", k->name);
    char *set = a->sets[a->n_sets];
    int n = snprintf(set, sizeof a->sets[0], "%s=%s", k->key, value);
    if (n >= (int)sizeof a->sets[0])
        return err_set(e, ERR_INPUT, "--%s: '%.40s..' is too long", k->name, value);
    a->n_sets++;
    enum err err = hand_on(a, "--set", e);
    return err ? err : hand_on(a, set, e);
}

static enum err take(struct args *a, const struct known *k, const char *value, struct errmsg *e)
{
    const char **field = (const char **)((char *)a + k->at);
    if (k->kind == SET)
        return add_set(a, k, value, e);
    if (k->kind == OWN && *field)
        return err_set(e, ERR_INPUT, "--%s is given twice: '%.40s' and '%.40s'", k->name, *field,
                       value);
    *field = value;
    return ERR_OK;
}

static enum err ask(struct args *a, const struct known *k, const char *equals, struct errmsg *e)
{
    if (equals)
        return err_set(e, ERR_INPUT, "--%s takes no value", k->name);
    *(bool *)((char *)a + k->at) = true;
    return ERR_OK;
}

/* One word, and the next as its value where it has none; *at moves over them. */
static enum err read_word(struct args *a, char **argv, int argc, int *at, struct errmsg *e)
{
    const char *word = argv[(*at)++], *equals = strchr(word, '=');
    const struct known *k = find(word);
    if (!k)
        return hand_on(a, word, e);
    if (k->kind == ASK)
        return ask(a, k, equals, e);
    if (!equals && *at == argc)
        return err_set(e, ERR_INPUT, "--%s needs a value", k->name);
    const char *value = equals ? equals + 1 : argv[(*at)++];
    enum err err = take(a, k, value, e);
    if (!err && k->kind == NOTED)
        err = hand_on(a, word, e);
    if (!err && k->kind == NOTED && !equals)
        err = hand_on(a, value, e);
    return err;
}

enum err args_read(struct args *a, int argc, char **argv, struct errmsg *e)
{
    enum err err = ERR_OK;
    a->doctor = argc > 1 && strcmp(argv[1], "doctor") == 0;
    for (int at = 1 + a->doctor; at < argc && !err;)
        err = read_word(a, argv, argc, &at, e);
    return err;
}

const char *args_help(void)
{
    return "Usage: gradwire-entrypoint [doctor] [FLAG]...\n"
           "Becomes ps or worker, whichever TF_CONFIG says; without one a lone worker.\n"
           "  --epochs=N --batch_size=N --learning_rate=X   keys of the job file\n"
           "  --print               what would run, and nothing more\n"
           "  doctor, --doctor      would it find what it needs? (--json; exit 2: no)\n"
           "Without TF_CONFIG, from ordinals (StatefulSet, Indexed Job):\n"
           "  --role=ps|worker --ps=N --workers=N\n"
           "  --ps_host=NAME-%.SERVICE:PORT --worker_host=NAME-%.SERVICE:PORT\n"
           "  --index=I             default: JOB_COMPLETION_INDEX, or the host name's end\n"
           "Without TF_CONFIG, on hosts: each runs a ps (port P) and a worker (P + 1)\n"
           "  --worker_ips=IP,IP,.. --current_ip=IP --port=P\n"
           "  --http_port=H         of the ps; the worker has H + 1\n"
           "Files: /etc/gradwire/job.yaml (or --job=FILE), /run/secrets/gradwire/token,\n"
           "/run/secrets/gradwire-tls/{tls.crt,tls.key,ca.crt},\n"
           "/output (or --output=DIR). All other flags go to the program:\n\n";
}
