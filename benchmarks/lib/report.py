"""The output: the machine, figures, files."""
import json
import os
import platform

from lib.job import SEED
from lib.programs import BUILD, ROOT, Failed, measure


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def blas_core():
    try:
        return measure(60, "raw_train", "--steps", 100)["blas_core"]
    except Failed:
        return "unknown"


def configuration(rounds, **lengths):
    return {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "blas_core": blas_core(), "rounds": rounds, **lengths, "seed": SEED, "build": os.path.relpath(BUILD, ROOT)}


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def print_configuration(report):
    print(", ".join(f"{key} {value}" for key, value in report["configuration"].items()), flush=True)


def write_json(path, report):
    """A line for each case."""
    head = json.dumps({key: value for key, value in report.items() if key != "cases"})
    cases = ",\n".join(json.dumps(case) for case in report["cases"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{head[:-1]}, "cases": [\n{cases}\n]}}\n')
