#!/usr/bin/env python3
# timeout: 7200
"""The pages with commands that take more than 30 s, all of their commands: ./gradwire test pages."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import pages  # noqa: E402
from page_case import PageCase, each_page  # noqa: E402


class SlowTest(PageCase):
    SLOW = True


each_page(SlowTest, {entry.page for entry in pages.not_run()[0] if entry.slow})

if __name__ == "__main__":
    unittest.main()
