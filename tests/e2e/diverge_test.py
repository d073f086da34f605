#!/usr/bin/env python3
# labels: short
"""A job that diverges is no success: by default it ends with 1 and names step and tensor; without the guard it trains on,
shows its results, and ends with 1, too. Files that an earlier end wrote to model/ stay."""
import math
import pathlib
import shutil
import struct
import sys
import unittest
import zlib

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("lib", "compare")]
import cut  # noqa: E402
from cluster import SANITIZED, SHORT, TSAN, TrainCase  # noqa: E402
from tfevents import Run  # noqa: E402

BATCHES = 2000 // 64 + 1
CHECK = r"\(training\.nan_guard: check\)"
MODES = ("sync", "async", "ssp", "geo")
NO_CUTS = {"checkpoint.every_steps": 0, "checkpoint.every_seconds": 0}  # that come before the last one and find it first


class DivergeTestCase(TrainCase):
    def fails(self, *flags, **options):
        """Trains to a failed end; returns the launched job and what its summary says."""
        job = self.train(*flags, code=1, **options)
        s = job.summary()
        self.assertEqual((s["status"], s["exit_code"]), ("failed", 1))
        return job, s


class DivergeTest(DivergeTestCase):
    # the job waits for the worker that breaks a batch
    KEYS = {**TrainCase.KEYS, **NO_CUTS, "training.batch_size": 64, "timeouts.worker_rejoin_s": 100}
    FAR = {"optimizer": "sgd", "training.learning_rate": 1e30}
    OFF = {"training.nan_guard": "off"}

    def test_a_rate_that_is_far_too_high_ends_the_job_in_every_mode(self):
        for update in MODES[::3] if SHORT or SANITIZED else MODES:
            with self.subTest(update):
                out = self.tmp / update
                job, s = self.fails("--ps=2", "--workers=2", keys={**self.FAR, "training.update": update}, out=out)
                self.assertRegex(s["error"], r"^(step|batch) \d+: the loss is not finite(, nor is the tensor|; the gradient of) \S+/\S+.* " + CHECK)
                self.assertFalse((out / "model").exists())
                self.assertIsNone(s["digest"])
                self.assertIn(s["error"], job.stderr())

    def test_at_the_first_steps_it_is_not_the_learning_rate_that_is_blamed(self):
        (self.tmp / "rows.csv").write_text("0.5,0,1\n-0.5,1,1\n" * 20)
        (self.tmp / "heavy.csv").write_text("0.5,0,3e38\n-0.5,1,3e38\n" * 20)
        look = "look for too large numbers or weights of rows in the data, and for too large first weights"
        for step, data, most, advice in ((0, "rows", 1e38, f"no update was made yet, so the learning rate is not the cause: {look}"),
                                         (1, "heavy", 1, f"{look}, or an optimizer's epsilon of 0; otherwise lower ")):
            first = f"{{units: 1, kernel_initializer: {{random_uniform: {{minval: {-most:g}, maxval: {most:g}}}}}}}"
            (self.tmp / "early.yaml").write_text(f"""name: early
data: {{format: csv, train: {data}.csv, eval: rows.csv, columns: [number: x, label: y, weight: w]}}
model: {{input: {{shape: auto}}, loss: mean_squared_error, layers: [dense: {first}, dense: {first}]}}
training: {{batch_size: 40, epochs: 3}}
optimizer: adam
""")
            _, s = self.fails("--workers=1", job=self.tmp / "early.yaml", keys=dict.fromkeys(self.KEYS), out=self.tmp / data)
            self.assertRegex(s["error"], rf"^step {step}: the loss( of the evaluation)? is not finite[^(]* {CHECK}; {advice}")

    def test_a_loss_names_the_weight_that_is_not_finite(self):
        _, s = self.fails("--workers=2", "--fault=worker-1=nan:7")
        self.assertRegex(s["error"], r"^step 8: the loss is not finite, nor is the tensor \S+/kernel " + CHECK)

    def test_what_was_published_before_is_finite_and_the_job_goes_on_from_it(self):
        keys = {"checkpoint.every_steps": 1, "checkpoint.every_seconds": 0, "training.epochs": 2}
        self.fails("--workers=2", "--fault=worker-1=nan:40", keys=keys)
        s = self.train("--workers=2", keys=keys).summary()
        self.assertEqual((s["status"], s["steps"]), ("done", 2 * BATCHES))
        self.assertEqual(s["digest"], self.undisturbed(keys={"training.epochs": 2}))

    def test_without_the_guard_it_trains_on_and_fails_and_model_stays(self):
        first = self.train("--workers=2", keys={"optimizer": "sgd"}).summary()
        self.assertEqual(first["status"], "done")
        path = self.out / "model/weights.safetensors"
        was = path.read_bytes()
        job, s = self.fails("--workers=2", f"--fault=worker-1=nan:{BATCHES + 3}",
                            keys={"optimizer": "sgd", "training.epochs": 3, **self.OFF})
        self.assertEqual((s["steps"], s["epochs"]), (3 * BATCHES, 3))
        self.assertRegex(s["error"], rf"^step {3 * BATCHES}: .* not finite.* \(training\.nan_guard: off\)")
        self.assertEqual(path.read_bytes(), was)
        self.assertRegex(job.stderr(), r"epoch 3/3 done.*: loss -?nan")
        self.assertRegex(job.log("worker-0"), r"epoch 3/3: loss -?nan")
        self.train("--workers=2", keys={"optimizer": "sgd", "training.epochs": 3, **self.OFF})
        self.assertNotEqual(path.read_bytes(), was)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_guard_changes_no_bit_of_a_healthy_job(self):
        want = self.undisturbed(keys=self.OFF)
        self.assertEqual(self.digest("--ps=2", "--workers=2"), want)


