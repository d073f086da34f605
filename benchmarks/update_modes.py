"""gradwire bench update-modes: trains one job in each update mode, with 1 to 8 workers, with and without a slow worker,
on an unlimited link and on a link of 1 Gbit/s.

A worker's batch has the same number of examples in every mode. In sync, batch_size is this number times the number of
workers. In the other modes, it is this number. The slow worker sleeps after each computation. The sleep is the same in
all modes: 4 times as long as a sync step without a slow worker, with the same link and number of workers. All processes
share the limited link: the loopback of a network namespace, shaped by tc tbf.

The benchmark checks each run: how it ended, its counts and its loss. In sync it also compares the digest with that of
the same run on another link or with a slow worker. A run is INVALID if a check fails. The benchmark writes each result
immediately. To continue an interrupted benchmark, run it again with the same --output.
"""
import argparse
import hashlib
import itertools
import json
import os
import platform
import statistics
import sys
import time

import update_modes_report as report
from lib.cases import QUARTILES_APART_MAX
from lib.job import JOB, summary_of
from lib.link import Link, link_works
from lib.programs import BUILD, EXIT_INPUT, EXIT_INTERRUPTED, ROOT, Failed, measure
from lib.report import blas_core, cpu_model

MODES = ["sync", "backup", "ssp-2", "ssp-8", "async", "geo"]  # backup: sync with one backup worker, from 2 workers on
WORKERS = [1, 2, 4, 8]
LINKS = {"unlimited": None, "1gbit": "1gbit"}
STRAGGLERS = {"none": 0, "one": 4}  # the sleep, in undisturbed steps
GEO_EVERY = 8
RUN_DEADLINE_S = 900


# ---- which runs there are ----

def mode_sets(mode, workers, batch):
    """The keys that make the mode: sync's global batch is every worker's batch, one microbatch each."""
    if mode in ("sync", "backup"):
        sets = {"training.update": "sync", "training.batch_size": batch * workers,
                "training.microbatches": 1 << (workers - 1).bit_length()}
        if mode == "backup":
            sets["sync.replicas_to_aggregate"] = workers - 1
        return sets
    sets = {"training.batch_size": batch, "training.microbatches": 1}
    if mode.startswith("ssp-"):
        return {**sets, "training.update": "ssp", "training.staleness": int(mode[4:])}
    if mode == "geo":
        return {**sets, "training.update": "geo", "training.geo_every": GEO_EVERY}
    return {**sets, "training.update": mode}


def key_of(case):
    return f"{case['mode']} {case['workers']}w straggler={case['straggler']} link={case['link']}"


def cases_of(options):
    """In an order that gives a whole comparison early: few workers and undisturbed runs first."""
    for link, straggler, workers, mode in itertools.product(options.links, options.stragglers, options.workers,
                                                            options.modes):
        if mode == "backup" and workers < 2:
            continue
        yield case_of(options, mode, workers, straggler, link)


def case_of(options, mode, workers, straggler, link):
    return {"mode": mode, "workers": workers, "straggler": straggler, "link": link,
            "sets": mode_sets(mode, workers, options.batch)}


def undisturbed(options, case):
    """The run whose step time says how long the slow worker of this one sleeps."""
    return case_of(options, "sync", case["workers"], "none", case["link"])


def runs_to_do(options, cases, known):
    """The runs without a result, each after the runs that it depends on."""
    todo = {}
    for case in cases:
        for wanted in [undisturbed(options, case)] * (case["straggler"] != "none") + [case]:
            if key_of(wanted) not in known:
                todo.setdefault(key_of(wanted), wanted)
    return list(todo.values())


def sleep_s(options, case, known):
    """0 where there is no slow worker. Failed: the undisturbed run is INVALID."""
    factor = STRAGGLERS[case["straggler"]]
    if not factor:
        return 0
    calm = known[key_of(undisturbed(options, case))]
    if calm.get("invalid"):
        raise Failed(f"no undisturbed step time: {calm['key']}: {calm['invalid']}")
    return factor * options.batch * case["workers"] / calm["examples_per_s"]


# ---- one run ----

# Keys that make a mode, and keys with a flag of the harness: a --set of these would measure something else under its name.
SET_BY = {"training": "the modes", "training.update": "--modes", "training.batch_size": "--batch",
          "training.microbatches": "--batch", "training.staleness": "--modes", "training.geo_every": "--modes",
          "sync": "the modes", "sync.replicas_to_aggregate": "--modes", "training.epochs": "--epochs",
          "training.seed": "--seed"}


