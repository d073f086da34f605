#!/usr/bin/env python3
"""The rules of the house that no compiler knows; one step of ./gradwire lint.

    edges   a folder includes only the folders that floors.txt allows, and all that floors.txt allows is used
    core    a folder named core reaches no socket, thread, clock or file, by none of our headers
    calls   the files of a folder that ONE_DIRECTION names do not call each other in a circle
    checked a function of a header that returns an enum err is MUST_CHECK
    modes   a mode's files do not use the names of other modes: modes.txt
    names   a path in the output directory DIR is spelled in common/process/output.h alone
    twice   no run of more than 12 lines of code stands twice
    size    no folder has more than 40 files
    map     the table of directories in docs/explanation/design.md equals floors.txt
    links   a page links to files and headings that are there

    house.py            check all; each error names a line and says what would be right
    house.py --map      print the table for docs/explanation/design.md
    house.py --edges    print which folders each folder includes
"""
import argparse
import fnmatch
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRODUCT = ("common", "job", "data", "model", "export", "evaluate", "ps", "worker", "launch", "predict", "formats", "model_cli",
           "k8s/entrypoint")
PROGRAMS = ("ps", "worker", "launch", "model_cli", "k8s/entrypoint")  # neither another nor a library includes one
FLOORS, MODES, DESIGN = "tests/lint/floors.txt", "tests/lint/modes.txt", "docs/explanation/design.md"
ONE_DIRECTION = ("data", "data/bytes", "data/core", "data/drawn", "data/meaning", "data/text", "model", "ps/core", "ps/rows",
                 "worker", "worker/chief", "worker/chief/core", "worker/control", "worker/core", "worker/doctor",
                 "worker/driver", "worker/evaluator", "worker/step", "worker/taught", "worker/tensorboard",
                 "worker/warm_start")  # their files' calls have no circle
MAP_BEGIN, MAP_END = "<!-- floors -->", "<!-- /floors -->"
NO_PAGES = ("build", ".git", "runs")
FILES_MAX = 40
RUN_LINES_MAX = 12

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
FUNCTION = re.compile(r"^(?!static\b)[A-Za-z_][\w *]*?\b(\w+)\([^;{}]*?\)\n\{", re.M)
FALLIBLE = re.compile(r"^(?:static inline )?enum err (\w+)\([^;{}]*\)([^;{]*)[;{]", re.M)
MAKES_ERR = ("err_set", "err_wrap", "err_memory", "err_memory_of", "err_memory_for", "job_blame", "job_blame_layer", "job_refuse",
             "checkpoint_corrupt")  # never ERR_OK
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
OUTPUT = "common/process/output.h"
DEFINED_NAME = re.compile(r'#define OUTPUT_\w+ "([^"]+)"')
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

CORE_FOLDERS_REFUSED = ("common/net", "common/peers")
CORE_HEADERS_REFUSED = re.compile(r"(pthread|threads|unistd|fcntl|time|poll|signal|dirent|stdio)\.h|sys/.*|event2/.*"
                                  r"|common/(base|process)/(clock|files|log)\.h")
STDIO_REFUSED = re.compile(r"FILE|stdin|stdout|stderr|v?[fd]?printf|v?f?scanf|perror|remove|rename|tmpfile|getline|getdelim"
                           r"|f?put[cs]|putchar|f?get[cs]|getchar|f(open|dopen|reopen|close|flush|read|write|seeko?|tello?"
                           r"|error|eof|ileno)|p(open|close)|open_memstream")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    """The same lines, with nothing in comments; strings stay."""
    def blank(found):
        return found[0] if found[0][0] in "\"'" else " " + "\n" * found[0].count("\n")
    return COMMENT_OR_STRING.sub(blank, text)


