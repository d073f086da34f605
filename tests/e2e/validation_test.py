#!/usr/bin/env python3
"""data.validation: the rows that are held out of data.train are those that Python computes; the job learns what it learns where
these rows are bad, and evaluates what it evaluates where they are files of their own, to the bit, in every format, with any
number of workers, and after kills."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TSAN, WORKER, TrainCase, slow  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import gradwire_model  # noqa: E402

ROWS, SEED = 900, 5
JOB = """
name: held
data: {format: csv, train: FILES, header: names, columns: [
  {number: {name: age, scale: standard}}, {category: town}, {number: {name: size, buckets: {quantiles: 5}}}, {key: item},
  {label: {name: answer, classes: ["no", "yes"]}}, {weight: w}]}
model:
  input: {shape: auto}
  layers:
    - dense: {units: 6, activation: relu, inputs: [age, town, size], name: d}
    - embedding: {inputs: item, output_dim: 2, name: e}
    - concatenate: [d, e]
    - dense: {units: 1, activation: sigmoid}
  loss: binary_crossentropy
  metrics: [accuracy, auc]
training: {batch_size: 50, epochs: 3, monitor: loss, microbatches: 4, seed: 5}
optimizer: adam
timeouts: {worker_rejoin_s: 2}
"""
ARRAYS = """
name: arrays
data: {format: FORMAT, train: FILES, scale: 255}
model:
  input: {shape: [8]}
  layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 3, activation: softmax}}]
  loss: sparse_categorical_crossentropy
  metrics: [accuracy]