class Refused(Exception):
    """The requested comparison cannot be measured: no other run would go better."""


def train(options, case, pause_s):
    keys = {"training.epochs": options.epochs, "training.seed": options.seed, "worker.threads": 1, "ps.threads": 1,
            "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0, **case["sets"]}
    more = [word for given in options.set for word in ("--set", given)]
    if pause_s:
        more += ["--fault", f"worker-{case['workers'] - 1}=sleep:{pause_s:.6f}"]
    with Link(LINKS[case["link"]]) as link:
        return summary_of(options.job, options.ps, case["workers"], keys, RUN_DEADLINE_S, more, link.prefix())


def check(options, case, summary):
    """Why the run counts for nothing; empty where it does."""
    wrong = []
    batches = summary["batches"]
    if summary["status"] != "done" or summary["exit_code"]:
        wrong.append(f"status {summary['status']}, exit code {summary['exit_code']}")
    if summary["restarts"]:
        wrong.append(f"{summary['restarts']} restarts")
    if not batches["dealt"] == batches["applied_min"] == batches["applied_max"] or batches["rejected"] or \
            batches["lost"] or (batches["dropped"] and case["mode"] != "backup"):
        wrong.append(f"batches {batches}")
    seen = [epoch["epoch"] for epoch in summary["history"]]  # async: an epoch that passes in no time is left out
    if seen[-1:] != [options.epochs]:
        wrong.append(f"the epochs {seen} of {options.epochs}")
    loss = summary["eval"].get("loss")
    if loss is None or not loss < 10:
        wrong.append(f"loss {loss}: it diverged")
    return "; ".join(wrong)


def time_to(options, history):
    for epoch in history:
        value = epoch["eval"].get(options.metric)
        if value is not None and value >= options.target:
            return epoch["seconds"]
    return None


def figures(options, case, summary):
    did = summary["per_worker"]
    examples = sum(w["examples"] for w in did)
    others = did[:-1] if STRAGGLERS[case["straggler"]] and len(did) > 1 else did
    busy = sum(w["computed_s"] for w in others)
    idle = sum(w["waited_s"] for w in others)
    staleness = summary.get("staleness") or {}
    return {
        "examples_per_s": summary["examples_per_s"],
        "seconds_to_target": time_to(options, summary["history"]),
        "final": summary["eval"].get(options.metric),
        "idle_share": idle / (idle + busy) if idle + busy > 0 else None,
        "bytes_per_example": sum(w["bytes_out"] + w["bytes_in"] for w in did) / examples,
        "staleness_mean": staleness.get("mean"),
        "staleness_max": staleness.get("max"),
        "dropped": summary["batches"]["dropped"],
        "examples": examples,
        "global_batch": case["sets"]["training.batch_size"] if case["mode"] in ("sync", "backup") else None,
        "worker_batch": options.batch,
        "digest": summary["digest"],
    }


def check_metric(options, summary):
    if summary["eval"] and options.metric not in summary["eval"]:
        raise Refused(f"--metric {options.metric}: the job measures {', '.join(summary['eval'])}")


def measure_case(options, case, known):
    began = time.monotonic()
    result = {"key": key_of(case), **{k: v for k, v in case.items() if k != "sets"}, "sets": case["sets"]}
    runs = []
    try:
        pause_s = result["sleep_s"] = sleep_s(options, case, known)
        for _ in range(options.repeats):
            summary = train(options, case, pause_s)
            result["invalid"] = check(options, case, summary)
            if result["invalid"]:
                break
            check_metric(options, summary)
            runs.append(figures(options, case, summary))
    except Failed as failure:
        result["invalid"], result["refused"] = str(failure), failure.code == EXIT_INPUT
    if runs:
        middle = sorted(runs, key=lambda r: r["examples_per_s"])[len(runs) // 2]
        result.update(middle)
        result["examples_per_s_all"] = [r["examples_per_s"] for r in runs]
    result["took_s"] = time.monotonic() - began
    return result


def usual(results, field):
    """The first of the results whose value most of them have."""
    most = statistics.mode(result[field] for result in results)
    return next(result for result in results if result[field] == most)


def check_digests(results):
    """In sync neither a link nor a slow worker changes a bit."""
    counted = [result for result in results if not result.get("invalid") and result["mode"] == "sync"]
    for workers in {result["workers"] for result in counted}:
        same = [result for result in counted if result["workers"] == workers]
        most = usual(same, "digest")
        for result in same:
            if result["digest"] != most["digest"]:
                result["invalid"] = f"its digest is not that of {most['key']}"


def check_examples(results):
    """Each mode but that with backups learns from every example of every epoch once."""
    counted = [result for result in results if not result.get("invalid") and result["mode"] != "backup"]
    most = usual(counted, "examples") if counted else None
    for result in counted:
        if result["examples"] != most["examples"]:
            result["invalid"] = f"{result['examples']:.0f} examples; {most['key']} has {most['examples']:.0f}"


# ---- continuing after an interruption ----

def build_hash():
    """Names what is measured, committed or not."""
    digest = hashlib.sha256()
    for program in ("launch/launch", "ps/ps", "worker/worker"):
        with open(os.path.join(BUILD, program), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:12]


def fingerprint(options):
    """Results of other settings or programs are not mixed in."""
    with open(os.path.join(ROOT, options.job), "rb") as file:
        text = file.read()
    said = json.dumps([options.batch, options.epochs, options.seed, options.ps, options.repeats, options.set,
                       options.target, options.metric, cpu_model(), blas_core(), GEO_EVERY, build_hash()])
    return hashlib.sha256(text + said.encode()).hexdigest()[:16]


def load(path, mark):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return {}
    last = {line["key"]: line for line in lines if line["mark"] == mark}  # it may say that the one before is INVALID
    return {key: line for key, line in last.items() if not line.get("invalid")}


def append(path, result, mark):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"mark": mark, **result}) + "\n")


