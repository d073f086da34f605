"""A test of exported fixtures with a real package, in the virtual environment of `./gradwire test interop`."""
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import accepted  # noqa: E402
import fixtures  # noqa: E402

TOLERANCE = 1e-5


def main():
    """Run the tests of this file with the environment's Python."""
    python = os.environ.get("GRADWIRE_INTEROP_PYTHON")
    if not python:
        print("skipped: GRADWIRE_INTEROP_PYTHON names no Python with the packages; ./gradwire test interop makes one")
        return
    if os.path.abspath(python) != os.path.abspath(sys.executable):
        os.execv(python, [python, *sys.argv])
    unittest.main()


def arrays(made, wanted):
    """NumPy arrays for these inputs of an exported model: {name: shape without the rows}."""
    import numpy as np

    given, out = made.inputs(), {}
    for name, shape in wanted.items():
        kind, values = given.get(name, ("vectors", None))
        if kind == "vectors":
            value = np.array(made.floats(name), np.float32).reshape(made.rows, *shape)
        elif kind == "raw":
            value = np.frombuffer(values, np.uint8).astype(np.float32).reshape(made.rows, *shape)
        elif kind == "double":
            value = np.array(values, np.float64)
        elif kind == "word":
            value = np.array(values, object)
        elif kind == "key":
            value = np.array(values, np.uint64).view(np.int64)
        else:
            value = np.array(values, np.float32)
        out[name] = value
    return out


def encoded(made, *flags):
    """The arrays that `gradwire encode` makes of the file of rows: what goes into the exported model."""
    import numpy as np

    file = "eval_x.npy" if isinstance(made.source, fixtures.Images) else "eval.txt"
    subprocess.run([fixtures.BUILD / "model" / "model", "encode", made.path, made.path / file, "--output", made.path / "rows.npz",
                    *flags], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return np.load(made.path / "rows.npz")


class ExportCase(unittest.TestCase):
    """FORMAT: a format of accepted.FORMS. predict(path, made) returns the output of a row after the other."""

    FORMAT = ""

    def check(self, name):
        import numpy as np

        with fixtures.made(name) as made:
            for form in accepted.forms_of(made, self.FORMAT):
                with self.subTest(fixture=name, form=form):
                    path, _ = accepted.export(made, form)
                    ours = np.array(made.scores, np.float32)
                    theirs = np.asarray(self.predict(path, made), np.float32).reshape(-1)
                    self.assertEqual(theirs.shape, ours.shape)
                    off = np.abs(theirs - ours)
                    self.assertLessEqual(float(np.where(np.isnan(off), 9, off).max()), TOLERANCE)
                    self.compare(accepted.keys_of(made, form, path))

    def check_required(self, name):
        """Rows that lack the number are those that `predict` refuses: their output is NaN, and that of others is ours."""
        import numpy as np

        with fixtures.made("required") as made:
            path, _ = accepted.export(made, self.FORMAT)
            given = made.inputs()
            kind, values = given[name]
            lacks = np.arange(len(values)) % 2 == 1
            made.inputs = lambda: {**given, name: (kind, np.where(lacks, np.nan, values))}
            theirs = np.asarray(self.predict(path, made)).reshape(-1)
            self.assertEqual(np.isnan(theirs).tolist(), lacks.tolist(), name)
            self.assertLessEqual(np.abs(theirs - np.array(made.scores))[~lacks].max(), TOLERANCE, name)

    def compare(self, found):
        """The package accepts these bytes. CI, which has no packages, compares with those in accepted.txt."""
        if os.environ.get("GRADWIRE_ACCEPT"):
            accepted.accept(found)
        known = accepted.load()
        for key, digest in found.items():
            self.assertEqual(digest, known.get(key),
                             f"{key}: the bytes have changed. They are right: note them with GRADWIRE_ACCEPT=1")


def each_fixture(case):
    """Add a test for each fixture to a class."""
    for name in fixtures.FIXTURES:
        def test(self, name=name):
            self.check(name)
        setattr(case, f"test_{name.replace('-', '_')}_gives_our_predictions", test)
    return case
