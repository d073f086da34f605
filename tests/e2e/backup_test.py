#!/usr/bin/env python3
# labels: short
"""Backup workers: a step is made of the leaves of those who come first. The slow worker holds nobody up, what it computes
for nothing is counted, and it hangs nobody, the chief's own session included."""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import TSAN, WORKER, Process, TrainCase  # noqa: E402

TWO_OF_THREE = {"sync.replicas_to_aggregate": 2}
LEAVES, BATCH = 4, 64


class BackupTest(TrainCase):
    KEYS = {**TrainCase.KEYS, "data.synthetic_train_rows": 2000 if TSAN else 8000, "data.synthetic_eval_rows": 500,
            "training.epochs": 3, "training.microbatches": LEAVES, "training.batch_size": BATCH,
            "checkpoint.every_steps": 50, "checkpoint.every_seconds": 0,
            "timeouts.worker_rejoin_s": 100}  # the job waits for a worker that comes late, or again: all take part
    STEPS = 3 * (-(-KEYS["data.synthetic_train_rows"] // BATCH))

    def assert_trained(self, job, slow):
        s = job.summary()
        b = s["batches"]
        self.assertEqual((s["status"], s["steps"], b["dealt"], b["applied_min"], b["applied_max"], b["lost"]),
                         ("done",) + (self.STEPS,) * 4 + (0,), job.logs())
        self.assertFalse(s["exact"])
        self.assertEqual([e["epoch"] for e in s["history"]], [1, 2, 3])  # each epoch is evaluated, although a worker is slow
        if not TSAN:
            self.assertGreater(s["eval"]["accuracy"], 0.6, job.logs())  # ten classes
        did = {w["worker"]: w for w in s["per_worker"]}
        self.assertGreater(did[slow]["dropped"], 0, job.logs())
        return s, did

    def test_a_slow_worker_holds_nobody_up(self):
        job = self.train("--ps=2", "--workers=3", "--fault=worker-2=straggle:80", keys=TWO_OF_THREE)
        s, did = self.assert_trained(job, slow=2)
        self.assertEqual(sum(w["dropped"] for w in did.values()), s["batches"]["dropped"])
        # It sleeps as long as 80 computations (a step takes many of them while other tests run). If the job had waited for it, it
        # would have computed a part of every step.
        self.assertLess(did[2]["tasks"], self.STEPS / 2, job.logs())
        # If the job waited for it, one leaf of each step would be missing. Nearly all of worker 2's leaves are.
        self.assertGreater(did[2]["dropped"], self.STEPS / 2)
        self.assertLess(s["batches"]["dropped"], self.STEPS * LEAVES / 2)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_slow_chief_holds_nobody_up_but_at_an_epochs_end(self):
        keys = {**TWO_OF_THREE, "training.clip_norm": 1, "training.nan_guard": "skip", "compression.reply": "int8"}
        job = self.train("--ps=2", "--workers=3", "--fault=worker-0=straggle:80", keys=keys)
        s, did = self.assert_trained(job, slow=0)
        self.assertLess(did[0]["tasks"], self.STEPS / 2, job.logs())
        self.assertGreater(s["batches"]["clipped"], 0)

    def test_a_death_among_those_who_are_waited_for(self):
        job = self.launch("--ps=2", "--workers=3", "--fault=worker-2=straggle:20", keys=TWO_OF_THREE)
        job.until_cut(1)
        job.kill("worker-1", signal.SIGKILL)
        self.assert_trained(job.wait(), slow=2)
        self.assertEqual(job.summary()["restarts"], 1)

    def test_what_is_dropped_is_trained_at_the_epochs_end(self):
        keys = {**TWO_OF_THREE, "sync.dropped": "redo", "data.synthetic_train_rows": 2000}
        job = self.launch("--ps=2", "--workers=3", "--fault=worker-2=straggle:5", keys=keys)
        job.until_cut(1)
        job.kill("ps-1", signal.SIGKILL)  # goes back to a cut, with what was dropped before it
        s = job.wait().summary()
        b = s["batches"]
        self.assertGreater(b["dropped"], 0, job.logs())
        self.assertEqual(b["redone"], b["dropped"])
        extra = s["steps"] - 3 * 32  # an epoch's last one may have fewer
        self.assertTrue(b["dropped"] / LEAVES <= extra < b["dropped"] / LEAVES + 3, s)
        self.assertEqual((b["applied_min"], b["applied_max"], s["epochs"], s["exact"]), (s["steps"], s["steps"], 3, False))
        self.assertEqual([e["epoch"] for e in s["history"]][-1], 3)
        again = self.launch("--ps=3", "--workers=3", keys={**keys, "sync.dropped": "lost", "training.epochs": 4}).wait(2)
        self.assertIn("sync.dropped must stay redo", again.stderr())
        more = self.train("--ps=3", "--workers=1", keys={**keys, "sync.replicas_to_aggregate": 0, "training.epochs": 4})
        self.assertEqual((more.summary()["steps"], more.summary()["epochs"]), (s["steps"] + 32, 4))
        self.assertEqual((more.summary()["exact"], more.summary()["inexact"]),
                         (False, "generation 1 trained from step 0 on with sync.replicas_to_aggregate: 2"))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_to_wait_for_all_changes_nothing(self):
        keys = {"training.epochs": 1}
        s = self.train("--ps=2", "--workers=3", keys={**keys, "sync.replicas_to_aggregate": 3}).summary()
        self.assertEqual(s["digest"], self.undisturbed(keys=keys))
        self.assertTrue(s["exact"])
        self.assertEqual(s["batches"]["dropped"], 0)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_what_cannot_be_is_refused_with_what_would_do(self):
        for keys, said in (({"training.microbatches": 2}, "training.microbatches is 2; 4 is enough"),
                           ({"sync.replicas_to_aggregate": 4}, "there are 3 workers; allowed: up to 3"),
                           ({"training.update": "async"}, "it is for training.update: sync, and the job has async"),
                           ({"sync.dropped": "redo", "training.nan_guard": "rollback"},
                            "redo excludes training.nan_guard: rollback")):
            with self.subTest(said):
                job = self.launch("--ps=1", "--workers=3", keys={**TWO_OF_THREE, **keys}).wait(2)
                self.assertIn(said, job.stderr())
                self.assertFalse(self.out.exists())

    def test_a_chief_that_is_started_by_hand_counts_the_workers_too(self):
        command = [WORKER, f"--job={self.JOB}", "--job_name=worker", "--task_index=0", "--ps_hosts=127.0.0.1:1",
                   "--worker_hosts=127.0.0.1:2,127.0.0.1:3,127.0.0.1:4", f"--output={self.out}",
                   *self.sets({**TWO_OF_THREE, "training.microbatches": 2})]
        self.assertIn("4 is enough", Process(self, command, "chief").wait(2).last_line())


if __name__ == "__main__":
    unittest.main()
