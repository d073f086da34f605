/* A ps's HTTP answers: the server's own numbers, and the last report of each shard thread. */
#pragma once

#include "common/serve/http.h"
#include "job/job.h"
#include "common/peers/greeting.h"
#include "common/process/process_state.h"
#include "ps/shard_thread.h"

/* The server's present state. */
struct server_http_facts {
    const char *run, *chief_address; /* run: the job's UUID, "": none yet */
    bool chief, going;
    enum process_state state;
    double chief_away_s;
    uint32_t connections; /* those of no shard: the chief's, and those without a hello yet */
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
    struct shard_report **shard; /* of each thread; NULL: no report yet */
    bool *asked;                 /* of each thread: a request waits for its report */
};

/* The config's pointers outlive *w. `fd` stays the caller's; -1: no HTTP. Errors: ERR_NOMEM. */
enum err server_http_open(struct server_http *w, struct loop *loop, int fd,
                          const struct server_http_config *config) MUST_CHECK;
void server_http_close(struct server_http *w);
/* Request a report of every thread that has answered the previous request. Does nothing if HTTP is off. */
void server_http_measure(struct server_http *w);
void server_http_on_report(struct server_http *w, uint32_t thread,
                           struct shard_report *take_report);
