#!/usr/bin/env python3
"""./gradwire import: what the exporters write comes back with the same evaluation, and trains on; weights with the names of
PyTorch; files with parts that a job cannot have, and damaged files, are refused and nothing is written."""
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN, TrainCase  # noqa: E402
from onnx_file import Graph  # noqa: E402

ROWS, EVAL, SIDE = 300, 80, 8
JOB = """
name: made
model:
  input: {shape: [8, 8, 2]}
  layers: %s
  loss: sparse_categorical_crossentropy
  metrics: [accuracy]
data: {format: npy, train: [train-x.npy, train-y.npy], eval: [eval-x.npy, eval-y.npy], scale: %s}
optimizer: adam
training: {epochs: 2, batch_size: 32, learning_rate: 0.01}
"""
MLP = "[flatten, {dense: {units: 16, activation: relu, name: hidden}}, {dropout: 0.1}, {dense: {units: 3, activation: softmax, name: out}}]"
CNN = """
    - conv2d: {filters: 16, kernel_size: 3, padding: same, use_bias: false, name: conv_a}
    - batch_normalization: {name: norm_a}
    - relu
    - max_pooling2d: {name: pool}
    - conv2d: {filters: 6, kernel_size: 3, padding: same, activation: tanh, name: conv_b}
    - conv2d: {filters: 6, kernel_size: 1, activation: sigmoid, name: conv_c, inputs: [pool]}
    - add: {inputs: [conv_b, conv_c], name: both}
    - average_pooling2d: {name: average}
    - flatten: {name: flat}
    - dense: {units: 7, activation: relu, name: hidden}
    - batch_normalization: {name: norm_b}
    - dense: {units: 3, activation: softmax, name: out}"""


def npy(kind, shape, data):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def tensors(path):
    """{name: (shape, floats)} of a safetensors file."""
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    found = json.loads(raw[8:8 + size])
    found.pop("__metadata__", None)
    part = {name: raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for name, t in found.items()}
    return {name: (t["shape"], struct.unpack(f"<{len(part[name]) // 4}f", part[name])) for name, t in found.items()}


def write_tensors(path, named):
    """named: {name: (type, shape, bytes)}."""
    head, at = {}, 0
    for name, (kind, shape, raw) in named.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in named.values()))


