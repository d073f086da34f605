/* Authentication: whether a process that connects to us must prove that it belongs to the job, and if not, on which
 * addresses we can listen.
 * - --auth=auto (the default): a proof is required if this process has a token or certificates. Without them it can
 *   listen on loopback addresses only; in the image, whose entrypoint sets AUTH_POD, also on the pod's addresses,
 *   with a warning.
 * - required: refuse to start without a token or certificates.
 * - none: require no proof, on any address. */
#ifndef GRADWIRE_COMMON_PEERS_AUTH_H
#define GRADWIRE_COMMON_PEERS_AUTH_H

#include "common/base/err.h"

/* An environment variable: this process runs in a pod, and TF_CONFIG or the hosts form has assigned its role. */
#define AUTH_POD "GRADWIRE_POD"

/* Checks the flag against the secrets that this process has. Errors: ERR_INPUT required without any, none with
 * some, or an unknown word. Thread: start-up's, after token_load and tls_load. */
enum err auth_check(const char *flag, struct errmsg *e) MUST_CHECK;
/* Checks whether processes without a secret can reach this listening socket. If they can and --auth=none allows it, it
 * logs this; with AUTH_POD it warns. Errors: ERR_INPUT, with what to do, if they can and must not. Thread:
 * start-up's. */
enum err auth_check_listener(const char *flag, int fd, struct errmsg *e) MUST_CHECK;

/* Returns the proof that a connecting process must give: "tls" (plus the token, if this process has both), "token"
 * or "none". Thread: any, after start-up. */
const char *auth_word(void);

#endif
