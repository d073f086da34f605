/* A peer whose name comes and goes, and moves: the resolver is this test's own. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/peers/dial.h"
#include "common/net/listen.h"
#include "common/net/reach.h"
#include "common/net/socket.h"
#include "tests/lib/peer.h"

#define POD "mnist-ps-0.mnist.svc"

enum { OF_A_NAME = 2 };

static _Atomic(const char *)
    pod_at; /* one address, or two with a comma between; NULL: no such name */
static atomic_int lookups;

/* In place of libc's, for all that is linked here. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    struct one {
        struct addrinfo info;
        struct sockaddr_in to;
    };
    struct one *all;
    bool pod = strcmp(host, POD) == 0;
    const char *at = pod ? atomic_load(&pod_at) : host;
    (void)hints;
    atomic_fetch_add(&lookups, pod);
    if (!at)
        return EAI_NONAME;
    if (!(all = calloc(OF_A_NAME, sizeof *all)))
        return EAI_MEMORY;
    for (int i = 0; i < OF_A_NAME && at; i++) {
        char one[INET_ADDRSTRLEN];
        (void)snprintf(one, sizeof one, "%.*s", (int)strcspn(at, ","), at);
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
        all[i].to.sin_family = AF_INET;
        all[i].to.sin_port = htons((uint16_t)atoi(service));
        assert_int_equal(inet_pton(AF_INET, one, &all[i].to.sin_addr), 1);
        all[i].info.ai_family = AF_INET;
        all[i].info.ai_socktype = SOCK_STREAM;
        all[i].info.ai_addr = (struct sockaddr *)&all[i].to;
        all[i].info.ai_addrlen = sizeof all[i].to;
        all[i].info.ai_next = at ? &all[i + 1].info : NULL;
    }
    *found = &all[0].info;
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    free(found);
}

static struct loop loop;
static struct peer p;

static int listens_at(const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    assert_int_equal(inet_pton(AF_INET, address, &to.sin_addr), 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(listen(fd, 256), 0);
    return fd;
}

/* The connecting side may know that it is connected before the listener does. */
static int comes_to(int listener)
{
    peer_wait_fd(listener, POLLIN);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void a_name_that_comes_late_and_moves_is_looked_up_at_each_try(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct dialer *d = NULL;
    char name[64];
    assert_int_equal(loop_init(&loop), ERR_OK);
    p.loop = &loop;
    int first = listens_at("127.0.0.1", 0);
    int then = listens_at("127.0.0.2", socket_port(first));
    (void)snprintf(name, sizeof name, POD ":%u", socket_port(first));
    assert_int_equal(dial_new(&d, &loop, "ps 0", name, &peer_ops, &p, &e), ERR_OK);
    dial_start(d);
    while (atomic_load(&lookups) < 3)
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    assert_string_equal(dial_why(d), gai_strerror(EAI_NONAME));
    assert_int_equal(p.opened, 0);

    atomic_store(&pod_at, "127.0.0.1"); /* it is ready */
    peer_wait_int(&loop, &p.opened, 1);
    int fd = comes_to(first);

    atomic_store(&pod_at, "127.0.0.2"); /* created again; another pod has its address now */
    close(fd);
    peer_wait_int(&loop, &p.closed, 1);
    p = (struct peer){.loop = &loop};
    dial_start(d);
    peer_wait_int(&loop, &p.opened, 1);
    fd = comes_to(then);
    assert_int_equal(accept(first, NULL, NULL), -1);

    close(fd);
    close(first);
    close(then);
    dial_free(d);
    peer_close(&p);
    loop_close(&loop);
}

static void every_address_of_a_name_is_tried_and_any_number_of_peers(void **state)
{
    (void)state;
    enum { PEERS = 70 };
    char name[64], address[64];
    struct reach r[PEERS] = {{0}};
    int fd = listens_at("127.0.0.1", 0);
    (void)snprintf(name, sizeof name, POD ":%u", socket_port(fd));
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", socket_port(fd));
    for (int i = 0; i < PEERS; i++)
        r[i].address = i % 10 == 9 ? name : address;
    atomic_store(&pod_at, "127.0.0.3,127.0.0.1");
    assert_int_equal(reach_all(r, PEERS, 5000), ERR_OK);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(r[i].is, REACH_OPEN);
    atomic_store(&pod_at, "127.0.0.3,127.0.0.2");
    assert_int_equal(reach_all(r, PEERS, 5000), ERR_OK);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(r[i].is, i % 10 == 9 ? REACH_REFUSED : REACH_OPEN);
    atomic_store(&pod_at, NULL);
    assert_int_equal(reach_names(r, PEERS), ERR_OK);
    assert_int_equal(r[PEERS - 1].is, REACH_NAMELESS);
    assert_string_equal(r[PEERS - 1].why, gai_strerror(EAI_NONAME));
    close(fd);
}

/* The line on stderr. */
static void a_name_with_two_addresses_is_listened_for_on_one_of_them_which_is_named(void **state)
{
    char said[512] = "", wanted[128];
    struct errmsg e = {""};
    int ends[2], fd = -1, before = dup(STDERR_FILENO);
    (void)state;
    atomic_store(&pod_at, "127.0.0.2,127.0.0.3");
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    enum err err = listen_bind(&fd, POD ":0", 0, &e);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(ends[1]);
    assert_int_equal(err, ERR_OK);
    assert_true(read(ends[0], said, sizeof said - 1) >= 0);
    (void)snprintf(wanted, sizeof wanted,
                   "listening on 127.0.0.2:%u, one of several addresses of %s", socket_port(fd),
                   POD ":0");
    assert_non_null(strstr(said, wanted));
    close(fd);
    close(ends[0]);
    close(before);
    atomic_store(&pod_at, NULL);
    atomic_store(&lookups, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_with_two_addresses_is_listened_for_on_one_of_them_which_is_named),
        cmocka_unit_test(a_name_that_comes_late_and_moves_is_looked_up_at_each_try),
        cmocka_unit_test(every_address_of_a_name_is_tried_and_any_number_of_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
