/* Who dials a process of a job: does he have to prove that he is of the job, and if he need not, who may be served?
 * --auth=auto (the default): proof is asked where a token, or certificates, are held. Without them only loopback is
 * served; in the image, whose entrypoint says so (AUTH_POD), the pod's addresses are, with a warning. required: without
 * them no start. none: no proof is asked, wherever it listens. */
#ifndef GRADWIRE_COMMON_PEERS_AUTH_H
#define GRADWIRE_COMMON_PEERS_AUTH_H

#include "common/base/err.h"

/* An environment variable: this is a pod that was told by TF_CONFIG, or by the hosts form, which process it is. */
#define AUTH_POD "GRADWIRE_POD"

/* Does what is held fit the flag? Errors: ERR_INPUT, required and nothing is held, none and something is; or no such
 * word. Thread: start-up, behind token_load and tls_load. */
enum err auth_check(const char *flag, struct errmsg *e) MUST_CHECK;
/* May a process that holds no secret reach this listening socket? Warns where they may. Errors: ERR_INPUT with what to do. Thread: start-up. */
enum err auth_check_listener(const char *flag, int fd, struct errmsg *e) MUST_CHECK;

/* What who dials has to prove: "tls" (and the token, where both are held), "token" or "none". Thread: any, behind the
 * start. */
const char *auth_word(void);

#endif
