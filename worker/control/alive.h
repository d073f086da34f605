/* Tells the launcher every second that this process runs, until it ends. A thread of its own does this: a chief that is busy
 * (it reads data, writes a model) gives signs, and one that is stopped, or whose host hangs, gives none. */
#ifndef GRADWIRE_WORKER_CONTROL_ALIVE_H
#define GRADWIRE_WORKER_CONTROL_ALIVE_H

/* fd: as in progress_init; -1 does nothing. Later calls do nothing. Without memory for a thread the launcher never hears of
 * it, and does not expect it. */
void alive_begin(int fd);

#endif
