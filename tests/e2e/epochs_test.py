#!/usr/bin/env python3
"""An epoch's loss and metrics are of each of its batches once, whoever was killed in the middle of it: the terminal,
TensorBoard and summary.json show those of an undisturbed job, to the bit in sync."""
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import TrainCase, slow  # noqa: E402
from tfevents import Run  # noqa: E402
from watch import metrics, places  # noqa: E402

EPOCHS, EPOCH_STEPS, CUT_STEPS = 2, 50, 15
KEYS = {"data.synthetic_train_rows": 64 * EPOCH_STEPS, "training.epochs": EPOCHS, "checkpoint.every_steps": CUT_STEPS,
        "checkpoint.every_seconds": 0}
SLOW = slow(0.04)
LINE = re.compile(r"epoch (\d+)/\d+: (loss \S+ accuracy \S+), eval (loss \S+ accuracy \S+)")


class EpochsTest(TrainCase):
    def shown(self, job):
        """{epoch: [what each line about it says]} of the chief's log, {step: value} of TensorBoard's curves, and the last
        epoch of the summary."""
        lines = {}
        for epoch, *words in LINE.findall(job.log("worker-0")):
            lines.setdefault(int(epoch), []).append(words)
        train = Run(job.out / "logs/train")
        self.assertEqual(train.twice, [])
        curves = {tag: train.scalars[tag] for tag in ("epoch_loss", "epoch_accuracy")}
        return lines, curves, job.summary()["train"]

    def check(self, job):
        """As the undisturbed job showed them; an epoch that was rolled back is told again, with the same."""
        lines, curves, last = self.shown(job)
        self.assertEqual({epoch: said[-1] for epoch, said in lines.items()}, self.lines, job.logs())
        self.assertEqual(curves, self.curves, job.logs())
        self.assertEqual(last, self.last)

    def want(self):
        calm = self.train("--ps=1", "--workers=1", keys=KEYS, out=self.tmp / "calm")
        lines, self.curves, self.last = self.shown(calm)
        self.lines = {epoch: said[-1] for epoch, said in lines.items()}
        self.assertEqual((set(self.lines), len(self.curves["epoch_loss"])), (set(range(1, EPOCHS + 1)), EPOCHS))

    def until_behind_a_cut(self, job):
        """Waits until epoch 1 has come some steps further than a cut, and is not over at once."""
        def so():
            at = places(job.out).get("worker-0")
            chief = at and metrics(at)
            step = chief and chief.get("gradwire_job_steps")
            return step and job.cuts()[-1:] > [0] and CUT_STEPS + 3 <= step <= EPOCH_STEPS - 5
        job.until("steps were made behind a cut", so)

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


if __name__ == "__main__":
    unittest.main()
