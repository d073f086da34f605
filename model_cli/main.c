/* The program behind `./gradwire evaluate|predict|encode|export|import|compare|convert`: commands about trained models and data. */
#include <cblas.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/math/kernels.h"
#include "common/process/cgroup.h"
#include "model_cli/command.h"
#include "model/blas.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"evaluate", evaluate_main}, {"encode", encode_main},
    {"export", export_main},     {"import", import_main},
    {"predict", predict_main},   {"compare", compare_main},
    {"convert", convert_main},   {NULL, NULL},
};

/* OpenBLAS makes its threads when it is loaded, so this must run before. */
static void (*const before_libraries)(int argc, char **argv, char **envp)
    __attribute__((section(".preinit_array"), used)) = blas_one_thread;

int main(int argc, char **argv)
{
    ulimits_init();
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond ulimit -f fails with EFBIG, which is said */
    mem_init();
    log_init("model", LOG_WARN);
    openblas_set_num_threads(1);
    kernels_flush_denormals();
    for (const struct command *c = commands; argc > 1 && c->name; c++)
        if (strcmp(argv[1], c->name) == 0)
            return c->run(argc - 1, argv + 1);
    (void)fprintf(stderr, "gradwire-model: %s is not one of its commands\n",
                  PRINTABLE(argc > 1 ? argv[1] : "\"\""));
    return EXIT_INPUT;
}
