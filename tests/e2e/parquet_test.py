#!/usr/bin/env python3
"""Jobs that read Parquet (tests/data/parquet): the same rows as csv have the same results, and wrong files are named.

labels: short
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, MODEL, ROOT, WORKER, TrainCase  # noqa: E402

FILES = ROOT / "tests/data/parquet"
MODULE = BUILD / "arrow/gradwire-arrow.so"
JOB = """name: rows
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: [user, town, code, day, at, zoned, id, flag, tags, words], name: l}
    - dense: {inputs: [age, count, big, price, old, kind], units: 1, name: d}
    - add: [l, d]
    - sigmoid
  loss: binary_crossentropy
  metrics: [accuracy]
data:
  format: parquet
  train: rows-?.parquet
  eval: rows-1.parquet
  missing: ["", "-7"]
  columns:
    - label: y
    - number: age
    - number: {name: count, buckets: {quantiles: 3}}
    - number: {name: big, scale: min_max}
    - number: {name: price, scale: standard}
    - key: user
    - key: town
    - key: code
    - key: day
    - key: {name: at, missing: none}
    - key: zoned
    - key: {name: id, hash: false, missing: {key: 5}}
    - key: flag
    - keys: {name: tags, separator: " ", max_values: 3}
    - keys: {name: words, separator: "|", max_values: 3, missing: empty}
    - weight: w
