#!/usr/bin/env python3
"""Jobs that read csv (adult) and CIFAR-10, and that the cluster's shape changes nothing of the result."""
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import ROOT, SANITIZED, WORKER, TrainCase  # noqa: E402

DATA = os.environ.get("GRADWIRE_DATA")
FOLDER = pathlib.Path(DATA or "/nonexistent")

JOB = """name: people
model:
  input: {shape: auto}
  layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 1, activation: sigmoid}}]
  loss: binary_crossentropy
  metrics: [accuracy]
data:
  format: csv
  train: people-*.csv.gz
  eval: people.eval
  header: names
  bad_rows: skip
  columns: [number: {name: age, scale: standard}, category: town, label: {name: rich, classes: ["no", "yes"]}]
optimizer: adam
training: {batch_size: 32, epochs: 20, learning_rate: 0.02, microbatches: 4}
"""
TOWNS = ["Rome", '"Paris, Texas"', "Oslo", '"the ""Hague"""']


def people(first, rows, bad=()):
    """The rich are the old ones of two of the towns."""
    lines = ["rich,age,street,town"]
    for i in range(first, first + rows):
        age, town = i * 7 % 80, i * 13 % 4
        rich = "yes" if age > 40 and town < 2 else "no"
        lines.append(f"{rich},{'old' if i in bad else age},x,{TOWNS[town]}")
    return "\n".join(lines) + "\n"


