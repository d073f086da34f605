#!/usr/bin/env python3
"""gradwire mutate: breaks the code in small ways, one at a time; each must turn the named tests red.

A copy of what git tracks is built once in a temporary folder, and the named tests must be green there. Then, for each
mutation of mutations.txt: the text is replaced (it must be there exactly once, or the mutation is stale), what depends
on it is built again, and every test program that it names must fail, or not end within its deadline. A test that stays
green is a survivor: what the mutation breaks is not tested.

With --assertions the list is assertions.txt: what the tests do not see, and an assertion does. Each of its mutations must
be green without assertions (GRADWIRE_ASSERTIONS=OFF), in the named tests and in all programs of the groups unit, sim and
wire, and with them an assertion must end each of the named tests.

    -s, --short     a few mutations, drawn by a seed, which is printed; that none is stale is checked for all. With
                    --assertions the named tests alone are run
    --seed N        draw them by this seed
    --only NAME     this one (can be repeated); a prefix will do
    --jobs N        compilers and tests at a time (default: all cores)
    --folder DIR    work in DIR and leave it there, so that the next run builds less

The last line is "N passed, N failed"; the exit code is 1 if any failed.
"""
import argparse
import fcntl
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST, LIST_OF_ASSERTIONS = HERE / "mutations.txt", HERE / "assertions.txt"
GROUPS = ("unit", "sim", "wire")
SHORT = 8
DEADLINE_S, DEADLINE_FACTOR = 30, 20  # of a test: the larger one, of what it took unbroken
BUILD_DEADLINE_S = 900


class Failed(Exception):
    """The message for a mutation, or for the whole run, that failed."""


@dataclass
class Mutation:
    name: str
    file: str
    tests: list
    old: list = field(default_factory=list)
    new: list = field(default_factory=list)

    def apply(self, text):
        old, new = "\n".join(self.old), "\n".join(self.new)
        found = text.count(old)
        if found != 1:
            raise Failed(f"stale: its text is {found} times in {self.file}")
        return text.replace(old, new)


# ---- the list ----

def read_list(path):
    """Blocks of "name | file | test..." and then "- old" and "+ new" lines; the list's head describes the format."""
    mutations = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in "-+":
            if not mutations or line[1:2] not in ("", " "):
                sys.exit(f"{path}:{number}: a name | file | tests first, then \"- old\" and \"+ new\" lines")
            (mutations[-1].old if line[0] == "-" else mutations[-1].new).append(line[2:])
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            sys.exit(f"{path}:{number}: wanted: name | file | test...")
        mutations.append(Mutation(parts[0], parts[1], parts[2].split()))
    names = [m.name for m in mutations]
    for m in mutations:
        if names.count(m.name) > 1 or not m.old or m.old == m.new:
            sys.exit(f"{path}: {m.name}: named twice, or nothing to replace")
    return mutations


# ---- processes: each has a group of its own, ended by its number and reaped ----

def run(command, deadline_s, **more):
    """Exit code (None: past its deadline) and what it wrote."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 start_new_session=True, **more)
        try:
            code = child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        out.seek(0)
        return code, out.read().decode(errors="replace")


# ---- the copy ----

def lock(folder):
    """Held until this process ends: two in one folder would test each other's mutations."""
    folder.mkdir(parents=True, exist_ok=True)
    held = open(folder / "lock", "w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutate: another run works in {folder}")
    return held


def tracked():
    command = ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    try:
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        sys.exit("mutate: what git tracks is what is mutated, and this is no git checkout")
    return [name for name in names.split("\0") if name and (ROOT / name).is_file()]


