#!/usr/bin/env python3
"""docs/reference/keras.md: each difference that the page lists, computed by Keras (with TensorFlow) and by a job. If Keras
changes its rule, the page is to change."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import case  # noqa: E402
import fixtures  # noqa: E402

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
JOB = """
model:
  input: {shape: %s}
  layers:%s
  loss: %s
data: {format: npy, train: [rows.npz:x, rows.npz:y], eval: [rows.npz:x, rows.npz:y]}
optimizer: %s
training: {epochs: 1, microbatches: 1, batch_size: %d, %s}
"""


def kernel(layer, name="w"):
    return f"\n    - {layer}: {{name: {name}, kernel_initializer: ones, use_bias: false, "


class DifferencesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)

    def ours(self, x, y, layers, loss="mean_squared_error", optimizer="sgd", rates="learning_rate: 1", batch=1, metrics=""):
        """Train on the rows, in their order. Returns the summary and the values of the tensor w/.."""
        import numpy as np

        x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
        np.savez(self.tmp / "rows.npz", x=x, y=y)
        shape = list(x.shape[1:])
        job = self.tmp / "job.yaml"
        job.write_text(JOB % (shape, layers, loss + metrics, optimizer, batch, rates))
        done = subprocess.run([fixtures.BUILD / "launch" / "launch", "train", job, f"--output={self.tmp}/run", "--workers=1", "--ps=1"],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        raw = (self.tmp / "run/model/weights.safetensors").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        at = next(v["data_offsets"] for k, v in json.loads(raw[8:8 + size]).items() if k.startswith("w/"))
        return json.loads((self.tmp / "run/summary.json").read_text()), np.frombuffer(raw[8 + size:], np.float32)[at[0] // 4:at[1] // 4]

    def theirs(self, x, y, layers, loss="mse", optimizer=None):
        """The first weight after one batch."""
        import keras
        import numpy as np

        x = np.asarray(x, np.float32)
        model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
        model.compile(optimizer or keras.optimizers.SGD(1.0), loss)
        model.train_on_batch(x, np.asarray(y, np.float32).reshape(-1, 1))
        return model.get_weights()[0].ravel()

    def assert_near(self, a, b):
        import numpy as np

        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    def test_a_schedule_counts_updates_and_keras_counts_batches(self):
        import keras
        import numpy as np

        rates = "gradient_accumulation_steps: 2, learning_rate_schedule: {piecewise_constant_decay: {boundaries: [2], values: [1, 0.125]}}"
        x, y = np.ones((8, 1)), np.full(8, 100.0)
        _, w = self.ours(x, y, kernel("dense") + "units: 1}", "mean_absolute_error", rates=rates)
        self.assert_near(w, [1 + 3 * 1 + 0.125])
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2], [1.0, 0.125])
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(schedule, gradient_accumulation_steps=2), "mae")
        for _ in range(8):
            model.train_on_batch(x[:1], y[:1])
        self.assert_near(model.get_weights()[0].ravel(), [1 + 1 + 3 * 0.125])

    def test_a_logit_from_0_to_a_half_is_class_1_and_in_keras_class_0(self):
        import keras
        import numpy as np

        x, y = np.array([[0.25], [0.75], [-1.0]]), np.array([1.0, 1.0, 0.0])
        summary, _ = self.ours(x, y, kernel("dense") + "units: 1}", "{binary_crossentropy: {from_logits: true}}", rates="learning_rate: 1e-20", batch=3,
                               metrics="\n  metrics: [accuracy]")
        self.assertEqual(summary["eval"]["accuracy"], 1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
        self.assertAlmostEqual(model.evaluate(x, y.reshape(-1, 1), verbose=0)[1], 2 / 3, delta=1e-6)

    def test_an_id_that_a_batch_has_twice_has_one_gradient_and_in_keras_two_squares(self):
        """Both gradients are 4: (4 + 4)^2 here, 4^2 + 4^2 in Keras with TensorFlow."""
        import keras
        import numpy as np

        layers = ("\n    - embedding: {name: w, input_dim: 3, output_dim: 1}\n    - flatten"
                  "\n    - dense: {units: 1, kernel_initializer: ones, use_bias: false, trainable: false}")
        # The first values of an embedding are drawn, so the labels are far away and the gradients almost equal.
        _, w = self.ours([[1, 1]], [1e6], layers, optimizer="{adagrad: {initial_accumulator_value: 0}}")
        self.assertAlmostEqual(float(w[1]), 1, delta=0.051)
        theirs = self.theirs([[1, 1]], [1e6], [keras.layers.Embedding(3, 1, embeddings_initializer="zeros"), keras.layers.Flatten(),
                                               keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", trainable=False)],
                             optimizer=keras.optimizers.Adagrad(1.0, initial_accumulator_value=0))
        self.assertAlmostEqual(float(theirs[1]), np.sqrt(2), delta=1e-4)

    def test_a_tie_of_global_max_pooling_goes_to_the_first_pixel_and_in_keras_to_all(self):
        import keras
        import numpy as np

        x = np.array([[0, 3], [1, 2], [2, 1], [0, 0]]).reshape(1, 2, 2, 2)  # the sums of three pixels are 3
        _, w = self.ours(x, [0], kernel("conv2d") + "filters: 1, kernel_size: 1}\n    - global_max_pooling2d",
                         rates="learning_rate: 0.1")
        self.assert_near(w, [1 - 0.1 * 6 * 0, 1 - 0.1 * 6 * 3])
        theirs = self.theirs(x, [0], [keras.layers.Conv2D(1, 1, use_bias=False, kernel_initializer="ones"),
                                      keras.layers.GlobalMaxPooling2D()], optimizer=keras.optimizers.SGD(0.1))
        self.assert_near(theirs, [1 - 0.1 * 6 * (0 + 1 + 2) / 3, 1 - 0.1 * 6 * (3 + 2 + 1) / 3])

    def test_the_slope_of_selu_at_0_is_that_from_below_and_in_keras_from_above(self):
        import keras

        scale, alpha = 1.0507009873554805, 1.6732632423543772
        _, w = self.ours([[1.0]], [-1], (kernel("dense") + "units: 1, activation: selu}").replace("ones", "zeros"))
        self.assert_near(w, [-2 * scale * alpha])
        theirs = self.theirs([[1.0]], [-1], [keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", activation="selu")])
        self.assert_near(theirs, [-2 * scale])


if __name__ == "__main__":
    case.main()
