#!/usr/bin/env python3
"""Generated files of each kind (tests/lib/file_kinds.py): training's rows, and what predict and encode make of them, are what
pandas, Python's csv and gzip, zstd and numpy make of them, or an error names the file and the line.

GRADWIRE_CSV_FILES=N: so many of each kind; GRADWIRE_CSV_SEED=N begins with another file"""
import collections
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/interop"), str(ROOT / "tests/lib")]
import case  # noqa: E402
import numbers_test  # noqa: E402
from csv_files import JOB, read  # noqa: E402
from file_kinds import KINDS, Numbers, Packed, Refused  # noqa: E402

FILES, SEED = int(os.environ.get("GRADWIRE_CSV_FILES", "60")), int(os.environ.get("GRADWIRE_CSV_SEED", "1"))
BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
DEADLINE_S, PARALLEL, TOLERANCE = 3600, 2, 1e-5
EQUAL, ERROR, DIFFERENT, SHOWN = "equal", "an error", "different", 1500


def pandas_rows(file):
    import pandas

    how = file.dialect()
    table = pandas.read_csv(io.BytesIO(file.text.removeprefix(b"\xef\xbb\xbf")), header=None, sep=how["delimiter"], dtype=str,
                            quoting=how["quoting"], escapechar=how["escapechar"], na_filter=False, encoding=file.codec)
    return [file.of_row(row) for row in table.values.tolist()[file.header != "none":]]


def numbers(texts):
    import numpy as np

    return np.array([float(t) if t.strip() else np.nan for t in texts])


def tensors(path):
    """The kernel and the bias of the layer."""
    import numpy as np

    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, of in json.loads(data[8:end]).items():
        if name != "__metadata__":
            found[name.rpartition("/")[2]] = np.frombuffer(data[end + of["data_offsets"][0]:end + of["data_offsets"][1]], "<f4")
    return found["kernel"].astype(np.float64), found["bias"].astype(np.float64)


class Trial:
    """One file, in its folder."""

    def __init__(self, test, kind, seed, folder):
        self.test, self.made, self.folder = test, KINDS[kind](seed), folder / str(seed)
        self.folder.mkdir()
        self.where = f"{kind}, seed {seed}"
        self.path = self.folder / f"a{self.made.name}"
        self.path.write_bytes(self.made.content)
        (self.folder / "good.csv").write_bytes(self.made.good)
        good = self.made.file.data(self.folder / "good.csv").replace("{format: csv, ", f"{{format: csv, eval: '{self.folder}/good.csv', ")
        (self.folder / "job.yaml").write_text(JOB.format(good))

    def section(self):
        return self.made.file.data(self.path)

    def line(self):
        keep = ",".join(self.made.file.listed) if not isinstance(self.made, Numbers) else ",".join(c.name for c in self.made.file.columns)
        return f"{self.folder} {keep} {self.path.name}\n"

    def refused(self, text):
        """An error is of a file that has a fault. It has the file and the line, or what its kind has in place of that."""
        self.test.assertFalse(self.made.well_formed, f"{self.where}: it is well-formed, and refused: {text}")
        self.test.assertRegex(text, re.escape(self.path.name) + self.made.said, self.where)
        if isinstance(self.made, Refused):
            codec = re.search(self.made.said, text)["codec"]
            self.test.assertTrue(self.made.converts(codec), f"{self.where}: {text}")
        line = re.search(re.escape(self.path.name) + r":(\d+): ", text)
        if line and not isinstance(self.made, Packed):
            self.test.assertLessEqual(int(line[1]), self.made.content.count(b"\n") + 1, self.where)
        return ERROR

    def equal(self, ours, theirs, what):
        self.test.assertIsNotNone(theirs, f"{self.where}, {what}: the others refuse it")
        self.test.assertEqual(ours, theirs, f"{self.where}, {what}")
        return EQUAL

    def train(self, said):
        if "error" in said:
            return self.refused(said["error"])
        if isinstance(self.made, Numbers):
            theirs = self.made.theirs()
            self.equal(len(said["rows"]), theirs and len(theirs[0]), "rows of training")
            return self.close(self.features(theirs, json.loads(said["encoding"])), [row[:-1] for row in said["rows"]])
        codec = self.made.file.codec
        ours = [[bytes.fromhex(word).decode(codec) for word in row[:-1]] + [row[-1]] for row in said["rows"]]
        theirs = self.made.rows()
        if theirs is not None:
            self.test.assertNotIn(None, theirs, f"{self.where}: a row with another number of fields passes")
            theirs = [[*row[:-1], self.label(row[-1])] for row in theirs]
            if theirs and not self.made.file.wrong and b"\0" not in self.made.file.text and not isinstance(self.made, Packed):
                as_pandas = [[*row[:-1], float(row[-1])] for row in pandas_rows(self.made.file)]
                self.test.assertEqual(theirs, as_pandas, f"{self.where}: Python's csv and pandas")
        return self.equal(ours, theirs, "training")

    def label(self, text):
        try:
            return float(text)
        except ValueError:
            self.test.fail(f"{self.where}: the label {text!r} passes")

    def features(self, texts, encoding):
        import numpy as np

        out = []
        for column, of, column_texts in zip(self.made.file.columns, encoding["columns"], texts):
            x = numbers(column_texts)
            x = x.astype(np.float32).astype(np.float64) if column.how == "none" else x
            out.append(numbers_test.encoded(column, x, of.get("number") or of["buckets"]))
        return np.array(out, np.float32).T

    def ids(self):
        """Words are numbered in the order of their first row in the file from which the model has learned."""
        import numpy as np

        out = []
        rows, good = self.made.rows(), self.made.good_rows()
        for i in range(len(self.made.file.listed)):
            known = {word: n + 1 for n, word in enumerate(dict.fromkeys(row[i] for row in good))}
            out.append([known.get(row[i], 0) for row in rows])
        return np.array(out, np.float32).T

    def close(self, theirs, ours):
        import numpy as np

        np.testing.assert_array_equal(np.asarray(ours, np.float32).reshape(theirs.shape), theirs, self.where)
        return EQUAL

    def expected(self):
        if not isinstance(self.made, Numbers):
            return self.made.rows(), self.ids
        texts = self.made.theirs()
        encoding = json.loads((self.folder / "model/encoding.json").read_text())
        return texts and list(zip(*texts)), lambda: self.features(texts, encoding)

    def encode(self, rc):
        import numpy as np

        if rc:
            return self.refused((self.folder / "encode.err").read_text())
        rows, features = self.expected()
        with np.load(self.folder / "rows.npz") as arrays:
            ours = arrays["features"]
        self.equal(len(ours), None if rows is None else len(rows), "rows of encode")
        return self.close(features(), ours) if rows else EQUAL

    def predict(self, rc):
        import numpy as np

        if rc:
            return self.refused((self.folder / "predict.err").read_text())
        rows, features = self.expected()
        codec = getattr(self.made.file, "codec", "utf-8")
        printed = list(csv.reader(io.StringIO((self.folder / "predict.out").read_bytes().decode(codec), newline="")))[1:]
        if not isinstance(self.made, Numbers) and rows is not None:
            self.test.assertNotIn(None, rows, f"{self.where}: a row with another number of fields passes")
            rows = [row[:-1] for row in rows]
        theirs = None if rows is None else [list(row) for row in rows]
        self.equal([row[:-1] for row in printed], theirs, "what predict keeps")
        kernel, bias = tensors(self.folder / "model/weights.safetensors")
        x = features().astype(np.float64)
        scores, ours = x @ kernel + bias, np.array([float(row[-1]) for row in printed])
        room = TOLERANCE * (np.abs(x) @ np.abs(kernel) + np.abs(bias))
        with np.errstate(invalid="ignore"):  # of features that are infinite: a number of 1e38 where the model has small ones
            near = (scores == ours) | (np.abs(scores - ours) <= room)
        self.test.assertTrue(near.all(), f"{self.where}, scores: {scores} {ours}")
        return EQUAL


