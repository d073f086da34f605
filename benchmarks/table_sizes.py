"""gradwire bench table-sizes: whole jobs with full tables of 20,000 to 10 million rows of 16 floats. The jobs have 1 ps and
2 workers, and train in sync and in async with adagrad.

A step (in async, a batch) has 256 different examples in random order. Different examples have no key in common, so a step
has 6,656 distinct rows with every size of the table. An epoch has 1,500 steps with every size. The first epoch creates the
rows, and the rate is measured in the second one. The jobs of all sizes run in turn.

MISSED means that the rate with the largest table is below 0.6 of the rate with the smallest. INVALID means that the ps
counted other numbers of rows or bytes for a step than with the smallest table, that the rates with the smallest table
have quartiles that are more than 20 % apart, or that a result is wrong.
"""
import argparse
import os
import re
import shutil
import tempfile
import urllib.request

from lib.cases import failed, finish
from lib.job import last_rate, summary_of
from lib.look import Looks
from lib.programs import EXIT_INPUT, Failed, measure
from lib.report import configuration, number, print_configuration, write_json

COLUMNS, EXAMPLES = 26, 256
STEP_ROWS = COLUMNS * EXAMPLES
SIZES = {"20,000": 3, "200,000": 30, "1,000,000": 150, "10,000,000": 1500}  # steps that touch all: STEP_ROWS rows each
STEPS = 1500  # of an epoch
MODES = ("sync", "async")
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
    """The counts of the ps of a running job for a step of the second epoch, from its /metrics."""

    def __init__(self, folder):
        super().__init__(every_s=0.2)
        self.http = os.path.join(folder, "processes", "http")
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.first = None
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
        if updates and int(updates[1]) >= STEPS:
            self.counted(int(updates[1]), {what: int(of.search(page)[1]) for what, of in COUNTS.items()})

    def counted(self, steps, counts):
        self.first = self.first or (steps, counts)
        made = steps - self.first[0]
        if made:
            self.a_step = {what: (count - self.first[1][what]) / made for what, count in counts.items()}


def make(folder, name, table_steps):
    log, job = os.path.join(folder, f"{table_steps}.csv"), os.path.join(folder, f"{table_steps}.yaml")
    measure(600, "table_log", "--table-steps", table_steps, "--steps", STEPS, "--batch", EXAMPLES, "--path", log)
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(log=log, columns=COLUMNS, examples=EXAMPLES))
    return {"name": name, "job": job, "rows": table_steps * STEP_ROWS, "rates": {mode: [] for mode in MODES}, "a_step": {}}


def train(size, update):
    """Its rate in examples/s behind the first epoch; what the ps counted for a step is size["a_step"][update]."""
    looks = []

    def beside(folder):
        looks.append(PsRows(folder))
        return looks[-1]

    summary = summary_of(size["job"], 1, 2, {
        "training.update": update, "training.epochs": 2, "ps.threads": 1, "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0},
                         600, beside=beside)
    rows = summary.get("tables", {}).get("ids", {}).get("rows")
    if summary["status"] != "done" or summary["restarts"] or rows != size["rows"]:
        raise Failed(f"train: its result is wrong: {summary['status']}, {rows} rows")
    size["a_step"][update] = looks[0].a_step
    if not looks[0].a_step:
        raise Failed("train: /metrics of the ps was not seen")
    return last_rate(summary, STEPS * EXAMPLES)


def judge(case, least):
    for what, count in least.items():
        # a look may fall into a step, and the counts are of all steps so far
        if not case["invalid"] and abs(case["a_step"][what] / count - 1) > 0.01:
            case["invalid"] = f"rows{what} of a step are {case['a_step'][what]:.0f}, of the smallest {count:.0f}"
    case["missed"] = bool(case["judged"] and not case["invalid"] and case["against"]["smallest"]["ratio"] < WANTED)
    return case


def show(case):
    if case.get("failed"):
        print(f"{case['case']}: INVALID: {case['invalid']}", flush=True)
        return
    print(f"{case['case']}: {number(case['ours']['median'])} examples/s, {case['against']['smallest']['ratio']:.2f} of the smallest's; "
          f"a step touches {case['a_step']['']:.0f} rows, {case['a_step']['_bytes']:.0f} bytes", flush=True)
    if case["missed"]:
        print(f"  MISSED: {WANTED} was promised")
    if case["invalid"]:
        print(f"  INVALID: {case['invalid']}")


def cases_of(update, sizes, rounds):
    cases = [{"bench": "table-sizes", "case": f"{update}, {size['name']} rows", "unit": "examples/s", "missed": False,
              "judged": size["name"] == list(SIZES)[-1]} for size in sizes]
    try:
        for turn in range(rounds):
            for size in sizes[::-1 if turn % 2 else 1]:
                size["rates"][update].append(train(size, update))
    except Failed as failure:
        return [failed(case, failure) for case in cases]
    for case, size in zip(cases, sizes):
        case["a_step"] = size["a_step"][update]
        judge(finish(case, size["rates"][update], {"smallest": sizes[0]["rates"][update]}), sizes[0]["a_step"][update])
    return cases


def run_cases(options, folder):
    sizes = [make(folder, name, steps) for name, steps in list(SIZES.items())[:2 if options.quick else None]]
    cases = []
    for update in MODES:
        of_update = cases_of(update, sizes, options.rounds)
        for case in of_update:
            show(case)
        cases += of_update
    return cases


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench table-sizes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    parser.add_argument("--quick", action="store_true", help="1 round of the two smallest tables, to see whether it runs")
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