def without_strings(text):
    return COMMENT_OR_STRING.sub(lambda found: '""' + "\n" * found[0].count("\n"), text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


class Tree:
    """The product's sources below `root`; paths are relative to it."""

    def __init__(self, root):
        self.root, self.code, self.includes = root, {}, {}
        for top in PRODUCT:
            for folder, _, names in os.walk(os.path.join(root, top)):
                for name in sorted(names):
                    if name.endswith((".c", ".h", ".cc")):
                        self.add(os.path.relpath(os.path.join(folder, name), root))

    def add(self, path):
        text = without_comments(read(os.path.join(self.root, path)))
        self.code[path] = text
        self.includes[path] = [(line_of(text, found.start()), found[1], found[2]) for found in INCLUDE.finditer(text)]

    def folders(self):
        return sorted({os.path.dirname(path) for path in self.code})


# ---- the table ----

class Floor:
    def __init__(self, line, folder, is_what, may):
        self.line, self.folder, self.is_what, self.may = line, folder, is_what, may


def rows(root, name, cells):
    """(line, cells) of a table whose cells are divided by |; # begins a comment. Lines with other cells are errors."""
    good, errors = [], []
    for number, text in enumerate(read(os.path.join(root, name)).splitlines(), 1):
        if not text.strip() or text.startswith("#"):
            continue
        found = [cell.strip() for cell in text.split("|", len(cells) - 1)]
        if len(found) == len(cells) and all(found[:2]):
            good.append((number, found))
        else:
            errors.append(f"{name}:{number}: a line is: {' | '.join(cells)}")
    return good, errors


def members(entry, folders):
    """The folders that an entry of the third column names: one, or with /* all of that folder's."""
    return [f for f in folders if f.startswith(entry[:-1])] if entry.endswith("/*") else [entry]


def floors_load(root):
    """Each folder may include folders above it alone, so the table has no circle."""
    lines, errors = rows(root, FLOORS, ["folder", "what it is", "folders that it may include"])
    floors = {}
    for number, (folder, is_what, may) in lines:
        if folder in floors:
            errors.append(f"{FLOORS}:{number}: {folder} is there twice")
            continue
        for entry in may.split():
            for above in members(entry, floors) or [entry]:
                if above not in floors:
                    errors.append(f"{FLOORS}:{number}: {folder} may include {above} only if that stands above it: "
                                  "so the table has no circle")
        floors[folder] = Floor(number, folder, is_what, may.split())
    return floors, errors


# ---- edges ----

def program_of(folder):
    return next((p for p in PROGRAMS if folder == p or folder.startswith(p + "/")), None)


def edges(tree):
    """(folder, included folder) -> the first place of it, of different folders."""
    found = {}
    for path, includes in tree.includes.items():
        for line, ours, _ in includes:
            if ours and os.path.dirname(ours) != os.path.dirname(path):
                found.setdefault((os.path.dirname(path), os.path.dirname(ours)), []).append((path, line, ours))
    return found


def check_edges(tree, floors):
    errors, real = [], edges(tree)
    for folder in tree.folders():
        if folder not in floors:
            errors.append(f"{folder}/: it is not in {FLOORS}: add a line for it, below all that it includes")
    for folder, floor in floors.items():
        if not any(here == folder or there == folder for here, there in real) and folder not in tree.folders():
            errors.append(f"{FLOORS}:{floor.line}: there is no folder {folder}: remove the line")
        allowed = {entry: set(members(entry, list(floors)[:list(floors).index(folder)])) for entry in floor.may}
        used = {there for here, there in real if here == folder}
        for entry, those in allowed.items():
            if not those & used:
                errors.append(f"{FLOORS}:{floor.line}: no file of {folder} includes {entry}: remove it from the line")
        for there in sorted(used - set().union(*allowed.values())):
            for path, line, ours in real[folder, there]:
                errors.append(f"{path}:{line}: includes {ours}: {FLOORS}:{floor.line} does not allow {folder} to include "
                              f"{there}")
    for (here, there), places in real.items():
        if program_of(there) not in (None, program_of(here)):
            errors += [f"{path}:{line}: includes {ours}: no other file includes a program's: what both need goes to a library"
                       for path, line, ours in places]
    return errors


# ---- cores ----

def reached(tree, path):
    """(line of the first include in `path`, the way there, header) of all that it includes, by our headers."""
    todo, seen = [(line, [], ours or system) for line, ours, system in tree.includes[path]], set()
    while todo:
        line, way, header = todo.pop(0)
        if header not in seen:
            seen.add(header)
            yield line, way, header
            todo += [(line, way + [header], ours or system) for _, ours, system in tree.includes.get(header, [])]


def check_core(tree):
    errors = []
    for path in tree.code:
        if "core" not in os.path.dirname(path).split("/"):
            continue
        for line, way, header in reached(tree, path):
            own_stdio = header == "stdio.h" and not way and path.endswith(".c")
            if os.path.dirname(header) in CORE_FOLDERS_REFUSED or (CORE_HEADERS_REFUSED.fullmatch(header)
                                                                  and not own_stdio):
                by = " by " + ", ".join(way) if way else ""
                errors.append(f"{path}:{line}: a core reaches {header}{by}: what a core needs of files, threads, sockets "
                              "and clocks comes in as arguments" + (
                                  "; <stdio.h> is for snprintf in a .c file" if header == "stdio.h" else ""))
        text = without_strings(tree.code[path])
        errors += [f"{path}:{line_of(text, word.start())}: a core does no I/O: {word[0]}; of <stdio.h> it uses snprintf"
                   for word in WORD.finditer(text) if STDIO_REFUSED.fullmatch(word[0])]
    return errors


def circle_of(calls, path, way, done):
    """The first circle that calls from `path` close, as the files on it; empty: none. `done`: those without one."""
    if path in way:
        return way[way.index(path):]
    for to in sorted(calls[path].keys() - done):
        circle = circle_of(calls, to, [*way, path], done)
        if circle:
            return circle
    done.add(path)
    return []


def check_calls(tree):
    """A call by a table of functions is none: that is how one direction is kept."""
    errors = []
    for folder in ONE_DIRECTION:
        texts = {p: without_strings(text) for p, text in tree.code.items() if os.path.dirname(p) == folder and p[-1] == "c"}
        home = {found[1]: path for path, text in texts.items() for found in FUNCTION.finditer(text)}
        calls = {path: {} for path in texts}
        for path, text in texts.items():
            for found in re.finditer(r"(\w+)\(", text):
                if home.get(found[1], path) != path:
                    calls[path].setdefault(home[found[1]], f"{path}:{line_of(text, found.start())} ({found[1]})")
        done = set()
        circle = next(filter(None, (circle_of(calls, path, [], done) for path in sorted(texts))), [])
        if circle:
            steps = [calls[here][there] for here, there in zip(circle, circle[1:] + circle[:1])]
            errors.append(f"{folder}/: calls in a circle: {' -> '.join(steps)}: one of them becomes a value that is returned, "
                          "or a function handed over")
    return errors


def check_checked(tree):
    return [f"{path}:{line_of(text, found.start())}: {found[1]} returns an enum err: its declaration ends with MUST_CHECK"
            for path, text in tree.code.items() if path.endswith(".h") for found in FALLIBLE.finditer(text)
            if "MUST_CHECK" not in found[2] and found[1] not in MAKES_ERR]


# ---- modes ----

def check_modes(tree):
    """For each line of modes.txt: the files use no word that has a part, between underscores, that the expression matches."""
    lines, errors = rows(tree.root, MODES, ["files", "refused parts of names"])
    for number, (glob, refused) in lines:
        files = fnmatch.filter(tree.code, glob)
        if not files:
            errors.append(f"{MODES}:{number}: no file is {glob}: remove the line, or name the files that are there")
        for path in files:
            text = without_strings(tree.code[path]).replace("#pragma once", "")
            words = [(line_of(text, word.start()), word[0]) for word in WORD.finditer(text)]
            words += [(line, word) for line, ours, _ in tree.includes[path] for word in WORD.findall(ours or "")]
            errors += [f"{path}:{line}: {word} belongs to another mode ({MODES}:{number}): that goes to its own file"
                       for line, word in words if re.search(f"(?:^|_)(?:{refused})(?:_|$)", word, re.I)]
    return errors


# ---- names in DIR ----

def check_names(tree):
    """A path in DIR is spelled once. A word that means other things, too (model, lock), counts only as a part of a path."""
    errors = []
    for name in DEFINED_NAME.findall(tree.code.get(OUTPUT, "")):
        alone = "" if name.isalpha() and name != "checkpoints" else "?"
        spelled = re.compile(rf'"(?:%s/){alone}{re.escape(name)}(?:/[^" ]*)?"|"{re.escape(name)}/[^" ]*"')
        errors += [f"{path}:{line_of(text, found.start())}: {found[0]} names a file in DIR: {OUTPUT} has a word for it"
                   for path, text in tree.code.items() if path != OUTPUT for found in spelled.finditer(text)
                   if text[:found.start()].rsplit("\n", 1)[-1].strip() != "#include"]
    return errors


# ---- what stands twice ----

def code_lines(text):
    """(line number, the line without spaces) of what counts: no blank line, no lone brace, no include."""
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub(r"\s+", "", line)
        if line.strip("{};,()") and not line.startswith("#include"):
            yield number, line


def check_twice(tree):
    """Each run is reported once: a window that equals one that also began a line earlier in both places is a part of it."""
    files = {path: list(code_lines(text)) for path, text in tree.code.items()}
    errors, first, width = [], {}, RUN_LINES_MAX + 1
    for path, lines in files.items():
        for at in range(len(lines) - width + 1):
            window = tuple(line for _, line in lines[at:at + width])
            there, there_at = first.setdefault(window, (path, at))
            if (there, there_at) == (path, at) or (there == path and at - there_at < width):
                continue
            if at and there_at and lines[at - 1][1] == files[there][there_at - 1][1]:
                continue
            same = width
            while at + same < len(lines) and there_at + same < len(files[there]) and \
                    lines[at + same][1] == files[there][there_at + same][1]:
                same += 1
            errors.append(f"{path}:{lines[at][0]}: {same} lines stand at {there}:{files[there][there_at][0]} too; more than "
                          f"{RUN_LINES_MAX} become one function")
    return errors


# ---- sizes, the map ----

def check_size(tree):
    counts = {folder: sum(os.path.dirname(path) == folder for path in tree.code) for folder in tree.folders()}
    return [f"{folder}/: it has {count} files, and a folder has at most {FILES_MAX}: divide it by subject"
            for folder, count in counts.items() if count > FILES_MAX]


def map_of(floors):
    lines = ["| directory | content | may include |", "|---|---|---|"]
    return lines + [f"| {f.folder}/ | {f.is_what} | {' '.join(f.may) or 'nothing of ours'} |" for f in floors.values()]


def check_map(root, floors):
    lines = read(os.path.join(root, DESIGN)).splitlines()
    if MAP_BEGIN not in lines or MAP_END not in lines:
        return [f"{DESIGN}: the output of tests/lint/house.py --map is wanted between {MAP_BEGIN} and {MAP_END}"]
    begin, end = lines.index(MAP_BEGIN) + 1, lines.index(MAP_END)
    there, wanted = [line for line in lines[begin:end] if line], map_of(floors)
    errors = [f"{DESIGN}:{number}: {FLOORS} does not say this: {line}"
              for number, line in enumerate(lines[begin:end], begin + 1) if line and line not in wanted]
    errors += [f"{DESIGN}:{begin}: {FLOORS} says this, too: {line}" for line in wanted if line not in there]
    if not errors and there != wanted:
        errors.append(f"{DESIGN}:{begin}: the order of {FLOORS} is wanted")
    return errors


# ---- links ----

def pages(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in NO_PAGES]
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".md"))


