/* The directory through which the ranks of one start find each other, and `gradwire status` finds them.
 * DIR/rendezvous/ATTEMPT has:
 * - for each rank a file RANK: "ADDRESS\nROLE INDEX PID HOST\n";
 * - "verdict-RANK" for the first rank of each host: the result of its checks;
 * - "begun": the chief-to-be has locked DIR, so no rank of an earlier attempt waits any more;
 * - "refused": why the start cannot use DIR, such as another job that holds its lock; all its ranks end;
 * - "page": the address of the job's page, "URL HOST\n";
 * - rank 0's token.
 * Files are renamed into place, so a reader never sees a part of one. All functions block on storage, which the ranks may
 * share over a network. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "launch/local/process.h"

enum { RENDEZVOUS_HOST_BYTES = 256, RENDEZVOUS_URL_BYTES = 320 };

struct rendezvous_rank {
    char address[PROCESS_ADDRESS_BYTES];
    char role[16]; /* "": a rank of release 0.1.0, which wrote only its address */
    uint32_t index;
    long pid;
    char host[RENDEZVOUS_HOST_BYTES]; /* its host's own name (gethostname) */
};

/* The name of this host; "" if it has none. */
void rendezvous_host(char out[RENDEZVOUS_HOST_BYTES]);

/* Make `folder` if it is missing, and write this rank's file. Errors: ERR_IO. */
enum err rendezvous_leave(const char *folder, uint32_t rank, const struct rendezvous_rank *me,
                          struct errmsg *e) MUST_CHECK;
/* Read a rank's file. False: it does not exist yet, or has no valid address; *out is unchanged. */
bool rendezvous_read(const char *folder, uint32_t rank, struct rendezvous_rank *out);

/* One more than the highest rank that has a file. */
uint32_t rendezvous_end(const char *folder);
/* Read the file of the attempt's chief, its first worker. False: it does not exist yet; *chief is unchanged. */
bool rendezvous_chief(const char *folder, struct rendezvous_rank *chief);

/* Note that DIR is locked for this attempt. Errors: ERR_IO. */
enum err rendezvous_begin(const char *folder, struct errmsg *e) MUST_CHECK;
/* Tell all ranks of the attempt, also those that come later, to end. Errors: ERR_IO. */
enum err rendezvous_refuse(const char *folder, const char *why, struct errmsg *e) MUST_CHECK;

/* Write the result of a rank's checks of its host: "" no problem, otherwise why the job cannot run there. Errors: ERR_IO. */
enum { RENDEZVOUS_VERDICT_BYTES = 1024 };
enum err rendezvous_leave_verdict(const char *folder, uint32_t rank, const char *why,
                                  struct errmsg *e) MUST_CHECK;
/* Read the result. False: it does not exist yet. */
bool rendezvous_verdict(const char *folder, uint32_t rank, char why[RENDEZVOUS_VERDICT_BYTES]);

/* Read why the attempt was refused. False: it was not. */
bool rendezvous_refused(const char *folder, char why[RENDEZVOUS_VERDICT_BYTES]);

/* Write the address of the job's page. `bind`: the address on which the page listens; "[::]" and "0.0.0.0" mean all addresses
 * of this host. Errors: ERR_IO. */
enum err rendezvous_leave_page(const char *folder, const char *bind, uint16_t port,
                               struct errmsg *e) MUST_CHECK;
/* Read the address of the job's page, and the name of the host that serves it. False: it does not exist yet. */
bool rendezvous_page(const char *folder, char url[RENDEZVOUS_URL_BYTES],
                     char host[RENDEZVOUS_HOST_BYTES]);

/* Find the directory of DIR's newest attempt that was not refused, by modification time. False: DIR has none; *folder is
 * unchanged. */
bool rendezvous_newest(const char *dir, char folder[PATH_MAX]);
/* Find the attempt whose chief has this pid: its name, and the chief. False: none. */
bool rendezvous_of(const char *dir, pid_t chief_pid, char attempt[NAME_MAX + 1],
                   struct rendezvous_rank *chief);
/* Remove the files of other attempts: of those that have begun, and of those that are at least `older_s` older than this one.
 * In others ranks may still wait. Only when DIR is locked for `attempt`. */
void rendezvous_forget_others(const char *dir, const char *attempt, uint32_t older_s);
