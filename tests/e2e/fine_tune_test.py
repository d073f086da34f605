#!/usr/bin/env python3
"""First weights from a file (model.weights) and layers that are not trained (trainable: false), with real processes."""
import json
import pathlib
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, WORKER, TrainCase, slow  # noqa: E402

BODY = "dense: {units: 16, activation: relu, name: trunk%s}, batch_normalization: {name: norm%s}"
FIRST = f"[flatten, {BODY % ('', '')}, dense: {{units: 10, name: digits}}]"
FROZEN = ", trainable: false"
TUNED = f"[flatten, {BODY % (FROZEN, FROZEN)}, dense: {{units: 10, name: head, kernel_regularizer: {{l2: 0.001}}}}]"
OPTIMIZERS = ["{sgd: {momentum: 0.9, nesterov: true}}", "{adamw: {weight_decay: 0.1}}", "{ftrl: {l1_regularization_strength: 0.1}}",
              "{adam: {use_ema: true}}", "lamb"]
MINUS_ZERO = struct.pack("<f", -0.0)


def tensors(path):
    """{name: bytes} of a safetensors file."""
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + size])
    head.pop("__metadata__", None)
    return {name: raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for name, t in head.items()}


def write_tensors(path, named):
    """named: {name: (type, shape, bytes)}."""
    head, at = {}, 0
    for name, (kind, shape, raw) in named.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in named.values()))
    return path


