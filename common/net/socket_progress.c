/* Separate from socket.c because <linux/tcp.h> and <netinet/tcp.h> cannot be included together. */
#include "common/net/socket_progress.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum err socket_progress(int fd, struct link_progress *p)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans)
        return ERR_STATE;
    /* tcpi_bytes_acked also counts the SYN; the sent bytes do not */
    uint64_t gone = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
    *p = (struct link_progress){info.tcpi_bytes_acked, (double)info.tcpi_busy_time * 1e-6,
                                info.tcpi_notsent_bytes};
    if (gone > info.tcpi_bytes_acked)
        p->waiting_bytes += gone - info.tcpi_bytes_acked;
    return ERR_OK;
}

int64_t socket_silent_ms(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_notsent_bytes) + sizeof info.tcpi_notsent_bytes)
        return 0;
    bool window_closed = info.tcpi_unacked == 0 && info.tcpi_notsent_bytes > 0;
    if (window_closed && info.tcpi_probes < 2)
        return 0;
    return info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                              : info.tcpi_last_data_recv;
}