def commands(trials):
    """Run model, predict and encode of each; their exit codes."""
    def run(part):
        got = subprocess.run([BUILD / "tests/interop_commands", BUILD / "tests/interop_fixture"], text=True, check=True,
                             input="".join(trial.line() for trial in part), stdout=subprocess.PIPE, timeout=DEADLINE_S)
        return [tuple(map(int, line.split())) for line in got.stdout.splitlines()]

    parts = [trials[i::PARALLEL] for i in range(PARALLEL)]
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        codes = list(pool.map(run, parts))
    return [codes[i % PARALLEL][i // PARALLEL] for i in range(len(trials))]


class FilesTest(unittest.TestCase):
    def judge(self, trial, said, codes):
        """The outcome of train, predict and encode; a difference from the others is noted."""
        model, predict, encode = codes
        self.assertEqual(model, 0, f"{trial.where}: {(trial.folder / 'model.err').read_text()}")
        for name, of in (("train", lambda: trial.train(said)), ("predict", lambda: trial.predict(predict)),
                         ("encode", lambda: trial.encode(encode))):
            try:
                yield name, of()
            except AssertionError as e:
                self.differences.append(f"{name}: {str(e)[:SHOWN]}")
                yield name, DIFFERENT

    def check(self, kind):
        self.differences, counts = [], collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            trials = [Trial(self, kind, seed, folder) for seed in range(SEED, SEED + FILES)]
            said = read(BUILD, folder, [trial.section() for trial in trials], DEADLINE_S)
            for trial, of, codes in zip(trials, said, commands(trials), strict=True):
                counts.update(self.judge(trial, of, codes))
        print(f"{FILES} files, {kind}:", "; ".join(f"{name} {', '.join(f'{counts[name, of]} {of}' for of in (EQUAL, ERROR, DIFFERENT))}"
                                                  for name in ("train", "predict", "encode")), file=sys.stderr)
        self.assertEqual(self.differences, [], "\n\n".join(self.differences[:5]))
        for name in ("train", "predict", "encode"):
            self.assertGreater(counts[name, EQUAL], FILES / 5, name)


for name in KINDS:
    def each(self, name=name):
        self.check(name)
    setattr(FilesTest, f"test_{name.replace(' ', '_')}", each)


if __name__ == "__main__":
    case.main()
