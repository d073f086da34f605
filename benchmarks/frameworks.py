"""gradwire bench frameworks: trains examples/mnist/cnn.yaml in sync with 2 ps and 2 workers, and the same model in TensorFlow
(Keras's fit, 50 steps per call) and PyTorch, each in one process on the same cores. Each flag names a Python interpreter
that can import the framework, for example that of a virtual environment. The benchmark omits a framework without a flag.
A case is INVALID if a yardstick's quartiles are more than 20 % apart.
"""
import argparse
import json
import os

from lib.cases import interleave
from lib.job import CNN, train_once
from lib.programs import EXIT_INPUT, ROOT, Failed, run
from lib.report import configuration, number, print_configuration, write_json

ROWS = 20000
EPOCHS = 1
SIDE = os.path.join(ROOT, "benchmarks", "frameworks_side.py")


def side(python, name, batch, versions):
    result = json.loads(run([python, SIDE, name, str(batch), str(ROWS)], 300).splitlines()[-1])
    if not result["accuracy"] > 0.9:
        raise Failed(f"{name}: accuracy {result['accuracy']}: it did not learn")
    versions[name] = result["version"]
    return result["examples_per_s"]


def measure(options, pythons, batch):
    versions = {}
    sides = {"ours": lambda: train_once(CNN, "sync", batch, 2, 2, None, EPOCHS)}
    for name, python in pythons.items():
        sides[name] = lambda name=name, python=python: side(python, name, batch, versions)
    case = interleave({"bench": "frameworks", "case": f"cnn batch {batch}", "unit": "examples/s"}, sides, options.rounds)
    return case | {"versions": versions}


def show(case):
    if case.get("failed"):
        return f"{case['case']}: INVALID: {case['invalid']}"
    parts = [f"{name} {case['versions'][name]}: {number(against['yardstick']['median'])}, ratio {against['ratio']:.2f}"
             for name, against in case["against"].items()]
    return f"{case['case']}: {number(case['ours']['median'])} examples/s; " + "; ".join(parts) + (
        f"; INVALID: {case['invalid']}" if case["invalid"] else "")


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench frameworks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow", metavar="PYTHON")
    parser.add_argument("--pytorch", metavar="PYTHON")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    options = parser.parse_args(arguments)
    pythons = {name: os.path.abspath(path) for name, path in vars(options).items()
               if name in ("tensorflow", "pytorch") and path}
    if not pythons or options.rounds < 1 or min(options.batches) < 1:
        parser.exit(EXIT_INPUT, "gradwire bench frameworks: --tensorflow or --pytorch names a python that has it; "
                                "--rounds and --batches are at least 1\n")
    report = {"configuration": configuration(options.rounds, epochs=EPOCHS), "cases": []}
    print_configuration(report)
    for batch in options.batches:
        report["cases"].append(measure(options, pythons, batch))
        print(show(report["cases"][-1]), flush=True)
    if options.json:
        write_json(options.json, report)
    return 1 if any(case.get("failed") for case in report["cases"]) else 0
