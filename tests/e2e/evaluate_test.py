#!/usr/bin/env python3
"""./gradwire evaluate: equal to training's own evaluation, to the bit, from model/, best/ and checkpoints, with any number of
threads; and an error for what is no trained model, or no data of one."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN, TrainCase, notes, slow  # noqa: E402

CSV = """
name: towns
data: {format: csv, train: train.csv, eval: eval.csv, header: names, missing: ["", "?"], bad_rows: skip, columns: [
  {number: {name: age, scale: standard, missing: {value: 3}}}, {category: town}, {number: {name: size, buckets: {quantiles: 5}}},
  {label: {name: answer, classes: ["no", "yes"]}}, {weight: w}]}
model:
  input: {shape: auto}
  layers: [{dense: {units: 8, activation: relu, kernel_regularizer: {l2: 0.01}}}, {dense: {units: 1, activation: sigmoid}}]
  loss: binary_crossentropy
  metrics: [accuracy, auc, logloss]
training: {batch_size: 50, epochs: 3, monitor: loss, microbatches: 4}
optimizer: adam
"""
IMAGES = """
name: images
data: {format: idx, train: [x, y], eval: [x.eval, y.eval], scale: 255}
model:
  input: {shape: [8, 8, 1]}
  layers: [{conv2d: {filters: 4, kernel_size: 3, activation: relu}}, batch_normalization, max_pooling2d, flatten,
    {dense: {units: 3, activation: softmax}}]
  loss: sparse_categorical_crossentropy
  metrics: [accuracy]
training: {batch_size: 50, epochs: 2, monitor: accuracy, microbatches: 4}
optimizer: {sgd: {use_ema: true, ema_momentum: 0.9}}
"""
PRICES = """
name: prices
data: {format: csv, train: prices.csv, eval: prices.eval.csv, delimiter: ";", columns: [{number: "x{1..3}"}, {label: price}]}
model:
  input: {shape: auto}
  layers: [{dense: {units: 5, activation: tanh}}, {dense: {units: 1}}]
  loss: mean_squared_error
  metrics: [mean_absolute_error]
training: {batch_size: 20, epochs: 2, monitor: loss, microbatches: 4}
optimizer: {sgd: {learning_rate: 0.05}}
"""
CLICKS = """
name: clicks
data: {format: synthetic, synthetic: clicks, synthetic_train_rows: 1500, synthetic_eval_rows: 600, synthetic_keys: 400,
  synthetic_fields: 4, delimiter: tab, columns: [{label: click}, {ignore: {name: "I{1..13}"}}, {key: {name: "C{1..4}"}}]}
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: "C{1..4}", name: wide}
    - embedding: {inputs: "C{1..4}", output_dim: 3, name: e}
    - dense: {units: 1, inputs: e, use_bias: false, name: deep}
    - add: [wide, deep]
    - sigmoid
  loss: binary_crossentropy
  metrics: [auc]
optimizer: {adagrad: {learning_rate: 0.1}}
training: {batch_size: 100, epochs: 2, monitor: loss, microbatches: 4}
"""
IDS = """
name: ids
data: {format: csv, train: train.csv, eval: FILE, header: names, columns: [{key: user}, {key: {name: item, hash: false, missing: {key: 0}}},
  {cross: {name: pair, of: [user, item]}}, {label: y}]}
model:
  input: {shape: auto}
  layers: [{embedding: {inputs: [user, pair], output_dim: 2, name: e}}, {linear: {inputs: item, name: w}},
    {dense: {units: 1, inputs: e, name: d}}, {add: [w, d]}, sigmoid]
  loss: binary_crossentropy
