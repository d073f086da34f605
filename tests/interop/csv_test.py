#!/usr/bin/env python3
"""csv as pandas reads it: well-formed files from a seed, in all quotes, escapes, delimiters and line ends, have equal values.

tests/e2e/csv_test.py compares these and malformed ones with Python's csv module. GRADWIRE_CSV_FILES=N: so many."""
import io
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/interop"), str(ROOT / "tests/lib")]
import case  # noqa: E402
from csv_files import File, read  # noqa: E402

FILES, DEADLINE_S = int(os.environ.get("GRADWIRE_CSV_FILES", "2000")), 600
BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))


def rows_of(file):
    import pandas

    how = file.dialect()
    table = pandas.read_csv(io.BytesIO(file.text.removeprefix(b"\xef\xbb\xbf")), header=None, sep=how["delimiter"],
                            quoting=how["quoting"], escapechar=how["escapechar"], dtype=str, na_filter=False, encoding="latin-1")
    return table.values.tolist()[file.header != "none":]


class CsvTest(unittest.TestCase):
    def test_values_are_those_of_pandas(self):
        with tempfile.TemporaryDirectory() as folder:
            folder, made = pathlib.Path(folder), []
            for seed in range(1, FILES + 1):
                made.append((File(seed, wrong=False), folder / f"{seed}.csv"))
                made[-1][1].write_bytes(made[-1][0].text)
            all_said = read(BUILD, folder, [file.data(path) for file, path in made], DEADLINE_S)
            for (file, path), said in zip(made, all_said, strict=True):
                ours = [[bytes.fromhex(word).decode("latin-1") for word in row[:-1]] + [row[-1]] for row in said["rows"]]
                theirs = [[*row[:-1], float(row[-1])] for row in map(file.of_row, rows_of(file))]
                self.assertEqual(ours, theirs, path.name)


if __name__ == "__main__":
    case.main()
