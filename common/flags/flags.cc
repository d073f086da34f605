/* gflags stores and checks the values. The command line is parsed here, because gflags keeps only the last value
 * of a repeated flag (--set), and exits with code 1 if a flag is wrong. */
extern "C" {
#include "common/flags/flags.h"
#include "common/flags/table.h"
#include "job/keys.h"
#include "common/process/signals.h"
#include "common/process/cgroup.h"
#include "common/base/version.h"
#include "common/base/words.h"
}

#include <gflags/gflags.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

namespace
{

/* gflags, libstdc++ and this file throw only if memory runs out, also before main. Nothing is allocated here. */
[[noreturn]] void end_without_memory()
{
    errmsg e;
    char line[sizeof e.text + 64];
    ulimits_init();
    err err = err_set(&e, ERR_NOMEM, "no memory to start");
    int n = snprintf(line, sizeof line, "%s: %s\n", program_invocation_short_name, e.text);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    _exit(written < 0 ? 1 : err_exit_code(err));
}

void begin()
{
    (void)std::set_terminate(end_without_memory);
}

/* Before the constructors of libraries, of which one may lack memory. */
[[gnu::section(".preinit_array"), gnu::used]] void (*const first)() = begin;

enum { FLAGFILE_DEPTH_MAX = 8, LINES_MAX = 10000 };
const size_t SHOWN_COLUMNS = 25;

const flags_program *program; /* the program whose command line was read last */
std::map<std::string, std::vector<std::string>> lists;
std::map<std::string, std::vector<const char *>> pointers; /* into lists */

struct Reader {
    errmsg *e;
    std::string where; /* "FILE:LINE: " in a flagfile */
    unsigned depth = 0, lines = 0;
};

const flag *find(const std::string &name)
{
    for (const flag *f = flags_table; f->programs; f++)
        if ((f->programs & program->takes) && f->name &&
            (name == f->name || (name.size() == 1 && name[0] == f->letter)))
            return f;
    return nullptr;
}

/* "--job=FILE", for help and errors. */
std::string shown(const flag &f)
{
    std::string text = std::string("--") + f.name;
    if (f.letter)
        text += std::string(", -") + f.letter;
    return f.value ? text + (f.kind == FLAG_LIST ? " " : "=") + f.value : text;
}

/* ---- values ---- */

bool is_in_range(const char *name, gflags::int64 value)
{
    const flag *f = find(name);
    return f && value >= f->least && value <= (f->most ? f->most : INT32_MAX);
}

/* For ps and worker an empty text means "not given"; the launcher's flags need a text. */
bool is_allowed(const char *name, const std::string &value)
{
    const flag *f = find(name);
    if (!f || !f->allowed)
        return f && !(value.empty() && (program->is & FLAGS_CLUSTER));
    return value.find(',') == std::string::npos &&
           (", " + std::string(f->allowed) + ",").find(", " + value + ",") != std::string::npos;
}

/* gflags keeps the memory. It has declared its own flags (help, version) already. */
template <class Value, class Check> void declare(const flag &f, Value preset, Check check)
{
    gflags::CommandLineFlagInfo known;
    if (gflags::GetCommandLineFlagInfo(f.name, &known))
        return;
    Value *value = new Value(preset);
    gflags::FlagRegisterer(f.name, "", __FILE__, value, new Value(preset));
    gflags::RegisterFlagValidator(value, check);
}

void declare_all()
{
    for (const flag *f = flags_table; f->programs; f++)
        if (f->kind == FLAG_NUMBER)
            declare(*f, gflags::int64(-1), is_in_range);
        else if (f->kind == FLAG_TEXT || f->kind == FLAG_CHOICE)
            declare(*f, std::string(), is_allowed);
        else if (f->kind == FLAG_ON)
            declare(*f, false, static_cast<bool (*)(const char *, bool)>(nullptr));
}

void reset_to_presets()
{
    static gflags::FlagSaver *untouched;
    if (!untouched)
        declare_all();
    delete untouched; /* restores the values that it saved */
    untouched = new gflags::FlagSaver;
    for (const flag *f = flags_table; f->programs; f++)
        if ((f->programs & program->takes) && f->preset && f->kind != FLAG_KEY)
            gflags::SetCommandLineOptionWithMode(f->name, f->preset, gflags::SET_FLAGS_DEFAULT);
    lists.clear();
    pointers.clear();
}

template <class Value> const Value &value_of(const char *name)
{
    return *static_cast<const Value *>(gflags::GetCommandLineFlagInfoOrDie(name).flag_ptr);
}

/* For ps and worker a value equal to the preset counts as not given. */
bool is_left_out(const flag &f)
{
    gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(f.name);
    return f.programs & FLAGS_PROCESS ? info.current_value == info.default_value : info.is_default;
}

/* ---- arguments ---- */

/* Returns the first program that users start and that has this flag; NULL: none. */
const char *owner(const std::string &name)
{
    for (const flags_program *p = flags_programs; p->name; p++)
        for (const flag *f = flags_table; f->programs; f++)
            if ((p->is & f->programs & ~FLAGS_ENTRYPOINT) && f->name && name == f->name)
                return p->name;
    return nullptr;
}

/* Returns the key of the job file that the user probably meant; "": none. `exact`: only a key with exactly this
 * name. */
std::string key_meant(const std::string &name, bool exact)
{
    static const char asks[] = "did you mean ";
    char hint[512];
    if (!find("set"))
        return "";
    job_key_hint(name.c_str(), hint, sizeof hint);
    std::string key = strncmp(hint, asks, sizeof asks - 1) == 0 ? hint + sizeof asks - 1 : "";
    if (!key.empty() && key.back() == '?')
        key.pop_back();
    size_t dot = key.rfind('.');
    bool right = dot != std::string::npos && key.find('[') == std::string::npos;
    return right && (!exact || key.substr(dot + 1) == name) ? key : "";
}

err refuse_key(const Reader &r, const std::string &name, const std::string &key)
{
    return err_set(r.e, ERR_INPUT,
                   "%sunknown flag --%.80s; --set %s=VALUE sets that key of the job file",
                   r.where.c_str(), name.c_str(), key.c_str());
}

/* Names of our flags in other programs, separated by blanks, without - and _. */
const struct {
    const char *names, *flag;
} meanings[] = {{"o out outdir outputdir dir", "output"},
                {"hostfile machinefile hostsfile nodes", "hosts"},
                {"n nworkers numworkers", "workers"},
                {"nps numps servers", "ps"},
                {"overwrite force", "fresh"},
                {"d background daemon", "detach"}};

/* Returns the flag of this program that the user probably meant; NULL: none. */
const char *flag_meant(const std::string &name)
{
    std::string word = " ";
    for (char c : name)
        if (c != '_')
            word += c;
    word += ' ';
    for (const auto &m : meanings)
        if (find(m.flag) && (" " + std::string(m.names) + " ").find(word) != std::string::npos)
            return m.flag;
    return nullptr;
}

err refuse_unknown(const Reader &r, const std::string &name)
{
    if (find("fresh") && (name == "resume" || name == "continue"))
        return err_set(r.e, ERR_INPUT,
                       "%sunknown flag --%s; train resumes by itself: run it again with the same "
                       "--output (--fresh trains from scratch)",
                       r.where.c_str(), name.c_str());
    if (flag_meant(name))
        return err_set(r.e, ERR_INPUT, "%sunknown flag --%s, did you mean --%s?", r.where.c_str(),
                       name.c_str(), flag_meant(name));
    std::string key = key_meant(name, true);
    if (!key.empty())
        return refuse_key(r, name, key);
    if (owner(name))
        return err_set(r.e, ERR_INPUT, "%sunknown flag --%s; it is a flag of %s", r.where.c_str(),
                       name.c_str(), owner(name));
    words near;
    words_init(&near, name.c_str());
    for (const flag *f = flags_table; f->programs; f++)
        if ((f->programs & program->takes) && f->name)
            words_try(&near, f->name);
    key = near.best ? "" : key_meant(name, false);
    if (!key.empty())
        return refuse_key(r, name, key);
    return near.best ? err_set(r.e, ERR_INPUT, "%sunknown flag --%.80s, did you mean --%s?",
                               r.where.c_str(), name.c_str(), near.best)
                     : err_set(r.e, ERR_INPUT, "%sunknown flag --%.80s; --help lists all flags",
                               r.where.c_str(), name.c_str());
}

std::string allowed(const flag &f)
{
    if (f.kind != FLAG_NUMBER)
        return f.allowed ? f.allowed : f.value;
    return f.most ? std::to_string(f.least) + " to " + std::to_string(f.most) : "a number from 0";
}

err set_value(const Reader &r, const flag &f, const std::string &value)
{
    const char *where = r.where.c_str();
    if (f.kind == FLAG_LIST) {
        lists[f.name].push_back(value);
        return ERR_OK;
    }
    gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(f.name);
    if (f.programs == FLAGS_ENTRYPOINT && f.kind != FLAG_ON && !info.is_default)
        return err_set(r.e, ERR_INPUT, "--%s is given twice: '%.40s' and '%.40s'", f.name,
                       info.current_value.c_str(), value.c_str());
    bool digits = value.find_first_not_of("0123456789") == std::string::npos; /* rejects 0x1 */
    if ((f.kind == FLAG_NUMBER && !digits) ||
        gflags::SetCommandLineOption(f.name, value.c_str()).empty())
        return err_set(r.e, ERR_INPUT, "%s--%s: '%.80s' is not allowed; allowed: %s", where, f.name,
                       value.c_str(), allowed(f).c_str());
    return ERR_OK;
}

err read_words(Reader *r, const std::vector<std::string> &all);

void trim(std::string *line)
{
    const char *blanks = " \t\r";
    line->erase(0, line->find_first_not_of(blanks));
    line->erase(line->find_last_not_of(blanks) + 1);
}

/* "--set key=value" in a flagfile is two arguments, as on the command line. */
std::vector<std::string> split_line(const std::string &line)
{
    size_t blank = line.find_first_of(" \t");
    if (blank == std::string::npos || line.find('=') < blank)
        return {line};
    size_t value = line.find_first_not_of(" \t", blank);
    return {line.substr(0, blank), line.substr(value)};
}

err read_flagfile(Reader *r, const std::string &path)
{
    const std::string where = r->where;
    if (++r->depth > FLAGFILE_DEPTH_MAX)
        return err_set(r->e, ERR_INPUT, "%s--flagfile=%.80s: flagfiles nested more than %d deep",
                       where.c_str(), path.c_str(), FLAGFILE_DEPTH_MAX);
    std::ifstream in(path);
    std::string line;
    for (unsigned number = 1; std::getline(in, line); number++) {
        trim(&line);
        if (line.empty() || line[0] == '#')
            continue;
        r->where = path.substr(0, 160) + ":" + std::to_string(number) + ": ";
        if (++r->lines > LINES_MAX)
            return err_set(r->e, ERR_INPUT, "%smore than %d flags", r->where.c_str(), LINES_MAX);
        err err = read_words(r, split_line(line));
        if (err)
            return err;
    }
    if (!in.eof() || in.bad())
        return err_set(r->e, ERR_INPUT, "%s--flagfile=%.160s: %s", where.c_str(), path.c_str(),
                       strerror(errno));
    r->where = where;
    r->depth--;
    return ERR_OK;
}

/* Collects the arguments for the program that the entrypoint starts, unchanged; but a short form of a key becomes
 * --set. */
void hand_on(const flag &f, const std::vector<std::string> &all, size_t from, size_t to,
             const std::string &value)
{
    std::vector<std::string> &rest = lists[FLAGS_REST];
    if (f.kind == FLAG_KEY)
        rest.insert(rest.end(), {"--set", std::string(f.preset) + "=" + value});
    else if (!(f.programs & FLAGS_ENTRYPOINT))
        rest.insert(rest.end(), all.begin() + (ptrdiff_t)from, all.begin() + (ptrdiff_t)to);
}

/* Reads a flag, and the next argument as its value if it has no "="; *at moves past them. */
err read_flag(Reader *r, const std::vector<std::string> &all, size_t *at)
{
    const size_t from = (*at)++;
    const std::string &word = all[from];
    size_t dashes = word[1] == '-' ? 2 : 1, equals = word.find('=');
    bool has_value = equals != std::string::npos;
    std::string name = word.substr(dashes, has_value ? equals - dashes : std::string::npos), value;
    for (char &c : name)
        c = c == '-' ? '_' : c;
    const flag *f = find(name);
    if (!f)
        return refuse_unknown(*r, name);
    if (f->kind == FLAG_ON && has_value)
        return err_set(r->e, ERR_INPUT, "%s--%s takes no value", r->where.c_str(), f->name);
    if (f->kind != FLAG_ON && !has_value && *at == all.size())
        return err_set(r->e, ERR_INPUT, "%s--%s needs a value: %s", r->where.c_str(), f->name,
                       shown(*f).c_str());
    if (f->kind != FLAG_ON)
        value = has_value ? word.substr(equals + 1) : all[(*at)++];
    if (program->is == FLAGS_ENTRYPOINT)
        hand_on(*f, all, from, *at, value);
    if (f->kind == FLAG_FILE)
        return program->is == FLAGS_ENTRYPOINT ? ERR_OK : read_flagfile(r, value);
    return f->kind == FLAG_KEY ? ERR_OK : set_value(*r, *f, f->kind == FLAG_ON ? "true" : value);
}

err read_words(Reader *r, const std::vector<std::string> &all)
{
    bool flags_end = false;
    for (size_t at = 0; at < all.size();) {
        const std::string &word = all[at];
        if (!flags_end && word.size() > 1 && word[0] == '-' && word != "--") {
            err err = read_flag(r, all, &at);
            if (err)
                return err;
            continue;
        }
        if (!program->word || r->depth > 0)
            return err_set(r->e, ERR_INPUT,
                           "%s'%.80s' is not a flag; a flag has the form --name=value",
                           r->where.c_str(), word.c_str());
        if (flags_end || word != "--")
            lists[FLAGS_WORDS].push_back(word);
        flags_end = flags_end || word == "--";
        at++;
    }
    return ERR_OK;
}

bool asks()
{
    return flags_on("help") || flags_on("version") || flags_on("print_job_reference") ||
           *flags_text("print_manual");
}

err check(errmsg *e)
{
    for (const flag *f = flags_table; f->programs; f++)
        if ((f->programs & program->takes) && f->wants && !is_left_out(*f) &&
            is_left_out(*find(f->wants)))
            return err_set(e, ERR_INPUT, "--%s needs %s too", f->name,
                           shown(*find(f->wants)).c_str());
    const std::vector<std::string> &words = lists[FLAGS_WORDS];
    bool job =
        !(program->is & (FLAGS_PROCESS | FLAGS_FINDER)) || *flags_text("job") || flags_on("doctor");
    if (!job)
        return err_set(e, ERR_INPUT, "--job=FILE is missing; --help lists all flags");
    if (program->word && words.empty())
        return err_set(e, ERR_INPUT, "%s is missing: %s; --help lists all flags", program->word,
                       program->usage);
    if (words.size() > program->words_max) {
        const char *word = words[program->words_max].c_str();
        return err_set(e, ERR_INPUT, "'%.80s' is a second %s; only one is allowed%s", word,
                       program->word, *word == '=' ? "; write --set key=value without blanks" : "");
    }
    return ERR_OK;
}

std::string help_of(const flags_program &p)
{
    std::string text = std::string("Usage: ") + p.usage +
                       " [FLAG]...  (in flag names, - equals _)\n" + p.about + "\n";
    for (const flag *f = flags_table; f->programs; f++) {
        if (!(f->programs & p.is) || !f->help)
            continue;
        std::string left = f->name ? "  " + shown(*f) + " " : "";
        for (const char *line = f->help;; left = "") {
            size_t n = strcspn(line, "\n");
            if (left.size() > SHOWN_COLUMNS) { /* its help begins on the next line */
                text += left.substr(0, left.size() - 1) + "\n";
                left = "";
            }
            if (f->name)
                left.resize(SHOWN_COLUMNS, ' ');
            text += left + std::string(line, n) + "\n";
            if (!line[n])
                break;
            line += n + 1;
        }
    }
    return text + p.end;
}

void use(const char *name)
{
    for (program = flags_programs; strcmp(program->name, name) != 0;)
        program++;
}

} // namespace

