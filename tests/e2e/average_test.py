#!/usr/bin/env python3
"""The moving average of the weights (use_ema): what is evaluated, kept and exported, with the same bits for any split of
the job, whoever dies, and from a checkpoint."""
import pathlib
import shutil
import signal
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, TSAN, TrainCase, slow  # noqa: E402

EMA = {"optimizer": "{adam: {use_ema: true, ema_momentum: 0.9, ema_overwrite_frequency: 7}}", "training.epochs": 2}

# One dense unit whose every parameter has a gradient of 1 for each example: each update takes RATE off all of them.
FEATURES, BATCH, BATCHES, EPOCHS, RATE, START, MOMENTUM = 7, 8, 4, 3, 0.125, 1024.0, 0.75
ONE = f"""name: one
model:
  input: {{shape: [{FEATURES}]}}
  layers:
    - dense: {{units: 1, kernel_initializer: {{constant: {START}}}, bias_initializer: {{constant: {START}}}}}
  loss: mean_absolute_error
data: {{format: idx, train: [x.idx, y.idx], eval: [x.idx, y.idx]}}
optimizer: {{sgd: {{use_ema: true, ema_momentum: {MOMENTUM}}}}}
training: {{epochs: {EPOCHS}, batch_size: {BATCH}, microbatches: 2, learning_rate: {RATE}}}
"""


def idx(path, shape, value):
    path.write_bytes(bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) +
                     bytes([value]) * (BATCH * BATCHES * FEATURES if len(shape) > 1 else BATCH * BATCHES))


def rounded(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def averages():
    """Of Keras: the first update's weights, then momentum of the average and the rest of the weights."""
    w, average = START - RATE, START - RATE
    yield average
    while True:
        w -= RATE
        average = rounded(rounded(average * MOMENTUM) + rounded(w * (1 - MOMENTUM)))
        yield average


class AverageTest(TrainCase):
    def one(self, **more):
        idx(self.tmp / "x.idx", (BATCH * BATCHES, FEATURES), 1)
        idx(self.tmp / "y.idx", (BATCH * BATCHES,), 0)
        (self.tmp / "one.yaml").write_text(ONE)
        return {"job": self.tmp / "one.yaml", "keys": {**dict.fromkeys(self.KEYS), **more}}

    def test_averages_are_what_is_evaluated_and_exported(self):
        following = averages()
        want = [next(following) for _ in range(BATCHES * EPOCHS)]
        for update in "sync", "async", "ssp":
            with self.subTest(update):
                out = self.tmp / update
                s = self.train("--ps=2", "--workers=1", out=out, **self.one(**{"training.update": update})).summary()
                data = (out / "model/weights.safetensors").read_bytes()
                values = struct.unpack(f"<{FEATURES + 1}f", data[-4 * (FEATURES + 1):])
                self.assertEqual(set(values), {want[-1]})
                self.assertTrue(s["averaged"])
                self.assertEqual(s["history"][-1]["eval"]["loss"], s["eval"]["loss"])
                epochs = s["history"] if update == "sync" else s["history"][-1:]  # others may be evaluated late
                for got, average in zip(epochs[::-1], want[::-BATCHES]):  # of an update to the next: 1
                    self.assertAlmostEqual(got["eval"]["loss"], (FEATURES + 1) * average, delta=0.01)

    def test_the_digest_is_the_same_for_any_split_and_when_a_finished_job_is_completed(self):
        want = self.undisturbed(keys=EMA)
        self.assertNotEqual(want, self.digest(keys={"training.epochs": 2, "optimizer": "adam"}, out=self.tmp / "plain"))
        for ps, workers in ((2, 3),) if SHORT or SANITIZED else ((2, 3), (3, 2)):
            self.assertEqual(self.digest("--ps", ps, "--workers", workers, "--fresh", keys=EMA), want)
        shutil.rmtree(self.out / "model")
        self.assertEqual(self.digest(keys=EMA), want)
        self.assertTrue((self.out / "model/weights.safetensors").exists())

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_neither_a_chief_s_death_nor_other_numbers_of_ps_change_it(self):
        keys = {**EMA, "data.synthetic_train_rows": 16000, "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0,
                "training.clip_norm": 0.5}
        want = self.undisturbed(keys=keys)
        job = self.launch("--ps=2", "--workers=2", *slow(0.005), keys=keys)
        job.until_cut(1)
        job.kill("worker-0", signal.SIGKILL)
        job.until_cut(3)
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertEqual(self.digest("--ps=3", "--workers=1", keys=keys), want)

    def test_the_best_epoch_s_averages_are_kept(self):
        s = self.train(keys={**EMA, "training.monitor": "loss"}).summary()
        self.assertEqual(s["history"][-1]["eval"]["loss"], min(h["eval"]["loss"] for h in s["history"]))
        best, model = ((self.out / of / "weights.safetensors").read_bytes() for of in ("best", "model"))
        size = struct.unpack("<Q", model[:8])[0]
        self.assertTrue(best.endswith(model[8 + size:]))

    def test_in_geo_they_are_refused(self):
        self.assertIn("optimizer.adam.use_ema: with training.update: geo",
                      self.train(code=2, keys={**EMA, "training.update": "geo"}).stderr())


if __name__ == "__main__":
    unittest.main()
