/* The hello: what it says of its sender, and whether the process that was dialed takes it. Pure: greeting.h has the
 * connection, proto/README.md the order of the frames. */
#ifndef GRADWIRE_COMMON_PEERS_HELLO_H
#define GRADWIRE_COMMON_PEERS_HELLO_H

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "common/wire/msg.h"

/* What every hello says: here that of a trainer, for a control connection to ps `ps` or to the chief. The strings are
 * borrowed. */
void hello_make(Gradwire__Hello *m, const struct job *job, const struct cluster *cluster,
                uint32_t ps);

/* Who was dialed: a ps, or the chief. */
struct hello_host {
    const struct job *job;
    const struct cluster *cluster;
    const char *uuid;      /* of a ps: the run that it holds; "": none */
    uint64_t encoding_cut; /* of the chief: as in Refuse */
};

struct hello_refusal {
    Gradwire__Reason reason;
    bool encoding; /* the peer's rows mean something else than the host's */
    char text[400];
};
/* What the refusal says. The strings are borrowed of all three. */
void hello_refuse(Gradwire__Refuse *m, const struct hello_host *host,
                  const struct hello_refusal *why);

/* Whether `host` takes a peer that says this; if not, *why is filled. */
bool hello_judge(const struct hello_host *host, const Gradwire__Hello *m,
                 struct hello_refusal *why) MUST_CHECK;

#endif
