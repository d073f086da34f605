"""gradwire bench frameworks: examples/mnist/cnn.yaml in sync with 2 ps and 2 workers beside TensorFlow (Keras's fit, 50
steps per call) and PyTorch, each in one process on the same cores. The pythons that have them are named, such as those of
virtual environments; what is not named is left out. INVALID: a yardstick's quartiles are more than 20 % apart.
"""
import argparse
import json
import os
import sys

from run import CNN, EXIT_INPUT, ROOT, Failed, configuration, interleave, number, run, train_once

ROWS = 20000
SIDE = os.path.join(ROOT, "benchmarks", "frameworks_side.py")


def side(python, name, batch, versions):
    result = json.loads(run([python, SIDE, name, str(batch), str(ROWS)], 300).splitlines()[-1])
    if not result["accuracy"] > 0.9:
        raise Failed(f"{name}: accuracy {result['accuracy']}: it did not learn")
    versions[name] = result["version"]
    return result["examples_per_s"]


def measure(options, pythons, batch):
    versions = {}
    sides = {"ours": lambda: train_once(CNN, "sync", batch, 2, 2, None, 1)}
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
    parser.add_argument("--json", metavar="FILE", help="write everything measured there")
    options = parser.parse_args(arguments)
    pythons = {name: os.path.abspath(path) for name, path in vars(options).items()
               if name in ("tensorflow", "pytorch") and path}
    if not pythons or options.rounds < 1 or min(options.batches) < 1:
        parser.exit(EXIT_INPUT, "gradwire bench frameworks: --tensorflow or --pytorch names a python that has it; "
                                "--rounds and --batches are at least 1\n")
    options.milliseconds, options.epochs = 0, 1
    report = {"configuration": configuration(options), "cases": []}
    del report["configuration"]["milliseconds"]
    print(", ".join(f"{key} {value}" for key, value in report["configuration"].items()), flush=True)
    for batch in options.batches:
        report["cases"].append(measure(options, pythons, batch))
        print(show(report["cases"][-1]), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
    return 1 if any(case.get("failed") for case in report["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
