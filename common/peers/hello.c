/* The first message of a connection and its answers, and the sending of messages. */
#include "common/peers/hello.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/version.h"
#include "common/wire/frame.h"

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

/* True for a chief, and for one that reads its data. */
static bool of_chief(const Gradwire__Hello *m)
{
    return m->role == GRADWIRE__ROLE__CHIEF ||
           (m->role == GRADWIRE__ROLE__ARRIVAL && m->chief_address[0]);
}

static const char *role_word(const Gradwire__Hello *m)
{
    return of_chief(m) ? "chief" : m->role == GRADWIRE__ROLE__DOCTOR ? "doctor" : "worker";
}

/* "worker 3", "the chief", "doctor 3". The lists of the sender number it. */
static const char *name_sender(char out[WORKER_NAME_BYTES], const Gradwire__Hello *m)
{
    if (of_chief(m))
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

/* A doctor has read only the beginnings of its files, an arrival a part of them, and a worker whose job is done, or that asks for the
 * index of the data (data.order: stream), none: they send nothing. */
static bool same_contents(const struct hello_host *host, const Gradwire__Hello *m,
                          struct hello_refusal *why)
{
    static const Gradwire__Contents none = GRADWIRE__CONTENTS__INIT;
    const Gradwire__Contents *theirs = m->contents ? m->contents : &none;
    char how[280], sender[WORKER_NAME_BYTES];
    if (!host->contents || m->role == GRADWIRE__ROLE__DOCTOR ||
        m->role == GRADWIRE__ROLE__ARRIVAL || m->idle ||
        (m->role == GRADWIRE__ROLE__READER && !m->contents && job_streams(host->job)) ||
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
    if (of_chief(m) && m->worker != 0)
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE,
                      "worker %u claims to be the chief, which is worker 0", m->worker);
    return true;
}

/* With a chief apart from the workers, worker 0 has the id 1. Otherwise worker 1 has it. */
static bool same_chief(const struct cluster *own, const Gradwire__Hello *m,
                       struct hello_refusal *why)
{
    bool known = !own->sparse && m->listed_workers > 0;
    bool trains = m->role == GRADWIRE__ROLE__WORKER || m->role == GRADWIRE__ROLE__ARRIVAL;
    if (!trains || !known || m->listed_chief == own->separate_chief)
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
    const char *dialing = is_ps || m->role == GRADWIRE__ROLE__DOCTOR ? role_word(m) : "worker";
    if (!version_same(m->version, dialing, is_ps ? "ps" : "chief", why->text, sizeof why->text)) {
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
