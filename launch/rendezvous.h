/* Where the ranks of one start meet, and how `gradwire status` finds them: DIR/rendezvous/ATTEMPT has a file for each rank
 * ("ADDRESS\nROLE INDEX PID HOST\n"), "verdict-RANK" of the first rank of each host, "page" with the address of the job's page ("URL HOST\n"), and rank 0's token.
 * Each file is there whole or not at all. All calls block on storage that the ranks may share. */
#ifndef GRADWIRE_LAUNCH_RENDEZVOUS_H
#define GRADWIRE_LAUNCH_RENDEZVOUS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "launch/local/process.h"

#define RENDEZVOUS_FOLDER "rendezvous"

enum { RENDEZVOUS_HOST_BYTES = 256, RENDEZVOUS_URL_BYTES = 320 };

struct rendezvous_rank {
    char address[PROCESS_ADDRESS_BYTES];
    char role[16]; /* "": a rank of an earlier release, which left its address alone */
    uint32_t index;
    long pid;
    char host[RENDEZVOUS_HOST_BYTES]; /* the name that its host has for itself */
};

/* The name of this host; "" where it has none. */
void rendezvous_host(char out[RENDEZVOUS_HOST_BYTES]);

/* Make `folder` if it is missing, and leave this rank's file. Errors: ERR_IO. */
enum err rendezvous_leave(const char *folder, uint32_t rank, const struct rendezvous_rank *me,
                          struct errmsg *e) MUST_CHECK;
/* False: that rank has not come yet, and *out is unchanged. */
bool rendezvous_read(const char *folder, uint32_t rank, struct rendezvous_rank *out);

/* One more than the highest rank that has come. */
uint32_t rendezvous_end(const char *folder);

/* What a rank found that looked at its host: "" is nothing, else why the job cannot run there. Errors: ERR_IO. */
enum { RENDEZVOUS_VERDICT_BYTES = 1024 };
enum err rendezvous_leave_verdict(const char *folder, uint32_t rank, const char *why,
                                  struct errmsg *e) MUST_CHECK;
/* False: it has not said yet. */
bool rendezvous_verdict(const char *folder, uint32_t rank, char why[RENDEZVOUS_VERDICT_BYTES]);

/* `bind` is where the page listens, "[::]" and "0.0.0.0" being all addresses of this host. Errors: ERR_IO. */
enum err rendezvous_leave_page(const char *folder, const char *bind, uint16_t port,
                               struct errmsg *e) MUST_CHECK;
bool rendezvous_page(const char *folder, char url[RENDEZVOUS_URL_BYTES],
                     char host[RENDEZVOUS_HOST_BYTES]);

/* The attempt that came last to DIR. False: no rank has come to DIR. */
bool rendezvous_newest(const char *dir, char folder[PATH_MAX]);
/* All ranks of `attempt` have come: remove what other attempts left. */
void rendezvous_forget_others(const char *dir, const char *attempt);

#endif
