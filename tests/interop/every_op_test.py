#!/usr/bin/env python3
"""Each operator of a graph, as TensorFlow and onnxruntime compute it, and as NumPy does: with missing numbers, unknown words and keys, the
lowest and the highest key, windows that reach over the edge of an image."""
import math
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import accepted  # noqa: E402
import case  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROWS = 50
WORDS = {b"red": 7, b"": 0, b"\xff\0": 2, "gr\u00fcn".encode(): 1}
KEYS = (-2**63, -5, 0, 12, 2**63 - 1)


def inputs(np, known):
    draw = np.random.default_rng(1)
    number = draw.normal(0, 3, ROWS).astype(np.float32)
    number[:4] = 0, -0.0, 0.3, -0.35
    missing = draw.normal(0, 1, ROWS).astype(np.float32)
    missing[:8:3], missing[1], missing[2] = np.nan, 0.5, np.inf
    key = draw.integers(-2**63, 2**63 - 1, ROWS, dtype=np.int64)
    key[:3] = 0, 1, -1
    words = [*known, b"Red", *([b"\xff"] if len(known) == len(WORDS) else [])]
    return {"image": draw.normal(0, 1, (ROWS, 5, 6, 2)).astype(np.float32), "a number": number, "missing": missing,
            "w\u00f6rd": np.array([words[i % len(words)] for i in range(ROWS)], object), "key": key,
            "keys": draw.choice(np.array([*KEYS, 1, -6, 13, 2**63 - 2, 1 - 2**63], np.int64), (ROWS, 3)),
            "keys/weights": draw.uniform(0, 2, (ROWS, 3)).astype(np.float32)}


def of_numbers(np, x):
    big = x.astype(np.float64)
    yield from (x + 0.5, x - 0.5, x * 0.5, x / 0.5, np.maximum(x, 0.5), np.minimum(x, 0.5), np.exp(big),
                np.vectorize(math.erf)(big), np.maximum(x, 0), 1 / (1 + np.exp(-big)), np.tanh(big),
                np.where(x > 0, big, np.exp(big) - 1), np.log1p(np.exp(big)))
    positive = np.maximum(np.exp(big), 0.5)
    ten = x * np.float32(10)
    yield from (np.exp(big), positive, np.log(positive), np.sqrt(positive), x, ten, np.trunc(ten), np.trunc(ten) == 3)


def of_missing(np, x):
    yield from (np.isnan(x), x >= 0.5, np.where(np.isnan(x), 10, x))


def of_bits(np, key):
    z = key.view(np.uint64)
    for shift, factor in (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    yield (z ^ (z >> np.uint64(31))) >> np.uint64(40)


def convolve(np, image, stride, dilation, pad, height, width):
    kernel = ((np.arange(36) * 7 % 11 - 5) / 8).reshape(3, 2, 2, 3)
    image = np.pad(image.astype(np.float64), ((0, 0), (pad, pad), (0, 0), (0, 0)))
    y = np.zeros((ROWS, height, width, 3))
    for i, j, a, b in np.ndindex(height, width, 3, 2):
        y[:, i, j] += image[:, i * stride + a * dilation, j * stride + b * dilation] @ kernel[a, b]
    return y


def of_images(np, image):
    seen = convolve(np, image, 2, 1, 1, 3, 3)
    tiles = np.pad(image, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=np.nan).reshape(ROWS, 3, 2, 3, 2, 2)
    raised = np.exp(seen - seen.max(3, keepdims=True))
    matrix = np.array([1, 2, 3, -1, -2, 0.5]).reshape(3, 2)
    yield from (seen, convolve(np, image, 1, 2, 0, 1, 4), np.nanmax(tiles, (2, 4)), np.nanmean(tiles, (2, 4)),
                seen.sum((1, 2)), seen.mean((1, 2)), seen.max((1, 2)), seen - seen.mean(3, keepdims=True),
                raised / raised.sum(3, keepdims=True), seen.max((1, 2)) @ matrix, seen @ matrix)


def of_look_ups(np, words, keys, weights):
    at = np.array([[KEYS.index(key) if key in KEYS else -1 for key in row] for row in keys.tolist()])
    rows = np.arange(1, 11).reshape(5, 2)[np.maximum(at, 0)]
    yield from (np.array([WORDS.get(word, -1) for word in words]), np.full(ROWS, -1), at, at[:, 1:], np.full((ROWS, 3), -1), rows,
                rows * weights[:, :, None])


class EveryOpTest(unittest.TestCase):
    compare = case.ExportCase.compare

    def check(self, form, run, words=tuple(WORDS)):
        import numpy as np

        given = inputs(np, words)
        x, missing, key, keys, weights = (given[k] for k in ("a number", "missing", "key", "keys", "keys/weights"))
        expected = [*of_numbers(np, x), *of_missing(np, missing), *of_bits(np, key), *of_images(np, given["image"]),
                    *of_look_ups(np, given["w\u00f6rd"], keys, weights)]
        with tempfile.TemporaryDirectory() as folder:
            paths, results, digests = accepted.every_op(folder)
            found = run(str(paths[form]), given)
        self.assertEqual(len(results), len(expected))
        parts = np.split(found, np.cumsum([columns for columns, _ in results])[:-1], axis=1)
        for (_, name), ours, theirs in zip(results, expected, parts):
            with self.subTest(operator=name):
                np.testing.assert_allclose(theirs, ours.reshape(ROWS, -1).astype(np.float32), 1e-5, 1e-5)
        self.compare(digests[form])

    def test_tensorflow_computes_each_operator_as_numpy(self):
        import tensorflow as tf

        def run(path, given):
            score = tf.saved_model.load(path).signatures["serving_default"]
            specs = score.structured_input_signature[1]
            (found,) = score(**{name: tf.constant(given[name], specs[name].dtype) for name in specs}).values()
            return found.numpy()

        self.check("savedmodel", run)

    def test_onnxruntime_computes_each_operator_as_numpy(self):
        import numpy as np
        import onnxruntime

        def run(path, given):
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            given["w\u00f6rd"] = np.array([word.decode() for word in given["w\u00f6rd"]], object)
            return session.run(None, {i.name: given[i.name] for i in session.get_inputs()})[0]

        self.check("onnx", run, [word for word in WORDS if b"\xff" not in word])  # its Python API takes text alone


if __name__ == "__main__":
    case.main()
