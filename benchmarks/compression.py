"""gradwire bench compression: steps/s of one sync job with each codec in both directions, beside none, on links of
100 Mbit/s and 1 Gbit/s (the loopback of a network namespace of its own, shaped by tc tbf) and on an unlimited one.

The rounds of a codec and of none are interleaved. Each run is checked: its end, its counts, its loss. Without root, ip
or tc the limited links are skipped, and the report says why. For `auto` the report names its share of the best fixed
choice in the same run.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

from run import BUILD, SEED, Failed, configuration, interleave, print_case, run
from update_modes import Link, link_works

LINKS = {"100mbit": "100mbit", "1gbit": "1gbit", "unlimited": None}
CODECS = ["fp16", "bf16", "int8", "int8_zstd", "zstd", "auto"]
STEPS = {"100mbit": 120, "1gbit": 400, "unlimited": 800}
JOB = os.path.join("examples", "mnist", "mlp.yaml")
BATCH = 64
WANTED = {("int8", "100mbit"): 3.0}  # times none: what is promised


def steps_per_s(options, link, codec):
    folder = tempfile.mkdtemp(prefix="gradwire-bench-")
    sets = {"compression.push": codec, "compression.reply": codec, "compression.allow": "[int8, fp16]", "training.epochs": 1, "training.batch_size": BATCH,
            "data.synthetic_train_rows": STEPS[link] * BATCH, "data.synthetic_eval_rows": 1000, "training.seed": SEED,
            "worker.threads": 1, "ps.threads": 1, "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0}
    command = [os.path.join(BUILD, "launch", "launch"), "train", options.job, "--ps", "1", "--workers",
               str(options.workers), "--output", os.path.join(folder, "job")]
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    try:
        with Link(LINKS[link]) as shaped:
            run([*shaped.prefix(), *command], 300)
        with open(os.path.join(folder, "job", "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
    except (OSError, ValueError) as error:
        raise Failed(f"train: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if summary["status"] != "done" or summary["steps"] != STEPS[link] or not summary["eval"]["loss"] < 2.5:
        raise Failed(f"train: its result is wrong: {summary['status']}, {summary['steps']} steps, {summary['eval']}")
    return summary["examples_per_s"] / BATCH


def case_of(options, link, codec):
    case = {"bench": "compression", "case": f"{codec} {link}", "unit": "steps/s", "workers": options.workers}
    interleave(case, {"ours": lambda: steps_per_s(options, link, codec),
                      "none": lambda: steps_per_s(options, link, "none")}, options.rounds)
    wanted = WANTED.get((codec, link))
    if wanted and not case["invalid"] and case["against"]["none"]["ratio"] < wanted:
        case["missed"] = f"{wanted:g} x none is what was promised"
    return case


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench compression", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=JOB)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--links", nargs="+", choices=list(LINKS), default=list(LINKS))
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write everything measured there")
    options = parser.parse_args(arguments)
    options.milliseconds = options.epochs = 0
    report = {"configuration": configuration(options), "cases": [], "skipped": {}}
    print(", ".join(f"{key} {value}" for key, value in report["configuration"].items()), flush=True)
    for link in options.links:
        why = link_works(LINKS[link]) if LINKS[link] else ""
        if why:
            report["skipped"][link] = why
            print(f"compression {link}: skipped: {why}", flush=True)
            continue
        for codec in options.codecs:
            case = case_of(options, link, codec)
            report["cases"].append(case)
            print_case(case)
            if case.get("missed"):
                print(f"compression {codec} {link}: MISSED: {case['missed']}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
    return 1 if any(case.get("failed") or case.get("missed") for case in report["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
