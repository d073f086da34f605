/* Writes the message, and as a process ends the last line of its log. A failure is logged, and changes nothing else. */
#include "common/process/termination.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

void termination_write(const char *path, const char *text)
{
    if (!path[0])
        return;
    size_t bytes = strnlen(text, TERMINATION_BYTES);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool wrote = fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes;
    int error = errno;
    if (fd >= 0)
        wrote = close(fd) == 0 && wrote;
    if (!wrote)
        log_warn("--termination_message=%s: %s", path, strerror(error));
}

void termination_end(const char *path, int exit_code)
{
    char text[TERMINATION_BYTES] = "done";
    if (exit_code != 0)
        log_last_words(exit_code != 143, text, sizeof text);
    termination_write(path, text);
}
