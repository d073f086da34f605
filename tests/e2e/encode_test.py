#!/usr/bin/env python3
"""./gradwire encode: the arrays have the rows' numbers, words, features, keys and vectors, in their order, on any number of
threads; the archive is one that numpy can read, and has the same bytes each time."""
import array
import csv
import io
import json
import math
import pathlib
import struct
import subprocess
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN  # noqa: E402
from evaluate_test import CLICKS, CSV, IMAGES, PRICES, ModelCase, csv_rows  # noqa: E402

KEYS = """
name: keys
data: {format: csv, train: keys.csv, eval: keys.csv, delimiter: ";", columns: [{label: y}, {key: {name: user, hash: true}},
  {keys: {name: tags, hash: false, separator: " ", max_values: 3, weights: true}}, {number: x}]}
model:
  input: {shape: auto}
  layers: [{linear: {inputs: [user, tags], name: wide}}, {dense: {inputs: x, units: 1, name: deep}}, {add: [wide, deep]}, sigmoid]
  loss: binary_crossentropy
training: {batch_size: 20, epochs: 2, microbatches: 4}
optimizer: {sgd: {learning_rate: 0.5}}
"""


def npy(data):
    """(shape, elements) of an array."""
    size = 10 + struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10:size])  # a literal that gradwire wrote
    assert not header["fortran_order"] and size % 64 == 0
    kind, body = header["descr"], data[size:]
    if kind.startswith("<U"):
        step = 4 * int(kind[2:])
        return header["shape"], [body[i:i + step].decode("utf-32-le").rstrip("\0") for i in range(0, len(body), step)]
    return header["shape"], array.array({"<f4": "f", "<i8": "q"}[kind], body).tolist()


