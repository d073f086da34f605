#!/usr/bin/env python3
"""Counts what makes the sources hard to find one's way in. counts.txt has the numbers; they may only fall.

    short_files     files with fewer than 60 lines; headers with fewer than 57, as they have no guard
    single_use      headers that one file includes, other than their own .c
    near_functions  external functions that one file calls, and it is in their folder
    bare_statics    names of static functions that more than two files have
    no_opening      .c files that do not open with what they are for
    memory_texts    texts that say "out of memory" or "no memory"
    told room look  names with this word
    table_of_rows   names with the word table in data/ and predict/, where it is no table of embeddings
    take_functions  functions with the word take, which is for moving ownership

    counts.py           check; if a number is smaller now, its line in counts.txt must say so
    counts.py --list K  print what K counts
    counts.py --write   write counts.txt; refused if a number is larger
"""
import argparse
import collections
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import house  # noqa: E402

COUNTS = "tests/lint/counts.txt"
SHORT_LINES, SHORT_HEADER_LINES = 60, 57
STATIC = re.compile(r"^static (?:inline )?(?:const )?(?:struct |enum |unsigned )?\w+ \**(\w+)\([^;{]*\)\n\{", re.M)
MEMORY = re.compile(r'"[^"\n]*\b(?:out of|no) memory\b')


def words_of(text):
    """The names of a file outside of strings, each once."""
    return set(house.WORD.findall(house.without_strings(text)))


def has_word(name, word):
    return word in name.lower().split("_")


class Sources:
    def __init__(self, root):
        self.tree = house.Tree(root)
        self.raw = {path: house.read(os.path.join(root, path)) for path in self.tree.code}
        self.names = {path: words_of(text) for path, text in self.tree.code.items()}
        self.functions = {path: {m[1] for m in house.FUNCTION.finditer(text)} for path, text in self.tree.code.items()
                          if path.endswith(".c")}
        self.statics = {path: {m[1] for m in STATIC.finditer(text)} for path, text in self.tree.code.items()}

    def short_files(self):
        return [path for path, text in self.raw.items() if text.count("\n") < (SHORT_HEADER_LINES if path.endswith(".h") else SHORT_LINES)]

    def single_use(self):
        users = collections.defaultdict(set)
        for path, includes in self.tree.includes.items():
            for _, ours, _ in includes:
                if ours and os.path.splitext(ours)[0] != os.path.splitext(path)[0]:
                    users[ours].add(path)
        return [path for path in self.raw if path.endswith(".h") and len(users[path]) == 1]

    def near_functions(self):
        users = collections.defaultdict(set)
        for path, names in self.names.items():
            if not path.endswith(".h"):
                for name in names:
                    users[name].add(path)
        found = []
        for path, functions in self.functions.items():
            for name in sorted(functions - {"main"}):
                others = users[name] - {path}
                if len(others) == 1 and os.path.dirname(next(iter(others))) == os.path.dirname(path):
                    found.append(f"{path}: {name}")
        return found

    def bare_statics(self):
        homes = collections.defaultdict(list)
        for path, names in self.statics.items():
            for name in names:
                homes[name].append(path)
        return [f"{name}: {' '.join(paths)}" for name, paths in sorted(homes.items()) if len(paths) > 2]

    def no_opening(self):
        return [path for path, text in self.raw.items() if path.endswith(".c") and not text.startswith("/*")]

    def memory_texts(self):
        return [f"{path}: {m[0]}" for path, text in self.tree.code.items() for m in MEMORY.finditer(text)]

    def named(self, word, folders=("",)):
        return [f"{path}: {name}" for path, names in self.names.items() if path.startswith(tuple(folders))
                for name in sorted(names) if has_word(name, word)]

    def take_functions(self):
        return [f"{path}: {name}" for path in self.tree.code for name in
                sorted(self.functions.get(path, set()) | self.statics[path]) if has_word(name, "take")]

    def all(self):
        return {"short_files": self.short_files(), "single_use": self.single_use(), "near_functions": self.near_functions(),
                "bare_statics": self.bare_statics(), "no_opening": self.no_opening(), "memory_texts": self.memory_texts(),
                "told": self.named("told"), "room": self.named("room"), "look": self.named("look"),
                "table_of_rows": self.named("table", ("data/", "predict/")), "take_functions": self.take_functions()}


def limits(root):
    lines, errors = house.rows(root, COUNTS, ["kind", "number"])
    assert not errors, errors
    return {kind: int(number) for _, (kind, number) in lines}


def check(now, most):
    errors = []
    for kind, found in now.items():
        limit = most.get(kind, 0)
        if len(found) > limit:
            errors.append(f"{COUNTS}: {kind} may be at most {limit}, and is {len(found)}: "
                          f"`tests/lint/counts.py --list {kind}` names them")
        elif len(found) < limit:
            errors.append(f"{COUNTS}: {kind} fell from {limit} to {len(found)}: run tests/lint/counts.py --write")
    return errors


def write(root, now, most):
    larger = [kind for kind, found in now.items() if kind in most and len(found) > most[kind]]
    if larger:
        return [f"{COUNTS}: larger than before, so not written: {' '.join(larger)}"]
    with open(os.path.join(root, COUNTS), "w", encoding="utf-8") as file:
        file.write("# What tests/lint/counts.py counts: kind | number. They may only fall.\n")
        file.writelines(f"{kind} | {len(found)}\n" for kind, found in now.items())
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=house.ROOT)
    parser.add_argument("--list")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    now = Sources(options.root).all()
    if options.list:
        print("\n".join(now[options.list]))
        return 0
    most = limits(options.root) if os.path.exists(os.path.join(options.root, COUNTS)) else {}
    errors = write(options.root, now, most) if options.write else check(now, most)
    print("\n".join(errors) or "counts ok", file=sys.stderr if errors else sys.stdout)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
