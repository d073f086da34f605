#!/usr/bin/env python3
"""Models of PyTorch, as torch.onnx.export writes them and by the names of their tensors: after `gradwire import` they have
PyTorch's scores."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import case  # noqa: E402
import fixtures  # noqa: E402

ROWS = 1000
JOB = """
model:
  input: {shape: [26, 26, 3]}
  layers:
    - conv2d: {filters: 16, kernel_size: 3, padding: same, name: conv1}
    - batch_normalization: {epsilon: 1e-5, name: bn1}
    - relu
    - max_pooling2d: {name: pool}
    - conv2d: {filters: 8, kernel_size: 3, strides: 2, name: conv2}
    - silu: {name: silu}
    - conv2d: {filters: 8, kernel_size: 3, strides: 2, name: conv3, inputs: [pool]}
    - elu: {name: elu}
    - add: {inputs: [silu, elu]}
    - flatten
    - dense: {units: 20, name: fc1}
    - batch_normalization: {epsilon: 1e-5, name: bnf}
    - relu
    - dense: {units: 5, activation: softmax, name: fc2}
  loss: sparse_categorical_crossentropy
data: {format: npy, train: [x.npy, y.npy]}
optimizer: adam
"""


def net():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.conv2, self.conv3 = nn.Conv2d(16, 8, 3, stride=2), nn.Conv2d(16, 8, 3, stride=2)
            self.fc1, self.bnf, self.fc2 = nn.Linear(8 * 6 * 6, 20), nn.BatchNorm1d(20), nn.Linear(20, 5)

        def forward(self, x):
            x = torch.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 2)
            x = nn.functional.silu(self.conv2(x)) + nn.functional.elu(self.conv3(x))
            return torch.softmax(self.fc2(torch.relu(self.bnf(self.fc1(torch.flatten(x, 1))))), 1)

    torch.manual_seed(3)
    made = Net()
    for norm in (made.bn1, made.bnf):
        norm.running_mean.normal_(0, 0.3)
        norm.running_var.uniform_(0.5, 2)
        norm.weight.data.normal_(1, 0.2)
    return made.eval()


def write_tensors(path, named):
    head, at = {}, 0
    for name, value in named.items():
        kind = {"float32": "F32", "int64": "I64"}[str(value.dtype)]
        head[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in named.values()))


class TorchImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)

    def run_it(self, *words):
        done = subprocess.run([str(fixtures.BUILD / "model" / "model"), *map(str, words)], capture_output=True, text=True, timeout=300, cwd=self.tmp)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_scores(self, directory, want):
        import numpy as np

        self.run_it("predict", directory, "x.npy", "--output=scores.npy")
        self.assertLess(np.abs(np.load(self.tmp / "scores.npy") - want).max(), case.TOLERANCE)

    def test_a_network_by_onnx_and_by_names(self):
        import numpy as np
        import torch

        made = net()
        x = torch.randn(ROWS, 3, 26, 26)
        want = made(x).detach().numpy()
        np.save(self.tmp / "x.npy", np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)))
        torch.onnx.export(made, x[:1], str(self.tmp / "net.onnx"), input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, dynamo=False, opset_version=17)
        self.run_it("import", "net.onnx", "--output=onnx")
        self.assert_scores("onnx", want)
        write_tensors(self.tmp / "net.safetensors", {k: np.ascontiguousarray(v.numpy()) for k, v in made.state_dict().items()})
        (self.tmp / "job.yaml").write_text(JOB)
        self.run_it("import", "net.safetensors", "--job=job.yaml", "--output=names")
        (self.tmp / "names/job.yaml").write_text(JOB)
        self.assert_scores("names", want)

    def test_what_todays_default_exporter_writes(self):
        """Weights in net.onnx.data, and a head without its last axis."""
        import numpy as np
        import torch
        from torch import nn

        class Image(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 4 * 4, 1)

            def forward(self, x):
                x = torch.max_pool2d(torch.relu(self.conv(x)), 2)
                return torch.sigmoid(self.fc(torch.flatten(x, 1)).squeeze(-1))

        torch.manual_seed(5)
        made, x = Image().eval(), torch.randn(ROWS, 3, 8, 8)
        np.save(self.tmp / "x.npy", np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)))
        torch.onnx.export(made, (x,), str(self.tmp / "net.onnx"), dynamic_shapes=({0: torch.export.Dim("n")},))
        self.assertGreater((self.tmp / "net.onnx.data").stat().st_size, 0)
        self.run_it("import", "net.onnx", "--output=onnx")
        self.assert_scores("onnx", made(x).detach().numpy())


if __name__ == "__main__":
    case.main()
