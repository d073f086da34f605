#!/usr/bin/env python3
# runs with others
"""metrics.progressive: the auc of training is that of the rows as they were predicted before they were trained on. It is the same for
any cluster, and after kills, and its error is a bound of the difference to the exact one."""
import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, TSAN, TrainCase, slow  # noqa: E402
from tfevents import Run  # noqa: E402

CLICKS = """name: clicks
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: "C{1..3}", name: wide}
    - dense: {inputs: "I{1..13}", units: 1, name: numbers}
    - add: [wide, numbers]
    - sigmoid
  loss: binary_crossentropy
  metrics: [auc, logloss]
data:
  format: synthetic
  synthetic: clicks
  synthetic_fields: 3
  synthetic_keys: 1000
  synthetic_train_rows: 8000
  synthetic_eval_rows: 1000
  columns:
    - label: clicked
    - number: {name: "I{1..13}", scale: standard, missing: {value: 0}}
    - key: {name: "C{1..3}"}
optimizer: {ftrl: {initial_accumulator_value: 0.000001}}
training: {epochs: 2, batch_size: 200, learning_rate: 0.1}
metrics: {progressive: true}
checkpoint: {every_steps: 5, every_seconds: 0}
"""
# With this rate no weight changes, so all predictions are those of the last weights.
STILL = {"optimizer": "sgd", "training.learning_rate": 1e-30}


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class ProgressiveTest(TrainCase):
    KEYS = {}

    def job(self, text):
        path = self.tmp / "job.yaml"
        path.write_text(text)
        return path

    def aucs(self, s):
        return [(e["train"]["auc"], e["train"]["auc_error"]) for e in s["history"]]

    def rows(self):
        draw = random.Random(7)
        lines = []
        for _ in range(3000):
            x = [draw.gauss(0, 1) for _ in range(3)]
            lines.append(",".join(f"{v:.6f}" for v in x) + f",{int(draw.random() < 0.2 + 0.1 * (x[0] > 0))}\n")
        (self.tmp / "a.csv").write_text("".join(lines))
        return self.job("name: a\ndata: {format: csv, train: a.csv, eval: a.csv, columns: [number: a, number: b, number: c, label: y]}\n"
                        "model: {input: {shape: auto}, layers: [{dense: {units: 1, activation: sigmoid}}],"
                        " loss: binary_crossentropy, metrics: [auc, calibration]}\n"
                        "optimizer: sgd\ntraining: {batch_size: 96, epochs: 2}\nmetrics: {progressive: true}\n")

    def test_the_auc_is_that_of_all_rows_within_its_error(self):
        job = self.rows()
        for update in ("sync", "async", "ssp"):
            s = self.train("--workers=2", *slow(0.01), out=self.tmp / update, job=job, keys={**STILL, "training.update": update}).summary()
            for e in s["history"]:
                trained = e["train"]
                self.assertGreater(0.02, trained["auc_error"])
                self.assertGreater(trained["auc_error"], 0)
                self.assertLessEqual(abs(trained["auc"] - s["eval"]["auc"]), trained["auc_error"] + 1e-9, update)
                self.assertNotIn("auc_error", e["eval"])

    def test_any_cluster_has_the_same_auc_and_it_changes_nothing(self):
        job = self.job(CLICKS)
        plain = self.train("--workers=1", out=self.tmp / "plain", job=job, keys={"metrics.progressive": "false"}).summary()
        self.assertIsNone(plain["train"]["auc"])
        one = self.train("--workers=1", out=self.tmp / "one", job=job).summary()
        for key in ("digest", "eval"):
            self.assertEqual(one[key], plain[key])
        self.assertEqual(one["train"]["loss"], plain["train"]["loss"])
        self.assertGreater(self.aucs(one)[1][0], self.aucs(one)[0][0])
        self.assertEqual(self.aucs(one)[1], (one["train"]["auc"], one["train"]["auc_error"]))
        for name, flags in (("four", ("--workers=4", "--ps=2")), ("chief", ("--workers=1", "--chief", "--ps=3"))):
            s = self.train(*flags, out=self.tmp / name, job=job).summary()
            self.assertEqual((s["digest"], self.aucs(s)), (one["digest"], self.aucs(one)))
        clipped = {"training.clip_norm": 5, "training.nan_guard": "skip"}
        s = [self.train(f"--workers={n}", out=self.tmp / f"clip-{n}", job=job, keys=clipped).summary() for n in (1, 3)]
        self.assertEqual(self.aucs(s[0]), self.aucs(s[1]))
        shown = Run(self.tmp / "one/logs/train").scalars
        self.assertEqual(len(shown["epoch_auc"]), 2, sorted(shown))
        self.assertFalse([name for name in shown if name.startswith("auc") or "evaluation" in name], sorted(shown))

    def test_kills_and_a_resume_leave_the_same_auc(self):
        job_file = self.job(CLICKS)
        expected = self.train("--workers=1", out=self.tmp / "one", job=job_file).summary()
        job = self.launch("--workers=2", "--ps=2", *slow(0.05), job=job_file)
        job.until_cut(2)
        job.kill("ps-0")
        job.until_cut(4)
        job.kill("worker-0")
        job.until_cut(5)
        job.kill("ps-1")
        job.until_cut(6)
        for name in [name for name in job.pids() if name != "launcher-0"] + ["launcher-0"]:
            job.kill(name)
        job.process.wait(DEADLINE_S)
        self.lock_is_free()
        s = self.train("--workers=3", "--ps=1", job=job_file).summary()
        self.assertEqual((s["digest"], self.aucs(s)), (expected["digest"], self.aucs(expected)))
        lines = [json.loads(line) for line in (self.out / "history.jsonl").read_text().splitlines()]
        self.assertEqual([(e["train"]["auc"], e["train"]["auc_error"]) for e in lines], self.aucs(expected))

    def test_async_counts_each_row_once_whatever_is_killed(self):
        job_file = self.job(CLICKS)
        for update in ("async", "ssp"):
            keys = {"training.update": update, "training.learning_rate": 1e-30,
                    "optimizer": "sgd", "tables": "null"}
            expected = self.train("--workers=1", out=self.tmp / f"one-{update}", job=job_file, keys=keys).summary()
            job = self.launch("--workers=2", *slow(0.05), out=self.tmp / update, job=job_file, keys=keys)
            job.until_cut(2)
            job.kill("ps-0")
            job.until_cut(4)
            job.kill("worker-1")
            s = job.wait().summary()
            self.assertEqual(s["train"]["auc"], expected["train"]["auc"])
            self.assertEqual(s["train"]["auc_error"], expected["train"]["auc_error"])

    def test_microbatches_that_are_trained_again_count_once(self):
        job = self.job(CLICKS)
        keys = {**STILL, "training.microbatches": 8}
        expected = self.train("--workers=1", out=self.tmp / "one", job=job, keys=keys).summary()
        s = self.train("--workers=3", *slow(0.02, 3), job=job,
                       keys={**keys, "sync.replicas_to_aggregate": 2, "sync.dropped": "redo"}).summary()
        self.assertGreater(s["batches"]["redone"], 0)
        self.assertEqual(self.aucs(s), self.aucs(expected))

    def slices(self, out=None):
        found = json.loads(((out or self.out) / "slices.json").read_text())
        return found["epoch"], found["by"], {s["value"]: s for s in found["slices"]}

    def sliced(self):
        """A job with slices, and its rows with their keys."""
        draw = random.Random(3)
        lines = []
        for _ in range(4000):
            x, key = draw.gauss(0, 1), draw.choice(["a", "a", "b b", "", "d", "e"])
            lines.append((key, f"{x:.6f},{key},{int(draw.random() < 0.1 + 0.2 * (x > 0) + 0.2 * (key == 'a'))}\n"))
        (self.tmp / "all.csv").write_text("".join(line for _, line in lines))
        job = self.job("name: a\ndata: {format: csv, train: all.csv, eval: part.csv,"
                       " columns: [number: x, key: {name: C, space: other}, label: y]}\n"
                       "model: {input: {shape: auto}, layers: [{linear: {inputs: C, name: wide}},"
                       " {dense: {inputs: x, units: 1, name: deep}}, {add: [wide, deep]}, sigmoid],"
                       " loss: binary_crossentropy, metrics: [auc, logloss, calibration, normalized_entropy]}\n"
                       "optimizer: sgd\ntraining: {batch_size: 96, epochs: 1}\n"
                       "metrics: {progressive: true, by: C, values: [b b, '', a, z]}\n")
        return job, lines

    def test_slices_are_those_of_the_rows_with_the_value(self):
        job, lines = self.sliced()
        for value, part in (("a", {"a"}), ("b b", {"b b"}), ("", {""}), (None, {"d", "e"})):
            rows = [line for key, line in lines if key in part]
            (self.tmp / "part.csv").write_text("".join(rows))
            s = self.train("--workers=2", out=self.tmp / f"out-{value}", job=job, keys={"training.learning_rate": 1e-30}).summary()
            epoch, by, slices = self.slices(self.tmp / f"out-{value}")
            self.assertEqual((epoch, by, list(slices)), (1, "C", ["b b", "", "a", "z", None]))
            found = slices[value]
            self.assertEqual((found["rows"], found["positives"]), (len(rows), sum(row.endswith("1\n") for row in rows)))
            self.assertLessEqual(abs(found["auc"] - s["eval"]["auc"]), found["auc_error"] + 1e-9)
            for name in ("logloss", "calibration", "normalized_entropy"):
                self.assertAlmostEqual(found[name] / s["eval"][name], 1, 3)
            self.assertEqual((slices["z"]["rows"], slices["z"]["auc"]), (0, None))
            log = (self.tmp / f"out-{value}/processes/worker-0.log").read_text()
            self.assertRegex(log, r"epoch 1 by C:\n.*  b b: rows \d+ positives \d+ logloss 0\.")

    def test_values_that_are_no_keys_of_the_column_are_refused(self):
        job, lines = self.sliced()
        (self.tmp / "part.csv").write_text(lines[0][1])
        job.write_text(job.read_text().replace("space: other", "hash: false, missing: none"))
        (self.tmp / "all.csv").write_text("1,7,0\n1,8,1\n")
        (self.tmp / "part.csv").write_text("1,7,0\n")
        for values, why in (("[7, x]", 'metrics.values: "x" is not an integer, and keys of C are integers'),
                            ("[7, 8, '07']", 'metrics.values: "07" has the key of value 1')):
            job_run = self.launch("--workers=1", job=job, keys={"metrics.values": values})
            job_run.wait(2)
            self.assertIn(why, job_run.stderr())

    def test_slices_are_the_same_for_any_cluster_and_after_kills(self):
        job_file, lines = self.sliced()
        (self.tmp / "part.csv").write_text(lines[0][1])
        keys = {"training.epochs": 2, "checkpoint.every_steps": 5, "checkpoint.every_seconds": 0}
        self.train("--workers=1", out=self.tmp / "one", job=job_file, keys=keys)
        job = self.launch("--workers=2", "--ps=2", *slow(0.05), job=job_file, keys=keys)
        for cut, name in ((2, "ps-0"), (4, "worker-0"), (5, "worker-1")):
            job.until_cut(cut)
            job.kill(name)
        job.wait()
        self.assertEqual(self.slices(), self.slices(self.tmp / "one"))
        for update in ("async", "ssp"):
            self.train("--workers=2", out=self.tmp / update, job=job_file, keys={**keys, "training.update": update})
            for value, found in self.slices(self.tmp / update)[2].items():
                self.assertEqual(found["rows"], self.slices(self.tmp / "one")[2][value]["rows"])


if __name__ == "__main__":
    unittest.main()
