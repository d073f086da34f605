#!/usr/bin/env python3
"""Models that Keras saved: `gradwire import` makes a job of them, whose evaluation gives Keras' loss and accuracy, and which
trains on. Their weights come from a seed, and Keras writes no random bytes into them: accepted.txt has the SHA-256 of what
import made of them."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import accepted  # noqa: E402
import case  # noqa: E402
import fixtures  # noqa: E402

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROWS = 1000


def mlp(keras):
    layers = keras.layers
    return keras.Sequential([
        layers.Input((20,)), layers.Dense(32, activation="relu"), layers.BatchNormalization(), layers.Dropout(0.2),
        layers.Dense(16), layers.LayerNormalization(), layers.ELU(), layers.Dense(4, activation="softmax")])


def cnn(keras):
    layers = keras.layers
    image = layers.Input((12, 12, 2))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.Rescaling(1 / 255)(image))
    x = skip = layers.BatchNormalization()(x)
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = layers.Add()([layers.ReLU()(layers.BatchNormalization(scale=False)(x)), skip])
    x = layers.MaxPooling2D()(x)
    pooled = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(6, activation="tanh")(layers.Flatten()(x))
    return keras.Model(image, layers.Dense(4)(layers.Concatenate()([pooled, x])))


MODELS = {"keras-mlp": (mlp, False), "keras-cnn": (cnn, True)}


class KerasImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)

    def run_it(self, *words):
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def save(self, name):
        """Make the model with weights from a seed, and rows. Returns Keras' loss and accuracy on them."""
        import keras
        import numpy as np

        make, logits = MODELS[name]
        draw = np.random.default_rng(len(name))
        model = make(keras)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=logits), metrics=["accuracy"])
        for layer in model.layers:
            layer.set_weights([draw.uniform(0.2 if "variance" in w.name else -0.4, 0.6, w.shape) for w in layer.weights])
        rows = draw.uniform(0, 255 if logits else 2, (ROWS, *model.input_shape[1:])).astype(np.float32)
        labels = model.predict(rows, verbose=0).argmax(axis=1) ^ (draw.uniform(0, 1, ROWS) < 0.3)
        np.savez(self.tmp / "rows.npz", x=rows, y=labels.astype(np.uint8))
        model.save(self.tmp / "model.keras")
        return model.evaluate(rows, labels, batch_size=ROWS, verbose=0)

    def check(self, name):
        model = fixtures.BUILD / "model" / "model"
        loss, accuracy = self.save(name)
        self.run_it(model, "import", self.tmp / "model.keras", "--output", self.tmp / "job")
        data = f"[{self.tmp}/rows.npz:x, {self.tmp}/rows.npz:y]"
        ours = json.loads(self.run_it(model, "evaluate", self.tmp / "job", f"--set=data.eval={data}", "--json"))["eval"]
        self.assertAlmostEqual(ours["loss"], loss, delta=1e-5)
        self.assertAlmostEqual(ours["accuracy"], accuracy, delta=1e-5)
        self.run_it(fixtures.BUILD / "launch" / "launch", "train", self.tmp / "job" / "job.yaml", f"--set=data.train={data}",
                    f"--set=data.eval={data}", f"--output={self.tmp}/run", "--workers=1", "--ps=1")
        trained = json.loads((self.tmp / "run" / "summary.json").read_text())["eval"]
        self.assertLess(trained["loss"], loss)
        self.accept({f"{name} import/{file}": hashlib.sha256((self.tmp / "job" / file).read_bytes()).hexdigest()
                     for file in ("weights.safetensors",)})

    def notes_of(self, model):
        """The notes that import prints of a model."""
        model.save(self.tmp / "m.keras")
        out = tempfile.mkdtemp(dir=self.tmp)
        said = self.run_it(fixtures.BUILD / "model" / "model", "import", self.tmp / "m.keras", "--output", out + "/job")
        return re.findall(r"^  note: (not taken over: .*)$", said, re.M)

    def compiled(self, activation, units, **options):
        import keras

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units, activation=activation)])
        model.compile(**options)
        return model

    def test_objects_with_the_defaults_of_keras_are_taken_over_without_a_note(self):
        from keras import losses, metrics, optimizers

        for optimizer in (optimizers.SGD, optimizers.Adam, optimizers.AdamW, optimizers.Lamb, optimizers.Adagrad,
                          optimizers.RMSprop, optimizers.Ftrl):
            self.assertEqual(self.notes_of(self.compiled("sigmoid", 1, loss="mse", optimizer=optimizer())), [], optimizer)
        two = [metrics.AUC(), metrics.Precision(), metrics.Recall(), metrics.BinaryAccuracy(), metrics.BinaryCrossentropy(),
               metrics.MeanSquaredError(), metrics.MeanAbsoluteError()]
        for loss, units, activation, given in ((losses.BinaryCrossentropy(), 1, "sigmoid", two),
                                               (losses.SparseCategoricalCrossentropy(), 3, "softmax",
                                                [metrics.SparseCategoricalAccuracy()]),
                                               (losses.CategoricalCrossentropy(), 3, "softmax", [metrics.CategoricalAccuracy()]),
                                               (losses.MeanSquaredError(), 1, "linear", ["mse", "mae"]),
                                               (losses.MeanAbsoluteError(), 1, "linear", ["mse"])):
            self.assertEqual(self.notes_of(self.compiled(activation, units, loss=loss, metrics=given)), [], loss)

    def test_what_is_not_taken_over_is_named(self):
        from keras import losses, metrics, optimizers

        model = self.compiled("sigmoid", 1, loss=losses.BinaryCrossentropy(label_smoothing=0.1, reduction="sum"),
                              metrics=[metrics.AUC(curve="PR"), metrics.Precision(thresholds=0.9), metrics.Recall(top_k=1)],
                              weighted_metrics=["accuracy"], optimizer=optimizers.Adam(clipvalue=0.5))
        self.assertEqual(sorted(self.notes_of(model)), [
            "not taken over: clipvalue 0.5 of the optimizer Adam",
            "not taken over: label_smoothing 0.1 of the loss BinaryCrossentropy",
            'not taken over: reduction "sum" of the loss BinaryCrossentropy',
            'not taken over: the metric AUC: its curve is "PR"',
            "not taken over: the metric Precision: its thresholds is 0.9",
            "not taken over: the metric Recall: its top_k is 1",
            'not taken over: weighted_metrics ["accuracy"] of compile()'])
        three = self.compiled("softmax", 3, loss="sparse_categorical_crossentropy", metrics=["accuracy", metrics.AUC()])
        self.assertEqual(self.notes_of(three), ["not taken over: the metric AUC: in a job it needs the loss binary_crossentropy"])

    def accept(self, found):
        if os.environ.get("GRADWIRE_ACCEPT"):
            accepted.accept(found)
        known = accepted.load()
        for key, digest in found.items():
            self.assertEqual(digest, known.get(key), f"{key}: other bytes; if they are right: GRADWIRE_ACCEPT=1")

    def test_an_mlp_evaluates_as_in_keras_and_trains_on(self):
        self.check("keras-mlp")

    def test_a_cnn_with_batch_normalization_evaluates_as_in_keras_and_trains_on(self):
        self.check("keras-cnn")


if __name__ == "__main__":
    case.main()
