/* The hosts file, its problems, and the processes on each host. */
#include "launch/remote/hosts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/words.h"
#include "common/process/files.h"

void problems_add(struct problems *p, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    p->n++;
    char **grown = mem_resize(p->line, p->kept + 1, sizeof *grown);
    if (!grown)
        return;
    p->line = grown;
    p->line[p->kept] = mem_strdup(text);
    p->kept += p->line[p->kept] != NULL;
}

void problems_close(struct problems *p)
{
    for (size_t i = 0; i < p->kept; i++)
        mem_free(p->line[i]);
    mem_free(p->line);
    *p = (struct problems){0};
}

enum { SHOWN_BYTES = 80 };

/* The position of a problem: "hosts:3". */
struct at {
    const char *file;
    unsigned line;
    struct problems *problems;
};

/* ---- one line ---- */

static enum err take_slots(struct host_line *h, const char *value)
{
    return digits_read(value, 1, HOSTS_SLOTS_MAX, &h->slots) ? ERR_OK : ERR_INPUT;
}

static enum err take_role(struct host_line *h, const char *value)
{
    for (size_t i = 0; i < ROLES && !h->has_role; i++)
        if (strcmp(value, role_str((enum role)i)) == 0) {
            h->has_role = true;
            h->role = (enum role)i;
        }
    return h->has_role ? ERR_OK : ERR_INPUT;
}

static enum err take_ports(struct host_line *h, const char *value)
{
    return digits_ports(value, &h->port_low, &h->port_high) ? ERR_OK : ERR_INPUT;
}

static enum err take_workdir(struct host_line *h, const char *value)
{
    if (value[0] != '/')
        return ERR_INPUT;
    h->workdir = mem_strdup(value);
    return h->workdir ? ERR_OK : ERR_NOMEM;
}

