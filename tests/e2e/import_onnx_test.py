#!/usr/bin/env python3
"""./gradwire import of ONNX: each operator, alone and behind others, against a plain reading of its definition
(https://onnx.ai/onnx/operators/). A value is [channels][height][width] or a list of numbers."""
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN, Case  # noqa: E402
from onnx_file import Graph  # noqa: E402

ROWS, UNITS = 7, 3


def npy(shape, numbers):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{len(numbers)}f", *numbers)


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, list) else [x]


def each(f, x, *more):
    return [each(f, *parts) for parts in zip(x, *more)] if isinstance(x, list) else f(x, *more)


def by_channel(f, x):
    """f(value, channel) on each value."""
    return [each(lambda v, c=c: f(v, c), part) for c, part in enumerate(x)]


def window_sides(n, size, stride, dilation, pads):
    """For each window along a side: the places of its taps; None outside."""
    span = (size - 1) * dilation + 1
    count = (n + sum(pads) - span) // stride + 1
    place = [[i * stride - pads[0] + k * dilation for k in range(size)] for i in range(count)]
    return [[p if 0 <= p < n else None for p in taps] for taps in place]


def windows(x, size, stride, dilation, pads):
    """[row][column] of a window: its taps as (y, x), or None outside."""
    rows = window_sides(len(x[0]), size[0], stride[0], dilation[0], (pads[0], pads[2]))
    cols = window_sides(len(x[0][0]), size[1], stride[1], dilation[1], (pads[1], pads[3]))
    return [[[None if a is None or b is None else (a, b) for a in r for b in c] for c in cols] for r in rows]


def softmax(x):
    total = sum(math.exp(v - max(x)) for v in x)
    return [math.exp(v - max(x)) / total for v in x]


