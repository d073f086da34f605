/* The program behind `./gradwire evaluate|predict|encode|export|import|compare`: commands about trained models. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/flags/flags.h"
#include "model/command.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    log_init("model", LOG_WARN);
    for (const struct command *c = commands; argc > 1 && c->name; c++)
        if (strcmp(argv[1], c->name) == 0)
            return c->run(argc - 1, argv + 1);
    (void)fprintf(stderr, "gradwire-model: %s is not one of its commands\n",
                  argc > 1 ? argv[1] : "\"\"");
    return EXIT_INPUT;
}
