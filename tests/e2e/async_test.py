#!/usr/bin/env python3
# labels: short
"""Async: every batch is applied exactly once on every shard, whoever dies. Where the gradient is 1 and the optimizer is
sgd, the weights say so themselves: each is its first value less rate times batches."""
import json
import os
import pathlib
import signal
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, TSAN, TrainCase  # noqa: E402

FEATURES, BATCH, START, RATE = 1500, 8, 1024.0, 0.125
BATCHES = 256 if TSAN else 1024  # of an epoch
EPOCHS = 3

# Inputs are 1 and labels 0: the output is far above them, so each example's gradient is 1 for every parameter.
ONE = f"""name: one
model:
  input: {{shape: [{FEATURES}]}}
  layers:
    - dense: {{units: 1, kernel_initializer: {{constant: {START}}}, bias_initializer: {{constant: {START}}}}}
  loss: mean_absolute_error
data: {{format: idx, train: [x.idx, y.idx]}}
optimizer: sgd
training: {{epochs: {EPOCHS}, batch_size: {BATCH}, microbatches: 2, learning_rate: {RATE}, update: async}}
checkpoint: {{every_steps: 20, every_seconds: 0}}
timeouts: {{worker_rejoin_s: 2}}
"""
ALL = ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2")


def idx(path, type_code, shape, values):
    path.write_bytes(bytes((0, 0, type_code, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + values)


def tensors(path):
    """{name: its floats} of a safetensors file."""
    data = path.read_bytes()
    head_bytes = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + head_bytes])
    return {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                data[8 + head_bytes + t["data_offsets"][0]:8 + head_bytes + t["data_offsets"][1]])
            for name, t in head.items() if name != "__metadata__"}


