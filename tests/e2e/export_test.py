#!/usr/bin/env python3
"""Exports of models whose weights come from a seed have the bytes that the real packages accepted (tests/interop), on every
machine and at every SIMD level."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import accepted  # noqa: E402
import fixtures  # noqa: E402


class ExportTest(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        known = {key: digest for key, digest in accepted.load().items() if key.split(" ")[0] == name}
        found = {}
        images = isinstance(fixtures.FIXTURES[name](), fixtures.Images)
        with fixtures.made(name, rows=2 if images else fixtures.EVAL_ROWS) as made:  # tables have rows for keys of eval
            for form in {key.split(" ")[1].split("/")[0] for key in known}:
                path, _ = accepted.export(made, form)
                found.update(accepted.keys_of(made, form, path))
        self.assertTrue(known)
        self.assertEqual(found, known)


for fixture in fixtures.FIXTURES:
    def test(self, name=fixture):
        self.check(name)
    setattr(ExportTest, f"test_{fixture.replace('-', '_')}_has_the_bytes_that_other_programs_accepted", test)


if __name__ == "__main__":
    unittest.main()