static const struct setting {
    const char *key;
    enum err (*take)(struct host_line *h,
                     const char *value); /* ERR_INPUT: the value is not as `wanted` says */
    const char *wanted;
} settings[] = {
    {"slots", take_slots, "must be a number from 1 to 1024"},
    {"role", take_role, "must be ps, worker, chief or evaluator"},
    {"ports", take_ports, "must be a range of ports, such as 20000-20099"},
    {"workdir", take_workdir,
     "must be an absolute path: the directory on that host that corresponds to the current one "
     "here"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };
_Static_assert(HOSTS_SLOTS_MAX == 1024, "the text of slots has this number");

static void refuse_key(const char *word, const struct at *at)
{
    char key[WORDS_BYTES_MAX + 1];
    struct words near;
    (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(word, "="), word);
    words_init(&near, key);
    for (size_t i = 0; i < SETTINGS; i++)
        words_try(&near, settings[i].key);
    problems_add(at->problems,
                 "%s:%u: '%.*s'%s%s%s allowed: slots=N role=R ports=LO-HI workdir=PATH", at->file,
                 at->line, SHOWN_BYTES, word, near.best ? ": did you mean " : ":",
                 near.best ? near.best : "", near.best ? "=?" : "");
}

static enum err take_setting(struct host_line *h, char *word, const struct at *at, unsigned *seen)
{
    size_t i = 0, n = strcspn(word, "=");
    while (i < SETTINGS && (strncmp(word, settings[i].key, n) != 0 || settings[i].key[n]))
        i++;
    if (i == SETTINGS || !word[n]) {
        refuse_key(word, at);
        return ERR_OK;
    }
    const struct setting *s = &settings[i];
    if (*seen & 1u << i) {
        problems_add(at->problems, "%s:%u: %s= is given twice", at->file, at->line, s->key);
        return ERR_OK;
    }
    *seen |= 1u << i;
    enum err err = s->take(h, word + n + 1);
    if (err == ERR_INPUT)
        problems_add(at->problems, "%s:%u: %s=%.*s: %s", at->file, at->line, s->key, SHOWN_BYTES,
                     word + n + 1, s->wanted);
    return err == ERR_INPUT ? ERR_OK : err;
}

/* "node:4" as MPI's lists have it. Returns whether the name is that, and has been refused. */
static bool refuse_count(const char *name, const struct at *at)
{
    const char *colon = strchr(name, ':');
    uint32_t slots;
    if (!colon || colon == name || !digits_read(colon + 1, 1, HOSTS_SLOTS_MAX, &slots))
        return false;
    problems_add(at->problems, "%s:%u: '%.*s': for %u processes on that host, write: %.*s slots=%u",
                 at->file, at->line, SHOWN_BYTES, name, slots, (int)(colon - name), name, slots);
    return true;
}

/* NULL: `name` can be used as a host by the remote shell and in addresses. Otherwise the reason. */
static const char *name_problem(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *sign = strrchr(name, '@'), *address = sign ? sign + 1 : name;
    char dialed[SHOWN_BYTES + 300];
    if (name[0] == '-')
        return "a host name must not begin with '-'";
    if (sign && (sign == name || strspn(name, plain) != (size_t)(sign - name)))
        return "write it as user@host";
    if (strchr(name, '='))
        return "a line must begin with the host; settings follow it";
    if (strchr(name, ',') || (address[0] != '[' && strchr(address, '[')))
        return "a line names one host: write a line for each, such as node1, then node2";
    (void)snprintf(dialed, sizeof dialed, "%.300s:1", address);
    const char *problem = *address ? cluster_address_problem(dialed) : "the host is missing";
    if (problem && address[0] != '[' && strchr(address, ':'))
        return "give ports as ports=LO-HI, and write an IPv6 address in brackets";
    return problem;
}

static enum err take_name(struct host_line *h, const char *name, const struct at *at)
{
    const char *problem = name_problem(name), *sign = strrchr(name, '@');
    if (problem && refuse_count(name, at))
        return ERR_OK;
    if (problem) {
        problems_add(at->problems, "%s:%u: '%.*s': %s", at->file, at->line, SHOWN_BYTES, name,
                     problem);
        return ERR_OK;
    }
    h->name = mem_strdup(name);
    h->address = mem_strdup(sign ? sign + 1 : name);
    return h->name && h->address ? ERR_OK : ERR_NOMEM;
}

/* The next word of *rest; *rest then begins after it. NULL: none. */
static char *next_word(char **rest)
{
    char *word;
    do
        word = strsep(rest, " \t\r\f\v");
    while (word && !*word);
    return word;
}

static enum err parse_line(struct hosts *h, char *text, const struct at *at)
{
    text[strcspn(text, "#")] = 0;
    char *word = next_word(&text);
    if (!word)
        return ERR_OK;
    struct host_line *grown = mem_resize(h->host, (size_t)h->n + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    h->host = grown;
    struct host_line *line = &h->host[h->n++];
    *line = (struct host_line){
        .line = at->line, .port_low = HOSTS_PORT_LOW, .port_high = HOSTS_PORT_HIGH};
    unsigned seen = 0;
    enum err err = take_name(line, word, at);
    while (!err && (word = next_word(&text)))
        err = take_setting(line, word, at, &seen);
    return err;
}

/* ---- the file ---- */

static bool same_place(const struct host_line *a, const struct host_line *b)
{
    return a->address && b->address && strcmp(a->address, b->address) == 0 &&
           a->has_role == b->has_role && (!a->has_role || a->role == b->role);
}

static void check_twins(const struct hosts *h, struct problems *p)
{
    for (uint32_t i = 1; i < h->n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (same_place(&h->host[i], &h->host[j])) {
                problems_add(p,
                             "%s:%u: %s is already in line %u%s%s; for several processes on a host "
                             "give slots=N",
                             h->file, h->host[i].line, h->host[i].address, h->host[j].line,
                             h->host[i].has_role ? " for role=" : "",
                             h->host[i].has_role ? role_str(h->host[i].role) : "");
                break;
            }
}

enum err hosts_parse(struct hosts *h, char *text, const char *file, struct problems *p)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* some editors begin a UTF-8 file with it */
    text += strncmp(text, mark, sizeof mark - 1) == 0 ? sizeof mark - 1 : 0;
    struct at at = {.file = file, .problems = p};
    *h = (struct hosts){.file = mem_strdup(file)};
    enum err err = h->file ? ERR_OK : ERR_NOMEM;
    char *line;
    while (!err && (line = strsep(&text, "\n"))) {
        at.line++;
        err = parse_line(h, line, &at);
    }
    if (err)
        return err;
    check_twins(h, p);
    if (h->n == 0)
        problems_add(p,
                     "%s: the file names no host; a line is HOST [slots=N] "
                     "[role=ps|worker|chief|evaluator] [ports=LO-HI] [workdir=PATH]",
                     file);
    return p->n ? ERR_INPUT : ERR_OK;
}

enum err hosts_load(struct hosts *h, const char *path, struct problems *p)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    struct errmsg e = {""};
    *h = (struct hosts){0};
    enum err err = files_read(path, HOSTS_BYTES_MAX, &text, &bytes, &e);
    if (err == ERR_NOMEM)
        return err;
    if (!err && memchr(text, 0, bytes))
        err = err_set(&e, ERR_INPUT, "%s: not a text file", path);
    if (err) {
        problems_add(p, "--hosts %s; give a file with one line for each host", e.text);
        mem_free(text);
        return ERR_INPUT;
    }
    err = hosts_parse(h, (char *)text, path, p);
    mem_free(text);
    return err;
}

void hosts_close(struct hosts *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        mem_free(h->host[i].name);
        mem_free(h->host[i].address);
        mem_free(h->host[i].workdir);
    }
    mem_free(h->host);
    mem_free(h->file);
    *h = (struct hosts){0};
}

