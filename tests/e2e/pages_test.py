#!/usr/bin/env python3
"""Each command of the user's pages runs as it is written there, in order, and prints what the page shows: README.md, docs/guides,
docs/reference, examples, k8s/README.md. tests/lib/pages.py says which block of a page is what; pages_not_run.txt lists the commands
that are not run here. The scores that two guides compute in Python equal gradwire's own evaluation."""
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import pages  # noqa: E402
from cluster import TSAN  # noqa: E402
from page_case import PageCase, each_page  # noqa: E402

CLICKS, CSV, PREDICT, NUMBER, PREDICT_C = (f"docs/guides/{name}.md" for name in (
    "clicks", "your-own-csv", "predict-csv", "predict-a-number", "predict-c"))


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class PagesTest(PageCase):
    def follow(self, page):
        super().follow(page)
        {CLICKS: self.clicks, PREDICT: self.predict, NUMBER: self.number, PREDICT_C: self.predict_c}.get(page, list)()

    def scored(self):
        """The output of the last command that scores."""
        return [output for block, output in self.outputs if re.search(r"^python3 score", block.text, re.M)][-1]

    def evaluated(self, output="run"):
        return json.loads((self.tmp / output / "summary.json").read_text())["eval"]

    def scores(self):
        return len((self.tmp / "scores.txt").read_text().split())

    def clicks(self):
        rows, logloss, auc = re.fullmatch(r"(\d+) rows, logloss (\S+), auc (\S+)\n", self.scored()).groups()
        self.assertAlmostEqual(float(logloss), self.evaluated()["logloss"], delta=1e-5)
        self.assertAlmostEqual(float(auc), self.evaluated()["auc"], delta=1e-5)
        self.assertEqual(len((self.tmp / "scores.csv").read_text().splitlines()) - 1, int(rows))

    def predict(self):
        rows, accuracy = re.match(r"(\d+) rows, accuracy (\S+)\n", self.scored()).groups()
        self.assertAlmostEqual(float(accuracy), self.evaluated()["accuracy"], delta=1e-5)
        self.assertEqual(self.scores(), int(rows))

    def predict_c(self):
        labels = [line.rsplit(",", 1)[1] == "yes" for line in (self.tmp / "eval.csv").read_text().splitlines()[1:]]
        scores = [float(score) > 0.5 for score in (self.tmp / "scores-c.txt").read_text().split()]
        self.assertEqual(len(scores), len(labels))
        self.assertAlmostEqual(sum(map(bool.__eq__, scores, labels)) / len(labels), self.evaluated()["accuracy"], delta=1e-5)

    def number(self):
        error = re.fullmatch(r"\d+ rows, mean absolute error (\S+)\n", self.scored())[1]
        self.assertAlmostEqual(float(error), self.evaluated("prices")["mean_absolute_error"], delta=1e-5)


class FormTest(unittest.TestCase):
    def test_the_job_file_of_the_readme_is_the_one_of_the_csv_guide(self):
        def files(page, language):
            return [block.text for block in pages.split((pages.ROOT / page).read_text())[0] if block.language == language]
        (job,) = files("README.md", "yaml")
        self.assertEqual(job, files(CSV, "yaml")[0])


each_page(PagesTest)

if __name__ == "__main__":
    unittest.main()
