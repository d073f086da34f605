#!/usr/bin/env python3
# runs with others
# labels: short
"""Backup workers in a job with tables: rows are made of the leaves that come first, those of a slow worker are dropped on
all shards alike, and with `redo` each example is learned once in each epoch."""
import collections
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE)]
import tables_test  # noqa: E402
from cluster import SANITIZED, SHORT, TrainCase  # noqa: E402
from tables_cut_test import tensors  # noqa: E402

BATCH, LEAVES, STEPS = 64, 4, 50
ROWS, LEAF = BATCH * STEPS, BATCH // LEAVES
# Each sleeps, the slow one longer, so that the other comes first. Training begins with the workers that are there: a step takes
# so long that the slow one has time to start.
STEP_S = 0.12 if SANITIZED else 0.03
SLOW = (f"--fault=worker-0=sleep:{STEP_S}", f"--fault=worker-1=sleep:{3 * STEP_S}")
FIRST = {"sync.replicas_to_aggregate": 1}
REDO = {**FIRST, "sync.dropped": "redo"}


class TablesBackupTest(TrainCase):
    def setUp(self):
        """Each example has a key of its own, and one that all have."""
        super().setUp()
        with open(self.tmp / "train.csv", "w") as f:
            f.writelines(f"1000000,e{i},all\n" for i in range(ROWS))

    def keys(self, epochs=2, **more):
        """A counting table. The loss is |y - sum of rows| and y is far away, so an example's gradient is -1: a row's count
        is the number of steps that had one of its examples, and its weight is the sum of the rate by their examples."""
        return {"data.format": "csv", "data.train": self.tmp / "train.csv", "data.scale": 1,
                "data.columns": "[label: y, key: example, key: all]", "model.input.shape": "auto",
                "model.layers": """[linear: {inputs: example, name: each}, linear: {inputs: all, name: every},
                    add: [each, every]]""",
                "tables": "{each: {initializer: zeros}, every: {initializer: zeros}}", 
                "model.loss": "mae", "model.metrics": "[mae]",
                "optimizer": f"{{sgd: {{learning_rate: {BATCH}}}}}", "training.epochs": epochs,
                "training.batch_size": BATCH, "training.microbatches": LEAVES, "checkpoint.every_steps": 20,
                "checkpoint.every_seconds": 0, "timeouts.worker_rejoin_s": 100,  # the job waits for a worker that comes late
                **{k.replace("__", "."): v for k, v in more.items()}}

    def table(self, job, name):
        return tensors(job.out / f"model/tables/{name}.safetensors")

    def assert_each_was_learned_once_an_epoch(self, job, epochs):
        s = job.summary()
        b = s["batches"]
        self.assertEqual((s["status"], s["epochs"], s["exact"]), ("done", epochs, False), job.logs())
        self.assertGreater(b["dropped"], 0, job.logs())
        self.assertEqual(b["redone"], b["dropped"])
        _, _, counts = self.table(job, "each")
        self.assertEqual(collections.Counter(counts), {epochs: ROWS}, job.logs())
        _, _, counts = self.table(job, "every")
        self.assertEqual(counts, (s["steps"],))  # extra steps, too
        self.assertGreater(s["steps"], epochs * STEPS)
        self.assertEqual([e["epoch"] for e in s["history"]][-1], epochs)

    def test_with_redo_each_example_is_learned_once_an_epoch(self):
        for ps, more in ((1, {}), (2, {"training__clip_norm": 1e9, "training__nan_guard": "skip"}), (4, {})):
            if (SHORT or SANITIZED) and ps != 2:
                continue
            with self.subTest(ps=ps):
                job = self.launch("--ps", ps, "--workers=2", *SLOW, keys={**self.keys(**more), **REDO},
                                  out=self.tmp / f"redo-{ps}").wait()
                self.assert_each_was_learned_once_an_epoch(job, 2)

    def test_with_redo_each_example_is_learned_once_whoever_is_killed(self):
        for names in (("ps-1",),) if SHORT or SANITIZED else (("ps-1",), ("worker-0",), ("worker-1",), tables_test.ALL):
            with self.subTest(names):
                job = self.launch("--ps=2", "--workers=2", *SLOW, keys={**self.keys(), **REDO},
                                  out=self.tmp / "-".join(names))
                job.until_cut(2)
                for name in names:
                    job.kill(name)
                job.wait()
                self.assertGreaterEqual(job.summary()["restarts"], len(names))
                self.assert_each_was_learned_once_an_epoch(job, 2)

    def test_what_is_lost_makes_no_row_on_any_shard(self):
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys={**self.keys(epochs=1), **FIRST}, out=self.tmp / "lost").wait()
        s = job.summary()
        self.assertEqual((s["steps"], s["exact"], s["batches"]["redone"]), (STEPS, False, 0))
        self.assertGreater(s["batches"]["dropped"], 0, job.logs())
        keys, rows, counts = self.table(job, "each")
        self.assertEqual(len(keys), ROWS - LEAF * s["batches"]["dropped"], job.logs())
        self.assertEqual(set(counts), {1})
        # a step of n examples makes n rows of the rate by n
        for weight, times in collections.Counter(rows).items():
            n = round(BATCH / weight)
            self.assertTrue(abs(weight - BATCH / n) < 1e-5 and n % LEAF == 0 and times % n == 0, (weight, times))

    def test_to_wait_for_all_changes_nothing(self):
        want = self.launch("--ps=1", "--workers=1", keys=self.keys(epochs=1), out=self.tmp / "one").wait().summary()
        for ps in (2,) if SHORT or SANITIZED else (1, 2, 4):
            got = self.launch("--ps", ps, "--workers=2", keys={**self.keys(epochs=1), "sync.replicas_to_aggregate": 2,
                              "sync.dropped": "redo"}, out=self.tmp / f"all-{ps}").wait().summary()
            self.assertEqual((got["digest"], got["exact"], got["batches"]["dropped"]), (want["digest"], True, 0))


if __name__ == "__main__":
    unittest.main()
