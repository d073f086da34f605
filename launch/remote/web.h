/* The job's page over a link: browsers that come to a port of the launcher's host reach the chief's HTTP on another one.
 *
 * Happy path: a browser connects here -> WEB_OPEN -> the runner connects to the chief -> both send what comes as
 * WEB_DATA -> the side that closes sends WEB_CLOSE. Failure modes: WEB_MAX connections are open (another one is closed at once),
 * the chief is not there (closed), the link is full or a reader does not read (more than WEB_QUEUE_BYTES wait, or the other side has closed
 * for WEB_FINISH_MS: closed; a page asks again), the link is lost (all are closed). No process of the job waits for a browser when it writes. */
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
    uint32_t number;         /* of its messages; another one for each connection */
    struct bufferevent *bev; /* NULL: free */
    struct event *late;      /* it is dropped then; NULL: the other side has not closed */
};

/* All zero: nothing is passed on, and nothing is to be closed. */
struct web {
    struct event_base *base;
    struct talk *talk; /* NULL: the link is down */
    uint32_t last;     /* number that was given */
    struct web_conn conn[WEB_MAX];
};

void web_init(struct web *w, struct event_base *base);
/* Close all connections; `talk`: over which the next ones go, NULL: none can come. */
void web_talk(struct web *w, struct talk *talk);

/* A browser has come; take_fd is taken. Tells the other side. */
void web_accept(struct web *w, int take_fd);
/* From the other side. WEB_OPEN leads to 127.0.0.1:port; port 0: nobody answers there. */
void web_on_message(struct web *w, enum talk_type type, uint32_t number, const char *data,
                    size_t bytes, uint16_t port);

#endif
