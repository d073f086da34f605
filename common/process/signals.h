/* What signals mean to a process of ours before its event loop takes them (loop_signal_init), and
 * again once the loop has let go of them. */
#ifndef GRADWIRE_COMMON_PROCESS_SIGNALS_H
#define GRADWIRE_COMMON_PROCESS_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

/* First thing in main: SIGPIPE and SIGXFSZ are ignored (a write says EPIPE, EFBIG); SIGTERM and SIGINT end the process
 * at once with 143: it holds nothing yet that a cut could save. One that signals_block kept ends it here. */
void signals_init(void);

/* What ends the process at once leaves `text` in the file `path` first, over what it held, as termination_write does;
 * path "": nothing. Both are the caller's, as long as the process lives; said again, the last one counts. */
void signals_last_words(const char *path, const char *text);

/* For who becomes another program of ours: SIGTERM and SIGINT wait for its signals_init. Without this they kill a process
 * whose main has not begun, and PID 1 of a container, which the kernel spares, never hears of them. */
void signals_block(void);

/* fork(2) with all signals blocked, so that no handler of the parent's runs in the child, where they stay blocked. */
pid_t signals_fork(void);
/* In such a child, before exec: each signal does what it does by default, and none is blocked. */
void signals_reset(void);

/* From now on the handlers of signals_init do nothing: the process is about to end by itself, and what it still writes
 * must not be cut off. Those of an event loop are not touched. */
void signals_hold(void);

/* A signal came since then. */
bool signals_held(void);

#endif
