/* The source that says which process of the job this container runs: TF_CONFIG, the ordinal of the pod, the hosts form's addresses, or
 * the programs' own flags. Without any of them the container trains alone. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_FORM_H
#define GRADWIRE_K8S_ENTRYPOINT_FORM_H

#include <stdbool.h>

#include "common/base/err.h"

bool form_hosts(void);     /* --worker_ips */
bool form_ordinals(void);  /* --role */
bool form_tf_config(void); /* TF_CONFIG is set and not blank */
bool form_flags(void);     /* --ps_hosts, --job_name, ..: as for a ps or worker, over TF_CONFIG */
bool form_alone(void);     /* none of them */

/* Check that at most one of --worker_ips, --role and TF_CONFIG (with or without flags) says which process this is, and if
 * none does, that no variable makes this container one of several (signs.h), or that --alone is given. Errors: ERR_INPUT. */
enum err form_check(struct errmsg *e) MUST_CHECK;

#endif
