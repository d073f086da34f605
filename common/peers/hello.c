/* The first message of a connection and its answers, and the sending of messages. */
#include "common/peers/hello.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/version.h"
#include "common/wire/frame.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"
#include "common/process/files.h"

/* The token of a job: how it is read and made, and which addresses need one. */

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
} own_token;

void token_forget(void)
{
    explicit_bzero(&own_token, sizeof own_token);
}

bool token_held(void)
{
    return own_token.bytes > 0;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Reads fd to its end, but at most TOKEN_BYTES_MAX + 1 bytes: then the token is too long. */
static enum err token_read(int fd, const char *name, struct errmsg *e)
{
    ssize_t got = files_get(fd, own_token.text, sizeof own_token.text);
    size_t n = got > 0 ? (size_t)got : 0;
    if (got < 0)
        return err_set(e, ERR_INPUT, "%s: %s", name, strerror(errno));
    if (n > TOKEN_BYTES_MAX)
        return err_set(e, ERR_INPUT, "%s: a token has at most %d bytes", name, TOKEN_BYTES_MAX);
    while (n > 0 && is_blank(own_token.text[n - 1]))
        n--;
    if (n < TOKEN_BYTES_MIN)
        return err_set(e, ERR_INPUT,
                       "%s: a token has at least %d bytes; 'openssl rand -hex 32' makes one", name,
                       TOKEN_BYTES_MIN);
    own_token.bytes = n;
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
        own_token.mode = file_stat.st_mode;
    enum err err = token_read(fd, name, e);
    if (err)
        token_forget();
    (void)close(fd);
    return err;
}

/* A launcher only checks its token: the processes that it starts warn. */
static void warn_readable(const char *file)
{
    if (own_token.bytes > 0 && own_token.mode & (S_IROTH | S_IWOTH))
        log_warn("--token_file=%.250s: every user of this host can %s the token; set its mode to "
                 "0600 or 0440",
                 file, own_token.mode & S_IWOTH ? "change" : "read");
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
    return own_token.bytes > 0 && !sha256_hmac(proof, own_token.text, own_token.bytes, parts, 3);
}

bool token_equal(const uint8_t a[TOKEN_PROOF_BYTES], const uint8_t b[TOKEN_PROOF_BYTES])
{
    uint8_t differs = 0;
    for (int i = 0; i < TOKEN_PROOF_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}

enum { SMALL_BYTES = 1024 }; /* heads of pushes and replies fit without an allocation */

void msg_send(struct conn *c, enum frame_type type, const ProtobufCMessage *m, const void *body,
              uint64_t body_bytes)
{
    assert(m->descriptor == msg_descriptor(type));
    uint8_t small[SMALL_BYTES];
    size_t bytes = protobuf_c_message_get_packed_size(m);
    uint8_t *head = bytes <= sizeof small ? small : mem_zalloc(bytes, 1);
    if (!head) {
        conn_close(c, ERR_NOMEM, "no memory for a message");
        return;
    }
    protobuf_c_message_pack(m, head);
    enum err err = conn_send(c, type, head, bytes, body, body_bytes);
    (void)err; /* on an error the connection closes itself; on_close gets the reason */
    if (head != small)
        mem_free(head);
}

void hello_make(Gradwire__Hello *m, const struct job *job, const struct cluster *cluster,
                uint32_t ps)
{
    assert(!cluster->is_chief || cluster->worker_id == 0);
    gradwire__hello__init(m);
    m->version = (char *)GRADWIRE_HELLO;
    m->job = (char *)job->name;
    m->identity.data = (uint8_t *)job->identity;
    m->identity.len = sizeof job->identity;
    if (job->encoded) {
        m->encoding.data = (uint8_t *)job->encoding;
        m->encoding.len = sizeof job->encoding;
    }
    m->worker = cluster->worker_id;
    m->role = cluster->is_chief ? GRADWIRE__ROLE__CHIEF : GRADWIRE__ROLE__WORKER;
    m->shard = -1;
    m->ps_index = ps;
    m->ps_hosts = cluster->ps;
    m->n_ps_hosts = cluster->n_ps;
    m->listed_workers = cluster->sparse ? 0 : cluster->n_workers;
    m->listed_chief = cluster->separate_chief;
}

static void fill(Gradwire__Contents *room, const struct contents *c)
{
    gradwire__contents__init(room);
    room->fingerprint.data = (uint8_t *)c->fingerprint;
    room->fingerprint.len = sizeof c->fingerprint;
    room->rows = c->print.rows;
    room->files = c->print.files;
    room->n_digest = room->n_bytes = c->print.entries;
    room->digest = c->print.digest;
    room->bytes = c->print.bytes;
}

/* It borrows the lists of the message. */
static struct contents_print print_of(const Gradwire__Contents *m)
{
    return (struct contents_print){.rows = m->rows,
                                   .files = m->files,
                                   .entries = m->n_digest < m->n_bytes ? m->n_digest : m->n_bytes,
                                   .digest = m->digest,
                                   .bytes = m->bytes};
}

void hello_add_contents(Gradwire__Hello *m, Gradwire__Contents *room, const struct contents *c)
{
    fill(room, c);
    m->contents = room;
}

/* ---- the checksum ---- */

/* The tag of field 50, a fixed32. Protobuf lets fields follow in any order: so the checksum can cover all bytes before it,
 * fields of later releases, too. */
static const uint8_t crc_tag[] = {0x95, 0x03};

size_t hello_add_crc(uint8_t *head, size_t bytes)
{
    uint32_t crc = crc32c(0, head, bytes);
    memcpy(head + bytes, crc_tag, sizeof crc_tag);
    for (size_t i = 0; i < sizeof crc; i++)
        head[bytes + sizeof crc_tag + i] = (uint8_t)(crc >> 8 * i);
    return bytes + HELLO_CRC_BYTES;
}

enum hello_crc hello_check_crc(const uint8_t *head, size_t bytes)
{
    uint32_t crc = 0;
    if (bytes < HELLO_CRC_BYTES)
        return HELLO_CRC_NONE;
    const uint8_t *at = head + bytes - HELLO_CRC_BYTES;
    if (memcmp(at, crc_tag, sizeof crc_tag) != 0)
        return HELLO_CRC_NONE;
    for (size_t i = 0; i < sizeof crc; i++)
        crc |= (uint32_t)at[sizeof crc_tag + i] << 8 * i;
    return crc == crc32c(0, head, bytes - HELLO_CRC_BYTES) ? HELLO_CRC_RIGHT : HELLO_CRC_WRONG;
}

/* ---- judging a hello ---- */

static bool refuse(struct hello_refusal *why, Gradwire__Reason reason, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static bool refuse(struct hello_refusal *why, Gradwire__Reason reason, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(why->text, sizeof why->text, fmt, args);
    va_end(args);
    why->reason = reason;
    why->encoding = false;
    why->differing = NULL;
    return false;
}

static bool same_identity(const struct job *job, const Gradwire__Hello *m)
{
    return m->identity.len == sizeof job->identity &&
           memcmp(m->identity.data, job->identity, sizeof job->identity) == 0;
}

static const char *role_word(Gradwire__Role role)
{
    return role == GRADWIRE__ROLE__CHIEF    ? "chief"
           : role == GRADWIRE__ROLE__DOCTOR ? "doctor"
                                            : "worker";
}

/* "worker 3", "the chief", "doctor 3". The lists of the sender number it. */
static const char *name_sender(char out[WORKER_NAME_BYTES], const Gradwire__Hello *m)
{
    if (m->role == GRADWIRE__ROLE__CHIEF)
        (void)snprintf(out, WORKER_NAME_BYTES, "the chief");
    else if (m->role == GRADWIRE__ROLE__DOCTOR)
        (void)snprintf(out, WORKER_NAME_BYTES, "doctor %u", m->worker);
    else
        (void)worker_name(out, m->worker, m->listed_chief);
    return out;
}

static const char *listed(char **list, size_t n, size_t i)
{
    return i < n ? list[i] : "nothing";
}

/* Both lists are complete. `own` names the process that judges. */
static bool same_list(const struct cluster *own, const char *own_name, const Gradwire__Hello *m,
                      struct hello_refusal *why)
{
    char sender[WORKER_NAME_BYTES];
    size_t i = 0;
    while (i < own->n_ps && i < m->n_ps_hosts && strcmp(m->ps_hosts[i], own->ps[i]) == 0)
        i++;
    if (i == own->n_ps && i == m->n_ps_hosts)
        return true;
    return refuse(why, GRADWIRE__REASON__OTHER_LISTS,
                  "the lists of ps differ: %s has %.100s as ps %zu (%zu ps in all), %s has %.100s "
                  "(%u in all); give all processes the same list",
                  name_sender(sender, m), listed(m->ps_hosts, m->n_ps_hosts, i), i, m->n_ps_hosts,
                  own_name, listed(own->ps, own->n_ps, i), own->n_ps);
}

#define OTHER_DATA "%s has other training data than the chief: %s"

/* A doctor has read only the beginnings of its files, and a worker whose job is done none: they send nothing. */
static bool same_contents(const struct hello_host *host, const Gradwire__Hello *m,
                          struct hello_refusal *why)
{
    static const Gradwire__Contents none = GRADWIRE__CONTENTS__INIT;
    const Gradwire__Contents *theirs = m->contents ? m->contents : &none;
    char how[280], sender[WORKER_NAME_BYTES];
    if (m->role == GRADWIRE__ROLE__DOCTOR || m->idle ||
        contents_same(host->contents, theirs->fingerprint.data, theirs->fingerprint.len))
        return true;
    const struct contents_print print = print_of(theirs);
    contents_differ(host->contents, &print, "the chief", how, sizeof how);
    (void)refuse(why, GRADWIRE__REASON__OTHER_DATA, OTHER_DATA, name_sender(sender, m), how);
    why->differing = contents_differing(host->contents, &print);
    return false;
}

/* The beginning of a digest. */
static void name_digest(char out[12], const uint8_t *digest, size_t bytes)
{
    if (bytes < 4)
        (void)snprintf(out, 12, "none");
    else
        (void)snprintf(out, 12, "%02x%02x%02x%02x", digest[0], digest[1], digest[2], digest[3]);
}

/* A process that reads no rows sends no encoding. */
static bool same_encoding(const struct hello_host *host, const Gradwire__Hello *m,
                          struct hello_refusal *why)
{
    const struct job *job = host->job;
    char theirs[12], ours[12], sender[WORKER_NAME_BYTES];
    if (!job->encoded || m->encoding.len == 0 ||
        (m->encoding.len == sizeof job->encoding &&
         memcmp(m->encoding.data, job->encoding, sizeof job->encoding) == 0))
        return true;
    name_digest(theirs, m->encoding.data, m->encoding.len);
    name_digest(ours, job->encoding, sizeof job->encoding);
    (void)refuse(why, GRADWIRE__REASON__OTHER_JOB,
                 "the encodings of the rows differ (words, scales or buckets): %s has %s, "
                 "the chief %s; give all processes the same data, data.encoding and checkpoints",
                 name_sender(sender, m), theirs, ours);
    why->encoding = true;
    return false;
}

static bool same_ps_list(const struct cluster *own, const Gradwire__Hello *m,
                         struct hello_refusal *why)
{
    char name[32], sender[WORKER_NAME_BYTES];
    const char *dialed = m->ps_index < m->n_ps_hosts ? m->ps_hosts[m->ps_index] : NULL;
    (void)snprintf(name, sizeof name, "ps %u", own->index);
    if (!own->sparse && !same_list(own, name, m, why))
        return false;
    const char *ours = own->sparse ? own->ps[0] : own->ps[own->index];
    if (m->ps_index == own->index && dialed && strcmp(dialed, ours) == 0)
        return true;
    return refuse(
        why, GRADWIRE__REASON__OTHER_LISTS,
        "%s connected to ps %u at %.100s, and reached ps %u, which is at %.100s: give all "
        "processes the same list of ps",
        name_sender(sender, m), m->ps_index, dialed ? dialed : "?", own->index, ours);
}

/* A chief that takes over continues with parameters that may not be in any checkpoint yet. */
static bool same_data(const struct hello_host *host, const Gradwire__Hello *m,
                      struct hello_refusal *why)
{
    enum { BYTES = sizeof host->contents->fingerprint };
    if (m->role != GRADWIRE__ROLE__CHIEF || !host->data || m->failed ||
        (m->contents && m->contents->fingerprint.len == BYTES &&
         memcmp(m->contents->fingerprint.data, host->data, BYTES) == 0))
        return true;
    return refuse(why, GRADWIRE__REASON__OTHER_DATA,
                  "the chief has other training data than the run that this ps holds");
}

static bool ps_takes(const struct hello_host *host, const Gradwire__Hello *m,
                     struct hello_refusal *why)
{
    const struct job *job = host->job;
    if (strcmp(m->job, job->name) != 0)
        return refuse(why, GRADWIRE__REASON__OTHER_JOB,
                      "a process of job %.64s connected to a ps of job %s", m->job, job->name);
    if (!same_identity(job, m))
        return refuse(why, GRADWIRE__REASON__OTHER_JOB,
                      "an identity key of job %s has another value here", job->name);
    if (m->uuid[0] && host->uuid[0] && strcmp(m->uuid, host->uuid) != 0)
        return refuse(why, GRADWIRE__REASON__OTHER_JOB,
                      "run %.36s of job %s connected to a ps of run %s", m->uuid, job->name,
                      host->uuid);
    if (!same_ps_list(host->cluster, m, why) || !same_data(host, m, why))
        return false;
    if (m->role == GRADWIRE__ROLE__CHIEF && m->worker != 0)
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE,
                      "worker %u claims to be the chief, which is worker 0", m->worker);
    return true;
}

/* With a chief apart from the workers, worker 0 has the id 1. Otherwise worker 1 has it. */
static bool same_chief(const struct cluster *own, const Gradwire__Hello *m,
                       struct hello_refusal *why)
{
    bool known = !own->sparse && m->listed_workers > 0;
    if (m->role != GRADWIRE__ROLE__WORKER || !known || m->listed_chief == own->separate_chief)
        return true;
    return refuse(why, GRADWIRE__REASON__OTHER_LISTS,
                  m->listed_chief
                      ? "the lists differ: the worker's list has a chief of its own, but here "
                        "worker 0 is the chief; give all processes the same lists"
                      : "the lists differ: by the worker's list worker 0 is the chief, but here "
                        "the chief is a process of its own; give all processes the same lists");
}

static bool chief_takes(const struct hello_host *host, const Gradwire__Hello *m,
                        struct hello_refusal *why)
{
    const struct job *job = host->job;
    char sender[WORKER_NAME_BYTES];
    bool other_name = strcmp(m->job, job->name) != 0;
    if (other_name || !same_identity(job, m))
        return refuse(why, GRADWIRE__REASON__OTHER_JOB,
                      "a worker of job %.64s connected to the chief of job %s%s", m->job, job->name,
                      other_name ? "" : "; an identity key differs");
    if (!same_list(host->cluster, "the chief", m, why) || !same_chief(host->cluster, m, why))
        return false;
    if (m->role == GRADWIRE__ROLE__CHIEF) /* a second chief */
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE, "a chief connected to the chief");
    if (m->role != GRADWIRE__ROLE__DOCTOR && (m->worker == 0 || m->worker >= WORKERS_MAX))
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE,
                      "%s connected to the chief; allowed: %d to %d", name_sender(sender, m),
                      1 - m->listed_chief, WORKERS_MAX - 1 - m->listed_chief);
    if (!same_contents(host, m, why))
        return false;
    return same_encoding(host, m, why);
}