def tensors(path):
    data = path.read_bytes()
    end = 8 + struct.unpack_from("<Q", data)[0]
    return {name: array.array("f", data[end + t["data_offsets"][0]:end + t["data_offsets"][1]]).tolist()
            for name, t in json.loads(data[8:end]).items() if name != "__metadata__"}


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class EncodeTest(ModelCase):
    def encode(self, *words):
        """The arrays by name."""
        self.call("encode", *words, "--output=all.npz")
        with zipfile.ZipFile(self.tmp / "all.npz") as archive:
            self.assertIsNone(archive.testzip())
            return {name.removesuffix(".npy"): npy(archive.read(name)) for name in archive.namelist()}

    def test_raw_numbers_and_words_are_those_of_the_text(self):
        self.trained(CSV)
        many = csv_rows(20000, 5)
        (self.tmp / "many.csv").write_text(many + "Kraków \N{SNOWMAN}\N{PILE OF POO},1,2,x,yes,1\n,bad,1,x,yes,1\n")
        arrays = self.encode(self.out, "many.csv", "--raw", "--threads=3")
        rows = list(csv.DictReader(io.StringIO(many)))
        self.assertEqual(list(arrays), ["age", "town", "size"])
        self.assertEqual({shape for shape, _ in arrays.values()}, {(20002,)})
        self.assertEqual(arrays["town"][1], [row["town"] for row in rows] + ["Kraków \N{SNOWMAN}\N{PILE OF POO}", ""])
        size = array.array("f", [float(row["size"]) for row in rows]).tolist()
        self.assertEqual(arrays["size"][1][:-2], size)
        self.assertTrue(math.isnan(arrays["size"][1][-1]))
        for got, row in zip(arrays["age"][1], rows):
            self.assertTrue(math.isnan(got) if row["age"] in ("", "?") else abs(got - float(row["age"])) < 1e-5)

    def test_features_are_those_of_encoding_json(self):
        self.trained(CSV)
        (shape, features), = self.encode(self.out, "eval.csv").values()
        self.assertEqual(shape, (531, 10))
        encoding = json.loads((self.out / "model/encoding.json").read_text())
        age, town, size = encoding["columns"][:3]
        rows = list(csv.DictReader((self.tmp / "eval.csv").read_text().splitlines()))
        for i, row in enumerate(rows[:-1]):
            x, want = features[10 * i:10 * i + 10], [0.0] * 10
            number = 3 if row["age"] in ("", "?") else float(row["age"])
            want[age["feature"]] = (number - age["number"]["shift"]) / age["number"]["divisor"]
            if row["town"] in town["category"]["words"]:
                want[town["feature"] + town["category"]["words"].index(row["town"])] = 1
            want[size["feature"] + sum(b <= array.array("f", [float(row["size"])])[0] for b in size["buckets"]["borders"])] = 1
            for a, b in zip(x, want, strict=True):
                self.assertAlmostEqual(a, b, places=5)
        self.assertTrue(all(map(math.isnan, features[-10:])))

    def test_features_that_are_too_large_are_warned_of(self):
        (self.tmp / "a.csv").write_text("0.001,0\n0.002,1\n" * 20)
        self.trained("data: {format: csv, train: a.csv, columns: [number: {name: a, scale: standard}, label: y]}\n"
                     "model: {input: {shape: auto}, layers: [dense: {units: 1, activation: sigmoid}], loss: binary_crossentropy}\n"
                     "training: {batch_size: 20, epochs: 1}\noptimizer: {sgd: {learning_rate: 0.5}}\n")
        for number, said in ("1e38", True), ("5", False):
            (self.tmp / "large.csv").write_text(f"1,0\n{number},0\n")
            got = subprocess.run([str(MODEL), "encode", str(self.out), "large.csv", "--output=x.npz"], cwd=self.tmp, text=True, capture_output=True,
                                 timeout=DEADLINE_S)
            self.assertEqual((got.returncode, "warning: 1 number of the arrays is not finite: the rows or the model's weights have values that "
                              "are too large" in got.stderr), (0, said), got.stderr)

    def test_vectors_are_those_of_the_layers(self):
        self.trained(CLICKS)
        for path in (self.out, self.out / "checkpoints"):
            arrays = self.encode(path)
            self.assertEqual(list(arrays), ["C1", "C2", "C3", "C4", "wide", "e"])
            self.assertEqual([arrays[name][0] for name in ("C1", "wide", "e")], [(600,), (600, 1), (600, 12)])
            deep = tensors(self.out / "model/weights.safetensors")["deep/kernel"]
            scores = [float(row["score"]) for row in csv.DictReader(self.call("predict", path).splitlines())]
            for i, score in enumerate(scores):
                z = arrays["wide"][1][i] + sum(a * b for a, b in zip(arrays["e"][1][12 * i:12 * i + 12], deep, strict=True))
                self.assertAlmostEqual(1 / (1 + math.exp(-z)), score, places=5)

    def test_keys_have_their_bits_and_weights(self):
        (self.tmp / "keys.csv").write_text("".join(f"{i % 2};u{i % 5};{i} 18446744073709551615:0.5;{i}\n" for i in range(60)))
        self.trained(KEYS)
        (self.tmp / "new.csv").write_text("u1;7:2 18446744073709551615;0\nu1;;1\nu2;1 2 3;2\n")
        arrays = self.encode(self.out, "new.csv")
        self.assertEqual(list(arrays), ["features", "user", "tags", "tags/weights", "wide"])
        self.assertEqual(arrays["features"], ((3, 1), [0, 1, 2]))
        self.assertEqual(arrays["tags"], ((3, 3), [7, -1, 0, 0, 0, 0, 1, 2, 3]))
        self.assertEqual(arrays["tags/weights"], ((3, 3), [2, 1, 0, 0, 0, 0, 1, 1, 1]))
        shape, users = arrays["user"]
        self.assertEqual((shape, users[0] == users[1], users[0] == users[2]), ((3,), True, False))

    def test_a_column_and_a_layer_of_one_name_have_an_array_each(self):
        (self.tmp / "keys.csv").write_text("".join(f"{i % 2};u{i % 5};{i};{i}\n" for i in range(60)))
        self.trained(KEYS.replace("wide", "user"))
        arrays = self.encode(self.out)
        self.assertEqual([(name, shape) for name, (shape, _) in arrays.items()], [
            ("features", (60, 1)), ("user/keys", (60,)), ("tags", (60, 3)), ("tags/weights", (60, 3)), ("user", (60, 1))])
        raw = self.encode(self.out, "--raw")
        self.assertEqual(list(raw), ["user", "tags", "tags/weights", "x", "user/vectors"])
        self.assertEqual((raw["user"], raw["user/vectors"]), (arrays["user/keys"], arrays["user"]))

    def test_without_raw_the_names_are_those_that_keras_allows(self):
        (self.tmp / "keys.csv").write_text("".join(f"{i % 2};u{i % 5};{i};{i}\n" for i in range(60)))
        self.trained(KEYS.replace("name: wide", "name: us.er, table: t").replace("wide,", "us.er,").replace("user", "us_er"))
        self.assertEqual(list(self.encode(self.out)), ["features", "us_er/keys", "tags", "tags/weights", "us_er"])
        self.assertEqual(list(self.encode(self.out, "--raw")), ["us_er", "tags", "tags/weights", "x", "us.er"])

    def test_rows_without_columns_are_as_in_the_data(self):
        self.trained(IMAGES)
        self.assertEqual(self.call("encode", self.out, "x.eval", "--output=x.npy"),
                         "x.npy: 260 rows\n  input  float32 (n, 8, 8, 1)\n")
        shape, pixels = npy((self.tmp / "x.npy").read_bytes())
        self.assertEqual((shape, pixels), ((260, 8, 8, 1), [float(b) for b in (self.tmp / "x.eval").read_bytes()[16:]]))

    def test_the_same_rows_give_the_same_bytes(self):
        self.trained(CSV)
        for flags in ([], ["--raw"]):
            got = set()
            for threads in (1, 2):
                self.call("encode", self.out, "train.csv", *flags, f"--threads={threads}", "--output=x.npz")
                got.add((self.tmp / "x.npz").read_bytes())
            self.assertEqual(len(got), 1)

    def test_a_signal_leaves_no_part_of_an_archive(self):
        self.trained(PRICES)
        (self.tmp / "long.csv").write_text("1;2;3\n" * 400000)
        before = sorted(self.tmp.iterdir())
        process = subprocess.Popen([str(MODEL), "encode", str(self.out), "long.csv", "--output=x.npz"], cwd=self.tmp,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until("libzip writes a file of its own, or all is written",
                   lambda: len(sorted(self.tmp.iterdir())) >= len(before) + 2 or process.poll() is not None)
        process.terminate()
        self.assertIn(process.wait(DEADLINE_S), (0, 143))  # 0: it had written all
        process.stderr.close()
        self.assertEqual([p for p in self.tmp.iterdir() if ".tmp-" in p.name], [])

    def test_wrong_input_leaves_no_file(self):
        self.trained(PRICES)
        (self.tmp / "latin.csv").write_bytes(b"town,age,size\nK\xf6ln,1,2\n")
        self.trained(CSV, out=self.tmp / "csv")
        before = sorted(self.tmp.iterdir())
        for words, text in (([self.out], "--output"), ([self.out, "--output=x.txt"], "ends with .npz or .npy"),
                            ([self.out, "--raw", "--output=x.npy"], "there are 3"), ([self.out, "--output=no/x.npz"], "no/x.npz"),
                            ([self.out, "none.csv", "--output=x.npz"], "none.csv: No such file"),
                            (["csv", "latin.csv", "--raw", "--output=x.npz"], 'column "town"')):
            error = self.call("encode", *words, code=2)
            self.assertIn(text, error)
            self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual(sorted(self.tmp.iterdir()), before)


if __name__ == "__main__":
    unittest.main()
