#include "model_cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model_cli/command.h"

/* The file that a signal removes; "": none. */
static char temporary[FILES_PATH_MAX];

static volatile sig_atomic_t held, came; /* came: the signal; 0: none */

static void on_signal(int number)
{
    if (held) {
        came = number;
        return;
    }
    if (temporary[0])
        (void)unlink(temporary);
    _exit(128 + number);
}

static void take_signals(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler}, was;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
}

static void forget_file(void)
{
    take_signals(SIG_DFL);
    temporary[0] = '\0';
}

void output_hold(void)
{
    held = 1;
}

bool output_interrupted(void)
{
    return came != 0;
}

void output_release(void)
{
    held = 0;
    if (came)
        on_signal(came);
}

enum err output_check(const char *path, struct errmsg *e)
{
    struct stat st;
    if (!*path)
        return err_set(e, ERR_INPUT, "--output: the name of the file is missing");
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: it exists, and is not a regular file", path);
    return ERR_OK;
}

enum err output_begin(struct output *o, const char *path, struct errmsg *e)
{
    *o = (struct output){.named = path != NULL, .file.fd = -1};
    if (!path)
        return ERR_OK;
    output_hold(); /* between the file's beginning and the name in `temporary`, too */
    take_signals(on_signal);
    enum err err = output_check(path, e) || files_begin(&o->file, path, e) ? ERR_INPUT : ERR_OK;
    if (err)
        forget_file();
    else
        memcpy(temporary, o->file.temporary, sizeof temporary);
    output_release();
    return err;
}

enum err output_put(struct output *o, const struct text *t, struct errmsg *e)
{
    if (t->failed)
        return err_set(e, ERR_NOMEM, "out of memory for the output");
    if (o->named)
        return files_append(&o->file, t->at, t->bytes, e);
    return fwrite(t->at, 1, t->bytes, stdout) == t->bytes ? ERR_OK : command_flush(e);
}

enum err output_put_first(struct output *o, const void *data, size_t bytes, struct errmsg *e)
{
    if (files_put_at(o->file.fd, data, bytes, 0) < bytes)
        return err_set(e, ERR_IO, "%s: %s", o->file.path, strerror(errno));
    return ERR_OK;
}

enum err output_end(struct output *o, struct errmsg *e)
{
    if (!o->named)
        return command_flush(e);
    enum err err = files_commit(&o->file, e);
    forget_file();
    return err;
}

void output_abort(struct output *o)
{
    if (!o->named)
        return;
    files_abort(&o->file);
    forget_file();
}
