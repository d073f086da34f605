/* A worker's connection to the chief, on the control thread.
 *
 * Happy path: ask ps 0 where the chief is -> dial the chief -> hello -> WELCOME and what follows, to the training
 * thread. Failure modes: any connection lost (ask ps 0 again), refused by name (tried again until timeouts.start_s,
 * then exit 1 with the reason), nobody there for too long (exit 1). */
#ifndef GRADWIRE_WORKER_CONTROL_CHIEF_LINK_H
#define GRADWIRE_WORKER_CONTROL_CHIEF_LINK_H

#include "worker/control/control.h"

struct chief_link;

enum err chief_link_new(struct chief_link **l, struct errmsg *e) MUST_CHECK;
/* Behind control_close: storage does not answer a look for the final manifest. Then nothing that it uses may be freed: the
 * process is to end by _exit. */
bool chief_link_hangs(const struct chief_link *l);
/* After control_close. */
void chief_link_free(struct chief_link *l);
extern const struct control_ops chief_link_ops;

#endif