@unittest.skipIf(TSAN, "has no other threads than the rest")
class ImportTest(TrainCase):
    KEYS = {}

    def setUp(self):
        super().setUp()
        made = random.Random(5)
        for part, rows in (("train", ROWS), ("eval", EVAL)):
            labels = [made.randrange(3) for _ in range(rows)]
            x = [made.gauss(label * 20, 40) + 60 for label in labels for _ in range(SIDE * SIDE * 2)]
            (self.tmp / f"{part}-x.npy").write_bytes(npy("<f4", (rows, SIDE, SIDE, 2), floats(x)))
            (self.tmp / f"{part}-y.npy").write_bytes(npy("<i4", (rows,), struct.pack(f"<{rows}i", *labels)))

    def call(self, *words, code=0):
        got = subprocess.run([str(MODEL), *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_S, cwd=self.tmp)
        self.assertEqual(got.returncode, code, f"{words}: {got.stdout}{got.stderr}")
        return got.stderr if code else got.stdout

    def evaluate(self, directory):
        data = f"--set=data.eval=[{self.tmp}/eval-x.npy, {self.tmp}/eval-y.npy]"
        return json.loads(self.call("evaluate", "--json", directory, data))["eval"]

    def made(self, layers, scale=50):
        job = self.tmp / "made.yaml"
        job.write_text(JOB % (layers, scale))
        self.train("--ps=1", "--workers=1", job=job)
        return self.out

    def assert_same(self, a, b):
        self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5)
        self.assertEqual(a.get("accuracy", b["accuracy"]), b["accuracy"])  # a .keras file has no metrics

    def test_an_exported_model_comes_back_and_trains_on(self):
        for name, layers in (("mlp", MLP), ("cnn", CNN)):
            self.out = self.tmp / name
            made = self.evaluate(self.made(layers))
            for kind in ("onnx", "keras"):
                with self.subTest(model=name, format=kind):
                    file, back = self.tmp / f"{name}.{kind}", self.tmp / f"{name}-{kind}"
                    self.call("export", self.out, "--format", kind, "--output", file)
                    said = self.call("import", file, "--output", back)
                    self.assertIn("hidden/kernel", said)
                    self.assertIn(f"{back}/job.yaml\n{back}/weights.safetensors\n", said)
                    self.assert_same(self.evaluate(back), made)
                    data = {f"data.{part}": f"[{self.tmp}/{part}-x.npy, {self.tmp}/{part}-y.npy]" for part in ("train", "eval")}
                    job = self.train("--ps=1", "--workers=2", job=back / "job.yaml", out=self.tmp / f"{name}-{kind}-on",
                                     keys={**data, "training.epochs": 1, "training.learning_rate": 1e-9})
                    self.assertIn("begins with the weights in", job.logs())
                    if name == "mlp":  # batch normalization moves its averages
                        self.assert_same(job.summary()["eval"], made)

    def test_the_same_file_gives_the_same_bytes_and_nothing_is_overwritten(self):
        self.made(MLP)
        self.call("export", self.out, "--format=onnx", "--output=m.onnx")
        self.call("import", "m.onnx", "--output=a")
        self.call("import", "m.onnx", "--output=b")
        for name in ("job.yaml", "weights.safetensors"):
            self.assertEqual((self.tmp / "a" / name).read_bytes(), (self.tmp / "b" / name).read_bytes())
        self.assertIn("a/job.yaml exists; choose another --output", self.call("import", "m.onnx", "--output=a", code=2))

    def test_flags_for_safetensors_are_refused_for_other_files(self):
        self.made(MLP)
        self.call("export", self.out, "--format=onnx", "--output=m.onnx")
        for flag in ("--job=made.yaml", "--rename=a=b"):
            self.assertEqual(self.call("import", "m.onnx", "--output=a", flag, code=2),
                             "gradwire: m.onnx: --job and --rename are for a safetensors file\n")
        self.assertEqual(self.call("import", ".", "--output=a", code=2), "gradwire: .: it is not a regular file\n")
        self.assertFalse((self.tmp / "a").exists())

    def test_weights_with_the_names_of_pytorch(self):
        made = self.evaluate(self.made(CNN))
        torch, ours = {}, tensors(self.out / "model/weights.safetensors")
        parts = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias", "moving_mean": "running_mean",
                 "moving_variance": "running_var"}
        for name, (shape, values) in ours.items():
            layer, part = name.split("/")
            if len(shape) == 4:
                h, w, i, o = shape
                values = [values[((a * w + b) * i + c) * o + d] for d in range(o) for c in range(i) for a in range(h) for b in range(w)]
                shape = [o, i, h, w]
            elif len(shape) == 2:
                rows, cols = shape
                pixels = rows // 6  # the average pool leaves (2, 2, 6)
                order = [p * 6 + c for c in range(6) for p in range(pixels)] if layer == "hidden" else range(rows)
                values, shape = [values[r * cols + c] for c in range(cols) for r in order], [cols, rows]
            renamed = {"conv_a": "features.0"}.get(layer, layer)
            torch[f"{renamed}.{parts[part]}"] = ("F64", shape, struct.pack(f"<{len(values)}d", *values))
        torch["norm_a.num_batches_tracked"] = ("I64", [], bytes(8))
        write_tensors(self.tmp / "torch.safetensors", torch)
        said = self.call("import", "torch.safetensors", "--job=made.yaml", "--output=back", "--rename=features.0=conv_a")
        self.assertIn("torch.safetensors: 17 of the job's 17 tensors", said)
        self.assertEqual(tensors(self.tmp / "back/weights.safetensors"), ours)
        (self.tmp / "back/job.yaml").write_text((self.tmp / "made.yaml").read_text())
        self.assert_same(self.evaluate(self.tmp / "back"), made)
        said = self.call("import", "torch.safetensors", "--job=made.yaml", "--output=part")
        self.assertIn("note: the file does not have conv_a/kernel", said)
        self.assertEqual(len(tensors(self.tmp / "part/weights.safetensors")), 16)

    def test_safetensors_that_do_not_fit_are_refused(self):
        (self.tmp / "made.yaml").write_text(JOB % (MLP, 1))
        cases = {
            "none of its 1 tensors has the name of a tensor of the job, such as hidden/kernel":
                {"other.weight": ("F32", [1], bytes(4))},
            "tensor hidden.weight is F32 (128, 16); the job's hidden/kernel is (128, 16)":
                {"hidden.weight": ("F32", [128, 16], bytes(128 * 16 * 4))},
            "tensor hidden.weight is I32 (16, 128)": {"hidden.weight": ("I32", [16, 128], bytes(128 * 16 * 4))},
            "tensor out.bias has a value that is not finite": {"out.bias": ("F16", [3], b"\x00\x7c" * 3)},
            "the data_offsets of tensor out.bias do not fit": {"out.bias": ("F32", [3], bytes(8))},
        }
        for words, content in cases.items():
            with self.subTest(words):
                write_tensors(self.tmp / "x.safetensors", content)
                self.assertIn(words, self.call("import", "x.safetensors", "--job=made.yaml", "--output=no", code=2))
                self.assertFalse((self.tmp / "no").exists())
        self.assertIn("a safetensors file has no layers", self.call("import", "x.safetensors", "--output=no", code=2))
        self.assertIn("--rename=ab: it must be OLD=NEW",
                      self.call("import", "x.safetensors", "--job=made.yaml", "--output=no", "--rename=ab", code=2))

    def test_all_operators_that_a_job_does_not_have_are_listed(self):
        g = Graph([2, 8, 8], 3)
        x = g.node("Conv", g.input, g.tensor("c.weight", [4, 1, 3, 3], [0.5] * 36), group=2)
        g.node("Sin", x, name="wave")
        y = g.node("MaxPool", g.input, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 1, 0])
        z = g.node("CumSum", g.node("Flatten", g.input), g.tensor("axis", [1], [1]), domain="my.own\n")
        g.node("Gemm", z, g.tensor("w", [3, 128], [0] * 384), alpha=2.0)
        (self.tmp / "no.onnx").write_bytes(g.bytes(y))
        said = self.call("import", "no.onnx", "--output=no", code=2)
        for words in ("Conv (value_0): group is 2", "MaxPool (value_2): its padding is neither", "CumSum (value_4): a job has no layer",
                      "Sin (wave): a job has no layer", "no.onnx: a job cannot have 4 of its parts"):
            self.assertIn(words, said)
        self.assertNotIn("Gemm", said)  # its input is not known
        self.assertFalse((self.tmp / "no").exists())

    def test_damaged_files_are_refused(self):
        self.made(MLP)
        self.call("export", self.out, "--format=onnx", "--output=m.onnx")
        raw, cut = (self.tmp / "m.onnx").read_bytes(), random.Random(7)
        for i in range(20):
            (self.tmp / "cut.onnx").write_bytes(raw[:cut.randrange(len(raw))])
            said = self.call("import", "cut.onnx", "--output", f"cut-{i}", code=2)
            self.assertTrue(re.search(r"gradwire: cut.onnx: ", said), said)
        self.assertIn("missing.onnx: No such file", self.call("import", "missing.onnx", "--output=no", code=2))
        self.assertIn("--output DIR", self.call("import", "m.onnx", code=2))


if __name__ == "__main__":
    unittest.main()
