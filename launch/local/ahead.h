/* A look at the job before its first process starts: the worker program makes the model, and says what the processes will
 * take of this host. Models are its business, so it is run for that. */
#ifndef GRADWIRE_LAUNCH_LOCAL_AHEAD_H
#define GRADWIRE_LAUNCH_LOCAL_AHEAD_H

#include "launch/local/crew.h"

/* Check a job before its processes start; warn at once of what is unwise. Errors: ERR_INPUT if the job cannot work. Blocks
 * until the worker program, which does the checks, has ended. */
enum err ahead_look(const struct options *o, const struct site *site, struct errmsg *e) MUST_CHECK;

#endif
