/* The last words of a process for who looks after it (Kubernetes: the container's terminationMessagePath). */
#ifndef GRADWIRE_COMMON_PROCESS_TERMINATION_H
#define GRADWIRE_COMMON_PROCESS_TERMINATION_H

/* Write `text` into the file `path`, over what it held: it may be a mount, so it is not replaced. At most
 * TERMINATION_BYTES. `path` "": nothing. A file that cannot be written is a warning. */
enum { TERMINATION_BYTES = 4096 };
void termination_write(const char *path, const char *text);

/* At the end of main: what the process said last, by its exit code: 0 "done"; 143 its last line; else its last error. */
void termination_end(const char *path, int exit_code);

#endif
