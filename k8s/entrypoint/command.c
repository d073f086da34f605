#include "k8s/entrypoint/command.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/flags/flags.h"
#include "common/process/program.h"
#include "k8s/entrypoint/form.h"

#define JOB_FILE "/etc/gradwire/job.yaml"
#define EXAMPLE_FILE "/usr/share/gradwire/examples/mnist/mlp.yaml"
#define TOKEN_FILE "/run/secrets/gradwire/token"
#define TLS_DIR "/run/secrets/gradwire-tls" /* a Secret in cert-manager's form */
/* Kubernetes creates this file, and reads it when the container has ended. */
#define TERMINATION_FILE "/dev/termination-log"
#define OUTPUT_DIR "/output"

const char *command_last_words(void)
{
    const char *given = flags_given("termination_message");
    return given ? given : access(TERMINATION_FILE, W_OK) == 0 ? TERMINATION_FILE : "";
}

/* Add flags for the files of the container. Flags that come later override them. */
static void add_defaults(struct command *c)
{
    if (!flags_given("job"))
        c->words[c->n++] = "--job=" JOB_FILE;
    c->words[c->n++] = "--output=" OUTPUT_DIR;
    bool proof = strcmp(flags_text("auth"), "none") != 0;
    bool token = flags_given("token_file") || flags_number("token_fd") >= 0;
    if (!token && proof && access(TOKEN_FILE, F_OK) == 0)
        c->words[c->n++] = "--token_file=" TOKEN_FILE;
    if (!flags_given("tls_cert") && proof &&
        access(TLS_DIR, F_OK) == 0) { /* the program reports a file that is missing there */
        c->words[c->n++] = "--tls_cert=" TLS_DIR "/tls.crt";
        c->words[c->n++] = "--tls_key=" TLS_DIR "/tls.key";
        c->words[c->n++] = "--tls_ca=" TLS_DIR "/ca.crt";
    }
    if (form_alone() && flags_given("http_port") && !flags_given("http_address"))
        c->words[c->n++] =
            "--http_address=*"; /* it has no address, and probes come from outside of the pod */
    if (access(TERMINATION_FILE, W_OK) == 0)
        c->words[c->n++] = "--termination_message=" TERMINATION_FILE;
}

/* A ConfigMap that is not mounted, or whose key has another name, must not lead to another job. */
static enum err check_job_file(struct errmsg *e)
{
    bool runs = !flags_on("print") && !flags_on("doctor");
    if (!runs || flags_given("job") || access(JOB_FILE, F_OK) == 0 || errno == EACCES)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   JOB_FILE
                   ": %s: mount a ConfigMap with the key job.yaml in /etc/gradwire, or give "
                   "--job=FILE (an example that needs no data: --job=" EXAMPLE_FILE ")",
                   strerror(errno));
}

enum err command_init(struct command *c, enum role role, struct errmsg *e)
{
    size_t n;
    const char *const *rest = flags_list(FLAGS_REST, &n);
    bool doctor = flags_on("doctor");
    if (n > COMMAND_GIVEN_MAX)
        return err_set(e, ERR_INPUT, "more than %d words", COMMAND_GIVEN_MAX);
    enum err err = check_job_file(e);
    if (!err)
        err = program_beside(c->program, !doctor && role == ROLE_PS ? "ps" : "worker", e);
    if (err)
        return err;
    c->words[c->n++] = c->program;
    if (doctor)
        c->words[c->n++] = "--doctor";
    if (doctor && role == ROLE_PS && !form_hosts() && !form_tf_config() && !flags_given("job_name"))
        c->words[c->n++] = "--job_name=ps"; /* the program ps knows this itself */
    add_defaults(c);
    for (size_t i = 0; i < n; i++)
        c->words[c->n++] = rest[i];
    return ERR_OK;
}

enum err command_add(struct command *c, struct errmsg *e, const char *format, ...)
{
    char *word = NULL;
    va_list args;
    assert(c->n + 1 < COMMAND_WORDS_MAX);
    va_start(args, format);
    int bytes = vasprintf(&word, format, args);
    va_end(args);
    if (bytes < 0)
        return err_memory(e);
    c->words[c->n++] = word;
    return ERR_OK;
}

void command_print(const struct command *c)
{
    for (size_t i = 0; i < c->n; i++)
        printf("%s%c", c->words[i], i + 1 < c->n ? ' ' : '\n');
}

int command_exec(struct command *c)
{
    (void)fflush(stdout);
    execv(c->program, (char *const *)c->words);
    log_error("%s: %s", c->program, strerror(errno));
    return 1;
}
