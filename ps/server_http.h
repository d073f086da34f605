/* What a ps shows to the outside by HTTP: numbers of the server, and what each shard thread last told of itself. */
#ifndef GRADWIRE_PS_SERVER_HTTP_H
#define GRADWIRE_PS_SERVER_HTTP_H

#include "common/serve/http.h"
#include "common/job/job.h"
#include "common/peers/pending.h"
#include "common/process/process_state.h"
#include "ps/shard_thread.h"

/* What the server knows at the moment. */
struct server_http_facts {
    const char *run, *chief_address; /* the job's UUID, "": none yet */
    bool chief, going;
    enum process_state state;
    double chief_away_s;
    uint32_t connections; /* that said no hello to a shard, the chief's among them */
    const struct pending *pending;
};

struct server_http_config {
    const struct job *job;
    uint32_t index, threads;
    struct shard_thread *const *thread;
    void (*facts)(void *ctx, struct server_http_facts *f);
    void *ctx;
};

struct server_http {
    struct server_http_config config;
    struct http *http;           /* NULL: off */
    struct shard_report **shard; /* of each thread; NULL: not told yet */
    bool *asked;
};

/* The config's pointers outlive it. `fd` stays the caller's; -1: none. Errors: ERR_NOMEM. */
enum err server_http_open(struct server_http *w, struct loop *loop, int fd,
                          const struct server_http_config *config) MUST_CHECK;
void server_http_close(struct server_http *w);
/* Ask every thread that has answered the last time; nothing where HTTP is off. */
void server_http_measure(struct server_http *w);
void server_http_on_report(struct server_http *w, uint32_t thread,
                           struct shard_report *take_report);

#endif