def write_if_other(path, data):
    """A file with the same contents keeps its time, and is not built again."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def copy_tree(to):
    names = tracked()
    for name in names:
        write_if_other(to / name, (ROOT / name).read_bytes())
    kept = {to / name for name in names}
    for path in [p for p in to.rglob("*") if p.is_file() and p not in kept]:
        path.unlink()


# ---- building and testing it ----

class Tree:
    def __init__(self, folder, jobs, assertions=True):
        self.source, self.build, self.jobs = folder / "tree", folder / ("build" if assertions else "build-without"), jobs
        self.deadline_s, self.unbroken = {}, {}
        copy_tree(self.source)
        # -O1: quick to build and to run; a name of its own, as CMakeLists.txt says what the others mean
        configure = ["cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja",
                     "-DCMAKE_BUILD_TYPE=Mutate", "-DCMAKE_C_FLAGS_MUTATE=-O1", "-DCMAKE_CXX_FLAGS_MUTATE=-O1",
                     f"-DGRADWIRE_ASSERTIONS={'ON' if assertions else 'OFF'}"]
        code, out = run(configure, BUILD_DEADLINE_S)
        if code != 0:
            raise Failed(f"cmake failed:\n{out}")

    def make(self, tests):
        targets = [test.replace("/", "_") for test in tests]
        return run(["ninja", "-C", str(self.build), "-j", str(self.jobs), *targets], BUILD_DEADLINE_S)

    def program(self, test):
        return self.build / "tests" / test.replace("/", "_")

    def test(self, test, deadline_s):
        """Exit code and output of one test program; never longer than its deadline."""
        environment = dict(os.environ, GRADWIRE_BUILD=str(self.build), GRADWIRE_ROOT=str(self.source))
        return run([str(self.program(test))], deadline_s, cwd=self.source, env=environment)

    def all_tests(self):
        return [f"{group}/{path.stem}" for group in GROUPS for path in sorted((self.source / "tests" / group).glob("*_test.c"))]

    def check_green(self, tests):
        code, out = self.make(tests)
        if code != 0:
            raise Failed(f"the tree does not build:\n{out[-4000:]}")
        for test in tests:
            start = time.monotonic()
            code, out = self.test(test, BUILD_DEADLINE_S)
            if code != 0:
                raise Failed(f"{test} is red without any mutation (exit code {code}):\n{out[-4000:]}")
            self.deadline_s[test] = max(DEADLINE_S, DEADLINE_FACTOR * (time.monotonic() - start))
            self.unbroken[test] = hashlib.sha256(self.program(test).read_bytes()).digest()

    def mutate(self, mutation, judge, tests):
        """The verdict of judge for each of these tests. It restores the tree."""
        path = self.source / mutation.file
        original = path.read_text()
        path.write_text(mutation.apply(original))
        try:
            code, out = self.make(tests)
            if code != 0:
                raise Failed("does not build: " + first_error(out))
            with ThreadPoolExecutor(self.jobs) as pool:
                return list(pool.map(judge, tests))
        finally:
            path.write_text(original)

    def green(self, test):
        if hashlib.sha256(self.program(test).read_bytes()).digest() == self.unbroken[test]:
            return None  # it does not contain the broken code
        code, out = self.test(test, self.deadline_s[test])
        if code != 0:
            raise Failed(f"{test} sees it without assertions: {first_failed(out) or f'exit code {code}'}")
        return test

    def asserts(self, test):
        code, out = self.test(test, self.deadline_s[test])
        found = re.search(r"^.*: (\w+): Assertion `.*' failed\.$", out, re.MULTILINE)
        if code != -signal.SIGABRT or not found:
            raise Failed(f"no assertion ends {test} (exit code {code})")
        return f"{test}: an assertion of {found[1]}"

    def red(self, test):
        code, out = self.test(test, self.deadline_s[test])
        if code == 0:
            raise Failed(f"survived {test}")
        if code is None:
            return f"{test}: no end within {self.deadline_s[test]:.0f} s"
        if code < 0:
            return f"{test}: {signal.Signals(-code).name}"
        return f"{test}: {first_failed(out) or f'exit code {code}'}"


def first_failed(out):
    """The first test that a program says has failed, and how many more; empty: none."""
    failed = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] (\w+)$", out, re.MULTILINE)))
    return (failed[0] if failed else "") + (f" and {len(failed) - 1} more" if len(failed) > 1 else "")


def first_error(out):
    errors = [line for line in out.splitlines() if "error" in line]
    return errors[0] if errors else out[-300:]


# ---- the run ----

def choose(mutations, options):
    if options.only:
        unknown = [name for name in options.only if not any(m.name.startswith(name) for m in mutations)]
        if unknown:
            sys.exit(f"mutate: no mutation is named {unknown[0]}")
        return [m for m in mutations if m.name.startswith(tuple(options.only))]
    if options.short:
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
        print(f"mutate: {SHORT} of {len(mutations)}, seed {seed}", flush=True)
        drawn = random.Random(seed).sample(mutations, min(SHORT, len(mutations)))
        return [m for m in mutations if m in drawn]
    return mutations


def judge(mutation, how):
    try:
        text, passed = "red, " + "; ".join(how()), True
    except Failed as failure:
        text, passed = str(failure), False
    print(f"{'ok' if passed else 'FAILED':6} {mutation.name} ({mutation.file}): {text}", flush=True)
    return passed


def stale(mutations):
    """Those whose text is not there once."""
    found = []
    for m in mutations:
        try:
            path = ROOT / m.file
            m.apply(path.read_text() if path.is_file() else "")
        except Failed:
            found.append(m)
    return found


def check(chosen, options, folder):
    """Each turns its tests red."""
    tree = Tree(folder, options.jobs)
    start = time.monotonic()
    tree.check_green(sorted({test for m in chosen for test in m.tests}))
    print(f"mutate: built, and green without a mutation ({time.monotonic() - start:.0f} s)", flush=True)
    return [judge(m, lambda m=m: tree.mutate(m, tree.red, m.tests)) for m in chosen]


def check_assertions(chosen, options, folder):
    """Each is seen by an assertion, and by nothing else."""
    with_them, without = Tree(folder, options.jobs), Tree(folder, options.jobs, assertions=False)
    named = sorted({test for m in chosen for test in m.tests})
    start = time.monotonic()
    with_them.check_green(named)
    without.check_green(named if options.short else without.all_tests())
    print(f"mutate: built twice, and green without a mutation ({time.monotonic() - start:.0f} s)", flush=True)

    def how(m):
        tests = m.tests if options.short else without.all_tests()
        green = [test for test in without.mutate(m, without.green, tests) if test]
        return with_them.mutate(m, with_them.asserts, m.tests) + [f"{len(green)} of {len(tests)} have it and are green without"]
    return [judge(m, lambda m=m: how(m)) for m in chosen]


def mutate(options, folder):
    mutations = read_list(LIST_OF_ASSERTIONS if options.assertions else LIST)
    chosen, old = choose(mutations, options), stale(mutations)
    results = [judge(m, lambda m=m: [m.apply((ROOT / m.file).read_text() if (ROOT / m.file).is_file() else "")])
               for m in old]
    chosen = [m for m in chosen if m not in old]
    return results + (check_assertions if options.assertions else check)(chosen, options, folder)


def parse():
    parser = argparse.ArgumentParser(prog="gradwire mutate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-s", "--short", action="store_true")
    parser.add_argument("--assertions", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        sys.exit(0)
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder is removed, no compiler is left behind
    folder = options.folder or Path(tempfile.mkdtemp(prefix="gradwire-mutate-"))
    held = lock(folder)
    try:
        results = mutate(options, folder.resolve())
    except Failed as failure:
        print(f"FAILED {failure}")
        results = [False]
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        held.close()
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
