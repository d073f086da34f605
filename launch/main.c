/* The program behind `./gradwire train|rank|status|stop|logs|old`. It is also the runner that `train --hosts` starts on other
 * hosts, and, under another name, the guardian. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/flags/flags.h"
#include "common/base/log.h"
#include "common/base/words.h"
#include "common/process/cgroup.h"
#include "launch/base/options.h"
#include "launch/local/guardian.h"
#include "launch/rank.h"
#include "launch/base/say.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"train", train_main},   {"rank", rank_main},    {"runner", runner_main},
                {"status", status_main}, {"stop", control_stop}, {"logs", control_logs},
                {"old", old_main}};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* Commands that the script ./gradwire handles itself. */
static const char *const others[] = {
    "doctor",  "lr-finder", "evaluate", "predict", "encode", "export", "import", "compare",
    "convert", "build",     "setup",    "install", "test",   "bench",  "image",  "help"};

/* Other programs' names for gradwire's commands. */
static const struct {
    const char *word, *command;
} meanings[] = {
    {"run", "train"},     {"start", "train"},  {"fit", "train"},     {"resume", "train"},
    {"restart", "train"}, {"kill", "stop"},    {"cancel", "stop"},   {"end", "stop"},
    {"ps", "status"},     {"info", "status"},  {"show", "status"},   {"open", "status"},
    {"log", "logs"},      {"tail", "logs"},    {"eval", "evaluate"}, {"score", "predict"},
    {"infer", "predict"}, {"diff", "compare"}, {"clean", "old"},     {"rm", "old"},
    {"remove", "old"},    {"delete", "old"},   {"check", "doctor"},  {"validate", "doctor"}};

static const char *main_meant(const char *name)
{
    struct words near;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strcmp(meanings[i].word, name) == 0)
            return meanings[i].command;
    words_init(&near, name);
    for (size_t i = 0; i < COMMANDS; i++)
        words_try(&near, commands[i].name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        words_try(&near, others[i]);
    return near.best;
}

static int main_unknown(const char *name)
{
    const char *meant = main_meant(name);
    say_plain("unknown command %s%s%s%s", name, meant ? ", did you mean " : "", meant ? meant : "",
              meant ? "?" : "; --help lists them");
    return EXIT_INPUT;
}

int main(int argc, char **argv)
{
    ulimits_init();
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond ulimit -f fails with EFBIG, which is said */
    if (argc == 2 && strcmp(argv[0], GUARDIAN_NAME) == 0) {
        (void)prctl(PR_SET_NAME, GUARDIAN_NAME);
        return guardian_main((int)strtol(argv[1], NULL, 10));
    }
    log_init("launcher", LOG_INFO);
    say_init();
    for (size_t i = 0; i < COMMANDS; i++)
        if (argc > 1 && strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc < 2 || argv[1][0] == '-')
        flags_parse("launch", argc, argv);
    return main_unknown(argv[1]);
}
