"""gradwire bench predict: scores rows in memory by the C library (predict/gradwire-predict.h), and by onnxruntime, which runs
the same models from `gradwire export`. --onnxruntime names a Python interpreter that can import onnxruntime and onnx. Without
it, the benchmark measures gradwire alone.

The models are those of the examples, trained for one epoch with a few generated rows. A ratio above 1 means that gradwire is
faster. MISSED means that a ratio is below 1. INVALID means that the quartiles of onnxruntime are more than 20 % apart, or that
the scores differ by more than 1e-5.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile

from lib.cases import failed, finish
from lib.job import SEED
from lib.programs import BUILD, EXIT_INPUT, ROOT, Failed, end, run
from lib.report import configuration, number, print_configuration, write_json

SIDE = os.path.join(ROOT, "benchmarks", "predict_side.py")
ROWS = 1024  # in memory; the largest batch
MILLISECONDS = {1: 50, 64: 100, ROWS: 300}
FEW = {"data.synthetic_train_rows": 20000, "data.synthetic_eval_rows": 100}
MODELS = {"mlp": ("examples/mnist/mlp.yaml", FEW), "wide_deep": ("examples/clicks/wide_deep.yaml", FEW),
          "cnn": ("examples/mnist/cnn.yaml", FEW), "convnet": ("examples/mnist/convnet.yaml", FEW),
          "cifar10": ("examples/cifar10/cnn.yaml", {"data.train": "images.bin", "data.eval": "images.bin"})}


class Program:
    """A program that answers lines with JSON. It ends with the context."""

    def __init__(self, command):
        self.name = os.path.basename(command[1] if command[0].endswith("python") else command[0])
        self.errors = tempfile.TemporaryFile()
        try:
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                          start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error}") from None
        self.hello = self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        end(self.child)
        self.child.stdout.close()
        self.errors.close()

    def read(self):
        line = self.child.stdout.readline()
        if line:
            return json.loads(line)
        end(self.child)
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines() or ["no word"]
        raise Failed(f"{self.name}: {said[-1]}")

    def ask(self, *words):
        print(*words, file=self.child.stdin, flush=True)
        answer = self.read()
        if not answer["valid"]:
            raise Failed(f"{self.name}: the scores differ: {self.hello}")
        return answer


def write_images(path):
    """Random images in the format of cifar10: only the time matters here."""
    draw = random.Random(SEED)
    with open(path, "wb") as file:
        file.write(b"".join(bytes([draw.randrange(10)]) + draw.randbytes(32 * 32 * 3) for _ in range(500)))


def make_model(name, folder):
    """Train and export: (the model's directory, what onnxruntime reads)."""
    job, keys = MODELS[name]
    output, onnx = os.path.join(folder, name), os.path.join(folder, name + ".onnx")
    keys = {key: os.path.join(folder, value) if value == "images.bin" else value for key, value in keys.items()}
    sets = [word for key, value in {"training.epochs": 1, "training.seed": SEED, **keys}.items()
            for word in ("--set", f"{key}={value}")]
    run([os.path.join(BUILD, "launch", "launch"), "train", job, "--ps", "1", "--workers", "1", "--output", output, *sets], 300)
    if name == "wide_deep":
        return os.path.join(output, "model"), os.path.join(output, "model")
    run([os.path.join(BUILD, "model", "model"), "export", output, "--format", "onnx", "--output", onnx], 60)
    return os.path.join(output, "model"), onnx


def rate(answer, batch):
    """Rows a second. For a single row, onnxruntime's time is less that of an empty graph: the price of its Python binding."""
    return batch / (answer["seconds"] - (answer.get("empty", 0) if batch == 1 else 0))


def measure(name, threads, batch, sides, rounds):
    case = {"bench": "predict", "case": f"{name}, batch {batch}, {threads} thread{'s'[:threads > 1]}", "unit": "rows/s"}
    values = {side: [] for side in sides}
    try:
        for i in range(rounds):
            for side in sides if i % 2 == 0 else reversed(sides):
                answer = sides[side].ask(threads, batch, MILLISECONDS[batch])
                values[side].append(rate(answer, batch))
    except Failed as failure:
        return failed(case, failure)
    return finish(case, values.pop("ours"), values)


def show(case):
    if case.get("failed"):
        return f"{case['case']}: INVALID: {case['invalid']}"
    ours = case["ours"]
    text = f"{case['case']}: {number(ours['median'])} rows/s ({number(1e6 / ours['median'])} us a row)"
    for name, against in case["against"].items():
        low, high = (ours[q] / against["yardstick"]["median"] for q in ("q1", "q3"))
        text += f"; {name} {number(against['yardstick']['median'])}, ratio {against['ratio']:.2f} ({low:.2f} to {high:.2f})"
        case["missed"] = not case["invalid"] and against["ratio"] < 1
        text += "; MISSED" if case["missed"] else ""
    return text + (f"; INVALID: {case['invalid']}" if case["invalid"] else "")


def bench_model(name, options, folder):
    model, onnx = make_model(name, folder)
    with Program([os.path.join(BUILD, "benchmarks", "predict"), model, str(ROWS), folder]) as ours:
        sides = {"ours": ours}
        if options.onnxruntime:
            sides["onnxruntime"] = Program([options.onnxruntime, SIDE, folder, str(ROWS), onnx])
        try:
            for threads in options.threads:
                for batch in options.batches:
                    if batch > 1 or threads == 1:
                        yield measure(name, threads, batch, sides, options.rounds)
        finally:
            if options.onnxruntime:
                sides["onnxruntime"].__exit__()


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench predict", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime", metavar="PYTHON", default=os.environ.get("GRADWIRE_ONNXRUNTIME"),
                        help="default: the variable GRADWIRE_ONNXRUNTIME")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--batches", type=int, nargs="+", choices=MILLISECONDS, default=list(MILLISECONDS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2],
                        help="default 1 2. A single row is always scored by one thread")
    parser.add_argument("--rounds", type=int, default=9, help="default 9")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or min(options.threads) < 1:
        parser.exit(EXIT_INPUT, f"{parser.prog}: --rounds and --threads are at least 1\n")
    return options


def main(arguments):
    options = options_of(arguments)
    report = {"configuration": configuration(options.rounds, rows=ROWS), "cases": []}
    print_configuration(report)
    if not options.onnxruntime:
        print("without onnxruntime: --onnxruntime names a python that has it")
    folder = tempfile.mkdtemp(prefix="gradwire-predict-")
    try:
        write_images(os.path.join(folder, "images.bin"))
        for name in options.models:
            for case in bench_model(name, options, folder):
                report["cases"].append(case)
                print(show(case), flush=True)
    except Failed as failure:
        print(f"gradwire bench predict: {failure}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        write_json(options.json, report)
    return 1 if any(case.get("failed") or case.get("missed") for case in report["cases"]) else 0
