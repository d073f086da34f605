#!/usr/bin/env python3
"""Check that a change touches comments only: it leaves every object file as it was.

    same_objects.py [BASE]            build BASE (HEAD unless given) and the working tree with -g0 -DNDEBUG, compare all object files
    same_objects.py --tokens [BASE]   compare the tokens of changed C and C++ files, and the syntax trees of changed Python
                                      files, docstrings left out; seconds instead of minutes
    same_objects.py --mutants         name the entries of tests/mutate's list whose quoted text is no longer in the tree

It exits with 1 and names the files if something differs. Changed files of other kinds are named and not compared.
"""
import argparse
import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_SOURCES = (".c", ".h", ".cc")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+|[^\w\s]')


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout


def changed(base):
    """Paths that differ between `base` and the working tree."""
    return [path for path in git("diff", "--name-only", base).splitlines() if path]


def tokens(text):
    """Those of a C source, without comments. -fpreprocessed removes comments and expands no macro; -dD keeps #define."""
    out = subprocess.run(["cpp", "-fpreprocessed", "-dD", "-P", "-"], input=text, check=True, capture_output=True, text=True)
    return TOKEN.findall(out.stdout.replace("\\\n", " "))


def tree(text):
    """A Python source's syntax tree without docstrings."""
    root = ast.parse(text)
    for node in ast.walk(root):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body[0].value.value = None
    return ast.dump(root)


def compare_tokens(base):
    """(files that differ, files of other kinds)"""
    differ, others = [], []
    for path in changed(base):
        reads = tokens if path.endswith(C_SOURCES) else tree if path.endswith(".py") else None
        if reads is None:
            others.append(path)
            continue
        here = ROOT / path
        try:
            old = git("show", f"{base}:{path}")
        except subprocess.CalledProcessError:
            old = None
        if old is None or not here.exists() or reads(old) != reads(here.read_text()):
            differ.append(path)
    return differ, others


def build(top, take, name):
    """The bytes of each object of a tree, by its path. Trees are built in the same place, so that paths in objects are equal."""
    tree_folder, folder = top / "tree", top / "build"
    for old in (tree_folder, folder):
        shutil.rmtree(old, ignore_errors=True)
    tree_folder.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", take], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", tree_folder], input=archive, check=True)
    compile_object = "-D{}_COMPILE_OBJECT=<{}_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -g0 -DNDEBUG -o <OBJECT> -c <SOURCE>"
    subprocess.run(["cmake", "-S", tree_folder, "-B", folder, "-DGRADWIRE_MANUAL=OFF",
                    *(compile_object.format(language, language) for language in ("CMAKE_C", "CMAKE_CXX"))],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"building {name}", flush=True)
    subprocess.run(["cmake", "--build", folder, "-j", str(os.cpu_count())], check=True, stdout=subprocess.DEVNULL)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.o")}


def compare_objects(base):
    with tempfile.TemporaryDirectory(prefix="gradwire-same-objects-") as folder:
        old = build(pathlib.Path(folder), base, base)
        new = build(pathlib.Path(folder), git("stash", "create").strip() or "HEAD", "the working tree")
    if not old:
        sys.exit(f"{base}: nothing was built")
    print(f"{len(old)} object files compared")
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def stale_mutants():
    sys.path.insert(0, str(ROOT / "tests/mutate"))
    import run
    return [str(mutant) for name in vars(run) if name.startswith("LIST") for mutant in run.stale(run.read_list(getattr(run, name)))]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("base", nargs="?", default="HEAD")
    options.add_argument("--tokens", action="store_true")
    options.add_argument("--mutants", action="store_true")
    given = options.parse_args()
    if given.mutants:
        wrong = stale_mutants()
    elif given.tokens:
        wrong, others = compare_tokens(given.base)
        for path in others:
            print(f"{path}: not compared")
    else:
        wrong = compare_objects(given.base)
    for path in wrong:
        print(path if given.mutants else f"{path}: differs: more than comments changed")
    print("differs" if wrong else "same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
