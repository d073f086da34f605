#!/usr/bin/env python3
"""Logistic regressions of examples/ on real logs and tables: they reach what a plain one reaches, in sync and in async.

It prints each job's metrics. Parts of one file keep the order of its rows: the first train, the last evaluate."""
import gzip
import math
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import lbfgs  # noqa: E402
from cluster import ROOT, SANITIZED, TrainCase  # noqa: E402

DATA = os.environ.get("GRADWIRE_DATA")
FOLDER = pathlib.Path(DATA or "/nonexistent")
CRITEO = FOLDER / "criteo-kaggle"
MODES = ("sync", "async")


def lines(name):
    with gzip.open(CRITEO / name, "rb") as f:
        return f.read().splitlines(keepends=True)


class RealCase(TrainCase):
    def reached(self, job, train, evaluation, mode, more={}):
        keys = {"data.train": train, "data.eval": evaluation, "training.update": mode, **more}
        s = self.train("--ps=2", "--workers=2", job=ROOT / "examples" / job, out=self.tmp / mode, keys=keys).summary()
        print(f"{self.id().split('.')[-1]}, {mode}: {s['eval']}", file=sys.stderr)
        return s["eval"]


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with criteo-kaggle, adult and kdd99")
@unittest.skipIf(SANITIZED, "of the release build")
class RealTest(RealCase):
    KEYS = {"data.format": "csv"}

    def parts(self, rows, train_rows, head=()):
        """Two files: the first `train_rows` rows and the others, each behind the lines of `head`."""
        paths = self.tmp / "train.txt", self.tmp / "eval.txt"
        for path, part in zip(paths, (rows[:train_rows], rows[train_rows:])):
            path.write_bytes(b"".join([*head, *part]))
        return paths

    def logloss_is_at_most(self, most, job, paths):
        for mode, bound in zip(MODES, most):
            with self.subTest(mode=mode):
                self.assertLessEqual(self.reached(job, *paths, mode)["logloss"], bound)

    def test_the_head_of_criteo_s_log_reaches_logloss_0_469(self):
        self.logloss_is_at_most((0.469, 0.472), "criteo/lr.yaml", self.parts(lines("train_head10k.txt.gz"), 8000))

    def test_a_sample_of_criteo_s_log_reaches_logloss_0_508(self):
        self.logloss_is_at_most((0.508, 0.511), "criteo/lr.yaml", self.parts(lines("sample45k_20feat.txt.gz"), 36672))

    def test_criteo_s_log_with_numbered_words_reaches_logloss_0_462(self):
        (header, *first), (_, *second) = (lines(f"indexed_part{i}.csv.gz") for i in (0, 1))
        self.logloss_is_at_most((0.462, 0.462), "criteo/indexed.yaml", self.parts(first + second, 16000, [header]))

    def test_adult_reaches_auc_0_907(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.reached("adult/lr.yaml", FOLDER / "adult/adult.data.gz", FOLDER / "adult/adult.test.gz", mode)
                self.assertGreaterEqual(got["auc"], 0.907)

    def test_attacks_of_kdd99_are_told_from_normal_connections_with_accuracy_0_915(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.reached("kdd99/lr.yaml", FOLDER / "kdd99/kddcup.data_10_percent.gz",
                                   FOLDER / "kdd99/corrected.gz", mode)
                self.assertGreaterEqual(got["accuracy"], 0.915)


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with a9a, agaricus and ipinyou-fm")
@unittest.skipIf(SANITIZED, "of the release build")
class LibsvmTest(RealCase):
    KEYS = {}
    A9A = FOLDER / "a9a/a9a.gz", FOLDER / "a9a/a9a.t.gz"

    def each_mode(self, job, *paths):
        for mode in MODES:
            yield self.reached(job, *paths, mode)

    def test_a9a_reaches_accuracy_0_848_and_auc_0_901(self):
        for got in self.each_mode("a9a/lr.yaml", *self.A9A):
            self.assertGreaterEqual(got["accuracy"], 0.848)
            self.assertGreaterEqual(got["auc"], 0.901)

    def test_a9a_s_training_loss_is_the_least_but_for_a_thousandth(self):
        with gzip.open(self.A9A[0], "rt") as f:
            rows = [(line.startswith("+"), [int(pair.partition(":")[0]) for pair in line.split()[1:]]) for line in f]
        least = lbfgs.least(lbfgs.Logistic(rows))
        steps = 100 * math.ceil(len(rows) / 4000)
        got = self.reached("a9a/lr.yaml", self.A9A[0], self.A9A[0], "sync", {
            "optimizer": "{adam: {learning_rate: 0.3}}", "training.epochs": 100, "training.batch_size": 4000,
            "training.learning_rate_schedule": f"{{cosine_decay: {{decay_steps: {steps}}}}}"})
        print(f"the least loss by L-BFGS: {least}", file=sys.stderr)
        self.assertLess(abs(got["loss"] / least - 1), 0.001)

    def test_agaricus_is_told_from_poisonous_mushrooms_without_a_mistake(self):
        for got in self.each_mode("agaricus/lr.yaml", *(FOLDER / f"agaricus/agaricus.txt.{part}.gz" for part in ("train", "test"))):
            self.assertEqual(got["accuracy"], 1)

    def test_ipinyou_s_133465_features_are_loaded_and_trained(self):
        for got in self.each_mode("ipinyou/lr.yaml", *(FOLDER / f"ipinyou-fm/{part}.fm.txt.gz" for part in ("train", "test"))):
            self.assertGreater(got["auc"], 0.5)


if __name__ == "__main__":
    unittest.main()
