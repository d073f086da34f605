"""gradwire bench compression: the steps per second of one sync job with each codec in both directions, on links of
100 Mbit/s and 1 Gbit/s (the loopback of a network namespace, shaped by tc tbf) and on an unlimited link.

The benchmark measures all codecs of a link in turn, in an order that changes from round to round. It reports medians
and quartiles, and the ratio to the codec none. The yardstick of auto is the best single codec in the same rounds. auto
must reach 0.9 of it.

A case is INVALID if its yardstick's quartiles are more than 20 % apart, or if the end, the counts or the loss of a run
are wrong. Without root, ip or tc, the benchmark skips the limited links, and the report says why.

The case top_k uses top_k for pushes (1 % of the elements, and the rest later) and int8 for replies. auto cannot choose
top_k.
"""
import argparse
import os
import statistics
import time

from lib.cases import QUARTILES_APART_MAX, summarize
from lib.job import JOB, SEED, summary_of
from lib.link import Link, link_works
from lib.programs import Failed
from lib.report import configuration, number, print_configuration, write_json

LINKS = {"100mbit": "100mbit", "1gbit": "1gbit", "unlimited": None}
CODECS = ["none", "fp16", "bf16", "int8", "int8_zstd", "zstd", "auto", "top_k"]
OF_AUTO = ["none", "fp16", "bf16", "int8", "int8_zstd", "zstd"]  # the codecs that `auto` is compared with, if measured
STEPS = {"100mbit": 160, "1gbit": 2000, "unlimited": 3000}  # a few seconds of the faster ones: `auto` tries once a job
QUICK_STEPS = {"100mbit": 60, "1gbit": 150, "unlimited": 300}
ROUNDS_MOST = {"100mbit": 3}  # there the link alone decides: the quartiles are 1 % apart
BATCH = 64
WANTED = {("int8", "100mbit"): 3.0}  # times none: what is promised
WANTED_AUTO = 0.9


# ---- one run ----

