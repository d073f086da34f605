/* A command's output, and text that grows. The name of the file that is being written is where the signal handler finds it. */
#include "model_cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "model_cli/command.h"

/* The file that a signal removes; "": none. */
static char temporary[FILES_PATH_MAX];

static volatile sig_atomic_t held, came; /* came: the signal; 0: none */

static void output_on_signal(int number)
{
    if (held) {
        came = number;
        return;
    }
    if (temporary[0])
        (void)unlink(temporary);
    _exit(128 + number);
}

static void catch_signals(void (*handler)(int))
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
    catch_signals(SIG_DFL);
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
        output_on_signal(came);
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
    catch_signals(output_on_signal);
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

/* ---- text that grows ---- */

enum { NUMBER_BYTES = 32, TEXT_FIRST = 4096 };

void text_clear(struct text *t)
{
    t->bytes = 0;
    t->failed = false;
}

void text_close(struct text *t)
{
    mem_free(t->at);
    *t = (struct text){0};
}

bool text_reserve(struct text *t, size_t more)
{
    if (t->capacity - t->bytes >= more)
        return true;
    size_t need = t->bytes + more;
    char *grown = mem_grow(t->at, &t->capacity, need > TEXT_FIRST ? need : TEXT_FIRST, 1);
    t->failed = t->failed || !grown;
    if (grown)
        t->at = grown;
    return grown != NULL;
}

void text_add(struct text *t, const void *data, size_t bytes)
{
    if (bytes == 0 || !text_reserve(t, bytes))
        return;
    memcpy(t->at + t->bytes, data, bytes);
    t->bytes += bytes;
}

static bool text_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool needs_quotes(const char *field, size_t bytes)
{
    bool quotes = bytes > 0 && (text_is_blank(field[0]) || text_is_blank(field[bytes - 1]));
    for (size_t i = 0; i < bytes && !quotes; i++)
        quotes = field[i] == '"' || field[i] == ',' || field[i] == '\n' || field[i] == '\r';
    return quotes;
}

void text_add_field(struct text *t, const char *field, size_t bytes)
{
    if (!needs_quotes(field, bytes)) {
        text_add(t, field, bytes);
        return;
    }
    text_add(t, "\"", 1);
    for (size_t i = 0; i < bytes; i++)
        text_add(t, field[i] == '"' ? "\"\"" : field + i, field[i] == '"' ? 2 : 1);
    text_add(t, "\"", 1);
}

void text_add_float(struct text *t, float number)
{
    char out[NUMBER_BYTES];
    int n = snprintf(out, sizeof out, "%.9g", digits_printed((double)number));
    text_add(t, out, (size_t)n);
}

void text_add_count(struct text *t, unsigned long long number)
{
    char out[NUMBER_BYTES];
    int n = snprintf(out, sizeof out, "%llu", number);
    text_add(t, out, (size_t)n);
}
