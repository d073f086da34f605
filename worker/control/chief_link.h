/* A worker's connection to the chief, on the control thread.
 *
 * Happy path: ask ps 0 for the chief's address -> connect to the chief -> hello -> WELCOME, and all later messages
 * go to the training thread.
 * Failure modes: any connection is lost (ask ps 0 again), refused by name (tried again until timeouts.start_s, then
 * exit 1 with the reason), no chief for too long (exit 1). */
#pragma once

#include "worker/control/control.h"

struct chief_link;

/* The role for control_init with chief_link_ops. Errors: ERR_NOMEM. */
enum err chief_link_new(struct chief_link **l, struct errmsg *e) MUST_CHECK;
/* True if storage does not answer a search for the final manifest. The search's memory must then not be freed, and
 * the process must end by _exit. Call after control_close. */
bool chief_link_hangs(const struct chief_link *l);
/* Call after control_close. */
void chief_link_free(struct chief_link *l);
extern const struct control_ops chief_link_ops;
