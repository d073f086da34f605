#!/usr/bin/env python3
"""evaluate.every_steps: evaluations within epochs have a step in the history, the summary and TensorBoard's files; they change
nothing that is learned, and are the same for any number of workers and after kills; in async, ssp and geo there are some, too."""
import json
import math
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN, TrainCase, slow  # noqa: E402
from tables_best_test import JOB as TABLES  # noqa: E402
from tfevents import Run  # noqa: E402

STEPS, EVERY = 40, 7  # of the drawn digits: two epochs of 20 steps
WITHIN = [7, 14, 21, 28, 35]


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class EveryStepsTest(TrainCase):
    KEYS = {**TrainCase.KEYS, "training.batch_size": 100, "training.epochs": 2, "evaluate.every_steps": EVERY}

    def evaluations(self, s):
        """(step, its results) of each."""
        return [(e["step"], e["eval"]) for e in s["evaluations"]]

    def lines(self, out=None):
        return [json.loads(line) for line in ((out or self.out) / "history.jsonl").read_text().splitlines()]

    def test_evaluations_within_epochs_change_nothing_and_are_those_of_any_cluster(self):
        plain = self.train("--workers=1", out=self.tmp / "plain", keys={"evaluate.every_steps": None}).summary()
        self.assertEqual(plain["evaluations"], [])
        one = self.train("--workers=1", out=self.tmp / "one").summary()
        for key in ("digest", "eval", "train"):
            self.assertEqual(one[key], plain[key])
        self.assertEqual([(e["epoch"], e["train"], e["eval"]) for e in one["history"]],
                         [(e["epoch"], e["train"], e["eval"]) for e in plain["history"]])
        self.assertEqual([e["step"] for e in one["evaluations"]], WITHIN)
        self.assertTrue(one["exact"])
        three = self.train("--workers=3", "--ps=2", out=self.tmp / "three").summary()
        self.assertEqual(three["digest"], one["digest"])
        self.assertEqual(self.evaluations(three), self.evaluations(one))
        lines = self.lines(self.tmp / "one")
        self.assertEqual([line["step"] for line in lines], [7, 14, 20, 21, 28, 35, 40])
        self.assertEqual([line.get("epoch") for line in lines], [None, None, 1, None, None, None, 2])
        log = (self.tmp / "one/processes/worker-0.log").read_text()
        self.assertEqual(re.findall(r"step (\d+): eval loss", log), [str(step) for step in WITHIN])

    def test_an_evaluation_is_that_of_the_checkpoint_of_its_step(self):
        keys = {"checkpoint.every_steps": 5, "checkpoint.every_seconds": 0, "checkpoint.keep": 99, "evaluate.every_steps": 1}
        s = self.train("--workers=2", *slow(0.05), keys=keys).summary()
        found = dict(self.evaluations(s))
        within = 0
        for cut in sorted((self.out / "checkpoints").glob("cut-*")):
            done = subprocess.run([MODEL, "evaluate", cut, "--json"], capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            got = json.loads(done.stdout)
            if got["step"] in found:
                self.assertEqual(got["eval"], found[got["step"]])
                within += 1
        self.assertGreater(within, 3)

    def test_the_sums_of_training_are_of_predictions_before_the_rows_are_trained_on(self):
        """All rows are alike, so each step's loss is that of the parameters before it: the first, and those evaluated."""
        (self.tmp / "a.csv").write_text("1,1\n" * 400)
        job = self.tmp / "job.yaml"
        job.write_text("name: a\ndata: {format: csv, train: a.csv, eval: a.csv, columns: [number: x, label: y]}\noptimizer: sgd\n"
                       "model: {input: {shape: auto}, layers: [{dense: {units: 1, kernel_initializer: zeros, activation: sigmoid}}],"
                       " loss: binary_crossentropy, metrics: [calibration]}\ntraining: {batch_size: 50, epochs: 1}\n"
                       "evaluate: {every_steps: 1}\n")
        s = self.train("--workers=2", job=job, keys=dict.fromkeys(self.KEYS)).summary()
        trained, evals = s["history"][0]["train"], [e["eval"] for e in s["evaluations"]]
        self.assertEqual(len(evals), 7)
        for name, first in (("loss", math.log(2)), ("calibration", 0.5)):
            self.assertAlmostEqual(trained[name], (first + sum(e[name] for e in evals)) / 8, 6)

    def test_a_multiple_at_an_epochs_end_is_evaluated_once(self):
        s = self.train("--workers=2", keys={"evaluate.every_steps": 10}).summary()
        self.assertEqual([e["step"] for e in s["evaluations"]], [10, 30])
        self.assertEqual([line["step"] for line in self.lines()], [10, 20, 30, 40])

    def test_kills_and_a_resume_leave_the_same_evaluations(self):
        keys = {"checkpoint.every_steps": 5, "checkpoint.every_seconds": 0}
        expected = self.train("--workers=1", out=self.tmp / "one", keys=keys).summary()
        job = self.launch("--workers=2", *slow(0.05), keys=keys)
        job.until_cut(2)
        job.kill("ps-0")
        job.until_cut(4)
        for name in [name for name in job.pids() if name != "launcher-0"] + ["launcher-0"]:
            job.kill(name)
        job.process.wait(DEADLINE_S)
        self.lock_is_free()
        s = self.train("--workers=3", keys=keys).summary()
        self.assertEqual(s["digest"], expected["digest"])
        self.assertEqual(self.evaluations(s), self.evaluations(expected))

    def test_a_chief_that_is_killed_evaluates_each_step_once(self):
        expected = self.train("--workers=1", out=self.tmp / "one").summary()
        job = self.launch("--workers=2", *slow(0.05))
        for step in (7, 21):
            job.until(f"step {step} is noted", lambda: f'"step":{step},' in self.history_text())
            job.kill("worker-0")
        s = job.wait().summary()
        self.assertEqual(s["digest"], expected["digest"])
        steps = [e["step"] for e in s["evaluations"]]
        self.assertEqual(sorted(set(steps)), steps)
        self.assertTrue({7, 21} <= set(steps) <= set(WITHIN), steps)
        shown = set(Run(self.out / "logs/eval").scalars["evaluation_loss_vs_iterations"])
        self.assertTrue({20, 40} <= shown <= {*WITHIN, 20, 40}, shown)  # a kill can lose a point that is not written yet
        known = dict(self.evaluations(expected))
        self.assertTrue(all(known[step] == found for step, found in self.evaluations(s)))

    def history_text(self):
        path = self.out / "history.jsonl"
        return path.read_text() if path.exists() else ""

    def test_tables_and_averages_are_evaluated_within_epochs(self):
        job = self.tmp / "job.yaml"
        job.write_text(TABLES)
        keys = {**dict.fromkeys(self.KEYS), "evaluate.every_steps": 4, "training.epochs": 2}
        plain = self.train("--workers=1", out=self.tmp / "plain", job=job, keys={**keys, "evaluate.every_steps": None}).summary()
        one = self.train("--workers=1", out=self.tmp / "tables", job=job, keys=keys).summary()
        two = self.train("--workers=2", out=self.tmp / "two", job=job, keys=keys).summary()
        self.assertEqual((one["digest"], one["history"][-1]["eval"]), (plain["digest"], plain["history"][-1]["eval"]))
        self.assertEqual(self.evaluations(one), self.evaluations(two))
        self.assertEqual([step for step, _ in self.evaluations(one)], [4, 8, 12, 16, 20, 24, 28])
        averaged = {"optimizer": "{sgd: {use_ema: true, ema_momentum: 0.9}}"}
        ema = [self.train(f"--workers={n}", out=self.tmp / f"ema-{n}", keys=averaged).summary() for n in (1, 2)]
        self.assertEqual([e["step"] for e in ema[0]["evaluations"]], WITHIN)
        self.assertEqual(self.evaluations(ema[0]), self.evaluations(ema[1]))

    def test_other_modes_evaluate_within_epochs_too(self):
        for update in ("async", "ssp", "geo"):
            s = self.train("--workers=2", *slow(0.01), out=self.tmp / update, keys={"training.update": update}).summary()
            steps = [e["step"] for e in s["evaluations"]]
            self.assertEqual(sorted(set(steps)), steps, update)
            self.assertTrue(steps and steps[0] >= EVERY and steps[-1] < s["steps"], (update, steps, s["steps"]))
            self.assertLessEqual(len(steps), s["steps"] // EVERY, update)

    def test_best_and_early_stopping_stay_with_epochs(self):
        keys = {"training.monitor": "loss", "training.epochs": 3}
        runs = [self.train("--workers=2", out=self.tmp / str(every), keys={**keys, "evaluate.every_steps": every})
                for every in (0, 3)]
        best = [json.loads((job.out / "best/manifest.json").read_text()) for job in runs]
        self.assertEqual(best[0]["step"], best[1]["step"])
        self.assertEqual(best[0]["digest"], best[1]["digest"])

    def test_the_page_and_tensorboard_have_them_by_step(self):
        job = self.launch("--workers=1", *slow(0.1, 1))
        url = job.until("the page is there", lambda: re.search(r"http://[0-9.:]+/", job.stderr()))[0]
        job.until_said("worker-0", "step 14: eval loss")

        def curve():
            with urllib.request.urlopen(url + "status", timeout=DEADLINE_S) as got:
                return json.load(got)["whole_job"]["evaluator_curve"]
        job.until("the page has two evaluations", lambda: [point[0] for point in curve()[:2]] == [7, 14])
        with urllib.request.urlopen(url + "metrics", timeout=DEADLINE_S) as got:
            self.assertRegex(got.read().decode(), r"gradwire_job_eval_step (14|20|21)\b")
        job.wait()
        points = Run(self.out / "logs/eval").scalars
        self.assertEqual(sorted(points["evaluation_loss_vs_iterations"]), [7, 14, 20, 21, 28, 35, 40])
        self.assertEqual(sorted(points["epoch_loss"]), [20, 40])

    def test_what_cannot_be_evaluated_is_refused(self):
        csv = self.tmp / "a.csv"
        csv.write_text("1,2\n" * 10)
        job = self.tmp / "job.yaml"
        job.write_text(f"name: a\ndata: {{format: csv, train: {csv}, columns: [number: x, label: y]}}\noptimizer: sgd\n"
                       "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\nevaluate: {every_steps: 5}\n")
        none = dict.fromkeys(self.KEYS)
        self.assertIn("evaluate.every_steps: there is nothing to evaluate on", self.train(job=job, keys=none, code=2).logs())
        self.assertIn("evaluate.every_steps: the chief evaluates, and with an evaluator it does not",
                      self.train("--evaluator", code=2).logs())


if __name__ == "__main__":
    unittest.main()