/* ---- assignment ---- */

static bool has_line_for(const struct hosts *h, enum role role)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->host[i].has_role && h->host[i].role == role)
            return true;
    return false;
}

/* The host for the next process of a role; h->n: none. */
static uint32_t place_one(const struct hosts *h, enum role role, bool own_lines,
                          const uint32_t *taken)
{
    uint32_t best = h->n;
    for (uint32_t i = 0; i < h->n; i++) {
        const struct host_line *line = &h->host[i];
        bool fits = own_lines ? line->has_role && line->role == role : !line->has_role;
        if (fits && (line->slots == 0 || taken[i] < line->slots) &&
            (best == h->n || taken[i] < taken[best]))
            best = i;
    }
    return best;
}

static void say_no_place(const struct hosts *h, enum role role, bool own_lines, uint32_t placed,
                         uint32_t wanted, struct problems *p)
{
    if (!own_lines && placed == 0) {
        bool any = false;
        for (uint32_t i = 0; i < h->n; i++)
            any = any || !h->host[i].has_role;
        if (!any) {
            problems_add(p, "%s: no line accepts a %s: every line has another role", h->file,
                         role_str(role));
            return;
        }
    }
    problems_add(p, "%s: only %u of %u %s processes have a slot; add slots or hosts%s", h->file,
                 placed, wanted, role_str(role), own_lines ? " for that role" : "");
}

static void check_unwanted(const struct hosts *h, const struct roles *r, struct problems *p)
{
    for (uint32_t i = 0; i < h->n; i++) {
        const struct host_line *line = &h->host[i];
        if (line->has_role && line->role != ROLE_PS && line->role != ROLE_WORKER &&
            r->n[line->role] == 0)
            problems_add(p, "%s:%u: role=%s, but the job has no %s of its own; give --%s", h->file,
                         line->line, role_str(line->role), role_str(line->role),
                         role_str(line->role));
    }
}

/* Each process binds at least one port. */
static void check_ports(const struct hosts *h, const uint32_t *taken, struct problems *p)
{
    for (uint32_t i = 0; i < h->n; i++) {
        const struct host_line *line = &h->host[i];
        uint32_t ports = (uint32_t)line->port_high - line->port_low + 1;
        if (taken[i] > ports)
            problems_add(p, "%s:%u: %u processes need %u ports, %u-%u has %u", h->file, line->line,
                         taken[i], taken[i], line->port_low, line->port_high, ports);
    }
}

enum err hosts_place(const struct hosts *h, const struct roles *r, uint32_t *host_of,
                     struct problems *p)
{
    static const enum role order[] = {ROLE_PS, ROLE_CHIEF, ROLE_WORKER, ROLE_EVALUATOR};
    uint32_t *taken = mem_zalloc(h->n, sizeof *taken), at = 0;
    if (!taken)
        return ERR_NOMEM;
    check_unwanted(h, r, p);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        bool own_lines = has_line_for(h, order[i]);
        for (uint32_t k = 0; k < r->n[order[i]]; k++) {
            uint32_t host = place_one(h, order[i], own_lines, taken);
            if (host == h->n) {
                say_no_place(h, order[i], own_lines, k, r->n[order[i]], p);
                break;
            }
            taken[host]++;
            host_of[at++] = host;
        }
    }
    check_ports(h, taken, p);
    mem_free(taken);
    return p->n ? ERR_INPUT : ERR_OK;
}