class Net:
    """An ONNX graph, and what it computes for one row."""

    def __init__(self, seed, shape, input_shape=None):
        self.draw, self.steps, self.shape = random.Random(seed), [], shape
        self.graph = Graph(input_shape or shape, UNITS)
        self.at, self.named = self.graph.input, 0

    def numbers(self, n, low=-1.0, high=1.0):
        return [struct.unpack("<f", struct.pack("<f", self.draw.uniform(low, high)))[0] for _ in range(n)]

    def tensor(self, shape, values, name=None):
        self.named += 1
        return self.graph.tensor(name or f"part_{self.named}", shape, values)

    def then(self, f, op, *inputs, **options):
        before = self.at
        self.at = self.graph.node(op, before, *inputs, **options)
        self.steps.append((before, self.at, f))
        return self

    def run(self, x):
        values = {self.graph.input: x}
        for before, after, f in self.steps:
            values[after] = f(values[before]) if f.__code__.co_argcount == 1 else f(values[before], values)
        return values[self.at]

    # ---- operators ----

    def conv(self, filters, channels, size=(3, 3), stride=(1, 1), dilation=(1, 1), pads=(0, 0, 0, 0), bias="input", **options):
        taps = size[0] * size[1]
        kernel, b = self.numbers(filters * channels * taps), self.numbers(filters)

        def f(x):
            at = windows(x, size, stride, dilation, pads)
            return [[[sum(kernel[(o * channels + c) * taps + k] * x[c][p[0]][p[1]] for c in range(channels)
                          for k, p in enumerate(window) if p) + (b[o] if bias else 0) for window in row] for row in at]
                    for o in range(filters)]
        inputs = [self.tensor([filters, channels, *size], kernel, f"conv{self.named}.weight")]
        if bias == "input":
            inputs.append(self.tensor([filters], b))
        if "auto_pad" not in options:
            options["pads"] = list(pads)
        if bias == "add":
            plain = self.steps
            self.at = self.graph.node("Conv", self.at, *inputs, strides=list(stride), dilations=list(dilation), **options)
            begin = plain[-1][1] if plain else self.graph.input
            middle, self.at = self.at, self.graph.node("Add", self.tensor([filters, 1, 1], b), self.at)
            self.steps.append((begin, self.at, f))
            return self
        return self.then(f, "Conv", *inputs, strides=list(stride), dilations=list(dilation), group=1, **options)

    def pool(self, kind, size, stride, pads=(0, 0, 0, 0)):
        def f(x):
            at = windows(x, size, stride, (1, 1), pads)
            best = max if kind == "MaxPool" else lambda v: sum(v) / len(v)
            return [[[best([part[p[0]][p[1]] for p in window if p]) for window in row] for row in at] for part in x]
        return self.then(f, kind, kernel_shape=list(size), strides=list(stride), pads=list(pads))

    def batch_norm(self, n):
        parts = [self.numbers(n, 0.5, 1.5), self.numbers(n), self.numbers(n), self.numbers(n, 0.5, 2.0)]

        def f(x):
            g, b, m, v = parts
            return by_channel(lambda y, c: (y - m[c]) / math.sqrt(v[c] + 0.01) * g[c] + b[c], x)
        return self.then(f, "BatchNormalization", *[self.tensor([n], p) for p in parts], epsilon=0.01)

    def layer_norm(self, n):
        g, b = self.numbers(n, 0.5, 1.5), self.numbers(n)

        def f(x):
            mean = sum(x) / n
            variance = sum((v - mean) ** 2 for v in x) / n
            return [(v - mean) / math.sqrt(variance + 1e-5) * g[i] + b[i] for i, v in enumerate(x)]
        return self.then(f, "LayerNormalization", self.tensor([n], g), self.tensor([n], b), axis=-1)

    def flatten(self):
        return self.then(lambda x: flat(x), "Flatten")

    def gemm(self, n, units, transposed):
        kernel, b = self.numbers(n * units, -0.4, 0.4), self.numbers(units)

        def f(x):
            return [sum(x[i] * kernel[o * n + i if transposed else i * units + o] for i in range(n)) + b[o] for o in range(units)]
        shape = [units, n] if transposed else [n, units]
        return self.then(f, "Gemm", self.tensor(shape, kernel, f"fc{self.named}.weight"), self.tensor([1, units], b),
                         transB=int(transposed))

    def matmul(self, n, units, bias=True):
        kernel, b = self.numbers(n * units, -0.4, 0.4), self.numbers(units)
        begin = self.at
        self.at = self.graph.node("MatMul", begin, self.tensor([n, units], kernel))
        if bias:
            self.at = self.graph.node("Add", self.at, self.tensor([units], b))
        self.steps.append((begin, self.at, lambda x: [sum(x[i] * kernel[i * units + o] for i in range(n)) + (b[o] if bias else 0)
                                                      for o in range(units)]))
        return self

    def activation(self, op, f, **options):
        return self.then(lambda x: each(f, x), op, **options)

    def silu(self):
        begin = self.at
        self.at = self.graph.node("Mul", begin, self.graph.node("Sigmoid", begin))
        self.steps.append((begin, self.at, lambda x: each(lambda v: v / (1 + math.exp(-v)), x)))
        return self

    def constant(self, op, n, image):
        values = self.numbers(n, 0.5, 1.5)
        f = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": lambda a, b: a / b}[op]
        return self.then(lambda x: by_channel(lambda v, c: f(v, values[c]), x), op,
                         self.tensor([n, 1, 1] if image else [n], values))

    def number(self, op, value):
        return self.then(lambda x: each(lambda v: v / value if op == "Div" else v * value, x), op, self.tensor([], [value]))

    def add_of(self, other):
        return self.then(lambda x, values: each(lambda a, b: a + b, x, values[other]), "Add", other)

    def concat_of(self, other):
        return self.then(lambda x, values: x + values[other], "Concat", other, axis=1)

    def end(self, n):
        return self.flatten().gemm(n, UNITS, True).then(lambda x: softmax(x), "Softmax", axis=1)


def elu(v, alpha=1.0):
    return v if v > 0 else alpha * (math.exp(v) - 1)


def selu(v):
    return 1.0507009873554805 * elu(v, 1.6732632423543772)