def left(todo, took):
    if not took:
        return f"{len(todo)} runs left"
    return f"{len(todo)} runs left, about {len(todo) * statistics.mean(took) / 60:.0f} min"


def line_of(result):
    if result.get("invalid"):
        return f"INVALID: {result['invalid']}"
    reached = result["seconds_to_target"]
    return (f"{result['examples_per_s']:>9,.0f} examples/s, target " +
            (f"after {reached:.1f} s" if reached is not None else "not reached") +
            f", idle {result['idle_share']:.0%}, {result['bytes_per_example']:,.0f} bytes an example")


# ---- the yardstick ----

def bound(options):
    """Examples/s of the default job's arithmetic in one process on these cores; None for other jobs."""
    if options.job != JOB:
        return None
    try:
        return statistics.median(measure(120, "raw_train", "--batch", options.batch, "--steps", 4000)["examples_per_s"]
                                 for _ in range(3))
    except Failed:
        return None


def disturbed(options, bounds):
    """A warning about the machine, by the yardstick before and after; empty: it was quiet, or there is no yardstick."""
    if options.job == JOB and len(bounds) < 2:
        return "the yardstick could not be measured: it is not known whether the machine was quiet"
    apart = (max(bounds) - min(bounds)) / statistics.median(bounds) if bounds else 0
    if apart <= QUARTILES_APART_MAX:
        return ""
    return f"the machine was not quiet: the yardstick before and after is {apart:.0%} apart; measure again (--fresh)"


# ---- the command ----

def words(allowed, cast=str):
    def parse(text):
        chosen = [cast(word) for word in text.split(",")]
        wrong = [str(word) for word in chosen if word not in allowed]
        if wrong:
            raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: not among {', '.join(map(str, allowed))}")
        return chosen
    return parse


def worker_counts(text):
    words_given = text.split(",")
    if not all(word.isdecimal() and 1 <= int(word) <= 64 for word in words_given):
        raise argparse.ArgumentTypeError(f"{text}: numbers of workers are wanted, 1 to 64, with commas")
    return [int(word) for word in words_given]


def from_root(path):
    """A path of the folder that the command was given in, for a process that runs in ROOT."""
    return os.path.relpath(os.path.abspath(path), ROOT)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(EXIT_INPUT, f"{self.prog}: {message}\n")


