#!/usr/bin/env python3
"""A bound for the memory of rows (ps.memory): what goes, what is refused, how a job ends for it; the same after kills, and
on fewer ps."""
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, TrainCase  # noqa: E402

ROWS, MEMBERS, DIM = 1500, 2000, 512
FITS = (1 << 20) // (DIM * 8)  # rows of a MiB, at most: weights and accumulators
SLOW = "--fault=worker-1=sleep:0.003"  # a job that somebody can be killed in


class TablesMemoryTest(TrainCase):
    def setUp(self):
        super().setUp()
        made = random.Random(6)
        with open(self.tmp / "train.csv", "w") as f:
            for _ in range(ROWS):
                member = int(MEMBERS * made.random() ** 3)  # some come often
                f.write(f"{member % 2},m{member}\n")

    def keys(self, when_full, **more):
        return {"data.format": "csv", "data.train": self.tmp / "train.csv", "data.columns": "[label: y, key: member]",
                "data.scale": 1, "model.input.shape": "auto", "model.metrics": "[auc]", "model.loss": "binary_crossentropy",
                "model.layers": f"[embedding: {{inputs: member, output_dim: {DIM}, name: ids}}, dense: {{units: 1}}, sigmoid]",
                "optimizer": "{adagrad: {learning_rate: 0.1}}", "training.epochs": 3, "training.batch_size": 16,
                "training.microbatches": 4, "ps.threads": 1, "ps.memory": 1, "ps.when_full": when_full,
                **{k.replace("__", "."): v for k, v in more.items()}}

    def found(self, *flags, keys, out):
        return self.launch(*flags, keys=keys, out=self.tmp / out).wait().summary()

    def same_after_kills(self, when_full, **more):
        keys = self.keys(when_full, **{"training__epochs": 8, "checkpoint__every_steps": 150, "checkpoint__every_seconds": 0, **more})
        want = self.found("--ps=2", "--workers=1", keys=keys, out="undisturbed")
        self.assertFalse(want["exact"])
        job = self.launch("--ps=2", "--workers=2", SLOW, keys=keys, out=self.tmp / "killed")
        job.until_cut(2)
        for name in ("ps-1", "worker-1"):
            job.kill(name)
        got = job.wait().summary()
        self.assertGreaterEqual(got["restarts"], 2)
        for key in ("train", "digest", "steps", "tables", "exact"):
            self.assertEqual(got[key], want[key], job.logs())
        return want["tables"]["ids"]

    def test_the_oldest_rows_go_and_a_kill_changes_nothing(self):
        counts = self.same_after_kills("evict")
        self.assertGreater(counts["evicted"], MEMBERS)
        self.assertTrue(2 * FITS * 3 // 4 < counts["rows"] <= 2 * FITS, counts)

    def test_steps_that_make_more_rows_than_there_is_room_for_and_a_kill_changes_nothing(self):
        layers = ("[embedding: {inputs: member, output_dim: 16, name: ids}, embedding: {inputs: member, output_dim: 16, name: old}, "
                  "dense: {inputs: [ids, old], units: 1}, sigmoid]")
        with open(self.tmp / "train.csv", "w") as f:
            f.writelines(f"{i % 2},m{i * 7919 % 40009}\n" for i in range(50000))
        counts = self.same_after_kills("evict", training__batch_size=1600, training__epochs=6, checkpoint__every_steps=10,
                                       model__layers=layers, tables="{old: {unseen_steps: 2}}")
        self.assertGreater(counts["evicted"], 10000)
        self.assertGreater(counts["refused"], 0)

    @unittest.skipIf(SHORT or SANITIZED, "as the one above")
    def test_rows_are_refused_and_a_kill_changes_nothing(self):
        counts = self.same_after_kills("refuse")
        self.assertGreater(counts["refused"], 0)
        self.assertEqual(counts["evicted"], 0)
        self.assertLessEqual(counts["rows"], 2 * FITS)

    def test_a_job_without_room_ends_and_says_what_would_do(self):
        job = self.launch("--ps=1", "--workers=1", keys=self.keys("stop")).wait(1)
        error = self.summary()["error"]
        self.assertRegex(error, r"table ids: no room for another row: shard 0 has 2\d\d rows of it, and its tables take "
                                r"\d+ bytes of the 1048576 that ps.memory \(1 MiB\) allows it; raise ps.memory, take more ps, "
                                r"or set ps.when_full to evict or refuse")
        self.assertIn("ps.memory is 1 MiB on each ps, but the rows may need", job.logs())

    def test_fewer_ps_take_what_they_have_room_for(self):
        two = self.found("--ps=2", "--workers=1", keys=self.keys("evict"), out="shrunk")
        self.assertGreater(two["tables"]["ids"]["rows"], FITS)
        keys = self.keys("stop", training__epochs=4)
        self.launch("--ps=1", "--workers=1", keys=keys, out=self.tmp / "shrunk").wait(1)
        self.assertIn("no room for another row", self.summary(self.tmp / "shrunk")["error"])
        one = self.found("--ps=1", "--workers=1", keys=self.keys("evict", training__epochs=4), out="shrunk")
        self.assertEqual((one["epochs"], one["exact"]), (4, False))
        counts, before = one["tables"]["ids"], two["tables"]["ids"]
        self.assertLessEqual(counts["rows"], FITS)
        self.assertGreater(counts["admitted"], before["admitted"])
        self.assertEqual(counts["admitted"], counts["rows"] + counts["evicted"])
        more = self.found("--ps=1", "--workers=1", out="shrunk",
                          keys=self.keys("evict", training__epochs=5, ps__memory=64))
        self.assertFalse(more["exact"])  # though there was room for all in this run

    def test_with_room_for_all_a_bound_changes_nothing(self):
        with_bound = self.found("--ps=1", "--workers=1", keys=self.keys("evict", ps__memory=64), out="bound")
        without = self.found("--ps=1", "--workers=1", keys=self.keys("stop", ps__memory=0), out="none")
        for key in ("train", "digest", "steps", "tables", "exact"):
            self.assertEqual(with_bound[key], without[key])
        self.assertTrue(without["exact"])


if __name__ == "__main__":
    unittest.main()