def of_shapes(seed):
    """Convolutions, pools and their padding."""
    n = Net(seed, [2, 9, 8])
    n.conv(4, 2, pads=(1, 1, 1, 1)).batch_norm(4).activation("Relu", lambda v: max(v, 0))
    n.pool("MaxPool", (2, 2), (2, 2)).conv(16, 4, (2, 3), pads=(0, 1, 1, 1), bias="add").silu()
    n.pool("AveragePool", (3, 3), (1, 1), (1, 1, 1, 1)).conv(3, 16, (1, 1), bias=None)
    return n.end(3 * 4 * 4)


def of_strides(seed):
    n = Net(seed, [3, 11, 10])
    n.conv(4, 3, stride=(2, 2), pads=(1, 0, 1, 1), auto_pad="SAME_UPPER").activation("Elu", lambda v: elu(v, 0.5), alpha=0.5)
    n.conv(5, 4, (2, 2), dilation=(2, 1), auto_pad="VALID").activation("LeakyRelu", lambda v: v if v > 0 else v * 0.25, alpha=0.25)
    return n.pool("MaxPool", (3, 2), (1, 2)).end(5 * 2 * 2)


def of_branches(seed):
    """Two ways, added and concatenated, behind a scale and shifts."""
    n = Net(seed, [1, 6, 6]).number("Div", 4.0)
    trunk = n.conv(4, 1, pads=(1, 1, 1, 1)).activation("Tanh", math.tanh).at
    branch = n.conv(4, 4, (1, 1)).constant("Mul", 4, True).constant("Add", 4, True).at
    n.at = trunk
    n.conv(4, 4, (3, 3), pads=(1, 1, 1, 1)).add_of(branch).activation("Sigmoid", lambda v: 1 / (1 + math.exp(-v))).concat_of(trunk)
    n.then(lambda x: [[[sum(flat(part)) / len(flat(part))]] for part in x], "GlobalAveragePool")
    return n.constant("Sub", 8, True).end(8)


def of_global(seed):
    n = Net(seed, [3, 5, 4])
    n.conv(6, 3, (2, 2)).then(lambda x: [max(flat(part)) for part in x], "ReduceMax", axes=[2, 3], keepdims=0)
    return n.constant("Div", 6, False).layer_norm(6).end(6)


def of_channels(seed):
    """Everything that reads flattened images."""
    n = Net(seed, [2, 4, 3])
    n.conv(3, 2, (2, 2)).flatten().batch_norm(18).constant("Add", 18, False)
    return n.activation("Selu", selu).matmul(18, 5).end(5)


def of_vectors(seed):
    n = Net(seed, [6]).number("Mul", 0.5).matmul(6, 5, bias=False)
    n.activation("Softplus", lambda v: math.log1p(math.exp(v))).gemm(5, 4, False).then(lambda x: x, "Identity")
    n.activation("Gelu", lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2)))).then(lambda x: x, "Dropout")
    return n.end(4)


def of_last(seed):
    """Images that have their channels last, as files of TensorFlow have them."""
    n = Net(seed, [2, 5, 6], [5, 6, 2])
    n.then(lambda x: x, "Transpose", perm=[0, 3, 1, 2]).conv(3, 2, (3, 3))
    n.then(lambda x: [[[x[c][a][b] for c in range(3)] for b in range(4)] for a in range(3)], "Transpose", perm=[0, 2, 3, 1])
    return n.end(3 * 4 * 3)


NETS = [of_shapes, of_strides, of_branches, of_global, of_channels, of_vectors, of_last]


