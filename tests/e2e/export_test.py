#!/usr/bin/env python3
"""Exports of models whose weights come from a seed have the bytes that the real packages accepted (tests/interop), on every
machine and at every SIMD level."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import accepted  # noqa: E402
import fixtures  # noqa: E402


class ExportTest(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        known = {key: digest for key, digest in accepted.load().items() if key.split(" ")[0] == name}
        found = {}
        images = isinstance(fixtures.FIXTURES[name](), fixtures.Images)
        with fixtures.made(name, rows=2 if images else fixtures.EVAL_ROWS) as made:  # tables have rows for keys of eval
            for form in {key.split(" ")[1].split("/")[0] for key in known}:
                path, _ = accepted.export(made, form)
                found.update(accepted.keys_of(made, form, path))
        self.assertTrue(known)
        self.assertEqual(found, known)

    def test_models_with_each_operator_have_the_bytes_that_other_programs_accepted(self):
        with tempfile.TemporaryDirectory() as folder:
            _, _, digests = accepted.every_op(folder)
        found = {key: digest for of in digests.values() for key, digest in of.items()}
        self.assertEqual(found, {key: digest for key, digest in accepted.load().items() if key.startswith("every-op ")})


class CommandTest(unittest.TestCase):
    def refused(self, *args):
        done = subprocess.run([fixtures.BUILD / "model" / "model", "export", *map(str, args)], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr

    def test_it_prints_the_inputs_and_why_a_table_is_not_inside(self):
        with fixtures.made("a9a-lr") as made:
            (made.path / "export").mkdir()
            inside, beside = (made.export("onnx", made.path / "export/model.onnx", "--tables_mb", mb) for mb in ("64", "0"))
            self.assertEqual(inside.splitlines()[2:], [
                "inputs:", "  features  int64 (n, 15)  keys", "  features/weights  float32 (n, 15)  0: no key",
                "output:", "  activation  float32 (n, 1)"])
            self.assertEqual(beside.splitlines()[2:], [
                "inputs:", "  keys  float32 (n, 1)  the layer's output",
                "    its table is not inside: its table is larger than --tables_mb",
                "output:", "  activation  float32 (n, 1)"])

    def test_a_copy_as_safetensors_is_the_same_model_and_replaces_nothing(self):
        with fixtures.made("tables") as made:
            copy, first, second = (made.path / name for name in ("copy", "first.onnx", "second.onnx"))
            made.export("safetensors", copy)
            self.assertEqual(sorted(p.name for p in copy.iterdir()),
                             ["encoding.json", "job.yaml", "manifest.json", "tables", "weights.safetensors"])
            self.assertIn("exists: name a new directory", self.refused(made.path, "--format=safetensors", "--output", copy))
            made.export("onnx", first)
            table = next((made.path / "model/tables").glob("*.safetensors"))
            self.assertIn("it is a file of the model", self.refused(made.path, "--format=onnx", "--output", table))
            shutil.rmtree(made.path / "model")
            subprocess.run([fixtures.BUILD / "model" / "model", "export", copy, "--format=onnx", "--output", second],
                           check=True, stdout=subprocess.DEVNULL, timeout=60)
            self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_a_signal_leaves_nothing(self):
        with fixtures.made("mnist-mlp", rows=2) as made:
            (made.path / "model/tables").mkdir()
            with open(made.path / "model/tables/long.safetensors", "wb") as table:
                table.truncate(1 << 28)  # so that the copy takes a while
            before = sorted(made.path.iterdir())
            process = subprocess.Popen([fixtures.BUILD / "model" / "model", "export", made.path, "--format=safetensors",
                                        "--output", made.path / "copy"], stdout=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            end = time.monotonic() + 60
            while sorted(made.path.iterdir()) == before and time.monotonic() < end:
                pass
            process.terminate()
            if process.wait(60) != 0:  # it had not written all
                self.assertEqual((process.returncode, sorted(made.path.iterdir())), (143, before))

    def test_wrong_input_is_one_line_and_writes_nothing(self):
        with fixtures.made("mnist-mlp", rows=2) as made:
            os.mkfifo(made.path / "fifo")
            before = sorted(made.path.rglob("*"))
            self.assertIn("export needs --format", self.refused(made.path))
            self.assertIn("onnx, savedmodel, keras, safetensors", self.refused(made.path, "--format=tflite"))
            for form in ("onnx", "keras"):  # a rename would replace even a device
                self.assertIn("fifo: it exists, and is not a regular file",
                              self.refused(made.path, f"--format={form}", "--output", made.path / "fifo"))
            self.assertTrue((made.path / "fifo").is_fifo())
            for form, name in (("onnx", "weights.safetensors"), ("keras", "weights.safetensors"), ("onnx", "job.yaml")):
                path = made.path / "model" / name
                was = path.read_bytes()
                self.assertEqual(self.refused(made.path, f"--format={form}", "--output", path),
                                 f"gradwire: {path}: it is a file of the model; give --output another name\n")
                self.assertEqual(path.read_bytes(), was)
            (made.path / "model/weights.safetensors").write_bytes(b"no tensors")
            self.assertIn("not a safetensors file", self.refused(made.path, "--format=onnx"))
            self.assertIn("no model", self.refused(made.path / "nothing", "--format=onnx"))
            self.assertEqual(sorted(made.path.rglob("*")), before)


for fixture in fixtures.FIXTURES:
    def test(self, name=fixture):
        self.check(name)
    setattr(ExportTest, f"test_{fixture.replace('-', '_')}_has_the_bytes_that_other_programs_accepted", test)


if __name__ == "__main__":
    unittest.main()
