#!/usr/bin/env python3
"""./gradwire compare: jobs side by side, also those that have not ended; a damaged or foreign directory is an error."""
import fcntl
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, MODEL, TrainCase, slow  # noqa: E402
from tables_best_test import JOB as WIDE_DEEP  # noqa: E402


class CompareTest(TrainCase):
    def compare(self, *dirs, code=0, **options):
        got = subprocess.run([MODEL, "compare", *map(str, dirs)], capture_output=True, text=True, timeout=DEADLINE_S,
                             cwd=self.tmp, **options)
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return got.stdout if code == 0 else got.stderr

    def json(self, *dirs):
        return json.loads(self.compare(*dirs, "--json"))

    def differ(self, *dirs):
        return {one["key"]: one["values"] for one in self.json(*dirs)["differ"]}

    def two(self):
        """Two finished jobs: another layer, another rate."""
        self.train(out=self.tmp / "a", keys={"training.epochs": 2, "worker.threads": 1, "ps.threads": 1})
        self.train(out=self.tmp / "b", keys={"training.epochs": 3, "training.learning_rate": 0.05, "worker.threads": 1, "ps.threads": 1,
                                             "model.layers": "[flatten, dense: {units: 16, activation: tanh, name: hidden}, dense: 10]",
                                             "optimizer": "sgd"})

    def test_the_keys_that_differ_are_named_by_layer_and_choice(self):
        self.two()
        self.assertEqual(self.differ("a", "a"), {})
        self.assertEqual(self.differ("a", "b"), {
            "model.layers[dense].dense.units": [128, 10],
            "model.layers[dense].dense.activation": ["relu", "linear"],
            "model.layers[dropout]": ["dropout", None],
            "model.layers[dense_1]": ["dense", None],
            "model.layers[hidden]": [None, "dense"],
            "optimizer": ["adam", "sgd"],
            "training.epochs": [2, 3],
            "training.learning_rate": [0.001, 0.05]})

    def test_results_data_and_curves_are_those_of_the_jobs_files(self):
        self.two()
        jobs = self.json("a", "b", "a/model")["jobs"]
        for name, job in zip("ab", jobs):
            summary = self.summary(self.tmp / name)
            manifest = json.loads((self.tmp / name / "model/manifest.json").read_text())
            for key in ("status", "steps", "epochs", "digest", "eval", "history", "update"):
                self.assertEqual(job[key], summary[key], key)
            self.assertEqual(job["data"]["fingerprint"], manifest["data"]["fingerprint"])
        self.assertEqual((jobs[2]["digest"], jobs[2]["eval"]["accuracy"], jobs[2]["status"]),
                         (jobs[0]["digest"], jobs[0]["eval"]["accuracy"], "done"))
        text = self.compare("a", "b")
        for line in (r"status +done +done", r"epochs +2 +3", f"digest +{jobs[0]['digest'][:12]} +{jobs[1]['digest'][:12]}",
                     r"3 +- +\d", r"model\.layers\[hidden\] +- +dense", r"training\.learning_rate +0\.001 +0\.05"):
            self.assertRegex(text, rf"(?m)^{line}")

    def test_evaluations_within_epochs_are_no_epochs(self):
        self.train(out=self.tmp / "a", keys={"evaluate.every_steps": 3, "training.epochs": 2})
        self.assertEqual(self.json("a", "a")["jobs"][0]["history"], self.summary(self.tmp / "a")["history"])
        (self.tmp / "a/summary.json").unlink()  # as if the job had not ended
        self.assertEqual([e["epoch"] for e in self.json("a", "a")["jobs"][0]["history"]], [1, 2])

    def test_the_best_epoch_is_shown(self):
        job = self.tmp / "job.yaml"
        job.write_text(WIDE_DEEP)
        self.KEYS = {}
        self.train(job=job)
        (one, _) = self.json(self.out, self.out)["jobs"]
        self.assertLess(one["best"]["epoch"], one["epochs"])
        self.assertAlmostEqual(one["best"]["eval"]["loss"], min(e["eval"]["loss"] for e in one["history"]))
        self.assertRegex(self.compare("out", "out"), r"(?m)^best epoch +(\d+) +\1$")

    def test_a_job_that_runs_or_was_killed_shows_what_it_has(self):
        self.train(out=self.tmp / "a")
        job = self.launch(*slow(0.02), out=self.tmp / "b", keys={"training.epochs": 100, "training.batch_size": 128})
        job.until("an epoch has ended", lambda: (p := self.tmp / "b/history.jsonl").exists() and p.read_text().count("\n") >= 1)
        _, b = self.json("a", "b")["jobs"]
        self.assertEqual((b["status"], b["job"], b["update"], b["digest"]), ("not ended", "mnist-mlp", "sync", None))
        self.assertGreaterEqual(len(b["history"]), 1)
        self.assertEqual(self.differ("a", "b")["training.batch_size"], [64, 128])
        job.signal(2)
        job.wait(130)
        self.assertEqual(self.json("a", "b")["jobs"][1]["status"], "interrupted")

    def test_the_table_is_as_wide_as_the_terminal(self):
        self.two()
        names = ["a", "b", "./a", "./b"]
        for columns in (40, 70, 200):
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            child = subprocess.Popen([MODEL, "compare", *names], stdout=theirs, cwd=self.tmp)
            os.close(theirs)
            text = b""
            try:
                while piece := os.read(ours, 1 << 16):
                    text += piece
            except OSError:  # the other side is closed
                pass
            os.close(ours)
            self.assertEqual(child.wait(DEADLINE_S), 0)
            lines = text.decode().splitlines()
            widest, parts = max(map(len, lines)), sum(line.startswith("job ") for line in lines)
            self.assertLessEqual(widest, max(columns, 70), text.decode())  # one job has at least 60
            self.assertEqual(parts, {40: 4, 70: 2, 200: 1}.get(columns, parts), text.decode())

    def test_a_long_key_is_shown_whole(self):
        self.train(out=self.tmp / "a")
        shutil.copytree(self.tmp / "a", self.tmp / "b")
        names = [f"{which}_of_the_rooms_of_the_house_that_the_tenants_use" for which in ("number", "height")]
        for place, scale in ("a", "standard"), ("b", "min_max"):
            for job in self.tmp.glob(f"{place}/*/job.yaml"):
                job.write_text(json.dumps({"data": {"columns": [{"number": {"name": name, "scale": scale}} for name in names]}}))
        for name in names:
            self.assertRegex(self.compare("a", "b"), rf"(?m)^data\.columns\[{name}\]\.number\.scale\n +standard +min_max$")

    def test_what_is_no_job_is_an_error_that_names_it(self):
        self.train(out=self.tmp / "a")
        self.assertIn("compare: name 2 to 16", self.compare("a", code=2))
        self.assertIn("nothing: it is not the output directory of a job", self.compare("a", "nothing", code=2))
        self.assertIn("not the output directory", self.compare("a", ".", code=2))
        (self.tmp / "a/model/manifest.json").write_text("[1]")
        self.assertIn("a/model/manifest.json: not a JSON object", self.compare("a", "a", code=2))
        (self.tmp / "a/model/manifest.json").write_text('{"epoch": 1, "epoch": 2}')
        self.assertIn("a/model/manifest.json: not a JSON object: line 1: duplicate object key near '\"epoch\"'",
                      self.compare("a", "a", code=2))
        (self.tmp / "a/model/manifest.json").write_text('{"data": 7, "epoch": "x", "eval": [], "train": 3}')
        (self.tmp / "a/summary.json").write_text('{"history": [1, {"epoch": {}}], "eval": 1, "status": "\\u001b[31m"}')
        self.assertNotIn("\x1b", self.compare("a", "a"))
        for epoch in (2**63 - 1, 2**63 - 20):  # no sum of epochs overflows
            (self.tmp / "a/summary.json").write_text(json.dumps({"history": [{"epoch": epoch, "train": {"loss": 1}}]}))
            self.assertRegex(self.compare("a", "a"), rf"(?m)^{epoch} +1 +1\n\n")
        (self.tmp / "a/summary.json").write_text("{")
        self.assertIn("a/summary.json: not a JSON object: line 1", self.compare("a", "a", code=2))
        (self.tmp / "a/summary.json").unlink()
        for job in self.tmp.glob("a/*/job.yaml"):
            job.write_text("a: [b\n")
        self.assertIn("a: job.yaml:", self.compare("a", "a", code=2))


if __name__ == "__main__":
    unittest.main()
