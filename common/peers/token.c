/* The token of a job: how it is read and made, and which addresses need one. */
#include "common/peers/token.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"
#include "common/process/files.h"

#define MEND "--token_file=FILE for all processes ('openssl rand -hex 32' makes one)"

/* ---- the proof that a process needs ---- */

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

static struct {
    size_t bytes; /* 0: no token */
    mode_t mode;  /* of the file; 0: from a descriptor */
    uint8_t text[TOKEN_BYTES_MAX + 1];
} own;

void token_forget(void)
{
    explicit_bzero(&own, sizeof own);
}

bool token_held(void)
{
    return own.bytes > 0;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Reads fd to its end, but at most TOKEN_BYTES_MAX + 1 bytes: then the token is too long. */
static enum err token_read(int fd, const char *name, struct errmsg *e)
{
    ssize_t got = files_get(fd, own.text, sizeof own.text);
    size_t n = got > 0 ? (size_t)got : 0;
    if (got < 0)
        return err_set(e, ERR_INPUT, "%s: %s", name, strerror(errno));
    if (n > TOKEN_BYTES_MAX)
        return err_set(e, ERR_INPUT, "%s: a token has at most %d bytes", name, TOKEN_BYTES_MAX);
    while (n > 0 && is_blank(own.text[n - 1]))
        n--;
    if (n < TOKEN_BYTES_MIN)
        return err_set(e, ERR_INPUT,
                       "%s: a token has at least %d bytes; 'openssl rand -hex 32' makes one", name,
                       TOKEN_BYTES_MIN);
    own.bytes = n;
    return ERR_OK;
}

enum err token_load(int fd, const char *file, struct errmsg *e)
{
    char name[300];
    token_forget();
    if (fd >= 0 && *file)
        return err_set(e, ERR_INPUT,
                       "--token_fd and --token_file are both given; give only one of them");
    if (fd < 0 && !*file)
        return ERR_OK;
    (void)snprintf(name, sizeof name, *file ? "--token_file=%.250s" : "--token_fd=%.0s%d", file,
                   fd);
    if (fd < 0)
        fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_INPUT, "%s: %s", name, strerror(errno));
    struct stat file_stat = {.st_mode = 0};
    if (*file && fstat(fd, &file_stat) == 0)
        own.mode = file_stat.st_mode;
    enum err err = token_read(fd, name, e);
    if (err)
        token_forget();
    (void)close(fd);
    return err;
}

/* A launcher only checks its token: the processes that it starts warn. */
static void warn_readable(const char *file)
{
    if (own.bytes > 0 && own.mode & (S_IROTH | S_IWOTH))
        log_warn("--token_file=%.250s: every user of this host can %s the token; set its mode to "
                 "0600 or 0440",
                 file, own.mode & S_IWOTH ? "change" : "read");
}

enum err auth_load(const char *flag, int token_fd, const char *token_file,
                   const struct tls_files *tls, struct errmsg *e)
{
    enum err err = token_load(token_fd, token_file, e);
    if (err)
        return err;
    warn_readable(token_file);
    err = tls_load(tls, e);
    return err ? err : auth_check(flag, e);
}

static bool random_bytes(uint8_t *out, size_t bytes)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes;
}

bool token_make(char hex[TOKEN_HEX_BYTES])
{
    uint8_t raw[(TOKEN_HEX_BYTES - 1) / 2];
    if (!random_bytes(raw, sizeof raw))
        return false;
    for (size_t i = 0; i < sizeof raw; i++)
        (void)sprintf(hex + 2 * i, "%02x", raw[i]);
    explicit_bzero(raw, sizeof raw);
    return true;
}

bool token_nonce(uint8_t nonce[TOKEN_NONCE_BYTES])
{
    return random_bytes(nonce, TOKEN_NONCE_BYTES);
}

bool token_prove(uint8_t proof[TOKEN_PROOF_BYTES], const uint8_t nonce[TOKEN_NONCE_BYTES],
                 const void *hello, size_t bytes)
{
    static const char label[] = "gradwire hello 1";
    const struct sha256_part parts[] = {
        {label, sizeof label - 1}, {nonce, TOKEN_NONCE_BYTES}, {hello, bytes}};
    return own.bytes > 0 && !sha256_hmac(proof, own.text, own.bytes, parts, 3);
}

bool token_equal(const uint8_t a[TOKEN_PROOF_BYTES], const uint8_t b[TOKEN_PROOF_BYTES])
{
    uint8_t differs = 0;
    for (int i = 0; i < TOKEN_PROOF_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}