optimizer: adam
training: {batch_size: 8, epochs: 3, learning_rate: 0.02, microbatches: 4}
"""


@unittest.skipUnless(MODULE.exists(), "gradwire-arrow is not built: ./gradwire setup arrow")
class ParquetTest(TrainCase):
    KEYS = {"timeouts.worker_rejoin_s": 2}
    CSV = {"data.format": "csv", "data.header": "names", "data.train": "rows.csv", "data.eval": "last.csv"}

    def setUp(self):
        super().setUp()
        for path in FILES.glob("*.parquet"):
            shutil.copy(path, self.tmp)
        lines = (FILES / "rows.csv").read_text().splitlines(True)
        (self.tmp / "rows.csv").write_text("".join(lines))
        (self.tmp / "last.csv").write_text("".join(lines[:1] + lines[1 + len(lines) // 2:]))
        self.JOB = self.tmp / "job.yaml"
        self.JOB.write_text(JOB.replace(", old, kind", ""))

    def run_on(self, *command):
        return subprocess.run([str(each) for each in command], cwd=self.tmp, capture_output=True, text=True, timeout=60)

    def leave_eval_out(self):
        self.JOB.write_text(self.JOB.read_text().replace("  eval: rows-1.parquet\n", ""))

    def refused(self, text, **keys):
        said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}", *self.sets({k.replace("__", "."): v for k, v in keys.items()}))
        self.assertEqual(said.returncode, 2, said.stdout)
        self.assertIn(text, said.stdout)

    def test_the_same_rows_as_csv_have_the_same_digest_and_scores(self):
        csv, parquet = self.tmp / "csv", self.tmp / "parquet"
        want = self.digest("--ps=1", "--workers=1", out=csv, keys=self.CSV)
        job = self.launch("--ps=2", "--workers=2", out=parquet, keys={"worker.threads": 3}).wait(0)
        self.assertEqual(job.summary()["digest"], want)
        self.assertNotIn("no row has", job.log("worker-0"))
        self.check_scores(parquet, "[label: y, category: town, number: score]")
        for command in ("predict", "evaluate"):
            of = [self.run_on(MODEL, command, folder, self.tmp / data, *(["--keep=y,price,day,at,zoned,flag,id,big"]
                                                                      if command == "predict" else []))
                  for folder, data in ((csv, "last.csv"), (parquet, "rows-1.parquet"))]
            self.assertEqual([each.returncode for each in of], [0, 0], of[1].stderr)
            tails = [[line for line in each.stdout.splitlines() if "rows/s" not in line and "model, step" not in line] for each in of]
            self.assertEqual(*tails)
        for folder, data in ((csv, "last.csv"), (parquet, "rows-1.parquet")):
            said = self.run_on(MODEL, "encode", folder, self.tmp / data, f"--output={folder}.npz")
            self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual((self.tmp / "csv.npz").read_bytes(), (self.tmp / "parquet.npz").read_bytes())

    def test_categories_and_classes_are_the_same_words_in_both(self):
        columns = ("[label: {name: flag, classes: ['0|', '1']}, category: town, category: {name: count, encode: id}, category: day,"
                   "number: {name: price, missing: {value: 1}}]")
        job = self.tmp / "words.yaml"
        job.write_text("name: words\nmodel: {input: {shape: auto}, layers: [{dense: {units: 2}}, softmax], loss: "
                       "sparse_categorical_crossentropy}\ndata: {format: parquet, missing: NA, train: rows-*.parquet, columns: "
                       f"{columns}, bad_rows: skip}}\noptimizer: sgd\ntraining: {{batch_size: 8, epochs: 2}}\n")
        # a null is missing, which an empty text is only if data.missing has it
        rows = [line.split(",") for line in (FILES / "rows.csv").read_text().splitlines()]
        at = {name: i for i, name in enumerate(rows[0])}
        null = [at[name] for name in ("count", "day", "price", "flag")]
        text = "\n".join(",".join("NA" if i in null and v == "" else v for i, v in enumerate(row)) for row in rows)
        (self.tmp / "rows.csv").write_text(text + "\n")
        filled = {"data.columns": columns.replace("category: town, ", "")}
        digests = [self.digest(job=job, out=self.tmp / f"{i}", keys={**filled, **keys})
                   for i, keys in enumerate(({}, {k: v for k, v in self.CSV.items() if k != "data.eval"}))]
        self.assertEqual(*digests)
        self.check_scores(self.tmp / "0", "[label: y, category: class_1, number: score_1, category: class_2, number: score_2]", "--top=2")
        self.check_scores(self.tmp / "0", "[label: y, category: town, category: class, number: '0', number: '1']", "--scores")
        said = self.run_on(MODEL, "predict", self.tmp / "0", self.tmp / "rows-0.parquet", "--format=parquet")
        self.assertEqual(said.returncode, 2)
        self.assertIn("--format=parquet needs --output=FILE", said.stderr)

    def check_scores(self, model, columns, *flags):
        """Scores as Parquet teach what the same scores as csv do."""
        for form in ("csv", "parquet"):
            said = self.run_on(MODEL, "predict", model, self.tmp / "rows-0.parquet", "--keep=y,town", *flags, f"--output=scores.{form}")
            self.assertEqual(said.returncode, 0, said.stderr)
        job = self.tmp / "scores.yaml"
        job.write_text("model: {input: {shape: auto}, layers: [{dense: 1}, sigmoid], loss: binary_crossentropy}\noptimizer: sgd\n"
                       "training: {batch_size: 8, epochs: 1}\n"
                       f"data: {{format: parquet, missing: '', train: scores.parquet, columns: {columns}}}\n")
        of_csv = {"data.format": "csv", "data.header": "names", "data.train": "scores.csv"}
        self.assertEqual(self.digest("--fresh", job=job), self.digest("--fresh", job=job, keys=of_csv))

    def test_keys_of_dictionaries_are_those_of_texts(self):
        """Of many rows, as the first 4,096 of a file are in a sample of texts. Columns that predict keeps are texts in dictionaries."""
        self.digest()
        head, *lines = (FILES / "rows.csv").read_text().splitlines(True)
        (self.tmp / "many.csv").write_text(head + "".join(lines * 80))
        for form in ("csv", "parquet"):
            said = self.run_on(MODEL, "predict", self.out, self.tmp / "many.csv", "--set=data.format=csv", "--set=data.header=names",
                               "--keep=y,town,user,day,code", f"--output=many-scores.{form}")
            self.assertEqual(said.returncode, 0, said.stderr)
        job = self.tmp / "keys.yaml"
        job.write_text("model: {input: {shape: auto}, layers: [{linear: {inputs: [town, user, day, code]}}, sigmoid], loss: binary_crossentropy}\n"
                       "optimizer: adagrad\ntraining: {batch_size: 64, epochs: 1}\ndata: {format: parquet, missing: ['', Wien], "
                       "train: many-scores.parquet, columns: [label: y, key: {name: town, missing: none}, key: {name: user, buckets: 7}, "
                       "key: day, key: {name: code, missing: empty}]}\n")
        of_csv = {"data.format": "csv", "data.header": "names", "data.train": "many-scores.csv"}
        self.assertEqual(self.digest("--fresh", job=job), self.digest("--fresh", job=job, keys=of_csv))
        said = self.run_on(WORKER, "--doctor", f"--job={job}", *self.sets({"data.columns": "[label: y, number: score]",
                                                                             "model.layers": "[{dense: 1}, sigmoid]"}))
        self.assertIn("data.train: 1 file, 9600 rows, ", said.stdout)  # of which it reads the beginning

    def test_a_directory_has_its_parts_and_columns_of_their_names(self):
        for i, (hour, place) in enumerate((("7", "Rome%3A1"), ("__HIVE_DEFAULT_PARTITION__", "Oslo"))):
            part = self.tmp / f"log/hour={hour}/place={place}"
            part.mkdir(parents=True)
            (part / "part-0.parquet").write_bytes((FILES / f"rows-{i}.parquet").read_bytes())
            (part / ".part-0.parquet.crc").write_text("crc")
        (self.tmp / "log/_SUCCESS").write_text("")
        (self.tmp / "log/_temporary").mkdir()
        (self.tmp / "log/_temporary/part-1.parquet").write_text("half a file")
        lines = (FILES / "rows.csv").read_text().splitlines()
        half = len(lines) // 2
        (self.tmp / "rows.csv").write_text("\n".join([lines[0] + ",hour,place"] + [f"{line},7,Rome:1" for line in lines[1:half + 1]]
                                                     + [f"{line},,Oslo" for line in lines[half + 1:]]) + "\n")
        columns = {"data.columns": "[label: y, number: hour, key: place, category: {name: day, encode: id}]",
                   "data.missing": '[""]',
                   "model.layers": "[{linear: {inputs: place, name: l}}, {dense: {units: 1, name: d, inputs: [hour, day]}}, {add: [l, d]}, sigmoid]"}
        want = self.digest(out=self.tmp / "csv", keys={**self.CSV, **columns, "data.eval": "rows.csv"})
        for data in ("log", "log/hour=*", "log/*/*/*.parquet"):
            self.assertEqual(self.digest("--fresh", keys={**columns, "data.train": data, "data.eval": "log"}), want)
        scores = [self.run_on(MODEL, "predict", self.out, data, "--keep=hour,place", *more).stdout
                  for data, more in (("log", ()), ("rows.csv", ("--set=data.format=csv", "--set=data.header=names")))]
        self.assertEqual(*scores)
        self.assertIn("7,Rome:1,", scores[0])
        (self.tmp / "log/hour=7").rename(self.tmp / "log/hour=8")
        said = self.launch(keys={**columns, "data.train": "log", "data.eval": "log", "training.epochs": 4}).wait(2)
        self.assertIn("data", said.stderr())

    def test_a_value_of_a_path_is_its_columns(self):
        null = "__HIVE_DEFAULT_PARTITION__"
        for log, path in (("log", f"p={null}/q=v"), ("other", f"p=v/q={null}"), ("moved", f"q={null}/p=v")):
            (self.tmp / log / path).mkdir(parents=True)
            shutil.copy(FILES / "rows-0.parquet", self.tmp / log / path)
        keys = {"data.columns": "[label: y, key: p, key: q]", "model.layers": "[{linear: {inputs: [p, q]}}, sigmoid]"}
        self.leave_eval_out()
        self.digest(keys={**keys, "data.train": "log"})
        for log in ("other", "moved"):
            said = self.launch(keys={**keys, "data.train": log, "training.epochs": 4}).wait(2)
            self.assertIn("data", said.stderr())

    def test_rows_that_are_held_out_are_those_of_csv(self):
        self.leave_eval_out()
        for i, way in enumerate(("{last: 0.2}", "{share: 0.2}", "{share: 0.2, column: user}", "{share: 0.2, column: day}")):
            got = []
            for form, more in (("parquet", {}), ("csv", {k: v for k, v in self.CSV.items() if k != "data.eval"})):
                s = self.train(out=self.tmp / f"{form}-{i}", keys={**more, "data.validation": way}).summary()
                got.append((s["digest"], [(line["train"], line["eval"]) for line in s["history"]]))
            self.assertEqual(*got, way)

    def test_a_column_of_nulls_alone_is_of_any_type(self):
        lines = (FILES / "rows.csv").read_text().splitlines()
        half = len(lines) // 2
        known = [lines[0].split(",").index(name) for name in ("y", "w")]
        nulls = [",".join(v if i in known else "" for i, v in enumerate(line.split(","))) for line in lines[1:half + 1]]
        for files, rows in ((("rows-0", "nulls", "rows-1"), lines[1:half + 1] + nulls + lines[half + 1:]),
                            (("nulls", "rows-0"), nulls + lines[1:half + 1])):
            (self.tmp / "rows.csv").write_text("\n".join([lines[0], *rows]) + "\n")
            want = self.digest("--fresh", out=self.tmp / "csv", keys=self.CSV)
            data = f"[{', '.join(f'{self.tmp}/{name}.parquet' for name in files)}]"
            self.assertEqual(self.digest("--fresh", keys={"data.train": data}), want, files)
        said = self.launch("--fresh", keys={"data.train": f"[{', '.join(f'{self.tmp}/{name}.parquet' for name in ('nulls', 'rows-0', 'other'))}]",
                                            "data.columns": "[label: y, number: user]", "model.layers": "[{dense: 1}, sigmoid]"}).wait(2)
        self.assertIn(f'other.parquet: column "user": its type is double, but integer in {self.tmp}/rows-0.parquet', said.stderr())

    def test_a_column_without_a_number_is_said(self):
        self.leave_eval_out()
        for name in ("nan", "age"):  # NaN and null
            said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}", *self.sets(
                {"data.train": self.tmp / "nulls.parquet", "data.columns": f"[label: y, number: {name}]", "model.layers": "[{dense: 1}, sigmoid]"}))
            self.assertIn(f"column {name}: no row has a number, so all are missing", said.stdout + said.stderr)

    def test_integers_that_a_double_does_not_hold_are_said_as_in_csv(self):
        self.leave_eval_out()
        keys = {"data.train": "long.parquet", "model.layers": "[{dense: 1}, sigmoid]"}
        for column, scale, left in (("ns", "none", "float32"), ("id", "standard", "float64")):
            columns = f"[label: y, number: {{name: {column}, scale: {scale}}}]"
            said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}", *self.sets({**keys, "data.columns": columns}))
            self.assertRegex(said.stdout, f"column {column}: a sample has about (59|60|61) different numbers, but about 1 in {left}")

    def test_a_warning_names_no_key_that_parquet_refuses(self):
        columns = "[label: y, category: {name: town, vocabulary: [Wien]}, category: flag]"
        said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}",
                           *self.sets({"data.columns": columns, "model.layers": "[{dense: 1}, sigmoid]"}))
        self.assertIn("so all are unknown: check case and blanks", said.stdout)
        self.assertNotIn("data.trim", said.stdout)

    def test_a_column_that_does_not_fit_is_named(self):
        self.refused('rows-0.parquet: column "nested": its type is struct, which is not read', data__columns="[label: y, key: nested]",
                     model__layers="[{linear: {inputs: nested}}, sigmoid]")
        for columns, layer, why in (
                ("[label: y, key: age]", "age", 'column "age": its type is double, and floats have no one text'),
                ("[label: y, key: tags]", "tags", 'column "tags": its type is list, and only keys can be lists'),
                ("[label: y, key: usr]", "usr", 'it has no column "usr", which data.columns lists; did you mean "user"?'),
                ("[label: day, key: user]", "user", 'column "day": its type is date, which is no number')):
            self.refused(f"data.train: {self.tmp}/rows-0.parquet: {why}", data__columns=columns,
                         model__layers=f"[{{linear: {{inputs: {layer}}}}}, sigmoid]")
        said = self.launch(keys={"data.train": f"[{self.tmp}/rows-*.parquet, {self.tmp}/other.parquet]"}).wait(2)
        self.assertIn('other.parquet: column "user": its type is double, and floats have no one text', said.stderr())

    def test_files_that_differ_in_a_type_are_named(self):
        said = self.launch(keys={"data.train": f"[{self.tmp}/rows-0.parquet, {self.tmp}/other.parquet]", "data.columns":
                                 "[label: y, number: user]", "model.layers": "[{dense: 1}, sigmoid]", "data.eval": None}).wait(2)
        self.assertIn(f'other.parquet: column "user": its type is double, but integer in {self.tmp}/rows-0.parquet', said.stderr())
        said = self.launch(keys={"data.train": f"[{self.tmp}/rows-0.parquet, {self.tmp}/other.parquet]", "data.columns":
                                 "[label: y, keys: {name: words, max_values: 3}]", "model.layers": "[{linear: {inputs: words}}, sigmoid]"}).wait(2)
        self.assertIn(f'other.parquet: column "words": its type is text, but list of text in {self.tmp}/rows-0.parquet', said.stderr())

    def test_a_column_that_a_later_file_lacks_is_named_or_missing(self):
        """The third file has one of them, and another one of its path."""
        self.leave_eval_out()
        model = self.tmp / "model"
        self.digest(out=model)
        said = self.run_on(MODEL, "predict", model, self.tmp / "rows-0.parquet", "--keep=y,town,day,code", "--output=first.parquet")
        self.assertEqual(said.returncode, 0, said.stderr)
        (self.tmp / "code=7").mkdir()
        for columns, path in (("y", "second.parquet"), ("y,town", "code=7/third.parquet")):
            said = self.run_on(MODEL, "predict", model, self.tmp / "rows-1.parquet", f"--keep={columns}", f"--output={path}")
            self.assertEqual(said.returncode, 0, said.stderr)
        columns = "[label: y, number: {name: score, missing: {value: 1}}, key: {name: town, missing: none}, category: day, keys: {name: code, max_values: 2}]"
        keys = {"data.columns": columns, "model.layers": "[{linear: {inputs: [town, code], name: l}}, {dense: {units: 1, name: d, inputs: [score, day]}}, "
                "{add: [l, d]}, sigmoid]", "data.missing": "''"}
        files = [self.tmp / path for path in ("first.parquet", "second.parquet", "code=7/third.parquet")]
        said = self.launch("--fresh", keys={**keys, "data.train": f"[{files[0]}, {files[1]}]"}).wait(2)
        self.assertRegex(said.stderr(), r'second.parquet: it has no column "(town|day|code)", which data.columns lists')
        got = self.digest("--fresh", keys={**keys, "data.train": f"[{', '.join(map(str, files))}]", "data.absent_columns": "missing"})
        rows = []
        for i, (path, more) in enumerate(((files[0], {}), (files[1], {"town": "", "day": "", "code": ""}), (files[2], {"day": "", "code": "7"}))):
            said = self.run_on(MODEL, "predict", model, self.tmp / ("rows-0.parquet" if i == 0 else "rows-1.parquet"), "--keep=y,town,day,code")
            names, *lines = (line.split(",") for line in said.stdout.splitlines())
            rows += [",".join(more.get(name, value) for name, value in zip(names, line)) for line in lines]
        (self.tmp / "all.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
        self.assertEqual(self.digest("--fresh", out=self.tmp / "csv", keys={**{k: v for k, v in self.CSV.items() if k != "data.eval"}, **keys, "data.train": "all.csv"}), got)
        said = self.launch("--fresh", keys={**keys, "data.train": f"[{files[1]}, {files[0]}]", "data.absent_columns": "missing"}).wait(2)
        self.assertRegex(said.stderr(), r'second.parquet: it has no column "(town|day|code)", which data.columns lists')

    def test_bad_rows_and_broken_files_are_named_by_row_group(self):
        keys = {"data.columns": "[label: count, number: age]", "model.layers": "[{dense: 1}, sigmoid]"}
        said = self.launch(keys={**keys, "data.missing": "NA"}).wait(2)
        self.assertRegex(said.stderr(), r'rows-0.parquet: row group 0, row \d+: column "count": ')
        whole = (FILES / "rows-0.parquet").read_bytes()
        (self.tmp / "rows-0.parquet").write_bytes(whole[:5000])
        self.refused("rows-0.parquet: its footer cannot be read: Parquet magic bytes not found in footer")
        broken = bytearray(whole)
        broken[200:4000] = bytes(3800)
        (self.tmp / "rows-0.parquet").write_bytes(broken)
        said = self.launch(out=self.tmp / "broken").wait(2)
        self.assertRegex(said.stderr(), r'rows-0.parquet: row group 0: column "\w+": ')

    def test_a_file_without_rows_is_one_and_other_data_is_not_resumed(self):
        keys = {"data.train": f"[{self.tmp}/empty.parquet, {self.tmp}/rows-0.parquet, {self.tmp}/rows-1.parquet]"}
        self.digest()
        self.launch("--fresh", keys=keys).wait(0)
        said = self.launch(keys={**self.CSV, "training.epochs": 4}).wait(2)
        self.assertIn("data", said.stderr())

    def test_damaged_files_are_refused_by_name(self):
        whole = (FILES / "rows-0.parquet").read_bytes()
        path, r = self.tmp / "damaged.parquet", random.Random(7)
        other = "PAR1" + "x" * 40 + "PAR1"
        for content, why in ((b"", "its footer cannot be read: Parquet file size is 0 bytes"), (b"y,age\n1,2\n", "it is no Parquet file, which begins with PAR1"), (other.encode(), "its footer cannot be read: "),
                             (whole[:-9], "its footer cannot be read: "), (whole[:4] + whole[-5000:], "")):
            path.write_bytes(content)
            self.refused(f"damaged.parquet: {why}", data__train=path)
        codes = set()
        for i in range(16):
            damaged = bytearray(whole)
            for _ in range(r.randint(1, 2)):
                at = r.randrange(len(whole) - 5200 * (i % 2), len(whole)) if i % 2 else r.randrange(len(whole))
                damaged[at] = r.choice((0, 255, r.randrange(256), damaged[at] ^ 1 << r.randrange(8)))
            path.write_bytes(damaged)
            with self.subTest(i=i):
                said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}", *self.sets({"data.train": path, "data.eval": None}))
                codes.add(said.returncode)
                if said.returncode:
                    self.assertEqual(said.returncode, 2, said.stderr)
                    self.assertRegex(said.stdout, r"FAIL.*damaged\.parquet: \S")
        self.assertEqual(codes, {0, 2})

    def test_what_is_no_file_is_named(self):
        pipe = self.tmp / "pipe.parquet"
        os.mkfifo(pipe)
        (self.tmp / "empty").mkdir()
        (self.tmp / "log").mkdir()
        shutil.copy(FILES / "rows-0.parquet", self.tmp / "log")
        self.refused("pipe.parquet: it is no regular file, and Parquet is read from its end", data__train=pipe)
        self.refused("empty: it is a directory without a file *.parquet", data__train=self.tmp / "empty")
        (self.tmp / "log/rows-1.parquet").symlink_to("nowhere")
        self.refused("log/rows-1.parquet: No such file or directory", data__train=self.tmp / "log")
        (self.tmp / "log/rows-1.parquet").unlink()
        (self.tmp / "log/again").symlink_to("..")
        self.refused("log/again/log: this link leads to a directory that contains it", data__train=self.tmp / "log")

    def test_files_of_earlier_versions_of_a_table_are_not_read_as_rows(self):
        for log, kind in (("_delta_log/0.json", "Delta Lake (_delta_log)"), (".hoodie/hoodie.properties", "Apache Hudi (.hoodie)"),
                          ("metadata/v1.metadata.json", "Apache Iceberg (metadata/*.metadata.json)")):
            tab = self.tmp / f"tab {kind[7:9]}"
            for part in ("", "data/day=1/"):
                (tab / part).mkdir(parents=True, exist_ok=True)
                shutil.copy(FILES / "rows-0.parquet", tab / part / "a.parquet")
            (tab / log).parent.mkdir()
            (tab / log).write_text("{}")
            why = f"it belongs to a table of {kind}, which keeps files of earlier versions: export the rows of its current version, or list its"
            for folder in (tab, tab / "data", tab / "data/day=1"):
                self.refused(f"{folder.relative_to(self.tmp)}: {why}", data__train=folder)
            said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}", f"--set=data.train={tab}/*.parquet")
            self.assertIn(f"a.parquet: {why}", said.stdout)
            said = self.run_on(WORKER, "--doctor", f"--job={self.JOB}", f"--set=data.train={tab}/a.parquet")
            self.assertNotIn("table of", said.stdout)

    def test_times_of_int96_are_read_to_the_ns_or_refused(self):
        (self.tmp / "times.csv").write_text("y,at\n" + "".join(f"{i % 2},{at}\n" for i, at in enumerate((
            "1677-09-21 23:59:59.999999999", "1969-12-31 23:59:59.999999999", "1970-01-01 00:00:00.000000000",
            "2023-11-14 22:13:20.123456789", "2262-04-10 23:59:59.999999999", ""))))
        keys = {"data.columns": "[label: y, key: at]", "model.layers": "[{linear: {inputs: at}}, sigmoid]"}
        want = self.digest(keys={**self.CSV, **keys, "data.train": "times.csv", "data.eval": "times.csv"})
        self.assertEqual(self.digest("--fresh", keys={**keys, "data.train": "times.parquet", "data.eval": "times.parquet"}), want)
        self.leave_eval_out()
        self.refused('far.parquet: row group 1: column "at": row 1: 9999-12-31 00:00:00 is beyond the times of INT96 that are read, of the years '
                     "1678 to 2261: write the column as a timestamp of microseconds",
                     data__train="far.parquet", **{k.replace(".", "__"): v for k, v in keys.items()})

    def test_rows_of_paths_alone(self):
        for click in "01":
            (self.tmp / f"log/click={click}/place=Rome{click}").mkdir(parents=True)
            shutil.copy(FILES / "rows-0.parquet", self.tmp / f"log/click={click}/place=Rome{click}")
        (self.tmp / "log.csv").write_text("click,place\n" + "0,Rome0\n" * 60 + "1,Rome1\n" * 60)
        keys = {"data.columns": "[label: click, key: place]", "model.layers": "[{linear: {inputs: place}}, sigmoid]"}
        want = self.digest(keys={**self.CSV, **keys, "data.train": "log.csv", "data.eval": "log.csv"})
        self.assertEqual(self.digest("--fresh", keys={**keys, "data.train": "log", "data.eval": "log"}), want)

    def test_keys_of_text_are_refused(self):
        self.refused("data.header", data__header="names")
        self.refused("column 1 has no name; data.format: parquet needs a name for every column",
                     data__columns="[label: y, number]", model__layers="[{dense: 1}, sigmoid]")


class ModuleTest(TrainCase):
    def test_a_job_that_needs_the_module_where_it_is_not_names_the_command(self):
        (self.tmp / "worker").mkdir()
        worker = shutil.copy(WORKER, self.tmp / "worker/worker")
        (self.tmp / "job.yaml").write_text("model: {input: {shape: auto}, layers: [{dense: 1}, sigmoid], loss: binary_crossentropy}\noptimizer: sgd\n"
                                           f"data: {{format: parquet, train: {FILES}/rows-0.parquet, columns: [label: y, number: age]}}\n")
        said = subprocess.run([worker, f"--job={self.tmp}/job.yaml"], capture_output=True, text=True, cwd=self.tmp, timeout=60)
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn("gradwire-arrow, which is not there; run in gradwire's source tree: ./gradwire setup arrow; and, if gradwire "
                      "is installed: ./gradwire install", said.stderr)


if __name__ == "__main__":
    unittest.main()
