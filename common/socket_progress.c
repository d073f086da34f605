/* What the kernel knows of a connection's pace; apart from socket.c, since <linux/tcp.h> and <netinet/tcp.h> do not go
 * together. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/socket.h"

enum err socket_progress(int fd, uint64_t *acked_bytes, double *busy_s)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_busy_time) + sizeof info.tcpi_busy_time)
        return ERR_STATE;
    *acked_bytes = info.tcpi_bytes_acked;
    *busy_s = (double)info.tcpi_busy_time * 1e-6;
    return ERR_OK;
}
