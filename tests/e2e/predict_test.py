#!/usr/bin/env python3
# runs with others
"""./gradwire predict: scores that agree with training's evaluation, for every format, without labels, from any model, on any
number of threads; the columns to keep; bad rows; and an error for what cannot be predicted, with no file left."""
import array
import csv
import gzip
import io
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN  # noqa: E402
from evaluate_test import CLICKS, CSV, IMAGES, PRICES, ModelCase, csv_rows, idx  # noqa: E402

LIBSVM = """
name: words
data: {format: libsvm, train: words.txt, eval: words.txt,
  columns: [label: y, keys: {name: features, max_values: 3}]}
model: {input: {shape: auto}, layers: [{linear: {inputs: features, name: wide}}, sigmoid], loss: binary_crossentropy}
training: {batch_size: 20, epochs: 2, microbatches: 4}
optimizer: {sgd: {learning_rate: 0.5}}
"""

NAMED = """
name: named
data: {format: csv, train: FILE, eval: FILE, header: names, columns: [number: {name: %(a)s, scale: standard},
  category: %(b)s, key: {name: %(k)s, space: s}, key: {name: %(l)s, space: s}, cross: {name: %(x)s, of: [%(k)s, %(l)s], space: s},
  label: %(y)s]}
model:
  input: {shape: auto}
  layers: [{embedding: {name: e, inputs: [%(k)s, %(x)s], output_dim: 2}}, {linear: {name: w, inputs: [%(l)s]}},
    {dense: {name: d, units: 4, inputs: [%(a)s, %(b)s]}}, {dense: {units: 3, activation: softmax, inputs: [e, w, d]}}]
  loss: sparse_categorical_crossentropy
training: {batch_size: 20, epochs: 2, microbatches: 4}
optimizer: {adam: {learning_rate: 0.02}}
"""


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def npy(path):
    """(shape, numbers) of a file of float32."""
    data = path.read_bytes()
    size = 10 + struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10:size])  # a literal that gradwire wrote
    assert (header["descr"], header["fortran_order"], size % 64) == ("<f4", False, 0)
    return header["shape"], array.array("f", data[size:]).tolist()


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class PredictTest(ModelCase):
    def predict(self, *words, **options):
        return self.call("predict", *words, **options)

    def test_scores_agree_with_the_evaluation(self):
        self.trained(PRICES)
        rows = table(self.predict(self.out))
        labels = [float(line.split(";")[3]) for line in (self.tmp / "prices.eval.csv").read_text().splitlines()]
        error = sum((float(row["prediction"]) - y) ** 2 for row, y in zip(rows, labels, strict=True)) / len(rows)
        self.assertAlmostEqual(error, self.evaluate(self.out)["eval"]["loss"], places=6)

        self.trained(IMAGES, out=self.tmp / "images")
        rows = table(self.predict("images"))
        labels = (self.tmp / "y.eval").read_bytes()[8:]
        accuracy = sum(int(row["class"]) == y for row, y in zip(rows, labels, strict=True)) / len(rows)
        self.assertAlmostEqual(accuracy, self.evaluate("images")["eval"]["accuracy"], places=9)

        self.trained(CLICKS, out=self.tmp / "clicks")
        rows = table(self.predict("clicks"))
        self.assertEqual(len(rows), 600)
        self.assertEqual({tuple(row) for row in rows}, {("score",)})

    def test_every_model_and_number_of_threads_gives_the_same_text(self):
        for name, text, data in (("csv", CSV, "eval.csv"), ("images", IMAGES, "x.eval"), ("clicks", CLICKS, None)):
            self.trained(text.replace("monitor: accuracy, ", "").replace("monitor: loss, ", ""), out=self.tmp / name)
            words = [data] if data else []
            expected = self.predict(name, *words)
            for path in (f"{name}/model", f"{name}/checkpoints"):
                for threads in (1, 3):
                    self.assertEqual(self.predict(path, *words, f"--threads={threads}"), expected)

    def test_many_pieces_are_in_order_and_several_files_too(self):
        self.trained(CSV)
        many = csv_rows(30000, 5)  # 1.5 MB: several pieces for each thread
        (self.tmp / "many.csv").write_text(many)
        rows = table(self.predict(self.out, "many.csv", "--keep", "id", "--threads=3"))
        self.assertEqual([row["id"] for row in rows], [row["id"] for row in table(many)])
        alone = table(self.predict(self.out, "eval.csv"))
        both = table(self.predict(self.out, "many.csv", "eval.csv"))
        self.assertEqual([r["score"] for r in both], [r["score"] for r in rows] + [r["score"] for r in alone])

    def test_labels_are_not_needed(self):
        self.trained(CSV)
        expected = self.predict(self.out, "eval.csv")
        rows = list(csv.reader((self.tmp / "eval.csv").read_text().splitlines()))
        (self.tmp / "bare.csv").write_text("".join(",".join(row[2::-1]) + "\n" for row in rows))  # size, age, town
        self.assertEqual(self.predict(self.out, "bare.csv"), expected)
        (self.tmp / "odd.csv").write_text("town,age,size,answer,w\n" + "Rome,4,1,perhaps,many\n" * 3)
        self.assertEqual(len(set(self.predict(self.out, "odd.csv").splitlines()[1:])), 1)

        for fields, absent in (("4,Rome,1,1", "as lacking the label alone"), ("4,Rome,1,yes,1", ""), ("4,Rome,1", "")):
            (self.tmp / "few.csv").write_text(fields + "\n")  # of age, town, size, answer, w
            got = subprocess.run([str(MODEL), "predict", str(self.out), "few.csv", "--set", "data.header=none"], text=True,
                                 capture_output=True, cwd=self.tmp, timeout=DEADLINE_S)
            self.assertEqual((got.returncode, got.stderr.count("gradwire: few.csv: "), absent in got.stderr),
                             (0, bool(absent), True), got.stderr)

        (self.tmp / "few.csv").write_text("age,town,size\n4,Rome,1,yes,1\n")  # as R names columns, but not the rows' own
        got = self.predict(self.out, "few.csv", "--set", "data.header=skip")
        (self.tmp / "few.csv").write_text("4,Rome,1,yes,1\n")
        self.assertEqual(self.predict(self.out, "few.csv", "--set", "data.header=none"), got)

        self.trained(PRICES, out=self.tmp / "prices")
        lines = (self.tmp / "prices.eval.csv").read_text().splitlines()
        (self.tmp / "bare.csv").write_text("\n".join(line.rpartition(";")[0] for line in lines))
        self.assertEqual(self.predict("prices", "bare.csv"), self.predict("prices"))
        (self.tmp / "mixed.csv").write_text("\n".join([lines[0].rpartition(";")[0], *lines[1:]]))
        self.assertIn("mixed.csv:2: it has 4 fields, the lines before it have 3", self.predict("prices", "mixed.csv", code=2))
        (self.tmp / "thin.csv").write_text("1;2\n")
        self.assertIn("thin.csv:1: it has 2 fields, data.columns names 4", self.predict("prices", "thin.csv", code=2))

        (self.tmp / "words.txt").write_text("".join(f"{i % 2} {1 + i % 2}:1 7:0.5\n" for i in range(100)))
        (self.tmp / "bare.txt").write_text("".join(f"{1 + i % 2}:1 7:0.5 # {i}\n" for i in range(100)))
        self.trained(LIBSVM, out=self.tmp / "words")
        self.assertEqual(self.predict("words", "bare.txt"), self.predict("words"))

    def test_labels_that_are_none_in_the_first_or_in_half_of_the_rows_are_warned_of(self):
        (self.tmp / "a.csv").write_text("1,u,0\n2,v,1\n" * 20)
        job = ("data: {{format: csv, train: a.csv, missing: ['', 'NULL', a, A], columns: [number: {{name: a, missing: mean}}, category: b, {label}]}}\n"
               "model: {{input: {{shape: auto}}, layers: [dense: {{units: {units}, activation: {last}}}], loss: {loss}}}\n"
               "training: {{batch_size: 20, epochs: 1}}\noptimizer: {{sgd: {{learning_rate: 0.01}}}}\n")
        for name, label, units, last, loss in (("named", "label: {name: y, classes: ['0', '1|yes']}", 1, "sigmoid", "binary_crossentropy"),
                                               ("other", "label: {name: y, classes: ['0', '*']}", 1, "sigmoid", "binary_crossentropy"),
                                               ("two", "label: y", 1, "sigmoid", "binary_crossentropy"),
                                               ("three", "label: y", 3, "softmax", "sparse_categorical_crossentropy"),
                                               ("number", "label: y", 1, "linear", "mse")):
            self.trained(job.format(label=label, units=units, last=last, loss=loss), out=self.tmp / name)
        first, order = "whether this line is a header", "the order of the columns"
        rows = "1,u,1\n" * 120000  # several pieces
        for model, text, said in (
                ("two", "0,26,42.1\n1,46,32.0\n2,26,NULL\n3,5,0\n4,5,?\n", f'1: 2 of 3 rows have no label in the label\'s field, the first has "42.1": check {order}'),
                ("two", "1,u,0\n2,u,7\n3,u,-1\n4,u,1\n", f'2: 2 of 4 rows have no label in the label\'s field, the first has "7": check {order}'),
                ("two", "1,u,0\n2,u,7\n3,u,-1\n4,u,1\n5,u,1\n", None), ("two", "1,u,-1\n2,v,-1\n", None), ("two", "1,u,7\n", None),
                ("two", ",u,?\n2,v,\n", None), ("two", "1,u\n2,7\n", None), ("number", "1,u,7\n2,u,-1e3\n", None),
                ("three", "1,u,1\n2,u,2\n", None), ("three", "1,u,3\n2,u,0.5\n", f'1: 2 of 2 rows have no label in the label\'s field, the first has "3": check {order}'),
                ("number", "1,u, u1\n2,v,\"u2\" \n", f'1: 2 of 2 rows have no label in the label\'s field, the first has "u1": check {order}'),
                ("number", "\n,ITEM,TARGET\n1,u,7\n2,u,8\n", f'2: 1 of 3 rows have no label in the label\'s field, the first has "TARGET": check {first}'),
                ("number", "1,u,7\n,ITEM,TARGET\n2,u,8\n", None), ("named", "1,u,yes\n2,v,\"0\"\n3,v, 1 \n", None),
                ("named", "1,u,2\n2,v,\"3\"\n3,v, 1 \n", f'1: 2 of 3 rows have no label in the label\'s field, the first has "2": check {order}'),
                ("named", "1,u,\"a\"\"b\"\n2,v,c\n", None), ("other", "1,u,2\n2,v,3\n", None), ("other", "1,u,x\n2,v,y\n3,w,0\n", None),
                ("other", ",ITEM,TARGET\n1,u,7\n2,u,0\n", f'1: 1 of 3 rows have no label in the label\'s field, the first has "TARGET": check {first}'),
                ("number", "a,b,y\n1,u,x\nA,b,y\n1,u,x\n", None),
                ("number", ",ITEM,TARGET\n" + rows, f'1: 1 of 120001 rows have no label in the label\'s field, the first has "TARGET": check {first}'),
                ("number", "1,u,x\n" * 200000, None), ("number", "1,u,x\n" * 200000 + "1,u,z\n" + rows, f'1: 200001 of 320001 rows have no label in the label\'s field, the first has "x": check {order}'),
                ("number", "1,u,x\n" * 200000 + "1,u,z\n" + rows * 2, None)):
            (self.tmp / "one.csv").write_text(text)
            for words in (["predict", "--keep=y" if '""' in text else "--keep=b"], ["predict"], ["encode", "--output=x.npz"]) if len(text) < 99 else (["predict"],):
                got = subprocess.run([str(MODEL), words[0], str(self.tmp / model), "one.csv", *words[1:]], text=True, capture_output=True,
                                     cwd=self.tmp, timeout=DEADLINE_S)
                self.assertEqual(got.returncode, 0, got.stderr)
                self.assertEqual(got.stderr.count("have no label in the label's field"), bool(said), (model, text[:99], got.stderr))
                self.assertIn(f"one.csv:{said}\n" if said else "", got.stderr)
                if words[1:] == ["--keep=y"] and '""' in text:
                    self.assertEqual(table(got.stdout)[0]["y"], 'a"b')
        for name, text in ("skipped.csv", "x,1\n0,26,42.1\n1,46,32.0\n"), ("units.csv", "n,p,t\n,USD,EUR\n1,u,1\n"), ("twice.csv", "x\na,b,y\n1,u,1\n"):
            (self.tmp / name).write_text(text)
        got = subprocess.run([str(MODEL), "predict", "two", "skipped.csv", "units.csv", "twice.csv", "--set=data.header=skip"], text=True,
                             capture_output=True, cwd=self.tmp, timeout=DEADLINE_S)
        self.assertEqual(got.stderr.count("have no label in"), 2, got.stderr)
        self.assertIn(f'skipped.csv:2: 2 of 2 rows have no label in the label\'s field, the first has "42.1": check {order}\n', got.stderr)
        self.assertIn(f'units.csv:2: 1 of 2 rows have no label in the label\'s field, the first has "EUR": check {first}\n', got.stderr)

    def test_an_empty_line_between_rows_of_one_field_is_warned_of(self):
        (self.tmp / "a.csv").write_text("a,y\n" + "1,0\n2,1\n" * 20)
        self.trained("data: {format: csv, header: names, train: a.csv, columns: [number: {name: a, missing: mean}, label: y]}\n"
                     "model: {input: {shape: auto}, layers: [dense: {units: 1, activation: sigmoid}], loss: binary_crossentropy}\n"
                     "training: {batch_size: 20, epochs: 1}\noptimizer: {sgd: {learning_rate: 0.5}}\n")
        many = "a\n" + "5\n" * 300000 + "\n" + "6\n" * 300000 + "\n"  # of several pieces
        remedy = 'is empty, and is no row; a missing value of a file with one column is written ""'
        (self.tmp / "two.csv").write_text("a\n2\n")  # lines at the end of a file are none before the next one's rows
        for text, options, scores, said in (("a\n1\n\n2\n\n\n3\n\n\n", [], 3, f"one.csv:3: this line (and 2 more) {remedy}"),
                                            ('\na\n1\n""\n2\n\n', [], 3, None), ("a\n\n1", [], 1, f"one.csv:2: this line {remedy}"),
                                            (many, [], 600000, f"one.csv:300002: this line {remedy}"),
                                            ("a\n1\n" + "\n" * 1400000 + "2\n", [], 2, f"one.csv:3: this line (and 1399999 more) {remedy}"),
                                            ("a\n1\n\n\n", ["two.csv"], 2, None),
                                            ("\n1\n", ["--set=data.header=none"], 1, f"one.csv:1: this line {remedy}"),
                                            ("a,y\n1,0\n\n2,0\n", [], 2, None)):
            (self.tmp / "one.csv").write_text(text)
            got = subprocess.run([str(MODEL), "predict", str(self.out), "one.csv", *options], text=True, capture_output=True,
                                 cwd=self.tmp, timeout=DEADLINE_S)
            self.assertEqual((got.returncode, len(got.stdout.splitlines()) - 1), (0, scores), got.stderr)
            self.assertEqual(got.stderr.count("is empty, and is no row"), bool(said), got.stderr)
            self.assertIn(said or "", got.stderr)

    def test_a_word_of_the_only_column_in_another_case_is_no_header(self):
        (self.tmp / "a.csv").write_text("plan,y\n" + "Plan,0\nfree,1\n" * 20)
        self.trained("data: {format: csv, header: names, train: a.csv, columns: [category: plan, label: {name: y, classes: [\"*\", \"1\"]}]}\n"
                     "model: {input: {shape: auto}, layers: [dense: {units: 1, activation: sigmoid}], loss: binary_crossentropy}\n"
                     "training: {batch_size: 20, epochs: 1}\noptimizer: {sgd: {learning_rate: 0.5}}\n")
        for text, said in (("plan\nfree\nPlan\n", False), ("plan\nfree\nplan\n", True)):
            (self.tmp / "one.csv").write_text(text)
            got = subprocess.run([str(MODEL), "predict", str(self.out), "one.csv"], text=True, capture_output=True, cwd=self.tmp,
                                 timeout=DEADLINE_S)
            self.assertEqual((got.returncode, "is the header again" in got.stderr), (0, said), got.stderr)

    def test_indices_that_count_from_another_number_than_in_training_are_warned_of(self):
        def write(name, first, rows=60):
            rows = [" ".join(f"{k + first}:{(i * k) % 7 + 1}" for k in range(3) if (i + k) % 4) for i in range(rows)]
            (self.tmp / name).write_text("".join(f"{i % 2} {pairs}\n" for i, pairs in enumerate(rows)))
        says = {(0, 1): "new.txt: it lacks the index 0, which the model has learned, and 3 is new: do indices count from 0 here, and from 1, as in "
                        "LIBSVM, in data.train, or in reverse? Write both files from the same number",
                (1, 0): "new.txt: it has the index 0, which the model has not learned: do indices count from 0 here"}
        for train in (0, 1):
            write("words.txt", train)
            (self.tmp / "out").exists() and shutil.rmtree(self.tmp / "out")
            self.trained(LIBSVM)
            for new in (0, 1):
                write("new.txt", new)
                for command in (["predict", self.out, "new.txt"], ["evaluate", self.out, "new.txt"],
                                ["encode", self.out, "new.txt", "--output=x.npz"]):
                    got = subprocess.run([str(word) for word in (MODEL, *command)], text=True, capture_output=True, cwd=self.tmp, timeout=DEADLINE_S)
                    self.assertEqual((got.returncode, got.stderr.count("from the same number")), (0, train != new), got.stderr)
                    self.assertIn(says.get((train, new), ""), got.stderr)
        write("words.txt", 1)
        write("new.txt", 0)
        job = self.trained(LIBSVM.replace("eval: words.txt", "eval: new.txt"), out=self.tmp / "within")
        self.assertIn("data.eval: it has the index 0, which the model has not learned", job.logs())

    def says(self, *said, command="predict", code=0, model="out"):
        got = subprocess.run([str(MODEL), command, model, "new.csv"], text=True, capture_output=True, cwd=self.tmp, timeout=DEADLINE_S)
        self.assertEqual((got.returncode, got.stderr.count(" warn ")), (code, 0 if code else len(said)), got.stderr)
        for words in said:
            self.assertIn(words, got.stderr)

    def test_words_and_rows_that_a_new_csv_has_by_mistake_are_named(self):
        towns = ["Kraków", "Oslo", "", "Łódź"]
        (self.tmp / "a.csv").write_text("town,age,y\n" + "".join(f"{towns[i % 4]},{i % 9},{i % 2}\n" for i in range(80)))
        text = ("data: {format: csv, header: names, train: a.csv, missing: [\"\"], columns: [category: town, number: age, label: y]}\n"
                "model: {input: {shape: auto}, layers: [dense: {units: 1, activation: sigmoid}], loss: binary_crossentropy, metrics: [accuracy]}\n"
                "training: {batch_size: 20, epochs: 1}\noptimizer: {sgd: {learning_rate: 0.5}}\n")
        self.trained(text)
        new = self.tmp / "new.csv"
        new.write_text("town,age,y\n" + "Oslo,3,1\nOslo,4,1\n,,\n,,\r\n,,\n,5,0\n")
        self.says("new.csv:4: all fields of this line (and those of 2 more) are empty, and it is read as a row: remove it if it is not one")
        self.says("new.csv:4: column \"y\": the label is missing; all fields of the line are empty: if it is no row, remove it", command="evaluate", code=2)
        new.write_text("town,age,y\n" + "Oslo,3,1\n" * 30 + "NULL,3,0\n")
        self.says('column town: "NULL" (new.csv) is read as a word, which is unknown to the model; if it marks a missing value, write it as data.train')
        new.write_bytes(("town,age,y\n" + "Kraków,3,1\nKraków,3,0\nOslo,1,1\n" * 20).encode("latin-1"))
        latin = "check the encoding: this word is not UTF-8, and all of data.train are; if it is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW"
        self.says(f'40 of 60 rows have a word that is not in data.train, such as "Krak<F3>w" (new.csv), and is unknown to the model: {latin}')
        new.write_text("town,age,y\n" + "1.0,3,1\n" * 9 + "2.0,4,0\n" * 9)
        self.says('no row has a word of its vocabulary, whose first word is "Kraków", but words such as "1.0", so all are unknown: check case')
        new.write_text("town,age,y\n" + "Oslo,3,1\n" * 30)
        self.says("new.csv: all rows have the label 1: an evaluation on rows of one class does not tell how well the model tells it from others",
                  command="evaluate")
        self.trained(text.replace("[accuracy]", "[auc]"), out=self.tmp / "auc")
        self.says('eval: auc is not defined, and shown as "-": all rows of new.csv have one class', command="evaluate", model="auc")

    def test_libsvm_rows_without_pairs_and_empty_lines_between_bare_pairs_are_warned_of(self):
        (self.tmp / "words.txt").write_text("".join(f"{i % 2} {1 + i % 2}:1 7:0.5\n" for i in range(100)))
        self.trained(LIBSVM)
        none = 'rows has a pair index:value, so all are rows of zeros; check that it is a file of libsvm, its first line is'
        empty = "is empty, and is no row; in a file without labels a row of zeros is written 0, as a label alone"
        (self.tmp / "two.txt").write_text("0 1:1\n")
        many = "1:1\n" * 200000 + "\n" + "2:1\n" * 200000
        word = "the label of this line is not a number, and no pair follows, so it has the score of a row of zeros: is it a row?"
        for text, scores, said in (("y,f1,f2\n1,5,3\n0,2,4\n", 3, [f"one.txt:1: {word}", f'one.txt: none of its 3 {none} "y,f1,f2"']),
                                   ("target\n1 1:1\n-----\n", 3, [f"one.txt:1: {word}"]),
                                   ("1 1:1\n2 1:1\n\x1a", 3, [f"one.txt:3: {word}", "one.txt:3: this line is Ctrl-Z (0x1A)"]),
                                   ("1 1:1\n" * 200000 + "EOF", 200001, [f"one.txt:200001: {word}"]),
                                   ("test\ntest 1:1\n", 2, []), ("?\n1,2\n-1.5\nnan\n+1\n1 1:1\n", 6, [f"one.txt:4: {word}"]),
                                   ("# a\n\n0\n\n", 1, []), ("# a\n\n0\n0\n", 2, [f'one.txt: none of its 2 {none} "# a"']),
                                   ("0\n1 1:1\n\n0\n", 3, []), ("", 0, []),
                                   ("1:1\n\n2:1\n", 2, [f"one.txt:2: this line {empty}"]),
                                   ("\n 1:1\n# b\n \t\r\n\n2:1\n\n", 2, [f"one.txt:1: this line (and 2 more) {empty}"]),
                                   (many, 400000, [f"one.txt:200001: this line {empty}"]),
                                   ("1:1\n# b\n2:1\n\n", 2, [])):
            (self.tmp / "one.txt").write_text(text)
            got = subprocess.run([str(MODEL), "predict", str(self.out), "two.txt", "one.txt"], text=True, capture_output=True,
                                 cwd=self.tmp, timeout=DEADLINE_S)
            self.assertEqual((got.returncode, len(got.stdout.splitlines()) - 2), (0, scores), got.stderr)
            self.assertEqual(got.stderr.count("warn"), len(said), got.stderr)
            for words in said:
                self.assertIn(words, got.stderr)

    def test_a_first_line_that_is_left_out_and_has_not_the_names_of_the_columns_is_shown(self):
        (self.tmp / "a.csv").write_text("town,n,y\n" + "Rome,1,0\nOslo,2,1\n" * 20)
        self.trained("data: {format: csv, header: skip, train: a.csv, columns: [category: town, key: n, label: y]}\n"
                     "model: {input: {shape: auto}, layers: [{embedding_bag: {inputs: n, output_dim: 2, name: e}}, "
                     "{dense: {inputs: [town, e], units: 1, activation: sigmoid}}], loss: binary_crossentropy}\n"
                     "training: {batch_size: 20, epochs: 1}\noptimizer: {sgd: {learning_rate: 0.5}}\n")
        (self.tmp / "two.csv").write_text("place,n\nRome,3\n")
        shown = 'data.header: skip leaves this line out: "Genoa,5"'
        for text, files, said in (("Genoa,5\nRome,1\n", [], f"one.csv:1: {shown}\n"),
                                  ("\nGenoa,5\nRome,1\n", ["two.csv"], f"one.csv:2: {shown} (and the first line of 1 more files)\n"),
                                  ("Town,N\nRome,1\n", [], None), ("Rome,5\nRome,1\n", [], None)):
            (self.tmp / "one.csv").write_text(text)
            for command in (["predict", str(self.out)], ["encode", str(self.out), "--output", "x.npz"]):
                got = subprocess.run([str(MODEL), *command, "one.csv", *files], text=True, capture_output=True, cwd=self.tmp, timeout=DEADLINE_S)
                self.assertEqual(got.returncode, 0, got.stderr)
                self.assertEqual(got.stderr.count("leaves this line out: "), bool(said), got.stderr)
                self.assertIn(said or "", got.stderr)

    def test_compressed_and_from_stdin(self):
        self.trained(CSV)
        data = (self.tmp / "eval.csv").read_bytes()
        expected = self.predict(self.out, "eval.csv")
        (self.tmp / "eval.csv.gz").write_bytes(gzip.compress(data))
        self.assertEqual(self.predict(self.out, "eval.csv.gz"), expected)
        for text in (data, gzip.compress(data)):
            got = subprocess.run([str(MODEL), "predict", str(self.out), "-"], input=text, capture_output=True, cwd=self.tmp,
                                 timeout=DEADLINE_S)
            self.assertEqual((got.returncode, got.stdout.decode()), (0, expected), got.stderr)

    def test_columns_are_kept_as_they_are(self):
        self.trained(CSV)
        rows = table(self.predict(self.out, "eval.csv", "--keep", "id,town", "--keep=column_6"))
        given = table((self.tmp / "eval.csv").read_text())
        self.assertEqual([(r["id"], r["town"], r["column_6"]) for r in rows], [(r["id"], r["town"], r["w"]) for r in given])
        place = list(given[0]).index("id") + 1
        for keep, text in (("idd", '--keep: no column has the name "idd"; did you mean "id"?'),
                           ("id,", "--keep"), ("id,id", '"id" is there twice'), ("column_7", "column_7"),
                           (f"id,town,column_{place}", f'--keep: "id" and "column_{place}" are one column: name it once')):
            self.assertIn(text, self.predict(self.out, "eval.csv", "--keep", keep, code=2))
        first, *rest = (self.tmp / "eval.csv").read_text().splitlines()
        (self.tmp / "twice.csv").write_text("\n".join([f"{first},id,score", *(f"{line},z{i},s" for i, line in enumerate(rest))]) + "\n")
        fields = first.count(",") + 2
        self.assertIn('--keep: two columns have the name "id"; name one by its place',
                      self.predict(self.out, "twice.csv", "--keep=id", code=2))
        out, said = self.said("predict", self.out, "twice.csv", f"--keep=column_{fields},score")
        self.assertEqual(table(out)[1][f"column_{fields}"], "z1")
        self.assertIn("two columns of the output have the name score: the first is the input's", said)
        (self.tmp / "places.csv").write_text("town,column_1,column_2,age,size,id,id\nRome,a,b,4,1,7,8\n")
        out, said = self.said("predict", self.out, "places.csv", "--keep=column_2,column_1,column_6,column_7")
        self.assertEqual(out.splitlines()[1].rsplit(",", 1)[0], "b,a,7,8")  # a name takes precedence over a place
        self.assertNotIn("does not read", said)
        self.trained(PRICES, out=self.tmp / "prices")
        rows = table(self.predict("prices", "--keep=x2,column_1"))
        given = (self.tmp / "prices.eval.csv").read_text().splitlines()
        self.assertEqual([(r["column_1"], r["x2"]) for r in rows], [tuple(line.split(";")[:2]) for line in given])
        self.assertIn('did you mean "x2"?', self.predict("prices", "--keep=x_2", code=2))
        self.assertIn('--keep: "x2" and "column_2" are one column: name it once', self.predict("prices", "--keep=column_2,x2", code=2))
        (self.tmp / "without.csv").write_text("1;2;3\n")
        self.assertNotIn("did you mean", self.predict("prices", "without.csv", "--keep=price", code=2))

    def test_classes_scores_and_the_best_ones(self):
        self.trained(IMAGES)
        best, every = table(self.predict(self.out)), table(self.predict(self.out, "--scores"))
        two = table(self.predict(self.out, "--top=2"))
        shape, numbers = self.array("--output=all.npy")
        self.assertEqual(shape, (260, 3))
        for i, (b, e, t) in enumerate(zip(best, every, two, strict=True)):
            scores = array.array("f", [float(e[str(k)]) for k in range(3)]).tolist()
            self.assertEqual(scores, numbers[3 * i:3 * i + 3])
            order = sorted(range(3), key=lambda k: (-scores[k], k))
            self.assertEqual([int(e["class"]), int(b["class"]), int(t["class_1"]), int(t["class_2"])],
                             [order[0]] * 3 + order[1:2])
            self.assertEqual((b["score"], t["score_2"]), (e[str(order[0])], e[str(order[1])]))
        for flags, text in ((["--top=4"], "the model has 3 classes"), (["--top=0"], "--top"), (["--top=1", "--scores"], "not both"),
                            (["--keep=x"], "--keep is for csv"), (["-"], "-: stdin can have csv or libsvm"),
                            (["--format=npy"], "needs --output")):
            self.assertIn(text, self.predict(self.out, *flags, code=2))

    def array(self, *words):
        self.assertEqual(self.predict(self.out, *words), "")
        return npy(self.tmp / words[-1].partition("=")[2])

    def named(self, of, names):
        """Trains on data whose columns have the names. Returns what does not depend on them: the evaluation, the scores, and the
        encoded arrays by column."""
        column = dict(zip("abklxy", names, strict=True))
        with open(self.tmp / f"{of}.csv", "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow([column[c] for c in "ablky"])
            writer.writerows([i % 3 + i % 7 / 10, f"w{i % 4}", i % 5, f"k{i % 11}", i % 3] for i in range(300))
        text = NAMED.replace("FILE", f"{of}.csv") % {
            c: json.dumps(name, ensure_ascii=False).replace("\x7f", "\\x7f") for c, name in column.items()}
        self.trained(text, out=self.tmp / of)
        self.trained(text.replace("epochs: 2", "epochs: 3"), out=self.tmp / of)  # the identity is the same
        keep = names[0] if "," not in names[0] else "column_1"
        self.predict(of, "--scores", "--keep", keep, f"--output={of}.scores")
        with open(self.tmp / f"{of}.scores", newline="", encoding="utf-8") as file:
            scores = list(csv.reader(file))
        self.assertEqual(scores[0], [keep, "class", "0", "1", "2"])
        self.call("encode", of, f"{of}.csv", "--raw", f"--output={of}.npz")
        with zipfile.ZipFile(self.tmp / f"{of}.npz") as archive:
            arrays = {name: archive.read(name) for name in archive.namelist()}
        self.assertEqual({f"{name}.npy" for name in names[:5]} - set(arrays), set())
        for format, path in (("onnx", f"{of}.onnx"), ("savedmodel", f"{of}.saved"), ("keras", f"{of}.keras")):
            self.call("export", of, f"--format={format}", f"--output={path}")
        for path in (self.tmp / f"{of}.onnx", self.tmp / f"{of}.saved/saved_model.pb"):
            self.assertEqual([name for name in names[:5] if name.encode() not in path.read_bytes()], [])
        return (self.evaluate(of)["eval"], scores[1:], list(arrays.values()))

    def test_names_of_columns_have_4096_bytes_and_line_ends_and_change_no_value(self):
        begin = ["a\nb\x01\x7f\r\n", "c|d\t, e", 'k "1"\n', "\nl:{", "training.update = x\n\ty", "\u20ac \U0001f600\n"]
        long = [text + "z" * (4096 - len(text.encode())) for text in begin]
        self.assertEqual(self.named("long", long), self.named("short", list("abklxy")))
        self.named("begin", begin)
        job = self.job(NAMED % dict(zip("abklxy", [*"abklx", "y" * 4097], strict=True)))
        result = self.train(job=job, out=self.tmp / "more", code=2)
        self.assertIn(f"job.yaml:5: data.columns[5].label.name: '{'y' * 48}...' is not allowed; allowed: text in UTF-8 of at most 4096 bytes",
                      result.stderr())

    def test_names_have_tabs_pipes_and_line_ends_in_every_output(self):
        classes = ["x|y", "n\tz\no", 'say "p, q"\n']
        with open(self.tmp / "named.csv", "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["a\tb|c", "to|wn\t", "v\n", "y\t|"])
            writer.writerows([i % 3 + i % 7 / 10, f"w\t|\n{i % 4}", f"v\n{i % 2}", classes[i % 3]] for i in range(300))
        self.trained(r"""
name: named
data: {format: csv, train: named.csv, eval: named.csv, header: names, columns: [number: "a\tb|c", category: "to|wn\t",
  category: {name: "v\n", vocabulary: ["v\n0", "v\n1"]},
  label: {name: "y\t|", classes: ['x\|y', "n\tz\no", "say \"p, q\"\n", class]}], missing: ["", "not\nthere"]}
model:
  input: {shape: auto}
  layers: [{dense: {units: 16, activation: relu, inputs: ["a\tb|c", "to|wn\t", "v\n"]}}, {dense: {units: 4, activation: softmax}}]
  loss: sparse_categorical_crossentropy
training: {batch_size: 20, epochs: 60, microbatches: 4}
optimizer: {adam: {learning_rate: 0.02}}
""")
        rows = table(self.predict(self.out, "--keep", "a\tb|c,y\t|"))
        self.assertEqual([row["y\t|"] for row in rows], [classes[i % 3] for i in range(300)])
        self.assertGreater(sum(row["class"] == row["y\t|"] for row in rows), 290)
        out, said = self.said("predict", self.out, "--scores")
        self.assertEqual(next(csv.reader(out.splitlines(True))), ["class", *classes, "class"])
        self.assertIn("--scores: two columns of the output have the name class: the first is the best class", said)
        encoding = json.loads((self.out / "model/encoding.json").read_text())["columns"]
        self.assertEqual([c["name"] for c in encoding], ["a\tb|c", "to|wn\t", "v\n", "y\t|"])
        self.assertEqual(encoding[1]["category"]["words"], [f"w\t|\n{i}" for i in range(4)])
        self.assertEqual(encoding[2]["category"]["words"], ["v\n0", "v\n1", ""])
        self.assertEqual(encoding[3]["classes"], [r"x\|y", "n\tz\no", 'say "p, q"\n', "class"])
        self.call("encode", self.out, "named.csv", "--raw", "--output=named.npz")
        for format, path in (("onnx", "named.onnx"), ("savedmodel", "named"), ("keras", "named.keras")):
            self.call("export", self.out, f"--format={format}", f"--output={path}")
        self.assertIn(b"a\tb|c", (self.tmp / "named.onnx").read_bytes())
        self.trained((self.tmp / "job.yaml").read_text().replace("epochs: 60", "epochs: 61"))  # the identity is the same

    def test_a_bad_row_is_an_error_or_has_no_scores(self):
        self.trained(CSV)
        rows = table(self.predict(self.out, "eval.csv", "--keep=id,age"))
        self.assertEqual(rows[-1], {"id": "7", "age": "old", "score": ""})
        self.assertEqual([i for i, row in enumerate(rows) if not row["score"]], [530])
        shape, numbers = self.array("eval.csv", "--output=bad.npy")
        self.assertEqual((shape, [i for i, x in enumerate(numbers) if math.isnan(x)]), ((531,), [530]))
        error = self.predict(self.out, "eval.csv", "--set=data.bad_rows=stop", "--output=none.csv", code=2)
        self.assertIn('eval.csv:532: column "age": "old" is not a number', error)
        self.assertEqual([p.name for p in self.tmp.iterdir() if "none" in p.name], [])

    def said(self, *words, code=0, given=None):
        """(stdout, stderr) of the command."""
        got = subprocess.run([str(MODEL), *map(str, words)], input=given, capture_output=True, text=True, timeout=DEADLINE_S, cwd=self.tmp)
        self.assertEqual(got.returncode, code, got.stderr)
        return got.stdout, got.stderr

    def test_scores_that_are_not_finite_are_warned_of(self):
        (self.tmp / "line.csv").write_text("".join(f"{i % 10},{3 * (i % 10)}\n" for i in range(200)))
        self.trained("""
name: line
data: {format: csv, train: line.csv, eval: line.csv, columns: [number: x, label: y]}
model: {input: {shape: auto}, layers: [dense: 1], loss: mean_squared_error}
training: {batch_size: 20, epochs: 2, learning_rate: 0.01}
optimizer: sgd
""")
        self.assertNotIn("finite", self.said("predict", self.out)[1] + self.said("evaluate", self.out)[1])
        (self.tmp / "wild.csv").write_text("1,3\n3e38,3\n2,6\n3e38,1\n")
        for flags in ([], ["--output=x.npy"]):
            self.assertIn("gradwire: warning: the scores of 2 of 4 rows are not finite", self.said("predict", self.out, "wild.csv", *flags)[1])
        self.assertIn("gradwire: warning: the loss is not finite", self.said("evaluate", self.out, "wild.csv")[1])
        (self.tmp / "side.csv").write_text("".join(f"{i % 10 - 4.5},{int(i % 10 > 4)}\n" for i in range(200)))
        self.trained("""
name: side
data: {format: csv, train: side.csv, eval: side.csv, columns: [number: x, label: y]}
model: {input: {shape: auto}, layers: [dense: {units: 1, activation: sigmoid}], loss: binary_crossentropy}
training: {batch_size: 20, epochs: 2, learning_rate: 10}
optimizer: sgd
""", out=self.tmp / "side")
        (self.tmp / "huge.csv").write_text("3e38,1\n1,1\n")  # infinity - infinity
        self.assertIn("eval: loss nan\n", self.said("evaluate", "side", "huge.csv")[0])

    def test_set_gives_classes_other_spellings_but_no_other_order_keys_no_other_rows_and_numbers_no_other_scale(self):
        columns = "[{number: {name: x, scale: standard}}, {key: {name: k}}, {key: {name: l}}, {label: {name: y, classes: [a, b, c]}}]"
        (self.tmp / "rows.csv").write_text("".join(f"{i % 10},{i % 3},{i % 2},{'abc'[i % 3]}\n" for i in range(60)))
        (self.tmp / "large.csv").write_text("".join(f"{i % 10},{i % 3},{i % 2},{'ABC'[i % 3]}\n" for i in range(60)))
        self.trained(f"""
name: sets
data: {{format: csv, train: rows.csv, eval: rows.csv, columns: {columns}}}
model: {{input: {{shape: auto}}, loss: sparse_categorical_crossentropy, metrics: [accuracy],
        layers: [{{embedding: {{inputs: [k, l], output_dim: 2, name: e}}}}, {{dense: {{inputs: [e, x], units: 3, activation: softmax}}}}]}}
training: {{batch_size: 20, epochs: 2}}
optimizer: adam
""")
        own = self.said("evaluate", self.out)[0].splitlines()[1]
        for old, new in (("[a, b, c]", "[A, B, C]"), ("[a, b, c]", "[a|A, b|B, c|C]")):
            said = self.said("evaluate", self.out, "large.csv", f"--set=data.columns={columns.replace(old, new)}")[0]
            self.assertEqual(said.splitlines()[1], own)
        for old, new, why in (("[a, b, c]", "[c, b, a]", 'class "a" was class 0, is class 2 now'),
                              ("[a, b, c]", "[b|x, y, z]", 'class "b" was class 1, is class 0 now'),
                              ("{name: k}", "{name: k, space: l}", "the keys of column k: space was k, is l"),
                              ("standard", "min_max", "column x had scale standard, has min_max now; keep the scale of the training\n")):
            for command, flags in (("predict", []), ("evaluate", []), ("encode", ["--output=x.npz"])):
                error = self.said(command, self.out, "rows.csv", f"--set=data.columns={columns.replace(old, new)}", *flags, code=2)[1]
                self.assertIn(f"gradwire: --set: {why}", error)

    def test_a_metric_that_is_not_defined_is_shown_as_the_warning_says(self):
        for name, weight, why in (("one", 1, "with a weight above 0 have one class"), ("none", 0, "have weight 0")):
            (self.tmp / f"{name}.csv").write_text(f"x,y,w\n0.5,1,{weight}\n-0.5,1,{weight}\n" + f"0.1,1,{weight}\n" * 8)
            out = self.tmp / name
            self.trained(f"""
name: {name}
data: {{format: csv, train: {name}.csv, eval: {name}.csv, header: names, columns: [number: x, label: y, weight: w]}}
model: {{input: {{shape: auto}}, layers: [dense: {{units: 1, activation: sigmoid}}], loss: binary_crossentropy,
        metrics: [accuracy, auc, normalized_entropy]}}
training: {{batch_size: 5, epochs: 1}}
optimizer: sgd
""", out=out)
            said, warned = self.said("evaluate", out)
            shown = [line for line in (said + (self.tmp / f"{name}.stdout").read_text()).splitlines() if line.startswith("  eval: ")]
            self.assertEqual(len(shown), 2, said)
            for metric in ("accuracy", "auc", "normalized_entropy"):
                undefined = name == "none" or metric != "accuracy"
                self.assertEqual(f'{metric} is not defined, and shown as "-": all rows of data.eval {why}' in warned, undefined, warned)
                for line in shown:
                    self.assertEqual(f", {metric} -" in line, undefined, line)

    def test_messages_name_the_files_of_the_command_line_and_not_the_key(self):
        self.trained(CSV)
        stop = "--set=data.bad_rows=stop"
        for command, flags in (("predict", []), ("evaluate", []), ("encode", ["--output=x.npz"])):
            self.assertIn('gradwire: eval.csv:532: column "age"', self.said(command, self.out, "eval.csv", stop, *flags, code=2)[1])
            self.assertIn(" eval.csv: 1 bad rows of 531 ", self.said(command, self.out, "eval.csv", *flags)[1])
            self.assertIn(" the data: 2 bad rows of 1062 ", self.said(command, self.out, "eval.csv", "eval.csv", *flags)[1])
            error = self.said(command, self.out, stop, *flags, code=2)[1]
            self.assertRegex(error, r"gradwire: data\.eval: \S*/eval\.csv:532: ")

    def test_a_batch_without_rows_is_no_error(self):
        self.trained(CSV)
        header = "size,age,town\n"
        (self.tmp / "none.csv").write_text(header)
        (self.tmp / "empty.csv").write_text("")
        for words, given in ((["none.csv"], None), (["empty.csv"], None), (["none.csv", "empty.csv"], None), (["-"], header), (["-"], "")):
            out, error = self.said("predict", self.out, *words, given=given)
            self.assertEqual(out, "score\n")
            if "none.csv" not in words and not given:
                warning, error = error.split("\n", 1)
                self.assertIn(f"{words[0]}: it is empty; check what should have written it, and that the output does not", warning)
            self.assertRegex(error, r"^gradwire: 0 rows in .*\n$")
        self.assertEqual(self.array("none.csv", "--output=none.npy"), ((0,), []))
        self.assertEqual(self.said("encode", self.out, "none.csv", "--output=none.npz")[0].splitlines()[0], "none.npz: 0 rows")
        (self.tmp / "none.csv").write_text("size,age,town,answer,w\n")
        self.assertIn("none.csv: it has no row", self.said("evaluate", self.out, "none.csv", code=2)[1])
        self.trained(IMAGES, out=self.tmp / "images")
        idx(self.tmp / "none", (0, 8, 8), [])
        self.assertEqual(self.said("predict", "images", "none")[0], "class,score\n")
        self.assertIn("none: dimension 0 is 0", self.said("evaluate", "images", "none", "y.eval", code=2)[1])

    def test_columns_that_the_model_does_not_read_are_named_once(self):
        self.trained(CSV)
        (self.tmp / "new.csv").write_text('town,age,"a, b\n",size,note,w\n' + "Rome,4,x,1,y,2\n" * 3)
        said = "gradwire: new.csv: the model does not read 2 of its columns: a, b<U+000A>, note\n"
        self.assertEqual(self.said("predict", self.out, "new.csv", "new.csv")[1].splitlines(True)[0], said)
        self.assertEqual(self.said("encode", self.out, "new.csv", "--output=x.npz")[1], said)
        self.assertIn("1 of its columns: a, b<U+000A>", self.said("predict", self.out, "new.csv", "--keep=note")[1])

    def test_wrong_input_leaves_no_file(self):
        self.trained(CSV)
        (self.tmp / "other.csv").write_text("town,size\nRome,1\n")
        (self.tmp / "bare.csv").write_text("4,Rome,1\n5,Oslo,2\n")
        before = sorted(self.tmp.iterdir())
        for words, text in ((["none.csv"], "none.csv: No such file or directory"), 
                            (["other.csv"], 'its header does not name "age"'), (["eval.csv", "--output=no/x.csv"], "no/x.csv"),
                            (["bare.csv"], "without a header in the file, write the columns' names into a line before it"),
                            (["eval.csv", "--output=/dev/full"], "is not a regular file"), ([""], "is not the name of a file"),
                            (["eval.csv", "--output="], "--output: the name of the file is missing")):
            error = self.predict(self.out, *words, *["--output=x.csv"][:"--output" not in words[-1]], code=2)
            self.assertIn(text, error)
            self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual(sorted(self.tmp.iterdir()), before)
        with open("/dev/full", "w") as full:
            got = subprocess.run([str(MODEL), "predict", str(self.out)], stdout=full, stderr=subprocess.PIPE, text=True,
                                 cwd=self.tmp, timeout=DEADLINE_S)
        self.assertEqual(got.returncode, 1)
        self.assertEqual(got.stderr, "gradwire: the output cannot be written: No space left on device\n")

    def test_the_output_never_replaces_the_file_that_is_read(self):
        self.trained(CSV)
        rows = (self.tmp / "eval.csv").read_text()
        (self.tmp / "link.csv").symlink_to("eval.csv")
        shutil.copy(self.tmp / "eval.csv", self.tmp / "in.npz")
        for words in (["predict", self.out, "eval.csv", "--output=eval.csv"], ["predict", self.out, "e*.csv", "--output=link.csv"],
                      ["encode", self.out, "in.npz", "--output=in.npz"]):
            error = self.said(*words, code=2)[1]
            self.assertEqual(error, f"gradwire: {words[-1][9:]}: the rows are read from this file; give --output another name\n")
        for name in ("eval.csv", "in.npz"):
            self.assertEqual((self.tmp / name).read_text(), rows)
        cut = next((self.tmp / self.out / "checkpoints").glob("cut-*"))
        for model, path in ((self.out, self.tmp / self.out / "model/weights.safetensors"), (cut, next(cut.iterdir()))):
            before = path.read_bytes()
            self.assertEqual(self.said("predict", model, "eval.csv", f"--output={path}", code=2)[1],
                             f"gradwire: {path}: it is a file of the model; give --output another name\n")
            self.assertEqual(path.read_bytes(), before)
        train = (self.tmp / "train.csv").read_text()
        (self.tmp / "new.csv").write_text(csv_rows(20, 4))
        os.link(self.tmp / "train.csv", self.tmp / "hard.onnx")
        for words, path, key in ((["predict", self.out], "eval.csv", "eval"), (["predict", self.out, "new.csv"], "link.csv", "eval"),
                                 (["predict", self.out, "new.csv"], "train.csv", "train"),
                                 (["export", self.out, "--format=onnx"], "hard.onnx", "train")):
            self.assertEqual(self.said(*words, f"--output={path}", code=2)[1],
                             f"gradwire: {path}: it is a file of the job's data.{key}; give --output another name\n")
        self.assertEqual((self.tmp / "train.csv").read_text(), train)
        self.assertEqual((self.tmp / "eval.csv").read_text(), rows)
        self.assertIn("--output=-: without --output", self.predict(self.out, "--output=-", code=2))
        self.assertFalse((self.tmp / "-").exists())

    def test_a_signal_leaves_no_file_and_an_older_one_stays(self):
        self.trained(CSV)
        (self.tmp / "x.csv").write_text("older")
        before = sorted(self.tmp.iterdir())
        process = subprocess.Popen([str(MODEL), "predict", str(self.out), "-", "--output=x.csv"], stdin=subprocess.PIPE,
                                   cwd=self.tmp, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until("it writes", lambda: sorted(self.tmp.iterdir()) != before)
        process.terminate()
        self.assertEqual(process.wait(DEADLINE_S), 143)
        process.stdin.close()
        process.stderr.close()
        self.assertEqual(sorted(self.tmp.iterdir()), before)
        self.assertEqual((self.tmp / "x.csv").read_text(), "older")
        self.predict(self.out, "--output=x.csv")
        self.assertEqual((self.tmp / "x.csv").read_text(), self.predict(self.out))

    def test_arrays_of_numpy_without_labels(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 2), }"
        def save(name, rows):
            text = (header % len(rows)).ljust(117) + "\n"
            (self.tmp / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() +
                                          struct.pack(f"<{2 * len(rows)}f", *[v for row in rows for v in row]))
        save("x.npy", [(i % 3, i % 5) for i in range(90)])
        idx(self.tmp / "labels", (90,), [0] * 90)
        text = "{'descr': '|u1', 'fortran_order': False, 'shape': (90,), }".ljust(117) + "\n"
        (self.tmp / "y.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() +
                                         bytes(i % 3 for i in range(90)))
        self.trained("""
name: arrays
data: {format: npy, train: [x.npy, y.npy]}
model: {input: {shape: [2]}, layers: [{dense: {units: 3, activation: softmax}}], loss: sparse_categorical_crossentropy}
training: {batch_size: 30, epochs: 2, microbatches: 2}
optimizer: {sgd: {learning_rate: 0.5}}
""")
        self.assertIn("the job has no data.eval", self.predict(self.out, code=2))
        self.assertEqual(self.predict(self.out, "x.npy"), self.predict(self.out, "x.npy", "y.npy"))
        self.assertIn("rows (2 or more dimensions)", self.predict(self.out, "y.npy", code=2))


if __name__ == "__main__":
    unittest.main()