class CsvTest(TrainCase):
    KEYS = {"timeouts.worker_rejoin_s": 2}

    def setUp(self):
        super().setUp()
        self.JOB = self.tmp / "people.yaml"
        self.JOB.write_text(JOB)
        self.write(bad=(5, 700))
        (self.tmp / "people.eval").write_text(people(2000, 400))

    def write(self, bad):
        (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(people(0, 500, bad).encode()))
        (self.tmp / "people-2.csv.gz").write_bytes(gzip.compress(people(500, 1100, bad).encode()))

    def test_what_is_learned_does_not_depend_on_workers_or_threads(self):
        undisturbed = self.undisturbed()
        s = self.summary(self.tmp / "undisturbed")
        self.assertGreater(s["eval"]["accuracy"], 0.98)
        self.assertEqual(s["steps"], 20 * 50)  # bad rows keep their places: 1,600 rows, 32 a step
        for n, threads in ((1, 3), (3, 1), (2, 2)):
            self.assertEqual(self.digest(f"--workers={n}", "--ps=2", out=self.tmp / f"{n}-{threads}",
                                         keys={"worker.threads": threads}), undisturbed)

    def test_a_job_without_an_eval_part_says_nothing_of_one_and_a_fresh_folder_stays_where_it_is(self):
        self.JOB.write_text(JOB.replace("  eval: people.eval\n", ""))
        self.train("--fresh", keys={"training.epochs": 1})
        said = (self.tmp / "out.stdout").read_text()
        self.assertIn("  train: loss ", said)
        self.assertNotIn("eval:", said)
        self.assertFalse((self.tmp / "out.1").exists())
        self.train("--fresh", keys={"training.epochs": 1})
        self.assertTrue((self.tmp / "out.1/summary.json").exists())

    def test_what_was_learned_of_the_columns_is_beside_the_model(self):
        self.train(keys={"training.epochs": 1})
        encoding = json.loads((self.out / "model/encoding.json").read_text())
        age, town, rich = encoding["columns"]
        ages = [i * 7 % 80 for i in range(1600) if i not in (5, 700)]
        mean = sum(ages) / len(ages)
        deviation = (sum((a - mean) ** 2 for a in ages) / len(ages)) ** 0.5
        self.assertAlmostEqual(age["number"]["shift"], mean, places=9)
        self.assertAlmostEqual(age["number"]["divisor"], deviation, places=9)
        self.assertEqual((town["feature"], town["width"], encoding["features"]), (1, 4, 5))
        self.assertEqual(town["category"]["words"], ["Rome", "Paris, Texas", "Oslo", 'the "Hague"'])
        self.assertEqual((rich["kind"], rich["classes"]), ("label", ["no", "yes"]))

    def test_bad_rows_of_the_eval_part_are_as_if_they_were_not_there(self):
        keys, seen = {"training.epochs": 1, "model.metrics": "[accuracy, auc, recall]"}, []
        lines = people(2000, 400, bad=range(2000, 2400, 3)).splitlines(keepends=True)
        for name, kept in (("all", lines), ("good", [line for line in lines if ",old," not in line])):
            (self.tmp / "people.eval").write_text("".join(kept))
            self.train(keys=keys, out=self.tmp / name)
            seen.append(self.summary(self.tmp / name)["eval"])
        self.assertEqual(len(lines) - len(kept), 134)
        self.assertEqual(seen[0], seen[1])
        self.assertGreater(seen[0]["auc"], 0.9)

    def test_a_bad_row_stops_the_job_with_its_file_line_and_column(self):
        job = self.train(code=2, keys={"data.bad_rows": "stop"})
        self.assertIn('people-1.csv.gz:7: column "age": "old" is not a number', job.stderr())

    def test_what_leaves_nothing_to_learn_is_warned_of_once(self):
        (self.tmp / "people-2.csv.gz").unlink()
        (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(b"age,town,rich\n" + b"1,Rome,no\n2,Oslo,no\n" * 9))
        layers = "[{dense: 3}, batch_normalization, {dense: {units: 1, activation: sigmoid}}]"
        job = self.train("--workers=2", keys={"training.epochs": 1, "training.batch_size": 1, "training.microbatches": 1,
                                              "model.layers": layers})
        said = job.stderr()
        self.assertEqual(said.count("data.train: all rows have the label 0: from one class alone nothing can be learned"), 1, said)
        self.assertNotIn("no row has the class", said)
        self.assertEqual(said.count("batch_normalization takes its mean and variance from microbatches of 1 row"), 1, said)

    def test_labels_that_the_model_cannot_give_or_classes_without_rows_are_warned_of(self):
        (self.tmp / "people-2.csv.gz").unlink()
        (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(b"age,town,rich\n" + b"1,Rome,-100\n2,Oslo,300\n" * 9))
        columns = "[number: age, category: town, label: rich]"
        few = {"training.epochs": 1, "training.batch_size": 6, "training.microbatches": 1, "data.columns": columns, "data.eval": "people-1.csv.gz"}
        for activation, why in (("sigmoid", "none below 0"), ("relu", "none below 0"), ("tanh", "none below -1"), ("linear", None)):
            said = self.train("--fresh", keys={**few, "model.loss": "mse", "model.metrics": "[]",
                                               "model.layers": f"[{{dense: {{units: 1, activation: {activation}}}}}]"}).stderr()
            self.assertEqual("the last activation" in said, why is not None, said)
            if why:
                self.assertIn(f"data.train: labels are from -100 to 300, and the last activation of dense, {activation}, gives {why}: "
                              "leave it out", said)
        (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(b"age,town,rich\n" + b"1,Rome,0\n2,Oslo,2\n" * 9))
        for units, why in ((3, "no row has the class 1, of the classes 0 to 2: it cannot be learned"),
                           (5, "no row has the class 1, of the classes 0 to 4, and others have none: it cannot be learned")):
            said = self.train("--fresh", keys={**few, "model.loss": "sparse_categorical_crossentropy", "model.metrics": "[]",
                                               "model.layers": f"[{{dense: {{units: {units}, activation: softmax}}}}]"}).stderr()
            self.assertIn(f"data.train: {why}", said)
        (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(b"age,town,rich\n" + b"1,Rome,lo\n2,Oslo,mid\n" * 9))
        columns = '[number: age, category: town, label: {name: rich, classes: [lo, "hi|high", mid]}]'
        said = self.train("--fresh", keys={**few, "data.columns": columns, "model.loss": "sparse_categorical_crossentropy", "model.metrics": "[]",
                                           "model.layers": "[{dense: {units: 3, activation: softmax}}]"}).stderr()
        self.assertIn('data.train: no row has the class 1 ("hi|high"), of the classes 0 to 2: it cannot be learned', said)

    def test_labels_and_weights_far_from_1_are_warned_of(self):
        (self.tmp / "people-2.csv.gz").unlink()
        few = {"training.epochs": 1, "training.batch_size": 6, "training.microbatches": 1, "data.eval": "people-1.csv.gz", "model.loss": "mse",
               "model.metrics": "[]", "model.layers": "[dense: 1]", "optimizer": "{sgd: {learning_rate: 0.05}}",
               "data.columns": "[number: age, category: town, label: rich, weight: w]"}
        for label, weight, said in ((1, 1, None), (1, 99, None), (1, 0.02, None),
                                    (1, 0.005, "data.train: the mean weight of its rows is 0.005, so losses are near 0, whatever is learned, "
                                               "and sgd takes too small steps; divide the weights by it"),
                                    (4e-6, 1, "data.train: labels are from 4e-06 to 8e-06: a model learns numbers near 1 best; "
                                                                 "multiply them all by one number"),
                                    (2e5, 1, "labels are from 200000 to 400000: a model learns numbers near 1 best; divide them all"),
                                    (1, 200, "data.train: the mean weight of its rows is 200, so gradients are as many times as large as without weights, "
                                             "and sgd with the learning_rate 0.05 takes too large steps; divide the weights, or the rate, by 200")):
            rows = "age,town,rich,w\n" + f"1,Rome,{label},{weight}\n2,Oslo,{2 * label},{weight}\n" * 9
            (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(rows.encode()))
            keys = {**few, "optimizer": "adam"} if weight == 99 else few
            text = self.train("--fresh", keys=keys).stderr()
            self.assertEqual(("near 1 best" in text) + ("mean weight" in text), said is not None, text)
            self.assertIn(said or "", text)

    def test_names_rates_and_decays_that_do_not_fit_are_said(self):
        (self.tmp / "people-2.csv.gz").unlink()
        (self.tmp / "people-1.csv.gz").write_bytes(gzip.compress(b"age,town,rich\n" + b"1,Rome,hi\n2,Oslo,lo\n3,Oslo,mid\n" * 4))
        few = {"training.epochs": 20, "training.batch_size": 6, "training.microbatches": 1, "data.eval": "people-1.csv.gz",
               "model.metrics": "[]", "model.loss": "sparse_categorical_crossentropy", "model.layers": "[{dense: {units: 4, activation: softmax}}]",
               "data.columns": "[number: age, category: town, label: {name: rich, classes: [hi, lo, mid]}]"}
        said = self.train("--fresh", keys={**few, "training.learning_rate_schedule": "{cosine_decay: {decay_steps: 2}}"}).stderr()
        self.assertIn("data.columns: the label column names 3 classes, the model has 4: use units: 3 for dense, or name all classes", said)
        self.assertIn("training.learning_rate_schedule: the learning rate is 0 from update 3 of 40 on", said)
        self.assertNotIn("no row has the class", said)
        said = self.train("--fresh", keys={**few, "training.warmup_steps": 1000, "model.loss": "mse", "model.layers": "[{dense: 1}]"}).stderr()
        self.assertIn("data.columns: the label column names 3 classes, and mean_squared_error takes their numbers, 0 to 2, as amounts: "
                      "use units: 3 with softmax, and sparse_categorical_crossentropy", said)
        self.assertIn("training.warmup_steps: 1000, but the job has 40 updates of the weights", said)
        said = self.train("--fresh", keys={**few, "optimizer": "{adamw: {exclude_from_weight_decay: [bias, gama]}}"}).stderr()
        self.assertIn('optimizer: exclude_from_weight_decay: no tensor or table has "gama" in its name; there are: dense/kernel, dense/bias', said)
        frozen = "[{dense: {units: 2, name: first, trainable: false}}, {dense: {units: 4, activation: softmax}}]"
        said = self.train("--fresh", keys={**few, "model.layers": frozen, "optimizer": "{adamw: {exclude_from_weight_decay: [first]}}"}).stderr()
        self.assertNotIn("exclude_from_weight_decay", said)

    def test_other_contents_or_columns_are_not_resumed(self):
        self.train(keys={"training.epochs": 1})
        job = self.train(code=2, keys={"training.epochs": 2, "data.trim": "true"})
        self.assertIn("data.trim was false, is true", job.stderr())
        self.write(bad=(6, 700))
        job = self.train(code=2, keys={"training.epochs": 2})
        self.assertIn("use the same data, or start from scratch with --fresh or another --output; a new "
                      "checkpoint.run starts with the learned weights", job.stderr())


