#!/usr/bin/env python3
"""Each command of the user's pages runs as it is written there, in order, and prints what the page shows: README.md, docs/guides,
docs/reference, examples, k8s/README.md. tests/lib/pages.py says which block of a page is what; pages_not_run.txt lists the commands
that are not run here. The scores that two guides compute in Python equal gradwire's own evaluation."""
import csv
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import pages  # noqa: E402
from cluster import DEADLINE_S, TSAN  # noqa: E402
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
        self.wild_numbers()
        self.open_quote()
        self.wrong_header()
        self.class_of_several_names(rows, accuracy)

    def wild_numbers(self):
        """The guide's program refuses what training refuses as a number, with the line."""
        head, row = (self.tmp / "eval.csv").read_text().splitlines()[:2]
        at = head.split(",").index("spend")
        for name, texts in (("tame", [" 42 ", "+7", "1e3", ".5", "-3.4028235e38"]), ("wild", ["1e39", "-1e309", "inf", "nan", "1_000", "٣"])):
            for i, text in enumerate(texts):
                fields = row.split(",")
                fields[at] = text
                (self.tmp / f"{name}{i}.csv").write_text("\n".join([head, row, ",".join(fields)]) + "\n")
        code, _, both = self.shell.run("for f in tame*.csv; do python3 score.py run/model $f tame.txt; done >/dev/null && "
                                       "for f in wild*.csv; do ! python3 score.py run/model $f wild.txt; done", DEADLINE_S)
        self.assertEqual(code, 0, both)
        for i, text in enumerate(texts):
            self.assertIn(f"wild{i}.csv:3: column spend: \"{text}\" is not a number that float32 holds", both)

    def wrong_header(self):
        """A column that is there twice, or not at all, has no value that is the right one."""
        head, row = (self.tmp / "eval.csv").read_text().splitlines()[:2]
        (self.tmp / "twice.csv").write_text(f"{head},spend\n{row},1\n")
        (self.tmp / "lacks.csv").write_text(f"{head.replace('spend', 'spent')}\n{row}\n")
        for name in ("twice.csv", "lacks.csv"):
            code, _, both = self.shell.run(f"python3 score.py run/model {name} header.txt", DEADLINE_S)
            self.assertEqual(code, 1, both)
            self.assertIn(f"{name}:1: its header must name each column once: ", both)

    def open_quote(self):
        """The lines that a quote swallows are not left out."""
        head, row = (self.tmp / "eval.csv").read_text().splitlines()[:2]
        fields, _, answer = row.rpartition(",")
        (self.tmp / "open.csv").write_text("\n".join([head, row, f'{fields},"{answer}', row, row]) + "\n")
        code, _, both = self.shell.run("python3 score.py run/model open.csv open.txt", DEADLINE_S)
        self.assertEqual(code, 1, both)
        self.assertIn("open.csv: the row from line 3 on: unexpected end of data", both)

    def class_of_several_names(self, rows, accuracy):
        encoding = json.loads((self.tmp / "run/model/encoding.json").read_text())
        (label,) = (c for c in encoding["columns"] if c["kind"] == "label")
        label["classes"] = ["no|n", "yes|y|y\\|es"]
        (self.tmp / "named").mkdir()
        (self.tmp / "named/encoding.json").write_text(json.dumps(encoding))
        (self.tmp / "named/weights.safetensors").symlink_to(self.tmp / "run/model/weights.safetensors")
        text = (self.tmp / "eval.csv").read_text()
        (self.tmp / "named.csv").write_text(re.sub(",no$", ",n", re.sub(",yes$", ",y|es", text, flags=re.M), flags=re.M))
        code, said, both = self.shell.run("python3 score.py named named.csv named.txt", DEADLINE_S)
        self.assertEqual(code, 0, both)
        self.assertTrue(said.startswith(f"{rows} rows, accuracy {accuracy}\n"), said)

    def predict_c(self):
        labels = [line.rsplit(",", 1)[1] == "yes" for line in (self.tmp / "eval.csv").read_text().splitlines()[1:]]
        scores = [float(score) > 0.5 for score in (self.tmp / "scores-c.txt").read_text().split()]
        self.assertEqual(len(scores), len(labels))
        self.assertAlmostEqual(sum(map(bool.__eq__, scores, labels)) / len(labels), self.evaluated()["accuracy"], delta=1e-5)
        self.quoted_csv()

    def quoted_csv(self):
        """The guide's program reads quotes, and columns in another order, as `predict` does; a field too many or too few ends it."""
        names, notes = ["note", "spend", "age", "a, b", "country", "visits", "plan"], ['12" pipe', "a, b", 'say "so"', "two\nlines", ""]
        rows = list(csv.DictReader((self.tmp / "eval.csv").read_text().splitlines()))
        with open(self.tmp / "quoted.csv", "w", newline="") as out:
            writers = csv.writer(out), csv.writer(out, quoting=csv.QUOTE_ALL)
            writers[0].writerow(names)
            for i, row in enumerate(rows):
                row.update(plan="basic, EU" if i % 7 == 0 else row["plan"])
                writers[i % 2].writerow([{**row, "note": notes[i % 5], "a, b": ","}[name] for name in names])
        (self.tmp / "many.csv").write_text("spend,age,country,visits,plan\n1,2,DE,5,basic\n1,2,DE,5,ba,sic\n")
        (self.tmp / "few.csv").write_text("spend,age,country,visits,plan\n1,2,DE,5\n")
        code, said, both = self.shell.run("./gradwire predict run quoted.csv --output theirs.csv 2>/dev/null; "
                                          "./score run/model quoted.csv > ours.txt; for f in many few; do ! ./score run/model $f.csv; done",
                                          DEADLINE_S)
        self.assertEqual(code, 0, both)
        ours = [float(score) for score in (self.tmp / "ours.txt").read_text().split()]
        with open(self.tmp / "theirs.csv", newline="") as file:
            theirs = [float(row["score"]) for row in csv.DictReader(file)]
        self.assertEqual(len(ours), len(rows))
        self.assertLess(max(abs(a - b) for a, b in zip(ours, theirs, strict=True)), 1e-6)
        self.assertIn("many.csv:3: it has 6 fields, its header has 5", both)
        self.assertIn("few.csv:2: it has 4 fields, its header has 5", both)

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
