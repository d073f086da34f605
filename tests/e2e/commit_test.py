#!/usr/bin/env python3
# labels: short
"""The step commit: one decision for all shards. Clipping by the global norm changes nothing of sync's bit-for-bit
promise; in async each batch is clipped at its worker. The NaN guard keeps what is not finite out of the parameters."""
import pathlib
import re
import signal
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import LONG_ROWS, SANITIZED, SHORT, TSAN, TrainCase  # noqa: E402

CLIP = {"training.clip_norm": 0.5}
DISTURBED = {**CLIP, "data.synthetic_train_rows": LONG_ROWS, "training.epochs": 4,
             "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0}

# One dense unit whose every parameter has a gradient of 1 for each example: the norm of the mean is exactly 64.
FEATURES, BATCH, BATCHES, RATE, START = 4095, 8, 64, 0.125, 1024.0
ONE = f"""name: one
model:
  input: {{shape: [{FEATURES}]}}
  layers:
    - dense: {{units: 1, kernel_initializer: {{constant: {START}}}, bias_initializer: {{constant: {START}}}}}
  loss: mean_absolute_error
data: {{format: idx, train: [x.idx, y.idx]}}
optimizer: sgd
training: {{epochs: 1, batch_size: {BATCH}, microbatches: 2, learning_rate: {RATE}}}
"""


def idx(path, type_code, shape, values):
    path.write_bytes(bytes((0, 0, type_code, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + values)


class ClipTest(TrainCase):
    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_digest_is_the_same_for_any_number_of_ps_and_workers(self):
        want = self.undisturbed(keys=CLIP)
        self.assertNotEqual(want, self.digest("--ps=1", "--workers=1", out=self.tmp / "free"))
        small = ((2, 2, 2), (3, 4, 1))
        whole = [(ps, workers, threads) for ps in (1, 2, 3) for workers in (1, 2, 3, 4) for threads in (1, 2)]
        for ps, workers, threads in small if SHORT or SANITIZED else whole:
            with self.subTest(ps=ps, workers=workers, threads=threads):
                got = self.digest("--ps", ps, "--workers", workers, keys={**CLIP, "ps.threads": threads},
                                  out=self.tmp / f"{ps}-{workers}-{threads}")
                self.assertEqual(got, want)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_lamb_and_accumulated_gradients_are_clipped_alike_on_all_shards(self):
        for name, keys in (("lamb", {"optimizer": "lamb"}), ("accumulated", {"training.gradient_accumulation_steps": 3}),
                           ("both", {"optimizer": "lamb", "training.gradient_accumulation_steps": 2})):
            with self.subTest(name):
                want = self.digest("--ps=1", "--workers=1", keys={**CLIP, **keys}, out=self.tmp / name)
                s = self.train("--ps=3", "--workers=2", keys={**CLIP, **keys}, out=self.tmp / f"{name}-3").summary()
                self.assertEqual(s["digest"], want)
                self.assertGreater(s["batches"]["clipped"], 0)
                self.assertNotEqual(want, self.digest(keys=keys, out=self.tmp / f"{name}-free"))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_bound_that_is_never_reached_changes_nothing(self):
        want = self.undisturbed()
        self.assertEqual(self.digest("--ps=2", "--workers=2", keys={"training.clip_norm": 1e9}), want)

    def test_who_is_killed_in_the_middle_of_a_round_changes_nothing(self):
        want = self.undisturbed(keys=DISTURBED)
        for name in ("worker-0",) if SHORT or SANITIZED else ("worker-0", "ps-1", "worker-1"):
            with self.subTest(name):
                job = self.launch("--ps=2", "--workers=3", keys=DISTURBED, out=self.tmp / name)
                job.until_cut(1)
                job.kill(name, signal.SIGKILL)
                s = job.wait().summary()
                self.assertEqual(s["restarts"], 1)
                self.assertEqual(s["digest"], want, job.logs())


class NanTest(TrainCase):
    """The NaN guard. --fault breaks batches of one worker; the oracle of sync is the same job with the same batches
    broken on one worker."""
    KEYS = {**TrainCase.KEYS, "timeouts.worker_rejoin_s": 100}  # the job waits for the worker that breaks batches
    SKIP = {"training.nan_guard": "skip"}
    LONG = {"data.synthetic_train_rows": LONG_ROWS, "training.epochs": 2, "checkpoint.every_steps": 20,
            "checkpoint.every_seconds": 0}

    def journal(self, out=None):
        lines = ((out or self.out) / "checkpoints/journal").read_text().splitlines()
        return [line for line in lines if line.split()[1] not in ("blas", "name")]  # each begins with its checksum

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_without_the_guard_a_nan_reaches_the_parameters(self):
        s = self.train("--workers=2", "--fault=worker-1=nan:7", code=1, keys={"training.nan_guard": "off"}).summary()
        self.assertIsNone(s["train"]["loss"])
        self.assertEqual(s["batches"]["rejected"], 0)

    def test_skip_rejects_the_step_on_all_shards(self):
        want = None
        for ps, workers, broken in ((1, 1, 0), (2, 2, 1), (3, 4, 2)):
            with self.subTest(ps=ps, workers=workers):
                out = self.tmp / f"{ps}-{workers}"
                s = self.train("--ps", ps, "--workers", workers, f"--fault=worker-{broken}=nan:7-8", keys=self.SKIP,
                               out=out).summary()
                self.assertEqual(s["batches"]["rejected"], 2)
                self.assertEqual(s["batches"]["recoveries"], 0)
                self.assertTrue(s["exact"])
                self.assertIsNotNone(s["train"]["loss"])
                want = want or s["digest"]
                self.assertEqual(s["digest"], want)
                self.assertIn("rejected batch 7 ", self.journal(out)[0])
        self.assertNotEqual(self.undisturbed(keys=self.SKIP), want)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_guard_that_finds_nothing_changes_nothing(self):
        want = self.undisturbed()
        self.assertEqual(self.digest("--workers=2", keys={"training.nan_guard": "rollback"}), want)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_stop_ends_the_job_and_names_tensor_and_step(self):
        for update, unit in ("sync", "step"), ("async", "batch"):
            with self.subTest(update):
                out = self.tmp / update
                job = self.train("--workers=2", "--fault=worker-0=nan:0-63", "--fault=worker-1=nan:0-63", code=1,
                                 out=out, keys={"training.nan_guard": "stop", "training.update": update})
                s = job.summary()
                self.assertEqual(s["status"], "failed")
                self.assertRegex(s["error"], unit + r" \d+: the gradient of \S+/kernel is not finite "
                                                    r"\(training.nan_guard: stop\)")

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_too_many_in_a_row_end_the_job_and_name_the_tensor(self):
        job = self.train("--workers=2", "--fault=worker-1=nan:5-60", code=1,
                         keys={**self.SKIP, "training.max_rejected": 4})
        self.assertRegex(job.summary()["error"], r"step 8: the gradient of \S+/kernel is not finite; 4 in a row")
        self.assertEqual(len(self.journal()), 4)

    def test_rollback_goes_back_to_the_last_cut_and_skips_the_batch(self):
        at = 60 if SANITIZED else 200
        fault = f"--fault=worker-1=nan:{at}"
        want = self.digest("--workers=2", fault, out=self.tmp / "skip", keys={**self.LONG, **self.SKIP})
        job = self.train("--ps=2", "--workers=3", fault, keys={**self.LONG, "training.nan_guard": "rollback"})
        s = job.summary()
        self.assertEqual(s["digest"], want, job.logs())
        self.assertEqual((s["batches"]["recoveries"], s["batches"]["rejected"], s["restarts"]), (1, 1, 0))
        self.assertRegex(job.log("worker-0"), r"rolling back to the last checkpoint[\s\S]* generation \d+: resuming from checkpoint \d+ \(step")
        self.assertEqual(len(self.journal()), 1)
        self.assertIn(f"recovered batch {at} ", self.journal()[0])

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_too_many_recoveries_end_the_job_for_good(self):
        keys = {"training.nan_guard": "rollback", "training.max_recoveries": 2, "checkpoint.every_steps": 100000}
        for again in range(2):  # the journal stays: to begin again does not give it three more
            job = self.train("--workers=2", "--fault=worker-1=nan:5-60", code=1, keys=keys)
            self.assertRegex(job.summary()["error"], r"after 2 recoveries from (checkpoint \d+|the first weights .*) \(training")
            # Where the disk is slow, those from the initial values ("none") come first, or are all that there are.
            cuts = re.findall(r" cut (\w+): ", "\n".join(self.journal()))
            self.assertEqual(cuts.count(cuts[-1]), 2, self.journal())
            self.assertLessEqual(len(cuts), 2 * len(set(cuts)), self.journal())

    def test_a_damaged_line_of_the_journal_makes_the_job_inexact_and_an_incomplete_one_does_not(self):
        journal = self.out / "checkpoints/journal"
        self.train(keys={"training.epochs": 1})
        whole = journal.read_bytes()
        journal.write_bytes(whole + whole.splitlines()[-1][:-3])  # a chief was killed while it wrote this line
        job = self.train(keys={"training.epochs": 2})
        self.assertEqual((job.summary()["exact"], job.summary()["inexact"]), (True, None))
        self.assertIn(f" warn worker 0: {journal}:{len(whole.splitlines()) + 1}: the last line is incomplete: ", job.log("worker-0"))
        damaged = bytearray(whole)
        damaged[12] ^= 1
        journal.write_bytes(damaged)
        inexact = (False, "line 1 of checkpoints/journal was damaged when the job started again")
        for epochs in 2, 3, 4:  # it is done; then it continues; then the journal has a line about it, too
            job = self.train(keys={"training.epochs": epochs})
            self.assertEqual((job.summary()["exact"], job.summary()["inexact"]), inexact)
            self.assertIn(f" warn worker 0: {journal}:1: the line is damaged: it is skipped, and this job is not exact any more ",
                          job.log("worker-0"))

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the rollback")
    def test_who_dies_while_steps_are_rejected_changes_nothing(self):
        fault = "--fault=worker-1=nan:30-35"
        want = self.digest("--workers=2", fault, out=self.tmp / "want", keys={**self.LONG, **self.SKIP})
        for name in "worker-0", "ps-1":
            with self.subTest(name):
                job = self.launch("--ps=2", "--workers=2", fault, keys={**self.LONG, **self.SKIP}, out=self.tmp / name)
                job.until_said("worker-0", "step 31: ")
                job.kill(name)
                s = job.wait().summary()
                self.assertEqual(s["digest"], want, job.logs())
                self.assertEqual(s["batches"]["rejected"], 6)


class FaultTest(TrainCase):
    def test_a_fault_that_cannot_be_is_refused(self):
        job = self.train("--workers=2", "--fault=worker-1=limp:3", code=2)
        self.assertIn("allowed, for tests and benchmarks: nan:BATCH", job.stderr())
        for fault in "worker-2=nan:1", "ps-0=nan:1", "nan:1":
            self.train("--workers=2", f"--fault={fault}", code=2)

    def test_a_straggler_changes_nothing_in_sync(self):
        want = self.undisturbed()
        self.assertEqual(self.digest("--workers=2", "--fault=worker-1=straggle:3"), want)


class OneTest(TrainCase):
    KEYS = {}

    def setUp(self):
        super().setUp()
        rows = BATCH * BATCHES
        idx(self.tmp / "x.idx", 8, (rows, FEATURES), b"\1" * (rows * FEATURES))
        idx(self.tmp / "y.idx", 8, (rows,), bytes(rows))
        self.job = self.tmp / "one.yaml"
        self.job.write_text(ONE)

    def weights(self, out=None):
        """The set of all parameters."""
        data = ((out or self.out) / "model/weights.safetensors").read_bytes()
        head_bytes = struct.unpack("<Q", data[:8])[0]
        body = data[8 + head_bytes:]
        return set(struct.unpack(f"<{len(body) // 4}f", body))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_norm_is_that_of_the_whole_mean_gradient(self):
        for update in "sync", "async":
            for clip, scale in ((16, 0.25), (64, 1), (0, 1)):
                with self.subTest(update=update, clip=clip):
                    out = self.tmp / f"{update}-{clip}"
                    self.train("--ps=2", "--workers=2", job=self.job, out=out,
                               keys={"training.update": update, "training.clip_norm": clip})
                    self.assertEqual(self.weights(out), {START - RATE * scale * BATCHES})
                    self.assertEqual(self.summary(out)["batches"]["clipped"], BATCHES if scale < 1 else 0)

    def test_async_resolves_a_rejected_batch_and_does_not_learn_it(self):
        """The worker that computes a broken batch pushes it as one without examples; after a rollback it is skipped."""
        for policy, recoveries in ("skip", 0), ("rollback", 3):
            with self.subTest(policy):
                out = self.tmp / policy
                job = self.train("--ps=2", "--workers=2", "--fault=worker-0=nan:9-11", "--fault=worker-1=nan:9-11",
                                 job=self.job, out=out, keys={"training.update": "async", "training.nan_guard": policy})
                s = job.summary()
                self.assertEqual(s["batches"]["rejected"], 3, job.logs())
                self.assertLessEqual(s["batches"]["recoveries"], recoveries)
                self.assertEqual({s["batches"][k] for k in ("dealt", "applied_min", "applied_max")}, {BATCHES})
                self.assertEqual(self.weights(out), {START - RATE * (BATCHES - 3)})


if __name__ == "__main__":
    unittest.main()
