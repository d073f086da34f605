#!/usr/bin/env python3
"""Logistic regressions of examples/ on real logs and tables: they reach what a plain one reaches, in sync and in async.

What was reached is printed. Parts of one file are cut in the order of its rows: the first train, the last evaluate."""
import gzip
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import ROOT, SANITIZED, TrainCase  # noqa: E402

DATA = os.environ.get("GRADWIRE_DATA")
FOLDER = pathlib.Path(DATA or "/nonexistent")
CRITEO = FOLDER / "criteo-kaggle"
MODES = ("sync", "async")


def lines(name):
    with gzip.open(CRITEO / name, "rb") as f:
        return f.read().splitlines(keepends=True)


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with criteo-kaggle, adult and kdd99")
@unittest.skipIf(SANITIZED, "of the release build")
class RealTest(TrainCase):
    KEYS = {"data.format": "csv"}

    def reached(self, job, train, evaluation, mode):
        s = self.train("--ps=2", "--workers=2", job=ROOT / "examples" / job, out=self.tmp / mode,
                       keys={"data.train": train, "data.eval": evaluation, "training.update": mode}).summary()
        print(f"{self.id().split('.')[-1]}, {mode}: {s['eval']}", file=sys.stderr)
        return s["eval"]

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


if __name__ == "__main__":
    unittest.main()
