#include "worker/control/alive.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "common/base/clock.h"
#include "worker/control/progress.h"

enum { ALIVE_EVERY_MS = 1000 };

static int alive_fd = -1;

static void *tell(void *arg)
{
    (void)arg;
    for (;;) {
        progress_alive(alive_fd);
        clock_sleep_ms(ALIVE_EVERY_MS);
    }
    return NULL;
}

void alive_begin(int fd)
{
    pthread_t thread;
    sigset_t all, before;
    if (fd < 0 || alive_fd >= 0)
        return;
    alive_fd = fd;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, tell, NULL) == 0)
        (void)pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
