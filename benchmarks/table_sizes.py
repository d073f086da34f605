"""gradwire bench table-sizes: whole jobs (sync, 1 ps, 2 workers) with full tables of 20,000 to 10 million rows of 16 floats, adagrad.
Each key is in one place of one example, so each epoch draws all rows in a random order, and a step of 256 examples has 6,656
distinct rows whatever the size. The rate is that of the epochs behind the first one, which makes the rows; jobs of all sizes run in
turn. MISSED: the rate of the largest table is below 0.6 of that of the smallest. INVALID: the ps counted other rows or bytes for a
step than for the smallest table, the rates of the smallest have quartiles that are more than 20 % apart, or a result is wrong.
"""
import argparse
import os
import re
import shutil
import tempfile
import urllib.request

from lib.cases import failed, finish
from lib.job import summary_of
from lib.look import Looks
from lib.programs import EXIT_INPUT, Failed
from lib.report import configuration, number, print_configuration, write_json

COLUMNS, EXAMPLES = 26, 256
STEP_ROWS = COLUMNS * EXAMPLES
SIZES = {"20,000": 3, "200,000": 30, "1,000,000": 150, "10,000,000": 1502}  # steps of an epoch: STEP_ROWS rows each
STEPS = 3000  # behind the first epoch, at least: some seconds, and the ps's page is up to one old
WANTED = 0.6
COUNTS = {what: re.compile(rf'^gradwire_shard_rows{what}_total\{{.*what="touched".*\}} (\d+)$', re.M) for what in ("", "_bytes")}
UPDATES = re.compile(r"^gradwire_shard_updates_total\{.*\} (\d+)$", re.M)
JOB = """\
name: table-sizes
model:
  input: {{shape: auto}}
  layers:
    - embedding: {{inputs: "C{{1..{columns}}}", table: ids, output_dim: 16, name: e}}
    - dense: {{units: 1}}
    - sigmoid
  loss: binary_crossentropy
data:
  format: csv
  train: {log}
  columns:
    - label: y
    - key: {{name: "C{{1..{columns}}}", hash: false, missing: none}}
optimizer: {{adagrad: {{learning_rate: 0.01}}}}
training: {{batch_size: {examples}, microbatches: 2}}
"""


class PsRows(Looks):
    """What the ps of a running job counted for a step, as the last look at its /metrics had it."""

    def __init__(self, folder):
        super().__init__(every_s=0.2)
        self.http = os.path.join(folder, "processes", "http")
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.a_step = {}

    def look(self):
        try:
            with open(self.http, encoding="utf-8") as file:
                address = next(words[2] for words in map(str.split, file) if words[0] == "ps")
            with self.opener.open(f"http://{address}/metrics", timeout=5) as reply:
                page = reply.read().decode()
        except (OSError, ValueError, StopIteration):
            return  # not yet, or not any more
        updates = UPDATES.search(page)
        if updates and int(updates[1]):
            self.a_step = {what: int(of.search(page)[1]) / int(updates[1]) for what, of in COUNTS.items()}


def make(folder, name, steps):
    log, job = os.path.join(folder, f"{steps}.csv"), os.path.join(folder, f"{steps}.yaml")
    with open(log, "w", encoding="utf-8") as file:
        for example in range(steps * EXAMPLES):
            first = example * COLUMNS
            file.write(f"{example & 1},{','.join(map(str, range(first, first + COLUMNS)))}\n")
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(log=log, columns=COLUMNS, examples=EXAMPLES))
    return {"name": name, "job": job, "steps": steps, "rates": []}


def train(size):
    """Its rate in examples/s behind the first epoch; what the ps counted for a step is size["a_step"]."""
    epochs = 1 + -(-STEPS // size["steps"])
    looks = []

    def beside(folder):
        looks.append(PsRows(folder))
        return looks[-1]

    summary = summary_of(size["job"], 1, 2, {
        "training.epochs": epochs, "ps.threads": 1, "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0}, 600,
                         beside=beside)
    rows = summary.get("tables", {}).get("ids", {}).get("rows")
    if summary["status"] != "done" or summary["restarts"] or rows != size["steps"] * STEP_ROWS:
        raise Failed(f"train: its result is wrong: {summary['status']}, {rows} rows")
    size["a_step"] = looks[0].a_step
    if not size["a_step"]:
        raise Failed("train: /metrics of the ps was not seen")
    history = summary["history"]
    return (epochs - 1) * size["steps"] * EXAMPLES / (history[-1]["seconds"] - history[0]["seconds"])


def judge(case, size, least):
    for what, count in least["a_step"].items():
        # a look may fall into a step, and the counts are of all steps so far
        if not case["invalid"] and abs(size["a_step"][what] / count - 1) > 0.01:
            case["invalid"] = f"rows{what} of a step are {size['a_step'][what]:.0f}, of the smallest {count:.0f}"
    case["missed"] = bool(size["judged"] and not case["invalid"] and case["against"]["smallest"]["ratio"] < WANTED)
    return case


def show(case, size):
    if case.get("failed"):
        print(f"{case['case']}: INVALID: {case['invalid']}", flush=True)
        return
    print(f"{case['case']}: {number(case['ours']['median'])} examples/s, {case['against']['smallest']['ratio']:.2f} of the smallest's; "
          f"a step touches {size['a_step']['']:.0f} rows, {size['a_step']['_bytes']:.0f} bytes", flush=True)
    if case["missed"]:
        print(f"  MISSED: {WANTED} was promised")
    if case["invalid"]:
        print(f"  INVALID: {case['invalid']}")


def run_cases(options, folder):
    sizes = [make(folder, name, steps) for name, steps in list(SIZES.items())[:2 if options.quick else None]]
    cases = [{"bench": "table-sizes", "case": f"{size['name']} rows", "unit": "examples/s", "missed": False} for size in sizes]
    try:
        for turn in range(options.rounds):
            for size in sizes[::-1 if turn % 2 else 1]:
                size["rates"].append(train(size))
    except Failed as failure:
        cases = [failed(case, failure) for case in cases]
    for case, size in zip(cases, sizes):
        if not case.get("failed"):
            size["judged"] = size["name"] == list(SIZES)[-1]
            judge(finish(case, size["rates"], {"smallest": sizes[0]["rates"]}), size, sizes[0])
        show(case, size)
    return cases


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench table-sizes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--json", metavar="FILE", help="write everything measured there")
    parser.add_argument("--quick", action="store_true", help="1 round of the two smallest: does it run at all?")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds = 1
    if options.rounds < 1:
        parser.exit(EXIT_INPUT, "gradwire bench table-sizes: --rounds is at least 1\n")
    report = {"configuration": configuration(options.rounds), "cases": []}
    print_configuration(report)
    folder = tempfile.mkdtemp(prefix="gradwire-table-sizes-")
    try:
        report["cases"] = run_cases(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        write_json(options.json, report)
    return 1 if any(case.get("failed") for case in report["cases"]) else 0
