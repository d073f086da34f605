/* The handling of signals in a process before its event loop takes them (loop_signal_init), and again after the
 * loop has released them; and the message that it leaves when it ends. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The termination message of a process, for its supervisor. In Kubernetes this is the container's
 * terminationMessagePath. */
/* Writes `text`, at most TERMINATION_BYTES, in place of the contents of the file `path`. It does not replace the
 * file itself, which can be a mount. With path "" it does nothing. A failure is logged as a warning. */
enum { TERMINATION_BYTES = 4096 };
void termination_write(const char *path, const char *text);

/* Call at the end of main. The text depends on the exit code: "done" for 0, the last log line for 143, otherwise
 * the last error. */
void termination_end(const char *path, int exit_code);

/* Call first in main. SIGPIPE and SIGXFSZ are ignored: a write then fails with EPIPE or EFBIG. SIGTERM and SIGINT
 * end the process immediately with exit code 143, because it has no state yet that a checkpoint could save. A
 * signal held back by signals_block takes effect here. */
void signals_init(void);

/* From now on the handlers of signals_init write `text` in place of the contents of the file `path`, as
 * termination_write does, before they end the process. With path "" they write nothing. Both strings must stay valid
 * while the process lives. A later call replaces an earlier one. */
void signals_last_words(const char *path, const char *text);

/* Blocks SIGTERM and SIGINT before exec of another gradwire program; they stay pending until its signals_init.
 * Otherwise they would kill the new program before its main starts. PID 1 of a container would never see them: the
 * kernel ignores signals without a handler there. */
void signals_block(void);

/* As fork(2), but with all signals blocked during the call, so that none of the parent's handlers runs in the child.
 * In the child they stay blocked. */
pid_t signals_fork(void);
/* In such a child, before exec: restore the default action of every signal and unblock all. */
void signals_reset(void);

/* From now on the handlers of signals_init only note the signal, because the process is ending by itself and must
 * finish its last writes. Handlers of an event loop are unchanged. */
void signals_hold(void);

/* Returns whether a signal has arrived since signals_hold. */
bool signals_held(void);
