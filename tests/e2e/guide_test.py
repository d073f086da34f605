#!/usr/bin/env python3
"""docs/guides/clicks.md and docs/guides/your-own-csv.md: the files of a guide are written and its commands run as they stand there, in
their order, and say what it shows; its scores in Python are those of gradwire's own evaluation. README.md shows the job file
of guide-csv.md."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, LAUNCH, ROOT, TSAN, WORKER, Case  # noqa: E402

CLICKS, CSV, LOAD = ROOT / "docs/guides/clicks.md", ROOT / "docs/guides/your-own-csv.md", ROOT / "docs/guides/load-model.md"
PACKAGES = "numpy", "safetensors", "keras", "jax"  # of commands that say so: # needs NAME and NAME
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}  # python3 is ours
NUMBER = re.compile(r"\d+\.\d+")
VARIES = re.compile(r"\b[0-9a-f]{64}\b|\d+(\.\d+)?")  # digests, times, rates, memory: in a block of the kind "console"
NEAR = 0.02  # a processor with other vectors rounds otherwise

# What ./gradwire does when all is built.
FRONT_DOOR = f"""#!/bin/sh
set -e
case $1 in
train | status | stop) exec {LAUNCH} "$@" ;;
doctor) job=$2; shift 2; exec {WORKER} --doctor --job="$job" "$@" ;;
*) echo "the test knows no $1" >&2; exit 2 ;;
esac
"""

# The package's function, by the library that gradwire is linked with.
XXHASH = """import ctypes
library = ctypes.CDLL("libxxhash.so.0")
library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
library.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def xxh3_64_intdigest(data, seed=0):
    return library.XXH3_64bits_withSeed(data, len(data), seed)
"""


def blocks(page):
    """(language, file or "", text) of each fenced block."""
    return re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class GuideTest(Case):
    def setUp(self):
        super().setUp()
        self.left_out = []
        (self.tmp / "gradwire").write_text(FRONT_DOOR)
        if not importlib.util.find_spec("xxhash"):
            (self.tmp / "xxhash.py").write_text(XXHASH)

    def shell(self, text):
        got = subprocess.run(["bash", "-euo", "pipefail", "-c", text.replace("./gradwire", "sh ./gradwire")], cwd=self.tmp,
                             capture_output=True, text=True, timeout=DEADLINE_S, env=ENVIRONMENT)
        self.assertEqual(got.returncode, 0, f"{text}{got.stdout}{got.stderr}")
        return got.stdout

    def assert_shown(self, said, shown):
        """The same, but for numbers with a fraction, which are near."""
        self.assertEqual(NUMBER.sub("#", said), NUMBER.sub("#", shown))
        for a, b in zip(NUMBER.findall(said), NUMBER.findall(shown)):
            self.assertLess(abs(float(a) - float(b)), NEAR, f"the guide shows:\n{shown}and it is:\n{said}")

    def lacks(self, command):
        """Of the packages that it says it needs, the first that this Python has not."""
        needs = "".join(re.findall("# needs (.*)", command))
        return next((name for name in PACKAGES if name in needs and not importlib.util.find_spec(name)), None)

    def follow(self, guide):
        """The output of each command that scores. Files are written, commands run, and what is shown is compared. Names of
        packages that are not here, and whose commands were left out, are added to self.left_out."""
        said, scored, ran = "", [], 0
        for language, file, text in blocks(guide.read_text()):
            if file:
                (self.tmp / file).write_text(text)
            elif language == "sh" and (name := self.lacks(text)):
                self.left_out.append(name)
                said = None
            elif said is None and language != "sh":
                pass
            elif language == "sh":
                said, ran = self.shell(text), ran + 1
                scored += [said] if "2>&1" in text else []
            elif language == "console":
                self.assertEqual(VARIES.sub("#", said), VARIES.sub("#", text))
            else:
                self.assertEqual(language, "text")
                self.assert_shown(said, text)
        self.assertGreater(ran, 6 if guide != LOAD else 0)
        return scored

    def evaluated(self, output="run"):
        return json.loads((self.tmp / output / "summary.json").read_text())["eval"]

    def scores(self):
        return len((self.tmp / "scores.txt").read_text().split())

    def test_each_command_of_the_clicks_guide_runs_and_says_what_the_guide_shows(self):
        (said,) = self.follow(CLICKS)
        rows, logloss, auc = re.fullmatch(r"(\d+) rows, logloss (\S+), auc (\S+)\n", said).groups()
        self.assertAlmostEqual(float(logloss), self.evaluated()["logloss"], delta=1e-5)
        self.assertAlmostEqual(float(auc), self.evaluated()["auc"], delta=1e-5)
        self.assertEqual(self.scores(), int(rows))

    def test_each_command_of_the_csv_guide_runs_and_says_what_the_guide_shows(self):
        classes, number = self.follow(CSV)
        rows, accuracy = re.match(r"(\d+) rows, accuracy (\S+)\n", classes).groups()
        self.assertAlmostEqual(float(accuracy), self.evaluated()["accuracy"], delta=1e-5)
        error = re.fullmatch(r"\d+ rows, mean absolute error (\S+)\n", number)[1]
        self.assertAlmostEqual(float(error), self.evaluated("prices")["mean_absolute_error"], delta=1e-5)
        self.assertEqual(self.scores(), int(rows))

    def test_each_command_of_the_page_on_loading_runs_and_says_what_the_page_shows(self):
        self.follow(LOAD)
        if self.left_out:
            self.skipTest(f"this Python has no {' and no '.join(dict.fromkeys(self.left_out))}: the commands that need it were left out")

    def test_the_job_file_of_the_readme_is_the_one_of_the_csv_guide(self):
        (job,) = [text for language, _, text in blocks((ROOT / "README.md").read_text()) if language == "yaml"]
        self.assertEqual(job, {file: text for _, file, text in blocks(CSV.read_text())}["customers.yaml"])


if __name__ == "__main__":
    unittest.main()
