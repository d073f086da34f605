"""gradwire bench roofline: a click job whose data have the shape of Criteo's: 26 keys and 13 numbers for each example. The
job runs in sync with 1 ps and 2 workers. The benchmark also measures each part of the job alone on the same machine: the
matrix products, the gathering of rows, the transfer, and the update of rows.

The benchmark generates the text. All processes read it first, and the rate does not include this time. The cost of a
part is in core-microseconds for each example. `rest` is the cost of the job that the parts do not explain. A case is
INVALID if a yardstick's quartiles are more than 20 % apart.
"""
import os

from lib.cases import failed, finish
from lib.click_jobs import DATA, EXAMPLES, WORKERS, parser_of, run_cases, write_log
from lib.job import last_rate, summary_of
from lib.programs import Failed, measure
from lib.report import number

PS, UNITS, LAYERS = 1, 400, 3
GEMM_WANTED = 0.70
LOSS_MOST = 0.70  # of all epochs; a model that says nothing has about 0.69, one that went wrong more
DEEP = "".join(f"    - dense: {{units: {UNITS}, activation: relu}}\n" for _ in range(LAYERS - 1))
MODELS = {
    "wide_deep": f"""\
    - embedding: {{inputs: "C{{1..26}}", output_dim: 10, name: e}}
    - dense: {{inputs: [e, "I{{1..13}}"], units: {UNITS}, activation: relu}}
{DEEP}    - dense: {{units: 1, name: deep}}
""",
    "lr": """\
    - linear: {inputs: "C{1..26}", name: deep}
""",
}
JOB = """\
name: roofline
model:
  input: {{shape: auto}}
  layers:
{layers}    - dense: {{inputs: "I{{1..13}}", units: 1, kernel_initializer: zeros, name: wide}}
    - add: [deep, wide]
    - sigmoid
  loss: binary_crossentropy
""" + DATA + """\
training: {{epochs: 2, batch_size: {batch}{microbatches}}}
"""


def make(options, folder, batch):
    log, made = write_log(options, folder, "log")
    jobs = {}
    for name, microbatches in (("M=2", ", microbatches: 2"), ("default M", "")):
        jobs[name] = os.path.join(folder, f"{name[0]}.yaml")
        with open(jobs[name], "w", encoding="utf-8") as file:
            file.write(JOB.format(layers=MODELS[options.model], log=log, batch=batch, microbatches=microbatches))
    return made, jobs


def train(job):
    summary = summary_of(job, PS, WORKERS, {"checkpoint.every_steps": 0, "checkpoint.every_seconds": 0}, 600)
    if summary["status"] != "done" or summary["restarts"] or not summary["train"]["loss"] < LOSS_MOST:
        raise Failed(f"train: its result is wrong: {summary['status']}, loss {summary['train']['loss']}")
    return summary


def wire_bytes(summary):
    """Of one worker and step, out and in."""
    did = summary["per_worker"][0]
    return int((did["bytes_out"] + did["bytes_in"]) / did["tasks"])


def bounds(options, made, batch, cores, summary):
    """Core-seconds of a step."""
    shape = ["--rows", batch, "--threads", WORKERS, "--units", UNITS, "--layers", LAYERS, "--distinct",
             int(made["distinct"]), "--keys", options.keys, "--milliseconds", options.milliseconds]
    parts = {}
    if options.model == "wide_deep":
        parts["gemm"] = measure(120, "raw_clicks", "--case", "gemm", *shape)["core_s"]
        parts["gather"] = measure(120, "raw_clicks", "--case", "gather", *shape)["core_s"]
    each = wire_bytes(summary) // 2 // 4 * 4
    wire = measure(120, "raw_exchange", "--mode", "pushpull", "--bytes", each, "--window", 1, "--milliseconds",
                   options.milliseconds)
    parts["wire"] = WORKERS * min(cores, 2) / wire["per_s"]
    parts["apply"] = measure(120, "raw_clicks", "--case", "apply", *shape, "--threads", 1)["core_s"]
    return parts


def show(case, cores):
    ours = cores / case["ours"]["median"] * 1e6
    print(f"{case['case']}: {number(case['ours']['median'])} examples/s, {ours:.3g} core-us each; first step after "
          f"{case['first_step_s']:.2f} s ({number(case['bytes'] / 1e6 / case['first_step_s'])} MB/s of text, start of all processes "
          f"included)", flush=True)
    left = ours
    for name, against in case["against"].items():
        cost = cores / against["yardstick"]["median"] * 1e6
        left -= cost
        print(f"  {name:<8}{cost:>8.3g} core-us, {cost / ours:>5.0%}; alone {number(against['yardstick']['median'])} examples/s")
    print(f"  {'rest':<8}{left:>8.3g} core-us, {left / ours:>5.0%}")
    if case["missed"]:
        print(f"  MISSED: {GEMM_WANTED:.2f} of gemm's rate or more was promised, this is {case['against']['gemm']['ratio']:.2f}")
    if case["invalid"]:
        print(f"  INVALID: {case['invalid']}")


def cases(options, folder, cores):
    options.milliseconds = 200 if options.quick else 1000
    batch = WORKERS * EXAMPLES
    made, jobs = make(options, folder, batch)
    for name, job in jobs.items():
        case = {"bench": "roofline", "case": f"{options.model} {name}", "unit": "examples/s", "bytes": made["bytes"],
                "distinct": made["distinct"], "missed": False}
        rates, first, parts = [], [], {}
        try:
            for _ in range(options.rounds):
                summary = train(job)
                rates.append(last_rate(summary, options.rows))
                first.append(summary["first_step_s"])
                for part, core_s in bounds(options, made, batch, cores, summary).items():
                    parts.setdefault(part, []).append(batch * cores / core_s)
            finish(case, rates, parts)
            case["first_step_s"] = sorted(first)[len(first) // 2]
            gemm = case["against"].get("gemm")
            case["missed"] = bool(name == "M=2" and gemm and not case["invalid"] and gemm["ratio"] < GEMM_WANTED)
            show(case, cores)
        except Failed as failure:
            failed(case, failure)
            print(f"{case['case']}: INVALID: {failure}")
        yield case


def main(arguments):
    parser = parser_of("roofline", __doc__)
    parser.add_argument("--model", choices=MODELS, default="wide_deep")
    return run_cases(parser, arguments, cases)
