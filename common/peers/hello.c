#include "common/peers/hello.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"

void hello_make(Gradwire__Hello *m, const struct job *job, const struct cluster *cluster,
                uint32_t ps)
{
    assert(!cluster->is_chief || cluster->worker_id == 0);
    gradwire__hello__init(m);
    m->version = (char *)GRADWIRE_VERSION;
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
}

/* ---- judging a hello ---- */

static bool refuse(struct hello_refusal *why, Gradwire__Reason reason, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static bool refuse(struct hello_refusal *why, Gradwire__Reason reason, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why->text, sizeof why->text, fmt, args);
    va_end(args);
    why->reason = reason;
    why->encoding = false;
    return false;
}

static bool same_identity(const struct job *job, const Gradwire__Hello *m)
{
    return m->identity.len == sizeof job->identity &&
           memcmp(m->identity.data, job->identity, sizeof job->identity) == 0;
}

/* A process that reads no rows sends no encoding. */
static bool same_encoding(const struct job *job, const Gradwire__Hello *m)
{
    return !job->encoded || m->encoding.len == 0 ||
           (m->encoding.len == sizeof job->encoding &&
            memcmp(m->encoding.data, job->encoding, sizeof job->encoding) == 0);
}

static bool same_ps_list(const struct cluster *own, const Gradwire__Hello *m,
                         struct hello_refusal *why)
{
    const Gradwire__Reason other = GRADWIRE__REASON__OTHER_JOB;
    if (own->sparse) {
        const char *dialed = m->ps_index < m->n_ps_hosts ? m->ps_hosts[m->ps_index] : NULL;
        return (m->ps_index == own->index && dialed && strcmp(dialed, own->ps[0]) == 0) ||
               refuse(why, other, "it connected to ps %u at %s; this is ps %u at %s", m->ps_index,
                      dialed ? dialed : "?", own->index, own->ps[0]);
    }
    if (m->n_ps_hosts != own->n_ps || m->ps_index != own->index)
        return refuse(why, other, "it connected to ps %u of %zu; this is ps %u of %u", m->ps_index,
                      m->n_ps_hosts, own->index, own->n_ps);
    for (uint32_t i = 0; i < own->n_ps; i++)
        if (strcmp(m->ps_hosts[i], own->ps[i]) != 0)
            return refuse(why, other, "its ps %u is at %s, ours is at %s", i, m->ps_hosts[i],
                          own->ps[i]);
    return true;
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
    if (!same_ps_list(host->cluster, m, why))
        return false;
    if (m->role == GRADWIRE__ROLE__CHIEF && m->worker != 0)
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE,
                      "worker %u claims to be the chief, which is worker 0", m->worker);
    return true;
}

static bool chief_takes(const struct hello_host *host, const Gradwire__Hello *m,
                        struct hello_refusal *why)
{
    const struct job *job = host->job;
    bool other_name = strcmp(m->job, job->name) != 0;
    if (other_name || !same_identity(job, m))
        return refuse(why, GRADWIRE__REASON__OTHER_JOB,
                      "a worker of job %.64s connected to the chief of job %s%s", m->job, job->name,
                      other_name ? "" : "; an identity key differs");
    if (!same_encoding(job, m)) {
        (void)refuse(why, GRADWIRE__REASON__OTHER_JOB,
                     "its rows are encoded in another way than the chief's (vocabularies, scales "
                     "or buckets): give it the same data and data.encoding");
        why->encoding = true;
        return false;
    }
    if (m->role == GRADWIRE__ROLE__CHIEF) /* a second chief */
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE, "a chief connected to the chief");
    if (m->role != GRADWIRE__ROLE__DOCTOR && (m->worker == 0 || m->worker >= WORKERS_MAX))
        return refuse(why, GRADWIRE__REASON__BAD_MESSAGE,
                      "worker %u connected to the chief; allowed: 1 to %d", m->worker,
                      WORKERS_MAX - 1);
    return true;
}

static const char *role_word(Gradwire__Role role, bool to_ps)
{
    return role == GRADWIRE__ROLE__DOCTOR           ? "doctor"
           : role == GRADWIRE__ROLE__CHIEF && to_ps ? "chief"
                                                    : "worker";
}

bool hello_judge(const struct hello_host *host, const Gradwire__Hello *m, struct hello_refusal *why)
{
    bool is_ps = host->cluster->role == ROLE_PS;
    assert(is_ps || host->cluster->is_chief); /* no other process accepts hellos */
    if (!version_same(m->version, role_word(m->role, is_ps), is_ps ? "ps" : "chief", why->text,
                      sizeof why->text)) {
        why->reason = GRADWIRE__REASON__OTHER_VERSION;
        why->encoding = false;
        return false;
    }
    return is_ps ? ps_takes(host, m, why) : chief_takes(host, m, why);
}

void hello_refuse(Gradwire__Refuse *m, const struct hello_host *host,
                  const struct hello_refusal *why)
{
    gradwire__refuse__init(m);
    m->reason = why->reason;
    m->text = (char *)why->text;
    if (why->reason == GRADWIRE__REASON__OTHER_JOB)
        m->identity_text = host->job->identity_text;
    if (!why->encoding)
        return;
    m->encoding.data = (uint8_t *)host->job->encoding;
    m->encoding.len = sizeof host->job->encoding;
    m->encoding_cut = host->encoding_cut;
}
