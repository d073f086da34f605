#!/usr/bin/env python3
"""Numbers of generated csv files: what training makes of them is numpy's float64 arithmetic, rounded to float32 at its end.

GRADWIRE_CSV_FILES=N: how many files"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

import case

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from csv_files import read  # noqa: E402
from number_files import NumberFile  # noqa: E402

FILES, DEADLINE_S = int(os.environ.get("GRADWIRE_CSV_FILES", "2000")), 600
BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
MANTISSA = 2.0**-52


def features(x):
    """As float32, in which gradwire counts denormals as 0."""
    import numpy as np

    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def encoded(column, x, o):
    """The features of the numbers x, NaN: missing, by an entry of encoding.json."""
    import numpy as np

    missing = np.isnan(x)
    x = np.where(missing, np.nan if o["missing"] is None else o["missing"], x)
    if "borders" in o:
        return np.where(np.isnan(x), 0, np.searchsorted(o["borders"], x, side="right") + 1)
    if "log_squared" in o:
        step = np.where(x > 2, 3 + np.floor(np.log(np.maximum(x, 1)) ** 2), np.trunc(np.maximum(x, -64)))
        return np.where(np.isnan(x), 0, np.clip(step - o["log_squared"], 0, o["count"] - 1) + 1)
    if column.how == "log1p":
        return features(np.log1p(np.maximum(x, 0)))
    if column.how == "log2":
        return features(np.log2(np.maximum(x, 1)))
    return features((x - o["shift"]) / o["divisor"])


class NumbersTest(unittest.TestCase):
    def learned(self, column, x, o, where):
        """Means, ranges and borders of training are numpy's; sums may differ by their order."""
        import numpy as np

        there = x[~np.isnan(x)]
        order = len(there) * MANTISSA * np.abs(there).max()
        if column.how in ("standard", "min_max", "log1p", "log2", "none") and column.missing == "mean":
            self.assertAlmostEqual(o["missing"], there.mean(), delta=order, msg=where)
        elif column.missing not in ("mean", "refuse"):
            fill = float(column.missing)
            self.assertEqual(o["missing"], float(np.float32(fill)) if column.how == "none" else fill, where)
        if column.how == "standard":
            self.assertAlmostEqual(o["shift"], there.mean(), delta=order, msg=where)
            if o["divisor"] != 1:
                self.assertAlmostEqual(o["divisor"] ** 2, there.var(), delta=1e-9 * there.var() + 4 * order**2, msg=where)
        if column.how == "min_max":
            self.assertEqual((o["shift"], o["divisor"]), (there.min(), np.ptp(there) or 1), where)
        if column.how == "borders":
            self.assertEqual(o["borders"], [float(b) for b in column.borders], where)
        if column.how == "quantiles":
            ranks = [-(-i * len(there) // column.quantiles) - 1 for i in range(1, column.quantiles)]
            self.assertEqual(o["borders"], np.unique(np.sort(there)[ranks]).tolist(), where)

    def test_features_are_those_of_numpy(self):
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            folder, made = pathlib.Path(folder), []
            for seed in range(1, FILES + 1):
                made.append((NumberFile(seed), folder / f"{seed}.csv"))
                made[-1][1].write_bytes(made[-1][0].text)
            all_said = read(BUILD, folder, [file.data(path) for file, path in made], DEADLINE_S)
        for (file, path), said in zip(made, all_said, strict=True):
            self.assertIn("encoding", said, f"{path.name}: {said}")
            rows = np.array([row[:-1] for row in said["rows"]])
            for i, (column, of) in enumerate(zip(file.columns, json.loads(said["encoding"])["columns"])):
                where = f"{path.name}, column {i}: {column.line()}"
                x = np.array([float(text) if text else np.nan for text in column.texts])
                if column.how == "none":
                    x = x.astype(np.float32).astype(np.float64)
                o = of.get("number") or of["buckets"]
                self.learned(column, x, o, where)
                np.testing.assert_array_equal(rows[:, i], encoded(column, x, o), where)


if __name__ == "__main__":
    case.main()
