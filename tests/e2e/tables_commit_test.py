#!/usr/bin/env python3
"""The step commit with tables: clipping by a norm that rows are in, and the NaN guard of rows, are the same for any number
of ps, and whoever is killed."""
import json
import math
import pathlib
import random
import struct
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE)]
import tables_test  # noqa: E402
from cluster import SANITIZED, SHORT, TSAN, TrainCase  # noqa: E402

ROWS, BATCH, EPOCHS = 1200, 64, 3
POISONED = 700
SPLITS = ((1, 1), (2, 2), (4, 3))


class TablesCommitTest(TrainCase):
    def setUp(self):
        super().setUp()
        made = random.Random(5)
        self.rows = [tables_test.draw(made) for _ in range(ROWS)]
        self.write("train", self.rows)
        self.write("poisoned", [(*r[:3], [("zz", 1e38)], r[4]) if i == POISONED else r for i, r in enumerate(self.rows)])

    def write(self, name, rows):
        with open(self.tmp / f"{name}.csv", "w") as f:
            for y, member, shop, tags, x in rows:
                f.write(f"{y},{member},{shop},{';'.join(f'{t}:{w}' for t, w in tags)},{x:.4f}\n")

    def keys(self, data="train", layers=tables_test.WIDE_DEEP, columns=tables_test.COLUMNS, **more):
        return {"data.format": "csv", "data.train": self.tmp / f"{data}.csv", "data.columns": columns, "data.scale": 1,
                "model.input.shape": "auto", "model.layers": layers,
                "model.loss": "binary_crossentropy", "optimizer": "{adagrad: {learning_rate: 0.1}}",
                "training.epochs": EPOCHS, "training.batch_size": BATCH, "training.microbatches": 4,
                **{k.replace("__", "."): v for k, v in more.items()}}

    def found(self, *flags, keys, out):
        return self.launch(*flags, keys=keys, out=self.tmp / out).wait().summary()

    def found_by_all(self, keys, name):
        """The rows that every split of the work finds."""
        want = None
        for ps, workers in SPLITS[1:] if SHORT or SANITIZED else SPLITS:
            with self.subTest(ps=ps, workers=workers):
                got = self.found("--ps", ps, "--workers", workers, keys=keys, out=f"{name}-{ps}-{workers}")
                want = want or got
                for key in ("train", "digest", "steps", "batches"):
                    self.assertEqual(got[key], want[key])
        return want

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_norm_of_rows_does_not_depend_on_the_number_of_ps(self):
        clipped = self.found_by_all(self.keys(training__clip_norm=0.05), "clipped")
        self.assertGreater(clipped["batches"]["clipped"], EPOCHS)
        free = self.found("--ps=2", "--workers=2", keys=self.keys(), out="free")
        self.assertNotEqual(clipped["digest"], free["digest"])
        high = self.found("--ps=2", "--workers=2", keys=self.keys(training__clip_norm=1e6), out="high")
        self.assertEqual((high["digest"], high["batches"]["clipped"]), (free["digest"], 0))

    def test_who_is_killed_between_sums_and_decisions_changes_nothing(self):
        keys = self.keys(training__clip_norm=0.05, training__epochs=60, checkpoint__every_steps=150,
                         checkpoint__every_seconds=0)
        want = self.found("--ps=1", "--workers=1", keys=keys, out="undisturbed")
        for names in (("ps-1",),) if SHORT or SANITIZED else (("ps-1",), ("worker-0",), tables_test.ALL):
            with self.subTest(names):
                job = self.launch("--ps=2", "--workers=2", *tables_test.SLOW, keys=keys, out=self.tmp / "-".join(names))
                job.until_cut(2)
                for name in names:
                    job.kill(name)
                got = job.wait().summary()
                self.assertGreaterEqual(got["restarts"], len(names))
                for key in ("train", "digest", "steps"):
                    self.assertEqual(got[key], want[key], job.logs())

    def test_a_row_whose_gradient_is_absurd_is_skipped_with_its_step(self):
        """It is the row of a tag that no other example has: no step makes it."""
        keys = self.keys("poisoned", training__nan_guard="skip", training__max_rejected=100)
        got = self.found_by_all(keys, "skipped")
        self.assertEqual(got["batches"]["rejected"], EPOCHS)
        self.assertTrue(got["exact"])
        self.assertTrue(math.isfinite(got["train"]["loss"]))
        journal = (self.tmp / "skipped-2-2/checkpoints/journal").read_text()
        self.assertRegex(journal, r"gradient of key \d+ of table wide is absurdly large")
        others = [r for i, r in enumerate(self.rows) if i != POISONED]
        keys = {("member", r[1]) for r in others} | {("tag", t) for r in others for t, _ in r[3]}
        self.assertEqual(self.rows_of("skipped-2-2", "wide"), len(keys))

    def rows_of(self, out, table):
        """How many there are in the model."""
        with open(self.tmp / out / f"model/tables/{table}.safetensors", "rb") as f:
            head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        return head["keys"]["shape"][0]

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_async_clips_rows_and_leaves_absurd_ones_out(self):
        keys = self.keys("poisoned", training__update="async", training__nan_guard="skip", training__clip_norm=0.05)
        s = self.found("--ps=2", "--workers=2", keys=keys, out="async")
        self.assertGreater(s["batches"]["clipped"], EPOCHS)
        self.assertEqual(s["batches"]["rejected"], 0)  # a clipped gradient may have any size
        del keys["training.clip_norm"]
        s = self.found("--ps=2", "--workers=2", keys={**keys, "training.staleness_rate": True}, out="guarded")
        self.assertEqual(s["batches"]["rejected"], EPOCHS)
        self.assertTrue(math.isfinite(s["train"]["loss"]))


if __name__ == "__main__":
    unittest.main()
