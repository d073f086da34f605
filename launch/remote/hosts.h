#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/cluster/cluster.h"

/* The hosts file of `train --hosts FILE`, and the assignment of processes to hosts. It reads the file, and does no other I/O.
 *
 *   HOST [slots=N] [role=ps|worker|chief|evaluator] [ports=LO-HI] [workdir=PATH]     # comment
 *
 * HOST is the name or address by which the other hosts reach it, or user@HOST for the remote shell. An IPv6 address is in
 * brackets. A host can have several lines with different roles. */

/* The problems of a job's hosts, one line each. All are reported before any process starts. */

struct problems {
    size_t n;
    char **line; /* lines lost for lack of memory are counted, and missing here */
    size_t kept;
};

void problems_add(struct problems *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
void problems_close(struct problems *p);

enum {
    HOSTS_BYTES_MAX = 1 << 20,
    HOSTS_SLOTS_MAX = 1024,
    /* Below the ports that kernels choose for outgoing connections, so that a port is still free at a restart. */
    HOSTS_PORT_LOW = 20000,
    HOSTS_PORT_HIGH = 29999
};

struct host_line {
    unsigned line;
    char *name;    /* for the remote shell: "user@node1" */
    char *address; /* for the other hosts: "node1", "[fd00::1]" */
    bool has_role;
    enum role role;
    uint32_t slots; /* the most processes; 0: no limit */
    uint16_t port_low, port_high;
    char *workdir; /* NULL: the same path as on this host */
};

struct hosts {
    char *file; /* for messages */
    uint32_t n;
    struct host_line *host;
};

/* Read the file; each wrong line is one problem ("FILE:3: slots=0: ..."). Close with hosts_close, also after an error.
 * Errors: ERR_INPUT with the problems, ERR_NOMEM. */
enum err hosts_load(struct hosts *h, const char *path, struct problems *p) MUST_CHECK;
/* The same for a file in memory; changes `text`. */
enum err hosts_parse(struct hosts *h, char *text, const char *file, struct problems *p) MUST_CHECK;
void hosts_close(struct hosts *h);

/* The number of processes of each role, by enum role. */
struct roles {
    uint32_t n[ROLE_EVALUATOR + 1];
};

/* Assign processes to hosts: host_of[], in the order ps, chief, workers, evaluator. A role's processes go to the lines
 * with that role, or, if there are none, to the lines without a role. Each process goes to the line with the fewest
 * processes so far, and to the first of several such lines. host_of[] has indexes of h->host. Errors: ERR_INPUT with
 * the problems: no line for a role, too few slots or ports, a line with role=chief or role=evaluator in a job without
 * such a process; ERR_NOMEM. */
enum err hosts_place(const struct hosts *h, const struct roles *r, uint32_t *host_of,
                     struct problems *p) MUST_CHECK;
