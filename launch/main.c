/* What `./gradwire train|rank|status|stop|logs` executes; the runner, which `train --hosts` starts on
 * other hosts; and the guardian, which is this program under its own name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "launch/control.h"
#include "launch/local/guardian.h"
#include "launch/rank.h"
#include "launch/remote/runner.h"
#include "launch/base/say.h"
#include "launch/train.h"

enum { EXIT_USAGE = 2 };

static int main_guardian(const char *fd)
{
    (void)prctl(PR_SET_NAME, GUARDIAN_NAME);
    return guardian_main((int)strtol(fd, NULL, 10));
}

int main(int argc, char **argv)
{
    double start_s = clock_now_s();
    if (argc == 2 && strcmp(argv[0], GUARDIAN_NAME) == 0)
        return main_guardian(argv[1]);
    log_init("launcher", LOG_INFO);
    say_init();
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "train") == 0)
        return train_main(argc - 1, argv + 1, start_s);
    if (strcmp(command, "rank") == 0)
        return rank_main(argc - 1, argv + 1);
    if (strcmp(command, "runner") == 0)
        return runner_main(argc - 1, argv + 1);
    if (strcmp(command, "status") == 0)
        return control_status(argc - 1, argv + 1);
    if (strcmp(command, "stop") == 0)
        return control_stop(argc - 1, argv + 1);
    if (strcmp(command, "logs") == 0)
        return control_logs(argc - 1, argv + 1);
    (void)fprintf(stderr, "gradwire: %s: train, status, stop or logs is wanted\n",
                  *command ? command : "no command");
    return EXIT_USAGE;
}