class FineTuneTest(TrainCase):
    KEYS = {"data.synthetic_train_rows": 1000, "data.synthetic_eval_rows": 200, "training.epochs": 2,
            "training.batch_size": 64, "model.loss": "{sparse_categorical_crossentropy: {from_logits: true}}"}

    def said(self, code=0, out=None, keys={}):
        """All that a job says, from its start to its end."""
        return self.train("--ps=1", "--workers=1", code=code, keys=keys, out=out).logs()

    def first(self):
        """The weights of a first model; one of the values that training does not change is -0."""
        out = self.tmp / "first"
        self.digest("--ps=1", "--workers=1", keys={"model.layers": FIRST}, out=out)
        path = self.tmp / "first.safetensors"
        raw = bytearray((out / "model/weights.safetensors").read_bytes())
        size = int.from_bytes(raw[:8], "little")
        at = 8 + size + json.loads(raw[8:8 + size])["trunk/kernel"]["data_offsets"][0]
        raw[at:at + 4] = MINUS_ZERO
        path.write_bytes(raw)
        return path

    def tuned(self, **keys):
        return {"model.layers": TUNED, "model.weights": self.weights, **keys}

    def setUp(self):
        super().setUp()
        self.weights = self.first()

    def test_frozen_tensors_keep_their_bits_in_every_mode_and_with_every_kind_of_optimizer(self):
        before = tensors(self.weights)
        modes = [{"training.update": mode} for mode in ("async", "ssp", "geo")]
        kinds = [{"optimizer": optimizer} for optimizer in OPTIMIZERS]
        more = [{"training.clip_norm": 0.1, "compression.push": "int8", "compression.reply": "int8"},
                {"training.update": "async", "training.delay_compensation": 0.1, "compression.reply": "bf16"},
                {"optimizer": "{sgd: {momentum: 0.9}}", "compression.push": "{top_k: {ratio: 0.1}}"},
                {"training.gradient_accumulation_steps": 3}]
        for i, keys in enumerate(modes + (kinds[:1] if SHORT or SANITIZED else kinds + more)):
            with self.subTest(keys=keys):
                out = self.tmp / f"tuned-{i}"
                self.digest("--ps=2", "--workers=2", keys=self.tuned(**keys), out=out)
                after = tensors(out / "model/weights.safetensors")
                for name in ("trunk/kernel", "trunk/bias", "norm/gamma", "norm/beta", "norm/moving_mean", "norm/moving_variance"):
                    was = before[name]
                    if "compression.reply" in keys and "training.clip_norm" in keys and was.startswith(MINUS_ZERO):  # a reply is a difference: -0 + 0
                        was = bytes(4) + was[4:]
                    self.assertEqual(after[name], was, name)
                self.assertNotEqual(after["head/bias"], bytes(40))

    def test_the_result_has_the_same_bits_for_any_number_of_processes(self):
        keys = self.tuned(**{"training.microbatches": 4, "training.clip_norm": 0.5})
        want = self.digest("--ps=1", "--workers=1", keys=keys, out=self.tmp / "one")
        self.assertEqual(self.digest("--ps=3", "--workers=3", keys=keys, out=self.tmp / "three"), want)
        store = {**keys, "checkpoint.store": "chief"}
        self.assertEqual(self.digest("--ps=2", "--workers=1", "--evaluator", keys=store, out=self.tmp / "store"), want)
        other = self.digest("--ps=1", "--workers=1", keys={**keys, "model.weights": None}, out=self.tmp / "without")
        self.assertNotEqual(other, want)

    def test_a_job_of_no_epoch_would_have_the_files_values_and_the_rest_is_initial(self):
        keys = {"model.layers": TUNED.replace(FROZEN, ""), "optimizer": "{sgd: {learning_rate: 1e-30}}"}
        out, plain = self.tmp / "out", self.tmp / "plain"
        self.digest("--ps=2", "--workers=1", keys={**keys, "model.weights": self.weights}, out=out)
        self.digest("--ps=2", "--workers=1", keys=keys, out=plain)
        after, before, initial = (tensors(p) for p in (out / "model/weights.safetensors", self.weights,
                                                       plain / "model/weights.safetensors"))
        self.assertEqual(after["trunk/kernel"][4:], before["trunk/kernel"][4:])
        self.assertEqual(after["head/kernel"], initial["head/kernel"])

    def test_it_resumes_without_the_file_and_refuses_another_one(self):
        keys = self.tuned()
        self.digest("--ps=1", "--workers=1", keys=keys, out=self.out)
        more = {**keys, "training.epochs": 3}
        job = self.said(keys={**more, "model.weights": self.changed()}, out=self.out, code=2)
        self.assertIn("has other values than when the job began", job)
        self.weights.rename(self.tmp / "away")
        job = self.said(keys=more, out=self.out)
        self.assertIn("is not there", job)
        job = self.said(keys={**more, "model.weights": None, "training.epochs": 4}, out=self.out)
        self.assertIn("done", job)
        # Without the key the job still knows with which file it began.
        (self.tmp / "away").rename(self.weights)
        more["training.epochs"] = 5
        job = self.said(keys={**more, "model.weights": self.changed()}, out=self.out, code=2)
        self.assertIn("has other values than when the job began", job)
        job = self.said(keys=more, out=self.out)
        self.assertIn("done", job)

    def changed(self):
        path = self.tmp / "changed.safetensors"
        raw = bytearray(self.weights.read_bytes())
        raw[-5] ^= 1
        at = raw.index(b'"trunk/bias"')
        self.assertGreater(at, 0)
        size = int.from_bytes(raw[:8], "little")
        begin = 8 + size + json.loads(raw[8:8 + size])["trunk/bias"]["data_offsets"][0]
        raw[begin] ^= 1
        path.write_bytes(raw)
        return path

    def test_a_job_that_began_without_it_refuses_it(self):
        keys = self.tuned()
        self.digest("--ps=1", "--workers=1", keys={**keys, "model.weights": None}, out=self.out)
        job = self.said(keys={**keys, "training.epochs": 3}, out=self.out, code=2)
        self.assertIn("model.weights: the job began without it", job)

    def test_a_new_run_begins_with_the_last_one_and_resumes(self):
        keys = self.tuned(**{"checkpoint.run": "one"})
        self.digest("--ps=1", "--workers=1", keys=keys, out=self.out)
        learned = tensors(self.out / "model/weights.safetensors")["head/kernel"]
        still = {**keys, "checkpoint.run": "two", "model.weights": self.changed(),
                 "optimizer": "{adam: {learning_rate: 1e-30}}"}
        job = self.said(keys=still, out=self.out)
        self.assertIn("model.weights is not read", job)
        self.assertEqual(tensors(self.out / "model/weights.safetensors")["head/kernel"], learned)
        job = self.said(keys={**still, "training.epochs": 3}, out=self.out)
        self.assertIn("done", job)

    def test_files_that_do_not_fit_are_refused_naming_tensor_and_file(self):
        named = {"trunk/kernel": ("F32", [784, 16], struct.pack("<f", 1) * (784 * 16))}
        bias = '"trunk/bias": {"dtype": "F32", "shape": [16], "data_offsets": [%d, %d]}'
        twice = "{%s, %s}" % (bias % (0, 64), bias % (64, 128))
        wrong = {
            "none.safetensors: No such file": None,
            "tensor trunk/kernel has the shape (16, 784), but the model's has (784, 16)":
                {"trunk/kernel": ("F32", [16, 784], named["trunk/kernel"][2])},
            "tensor trunk/kernel is not of the type F32": {"trunk/kernel": ("F16", [784, 16], bytes(784 * 16 * 2))},
            "tensor trunk/bias has a value that is not finite (nan, element 3)":
                {"trunk/bias": ("F32", [16], struct.pack("<16f", *[0, 0, 0, -float("nan")] + [0] * 12))},
            "none of its 1 tensors has the name": {"conv\n1.weight": ("F32", [1], bytes(4))},
            "5.safetensors: not a safetensors file": b"x" * 100,
            "6.safetensors: not a safetensors file": struct.pack("<Q", len(twice)) + twice.encode() + bytes(128),
        }
        for i, (words, content) in enumerate(wrong.items()):
            with self.subTest(words):
                path = self.tmp / ("none.safetensors" if content is None else f"{i}.safetensors")
                if isinstance(content, bytes):
                    path.write_bytes(content)
                elif content:
                    write_tensors(path, content)
                job = self.said(keys=self.tuned(**{"model.weights": path}), out=self.tmp / f"x{i}", code=2)
                self.assertIn("model.weights: ", job)
                self.assertIn(words, job)

    def test_a_damaged_file_that_gradwire_wrote_is_refused(self):
        path = self.tmp / "first/model/weights.safetensors"
        raw = bytearray(path.read_bytes())
        raw[-2] ^= 1
        path.write_bytes(raw)
        said = self.said(keys=self.tuned(**{"model.weights": path}), code=2)
        self.assertIn(f"model.weights: {path} is damaged, or of another model", said)

    def test_a_chief_killed_before_the_first_step_ends_with_the_same_digest(self):
        keys = self.tuned(**{"timeouts.worker_rejoin_s": 2})
        want = self.digest("--ps=2", "--workers=2", keys=keys, out=self.tmp / "calm")
        job = self.launch("--ps=2", "--workers=2", *slow(0.02), keys=keys)
        job.kill("worker-0")
        job.wait()
        self.assertEqual(job.summary()["digest"], want)
        self.assertEqual(job.summary()["restarts"], 1)

    def test_half_a_first_checkpoint_is_written_again(self):
        keys = self.tuned()
        want = self.digest("--ps=1", "--workers=1", keys=keys, out=self.tmp / "calm")
        (self.out / "checkpoints/cut-0000000000").mkdir(parents=True)
        (self.out / "checkpoints/cut-0000000000/shard-0.gw").write_bytes(b"half")
        self.assertEqual(self.digest("--ps=1", "--workers=1", keys=keys, out=self.out), want)

    def test_with_tables_dense_tensors_come_from_the_file_and_tables_begin_empty(self):
        rows, path = 400, self.tmp / "keys.csv"
        path.write_text("".join(f"k{i % 37},{i % 5},{i % 2}\n" for i in range(rows)))
        keys = {"data.format": "csv", "data.train": path, "data.eval": path, "data.scale": 1,
                "data.columns": "[key: user, number: n, label: y]", "model.input.shape": "auto",
                "model.layers": "[embedding_bag: {inputs: [user], output_dim: 4, name: bag}, "
                                "dense: {inputs: [bag, n], units: 8, name: mid}, dense: {units: 1, activation: sigmoid, name: out}]",
                "model.loss": "binary_crossentropy", "tables.bag.min_count": 2}
        first = self.tmp / "table-first"
        self.digest("--ps=1", "--workers=1", keys=keys, out=first)
        keys["model.weights"] = first / "model/weights.safetensors"
        want = self.digest("--ps=1", "--workers=1", keys=keys, out=self.tmp / "table-one")
        self.assertEqual(self.digest("--ps=2", "--workers=2", keys=keys, out=self.tmp / "table-two"), want)

    def test_doctor_says_what_the_file_has(self):
        command = [WORKER, "--doctor", f"--job={self.JOB}", f"--output={self.out}", *self.sets(self.tuned())]
        said = subprocess.run(command, capture_output=True, text=True)
        self.assertIn("which has 6 of the model's 8 tensors; it lacks head/kernel, head/bias", said.stdout + said.stderr)
        self.weights.write_bytes(b"x" * 100)
        said = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(said.returncode, 2)
        self.assertIn("not a safetensors file", said.stdout + said.stderr)


if __name__ == "__main__":
    unittest.main()
