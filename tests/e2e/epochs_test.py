#!/usr/bin/env python3
# runs with others
"""An epoch's loss and metrics are of each of its batches once, whoever was killed in the middle of it: the terminal,
TensorBoard and summary.json show those of an undisturbed job, to the bit in sync."""
import json
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import TrainCase, notes, slow  # noqa: E402
from tfevents import Run  # noqa: E402
from watch import metrics, places, text  # noqa: E402

EPOCHS, EPOCH_STEPS, CUT_STEPS = 2, 50, 15
KEYS = {"data.synthetic_train_rows": 64 * EPOCH_STEPS, "training.epochs": EPOCHS, "checkpoint.every_steps": CUT_STEPS,
        "checkpoint.every_seconds": 0}
SLOW = slow(0.04)
LINE = re.compile(r"epoch (\d+)/\d+: (loss \S+ accuracy \S+), eval (loss \S+ accuracy \S+)")


class EpochsTest(TrainCase):
    def shown(self, job):
        """{epoch: [what each line about it says]} of the chief's log, {step: value} of TensorBoard's curves, and what the
        summary has of epochs."""
        lines = {}
        for epoch, *words in LINE.findall(job.log("worker-0")):
            lines.setdefault(int(epoch), []).append(words)
        train = Run(job.out / "logs/train")
        self.assertEqual(train.twice, [])
        curves = {tag: train.scalars[tag] for tag in ("epoch_loss", "epoch_accuracy")}
        summary = job.summary()
        history = summary["history"]
        seconds = [0] + [epoch.pop("seconds") for epoch in history] + [summary["seconds"] + 0.01]
        self.assertEqual(seconds, sorted(seconds))
        self.assertEqual([json.loads(line)["epoch"] for line in (job.out / "history.jsonl").read_text().splitlines()],
                         [epoch["epoch"] for epoch in history])
        return lines, curves, (summary["train"], summary["eval"], history)

    def check(self, job):
        """As the undisturbed job showed them; an epoch that was rolled back is reported again, with the same numbers."""
        lines, curves, last = self.shown(job)
        self.assertEqual({epoch: said[-1] for epoch, said in lines.items()}, self.lines, job.logs())
        self.assertEqual(curves, self.curves, job.logs())
        self.assertEqual(last, self.last)

    def want(self):
        calm = self.train("--ps=1", "--workers=1", keys=KEYS, out=self.tmp / "calm")
        lines, self.curves, self.last = self.shown(calm)
        self.lines = {epoch: said[-1] for epoch, said in lines.items()}
        self.assertEqual((set(self.lines), len(self.curves["epoch_loss"])), (set(range(1, EPOCHS + 1)), EPOCHS))

    def until_step(self, job, first, last, cut=1):
        """Waits until this cut is published and the job is at one of these steps."""
        def so():
            at = places(job.out).get("worker-0")
            chief = at and metrics(at)
            step = chief and chief.get("gradwire_job_steps")
            return step and job.cuts()[-1:] >= [cut] and first <= step <= last
        job.until(f"a step from {first} to {last} is made behind cut {cut}", so)

    def until_behind_a_cut(self, job):
        """Waits until epoch 1 has come some steps further than a cut, and does not end immediately after."""
        self.until_step(job, CUT_STEPS + 3, EPOCH_STEPS - 5)

    def test_a_kill_in_mid_epoch_changes_no_number(self):
        self.want()
        for name in ("ps-0", "ps-1", "worker-0"):
            with self.subTest(name):
                job = self.launch("--ps=2", "--workers=2", *SLOW, keys=KEYS, out=self.tmp / name)
                self.until_behind_a_cut(job)
                job.kill(name)
                self.check(job.wait())
                self.assertEqual(job.summary()["restarts"], 1)

    def test_a_resume_in_mid_epoch_changes_no_number(self):
        self.want()
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=KEYS)
        self.until_behind_a_cut(job)
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.check(self.train("--ps=1", "--workers=1", keys=KEYS))

    def curves_of(self, job):
        """Steps and epochs that the page's curves have."""
        whole = job.until("the chief answers", lambda: (at := places(job.out).get("worker-0")) and json.loads(
            text(at, "/status") or "{}").get("whole_job"))
        return [[point[0] for point in whole[curve]] for curve in ("curve", "epoch_curve")]

    def test_the_history_and_the_page_keep_the_epochs_of_the_chiefs_before(self):
        self.want()
        job = self.launch("--ps=2", "--workers=2", *slow(0.06), keys=KEYS)
        self.until_step(job, EPOCH_STEPS + 2, 2 * EPOCH_STEPS - 25)
        pid = job.kill("worker-0")
        job.until_pid("worker-0", other_than=pid)
        steps, epochs = job.until("the page has the epoch, and trains on", lambda: len((c := self.curves_of(job))[0]) > 1 and c)
        self.assertEqual((steps[0], epochs), (EPOCH_STEPS, [1]))
        job.signal(signal.SIGTERM)
        self.assertEqual([e["epoch"] for e in job.wait(143).summary()["history"]], [1])
        again = self.train("--ps=1", "--workers=1", keys=KEYS)
        self.assertNotIn("epoch 1/2 done", again.stderr())
        self.check(again)
        said = notes(self.out / "model/weights.safetensors")
        self.assertEqual(said, {"job": "mnist-mlp", "step": str(EPOCHS * EPOCH_STEPS), "digest": again.summary()["digest"]})
        self.check(self.train("--ps=1", "--workers=1", keys=KEYS))  # nothing was trained
        self.assertEqual(notes(self.out / "model/weights.safetensors"), said)
        more = self.train("--ps=1", "--workers=1", keys={**KEYS, "training.epochs": EPOCHS + 1})
        self.assertNotIn("epoch 2/3 done", more.stderr())
        self.assertEqual([{k: v for k, v in e.items() if k != "seconds"} for e in more.summary()["history"][:2]], self.last[2])
        self.assertEqual(len((self.out / "history.jsonl").read_text().splitlines()), EPOCHS + 1)

    def test_an_epoch_that_is_rolled_back_leaves_the_history_until_it_is_made_again(self):
        keys = {**KEYS, "checkpoint.every_steps": EPOCH_STEPS - 8}  # of cut 1 these steps are made again, before the epoch ends
        job = self.launch("--ps=1", "--workers=2", *slow(0.06), keys=keys)
        self.until_step(job, EPOCH_STEPS + 2, 2 * EPOCH_STEPS - 22)  # and cut 2 is some steps away
        first = (self.out / "history.jsonl").read_text()
        job.kill("ps-0")
        job.until("the file lacks the epoch", lambda: (self.out / "history.jsonl").read_text() == "")
        job.wait()
        second = (self.out / "history.jsonl").read_text().splitlines(keepends=True)
        def words(line):
            return {k: v for k, v in json.loads(line).items() if k not in ("seconds", "crc")}
        self.assertEqual((len(second), words(second[0])), (EPOCHS, words(first)))
        self.assertEqual(job.log("worker-0").count("epoch 1/2: "), 2)  # and it is reported again


if __name__ == "__main__":
    unittest.main()