class EarlierTest(DivergeTestCase):
    """0.1.0 published final checkpoints that are not finite. (unit/ended_test has weights and rows.)"""
    EVAL, LOSS = 15, 1

    def break_evaluation(self, path):
        """Gives a manifest an evaluation whose loss is NaN: a field that comes again is joined to what was there."""
        data = path.read_bytes()
        nan = bytes([self.LOSS << 3 | cut.FIXED64]) + struct.pack("<d", float("nan"))
        head = data[cut.MAGIC_BYTES:-cut.TAIL.size] + bytes([self.EVAL << 3 | cut.BYTES, len(nan)]) + nan
        magic = data[:cut.MAGIC_BYTES]
        path.write_bytes(magic + head + cut.TAIL.pack(len(head), zlib.crc32(head), magic))

    def test_a_finished_job_that_is_not_finite_has_failed_when_it_is_run_again(self):
        keys = {"checkpoint.every_steps": BATCHES - 2, "checkpoint.every_seconds": 0}
        first = self.train(keys=keys).summary()
        final = sorted((self.out / "checkpoints").glob("cut-*/manifest.gw"))[-1]
        self.break_evaluation(final)
        model = (self.out / "model/weights.safetensors").read_bytes()
        job, s = self.fails(keys=keys)
        self.assertRegex(s["error"], rf"^step {BATCHES}: the loss of the evaluation is not finite in the job's final checkpoint: "
                                     rf"nothing was trained; .*--fresh.*remove checkpoints/{final.parent.name} to resume")
        self.assertIn(s["error"], job.stderr())
        self.assertNotIn("nothing was trained: training.epochs", job.stderr())
        self.assertEqual((s["steps"], s["digest"], len(s["history"])), (BATCHES, None, 1))
        self.assertEqual((self.out / "model/weights.safetensors").read_bytes(), model)
        shutil.rmtree(final.parent)
        self.assertEqual(self.train(keys=keys).summary()["digest"], first["digest"])