def page_text(path):
    """The same lines, with nothing in fenced blocks."""
    return FENCED.sub(lambda found: "\n" * found[0].count("\n"), read(path))


def anchors(path):
    """The anchors that a page's headings get on the web."""
    titles = [LINK.sub("", title).lower() for title in HEADING.findall(page_text(path))]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}


def link_error(page, link):
    path, _, anchor = link.partition("#")
    target = os.path.join(os.path.dirname(page), path) if path else page
    if not os.path.exists(target):
        return "there is no such file"
    return "there is no such heading" if anchor and target.endswith(".md") and anchor not in anchors(target) else None


def check_links(root):
    errors = []
    for page in pages(root):
        text = page_text(page)
        for found in LINK.finditer(text):
            why = None if re.match(r"\w+:", found[1]) else link_error(page, found[1])
            if why:
                errors.append(f"{os.path.relpath(page, root)}:{line_of(text, found.start())}: {found[1]}: {why}")
    return errors


def check(root):
    tree = Tree(root)
    floors, errors = floors_load(root)
    return (errors + check_edges(tree, floors) + check_core(tree) + check_calls(tree) + check_checked(tree)
            + check_modes(tree) + check_names(tree) + check_twice(tree) + check_size(tree) + check_map(root, floors) + check_links(root))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--map", action="store_true")
    parser.add_argument("--edges", action="store_true")
    options = parser.parse_args()
    if options.map:
        print("\n".join(map_of(floors_load(options.root)[0])))
        return 0
    if options.edges:
        real = edges(Tree(options.root))
        for folder in sorted({here for here, _ in real}):
            print(f"{folder} | {' '.join(sorted(there for here, there in real if here == folder))}")
        return 0
    errors = check(options.root)
    print("\n".join(errors) or "house ok", file=sys.stderr if errors else sys.stdout)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