bool hello_judge(const struct hello_host *host, const Gradwire__Hello *m, struct hello_refusal *why)
{
    bool is_ps = host->cluster->role == ROLE_PS;
    assert(is_ps || host->cluster->is_chief); /* no other process accepts hellos */
    Gradwire__Role role =
        is_ps || m->role == GRADWIRE__ROLE__DOCTOR ? m->role : GRADWIRE__ROLE__WORKER;
    if (!version_same(m->version, role_word(role), is_ps ? "ps" : "chief", why->text,
                      sizeof why->text)) {
        why->reason = GRADWIRE__REASON__OTHER_VERSION;
        why->encoding = false;
        why->differing = NULL;
        return false;
    }
    return is_ps ? ps_takes(host, m, why) : chief_takes(host, m, why);
}

void hello_refuse(Gradwire__Refuse *m, Gradwire__Contents *room, const struct hello_host *host,
                  const struct hello_refusal *why)
{
    gradwire__refuse__init(m);
    m->reason = why->reason;
    m->text = (char *)why->text;
    if (why->reason == GRADWIRE__REASON__OTHER_JOB)
        m->identity_text = host->job->identity_text;
    if (m->identity_text && strlen(m->identity_text) > FRAME_HEAD_MAX / 2)
        m->identity_text = (char *)""; /* of a job with long names; without it the text says less */
    if (why->reason == GRADWIRE__REASON__OTHER_DATA && why->differing) {
        fill(room, host->contents);
        m->contents = room;
        m->differing = (char *)why->differing;
    }
    if (!why->encoding)
        return;
    m->encoding.data = (uint8_t *)host->job->encoding;
    m->encoding.len = sizeof host->job->encoding;
    m->encoding_cut = host->encoding_cut;
}

void hello_other_data(const Gradwire__Refuse *m, const struct cluster *cluster,
                      const struct contents *contents, char *out, size_t bytes)
{
    char how[280], name[WORKER_NAME_BYTES];
    const Gradwire__Contents none = GRADWIRE__CONTENTS__INIT;
    const struct contents_print print = print_of(m->contents ? m->contents : &none);
    (void)worker_name(name, cluster->worker_id, cluster->separate_chief);
    if (contents &&
        contents_differ_here(contents, &print, "the chief", m->differing, how, sizeof how))
        (void)snprintf(out, bytes, OTHER_DATA, name, how);
    else
        (void)snprintf(out, bytes, "%s", m->text);
}
