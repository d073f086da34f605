#!/usr/bin/env python3
"""csv as Python's csv module reads it: rows and values of generated files are equal, or an error names the line.

GRADWIRE_CSV_FILES=2000 is the long form; GRADWIRE_CSV_SEED=N begins with another file. labels: short"""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, MODEL, TrainCase  # noqa: E402
from csv_files import JOB, File, read  # noqa: E402
from number_files import NumberFile  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import gradwire_model  # noqa: E402

FILES, SEED = int(os.environ.get("GRADWIRE_CSV_FILES", "300")), int(os.environ.get("GRADWIRE_CSV_SEED", "1"))
MANY_ROWS, BIG_EACH = 30000, 150  # a file of several pieces
OPTIONS = {"delimiter_name": "semicolon", "quotes": True, "escape": True, "header": "names"}


class CsvTest(TrainCase):
    KEYS = {}

    def made(self, seed, **how):
        file = File(seed, **how)
        path = self.tmp / f"{seed}.csv"
        path.write_bytes(file.text)
        return file, path

    def refused(self, seed, file, text, path):
        self.assertTrue(file.wrong, f"seed {seed}: a well-formed file is refused: {text}")
        if text == f"data.train: {path}: it has no row that can be read":
            return  # with bad_rows: skip
        found = re.fullmatch(rf"data.train: {re.escape(str(path))}:(\d+): .*", text)
        self.assertTrue(found, f"seed {seed}: no line: {text}")
        self.assertLessEqual(int(found[1]), file.text.count(b"\n") + 1, f"seed {seed}")

    def equal(self, seed, file, got):
        """Python's rows; a row that is bad can have any text, but is one row."""
        rows = file.rows()
        self.assertEqual(len(got), len(rows), f"seed {seed}: rows")
        for number, (ours, theirs) in enumerate(zip(got, rows)):
            theirs = file.of_row(theirs)
            if ours is not None:
                values = [bytes.fromhex(word).decode("latin-1") for word in ours[:-1]]
                self.assertTrue(theirs and values == theirs[:-1] and ours[-1] == float(theirs[-1]),
                                f"seed {seed}, row {number}: {values} {ours[-1]}, in Python {theirs}")
            else:
                self.assertTrue(file.wrong, f"seed {seed}, row {number} is bad")

    def test_rows_and_values_are_those_of_python_or_an_error_names_the_line(self):
        seeds = range(SEED, SEED + FILES)
        made = [self.made(seed, **({"rows": MANY_ROWS} if seed % BIG_EACH == 0 else {})) for seed in seeds]
        right, bad = 0, 0
        for mode in ("stop", "skip"):
            all_said = read(BUILD, self.tmp, [file.data(path, mode) for file, path in made], 4 * DEADLINE_S)
            for seed, (file, path), said in zip(seeds, made, all_said):
                self.assertNotIn("job", said)
                if mode == "skip" and ("cr" in file.wrong or ("open" in file.wrong and re.search(rb"\r[^\n]", file.text))):
                    continue  # for Python a CR outside of quotes begins a row
                if "error" in said:
                    self.refused(seed, file, said["error"], path)
                else:
                    self.equal(seed, file, said["rows"])
                right += mode == "stop" and "rows" in said
                bad += sum(row is None for row in said.get("rows", []))
        self.assertGreater(right, FILES * 0.6)
        self.assertGreater(bad, FILES / 20)

    def test_numbers_are_encoded_as_pythons_doubles(self):
        """Features and buckets of python/gradwire_model.py, whose numbers are doubles, are those of training, to the bit."""
        made = [(NumberFile(seed), self.tmp / f"n{seed}.csv") for seed in range(SEED, SEED + FILES)]
        for file, path in made:
            path.write_bytes(file.text)
        all_said = read(BUILD, self.tmp, [file.data(path) for file, path in made], 4 * DEADLINE_S)
        for seed, (file, _), said in zip(range(SEED, SEED + FILES), made, all_said):
            encoding = gradwire_model.Encoding(json.loads(said["encoding"]))
            for number, (row, fields) in enumerate(zip(said["rows"], file.fields(), strict=True)):
                theirs = [c.encode(field) for c, field in zip(encoding.inputs, fields)]
                self.assertEqual(row[:-1], theirs, f"seed {seed}, row {number}: {fields}")
            self.assertEqual("arithmetic" in json.loads(said["encoding"]), any(c.how != "none" for c in file.columns))

    def test_train_and_predict_have_pythons_rows_and_values(self):
        files = [self.made(seed, wrong=False, options=OPTIONS) for seed in range(SEED, SEED + 30)]
        train, path = files[0]
        (self.tmp / "job.yaml").write_text(JOB.format(train.data(path)).replace(str(path), str(self.tmp / "*.csv"))
                                           + "training: {epochs: 1, batch_size: 64}\n")
        self.train(job=self.tmp / "job.yaml")
        rows = [row for _, (file, _) in sorted(zip(map(str, range(SEED, SEED + 30)), files), key=lambda f: f[0] + ".csv")
                for row in file.rows()]
        manifest = json.loads((self.out / "model/manifest.json").read_text())
        self.assertEqual(manifest["data"]["rows"], len(rows))
        got = subprocess.run([MODEL, "predict", self.out, *(path for _, path in files), "--keep=c2,c0"], check=True,
                             capture_output=True, timeout=DEADLINE_S).stdout.decode("latin-1")
        kept = [(row[0], row[1]) for row in csv.reader(io.StringIO(got, newline=""))][1:]
        self.assertEqual(kept, [(row[2], row[0]) for file, _ in files for row in file.rows()])


if __name__ == "__main__":
    unittest.main()
