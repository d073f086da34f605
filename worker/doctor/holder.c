#include "worker/doctor/holder.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTENING = 0x0A }; /* TCP_LISTEN, as in /proc/net/tcp */

/* The inode of the socket that listens; 0: none. */
static unsigned long listening_inode(const char *table, uint16_t port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");
    while (file && !inode && fgets(line, sizeof line, file)) {
        unsigned local, state;
        unsigned long found;
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", &local,
                   &state, &found) == 3 &&
            local == port && state == LISTENING)
            inode = found;
    }
    if (file)
        (void)fclose(file);
    return inode;
}

static bool has_open(const char *pid, const char *socket)
{
    char path[300], target[64];
    (void)snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    DIR *d = opendir(path);
    bool found = false;
    for (struct dirent *entry; d && !found && (entry = readdir(d));) {
        (void)snprintf(path, sizeof path, "/proc/%.16s/fd/%.32s", pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        found = n > 0 && (size_t)n == strlen(socket) && memcmp(target, socket, (size_t)n) == 0;
    }
    if (d)
        (void)closedir(d);
    return found;
}

static void program_name(const char *pid, char *name, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(name, (int)bytes, file))
        (void)snprintf(name, bytes, "?");
    name[strcspn(name, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

pid_t holder_of_port(uint16_t port, char *name, size_t bytes)
{
    char socket[64];
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    if (!inode)
        inode = listening_inode("/proc/net/tcp6", port);
    if (!inode)
        return 0;
    (void)snprintf(socket, sizeof socket, "socket:[%lu]", inode);
    DIR *d = opendir("/proc");
    pid_t holder = 0;
    for (struct dirent *entry; d && !holder && (entry = readdir(d));) {
        if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
            !has_open(entry->d_name, socket))
            continue;
        holder = (pid_t)strtol(entry->d_name, NULL, 10);
        program_name(entry->d_name, name, bytes);
    }
    if (d)
        (void)closedir(d);
    return holder;
}
