#!/usr/bin/env python3
"""The chief's values hold for all processes (docs/reference/job-file.md): a process other than the chief reads no member of
struct job that belongs to a run-time key, unless the key's row has PER_PROCESS. So a new key is the chief's, or it says that it is
each process's own.

A value that travels is in the settings or in the plan, which a worker gets with its welcome and a ps with ENTER.

    keys.py           check
    keys.py --list    print each key that is not an identity key, and whose value holds
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Code of processes other than the chief. The evaluator reads the chief's checkpoints, and does not train.
FOLDERS = ("common/peers", "ps", "worker/core", "worker/driver", "worker/step", "worker/control", "data", "worker/taught")
FILES = ("worker/main.c", "worker/process_rows.c")
ALLOWED = {
    ("worker/control/progress.c", "training.epochs"): "called by the chief's own session alone",
    ("worker/control/progress.c", "early_stopping.patience"): "called by the chief's own session alone",
    ("worker/driver/driver.c", "optimizer"): "its slots are those of the kind, an identity key; each welcome has the chief's values",
    ("worker/process_rows.c", "sync.dropped"): "refuses too many microbatches; the chief has refused them, too",
    ("worker/process_rows.c", "ps.memory"): "the chief reports the size of the tables",
}
ROW = re.compile(r"\b(?:JOB_KEY|OPTIMIZER_KEY|OPTIMIZER_REAL|SCHEDULE_KEY|TABLE_KEY)\(")
READ = re.compile(r"\bjob\)?(?:->|\.)((?:\w+\.)*\w+)")


def calls(text):
    """The arguments of each row, as text."""
    for m in ROW.finditer(text):
        depth, at, quoted = 1, m.end(), False
        while depth:
            c = text[at]
            if quoted:
                at += c == "\\"
                quoted = c != '"'
            elif c == '"':
                quoted = True
            else:
                depth += (c == "(") - (c == ")")
            at += 1
        yield text[m.end():at - 1]


def members(root):
    """{member of struct job: (path, own)} of each key that is not an identity key."""
    found = {}
    for path in sorted((root / "job").glob("table_*.[ch]")):
        for row in calls(path.read_text()):
            head = re.match(r'\s*"([^"]+)"\s*,\s*([A-Z]\w*)\s*,\s*([\w.]+)\s*,', row)
            if not head or ".identity = true" in row or head[1] == "name":  # the hello compares it
                continue
            found[head[3]] = (head[1], re.search(r"\bPER_PROCESS\b", row) is not None)
    return found


def sources(root):
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob("*.c"))
    yield from (root / name for name in FILES)


def violations(root, allowed):
    chiefs = {member: path for member, (path, own) in members(root).items() if not own}
    for file in sources(root):
        name = str(file.relative_to(root))
        for line, text in enumerate(file.read_text().splitlines(), 1):
            for read in READ.findall(text):
                for member, key in chiefs.items():
                    if (member == read or member.startswith(read + ".")) and (name, read) not in allowed:
                        yield f"{name}:{line}: job->{read}: the value of {key} is the chief's: read it from the settings, or mark the key PER_PROCESS"
                        break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        for member, (path, own) in sorted(members(ROOT).items()):
            print(f"{path}: {'own' if own else 'chief'} ({member})")
    assert len(members(ROOT)) > 40, "the rows of the tables are read in another way"
    assert any("worker/driver/driver.c" in v for v in violations(ROOT, {})), "it finds nothing"
    found = list(violations(ROOT, ALLOWED))
    for line in found:
        print(line)
    print("keys ok" if not found else f"keys: {len(found)} hits")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
