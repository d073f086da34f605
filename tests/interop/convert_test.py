#!/usr/bin/env python3
"""The files that `convert` writes have the values of the csv for pyarrow, Polars and DuckDB; and the Parquet that the programs of
docs/guides/parquet.md write teaches what the csv does. Needs the module: ./gradwire setup arrow."""
import csv
import importlib.util
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))
import case  # noqa: E402,F401

BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
PAGE = ROOT / "docs/guides/parquet.md"
JOB = """model: {input: {shape: auto}, layers: [{linear: {inputs: [user], name: l}}, {dense: {inputs: [age], units: 1, name: d}},
  {add: [l, d]}, sigmoid], loss: binary_crossentropy}
optimizer: adam
training: {batch_size: 32, epochs: 2}
data: {format: csv, header: names, train: log.csv, columns: [label: click, number: {name: age, scale: standard}, key: user]}
"""


@unittest.skipUnless((BUILD / "arrow/gradwire-arrow.so").exists(), "gradwire-arrow is not built: ./gradwire setup arrow")
class ConvertTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)

    def run_on(self, *command):
        return subprocess.run([str(each) for each in command], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300, cwd=self.tmp).stdout

    def write(self, name, rows, head):
        with open(self.tmp / name, "w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([head, *rows])

    def test_values_are_those_of_the_csv_in_all_programs(self):
        import duckdb
        import polars
        import pyarrow.dataset

        r = random.Random(2)
        words = ["Rome", "", "a,b", 'say "hi"', "007", "Łódź\N{SNOWMAN}", "two\nlines", " x ", "NA"]
        rows = [[r.choice([0, 1, -5, "", 2 ** 52]), r.choice([r.random(), r.gauss(0, 1e30), "", 7, 1e-300]), r.choice(words)]
                for _ in range(20000)]
        self.write("a.csv", rows, ["n", "x", "word"])
        for flags in ([], ["--compression=snappy", "--window=16"]):
            self.run_on(BUILD / "model/model", "convert", "a.csv", f"--output={self.tmp}/out{len(flags)}", *flags)
            out = self.tmp / f"out{len(flags)}"
            want = [tuple(None if value == "" else kind(value) for kind, value in zip((int, float, str), row)) for row in rows]
            self.assertEqual([tuple(row.values()) for row in pyarrow.dataset.dataset(out).to_table().to_pylist()], want)
            self.assertEqual(polars.read_parquet(out / "*.parquet").rows(), want)
            self.assertEqual(duckdb.sql(f"from '{out}/*.parquet'").fetchall(), want)

    def digest(self, out, *sets):
        self.run_on(BUILD / "launch/launch", "train", "job.yaml", f"--output={self.tmp / out}", "--ps=1", "--workers=1", *sets)
        return re.search(r'"digest": "(\w+)"', (self.tmp / out / "summary.json").read_text())[1]

    def test_the_programs_of_the_page_write_what_teaches_the_same(self):
        r = random.Random(4)
        rows = [[i % 3 % 2, r.choice(["", 0.1, 33, 2.5e-3, i]), r.choice(["007", "7", "", "a b", "1e5", "x,y"])] for i in range(3000)]
        self.write("log.csv", rows, ["click", "age", "user"])
        (self.tmp / "job.yaml").write_text(JOB)
        want = self.digest("csv")
        blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
        self.assertGreaterEqual(len(blocks), 3)
        for i, block in enumerate(blocks):
            with self.subTest(block=block):
                if not importlib.util.find_spec(block.split()[1].split(".")[0]):
                    continue  # Spark and Ray are large, and not among the packages of this group
                self.run_on(sys.executable, "-c", block)
                out = self.tmp / "log.parquet"
                self.assertEqual(self.digest(f"parquet{i}", "--set=data.format=parquet", "--set=data.header=none",
                                             f"--set=data.train={out}"), want)
                self.run_on("rm", "-r", out)


if __name__ == "__main__":
    unittest.main()
