#include "common/serve/vitals_note.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/serve/vitals.h"

void vitals_http(int fd, char out[VITALS_HTTP_BYTES])
{
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof at;
    char host[INET6_ADDRSTRLEN];
    out[0] = 0;
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &bytes) != 0)
        return;
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
        bool every = in->sin_addr.s_addr == htonl(INADDR_ANY);
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(out, VITALS_HTTP_BYTES, "%s:%u", every ? "" : host, ntohs(in->sin_port));
    } else if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&at;
        bool every = memcmp(&in->sin6_addr, &in6addr_any, sizeof in6addr_any) == 0;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        if (every)
            (void)snprintf(out, VITALS_HTTP_BYTES, ":%u", ntohs(in->sin6_port));
        else
            (void)snprintf(out, VITALS_HTTP_BYTES, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

void vitals_note_make(struct vitals_note *n, int http_fd)
{
    gradwire__vitals__init(&n->message);
    n->message.resident_bytes = vitals_resident_bytes();
    vitals_http(http_fd, n->http);
    n->message.http = n->http;
    uint32_t count = log_warnings(n->kept);
    for (uint32_t i = 0; i < count; i++) {
        gradwire__warning__init(&n->warning[i]);
        n->warning[i].time_ms = n->kept[i].time_ms;
        n->warning[i].error = n->kept[i].level == LOG_ERROR;
        n->warning[i].text.data = (uint8_t *)n->kept[i].text;
        n->warning[i].text.len = strlen(n->kept[i].text);
        n->warnings[i] = &n->warning[i];
    }
    n->message.n_warnings = count;
    n->message.warnings = n->warnings;
}