training: {batch_size: 20, epochs: 2, microbatches: 4}
optimizer: {sgd: {learning_rate: 0.1}}
"""


def csv_rows(rows, seed, header=True):
    draw = random.Random(seed)
    text = ["town,age,size,id,answer,w"] if header else []
    for i in range(rows):
        age = draw.choice(["", "?", *(f"{draw.uniform(0, 90):.1f}" for _ in range(8))])
        town = draw.choice(["Rome", "Oslo", "Bern", "Lima"] + (["Nowhere"] if seed > 1 else []))
        size = draw.uniform(0, 9)
        answer = "yes" if (town == "Rome") + size / 9 + draw.random() > 1.3 else "no"
        text.append(f'{town},{age},{size:.3f},"row ""{i}"", x",{answer},{draw.choice([0, 1, 1, 2])}')
    return "\n".join(text) + "\n"


def idx(path, shape, values):
    path.write_bytes(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + bytes(values))


def data_files(folder):
    """The files that the jobs above name."""
    (folder / "train.csv").write_text(csv_rows(700, 1))
    (folder / "eval.csv").write_text(csv_rows(530, 2) + "Rome,old,1,7,yes,1\n")
    draw = random.Random(3)
    for name, rows in (("", 300), (".eval", 260)):
        labels = [draw.randrange(3) for _ in range(rows)]
        idx(folder / f"x{name}", (rows, 8, 8), [min(255, draw.randrange(100) + 70 * y) for y in labels for _ in range(64)])
        idx(folder / f"y{name}", (rows,), labels)
        lines = [[draw.gauss(0, 1) for _ in range(3)] for _ in range(rows)]
        (folder / f"prices{name}.csv").write_text("".join(f"{a:.4f};{b:.4f};{c:.4f};{a - 2 * b + c * c:.4f}\n"
                                                          for a, b, c in lines))


class ModelCase(TrainCase):
    """Trains jobs whose models the commands are given."""

    KEYS = {}

    def setUp(self):
        super().setUp()
        data_files(self.tmp)

    def job(self, text, name="job"):
        path = self.tmp / f"{name}.yaml"
        path.write_text(text)
        return path

    def trained(self, text, **options):
        return self.train(job=self.job(text), **options)

    def call(self, *words, code=0, **options):
        """Runs gradwire-model; returns its stdout, or its stderr if the code is not 0."""
        got = subprocess.run([str(MODEL), *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_S,
                             cwd=self.tmp, **options)
        self.assertEqual(got.returncode, code, f"{words}: {got.stdout}{got.stderr}")
        return got.stderr if code else got.stdout

    def evaluate(self, *words):
        return json.loads(self.call("evaluate", "--json", *words))


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class EvaluateTest(ModelCase):
    def history(self):
        return [json.loads(line) for line in (self.out / "history.jsonl").read_text().splitlines()]

    def test_it_is_equal_to_trainings_own_evaluation_to_the_bit(self):
        for name, text in (("csv", CSV), ("idx", IMAGES), ("regression", PRICES), ("tables", CLICKS)):
            with self.subTest(name):
                self.out = self.tmp / name
                result = self.trained(text)
                history = self.history()
                self.assertEqual(result.summary()["eval"], history[-1]["eval"])
                best = history[int(notes(self.out / "best/weights.safetensors")["epoch"]) - 1]["eval"]
                for threads in (1, 2):
                    for path, of in (("", history[-1]["eval"]), ("model", history[-1]["eval"]), ("best", best),
                                     ("checkpoints", history[-1]["eval"])):
                        got = self.evaluate(self.out / path, f"--threads={threads}")
                        self.assertEqual(got["eval"], of, (path, threads))
                self.assertEqual(got["eval"]["loss"] > 0 and got["step"], history[-1]["step"])

    def test_text_has_what_training_shows(self):
        shown = self.trained(CSV)
        line = next(line for line in (self.tmp / "out.stdout").read_text().splitlines() if line.startswith("  eval: "))
        self.assertEqual(self.call("evaluate", self.out).splitlines()[1:3:1][0], line)
        self.assertIn("\n  530 rows, ", self.call("evaluate", self.out))
        self.assertIn("\n  1 bad rows left out\n", self.call("evaluate", self.out))
        self.assertIn('eval.csv:532: column "age": "old" is not a number', self.call("evaluate", self.out, "--set",
                                                                                    "data.bad_rows=stop", code=2))
        self.assertEqual(shown.summary()["status"], "done")

    def test_other_data_and_a_copy_of_the_model_elsewhere(self):
        self.trained(CSV)
        (self.tmp / "more.csv").write_text("answer,w,age,town,size\nyes,1,5,Rome,1\nno,1,6,Oslo,2\n")
        (self.out / "model").rename(self.tmp / "copy")
        got = self.evaluate("copy", "more.csv")
        self.assertEqual((got["rows"], got["bad_rows"], got["model"]), (2, 0, str(self.tmp.resolve() / "copy")))
        self.assertEqual(self.evaluate("copy", "more.csv", "more.csv")["rows"], 4)
        self.assertEqual(self.evaluate("copy", "mor*.csv")["rows"], 2)
        (self.tmp / "empty.csv").write_text("")
        (self.tmp / "unlabeled.csv").write_text("town,age,size,w\nRome,1,2,1\n")
        for file, text in (("nothing.csv", "nothing.csv"), ("empty.csv", "empty.csv: it has no row"),
                           ("unlabeled.csv", 'unlabeled.csv:1: its header does not name "answer" of data.columns')):
            error = self.call("evaluate", "copy", file, code=2)
            self.assertIn(text, error)
            self.assertEqual(error.count("\n"), 1)

    def test_best_and_checkpoints_of_a_job_that_runs(self):
        for name, text in (("csv", CSV), ("tables", CLICKS)):
            with self.subTest(name):
                self.out = self.tmp / name
                job = self.launch(*slow(0.01), job=self.job(text), keys={
                    "training.epochs": 10000, "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0})
                job.until("an epoch is the best", lambda: (self.out / "best/weights.safetensors").exists())
                job.until_cut(1)
                self.assertIn("has not written model/ yet", self.call("evaluate", self.out, code=2))
                got = self.evaluate(self.out / "best")  # its epoch, and so its step, may differ from the next reading's
                (line,) = job.until("its epoch is in the history",
                                    lambda: [line for line in self.history() if line["step"] == got["step"]])
                self.assertEqual(got["eval"], line["eval"])
                self.assertGreater(self.evaluate(self.out / "checkpoints")["rows"], 0)
                job.stop()

    def test_what_is_no_model_is_refused(self):
        for words, text in (([], "DIR is missing"), (["none"], "none: No such file or directory"),
                            ([self.tmp], "it is not the directory of a trained model"),
                            ([self.tmp / "train.csv"], "it is not the directory of a trained model"),
                            ([self.tmp, "--threads=0"], "--threads"), ([self.tmp, "--set=training.epochs=1"],
                                                                       "only keys of data can be set")):
            error = self.call("evaluate", *words, code=2)
            self.assertIn(text, error)
            self.assertEqual(error.count("\n"), 1, error)
        (self.out / "checkpoints").mkdir(parents=True)
        self.assertIn("neither model/ nor a checkpoint yet", self.call("evaluate", self.out, code=2))
        self.assertIn("it has no complete checkpoint", self.call("evaluate", self.out / "checkpoints", code=2))

    def test_the_shape_that_training_found_in_the_data_is_known(self):
        self.trained(IMAGES.replace("shape: [8, 8, 1]", "shape: auto").replace(
            "{conv2d: {filters: 4, kernel_size: 3, activation: relu}}, batch_normalization, max_pooling2d, flatten", "flatten"))
        expected = self.evaluate(self.out)["eval"]
        for path in ("best", "checkpoints"):
            self.evaluate(self.out / path)
        (self.out / "model/manifest.json").unlink()
        self.assertIn("model.input.shape: auto, and no manifest.json", self.call("evaluate", self.out, code=2))
        for path in ("model", "checkpoints"):
            self.assertEqual(self.evaluate(self.out / path, "--set=model.input.shape=[8, 8]")["eval"], expected)

    def test_a_damaged_or_foreign_file_is_named(self):
        self.trained(PRICES)
        twice = "model/manifest.json: not a valid manifest: line 2: duplicate object key near '\"files\"'"
        for name, change, text in (("weights.safetensors", lambda b: b[:-3], "weights.safetensors"),
                                   ("manifest.json", lambda b: b[:40], "model/manifest.json: not a valid manifest: line "),
                                   ("manifest.json", lambda b: b'{"files": {},\n "files": {},' + b[1:], twice),
                                   ("encoding.json", lambda b: b[:40], "encoding.json"),
                                   ("job.yaml", lambda b: b.replace(b"units: 5", b"units: 6"), "weights.safetensors"),
                                   ("job.yaml", lambda b: b"a: [", "job.yaml")):
            path = self.out / "model" / name
            was = path.read_bytes()
            path.write_bytes(change(was))
            self.assertIn(text, self.call("evaluate", self.out, code=2))
            path.write_bytes(was)
        self.evaluate(self.out)
        self.assert_a_flipped_bit_is_found("model/weights.safetensors")
        for folder in ("model", "best"):  # an earlier release, or a job that runs: the file's own digest tells
            (self.out / folder / "manifest.json").unlink()
            self.assert_a_flipped_bit_is_found(f"{folder}/weights.safetensors")

    def test_a_table_that_is_damaged_or_of_another_model_is_named(self):
        self.trained(CLICKS)
        for name in ("weights", "tables/e", "tables/wide"):
            self.assert_a_flipped_bit_is_found(f"model/{name}.safetensors")

    def test_a_model_with_tables_that_a_killed_job_has_half_replaced_is_refused(self):
        """The manifest is removed first, and written last."""
        self.trained(CLICKS)
        (self.out / "model/manifest.json").unlink()
        for words in (["evaluate", self.out], ["predict", self.out],
                      ["export", self.out, "--format=onnx", f"--output={self.tmp}/half.onnx"]):
            self.assertIn(f"{self.out}/model: the model is not complete", self.call(*words, code=2))

    def assert_a_flipped_bit_is_found(self, name):
        path = self.out / name
        was = path.read_bytes()
        of = self.out / name.split("/")[0]
        self.evaluate(of)
        path.write_bytes(was[:-2] + bytes([was[-2] ^ 1]) + was[-1:])  # the file is a valid one
        for words in (["evaluate", of], ["predict", of], ["export", of, "--format=onnx", f"--output={self.tmp}/flipped.onnx"]):
            said = self.call(*words, code=2)
            self.assertIn(f"{name} is damaged", said)
            self.assertIn("its content is not what was written", said)
        path.write_bytes(was)

    def test_keys_that_have_no_row_are_warned_of_once(self):
        def rows(path, user, item, users=60):
            lines = "".join(f"{user}{i % users},{item + i * 7 % 30},{i % 2}\n" for i in range(1200))
            (self.tmp / path).write_text("user,item,y\n" + lines)

        def warned(text):
            return [line.split("warn ")[-1].split(": ", 1)[-1] for line in text.splitlines() if "find a row" in line]
        rows("train.csv", "user_", 100)
        rows("same.csv", "user_", 100)
        rows("case.csv", "User_", 100)
        rows("range.csv", "user_", 200)
        rows("few.csv", "User_", 100, users=19)
        rows("most.csv", "user_", 100, users=3000)
        one = self.train("--evaluator", job=self.job(IDS.replace("FILE", "same.csv")))
        self.assertEqual(warned(one.stderr() + one.log("evaluator-0")), [])
        case = "column user: of 1200 lookups in table e, 0 find a row"
        other = self.train(job=self.job(IDS.replace("FILE", "case.csv")), out=self.tmp / "other")
        got = [line for line in warned(other.log("worker-0")) if "column user" in line]
        self.assertEqual(len(got), 1, got)
        self.assertRegex(got[0], f"^data.eval: {case}: the model has not learned keys such as [0-9]+ \\(a hash\\). Check that")
        other = self.train("--evaluator", job=self.job(IDS.replace("FILE", "case.csv")), out=self.tmp / "apart")
        self.assertEqual(len([line for line in warned(other.log("evaluator-0")) if case in line]), 1)
        for model in (self.out, self.out / "checkpoints"):
            for words in (["evaluate", model], ["predict", model], ["encode", model, "--output=a.npz"]):
                def said(file, *flags):
                    return warned(subprocess.run([MODEL, words[0], words[1], file, *words[2:], *flags], capture_output=True, text=True,
                                                 timeout=DEADLINE_S, cwd=self.tmp, check=True).stderr)
                for file in ("same.csv", "few.csv", "most.csv"):
                    self.assertEqual([line for line in said(file) if "column pair" not in line], [], file)
                for threads in 1, 3:
                    got = said("case.csv", f"--threads={threads}")
                    self.assertEqual(sum(line.startswith(f"case.csv: {case}: ") for line in got), 1, (words, threads))
                items = [line for line in said("range.csv") if "column item" in line]
                self.assertEqual(len(items), 1)
                self.assertRegex(items[0], "^range.csv: column item: of 1200 lookups in table w, 0 find a row: the model has not "
                                           r"learned keys such as 2\d\d\. Check that the column is the one of data.train, ")



if __name__ == "__main__":
    unittest.main()