def options_parse(arguments):
    parser = Parser(prog="gradwire bench update-modes", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="?", metavar="JOB", help=f"default {JOB} of gradwire's directory")
    parser.add_argument("--modes", type=words(MODES), default=MODES, metavar="LIST",
                        help=f"of {','.join(MODES)}; default all")
    parser.add_argument("--workers", type=worker_counts, metavar="LIST", help="default 1,2,4,8")
    parser.add_argument("--links", type=words(list(LINKS)), metavar="LIST",
                        help=f"of {','.join(LINKS)}")
    parser.add_argument("--stragglers", type=words(list(STRAGGLERS)), default=list(STRAGGLERS), metavar="LIST",
                        help=f"of {','.join(STRAGGLERS)}")
    parser.add_argument("--ps", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="examples in a worker's batch, default 64")
    parser.add_argument("--epochs", type=int, metavar="N", help="default 5")
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="runs of each case; the report has the median")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--metric", default="accuracy", metavar="NAME", help="default accuracy")
    parser.add_argument("--target", type=float, default=0.97, metavar="X", help="measure the time until the metric reaches X, default 0.97")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for train")
    parser.add_argument("--output", default=os.path.join("runs", "bench-update-modes"), metavar="DIR")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--compare", metavar="OLD.json", help="show what has become slower since this file")
    parser.add_argument("--quick", action="store_true", help="to see whether it runs: 2 workers, 1 epoch and no limited link, unless you give other values")
    options = parser.parse_args(arguments)
    options.workers = options.workers or ([2] if options.quick else WORKERS)
    options.links = options.links or (["unlimited"] if options.quick else list(LINKS))
    if options.epochs is None:
        options.epochs = 1 if options.quick else 5
    if min(options.ps, options.batch, options.epochs, options.repeats) < 1:
        parser.error("--ps, --batch, --epochs and --repeats are at least 1")
    for given in options.set:
        if by := SET_BY.get(given.partition("=")[0]):
            parser.error(f"--set {given}: that key is set by {by} here")
    if options.job and not os.path.isfile(options.job):
        parser.error(f"{options.job}: there is no such job file")
    if not any(cases_of(options)):
        parser.error("nothing to measure: backup needs 2 workers or more")
    if options.compare:
        try:
            options.old = report.load(options.compare)
        except (OSError, ValueError) as error:
            parser.error(f"--compare {options.compare}: {error}")
    options.job = from_root(options.job) if options.job else JOB
    options.output_given, options.output = options.output, from_root(options.output)
    return options


def drop_links(options):
    """Links that cannot be made here are left out, with the reason."""
    notes = []
    for link in list(options.links):
        why = link_works(LINKS[link])
        if why:
            notes.append(f"link {link} was left out: {why}")
            options.links.remove(link)
    return notes


def main(arguments):
    try:
        return measure_all(options_parse(arguments))
    except Refused as refused:
        print(f"gradwire bench update-modes: {refused}", file=sys.stderr)
        return EXIT_INPUT
    except KeyboardInterrupt:
        print("gradwire bench update-modes: interrupted; run the same line again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED


def measure_all(options):
    os.chdir(ROOT)
    os.makedirs(options.output, exist_ok=True)
    lines, mark = os.path.join(options.output, "results.jsonl"), fingerprint(options)
    if options.fresh and os.path.exists(lines):
        os.remove(lines)
    notes = drop_links(options)
    for note in notes:
        print(note, file=sys.stderr)
    cases = list(cases_of(options))
    if not cases:
        raise Refused("nothing to measure: no link is left")
    known = load(lines, mark)
    todo = runs_to_do(options, cases, known)
    before = sum(key_of(case) in known for case in cases)
    if before:
        print(f"{before} of {len(cases)} runs are known from before", flush=True)
    bounds, took = [bound(options)], []
    while todo:
        case = todo.pop(0)
        result = measure_case(options, case, known)
        if result.pop("refused", False) and not took:
            raise Refused(result["invalid"])
        append(lines, result, mark)
        known[result["key"]] = result
        took.append(result["took_s"])
        print(f"{result['key']:<44}{line_of(result)}; {left(todo, took)}", flush=True)
    bounds.append(bound(options))
    results = [known[key_of(case)] for case in cases]
    believed = [result for result in results if not result.get("invalid")]
    check_digests(results)
    check_examples(results)
    for result in believed:
        if result.get("invalid"):
            append(lines, result, mark)  # so that it is measured again
    bounds = [b for b in bounds if b]
    notes += [note for note in [disturbed(options, bounds)] if note]
    done = {"configuration": {
        "job": options.job, "set": options.set, "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(), "blas_core": blas_core(), "build": build_hash(),
        "measured": time.strftime("%Y-%m-%d", time.gmtime()), "ps": options.ps, "worker_batch": options.batch,
        "epochs": options.epochs, "seed": options.seed, "repeats": options.repeats, "metric": options.metric,
        "target": options.target, "one_process_examples_per_s": bounds, "notes": notes}, "cases": results}
    report.write(done, options.output)
    invalid = [result for result in results if result.get("invalid")]
    for result in invalid:
        print(f"INVALID: {result['key']}: {result['invalid']}", file=sys.stderr)
    print(f"{len(results) - len(invalid)} of {len(results)} runs are valid; report in {options.output_given}")
    if options.compare:
        print(report.compare(options.compare, options.old, done))
    return 1 if invalid else 0
