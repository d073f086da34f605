"""Whole jobs by the launcher."""
import json
import os
import shutil
import tempfile
from contextlib import nullcontext

from lib.programs import BUILD, Failed, run

JOB = os.path.join("examples", "mnist", "mlp.yaml")
CNN = os.path.join("examples", "mnist", "cnn.yaml")
SEED = 1


def summary_of(job, ps, workers, keys, deadline_s, more=(), prefix=(), beside=nullcontext):
    """Train in a folder of its own; returns the summary. `more`: flags. `prefix`: words before the command. `beside`: makes, of
    the folder, a context around the run."""
    folder = tempfile.mkdtemp(prefix="gradwire-bench-")
    command = [*prefix, os.path.join(BUILD, "launch", "launch"), "train", job, "--ps", str(ps), "--workers", str(workers),
               "--output", os.path.join(folder, "job")]
    for key, value in keys.items():
        command += ["--set", f"{key}={value}"]
    try:
        with beside(os.path.join(folder, "job")):
            run([*command, *more], deadline_s)
        with open(os.path.join(folder, "job", "summary.json"), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Failed(f"train: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def last_rate(summary, rows):
    """Of the last epoch: no row is made in it, and nothing is read. Of the last ones, where async has passed over some."""
    before, last = summary["history"][-2:]
    return rows * (last["epoch"] - before["epoch"]) / (last["seconds"] - before["seconds"])


def check_summary(summary, update):
    batches = summary["batches"]
    wrong = []
    if summary["status"] != "done" or summary["exit_code"] != 0:
        wrong.append(f"status {summary['status']}, exit code {summary['exit_code']}")
    if summary["restarts"]:
        wrong.append(f"{summary['restarts']} restarts")
    if update == "async" and not batches["dealt"] == batches["applied_min"] == batches["applied_max"]:
        wrong.append(f"batches {batches}")
    if not summary["eval"]["accuracy"] > 0.7:  # after few epochs; guessing gives 0.1
        wrong.append(f"accuracy {summary['eval']['accuracy']}")
    if wrong:
        raise Failed("train: its result is wrong: " + "; ".join(wrong))


def train_once(job, update, batch, ps, workers, microbatches, epochs):
    """Its examples/s."""
    keys = {"training.update": update, "training.batch_size": batch, "training.epochs": epochs, "training.seed": SEED}
    if microbatches:
        keys["training.microbatches"] = microbatches
    summary = summary_of(job, ps, workers, keys, 180)
    check_summary(summary, update)
    return summary["examples_per_s"]
