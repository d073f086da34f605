#include "common/peers/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/process/files.h"

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

void token_warn_readable(const char *file)
{
    if (own.bytes > 0 && own.mode & (S_IROTH | S_IWOTH))
        log_warn("--token_file=%.250s: every user of this host can %s the token; set its mode to "
                 "0600 or 0440",
                 file, own.mode & S_IWOTH ? "change" : "read");
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