def npy(descr, shape, data):
    """As numpy.save writes it."""
    text = str({"descr": descr, "fortran_order": False, "shape": shape})
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


class ArraysTest(TrainCase):
    """The same images as idx files, and as numpy's archives and arrays."""
    SIDE, ROWS, EVAL = 6, 400, 120
    JOB_TEXT = """name: images
model:
  input: {shape: [6, 6]}
  layers: [flatten, {dense: {units: 16, activation: relu}}, {dense: {units: 3}}]
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
  metrics: [accuracy]
data: {format: idx, train: train-*.idx, eval: eval-*.idx, scale: 255}
optimizer: sgd
training: {batch_size: 20, epochs: 4, learning_rate: 0.2, microbatches: 4}
"""

    def setUp(self):
        super().setUp()
        self.JOB = self.tmp / "images.yaml"
        self.JOB.write_text(self.JOB_TEXT)
        arrays = {}
        for part, first, rows in (("train", 0, self.ROWS), ("eval", 5000, self.EVAL)):
            labels = [i * 7 % 3 for i in range(first, first + rows)]
            pixels = bytes(200 + i % 50 if at % 3 == label else (i * 31 + at * 17) % 90
                           for i, label in enumerate(labels) for at in range(self.SIDE ** 2))
            shape = (rows, self.SIDE, self.SIDE)
            (self.tmp / f"{part}-images.idx").write_bytes(struct.pack(">HBB3I", 0, 8, 3, *shape) + pixels)
            (self.tmp / f"{part}-labels.idx").write_bytes(struct.pack(">HBBI", 0, 8, 1, rows) + bytes(labels))
            arrays[f"x_{part}"] = npy("|u1", shape, pixels)
            arrays[f"y_{part}"] = npy("<i8", (rows,), struct.pack(f"<{rows}q", *labels))
            (self.tmp / f"{part}-x.npy").write_bytes(npy("<f4", shape, struct.pack(f"<{len(pixels)}f", *pixels)))
            (self.tmp / f"{part}-y.npy.gz").write_bytes(gzip.compress(npy(">i4", (rows, 1), struct.pack(f">{rows}i", *labels))))
        with zipfile.ZipFile(self.tmp / "set.npz", "w", zipfile.ZIP_DEFLATED) as z:
            for name, data in arrays.items():
                with z.open(f"{name}.npy", "w", force_zip64=True) as member:  # as numpy does
                    member.write(data)

    def test_they_train_to_the_same_digest(self):
        idx = self.undisturbed()
        self.assertGreater(self.summary(self.tmp / "undisturbed")["eval"]["accuracy"], 0.9)
        for name, train, evaluation in (
                ("npz", "[set.npz:x_train, set.npz:y_train]", "[set.npz:x_eval, set.npz:y_eval]"),
                ("npy", "train-?.npy*", "eval-?.npy*")):
            with self.subTest(name):
                self.JOB.write_text(self.JOB_TEXT.replace("format: idx, train: train-*.idx, eval: eval-*.idx",
                                                          f"format: {name}, train: {train}, eval: {evaluation}"))
                self.assertEqual(self.digest("--workers=2", "--ps=2", out=self.tmp / name), idx)
                self.assertEqual(self.summary(self.tmp / name)["eval"], self.summary(self.tmp / "undisturbed")["eval"])

    def test_doctor_and_train_name_an_archive_whose_arrays_are_not_named(self):
        self.JOB.write_text(self.JOB_TEXT.replace("format: idx, train: train-*.idx, eval: eval-*.idx",
                                                  "format: npz, train: set.npz"))
        said = self.train(code=2).stderr()
        self.assertIn("set.npz: it has 4 arrays (x_train, y_train, x_eval, y_eval): name one of rows and one of labels", said)
        doctor = subprocess.run([WORKER, "--doctor", f"--job={self.JOB}", f"--output={self.out}"], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual(doctor.returncode, 2, doctor.stderr)
        self.assertIn("set.npz: it has 4 arrays", doctor.stdout)


class CensusTest(TrainCase):
    JOB = ROOT / "examples/adult/mlp.yaml"
    KEYS = {"training.epochs": 3}

    def test_the_example_trains_without_any_data(self):
        self.assertGreater(self.train("--ps=1", "--workers=2").summary()["eval"]["accuracy"], 0.84)


class SpillTest(TrainCase):
    """Rows beyond data.memory_mb: 200,000 of 15 columns are 12 MB, and 16 MB until they are scaled, of which 1 MiB is in memory."""

    JOB = ROOT / "examples/adult/mlp.yaml"
    KEYS = {"training.epochs": 1, "training.batch_size": 2048, "data.synthetic_train_rows": 200000}

    def test_what_is_learned_does_not_depend_on_the_memory_that_rows_may_have(self):
        self.train("--ps=1", "--workers=1", keys={"data.memory_mb": 100}, out=self.tmp / "memory")
        job = self.train("--ps=1", "--workers=1", keys={"data.memory_mb": 1, "data.spill": self.tmp})
        there, spilled = self.summary(self.tmp / "memory"), job.summary()
        self.assertEqual(spilled["digest"], there["digest"])
        self.assertEqual(spilled["eval"], there["eval"])
        self.assertIn(f"data.train: 12 MiB of its rows are in a file in {self.tmp}, because data.memory_mb has no room", job.log("worker-0"))
        if not SANITIZED:
            saved = there["peak_rss_bytes"]["worker 0"] - spilled["peak_rss_bytes"]["worker 0"]
            self.assertGreater(saved, 8 << 20)

    def test_a_folder_that_cannot_be_written_is_named_before_training(self):
        job = self.train(code=2, keys={"data.memory_mb": 1, "data.spill": self.tmp / "none"})
        self.assertIn(f"data.train: {self.tmp}/none: No such file or directory: rows beyond the 2 MiB of "
                      "data.memory_mb of this host's processes go to a file there, ", job.stderr())
        self.assertIn("set data.spill to a directory with more room, or raise data.memory_mb", job.stderr())


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with adult/adult.data.gz and adult.test.gz")
class AdultTest(TrainCase):
    JOB = ROOT / "examples/adult/mlp.yaml"
    KEYS = {"data.format": "csv", "data.train": FOLDER / "adult/adult.data.gz",
            "data.eval": FOLDER / "adult/adult.test.gz"}

    @unittest.skipIf(SANITIZED, "of the release build")
    def test_it_reaches_accuracy_0_85_and_auc_0_903(self):
        for seed in (1, 2, 3):
            with self.subTest(seed=seed):
                s = self.train("--ps=2", "--workers=2", keys={"training.seed": seed}, out=self.tmp / str(seed)).summary()
                self.assertGreaterEqual(s["eval"]["accuracy"], 0.85)
                self.assertGreaterEqual(s["eval"]["auc"], 0.903)


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with cifar10-subset/*.bin.gz")
@unittest.skipIf(SANITIZED, "of the release build")
class CifarTest(TrainCase):
    JOB = ROOT / "examples/cifar10/cnn.yaml"
    KEYS = {"data.train": FOLDER / "cifar10-subset/train_batch.bin.gz",
            "data.eval": FOLDER / "cifar10-subset/test_batch.bin.gz"}

    def test_the_subset_trains_past_0_45(self):
        s = self.train("--ps=2", "--workers=2").summary()
        self.assertGreater(s["eval"]["accuracy"], 0.45)


if __name__ == "__main__":
    unittest.main()
