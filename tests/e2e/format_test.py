#!/usr/bin/env python3
"""A job resumes from checkpoints that earlier releases wrote, and refuses those of a later one by name. The checkpoint in
tests/data/checkpoint-N has format N, as the first release with that format wrote it: it is never written again. That of
format 2 has rows of tables, and no job: tests/unit/checkpoint_rows_test.c reads it."""
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import ROOT, TrainCase  # noqa: E402

STORED = ROOT / "tests/data"
HEADER = (ROOT / "common/checkpoint/checkpoint.h").read_text()
FIRST, CURRENT = (int(re.search(rf"{name} = (\d+)", HEADER)[1]) for name in ("CHECKPOINT_FORMAT_FIRST", "CHECKPOINT_FORMAT"))
# Format: digest of what it learned, and of one epoch more at a rate of nearly 0. There the stored momentum alone moves the
# weights, so that the digest is one of the weights and the slots as they were stored, on every processor.
DIGESTS = {1: ("bed9371a6caab4f5f9dc7bb4073c155722264fb42feb1e4d2dc2125001806ab2",
               "850a8db7edcaaa64d8cf5187349526fef54458038f06c224213bf266f9838985")}


class FormatTest(TrainCase):
    KEYS = {}

    def stored(self, number):
        shutil.copytree(STORED / f"checkpoint-{number}/checkpoints", self.out / "checkpoints")
        return STORED / f"checkpoint-{number}/job.yaml"

    def test_one_of_each_format_is_stored(self):
        for number in range(FIRST, CURRENT + 1):
            paths = list((STORED / f"checkpoint-{number}/checkpoints").glob("cut-*/*.gw"))
            self.assertEqual(len(paths), 3)
            for path in paths:
                self.assertEqual(path.read_bytes()[7:8], str(number).encode(), path)

    def test_a_checkpoint_of_each_format_is_read(self):
        for number, (learned, _) in DIGESTS.items():
            with self.subTest(number):
                self.assertEqual(self.digest("--ps=1", "--workers=1", job=self.stored(number)), learned)

    def test_a_job_goes_on_from_each_format_on_another_number_of_ps(self):
        for number, (_, further) in DIGESTS.items():
            with self.subTest(number):
                job = self.train("--ps=2", "--workers=2", job=self.stored(number),
                                 keys={"training.epochs": 3, "training.learning_rate": 1e-30})
                self.assertRegex(job.log("worker-0"), r"generation \d+: resuming from checkpoint \d+")
                self.assertEqual(job.summary()["digest"], further, job.logs())

    def test_a_newer_format_is_refused_naming_both_and_touches_nothing(self):
        job = self.stored(FIRST)
        manifest, = self.out.glob("checkpoints/cut-*/manifest.gw")
        data = bytearray(manifest.read_bytes())
        data[7] = data[-1] = ord("0") + CURRENT + 1
        manifest.write_bytes(data)
        older = self.out / "checkpoints/cut-0000000000"  # which is not gone back to
        shutil.copytree(STORED / f"checkpoint-{FIRST}/checkpoints" / manifest.parent.name, older)
        got = self.launch("--ps=1", "--workers=1", job=job).wait(2)
        self.assertIn(f"in format {CURRENT + 1}; this one, ", got.stderr())
        self.assertIn(f"reads formats {FIRST} to {CURRENT}: start that release, or start from scratch with --fresh", got.stderr())
        self.assertEqual(manifest.read_bytes(), bytes(data))
        self.assertTrue((older / "manifest.gw").exists())


del TrainCase
if __name__ == "__main__":
    unittest.main()
