#!/usr/bin/env python3
"""Writes the Parquet files of this folder, by pyarrow, and rows.csv with the same rows. 26.0.1 has written those that are here."""
import csv
import datetime
import decimal
import math
import pathlib
import random

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
ROWS, GROUP = 60, 25
# name: the type in rows-0.parquet, and in rows-1.parquet
TYPES = {"y": (pa.int8(), pa.int64()), "age": (pa.float64(), pa.float64()), "count": (pa.int32(), pa.int64()),
         "big": (pa.int64(), pa.int64()), "id": (pa.uint64(), pa.uint64()), "flag": (pa.bool_(), pa.bool_()),
         "price": (pa.decimal128(9, 2), pa.decimal128(12, 2)), "day": (pa.date32(), pa.date32()),
         "at": (pa.timestamp("us"), pa.timestamp("us")), "zoned": (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "Europe/Rome")),
         "town": (pa.string(), pa.large_string()), "code": (pa.dictionary(pa.int8(), pa.string()), pa.string()),
         "user": (pa.int64(), pa.int64()), "tags": (pa.list_(pa.int64()), pa.large_list(pa.int32())),
         "words": (pa.list_(pa.string()), pa.list_(pa.string())), "w": (pa.float64(), pa.float64())}


def row(r):
    # in the middle of two floats: as digits it is nearer to the upper one
    age = r.choice([None, 3.0, 1.0000000596046448, r.uniform(-50, 90)])
    at = datetime.datetime(2026, 11, 28) + datetime.timedelta(microseconds=r.randrange(-10**14, 10**12))
    return {"y": r.randrange(2), "age": age, "count": r.choice([None, -7, 0, 12, 2**31 - 1]),
            "big": r.choice([None, 2**53 + 1, 9007199791611905, -2**62, r.getrandbits(62)]), "id": r.choice([None, r.getrandbits(64)]),
            "flag": r.choice([None, True, False]), "price": r.choice([None, decimal.Decimal(r.randrange(-99999, 99999)).scaleb(-2)]),
            "day": r.choice([None, at.date()]), "at": r.choice([None, at]), "zoned": r.choice([None, at.replace(microsecond=7000)]),
            "town": r.choice([None, "", "Rome", "Oslo", "Gdańsk", "a longer name of a town"]), "code": r.choice([None, "a", "b"]),
            "user": r.choice([None, r.randrange(-3, 40)]), "tags": r.choice([None, [4], [1, 2], [7, 8, 9]]),
            "words": r.choice([None, ["x"], ["y", "z"], ["x", None, "q"]]), "w": r.choice([0.5, 1.0, 2.0])}


def text(name, v):
    if v is None:
        return ""
    if name == "tags":
        return " ".join(map(str, v))
    if name == "words":
        return "|".join(w or "" for w in v)
    if name in ("at", "zoned"):
        digits = v.strftime("%Y-%m-%d %H:%M:%S.%f")
        return digits if name == "at" else digits[:-3] + "Z"
    return str(int(v)) if name == "flag" else str(v)


def table(rows, which):
    names = list(TYPES) if which == 0 else sorted(TYPES)
    columns = {}
    for name in names:
        kind, values = TYPES[name][which], [r[name] for r in rows]
        columns[name] = pa.array(values, pa.string()).cast(kind) if name == "code" else pa.array(values, kind)
    columns["nested"] = pa.array([{"a": i} for i in range(len(rows))])
    return pa.table(columns)


def main():
    r = random.Random(30)
    parts = [[row(r) for _ in range(ROWS)] for _ in range(2)]
    pq.write_table(table(parts[0], 0), HERE / "rows-0.parquet", row_group_size=GROUP, compression="snappy")
    pq.write_table(table(parts[1], 1), HERE / "rows-1.parquet", row_group_size=GROUP, compression="zstd", data_page_version="2.0")
    pq.write_table(table(parts[0], 0).slice(0, 0), HERE / "empty.parquet")
    pq.write_table(pa.table({**{n: table(parts[0], 0)[n] for n in TYPES}, "user": pa.array([1.5] * ROWS), "words": ["x"] * ROWS}),
                   HERE / "other.parquet", compression="zstd")
    nulls = {n: table(parts[0], 0)[n] if n in ("y", "w") else pa.nulls(ROWS) for n in TYPES}
    pq.write_table(pa.table({**nulls, "words": pa.array([[None]] * ROWS), "nan": [math.nan] * ROWS}), HERE / "nulls.parquet")
    # times of INT96, to the ns; and with one that int64 nanoseconds do not have
    times = [-9223286400000000001, -1, 0, 1700000000123456789, 9223286399999999999, None]
    at = pa.array(times, pa.timestamp("ns"))
    pq.write_table(pa.table({"y": [0, 1] * 3, "at": at}), HERE / "times.parquet", use_deprecated_int96_timestamps=True)
    at = pa.array([datetime.datetime(2024, 6, 1)] * 4 + [datetime.datetime(9999, 12, 31)], pa.timestamp("us"))
    pq.write_table(pa.table({"y": [0, 1, 0, 1, 0], "at": at}), HERE / "far.parquet", row_group_size=3, use_deprecated_int96_timestamps=True)
    ns, ids = (pa.array([1700000000000000000 + i * step for i in range(ROWS)], pa.int64()) for step in (10**9, 1))
    pq.write_table(pa.table({"y": pa.array([0, 1] * (ROWS // 2), pa.int8()), "ns": ns, "id": ids}), HERE / "long.parquet",
                   use_dictionary=False)
    with open(HERE / "rows.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(TYPES)
        for each in parts[0] + parts[1]:
            out.writerow(text(name, each[name]) for name in TYPES)


if __name__ == "__main__":
    main()
