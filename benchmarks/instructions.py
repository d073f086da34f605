"""gradwire bench instructions: counts what assertions cost. It counts the instructions that a ps and a worker execute for a
step of examples/mnist/mlp.yaml, with assertions and without, using valgrind's callgrind. The job has one ps and one
worker, each with one thread. The programs without assertions (GRADWIRE_ASSERTIONS=OFF) are built in
build/without-assertions. The instructions of a step are the difference between a longer and a shorter job, divided by the
difference of their steps. If assertions are more than 1 % of a step, the benchmark prints FAILED and exits with 1.
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


def wrap(build, folder, counting):
    """The programs as --bin-dir wants them; one counts. Both together would wait for each other as they never do."""
    for name in PROGRAMS:
        path = os.path.join(folder, name, name)
        count = f"valgrind --quiet --tool=callgrind --callgrind-out-file={folder}/count " if name == counting else ""
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {count}{os.path.join(build, name, name)} \"$@\"\n")
        os.chmod(path, 0o755)


def counted(build, program, keys, epochs):
    """Steps of a job, and the instructions of one of its programs."""
    with tempfile.TemporaryDirectory(prefix="gradwire-instructions-") as folder:
        wrap(build, folder, program)
        summary = summary_of(JOB, 1, 1, KEYS | keys | {"training.epochs": epochs}, DEADLINE_S, more=[f"--bin-dir={folder}"])
        with open(f"{folder}/count", encoding="utf-8") as file:
            return summary["steps"], int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.MULTILINE)[1])


def a_step(build, program, keys):
    (few, short), (many, long) = (counted(build, program, keys, epochs) for epochs in (1, 3))
    return (long - short) / (many - few)


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench instructions", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    options = parser.parse_args(arguments)
    failed = 0
    try:
        without = build_without()
        for mode in options.modes:
            for name in PROGRAMS:
                cost, plain = (a_step(build, name, MODES[mode]) for build in (BUILD, without))
                share = cost / plain - 1
                failed += share > MOST
                print(f"{mode}: {name}: {cost:.0f} instructions a step, {plain:.0f} without assertions: {share:+.2%}"
                      f"{' FAILED' if share > MOST else ''}", flush=True)
    except Failed as failure:
        print(f"gradwire bench instructions: {failure}")
        return 1
    return 1 if failed else 0
