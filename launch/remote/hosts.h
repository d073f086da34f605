/* The hosts file of `train --hosts FILE`, and who runs where. Parsing and arithmetic; the one thing
 * that is read is the file.
 *
 *   HOST [slots=N] [role=ps|worker|chief|evaluator] [ports=LO-HI] [workdir=PATH]     # comment
 *
 * HOST is a name or an address, as the others reach it, or user@HOST for the remote shell; an IPv6
 * address stands in brackets. A host may have several lines, each with another role. */
#ifndef GRADWIRE_LAUNCH_REMOTE_HOSTS_H
#define GRADWIRE_LAUNCH_REMOTE_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cluster/cluster.h"
#include "common/base/err.h"
#include "launch/remote/problems.h"

enum {
    HOSTS_BYTES_MAX = 1 << 20,
    HOSTS_SLOTS_MAX = 1024,
    /* below what kernels give to connections of their own, so that a port is found free again */
    HOSTS_PORT_LOW = 20000,
    HOSTS_PORT_HIGH = 29999
};

struct host_line {
    unsigned line;
    char *name;    /* for the remote shell: "user@node1" */
    char *address; /* for the other hosts: "node1", "[fd00::1]" */
    bool has_role;
    enum role role;
    uint32_t slots; /* processes at most; 0: as many as it gets */
    uint16_t port_low, port_high;
    char *workdir; /* NULL: as here */
};

struct hosts {
    char *file; /* for messages */
    uint32_t n;
    struct host_line *host;
};

/* Read the file; each wrong line is a problem of its own ("FILE:3: slots=0: ..."). Close with
 * hosts_close, on error too. Errors: ERR_INPUT with the problems, ERR_NOMEM. */
enum err hosts_load(struct hosts *h, const char *path, struct problems *p) MUST_CHECK;
/* The same from memory; `text` is changed. */
enum err hosts_parse(struct hosts *h, char *text, const char *file, struct problems *p) MUST_CHECK;
void hosts_close(struct hosts *h);

/* How many processes of each role, by enum role. */
struct roles {
    uint32_t n[ROLE_EVALUATOR + 1];
};

/* Which host runs what: host_of[] in the order ps, chief, workers, evaluator. A role's lines take
 * it, or, where it has none, the lines without a role; each process goes to the host with the
 * fewest, the first of these. Errors: ERR_INPUT with the problems: no host for a role, too few
 * slots. */
enum err hosts_place(const struct hosts *h, const struct roles *r, uint32_t *host_of,
                     struct problems *p) MUST_CHECK;

#endif
