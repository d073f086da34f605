#!/usr/bin/env python3
"""A log of clicks, drawn, into tables of rows by key: in sync the digest is the same for any number of ps and workers, and
with any process killed; sync and async come near the planted AUC; and a job resumes with another number of ps."""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import ROOT, SANITIZED, SHORT, TSAN, TrainCase, slow  # noqa: E402

JOB = """name: clicks
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: "C{1..6}", name: wide}
    - embedding: {inputs: "C{1..6}", output_dim: 4, name: e}
    - dense: {inputs: [e, "I{1..13}"], units: 8, activation: relu}
    - dense: {units: 1, use_bias: false, name: deep}
    - add: [wide, deep]
    - sigmoid
  loss: binary_crossentropy
  metrics: [auc, logloss]
data:
  format: synthetic
  synthetic: clicks
  synthetic_fields: 6
  synthetic_keys: 3000
  delimiter: tab
  columns: [label: clicked, number: {name: "I{1..13}", scale: standard}, key: {name: "C{1..6}"}]
optimizer: {adagrad: {initial_accumulator_value: 0.000001}}
training: {epochs: 1, batch_size: 200, learning_rate: 0.05}
"""
EXAMPLES = ROOT / "examples/clicks"
# Long enough that somebody can be killed in it.
SLOW = slow(0.02)
DISTURBED = {"data.synthetic_train_rows": 8000 if SANITIZED else 60000, "checkpoint.every_steps": 20,
             "checkpoint.every_seconds": 0}


class ClicksTest(TrainCase):
    KEYS = {**TrainCase.KEYS, "data.synthetic_train_rows": 4000, "data.synthetic_eval_rows": 1000}

    def setUp(self):
        super().setUp()
        self.JOB = self.tmp / "clicks.yaml"
        self.JOB.write_text(JOB)

    def test_the_digest_is_the_same_for_any_number_of_ps_and_workers(self):
        first = self.train("--ps=1", "--workers=1", out=self.tmp / "undisturbed").summary()
        for ps, workers in ((2, 2), (4, 3)) if SHORT or SANITIZED else ((1, 2), (2, 2), (4, 1), (4, 3)):
            with self.subTest(ps=ps, workers=workers):
                s = self.train("--ps", ps, "--workers", workers, out=self.tmp / f"{ps}-{workers}").summary()
                self.assertEqual(s["digest"], first["digest"])
                self.assertEqual(s["eval"], first["eval"])
                self.assertTrue(s["exact"])

    def disturbed(self, *names):
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED, out=self.tmp / "-".join(names))
        job.until_cut(1)
        for name in names:
            job.kill(name)
        s = job.wait().summary()
        self.assertGreaterEqual(s["restarts"], len(names), job.logs())
        self.assertEqual(s["digest"], self.want["digest"], job.logs())
        self.assertEqual(s["eval"], self.want["eval"], job.logs())

    def test_who_is_killed_in_mid_epoch_changes_nothing(self):
        self.want = self.train("--ps=1", "--workers=1", keys=DISTURBED, out=self.tmp / "whole").summary()
        for names in (("worker-1",),) if SHORT or SANITIZED else (("worker-1",), ("worker-0",), ("ps-1",)):
            with self.subTest(names):
                self.disturbed(*names)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_checkpoint_goes_on_with_another_number_of_ps(self):
        want = self.train("--ps=1", "--workers=1", keys=DISTURBED, out=self.tmp / "whole").summary()
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        self.assertLess(job.wait(143).summary()["steps"], want["steps"])
        self.assertEqual(self.train("--ps=3", "--workers=2", keys=DISTURBED).summary()["digest"], want["digest"])

    @unittest.skipIf(SANITIZED, "slow, and has no other threads than the rest")
    def test_sync_and_async_come_near_the_planted_auc(self):
        keys = {"data.synthetic_train_rows": 40000, "data.synthetic_eval_rows": 10000, "training.epochs": 2}
        for update in ("sync", "async"):
            with self.subTest(update):
                s = self.train("--ps=2", "--workers=2", keys={**keys, "training.update": update},
                               out=self.tmp / update).summary()
                self.assertGreater(s["eval"]["auc"], s["planted"]["auc"] - 0.03)
                self.assertLess(s["eval"]["logloss"], s["planted"]["logloss"] + 0.03)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class ExamplesTest(TrainCase):
    """On so few keys that 40,000 rows teach most of what can be learned."""

    KEYS = {"data.synthetic_train_rows": 4000 if SANITIZED else 40000, "data.synthetic_eval_rows": 4000,
            "data.synthetic_keys": 1000}

    def assert_learns(self, name, below_planted, keys={}):
        s = self.train("--ps=2", "--workers=2", job=EXAMPLES / name, keys=keys).summary()
        self.assertGreater(s["eval"]["auc"], s["planted"]["auc"] - below_planted)

    def test_the_logistic_regression_comes_near_the_planted_auc(self):
        self.assert_learns("lr.yaml", 0.2 if SANITIZED else 0.03)

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the smaller example")
    def test_wide_and_deep_learns(self):
        self.assert_learns("wide_deep.yaml", 0.1, {"training.batch_size": 200})


@unittest.skipIf(SHORT or SANITIZED, "large logs")
class LargeLogsTest(TrainCase):
    KEYS = {}

    def reached(self, update, workers, keys):
        keys = {**keys, "training.update": update, **({"training.staleness": 2} if update == "ssp" else {})}
        s = self.train("--ps=2", f"--workers={workers}", job=EXAMPLES / "lr.yaml", keys=keys, out=self.tmp / update).summary()
        print(f"{self.id().split('.')[-1]}, {update}: {s['eval']}, planted: {s['planted']}", file=sys.stderr)
        return s["eval"]["auc"], s["planted"]["auc"]

    def test_2_million_rows_of_1000_keys_come_within_0_003_of_the_planted_auc(self):
        for update in ("sync", "async"):
            with self.subTest(update):
                got, planted = self.reached(update, 2, {"data.synthetic_keys": 1000, "data.synthetic_train_rows": 2000000})
                self.assertLess(abs(got - planted), 0.003)

    def test_with_1_2_million_keys_async_and_ssp_with_4_workers_come_within_0_004_of_sync(self):
        keys = {"data.synthetic_keys": 1200000, "data.synthetic_train_rows": 200000}
        sync, _ = self.reached("sync", 4, keys)
        self.assertGreater(sync, 0.65)
        for update in ("async", "ssp"):
            with self.subTest(update):
                self.assertLess(abs(self.reached(update, 4, keys)[0] - sync), 0.004)


if __name__ == "__main__":
    unittest.main()
