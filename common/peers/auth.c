#include "common/peers/auth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"
#include "common/peers/token.h"

#define MEND "--token_file=FILE for all processes ('openssl rand -hex 32' makes one)"

/* The proof that a connecting process must give; NULL: none. */
static const char *proof_held(void)
{
    return tls_own() ? "tls" : token_held() ? "token" : NULL;
}

const char *auth_word(void)
{
    return proof_held() ? proof_held() : "none";
}

enum err auth_check(const char *flag, struct errmsg *e)
{
    if (strcmp(flag, "required") == 0 && !proof_held())
        return err_set(e, ERR_INPUT, "--auth=required needs a token: give " MEND);
    if (strcmp(flag, "none") == 0 && proof_held())
        return err_set(e, ERR_INPUT,
                       "--auth=none and a token%s are both given; give only one of them",
                       tls_own() ? ", or certificates," : "");
    if (strcmp(flag, "auto") && strcmp(flag, "required") && strcmp(flag, "none"))
        return err_set(e, ERR_INPUT,
                       "--auth: '%.80s' is not allowed; allowed: auto, required, none", flag);
    return ERR_OK;
}

enum err auth_check_listener(const char *flag, int fd, struct errmsg *e)
{
    char name[ADDRESS_TEXT_MAX];
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof at;
    if (proof_held())
        return ERR_OK;
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) == 0 && address_is_loopback(&at))
        return ERR_OK;
    address_text((struct sockaddr *)&at, bytes, name, sizeof name);
    if (strcmp(flag, "none") == 0) {
        log_info("auth: none: every process that reaches %s can use this process (--auth=none)",
                 name);
        return ERR_OK;
    }
    if (!getenv(AUTH_POD))
        return err_set(e, ERR_INPUT,
                       "it would listen on %s, which other hosts can reach, without a token: give "
                       "%s, or --auth=none if every process that can reach it is trusted",
                       name, MEND);
    log_warn("auth: none: every process that reaches %s can use this process: mount a Secret with "
             "a token at /run/secrets/gradwire, or give --auth=none",
             name);
    return ERR_OK;
}