@unittest.skipIf(TSAN, "has no other threads than the rest")
class ImportOnnxTest(Case):
    def call(self, *words):
        got = subprocess.run([str(MODEL), *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_S, cwd=self.tmp)
        self.assertEqual(got.returncode, 0, f"{words}: {got.stdout}{got.stderr}")
        return got.stdout

    def scores(self, directory):
        self.call("predict", directory, "rows.npy", "--output=scores.npy", f"--set=data.eval={self.tmp}/rows.npy")
        raw = (self.tmp / "scores.npy").read_bytes()
        values = struct.unpack(f"<{ROWS * UNITS}f", raw[-4 * ROWS * UNITS:])
        (self.tmp / "scores.npy").unlink()
        return [values[i * UNITS:(i + 1) * UNITS] for i in range(ROWS)]

    def test_each_operator_is_as_onnx_defines_it(self):
        for made in NETS:
            for seed in (1, 2):
                with self.subTest(made.__name__, seed=seed):
                    net = made(seed)
                    draw = random.Random(seed)
                    shape = net.shape
                    image = len(shape) == 3
                    rows = [[[[draw.gauss(0, 1) for _ in range(shape[2])] for _ in range(shape[1])] for _ in range(shape[0])]
                            if image else [draw.gauss(0, 1) for _ in range(shape[0])] for _ in range(ROWS)]
                    want = [net.run(x) for x in rows]
                    last = [[[[x[c][a][b] for c in range(shape[0])] for b in range(shape[2])] for a in range(shape[1])]
                            if image else x for x in rows]
                    dims = [shape[1], shape[2], shape[0]] if image else shape
                    (self.tmp / "rows.npy").write_bytes(npy([ROWS, *dims], flat(last)))
                    (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
                    out = f"{made.__name__}-{seed}"
                    self.call("import", "m.onnx", "--output", out)
                    for got, x in zip(self.scores(out), want):
                        self.assertLess(max(abs(a - b) for a, b in zip(got, x)), 1e-5, out)

    def refused(self, words):
        got = subprocess.run([str(MODEL), "import", "m.onnx", "--output", "out"], capture_output=True, text=True, timeout=DEADLINE_S,
                             cwd=self.tmp)
        self.assertEqual(got.returncode, 2, got.stdout)
        self.assertIn(words, got.stderr)
        self.assertFalse((self.tmp / "out").exists())

    def test_a_guessed_loss_that_does_not_fit_is_not_called_the_users(self):
        net = Net(7, [6])
        net.gemm(6, 5, True).activation("Tanh", math.tanh)
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("the file has no loss, and the one that import chose does not fit its last layer: model.loss: "
                     "sparse_categorical_crossentropy with from_logits: true needs a linear last layer")

    def test_a_weight_that_is_not_finite_is_refused(self):
        for value in (math.nan, -math.nan, math.inf):
            net = Net(7, [6])
            net.numbers = lambda n, *_, value=value: [0.5] * (n - 1) + [value]
            net.gemm(6, 5, True)
            (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
            self.refused(f"has a value that is not finite ({value:g}, element ")

    def in_another_file(self, file="m.onnx.data", **keys):
        """An MLP whose weights are in another file. Returns the bytes of that file."""
        net = Net(7, [6])
        net.graph.into(file, **keys)
        net.gemm(6, 5, True).activation("Tanh", math.tanh).matmul(5, 4).end(4)
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        return net.graph.data

    def test_weights_in_another_file_are_read(self):
        """torch.onnx.export writes them so."""
        net = Net(7, [6])
        net.gemm(6, 5, True).activation("Tanh", math.tanh).matmul(5, 4).end(4)
        (self.tmp / "whole.onnx").write_bytes(net.graph.bytes(net.at))
        self.call("import", "whole.onnx", "--output=whole")
        want = (self.tmp / "whole/weights.safetensors").read_bytes()
        (self.tmp / "sub").mkdir()
        for i, (file, keys) in enumerate((("m.onnx.data", {}), ("./m.onnx.data", {"length": None}),
                                          ("sub/m.data", {"checksum": "0" * 40}))):
            data = self.in_another_file(file, **keys)
            (self.tmp / file).write_bytes(data)
            self.call("import", self.tmp / "m.onnx" if i else "m.onnx", f"--output=other-{i}")
            self.assertEqual((self.tmp / f"other-{i}/weights.safetensors").read_bytes(), want)

    def test_only_files_of_the_models_own_folder_are_read(self):
        data = self.in_another_file()
        self.refused("tensor fc0.weight is in m.onnx.data: No such file or directory; the file belongs next to the model's")
        outside = self.tmp.parent / f"{self.tmp.name}-outside"
        outside.mkdir()
        self.addCleanup(shutil.rmtree, outside)
        (outside / "d").write_bytes(data)
        (self.tmp / "link").symlink_to(outside / "d")
        (self.tmp / "folder").symlink_to(outside)
        os.mkfifo(self.tmp / "fifo")
        for file, words in ((f"../{outside.name}/d", f'is in "../{outside.name}/d", which leaves the model\'s own folder'),
                            ("sub/../../x", "leaves the model's own folder"),
                            (str(outside / "d"), "is an absolute path; only the model's own folder is read"),
                            ("link", "is in link, and a link to other files is not read"),
                            ("folder/d", "is in folder/d, and a link to other files is not read"),
                            ("fifo", "is in fifo, which is not a regular file"), ("", "names no file"), (".", "not a regular file")):
            with self.subTest(file):
                self.in_another_file(file)
                self.refused(words)

    def test_a_part_that_does_not_fit_is_refused(self):
        for keys, words in (({"offset": 1 << 20}, "at offset 1048576 with 120 bytes; the file ends at"),
                            ({"offset": (1 << 64) - 8}, "at offset 18446744073709551608 with 120 bytes; the file ends at"),
                            ({"offset": "-1"}, 'another file by offset: "-1", which is not known here'),
                            ({"length": 119}, "m.onnx.data with 119 bytes; its shape has 120"),
                            ({"basepath": "/"}, 'another file by basepath: "/", which is not known here')):
            with self.subTest(keys):
                data = self.in_another_file(**keys)
                (self.tmp / "m.onnx.data").write_bytes(data)
                self.refused(words)

    def scores_of_one(self, net, out):
        rows = [[net.draw.gauss(0, 1) for _ in range(4)] for _ in range(ROWS)]
        (self.tmp / "rows.npy").write_bytes(npy([ROWS, 4], flat(rows)))
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at, []))
        self.call("import", "m.onnx", "--output", out)
        self.call("predict", out, "rows.npy", "--output", f"{out}.npy", f"--set=data.eval={self.tmp}/rows.npy")
        got = struct.unpack(f"<{ROWS}f", (self.tmp / f"{out}.npy").read_bytes()[-4 * ROWS:])
        for have, x in zip(got, rows):
            self.assertAlmostEqual(have, net.run(x)[0], delta=1e-5)

    def test_a_head_without_its_last_axis_is_read(self):
        """net(x).squeeze(-1), net(x).squeeze(1).sigmoid() and net(x).view(-1) of PyTorch."""
        squeezed = Net(3, [4]).gemm(4, 1, True)
        squeezed.then(lambda x: x, "Squeeze", squeezed.graph.integers("axes", [-1]))
        self.scores_of_one(squeezed.activation("Sigmoid", lambda v: 1 / (1 + math.exp(-v))), "squeezed")
        viewed = Net(4, [4]).gemm(4, 1, True)
        self.scores_of_one(viewed.then(lambda x: x, "Reshape", viewed.graph.integers("shape", [-1])), "viewed")

    def test_what_would_compute_something_else_is_refused(self):
        net = Net(3, [4]).gemm(4, 1, True)
        net.then(lambda x: x, "Squeeze", net.graph.integers("axes", [-1])).add_of(net.steps[0][1])
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("Add (value_2): its input value_1 has lost its last axis; a job has it")
        net = Net(3, [4]).gemm(4, 3, True)
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.graph.node("Softmax", net.at, axis=1, temperature=2.0)))
        self.refused("Softmax (value_1): its attribute temperature is not known here")

    def softmax_of_opset_11(self, shape, **axis):
        """A softmax before the flattening, of opset 11: it is over all axes from `axis` on."""
        net = Net(5, shape)
        net.graph.opset = 11
        net.then(lambda x: x, "Softmax", **axis).flatten()
        size = math.prod(shape)
        (self.tmp / "m.onnx").write_bytes(net.gemm(size, UNITS, True).graph.bytes(net.at))
        return net

    def test_a_softmax_of_an_old_opset_is_over_all_axes(self):
        for shape, axis, words in (([2, 3], {}, "over all axes from 1 on"), ([2, 3], {"axis": -2}, "over all axes from -2 on"),
                                   ([2, 3, 3], {"axis": 2}, "in opset 11 it is over all axes from 2 on; a job has it over the "
                                    "channels: export the model with opset 13 or later")):
            with self.subTest(shape=shape, axis=axis):
                self.softmax_of_opset_11(shape, **axis)
                self.refused(words)
        net = Net(5, [2, 4, 4])
        net.conv(3, 2).then(lambda x: x, "Softmax", axis=1).flatten().gemm(12, UNITS, True)
        net.graph.opset = 12
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("Softmax (value_1): in opset 12 it is over all axes from 1 on")

    def test_a_softmax_of_an_old_opset_over_the_channels_alone_is_read(self):
        for shape, axis in (([4], {}), ([2, 3], {"axis": 2}), ([2, 3], {"axis": -1}), ([1, 4], {})):
            with self.subTest(shape=shape, axis=axis):
                self.softmax_of_opset_11(shape, **axis)
                self.call("import", "m.onnx", "--output", f"read-{shape}-{len(axis)}-{axis.get('axis')}")

    def test_an_operator_that_had_another_meaning_is_refused(self):
        for opset, net, version in ((6, Net(5, [4]).batch_norm(4), 7), (5, Net(5, [4]).activation("Selu", selu), 6)):
            with self.subTest(opset):
                net.end(4).graph.opset = opset
                (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
                self.refused(f"in opset {opset} it computes something else: export the model with opset {version} or later")

    def test_a_dropout_that_drops_in_every_run_is_refused(self):
        for mode in ("on", "not constant", "off"):
            net = Net(5, [4])
            ratio, flag = net.tensor([1], [0.25]), net.graph.flag("mode", mode == "on")
            net.then(lambda x: x, "Dropout", ratio, net.graph.input if mode == "not constant" else flag).gemm(4, UNITS, True)
            (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
            if mode != "off":
                self.refused("Dropout (value_0): its training_mode must be false: export the model for evaluation")
        self.call("import", "m.onnx", "--output", "drops")
        self.assertIn("dropout: {rate: 0.25", (self.tmp / "drops/job.yaml").read_text())
        net = Net(5, [4])
        net.then(lambda x: x, "Dropout", net.graph.input).gemm(4, UNITS, True)
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("Dropout (value_0): its ratio must be a constant number")
        net = Net(5, [4]).then(lambda x: x, "Dropout", ratio=1.0).gemm(4, UNITS, True)
        net.graph.opset = 7
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("Dropout (value_0): its ratio is 1; a job has 0 to below 1")

    def test_a_division_by_0_and_a_normalization_by_the_batch_are_refused_as_such(self):
        for op, values, why in (("Div", [1.0, 0.0, 1.0, 1.0], "its divisor is 0 (element 1, counted from 0)"),
                                ("Div", [0.0], "its divisor is 0 (element 0, counted from 0)"),
                                ("Mul", [1.0, 1.0, math.inf, 1.0], "its constant is inf (element 2, counted from 0)")):
            net = Net(5, [4])
            net.then(lambda x: x, op, net.tensor([len(values)], values)).gemm(4, UNITS, True)
            (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
            self.refused(f"{op} (value_0): {why}")
        net = Net(5, [4])
        net.then(lambda x: x, "BatchNormalization", *[net.tensor([4], [1.0] * 4) for _ in range(4)], training_mode=1).gemm(4, UNITS, True)
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("BatchNormalization (value_0): its training_mode must be 0: export the model for evaluation")

    def test_a_selu_of_opset_6_is_read(self):
        net = Net(5, [4]).gemm(4, 1, True).activation("Selu", selu)
        net.graph.opset = 6
        self.scores_of_one(net, "selu")

    def test_a_shift_that_is_not_constant_is_refused(self):
        net = Net(1, [UNITS])
        net.at = net.graph.node("LayerNormalization", net.at, net.tensor([UNITS], [1.0] * UNITS), net.at, axis=-1)
        (self.tmp / "m.onnx").write_bytes(net.graph.bytes(net.at))
        self.refused("only over the last axis, with constants")


if __name__ == "__main__":
    unittest.main()
