"""The side of other readers of gradwire bench csv: one thread reads a file, once to warm up and once to measure its processor's time. Runs in a Python
that has the package; not a part of gradwire. The keys of clicks stay text: no other reader hashes them.

text_side.py pyarrow|polars|duckdb|sklearn FILE
"""
import json
import os
import sys
import time

NAMES = ["y", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]


def pyarrow(path):
    import pyarrow as pa
    from pyarrow import csv
    types = {name: pa.string() if name[0] == "C" else pa.float64() for name in NAMES}
    return lambda: csv.read_csv(path, read_options=csv.ReadOptions(column_names=NAMES, use_threads=False),
                                convert_options=csv.ConvertOptions(column_types=types)).num_rows


def polars(path):
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl
    types = [pl.String if name[0] == "C" else pl.Float64 for name in NAMES]
    return lambda: pl.read_csv(path, has_header=False, new_columns=NAMES, schema_overrides=types).height


def duckdb(path):
    import duckdb as db
    at = db.connect()
    at.execute("set threads = 1")
    types = ", ".join(f"'{name}': '{'VARCHAR' if name[0] == 'C' else 'DOUBLE'}'" for name in NAMES)
    read = f"read_csv('{path}', header = false, auto_detect = false, delim = ',', quote = '\"', columns = {{{types}}})"
    return lambda: at.execute(f"create or replace table t as select * from {read}").fetchone()[0]


def sklearn(path):
    from sklearn.datasets import load_svmlight_file
    return lambda: load_svmlight_file(path)[0].shape[0]


def main(name, path):
    read = {"pyarrow": pyarrow, "polars": polars, "duckdb": duckdb, "sklearn": sklearn}[name](path)
    rows = read()
    began = time.process_time()
    valid = read() == rows
    print(json.dumps({"gb_per_s": os.path.getsize(path) / (time.process_time() - began) / 1e9, "rows": rows, "valid": valid}))


if __name__ == "__main__":
    main(*sys.argv[1:])
