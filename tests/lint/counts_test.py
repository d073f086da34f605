#!/usr/bin/env python3
"""Each rule of counts.py finds what it counts, and a number that rose is an error."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import counts  # noqa: E402

LONG = "\n" * counts.SHORT_LINES


class CountsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.addCleanup(self.root.cleanup)
        self.write("common/a.h", "/* a */\nint a_near(void);\nint a_far(void);\n")
        self.write("common/a.c", '#include "common/a.h"\nstatic int look_at(void)\n{\n}\nint a_near(void)\n{\n}\nint a_far(void)\n{\n}\n')
        self.write("common/b.c", '/* b */\n#include "common/a.h"\nstatic int look_at(void)\n{\n    a_near();\n}\n' + LONG)
        self.write("ps/c.c", '/* c */\nstatic int look_at(void)\n{\n    a_far(told_of, "out of memory for the told");\n}\n' + LONG)
        self.write("data/d.c", "/* d */\nstatic int take_room(struct table *t)\n{\n}\n" + LONG)

    def write(self, path, text):
        path = os.path.join(self.root.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_each_rule_finds_what_it_counts(self):
        self.assertEqual(counts.Sources(self.root.name).all(), {
            "short_files": ["common/a.c", "common/a.h"],
            "single_use": ["common/a.h"],
            "near_functions": ["common/a.c: a_near"],
            "bare_statics": ["look_at: common/a.c common/b.c ps/c.c"],
            "no_opening": ["common/a.c"],
            "memory_texts": ['ps/c.c: "out of memory'],
            "told": ["ps/c.c: told_of"],
            "room": ["data/d.c: take_room"],
            "look": ["common/a.c: look_at", "common/b.c: look_at", "ps/c.c: look_at"],
            "table_of_rows": ["data/d.c: table"],
            "take_functions": ["data/d.c: take_room"]})

    def test_a_number_that_rose_or_fell_is_an_error_and_only_a_lower_one_is_written(self):
        now = {"told": ["a", "b"]}
        self.assertEqual(counts.check(now, {"told": 2}), [])
        self.assertIn("told may be at most 1, and is 2", counts.check(now, {"told": 1})[0])
        self.assertIn("told fell from 3 to 2", counts.check(now, {"told": 3})[0])
        self.assertIn("larger than before", counts.write(self.root.name, now, {"told": 1})[0])


if __name__ == "__main__":
    unittest.main()
