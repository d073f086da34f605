"""gradwire bench instructions: what assertions cost, counted and not timed. Instructions that a ps and a worker run for a
step of examples/mnist/mlp.yaml (one ps, one worker, a thread each), by valgrind's callgrind, with assertions and without
(GRADWIRE_ASSERTIONS=OFF, built in build/without-assertions). A step's share is the difference of a longer and a shorter job over
their steps. FAILED, and exit code 1: assertions are more than 1 % of a step.
"""
import argparse
import os
import re
import tempfile

from lib.job import JOB, SEED, summary_of
from lib.programs import BUILD, ROOT, Failed, run

PROGRAMS = ("ps", "worker")
MOST = 0.01
DEADLINE_S = 900
KEYS = {"training.seed": SEED, "ps.threads": 1, "worker.threads": 1, "data.synthetic_train_rows": 3200,
        "data.synthetic_eval_rows": 10, "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0, "logs.tensorboard": "false"}
MODES = {"sync": {}, "sync with clip_norm": {"training.clip_norm": 0.1}, "async": {"training.update": "async"},
         "ssp": {"training.update": "ssp"}}


def build_without():
    folder = os.path.join(BUILD, "without-assertions")
    run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGRADWIRE_ASSERTIONS=OFF"], DEADLINE_S)
    run(["ninja", "-C", folder, *(f"gradwire-{name}" for name in PROGRAMS)], DEADLINE_S)
    return folder


def wrap(build, folder):
    """Programs that count: as --bin-dir wants them."""
    for name in PROGRAMS:
        path = os.path.join(folder, name, name)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec valgrind --quiet --tool=callgrind --callgrind-out-file={folder}/{name}.count "
                       f"{os.path.join(build, name, name)} \"$@\"\n")
        os.chmod(path, 0o755)


def counted(build, keys, epochs):
    """Steps of a job, and {program: instructions}."""
    with tempfile.TemporaryDirectory(prefix="gradwire-instructions-") as folder:
        wrap(build, folder)
        summary = summary_of(JOB, 1, 1, KEYS | keys | {"training.epochs": epochs}, DEADLINE_S, more=[f"--bin-dir={folder}"])
        found = {}
        for name in PROGRAMS:
            with open(f"{folder}/{name}.count", encoding="utf-8") as file:
                found[name] = int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.MULTILINE)[1])
        return summary["steps"], found


def a_step(build, keys):
    (few, short), (many, long) = counted(build, keys, 1), counted(build, keys, 3)
    return {name: (long[name] - short[name]) / (many - few) for name in PROGRAMS}


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench instructions", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    options = parser.parse_args(arguments)
    failed = 0
    try:
        without = build_without()
        for mode in options.modes:
            costs, plain = a_step(BUILD, MODES[mode]), a_step(without, MODES[mode])
            for name in PROGRAMS:
                share = costs[name] / plain[name] - 1
                failed += share > MOST
                print(f"{mode}: {name}: {costs[name]:.0f} instructions a step, {plain[name]:.0f} without assertions: {share:+.2%}"
                      f"{' FAILED' if share > MOST else ''}", flush=True)
    except Failed as failure:
        print(f"gradwire bench instructions: {failure}")
        return 1
    return 1 if failed else 0
