#!/usr/bin/env python3
# labels: short
"""Sync is bit-for-bit: with any cluster, and any process killed, the digest equals the digest of one worker and one ps."""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import LONG_ROWS, SANITIZED, SHORT, TSAN, TrainCase  # noqa: E402

# Long enough that the first cut after cut 0 comes well before the end.
DISTURBED = {"data.synthetic_train_rows": LONG_ROWS, "training.epochs": 4,
             "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0}
ALL = ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2")


class SyncTest(TrainCase):
    def test_the_digest_is_the_same_for_any_number_of_ps_workers_and_threads(self):
        want = self.undisturbed()
        small = ((2, 2, 2), (3, 4, 1), (5, 1, 2))
        whole = [(ps, workers, threads) for ps in (1, 2, 3, 5) for workers in (1, 2, 3, 4) for threads in (1, 2)]
        for ps, workers, threads in small if SHORT or SANITIZED else whole:
            with self.subTest(ps=ps, workers=workers, threads=threads):
                got = self.digest("--ps", ps, "--workers", workers, keys={"worker.threads": threads},
                                  out=self.tmp / f"{ps}-{workers}-{threads}")
                self.assertEqual(got, want)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_threads_of_the_ps_and_a_chief_of_its_own_change_nothing(self):
        want = self.undisturbed()
        self.assertEqual(self.digest("--ps=2", "--workers=2", keys={"ps.threads": 3}), want)
        self.assertEqual(self.digest("--chief", "--workers=2", out=self.tmp / "chief"), want)

    def disturbed(self, *names, sig=signal.SIGKILL, restarts=1, cut=1):
        """Signals the processes in mid-epoch; the job ends as if nothing had been."""
        job = self.launch("--ps=2", "--workers=3", keys=DISTURBED, out=self.tmp / "-".join(names))
        job.until_cut(cut)
        for name in names:
            job.kill(name, sig)
        s = job.wait().summary()
        self.assertGreaterEqual(s["restarts"], restarts, job.logs())
        self.assertEqual(s["digest"], self.want, job.logs())
        self.assertEqual({s["batches"][k] for k in ("dealt", "applied_min", "applied_max")}, {s["steps"]})
        return job

    def test_who_is_killed_in_mid_epoch_changes_nothing(self):
        self.want = self.undisturbed(keys=DISTURBED)
        whole = (("worker-1",), ("worker-0",), ("ps-0",), ("ps-1",), ("ps-0", "worker-1"), ("ps-1", "worker-0"),
                 ("worker-1", "worker-2"), ALL)
        for names in (("worker-1",), ("ps-0",), ALL) if SHORT or SANITIZED else whole:
            with self.subTest(names):
                job = self.disturbed(*names, restarts=len(names))
                if any(name.startswith("ps") for name in names):
                    self.assertRegex(job.log("worker-0"), r"generation \d+: resuming from checkpoint \d+")

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the kills")
    def test_who_is_told_to_go_alone_comes_back_and_changes_nothing(self):
        self.want = self.undisturbed(keys=DISTURBED)
        for name in ("worker-1", "ps-1", "worker-0"):
            with self.subTest(name):
                job = self.disturbed(name, sig=signal.SIGTERM)
                self.assertIn("asked to stop", job.log(name))
                self.assertIn(f"{name.replace('-', ' ')} exited with 143; starting it again", job.stderr())

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the kills")
    def test_kill_after_kill_changes_nothing(self):
        self.want = self.undisturbed(keys=DISTURBED)
        job = self.launch("--ps=2", "--workers=2", keys=DISTURBED)
        for cut, name in ((1, "worker-1"), (2, "ps-1"), (3, "worker-0"), (4, "ps-0")):
            job.until_cut(cut)
            job.kill(name)
            job.until_said("launcher", f"{name.replace('-', ' ')} killed by signal 9")
        s = job.wait().summary()
        self.assertEqual(s["restarts"], 4)
        self.assertEqual(s["digest"], self.want, job.logs())

    def test_a_job_that_is_stopped_goes_on_with_other_numbers_of_ps_and_workers(self):
        want = self.undisturbed(keys=DISTURBED)
        job = self.launch("--ps=2", "--workers=2", keys=DISTURBED)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        s = job.wait(143).summary()
        self.assertEqual((s["status"], s["exit_code"]), ("interrupted", 143))
        self.assertFalse(job.pids())
        steps = s["steps"]
        self.assertIn(f"step {steps}, is written; the next run continues from it", s["error"])
        job = self.launch("--ps=3", "--workers=1", keys=DISTURBED)
        job.until_said("worker-0", f"(step {steps})")  # it resumes from cut N
        job.until_cut(job.cuts()[-1] + 1)
        job.signal(signal.SIGINT)
        s = job.wait(130).summary()
        self.assertEqual((s["status"], s["exit_code"]), ("interrupted", 130))
        self.assertGreater(s["steps"], steps)
        s = self.train("--ps=1", "--workers=3", keys=DISTURBED).summary()
        self.assertEqual((s["digest"], s["status"], s["ps"], s["workers"]), (want, "done", 1, 3))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_launcher_that_is_killed_leaves_nobody_and_a_job_that_goes_on(self):
        want = self.undisturbed(keys=DISTURBED)
        job = self.launch(keys=DISTURBED)
        job.until_cut(1)
        pids = job.pids()
        job.signal(signal.SIGKILL)
        job.process.wait()
        self.lock_is_free()
        self.gone(pids.values())
        self.assertEqual(self.digest("--ps=3", keys=DISTURBED), want)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_summary_has_what_is_promised(self):
        job = self.train("--ps=2", "--workers=2")
        s = job.summary()
        self.assertEqual({k: s[k] for k in ("status", "exit_code", "error", "job", "update", "ps", "workers",
                                            "microbatches", "steps", "epochs", "restarts", "exact")},
                         {"status": "done", "exit_code": 0, "error": None, "job": "mnist-mlp", "update": "sync",
                          "ps": 2, "workers": 2, "microbatches": 4, "steps": 32, "epochs": 1, "restarts": 0,
                          "exact": True})
        self.assertEqual(s["batches"], {"dealt": 32, "applied_min": 32, "applied_max": 32, "duplicates": 0, "lost": 0,
                                        "clipped": 0, "dropped": 0, "redone": 0, "rejected": 0, "recoveries": 0})
        self.assertEqual(set(s["peak_rss_bytes"]), {"ps 0", "ps 1", "worker 0", "worker 1"})
        self.assertEqual((set(s["train"]), set(s["eval"])), ({"loss", "accuracy"},) * 2)
        for value in (s["examples_per_s"], s["seconds"], s["first_step_s"], s["eval"]["accuracy"], s["train"]["loss"]):
            self.assertGreater(value, 0)
        self.assertAlmostEqual(s["learning_rate"], 0.001)
        self.assertRegex(s["digest"], "^[0-9a-f]{64}$")
        for path in ("model/weights.safetensors", "model/job.yaml", "processes/ps-1.log", "lock"):
            self.assertTrue((job.out / path).exists(), path)
        self.assertFalse((job.out / "processes/pids").exists())


if __name__ == "__main__":
    unittest.main()
