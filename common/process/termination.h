/* The termination message of a process, for its supervisor. In Kubernetes this is the container's
 * terminationMessagePath. */
#ifndef GRADWIRE_COMMON_PROCESS_TERMINATION_H
#define GRADWIRE_COMMON_PROCESS_TERMINATION_H

/* Writes `text`, at most TERMINATION_BYTES, in place of the contents of the file `path`. It does not replace the
 * file itself, which can be a mount. With path "" it does nothing. A failure is logged as a warning. */
enum { TERMINATION_BYTES = 4096 };
void termination_write(const char *path, const char *text);

/* Call at the end of main. The text depends on the exit code: "done" for 0, the last log line for 143, otherwise
 * the last error. */
void termination_end(const char *path, int exit_code);

#endif