extern "C" enum err flags_read(const char *name, int argc, char **argv, struct errmsg *e)
{
    Reader r;
    r.e = e;
    use(name);
    reset_to_presets();
    err err = read_words(&r, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    if (!err && !asks())
        err = check(e);
    for (const auto &list : lists) {
        for (const std::string &value : list.second)
            pointers[list.first].push_back(value.c_str());
        pointers[list.first].push_back(nullptr);
    }
    return err;
}

extern "C" const char *flags_text(const char *name)
{
    return value_of<std::string>(name).c_str();
}

extern "C" const char *flags_given(const char *name)
{
    return gflags::GetCommandLineFlagInfoOrDie(name).is_default ? nullptr : flags_text(name);
}

extern "C" int64_t flags_number(const char *name)
{
    return value_of<gflags::int64>(name);
}

extern "C" bool flags_on(const char *name)
{
    return value_of<bool>(name);
}

extern "C" const char *const *flags_list(const char *name, size_t *n)
{
    static const char *const none[] = {nullptr};
    auto found = pointers.find(name);
    if (n)
        *n = found == pointers.end() ? 0 : found->second.size() - 1;
    return found == pointers.end() ? none : found->second.data();
}

extern "C" void flags_help(const char *name, char *out, size_t bytes)
{
    use(name);
    std::string text = help_of(*program);
    if (program->is == FLAGS_ENTRYPOINT) { /* plus the flags that it passes on */
        use("worker");
        text += help_of(*program);
    }
    (void)snprintf(out, bytes, "%s", text.c_str());
}

/* tools/commit.cmake writes it for the programs; a test has none. */
extern "C" const char *const flags_commit __attribute__((weak));

static const char *commit()
{
    return &flags_commit ? flags_commit : "a test";
}

extern "C" void flags_answer(const char *name)
{
    char help[FLAGS_HELP_BYTES];
    if (!asks())
        return;
    flags_help(name, help, sizeof help);
    if (flags_on("help"))
        fputs(help, stdout);
    else if (flags_on("version"))
        printf("gradwire %s " GRADWIRE_VERSION " (%s)\n", name, commit());
    else if (flags_on("print_job_reference"))
        job_reference_write(stdout);
    else
        manual_write(stdout, flags_text("print_manual"));
    exit(fflush(stdout) == 0 ? 0 : 1);
}

extern "C" void flags_parse(const char *name, int argc, char **argv)
{
    errmsg e;
    if (flags_read(name, argc, argv, &e)) {
        fprintf(stderr, "%.*s: %s\n", (int)strcspn(program->usage, " "), program->usage, e.text);
        termination_write(flags_text("termination_message"), e.text);
        exit(2);
    }
    flags_answer(name);
}
