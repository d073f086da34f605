/* The commands that read rows, of many models: `interop_commands FIXTURE` reads lines "DIR KEEP FILE" from standard input. In
 * child processes it runs FIXTURE (interop_fixture), which makes DIR/model, then `predict DIR FILE --keep=KEEP`, without --keep
 * for "-", and `encode DIR FILE`. It writes DIR/model.err, predict.out, predict.err, rows.npz and encode.err, and for each line a
 * line with the three exit codes. A fork is cheaper than the start of a program. */
#include <cblas.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/math/kernels.h"
#include "model_cli/command.h"
#include "model/blas.h"

enum { LINE_BYTES = 2048, FAILED = 100 };

static void (*const before_libraries)(int argc, char **argv, char **envp)
    __attribute__((section(".preinit_array"), used)) = blas_one_thread;

static void send_to(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(FAILED);
}

static const char *fixture; /* the path of interop_fixture */

static int make_model(char **words)
{
    (void)words;
    send_to("model.err", STDERR_FILENO);
    (void)execl(fixture, fixture, ".", (char *)NULL);
    return FAILED;
}

static int run_predict(char **words)
{
    char keep[LINE_BYTES];
    (void)snprintf(keep, sizeof keep, "--keep=%s", words[1]);
    char *argv[] = {"predict", ".", words[2], strcmp(words[1], "-") == 0 ? NULL : keep, NULL};
    send_to("predict.err", STDERR_FILENO);
    send_to("predict.out", STDOUT_FILENO);
    return predict_main(argv[3] ? 4 : 3, argv);
}

static int run_encode(char **words)
{
    char *argv[] = {"encode", ".", words[2], "--output=rows.npz", NULL};
    send_to("encode.err", STDERR_FILENO);
    send_to("/dev/null", STDOUT_FILENO);
    return encode_main(4, argv);
}

/* The exit code of the function in a child process, in the directory. */
static int in_child(int (*run)(char **words), char **words)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int rc = chdir(words[0]) ? FAILED : run(words);
        (void)fflush(NULL);
        _exit(rc);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(1);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv)
{
    char line[LINE_BYTES];
    fixture = argc == 2 ? argv[1] : "";
    log_init("model", LOG_ERROR);
    openblas_set_num_threads(1);
    kernels_flush_denormals();
    while (fgets(line, sizeof line, stdin)) {
        char *rest, *words[] = {strtok_r(line, " \n", &rest), strtok_r(NULL, " \n", &rest),
                                strtok_r(NULL, "\n", &rest)};
        if (!words[2])
            return 2;
        int model = in_child(make_model, words);
        int predict = model ? -1 : in_child(run_predict, words);
        int encode = model ? -1 : in_child(run_encode, words);
        if (printf("%d %d %d\n", model, predict, encode) < 0 || fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
