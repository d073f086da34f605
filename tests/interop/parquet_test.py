#!/usr/bin/env python3
"""Parquet files by pyarrow, Polars and DuckDB, in each codec and encoding that they write: `encode` makes the same arrays of them as of
the csv with the same rows. Needs the module: ./gradwire setup arrow."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/interop"), str(ROOT / "tests/data/parquet")]
import case  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
JOB = """model:
  input: {shape: auto}
  layers:
    - linear: {inputs: [id, user, town, day, at, flag, words], name: l}
    - dense: {inputs: [age, big, price, code], units: 1, name: d}
    - add: [l, d]
    - sigmoid
  loss: binary_crossentropy
optimizer: sgd
training: {batch_size: 32, epochs: 1}
data:
  format: csv
  header: names
  train: rows.csv
  columns: [label: y, number: age, number: big, number: price, category: code, key: id, key: user, key: town, key: day, key: at, key: flag,
    keys: {name: words, separator: "|", max_values: 3, missing: empty}, weight: w]
"""


@unittest.skipUnless((BUILD / "arrow/gradwire-arrow.so").exists(), "gradwire-arrow is not built: ./gradwire setup arrow")
class ParquetTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import make
        import pyarrow as pa
        import random

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        r = random.Random(1)
        rows = [make.row(r) for _ in range(5000)]
        cls.table = make.table(rows, 0).drop_columns(["nested"])
        assert isinstance(cls.table, pa.Table)
        (cls.folder / "rows.csv").write_text("\n".join(
            [",".join(make.TYPES)] + [",".join(make.text(name, row[name]) for name in make.TYPES) for row in rows]) + "\n")
        (cls.folder / "job.yaml").write_text(JOB)
        cls.run_on(BUILD / "launch/launch", "train", cls.folder / "job.yaml", f"--output={cls.folder}/out", "--ps=1", "--workers=1")
        cls.run_on(BUILD / "model/model", "encode", cls.folder / "out", cls.folder / "rows.csv", f"--output={cls.folder}/csv.npz")
        cls.want = (cls.folder / "csv.npz").read_bytes()

    @classmethod
    def run_on(cls, *command):
        subprocess.run([str(each) for each in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)

    def check(self, path):
        # a model that csv has taught reads Parquet, too
        out = self.folder / "parquet.npz"
        self.run_on(BUILD / "model/model", "encode", self.folder / "out", path, f"--output={out}", "--set=data.format=parquet",
                    "--set=data.header=none")
        self.assertEqual(out.read_bytes() == self.want, True, "other arrays than of csv")

    def write(self, **options):
        import pyarrow.parquet as pq

        path = self.folder / "rows.parquet"
        pq.write_table(self.table, path, **{"row_group_size": 1800, **options})
        self.check(path)

    def test_each_codec_of_pyarrow(self):
        for codec in CODECS:
            for pages in ("1.0", "2.0"):
                for words in (True, False):
                    with self.subTest(codec=codec, pages=pages, dictionary=words):
                        self.write(compression=codec, data_page_version=pages, use_dictionary=words)

    def test_each_encoding_of_pyarrow(self):
        integers = ("y", "count", "big", "id", "user")
        for encodings in ({n: "PLAIN" for n in self.table.column_names if n not in ("tags", "words")},
                          {n: "DELTA_BINARY_PACKED" for n in integers}, {"town": "DELTA_LENGTH_BYTE_ARRAY"},
                          {"town": "DELTA_BYTE_ARRAY"}, {"age": "BYTE_STREAM_SPLIT", "w": "BYTE_STREAM_SPLIT"}, {"flag": "RLE"}):
            with self.subTest(encodings=encodings):
                self.write(use_dictionary=False, column_encoding=encodings, data_page_version="2.0")

    def test_other_ways_of_pyarrow(self):
        for options in ({"version": "1.0"}, {"version": "2.4"}, {"store_schema": False}, {"write_page_index": True},
                        {"write_page_checksum": True}, {"row_group_size": 1}, {"row_group_size": 100000}, {"data_page_size": 100},
                        {"store_decimal_as_integer": True}, {"use_compliant_nested_type": False}, {"write_statistics": False}):
            with self.subTest(**options):
                self.write(**options)

    def test_polars(self):
        import polars

        table = polars.from_arrow(self.table)
        path = self.folder / "polars.parquet"
        for codec in ("uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd"):
            with self.subTest(codec=codec):
                table.write_parquet(path, compression=codec, row_group_size=1500)
                self.check(path)

    def test_duckdb(self):
        import duckdb

        rows, path = self.table, self.folder / "duckdb.parquet"
        assert rows.num_rows
        for codec in ("uncompressed", "snappy", "gzip", "brotli", "lz4_raw", "zstd"):
            for version in ("v1", "v2"):
                with self.subTest(codec=codec, version=version):
                    duckdb.sql(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}, "
                               "ROW_GROUP_SIZE 2048)")
                    self.check(path)


if __name__ == "__main__":
    case.main()
