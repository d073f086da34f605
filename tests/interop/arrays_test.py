#!/usr/bin/env python3
"""Rows of npy files of each type, divided by data.scale: predict, libgradwire-predict, gradwire_model, onnxruntime and TensorFlow
compute what numpy computes in float32, to the bit (docs/reference/data.md)."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "python")]
import case  # noqa: E402
import fixtures  # noqa: E402
import gradwire_model  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROWS, MODEL = 200, fixtures.BUILD / "model" / "model"
JOB = """\
name: arrays
model:
  input: {{shape: auto}}
  layers: [dense: {{units: 1, use_bias: false, name: out}}]
  loss: mean_squared_error
data: {{format: npy, train: [x.npy, y.npy], eval: [x.npy, y.npy], scale: {scale}}}
optimizer: sgd
"""
TYPES = "float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64"


def drawn(kind):
    """(ROWS, 1), with numbers that float32 rounds: half of their last digits, above and below it."""
    import numpy as np

    draw = np.random.default_rng(1)
    if kind.startswith("float"):
        x = draw.normal(0, 1000, (ROWS, 1))
    else:
        ends = np.iinfo(kind)
        x = draw.integers(ends.min, ends.max, (ROWS, 1), kind, endpoint=True)
    if kind in ("int64", "uint64"):
        x[:6, 0] = 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**62 + 2**38 + 1, 2**55 + 2**31 - 1, 1764400000123
    return x.astype(kind)


def of_predict(folder, x):
    import numpy as np

    subprocess.run([MODEL, "predict", folder, folder / "x.npy", "--output", folder / "scores.npy"], check=True,
                   capture_output=True, timeout=60)
    return np.load(folder / "scores.npy")


def of_library(folder, x):
    """By add_numbers, which takes floats."""
    import numpy as np

    library = ctypes.CDLL(fixtures.BUILD / "predict/libgradwire-predict.so.0")
    model, scorer, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    floats = ctypes.POINTER(ctypes.c_float)
    scores, rows = np.zeros(len(x), np.float32), np.ascontiguousarray(x, np.float32)
    assert not library.gradwire_model_open(ctypes.byref(model), str(folder / "model").encode(), error), error.raw
    assert not library.gradwire_scorer_new(ctypes.byref(scorer), model, len(x), error), error.raw
    for row in rows:
        assert not library.gradwire_scorer_add_numbers(scorer, row.ctypes.data_as(floats), error), error.raw
    assert not library.gradwire_scorer_score(scorer, scores.ctypes.data_as(floats), error), error.raw
    library.gradwire_scorer_free(scorer)
    library.gradwire_model_close(model)
    return scores


def exported(folder, form):
    subprocess.run([MODEL, "export", folder, "--format", form, "--output", folder / form], check=True, capture_output=True,
                   timeout=60)
    return str(folder / form)


def of_onnxruntime(folder, x):
    """Without its optimizer, which multiplies the scale into the weights: the last bit can then differ."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(exported(folder, "onnx"), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"input": x.astype(np.float32)})[0]


def of_tensorflow(folder, x):
    import numpy as np
    import tensorflow as tf

    score = tf.saved_model.load(exported(folder, "savedmodel")).signatures["serving_default"]
    return score(input=tf.constant(x.astype(np.float32)))["out"].numpy()


def of_python(folder, x):
    return gradwire_model.load(folder).predict(x)


class ArraysTest(unittest.TestCase):
    def check(self, kind, scale):
        import numpy as np

        x = drawn(kind)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            np.save(folder / "x.npy", x)
            np.save(folder / "y.npy", np.zeros(ROWS, np.float32))
            (folder / "job.yaml").write_text(JOB.format(scale=scale))
            subprocess.run([fixtures.BUILD / "tests" / "interop_fixture", folder], check=True, timeout=60)
            kernel = gradwire_model.load(folder).weights["out/kernel"]
            want = x.astype(np.float32) * (np.float32(1) / np.float32(scale)) * kernel
            trained = np.fromfile(folder / "scores.f32", np.float32)
            for name, got in {"worker": trained, **{f.__name__: f(folder, x) for f in
                              (of_predict, of_library, of_python, of_onnxruntime, of_tensorflow)}}.items():
                np.testing.assert_array_equal(np.asarray(got).reshape(-1), want.reshape(-1), f"{name}, {kind} / {scale}")

    def test_scores_are_those_of_numpy_in_float32(self):
        for kind in TYPES:
            with self.subTest(type=kind):
                self.check(kind, 3.7)
        self.check("float64", 1)


if __name__ == "__main__":
    case.main()