class AsyncTest(TrainCase):
    KEYS = {}

    def setUp(self):
        super().setUp()
        rows = BATCH * BATCHES
        idx(self.tmp / "x.idx", 8, (rows, FEATURES), b"\1" * (rows * FEATURES))
        idx(self.tmp / "y.idx", 8, (rows,), bytes(rows))
        self.job = self.tmp / "one.yaml"
        self.job.write_text(ONE)

    def assert_each_batch_counts_once(self, job, epochs=EPOCHS):
        total = epochs * BATCHES
        s = job.summary()
        self.assertEqual((s["status"], s["update"], s["steps"], s["exact"]), ("done", "async", total, False))
        self.assertEqual([s["batches"][k] for k in ("dealt", "applied_min", "applied_max")], [total] * 3, job.logs())
        stale = s["staleness"]
        self.assertLessEqual(stale["mean"], stale["max"])
        self.assertEqual([len(w["histogram"]) for w in stale["workers"] if w["max"] == stale["max"]][:1],
                         [len(stale["from"])])
        learned = tensors(job.out / "model/weights.safetensors")
        self.assertEqual({name: len(values) for name, values in learned.items()},
                         {"dense/kernel": FEATURES, "dense/bias": 1})
        want = {START - RATE * total}
        self.assertEqual({w for values in learned.values() for w in values}, want, job.logs())

    def disturbed(self, *names, sig=signal.SIGKILL):
        job = self.launch("--ps=2", "--workers=3", job=self.job, out=self.tmp / "-".join(names))
        job.until_cut(1)
        for name in names:
            job.kill(name, sig)
        self.assertGreaterEqual(job.wait().summary()["restarts"], len(names), job.logs())
        self.assert_each_batch_counts_once(job)

    def test_undisturbed(self):
        for ps, workers in ((1, 1), (3, 4)):
            with self.subTest(ps=ps, workers=workers):
                # A slow chief: however late the others come, it has not learned all of it alone.
                slow = ["--fault=worker-0=sleep:0.02"] if workers > 1 else []
                job = self.train("--ps", ps, "--workers", workers, *slow, job=self.job, out=self.tmp / f"{ps}-{workers}")
                self.assert_each_batch_counts_once(job)
                stale = job.summary()["staleness"]
                counted = sum(sum(w["histogram"]) for w in stale["workers"])  # once a batch on each shard
                self.assertEqual((counted > 0, counted % (EPOCHS * BATCHES)), (True, 0))
                did = {w["worker"] for w in job.summary()["per_worker"] if w["tasks"]}
                heard = [w["worker"] for w in stale["workers"]]
                self.assertEqual((did - set(heard), heard), (set(), sorted(heard)))
                self.assertLessEqual(set(heard), set(range(workers)))
                if workers == 1:
                    self.assertEqual((stale["mean"], stale["max"], stale["from"]), (0, 0, [0]))
                else:
                    self.assertGreater(stale["max"], 0)

    def test_each_batch_counts_once_whoever_is_killed(self):
        whole = (("worker-1",), ("worker-0",), ("ps-0",), ("ps-1",), ("ps-0", "worker-1"), ("ps-1", "worker-0"), ALL)
        for names in (("worker-1",), ("ps-0",)) if SHORT or SANITIZED else whole:
            with self.subTest(names):
                self.disturbed(*names)

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the kills")
    def test_each_batch_counts_once_whoever_is_told_to_go_alone(self):
        for name in ("worker-1", "ps-1", "worker-0"):
            with self.subTest(name):
                self.disturbed(name, sig=signal.SIGTERM)

    @unittest.skipIf(SHORT or SANITIZED, "a cut waits 10 s for the worker")
    def test_a_worker_that_missed_a_cut_goes_on_in_the_same_process(self):
        job = self.launch("--ps=2", "--workers=2", "--fault=worker-0=sleep:0.005", job=self.job)
        job.until_cut(1)
        pid = job.kill("worker-1", signal.SIGSTOP)
        job.until_said("worker-0", "worker 1 did not pause for checkpoint")
        job.kill("worker-1", signal.SIGCONT)
        job.until_said("worker-1", "asking the chief again")
        job.until_said("worker-1", "generation 1: ", times=2)
        self.assertEqual(job.pids()["worker-1"], pid)
        self.assertEqual(job.wait().summary()["restarts"], 0, job.logs())
        self.assert_each_batch_counts_once(job)

    def test_each_epoch_is_evaluated_however_short_it_is(self):
        # Of 8 batches: a worker that trains alone gets none of the next ones before it has heard that an epoch is over.
        for update in ("async", "ssp"):
            keys = {"training.update": update, "training.epochs": 30, "training.batch_size": 4, "training.microbatches": 1,
                    "data.synthetic_train_rows": 32, "data.synthetic_eval_rows": 4, "model.layers": "[flatten, dense: 10]"}
            job = self.train("--ps=1", "--workers=1", job=None, keys=keys, out=self.tmp / update)
            self.assertEqual([h["epoch"] for h in job.summary()["history"]], list(range(1, 31)), job.logs())

    @unittest.skipIf(SANITIZED, "a large model")
    def test_after_a_rollback_from_its_end_epochs_are_evaluated_again(self):
        keys = {"training.update": "async", "training.epochs": 2, "data.synthetic_train_rows": 256,
                "data.synthetic_eval_rows": 20, "training.microbatches": 1, "checkpoint.every_steps": 1000,
                "model.layers": "[flatten, dense: 6000, dense: 10]"}  # large: the final cut takes its time
        for attempt in range(4):  # on a loaded machine it may be published before the kill
            job = self.launch("--ps=2", "--workers=1", job=None, keys=keys, out=self.tmp / f"end-{attempt}")
            job.until_said("worker-0", "epoch 2/2:")
            if pid := job.pids().get("ps-1"):
                os.kill(pid, signal.SIGKILL)
            s = job.wait().summary()
            if job.log("worker-0").count("epoch 1/2:") > 1:
                break
        self.assertEqual((s["restarts"], [h["epoch"] for h in s["history"]]), (1, [1, 2]), job.logs())
        self.assertEqual(job.log("worker-0").count("epoch 1/2:"), 2, job.logs())
        self.assertEqual(len(s["digest"]), 64)

    def test_each_batch_counts_once_over_stops_and_other_numbers_of_ps_and_workers(self):
        job = self.launch("--ps=2", "--workers=3", job=self.job)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        s = job.wait(143).summary()
        self.assertEqual(s["batches"]["applied_min"], s["batches"]["applied_max"], job.logs())
        self.assertLess(s["steps"], EPOCHS * BATCHES)
        job = self.train("--ps=3", "--workers=2", job=self.job)
        self.assert_each_batch_counts_once(job)
        job = self.train("--ps=1", "--workers=1", "--set=training.epochs=4", job=self.job)
        self.assert_each_batch_counts_once(job, epochs=4)


if __name__ == "__main__":
    unittest.main()