def keys_of(codec, steps):
    keys = {"compression.push": codec, "compression.reply": "int8" if codec == "top_k" else codec,
            "optimizer": "sgd", "training.learning_rate": 0.05, "training.epochs": 1, "training.batch_size": BATCH,
            "data.synthetic_train_rows": steps * BATCH, "data.synthetic_eval_rows": 1000, "training.seed": SEED,
            "worker.threads": 1, "ps.threads": 1, "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0}
    if codec == "auto":
        keys["compression.allow"] = "[fp16, bf16, int8, int8_zstd]"
    return keys


def job_once(options, link, codec):
    """Its summary."""
    steps = options.steps[link]
    with Link(LINKS[link]) as shaped:
        summary = summary_of(options.job, 1, options.workers, keys_of(codec, steps), 300, prefix=shaped.prefix())
    if summary["status"] != "done" or summary["steps"] != steps or not summary["eval"]["loss"] < 2.5:
        raise Failed(f"train: its result is wrong: {summary['status']}, {summary['steps']} steps, {summary['eval']}")
    return summary


# ---- a link ----

def costs(summaries):
    """Of each direction: the ratio and error, and what coding costs a step on all sides; medians."""
    def median(of):
        values = [value for value in (of(s) for s in summaries) if value is not None]
        return statistics.median(values) if values else None

    out = {}
    for way in ("push", "reply"):
        out[way] = {"ratio": median(lambda s: s["compression"][way]["ratio"]),
                    "error": median(lambda s: s["compression"][way]["error"]),
                    "encode_ms_a_step": median(lambda s: 1e3 * s["compression"][way]["encode_s"] / s["steps"]),
                    "decode_ms_a_step": median(lambda s: 1e3 * s["compression"][way]["decode_s"] / s["steps"])}
    out["mb_per_s"] = median(lambda s: 1e-6 * sum(w["bytes_out"] + w["bytes_in"] for w in s["per_worker"])
                             * s["examples_per_s"] / BATCH / s["steps"])
    return out


def apart(case):
    return (case["q3"] - case["q1"]) / case["median"]


def judge(case, yardstick):
    name, of = yardstick["codec"], yardstick
    if apart(of) > QUARTILES_APART_MAX:
        return f"{name}'s quartiles are {apart(of):.0%} apart"
    return ""


def compare(cases):
    """Each case with its yardstick: none; for auto: the best single codec."""
    valid = {case["codec"]: case for case in cases if not case["invalid"]}
    none = valid.get("none")
    fixed = [valid[codec] for codec in OF_AUTO if codec in valid]
    for case in valid.values():
        if none:
            case["times_none"] = case["median"] / none["median"]
            case["invalid"] = judge(case, none)
        wanted = WANTED.get((case["codec"], case["link"]))
        if wanted and none and not case["invalid"] and case["times_none"] < wanted:
            case["missed"] = f"{wanted:g} x none is what was promised"
    auto = valid.get("auto")
    if not auto or not fixed:
        return
    best = max(fixed, key=lambda case: case["median"])
    pairs = [a / b for a, b in zip(auto["values"], best["values"])]
    auto["best"] = {"codec": best["codec"], "share": auto["median"] / best["median"],
                    "pairs": summarize(pairs) if len(pairs) > 1 else None}
    auto["invalid"] = auto["invalid"] or judge(auto, best)
    if not auto["invalid"] and auto["best"]["share"] < WANTED_AUTO:
        auto["missed"] = f"{WANTED_AUTO:g} of the rate of the best single codec is what was promised"


def measure_link(options, link):
    summaries, failures = {codec: [] for codec in options.codecs}, {}
    for number_of in range(min(options.rounds, ROUNDS_MOST.get(link, options.rounds))):
        for codec in options.codecs if number_of % 2 == 0 else reversed(options.codecs):
            if codec in failures:
                continue
            try:
                summaries[codec].append(job_once(options, link, codec))
            except Failed as failure:
                failures[codec] = str(failure)
    cases = []
    for codec in options.codecs:
        case = {"link": link, "codec": codec, "steps": options.steps[link], "unit": "steps/s",
                "invalid": failures.get(codec, ""), "failed": codec in failures}
        if codec not in failures:
            values = [s["examples_per_s"] / BATCH for s in summaries[codec]]
            case |= summarize(values) if len(values) > 1 else dict.fromkeys(("median", "q1", "q3"), values[0]) | {
                "values": values}
            case |= costs(summaries[codec])
        cases.append(case)
    compare(cases)
    return cases


# ---- the report ----

def shown(value, form):
    return "-" if value is None else format(value, form)


def row(case):
    if case["failed"]:
        return [case["codec"], f"INVALID: {case['invalid']}"] + [""] * 7
    push, reply = case["push"], case["reply"]
    coding = sum(way["encode_ms_a_step"] + way["decode_ms_a_step"] for way in (push, reply))
    cells = [case["codec"], f"{number(case['median'])} ({number(case['q1'])} to {number(case['q3'])})",
             shown(case.get("times_none"), ".2f"), f"{case['mb_per_s']:.1f}", shown(push["ratio"], ".2f"),
             shown(push["error"], ".4f"), shown(reply["ratio"], ".2f"), shown(reply["error"], ".4f"), f"{coding:.2f}"]
    return cells


def verdicts(cases):
    for case in cases:
        if "best" in case:
            pairs = case["best"]["pairs"]
            paired = f"; ratio in the same round {pairs['median']:.2f} ({pairs['q1']:.2f} to {pairs['q3']:.2f})" if pairs else ""
            yield f"auto: {case['best']['share']:.2f} of the rate of the best single codec, {case['best']['codec']}{paired}"
        if case["invalid"]:
            yield f"{case['codec']}: INVALID: {case['invalid']}"
        if case.get("missed"):
            yield f"{case['codec']}: MISSED: {case['missed']}"


HEAD = ["codec", "steps/s (quartiles)", "x none", "MB/s", "push ratio", "push error", "reply ratio", "reply error",
        "coding, ms a step"]


def markdown(report):
    lines = ["# Codecs compared", "", "`./gradwire bench compression`: " + ", ".join(
        f"{key} {value}" for key, value in report["configuration"].items()) + ".", ""]
    lines += ["The benchmark trains one sync job with 1 ps. All processes run on one machine and share the link. The rates are "
              "medians of rounds in which the codecs take turns.", "",
              "- **x none**: the rate divided by the rate of the codec none.",
              "- **ratio**: the bytes without a codec (float32) divided by the bytes that were sent.",
              "- **error**: the relative error (L2) of the values. With top_k, the push error is the error of single pushes, "
              "although the worker sends the withheld values later.",
              "- **coding**: the time that all processes use to encode and decode in one step.", ""]
    for link in dict.fromkeys(case["link"] for case in report["cases"]):
        cases = [case for case in report["cases"] if case["link"] == link]
        lines += [f"## {link}, {cases[0]['steps']} steps a run", "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(row(case)) + " |" for case in cases]
        lines += [""] + [f"- {line}" for line in verdicts(cases)] + [""]
    lines += [f"- {link}: skipped: {why}" for link, why in report["skipped"].items()]
    return "\n".join(lines).rstrip() + "\n"


def print_link(cases):
    for case in cases:
        print(f"compression {case['link']:<10}" + "  ".join(f"{cell:<11}" for cell in row(case)), flush=True)
    for line in verdicts(cases):
        print(f"compression {cases[0]['link']:<10}{line}", flush=True)


def write(options, report):
    os.makedirs(options.output, exist_ok=True)
    write_json(os.path.join(options.output, "compression.json"), report)
    with open(os.path.join(options.output, "README.md"), "w", encoding="utf-8") as file:
        file.write(markdown(report))


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench compression", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=JOB)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--links", nargs="+", choices=list(LINKS), default=list(LINKS))
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--rounds", type=int, help="default 9")
    parser.add_argument("--quick", action="store_true", help="3 short rounds, to see whether it runs")
    parser.add_argument("--output", metavar="DIR", help="write README.md and compression.json to DIR")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (3 if options.quick else 9)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    options.steps = QUICK_STEPS if options.quick else STEPS
    began = time.monotonic()
    report = {"configuration": {**configuration(options.rounds), "workers": options.workers, "batch": BATCH, "job": options.job},
              "cases": [], "skipped": {}}
    print_configuration(report)
    for link in options.links:
        why = link_works(LINKS[link]) if LINKS[link] else ""
        if why:
            report["skipped"][link] = why
            print(f"compression {link}: skipped: {why}", flush=True)
            continue
        cases = measure_link(options, link)
        report["cases"] += cases
        print_link(cases)
        report["seconds"] = round(time.monotonic() - began)
        if options.output:
            write(options, report)
    if options.output:
        write(options, report)
    print(f"{report.get('seconds', 0)} s")
    return 1 if any(case["failed"] for case in report["cases"]) else 0
