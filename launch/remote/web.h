/* The job's page through the connection to another host: browsers connect to a port of the launcher's host, and reach the
 * HTTP server of the chief on the other host.
 *
 * Happy path: a browser connects here -> WEB_OPEN -> the runner connects to the chief -> both pass on received bytes as
 * WEB_DATA -> the side whose connection closes first sends WEB_CLOSE.
 * Failure modes:
 * - WEB_MAX connections are open: another one is closed immediately.
 * - The chief does not accept the connection: closed.
 * - The connection between the hosts is full, or a reader does not read: closed when more than WEB_QUEUE_BYTES wait, or
 *   WEB_FINISH_MS after the other side has closed. The page requests the data again.
 * - The connection between the hosts is lost: all are closed.
 * No process of the job waits for a browser when it writes. */
#ifndef GRADWIRE_LAUNCH_REMOTE_WEB_H
#define GRADWIRE_LAUNCH_REMOTE_WEB_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "launch/remote/talk.h"

enum { WEB_MAX = 32, WEB_QUEUE_BYTES = 1 << 20, WEB_FINISH_MS = 3000 };

struct bufferevent;
struct web;
struct web_conn {
    struct web *web;
    uint32_t number;         /* identifies the connection in messages; unique */
    struct bufferevent *bev; /* NULL: free */
    struct event *late;      /* the deadline after the other side has closed; NULL: it has not */
};

/* All zero: no connections, nothing to close. */
struct web {
    struct event_base *base;
    struct talk *talk; /* NULL: the host is not connected */
    uint32_t last;     /* the last number given to a connection */
    struct web_conn conn[WEB_MAX];
};

void web_init(struct web *w, struct event_base *base);
/* Close all connections. `talk` carries the next ones; NULL: none can be accepted. */
void web_talk(struct web *w, struct talk *talk);

/* Take a browser's connection, take_fd, and send WEB_OPEN. If WEB_MAX connections are open or no host is connected, the
 * browser's connection is closed. */
void web_accept(struct web *w, int take_fd);
/* Handle a message of the other side. WEB_OPEN connects to 127.0.0.1:port; port 0: refuse it. */
void web_on_message(struct web *w, enum talk_type type, uint32_t number, const char *data,
                    size_t bytes, uint16_t port);

#endif
