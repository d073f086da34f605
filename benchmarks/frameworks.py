"""gradwire bench frameworks: trains a model with gradwire, and the same model in TensorFlow and PyTorch, on the same cores,
in turn. Each flag names a Python interpreter that can import the framework, for example that of a virtual environment. The
benchmark omits a framework without a flag.

cnn     examples/mnist/cnn.yaml in sync, 2 ps and 2 workers; one process of TensorFlow (Keras's fit, 50 steps per call), and of
        PyTorch
mlp     examples/mnist/mlp.yaml in sync, 2 ps and 2 workers; TensorFlow's ParameterServerStrategy with 2 ps and 2 workers
        (async, a loop of its own, 10 steps per call); PyTorch's DistributedDataParallel over gloo with 2 processes
clicks  the wide and deep model of `gradwire bench roofline` in sync, 1 ps and 2 workers; ParameterServerStrategy with 1 ps and
        2 workers, and a table of fixed size. PyTorch takes no part

A batch is that of all workers in sync, and of each worker in TensorFlow's async cluster. A case is INVALID if a yardstick's
quartiles are more than 20 % apart.
"""
import argparse
import json
import os
import shutil
import tempfile
from types import SimpleNamespace

import roofline
from lib.cases import failed, interleave
from lib.click_jobs import WORKERS
from lib.job import CNN, JOB, last_rate, train_once
from lib.programs import EXIT_INPUT, ROOT, Failed, run
from lib.report import configuration, number, print_configuration, write_json

ROWS = 20000
EPOCHS = 1
CLICK_ROWS, CLICK_KEYS, CLICK_BATCH = 400000, 1200000, WORKERS * roofline.EXAMPLES
# model -> framework -> the program of its side and what it trains
SIDES = {
    "cnn": {"tensorflow": ("frameworks_side.py", "tensorflow"), "pytorch": ("frameworks_side.py", "pytorch")},
    "mlp": {"tensorflow": ("cluster_side.py", "ps_mlp"), "pytorch": ("cluster_side.py", "ddp")},
    "clicks": {"tensorflow": ("cluster_side.py", "ps_clicks")},
}


def side(python, model, name, sizes, versions):
    program, what = SIDES[model][name]
    words = [python, os.path.join(ROOT, "benchmarks", program), what, *(str(size) for size in sizes)]
    result = json.loads(run(words, 900).splitlines()[-1])
    if not result["learned"]:
        raise Failed(f"{name}: {result['result']}: it did not learn")
    versions[name] = result["version"]
    return result["examples_per_s"]


def measure(options, pythons, model, batch, ours, sizes):
    versions = {}
    sides = {"ours": ours}
    for name, python in pythons.items():
        if name in SIDES[model]:
            sides[name] = lambda name=name, python=python: side(python, model, name, sizes, versions)
    case = interleave({"bench": "frameworks", "case": f"{model} batch {batch}", "unit": "examples/s"}, sides, options.rounds)
    return case | {"versions": versions}


def measure_clicks(options, pythons):
    folder = tempfile.mkdtemp(prefix="gradwire-clicks-")
    try:
        log = SimpleNamespace(rows=CLICK_ROWS, keys=CLICK_KEYS, model="wide_deep")
        _, jobs = roofline.make(log, folder, CLICK_BATCH)
        return measure(options, pythons, "clicks", CLICK_BATCH, lambda: last_rate(roofline.train(jobs["M=2"]), CLICK_ROWS),
                       (roofline.EXAMPLES, CLICK_ROWS, CLICK_KEYS))
    except Failed as failure:
        return failed({"bench": "frameworks", "case": "clicks", "unit": "examples/s"}, failure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_all(options, pythons):
    for model, job in (("cnn", CNN), ("mlp", JOB)):
        for batch in options.batches if model in options.models else []:
            yield measure(options, pythons, model, batch,
                          lambda job=job, batch=batch: train_once(job, "sync", batch, 2, 2, None, EPOCHS), (batch, ROWS))
    if "clicks" in options.models:
        yield measure_clicks(options, pythons)


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
    parser.add_argument("--models", nargs="+", choices=SIDES, default=["cnn"], help="default cnn")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    options = parser.parse_args(arguments)
    pythons = {name: os.path.abspath(path) for name, path in vars(options).items()
               if name in ("tensorflow", "pytorch") and path}
    if not pythons or options.rounds < 1 or min(options.batches) < 1:
        parser.exit(EXIT_INPUT, "gradwire bench frameworks: --tensorflow or --pytorch names a python that has it; "
                                "--rounds and --batches are at least 1\n")
    if "clicks" in options.models and "tensorflow" not in pythons:
        parser.exit(EXIT_INPUT, "gradwire bench frameworks: the model clicks needs --tensorflow\n")
    report = {"configuration": configuration(options.rounds, epochs=EPOCHS), "cases": []}
    print_configuration(report)
    for case in measure_all(options, pythons):
        report["cases"].append(case)
        print(show(case), flush=True)
    if options.json:
        write_json(options.json, report)
    return 1 if any(case.get("failed") for case in report["cases"]) else 0
