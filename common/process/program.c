/* Looks for FOLDER/gradwire-NAME, and for FOLDER/NAME/NAME. For the running program FOLDER is its own directory, or the one above. */
#include "common/process/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool take(char path[static PATH_MAX], const char *found, int length)
{
    if (length < 0 || length >= PATH_MAX || access(found, X_OK) != 0)
        return false;
    memcpy(path, found, (size_t)length + 1);
    return true;
}

static bool installed(char path[static PATH_MAX], const char *folder, const char *name)
{
    char found[PATH_MAX];
    int length = snprintf(found, sizeof found, "%s/gradwire-%s", folder, name);
    return take(path, found, length);
}

static bool built(char path[static PATH_MAX], const char *folder, const char *name)
{
    char found[PATH_MAX];
    int length = snprintf(found, sizeof found, "%s/%s/%s", folder, name, name);
    return take(path, found, length);
}

static enum err not_there(const char *folder, const char *name, struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "%.200s contains neither gradwire-%s nor %s/%s: build or install gradwire again",
                   folder, name, name, name);
}

enum err program_in(char path[static PATH_MAX], const char *folder, const char *name,
                    struct errmsg *e)
{
    if (installed(path, folder, name) || built(path, folder, name))
        return ERR_OK;
    return not_there(folder, name, e);
}

enum err program_beside(char path[static PATH_MAX], const char *name, struct errmsg *e)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n <= 0)
        return err_set(e, ERR_INPUT,
                       "the directory of this program is unknown: /proc/self/exe cannot be read");
    own[n] = 0;
    *strrchr(own, '/') = 0;
    if (installed(path, own, name))
        return ERR_OK;
    char *up = strrchr(own, '/'); /* we are build/launch/launch: other programs are in build/NAME */
    if (up)
        *up = 0;
    return built(path, own, name) ? ERR_OK : not_there(own, name, e);
}
