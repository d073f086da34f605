"""Shared code of the benchmarks of click jobs: the written log, its columns, the flags, and the report."""
import argparse
import os
import shutil
import tempfile

from lib.programs import EXIT_INPUT, Failed, measure
from lib.report import configuration, print_configuration, write_json

WORKERS, EXAMPLES = 2, 1000  # EXAMPLES: of a worker and step
DATA = """\
data:
  format: csv
  delimiter: tab
  train: {log}
  columns:
    - label: y
    - number: {{name: "I{{1..13}}", scale: standard, missing: {{value: 0}}}}
    - key: "C{{1..26}}"
optimizer: {{adagrad: {{learning_rate: 0.01}}}}
"""


def write_log(options, folder, name, *more):
    """(path of folder/name.tsv, what click_log says of it)."""
    log = os.path.join(folder, f"{name}.tsv")
    return log, measure(600, "click_log", "--rows", options.rows, "--keys", options.keys, "--batch", WORKERS * EXAMPLES,
                        *more, "--output", log)


def parser_of(name, doc):
    parser = argparse.ArgumentParser(prog=f"gradwire bench {name}", description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400000, help="default 400,000")
    parser.add_argument("--keys", type=int, default=1200000, help="of all columns, default 1,200,000")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    parser.add_argument("--quick", action="store_true", help="1 round of 20,000 rows, to see whether it runs")
    return parser


def run_cases(parser, arguments, cases):
    """The exit code. `cases`: a generator of them, of the options, a folder that is removed behind it, and the cores."""
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.rounds = 20000, 1
    if options.rows < WORKERS * EXAMPLES or options.keys < 26 or options.rounds < 1:
        parser.exit(EXIT_INPUT, f"{parser.prog}: --rows is at least {WORKERS * EXAMPLES}, --keys 26, --rounds 1\n")
    report = {"configuration": configuration(options.rounds, rows=options.rows, keys=options.keys), "cases": []}
    print_configuration(report)
    folder = tempfile.mkdtemp(prefix="gradwire-clicks-")
    try:
        report["cases"].extend(cases(options, folder, report["configuration"]["cores"]))
    except Failed as failure:
        print(f"{parser.prog}: {failure}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        write_json(options.json, report)
    return 1 if any(case.get("failed") for case in report["cases"]) else 0