class WeightTest(DivergeTestCase):
    """No loss shows it, and nothing is evaluated: only the cut can find it."""
    KEYS = NO_CUTS
    LINE = """name: line
model:
  input: {shape: [4]}
  layers: [dense: 1]
  loss: mean_absolute_error
data: {format: csv, train: line.csv, columns: [label: y, number: a, number: b, number: c, number: d]}
optimizer: sgd
training: {epochs: 1, batch_size: 8, microbatches: 2, learning_rate: 0.001}
"""
    TABLE = """name: table
model:
  input: {shape: auto}
  layers: [linear: {inputs: [key], name: wide}]
  loss: mean_squared_error
tables: {wide: {optimizer: {sgd: {learning_rate: 0.001}}}}
data: {format: csv, train: table.csv, columns: [label: y, key: key]}
optimizer: {sgd: {learning_rate: 1.0e-6}}
training: {epochs: 1, batch_size: 8, microbatches: 2}
"""

    def setUp(self):
        super().setUp()
        self.job = self.tmp / "job.yaml"
        (self.tmp / "line.csv").write_text("1,1,2,3,4\n" * 64)
        (self.tmp / "table.csv").write_text("".join(f"1e10,k{i}\n" for i in range(64)))

    def test_a_weight_is_found_by_the_last_cut_in_every_mode(self):
        self.job.write_text(self.LINE)
        for update in MODES[::3] if SHORT or SANITIZED else MODES:
            with self.subTest(update):
                out = self.tmp / update
                _, s = self.fails("--ps=2", "--workers=1", "--fault=worker-0=nan:7", job=self.job, out=out,
                                  keys={"training.update": update})
                self.assertRegex(s["error"], r"^(step|batch) 8: the tensor dense/kernel is not finite " + CHECK)
                self.assertIsNotNone(s["train"]["loss"])
                self.assertFalse((out / "model").exists())
                again = self.train("--ps=2", "--workers=1", job=self.job, out=out, keys={"training.update": update})
                self.assertIn("resuming from checkpoint 0", again.log("worker-0"))
                self.assertTrue((out / "model/weights.safetensors").exists())

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_batch_that_async_rejects_is_in_no_curve(self):
        self.job.write_text(self.LINE)
        (self.tmp / "line.csv").write_text(("1,1,2,3,4\n" * 15 + "3e38,1,2,3,4\n") * 4)
        keys = {"training.update": "async", "training.nan_guard": "skip", "model.loss": "mean_squared_error", "training.batch_size": 2}
        job = self.train("--ps=1", "--workers=1", "--fault=worker-0=sleep:0.05", job=self.job, keys=keys)
        self.assertEqual(job.summary()["batches"]["rejected"], 4)  # of 32, and a point is of some 20
        losses = Run(job.out / "logs/train").scalars["batch_loss"]
        self.assertTrue(losses and all(map(math.isfinite, losses.values())), losses)

    def test_a_small_tensor_trains_without_an_epsilon(self):
        """(unit/shard_test has the other optimizers.) Between tensors are gaps, in which 0 / 0 would be found."""
        self.job.write_text(self.LINE)
        (self.tmp / "line.csv").write_text("1,1,2,3,4\n0,4,3,2,2\n" * 32)
        for optimizer in ("{lamb: {epsilon: 0}}", "{ftrl: {initial_accumulator_value: 0}}"):
            self.train("--ps=1", "--workers=1", job=self.job, out=self.tmp / optimizer[1:5], keys={"optimizer": optimizer})

    def test_a_row_of_a_table_is_found_and_model_stays(self):
        """Each key is in one batch of an epoch: what the last one makes of its rows, no loss has seen."""
        self.job.write_text(self.TABLE)
        for guard in ("check", "off"):
            with self.subTest(guard):
                out = self.tmp / guard
                self.train("--ps=2", "--workers=2", job=self.job, out=out)
                was = {path: path.read_bytes() for path in (out / "model").rglob("*") if path.is_file()}
                self.assertIn("wide.safetensors", {path.name for path in was})
                keys = {"tables.wide.optimizer": "{sgd: {learning_rate: 1e30}}", "training.epochs": 2,
                        "training.nan_guard": guard}
                _, s = self.fails("--ps=2", "--workers=2", job=self.job, out=out, keys=keys)
                self.assertRegex(s["error"], r"^step 16: the row of key \d+ of table wide is not finite "
                                             rf"\(training.nan_guard: {guard}\)")
                self.assertEqual({path: path.read_bytes() for path in was}, was)


if __name__ == "__main__":
    unittest.main()