training: {batch_size: 50, epochs: 2, monitor: loss, microbatches: 4, seed: 5}
optimizer: adam
"""
LIBSVM = """
name: svm
data: {format: libsvm, train: FILES, columns: [label, {keys: {name: x, max_values: 9, hash: false, weights: true}}]}
model: {input: {shape: auto}, layers: [{linear: {inputs: x}}, sigmoid], loss: binary_crossentropy, metrics: [auc]}
training: {batch_size: 50, epochs: 2, monitor: loss, microbatches: 4, seed: 5}
optimizer: adam
"""
WAYS = {"last": "{last: 0.2}", "share": "{share: 0.2}", "column": "{column: user, share: 0.2}"}


def mixed(key, position):
    """rng_u64."""
    z = key + (position + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    z = (z ^ z >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return z ^ z >> 31


def holds(seed, of_keys, number, share):
    key = mixed(mixed(mixed(seed, 8), of_keys), 0)
    return (mixed(key, number) >> 11) * 2.0**-53 < share


def held_rows(way, users, seed=SEED, share=0.2):
    """For each row, whether it is held out."""
    n = len(users)
    if way == "last":
        return [row >= n - int(n * share) for row in range(n)]
    if way == "share":
        return [holds(seed, 0, row, share) for row in range(n)]
    return [holds(0, 1, gradwire_model.xxh3(user.encode()), share) for user in users]


def drawn():
    """Rows, as texts of their fields: some towns are in a few rows alone, and at the end all are new."""
    draw = random.Random(SEED)
    towns = [f"t{i}" for i in range(60)]
    rows = []
    for i in range(ROWS):
        town = draw.choice(towns[:10]) if i % 7 else towns[10 + i % 50]
        town = f"late{i % 5}" if i > ROWS * 0.9 else town
        rows.append([f"u{draw.randrange(120)}", f"{draw.gauss(40, 20) + i / 9:.3f}", town, f"{draw.expovariate(0.2):.4f}",
                     f"i{draw.randrange(90)}", draw.choice(["no", "yes"]), f"{draw.randrange(1, 4)}"])
    return rows


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class ValidationTest(TrainCase):
    KEYS = {}
    HEADER = "user,age,town,size,item,answer,w"

    def write(self, name, rows):
        (self.tmp / name).write_text("\n".join([self.HEADER, *(",".join(row) for row in rows)]) + "\n")
        return str(self.tmp / name)

    def job_file(self, text, files, name="job.yaml"):
        (self.tmp / name).write_text(text.replace("FILES", files))
        return self.tmp / name

    def learned(self, out, *flags, **how):
        """The digest of a job, and its epochs."""
        s = self.train(*flags, out=self.tmp / out, **how).summary()
        return s["digest"], [(line["train"], line["eval"]) for line in s["history"]]

    def manifest(self, out):
        return json.loads((self.tmp / out / "model/manifest.json").read_text())["data"]

    def evaluated(self, out, *data):
        done = subprocess.run([MODEL, "evaluate", self.tmp / out, *data, "--json"], capture_output=True, text=True,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        return {**got["eval"], "rows": got["rows"]}

    def test_rows_that_are_held_out_teach_nothing_and_are_evaluated(self):
        rows = drawn()
        whole = self.job_file(JOB, self.write("all.csv", rows))
        for way, text in WAYS.items():
            held = held_rows(way, [row[0] for row in rows])
            self.assertTrue(0.1 < sum(held) / ROWS < 0.3, way)
            self.write(f"{way}.bad.csv", [row[:5] + ["bad"] + row[6:] if is_held else row for row, is_held in zip(rows, held)])
            only = self.write(f"{way}.eval.csv", [row for row, is_held in zip(rows, held) if is_held])
            bad = {"data.train": self.tmp / f"{way}.bad.csv", "data.bad_rows": "skip", "data.eval": only}
            expected = self.learned(f"{way}-bad", "--workers=1", job=whole, keys=bad)
            got = self.learned(way, "--workers=1", job=whole, keys={"data.validation": text})
            self.assertEqual(got, expected, way)
            self.assertEqual(self.learned(f"{way}-2", "--workers=2", "--ps=2", job=whole, keys={"data.validation": text}), got)
            self.assertEqual((self.manifest(way)["rows"], self.manifest(way)["eval_rows"]), (ROWS - sum(held), sum(held)))
            self.assertEqual((self.tmp / way / "model/encoding.json").read_text(),
                             (self.tmp / f"{way}-bad/model/encoding.json").read_text(), way)
            self.assertEqual(self.evaluated(way), self.evaluated(way, only), way)

    def test_rows_beyond_the_memory_are_held_out_alike(self):
        rows = drawn()
        wide = JOB.replace("{weight: w}", '{weight: w}, {number: "n{1..900}"}').replace("epochs: 3", "epochs: 1")
        header = ValidationTest.HEADER + "".join(f",n{i}" for i in range(1, 901))
        text = "\n".join([header, *(",".join(row + [f"{i}.{len(row[2])}" for i in range(900)]) for row in rows)]) + "\n"
        (self.tmp / "wide.csv").write_text(text)
        job = self.job_file(wide, str(self.tmp / "wide.csv"))
        keys = {"data.validation": "{share: 0.2}", "data.columns": None}
        got = [self.learned(f"wide-{mb}", "--workers=1", job=job, keys={**keys, "data.memory_mb": mb}) for mb in (1, 100)]
        self.assertIn("MiB of its rows are in a file", (self.tmp / "wide-1/processes/worker-0.log").read_text())
        self.assertEqual(got[0], got[1])

    def test_the_result_is_that_of_any_cluster_and_after_kills(self):
        job = self.job_file(JOB, self.write("all.csv", drawn()))
        keys = {"data.validation": WAYS["column"], "training.epochs": 6}
        expected = self.learned("one", "--workers=1", "--ps=1", job=job, keys=keys)
        self.assertEqual(self.learned("four", "--workers=4", "--ps=2", "--chief", job=job, keys=keys), expected)
        frequent = {**keys, "checkpoint.every_steps": 5, "checkpoint.every_seconds": 0}
        disturbed = self.launch("--workers=2", *slow(0.02), out=self.tmp / "killed", job=job,
                                keys=frequent)
        disturbed.until_cut(2)
        disturbed.kill("worker-1")
        disturbed.until_cut(4)
        for name in list(disturbed.pids()):
            if not name.startswith("launcher"):
                disturbed.kill(name)
        disturbed.kill("launcher-0")
        self.lock_is_free(disturbed.out)
        disturbed.process.wait(DEADLINE_S)
        self.assertEqual(self.learned("killed", "--workers=4", job=job, keys=frequent), expected)

    def test_files_that_are_held_out_are_those_of_data_eval(self):
        rows = drawn()
        for i in range(3):
            self.write(f"day-{i}.csv", rows[i * 300:i * 300 + 300])
        held = self.job_file(JOB, str(self.tmp / "day-*.csv"))
        apart = self.job_file(JOB, f"[{self.tmp}/day-0.csv, {self.tmp}/day-2.csv]", "apart.yaml")
        expected = self.learned("apart", "--workers=1", job=apart, keys={"data.eval": self.tmp / "day-1.csv"})
        job = self.launch("--workers=2", out=self.tmp / "files", job=held,
                          keys={"data.validation.files": f"{self.tmp}/./day-1*"}).wait()  # as it is, by another name
        s = job.summary()
        self.assertEqual((s["digest"], [(line["train"], line["eval"]) for line in s["history"]]), expected)
        self.assertNotIn("from which it learns", job.logs())
        self.assertEqual(self.manifest("files")["fingerprint"], self.manifest("apart")["fingerprint"])
        self.assertEqual(self.evaluated("files"), self.evaluated("files", self.tmp / "day-1.csv"))

    def test_every_format_holds_rows_out(self):
        draw = random.Random(SEED)
        svm = [f"{draw.randrange(2)} " + " ".join(f"{k}:{draw.random():.3f}" for k in sorted(draw.sample(range(40), 5)))
               for _ in range(ROWS)]
        (self.tmp / "all.svm").write_text("\n".join(svm) + "\n")
        pixels = [bytes(draw.randrange(256) for _ in range(8)) for _ in range(ROWS)]
        labels = [draw.randrange(3) for _ in range(ROWS)]

        def idx(name, chosen):
            (self.tmp / f"{name}.x").write_bytes(struct.pack(">4BII", 0, 0, 8, 2, len(chosen), 8) +
                                                 b"".join(pixels[i] for i in chosen))
            (self.tmp / f"{name}.y").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, len(chosen)) + bytes(labels[i] for i in chosen))
            return [self.tmp / f"{name}.x", self.tmp / f"{name}.y"]

        def npy(name, chosen):
            for suffix, shape, data in (("x", f"({len(chosen)}, 8)", b"".join(pixels[i] for i in chosen)),
                                        ("y", f"({len(chosen)},)", bytes(labels[i] for i in chosen))):
                head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
                (self.tmp / f"{name}.{suffix}.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data)
            return [self.tmp / f"{name}.x.npy", self.tmp / f"{name}.y.npy"]

        def libsvm(name, chosen):
            (self.tmp / f"{name}.svm").write_text("\n".join(svm[i] for i in chosen) + "\n")
            return [self.tmp / f"{name}.svm"]

        digests = {}
        for make, text in ((idx, ARRAYS.replace("FORMAT", "idx")), (npy, ARRAYS.replace("FORMAT", "npy")), (libsvm, LIBSVM)):
            kind = make.__name__
            job = self.job_file(text, str(list(map(str, make(f"{kind}-all", range(ROWS))))), f"{kind}.yaml")
            for way in ("last", "share"):
                out, held = f"{kind}-{way}", held_rows(way, [""] * ROWS)
                got = self.learned(out, "--workers=2", job=job, keys={"data.validation": WAYS[way]})
                digests[out] = got[0]
                self.assertEqual((self.manifest(out)["rows"], self.manifest(out)["eval_rows"]), (ROWS - sum(held), sum(held)))
                only = self.evaluated(out, *make(f"{out}-held", [i for i in range(ROWS) if held[i]]))
                self.assertEqual(self.evaluated(out), only)
                self.assertEqual(got[1][-1][1]["loss"], only["loss"], out)
        self.assertEqual(digests["idx-last"], digests["npy-last"])
        self.assertEqual(digests["idx-share"], digests["npy-share"])
        self.assertNotEqual(digests["idx-share"], digests["idx-last"])

    def test_words_that_only_rows_that_are_held_out_have_are_said(self):
        rows = drawn()
        job = self.job_file(JOB, self.write("all.csv", rows))
        taught = {row[2] for row in rows[:ROWS * 8 // 10]}
        new = [row[2] for row in rows[ROWS * 8 // 10:] if row[2] not in taught]
        text = f'data.validation: column town: {len(new)} of {ROWS * 2 // 10} rows have a word that no other row has, such as "{new[0]}"'
        self.assertIn(text, self.train("--workers=1", job=job, keys={"data.validation": WAYS["last"]}).logs())
        self.assertNotIn("no other row has", self.train("--workers=1", job=job, out=self.tmp / "share",
                                                        keys={"data.validation": WAYS["share"]}).logs())

    def refuses_to_evaluate(self, text, *args):
        done = subprocess.run([MODEL, "evaluate", *args], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    def test_evaluate_chooses_no_rows_of_other_files_than_were_trained_on(self):
        rows, out = drawn(), self.tmp / "out"
        self.write("day-0.csv", rows[:300])
        self.write("day-2.csv", rows[300:])
        job = self.job_file(JOB, str(self.tmp / "day-*.csv"))
        self.train("--workers=1", job=job, out=out, keys={"data.validation": WAYS["share"]})
        trained = [out, out / "best", out / "checkpoints"]
        before = [self.evaluated(path) for path in trained]
        other = self.write("day-1.csv", rows[:9])
        text = "data.train: its rows are others than those that the model was trained on"
        for path in trained:
            self.refuses_to_evaluate(text, path)
        self.assertEqual(self.evaluated(out, other)["rows"], 9)
        (self.tmp / "day-1.csv").unlink()
        self.assertEqual([self.evaluated(path) for path in trained], before)
        self.refuses_to_evaluate(text, out, "--set", f"data.train={self.tmp}/day-2.csv")
        for way in ("data.validation.share=0.5", "data.validation={share: 0.5}", "data.validation.column=user"):
            self.refuses_to_evaluate(f"--set {way}: the model is trained already, and which rows", out, "--set", way)

    def test_the_fingerprint_tells_which_rows_are_held_out(self):
        job = self.job_file(JOB.replace("monitor: loss, ", ""), self.write("all.csv", drawn()))
        got = {}
        for way, text in {**WAYS, "less": "{share: 0.1}"}.items():
            self.learned(way, "--workers=1", job=job, keys={"data.validation": text, "training.epochs": 1})
            data = self.manifest(way)
            got[data["eval_fingerprint"]] = way
            self.assertNotEqual(data["eval_fingerprint"], data["fingerprint"])
        self.assertEqual(len(got), 4, got)
        self.learned("other", "--workers=2", "--evaluator", job=job, keys={"data.validation": WAYS["share"], "training.epochs": 1})
        self.assertEqual(got[self.manifest("other")["eval_fingerprint"]], "share")

    def refused(self, keys, text, job=None, code=2):
        got = self.train("--workers=1", job=job or self.tmp / "job.yaml", keys=keys, code=code).logs()
        self.assertIn(text, got)

    def test_what_holds_out_nothing_or_all_is_refused(self):
        rows = drawn()[:40]
        self.job_file(JOB, self.write("all.csv", rows))
        one = [["same", *row[1:]] for row in rows]
        for keys, text in (
                ({"data.validation.share": 0}, "data.validation.share"),
                ({"data.validation.share": 1}, "data.validation.share"),
                ({"data.validation.last": 0.01}, "data.train: data.validation.last: of 40 rows that can be read it holds out none; "
                                                 "set a larger share"),
                ({"data.validation": "{last: 0.1, share: 0.1}"}, "in one way"),
                ({"data.validation": "{column: user}"}, "it has no effect without data.validation.share"),
                ({"data.validation": "{last: 0.1}", "data.eval": "all.csv"}, "data.eval names what to evaluate on"),
                ({"data.validation": "{column: usr, share: 0.1}"},
                 'data.validation.column: no column has the name "usr"; did you mean "user"?'),
                ({"data.validation.files": self.write("other.csv", rows)}, "other.csv is no file of data.train"),
                ({"data.validation.files": self.tmp / "nope"}, "data.validation.files: " + str(self.tmp / "nope")),
                ({"data.validation.files": self.tmp / "all.csv"}, "no file is left to train on"),
                ({"data.validation": "{column: user, share: 0.5}", "data.train": self.write("one.csv", one)},
                 "or a column with more different keys")):
            with self.subTest(str(keys)):
                self.refused(keys, text)
        svm = self.job_file(LIBSVM, "x.svm", "svm.yaml")
        self.refused({"data.validation.last": 0.1}, "data.format: synthetic generates rows to evaluate on", job=TrainCase.JOB)
        self.refused({"data.validation": "{column: user, share: 0.1}"},
                     "data.validation.column: only data.format: csv and parquet can hold out by a column", job=svm)

    def test_a_job_resumes_with_the_same_rows_held_out_alone(self):
        job = self.job_file(JOB, self.write("all.csv", drawn()))
        self.train("--workers=1", job=job, keys={"data.validation": "{share: 0.2}"})
        got = self.train("--workers=1", job=job, keys={"data.validation": "{share: 0.3}", "training.epochs": 4}, code=2).logs()
        self.assertIn("data.validation.share", got)
        self.assertIn("0.3", got)
        self.train("--workers=2", job=job, keys={"data.validation": "{share: 0.2}", "training.epochs": 4})

    def test_an_evaluator_and_doctor_see_the_rows_that_are_held_out(self):
        job = self.job_file(JOB.replace("monitor: loss, ", ""), self.write("all.csv", drawn()))
        keys = {"data.validation": "{column: user, share: 0.2}"}
        expected = self.learned("alone", "--workers=1", job=job, keys=keys)[1][-1][1]
        s = self.train("--workers=2", "--evaluator", job=job, keys=keys).summary()
        self.assertEqual(s["eval"]["loss"], expected["loss"])
        done = subprocess.run([WORKER, "--doctor", f"--job={job}", *self.sets(keys)], capture_output=True, text=True, timeout=DEADLINE_S)
        held = sum(held_rows("column", [row[0] for row in drawn()]))  # not a fifth of the rows: whole users are
        self.assertIn(f"data.validation: about {held} rows of data.train are held out", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
