#!/usr/bin/env python3
# runs with others
"""Processes of a job compare what they have when one of them connects (docs/reference/comparisons.md)."""
import gzip
import os
import pathlib
import platform
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import PS, ROOT, TSAN, WORKER  # noqa: E402
from hand_test import HandCase  # noqa: E402

JOB = """name: points
model:
  input: {shape: auto}
  layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 1, activation: sigmoid}}]
  loss: binary_crossentropy
data: {format: csv, train: a.csv, columns: [number: x, category: town, label: {name: y}]}
optimizer: {sgd: {learning_rate: 0.1}}
training: {batch_size: 32, epochs: 2, microbatches: 4}
"""
LONG = {"training.epochs": 1000}


def points(n=800):
    return [f"{i % 7 / 7:.3f},{['Oslo', 'Rome', 'Bern'][i % 3]},{i % 2}" for i in range(n)]


class Hand(HandCase):
    """A ps, a chief (worker 0) and worker 1, each started by hand, so that one of them can be another."""

    KEYS = {"timeouts.worker_rejoin_s": 2}

    def setUp(self):
        super().setUp()
        self.JOB = self.tmp / "job.yaml"
        self.JOB.write_text(JOB)
        self.write("a.csv", points())
        ps, chief, worker = self.addresses(3)
        self.hosts = [f"--ps_hosts={ps}", f"--worker_hosts={chief},{worker}"]

    def write(self, name, lines):
        (self.tmp / name).write_text("\n".join(lines) + "\n")
        return self.tmp / name

    def ps(self, **options):
        return self.start(PS, "ps", "--job_name=ps", "--task_index=0", *self.hosts, **options)

    def worker(self, i, *flags, **options):
        return self.start(WORKER, f"worker-{i}", "--job_name=worker", f"--task_index={i}", *self.hosts, *flags, **options)

    def chief(self, *flags, **options):
        """Of a job that lasts: each of its computations takes 50 ms."""
        return self.worker(0, "--fault=sleep:0.05", *flags, **options)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class DataTest(Hand):
    def other(self, name, lines):
        """Keys of a worker with these lines, which ends soon."""
        return {**LONG, "data.train": self.write(name, lines), "timeouts.start_s": 1}

    def is_refused(self, chief, keys, text):
        text = f"worker 1 has other training data than the chief: {self.tmp}/a.csv differs ({text})"
        self.assertIn(f"{text}; all processes must read the same data.train", self.worker(1, keys=keys).wait(2).last_line())
        self.assertIn(f" is refused: {text}", chief.log())

    def test_a_worker_of_other_data_is_refused_at_the_start_and_when_it_comes_back(self):
        lines = points()
        ps, chief = self.ps(keys=LONG), self.chief(keys=LONG)
        chief.until_said("generation 1:")
        self.is_refused(chief, self.other("order.csv", lines[::-1]), "10400 bytes, as at the chief, but other ones")
        flipped = [line[:-1] + str(i // 2 % 2) for i, line in enumerate(lines)]
        self.is_refused(chief, self.other("flipped.csv", flipped), "10400 bytes, as at the chief, but other ones")
        worker = self.worker(1, keys=LONG)
        worker.until_said("generation 1:")
        worker.stop()
        self.is_refused(chief, self.other("less.csv", lines[:-1]), "10387 bytes, 10400 at the chief")
        self.assertIsNone(chief.process.poll(), chief.log())
        chief.stop()
        ps.stop()

    def test_a_job_that_is_done_without_a_worker_of_other_data_is_right_and_the_worker_ends_with_2(self):
        ps, worker = self.ps(), self.worker(1, keys={"data.train": self.write("order.csv", points()[::-1])})
        chief = self.worker(0)
        self.assertIn("worker 1 has other training data than the chief: ", worker.wait(2).last_line())
        self.assertEqual(self.all_done(chief, ps)["digest"], self.undisturbed())

    def test_the_same_data_on_another_path_are_the_same(self):
        with gzip.open(self.tmp / "copy.csv.gz", "wt") as f:
            f.write((self.tmp / "a.csv").read_text())
        ps, worker = self.ps(), self.worker(1, keys={"data.train": self.tmp / "copy.csv.gz"})
        self.all_done(self.worker(0), worker, ps)

    def test_a_chief_that_takes_over_with_other_data_does_not_train(self):
        ps, chief, worker = self.ps(keys=LONG), self.chief(keys=LONG), self.worker(1, keys=LONG)
        self.until("a checkpoint", lambda: list(self.out.glob("checkpoints/cut-*/manifest.gw")))
        worker.until_said("generation 1:")
        chief.stop()
        less = {**LONG, "data.train": self.write("less.csv", points()[:-1]), "timeouts.start_s": 1}
        self.assertIn("the data differ from those of its checkpoint", self.worker(0, keys=less).wait(2).last_line())
        # the ps has the steps since that checkpoint, and waits for a chief of the same data
        ps.until_said("the chief failed before it could train")
        worker.until_said("the last process of the chief has failed")
        # one that sees no checkpoint would train what the ps holds further
        chief = self.worker(0, keys=less, out=self.tmp / "elsewhere").wait(2)
        text = "the chief has other training data than the run that this ps holds"
        self.assertIn(text, chief.last_line())
        self.assertIn(f" is refused: {text}", ps.log())
        worker.stop()
        ps.stop()


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class KeysTest(Hand):
    """Run-time keys of a worker that has another job file (tests/lint/keys.py: no process reads them)."""

    OTHERS = {"training.learning_rate": 1e30, "training.warmup_steps": 7, "training.clip_norm": 1e-3, "training.nan_guard": "skip",
              "training.max_rejected": 1,
              "compression.push": "int8", "compression.reply": "fp16", "checkpoint.every_steps": 1, "checkpoint.keep": 1,
              "checkpoint.store": "chief", "timeouts.worker_rejoin_s": 1, "logs.tensorboard": "false",
              "training.learning_rate_schedule": "{exponential_decay: {decay_steps: 1, decay_rate: 0.1}}"}

    def test_the_chiefs_values_hold_in_sync(self):
        ps, worker = self.ps(keys=self.OTHERS), self.worker(1, keys=self.OTHERS)
        self.assertEqual(self.all_done(self.worker(0), worker, ps)["digest"], self.undisturbed())

    def test_in_geo_a_worker_trains_at_the_chiefs_rate(self):
        geo = {"training.update": "geo", "training.epochs": 4}
        others = {**geo, "training.learning_rate": 1e30, "training.geo_every": 3}
        ps, worker = self.ps(keys=geo), self.worker(1, keys=others)
        s = self.all_done(self.worker(0, "--fault=sleep:0.01", keys=geo), worker, ps)
        self.assertGreater(next(w["tasks"] for w in s["per_worker"] if w["worker"] == 1), 0)
        self.assertLess(s["train"]["loss"], 1)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class EncodingTest(Hand):
    def test_a_worker_whose_rows_are_encoded_in_another_way_is_told_both_encodings(self):
        """Its DIR has an earlier run, whose words were in another order. The chief has no checkpoint: it waits for ps 1."""
        old = self.tmp / "old"
        self.start(WORKER, "old", keys={"data.train": self.write("b.csv", points()[1:]), "checkpoint.run": "old"}, out=old).wait(0)
        self.hosts[0] += "," + self.addresses(1)[0]
        self.ps(keys={"checkpoint.run": "new"})
        chief = self.chief(keys={"checkpoint.run": "new"})
        worker = self.worker(1, keys={"checkpoint.run": "new", "timeouts.start_s": 2}, out=old).wait(1)
        differ = r"the encodings of the rows differ \(words, scales or buckets\): worker 1 has (\w{8}), the chief (\w{8});"
        self.assertRegex(worker.last_line(), rf"the chief was not available for \d s \(timeouts.start_s\): the chief refused: {differ}")
        self.assertNotEqual(*re.search(differ, worker.last_line()).groups())
        self.assertRegex(chief.log(), rf" is refused: {differ}")


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
@unittest.skipUnless(platform.machine() == "x86_64", "OpenBLAS has other kernels here")
class ProcessorsTest(Hand):
    """OpenBLAS chooses its kernels by the processor, or by OPENBLAS_CORETYPE."""

    OLDER = dict(os.environ, OPENBLAS_CORETYPE="Nehalem")

    def kernels(self, summary):
        """Those of a summary, by process, without OpenBLAS's version."""
        return [text.split(" (OpenBLAS ")[0] for text in summary["blas"]]

    def test_a_worker_on_another_processor_trains_along_and_the_job_is_not_exact(self):
        ps, worker = self.ps(), self.worker(1, env=self.OLDER)
        chief = self.worker(0)
        s = self.all_done(chief, worker, ps)
        own, other = self.kernels(s)
        self.assertEqual((s["exact"], other), (False, "worker 1: Nehalem"))
        self.assertRegex(own, "chief: (?!Nehalem)")
        said = [line for line in chief.log().splitlines() if "not exact" in line]
        self.assertEqual(len(said), 1, chief.log())
        self.assertIn("worker 1 multiplies with OpenBLAS's kernels for Nehalem (OpenBLAS ", said[0])
        self.assertIn("set the same OPENBLAS_CORETYPE in the environment of every process", said[0])

    def test_the_same_kernels_are_exact(self):
        ps, worker = self.ps(), self.worker(1, env=self.OLDER)
        s = self.all_done(self.worker(0, env=self.OLDER), worker, ps)
        self.assertEqual((s["exact"], self.kernels(s)), (True, ["chief: Nehalem"]))

    def test_a_job_that_resumes_on_another_processor_is_not_exact_and_says_so(self):
        keys = {"training.epochs": 4}
        alone = self.start(WORKER, "alone", "--fault=sleep:0.05", keys=keys, env=self.OLDER)
        alone.until_said("generation 1:")
        alone.process.send_signal(signal.SIGTERM)
        alone.wait(143)
        self.assertEqual((self.summary()["exact"], self.kernels(self.summary())), (True, ["chief: Nehalem"]))
        again = self.start(WORKER, "again", keys=keys).wait(0)
        self.assertEqual((self.summary()["exact"], self.kernels(self.summary())[0]), (False, "chief: Nehalem"))
        self.assertIn("this job is not exact: the chief multiplies with OpenBLAS's kernels for ", again.log())
        self.assertIn("earlier with others (chief: Nehalem (OpenBLAS ", again.log())


class PageTest(unittest.TestCase):
    """Each row of the page has a test with real processes, and each of these tests is there."""

    TESTS = {"release": "versions_test test_a_chief_refuses_a_worker_of_another_release",
             "name and identity keys of the job": "hand_test test_another_jobs_ps_is_refused_naming_both",
             "lists of ps and workers": "hand_test test_a_worker_whose_list_of_ps_differs_is_named_by_the_chief_and_does_not_end_with_0",
             "token": "doctor_test test_a_ps_with_a_token_refuses_who_has_none_or_another",
             "certificate": "tls_test test_who_is_not_who_it_says_to_be_is_refused_and_both_say_so",
             "training data": "compared_test test_a_worker_of_other_data_is_refused_at_the_start_and_when_it_comes_back",
             "encoding of the rows": "encoding_test test_a_worker_whose_rows_have_fewer_words_than_the_model_features_asks_the_chief",
             "processors": "compared_test test_a_worker_on_another_processor_trains_along_and_the_job_is_not_exact",
             "run-time keys": "compared_test test_the_chiefs_values_hold_in_sync",
             "clock": "doctor_test test_a_peer_whose_clock_is_another"}

    def test_each_row_has_a_test_and_each_test_a_row(self):
        page = (ROOT / "docs/reference/comparisons.md").read_text()
        rows = page.split("<!-- compared -->")[1].split("<!-- /compared -->")[0].strip().splitlines()[2:]
        self.assertEqual([row.split("|")[1].strip() for row in rows], list(self.TESTS))
        for name, test in self.TESTS.items():
            file, method = test.split()
            self.assertIn(f"    def {method}(self", (ROOT / "tests/e2e" / f"{file}.py").read_text(), name)


if __name__ == "__main__":
    unittest.main()
