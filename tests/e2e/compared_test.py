#!/usr/bin/env python3
# runs with others
"""Processes of a job compare what they have when one of them connects (docs/reference/comparisons.md)."""
import datetime
import functools
import gzip
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from certificates import Certificates  # noqa: E402
from cluster import PS, ROOT, SANITIZED, TSAN, WORKER, slow  # noqa: E402
import hand_test  # noqa: E402
import stream_test  # noqa: E402, F401
from versions_test import OTHER, OURS  # noqa: E402

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


class Hand(hand_test.HandCase):
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

    def ps(self, *flags, **options):
        return self.start(PS, "ps", "--job_name=ps", "--task_index=0", *self.hosts, *flags, **options)

    def worker(self, i, *flags, **options):
        return self.start(WORKER, f"worker-{i}", "--job_name=worker", f"--task_index={i}", *self.hosts, *flags, **options)

    def worker_1(self, **options):
        """It is there before its chief, which waits for it only for timeouts.worker_rejoin_s."""
        worker = self.worker(1, **options)
        worker.until_said("waiting for the chief")
        return worker

    def chief(self, *flags, **options):
        """Of a job that lasts: each of its computations takes 50 ms."""
        return self.worker(0, "--fault=sleep:0.05", *flags, **options)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class DataTest(Hand):
    def other(self, name, lines):
        """Keys of a worker with these lines, which ends soon."""
        return {**LONG, "data.train": self.write(name, lines), "timeouts.start_s": 1}

    def is_refused(self, chief, keys, text, rows=""):
        start, theirs = f"worker 1 has other training data than the chief: {rows}", f"{self.tmp}/a.csv"
        here = text.replace("at the chief", f"at the chief in {theirs}")
        self.assertIn(f"{start}{keys['data.train']} differs ({here}); all processes must read the same data.train",
                      self.worker(1, keys=keys).wait(2).last_line())
        self.assertIn(f" is refused: {start}{theirs} differs ({text})", chief.log())

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
        self.is_refused(chief, self.other("less.csv", lines[:-1]), "10387 bytes, 10400 at the chief", "it has 799 rows, the chief 800; ")
        self.assertIsNone(chief.process.poll(), chief.log())
        chief.stop()
        ps.stop()

    def test_a_job_that_is_done_without_a_worker_of_other_data_is_right_and_the_worker_ends_with_2(self):
        ps, worker = self.ps(), self.worker_1(keys={"data.train": self.write("order.csv", points()[::-1])})
        chief = self.worker(0)
        self.assertIn("worker 1 has other training data than the chief: ", worker.wait(2).last_line())
        self.assertEqual(self.all_done(chief, ps)["digest"], self.undisturbed())

    def test_a_worker_of_other_data_is_refused_in_every_mode(self):
        for mode in ("async", "ssp", "geo"):
            keys, self.out = {**LONG, "training.update": mode, "training.microbatches": None}, self.tmp / mode
            ps, chief = self.ps(keys=keys), self.chief(keys=keys)
            chief.until_said("generation 1:")
            worker = self.worker(1, keys=self.other("order.csv", points()[::-1]) | keys)
            self.assertIn("worker 1 has other training data than the chief: ", worker.wait(2).last_line())
            chief.process.send_signal(signal.SIGTERM)
            chief.wait(143)
            self.assertEqual([w["worker"] for w in self.summary()["per_worker"] if w["tasks"]], [0])
            ps.stop()

    def test_the_same_data_on_another_path_are_the_same(self):
        with gzip.open(self.tmp / "copy.csv.gz", "wt") as f:
            f.write((self.tmp / "a.csv").read_text())
        ps, worker = self.ps(), self.worker_1(keys={"data.train": self.tmp / "copy.csv.gz"})
        self.all_done(self.worker(0), worker, ps)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class KeysTest(Hand):
    """Run-time keys of a worker that has another job file (tests/lint/keys.py: no process reads them)."""

    OTHERS = {"training.learning_rate": 1e30, "training.warmup_steps": 7, "training.clip_norm": 1e-3, "training.nan_guard": "skip",
              "training.max_rejected": 1,
              "compression.push": "int8", "compression.reply": "fp16", "checkpoint.every_steps": 1, "checkpoint.keep": 1,
              "checkpoint.store": "chief", "timeouts.worker_rejoin_s": 1, "logs.tensorboard": "false",
              "training.learning_rate_schedule": "{exponential_decay: {decay_steps: 1, decay_rate: 0.1}}"}

    def test_the_chiefs_values_hold_in_sync(self):
        ps, worker = self.ps(keys=self.OTHERS), self.worker_1(keys=self.OTHERS)
        self.assertEqual(self.all_done(self.worker(0), worker, ps)["digest"], self.undisturbed())

    def test_in_geo_a_worker_trains_at_the_chiefs_rate(self):
        geo = {"training.update": "geo", "training.epochs": 4}
        others = {**geo, "training.learning_rate": 1e30, "training.geo_every": 3}
        ps, worker = self.ps(keys=geo), self.worker_1(keys=others)
        s = self.all_done(self.worker(0, "--fault=sleep:0.01", keys=geo), worker, ps)
        self.assertGreater(next(w["tasks"] for w in s["per_worker"] if w["worker"] == 1), 0)
        self.assertLess(s["train"]["loss"], 1)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class EvaluationTest(Hand):
    """Evaluation data that decide which epoch is the best, and those of an evaluator."""

    def setUp(self):
        super().setUp()
        self.eval, self.other = ({"data.eval": self.write(name, points()[from_:])} for name, from_ in (("eval.csv", 700), ("less.csv", 701)))

    def test_a_chief_of_other_evaluation_data_does_not_take_over_nor_resume_a_job_that_keeps_its_best(self):
        keys = {**LONG, **self.eval, "training.monitor": "loss"}
        ps, chief = self.ps(keys=keys), self.worker(0, keys=keys)
        self.until("a best epoch", (self.out / "best/weights.safetensors").exists)
        chief.stop()
        differ = r"/best: the best epoch was found on other evaluation data \(fingerprint \w{12} there, \w{12} here\): use the same data.eval"
        self.assertRegex(self.worker(0, keys={**keys, **self.other}).wait(2).last_line(), differ)
        ps.stop()
        self.assertRegex(self.start(WORKER, "resumed", keys={**keys, **self.other}).wait(2).last_line(), differ)
        self.start(WORKER, "same", keys={**keys, "training.epochs": 1}).wait(0)
        self.start(WORKER, "new", keys={**keys, **self.other, "training.epochs": 1, "checkpoint.run": "new"}).wait(0)

    def test_a_history_with_evaluations_on_two_data_sets_is_not_exact(self):
        alone = ["--ps=1", "--workers=1"]
        first = self.train(*alone, keys={**self.eval, "training.epochs": 1}).summary()
        self.assertTrue(first["exact"])
        job = self.train(*alone, keys={**self.other, "training.epochs": 2})
        self.assertIn("data.eval has other rows than when epoch 1 was evaluated", job.stderr())
        s = job.summary()
        self.assertEqual((s["exact"], s["inexact"]), (False, "data.eval had other rows when epoch 1 was evaluated"))

    def test_evaluations_within_the_first_epoch_on_two_data_sets_are_not_exact(self):
        keys = {"training.epochs": 1, "evaluate.every_steps": 2, "checkpoint.every_steps": 2, "checkpoint.every_seconds": 0}
        job = self.launch("--ps=1", "--workers=1", *slow(0.1, 1), keys={**self.eval, **keys})
        job.until_cut(2)
        job.signal(signal.SIGTERM)
        job.wait(143)
        job = self.train("--ps=1", "--workers=1", keys={**self.other, **keys})
        found = re.search(r"data.eval has other rows than when step (\d+) was evaluated", job.stderr())
        self.assertTrue(found, job.stderr())
        s = job.summary()
        self.assertEqual((s["exact"], s["inexact"]), (False, f"data.eval had other rows when step {found[1]} was evaluated"))

    def test_an_evaluator_that_comes_back_with_other_data_is_refused(self):
        keys = {**self.eval, "training.epochs": 1}
        self.train("--ps=1", "--workers=1", "--evaluator", keys=keys)
        again = ["--job_name=evaluator", "--ps_hosts=127.0.0.1:1"]
        self.assertRegex(self.start(WORKER, "other", *again, keys={**keys, **self.other}).wait(2).last_line(),
                         r"/eval.json: earlier checkpoints of this run were evaluated on other data \(fingerprint \w{12} there, \w{12} here\)")
        self.start(WORKER, "same", *again, keys=keys).wait(0)


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
        ps, worker = self.ps(), self.worker_1(env=self.OLDER)
        chief = self.worker(0)
        s = self.all_done(chief, worker, ps)
        own, other = self.kernels(s)
        self.assertEqual((s["exact"], other), (False, "worker 1: Nehalem"))
        self.assertRegex(own, "chief: (?!Nehalem)")
        said = [line for line in chief.log().splitlines() if "not exact" in line]
        self.assertEqual(len(said), 1, chief.log())
        self.assertIn("worker 1 multiplies with OpenBLAS's kernels for Nehalem (OpenBLAS ", said[0])
        self.assertIn("set the same OPENBLAS_CORETYPE in the environment of every process", said[0])

    def test_an_evaluator_on_another_processor_evaluates_and_the_job_is_not_exact(self):
        keys, with_it = {"data.eval": self.tmp / "a.csv", "timeouts.evaluator_s": 60}, "--evaluators=1"
        ps, worker, chief = self.ps(with_it, keys=keys), self.worker(1, with_it, keys=keys), self.worker(0, with_it, keys=keys)
        evaluator = self.start(WORKER, "evaluator", "--job_name=evaluator", *self.hosts, with_it, keys=keys, env=self.OLDER)
        s = self.all_done(chief, worker, ps, evaluator)
        self.assertEqual((s["exact"], self.kernels(s)[1:], s["evaluator"]["final"]), (False, ["evaluator: Nehalem"], True))
        said = [line for line in chief.log().splitlines() if "not exact" in line]
        self.assertEqual(len(said), 1, chief.log())
        self.assertIn("the evaluator multiplies with OpenBLAS's kernels for Nehalem (OpenBLAS ", said[0])
        self.assertIn("set the same OPENBLAS_CORETYPE in the environment of every process", said[0])
        again = self.start(WORKER, "again", with_it, keys=keys).wait(0)  # the job is done, and stays so
        self.assertEqual((self.summary()["exact"], self.kernels(self.summary())[1:]), (False, ["evaluator: Nehalem"]), again.log())

    def test_the_same_kernels_are_exact(self):
        ps, worker = self.ps(), self.worker_1(env=self.OLDER)
        s = self.all_done(self.worker(0, env=self.OLDER), worker, ps)
        self.assertEqual((s["exact"], self.kernels(s)), (True, ["chief: Nehalem"]))

    def test_another_processor_is_found_at_a_rejoin_and_at_a_takeover(self):
        ps, chief, worker = self.ps(keys=LONG), self.chief(keys=LONG), self.worker(1, keys=LONG)
        worker.until_said("generation 1:")
        worker.stop()
        self.worker(1, keys=LONG, env=self.OLDER)
        chief.until_said("worker 1 multiplies with OpenBLAS's kernels for Nehalem (OpenBLAS ")
        chief.stop()
        self.worker(0, keys=LONG, env=self.OLDER).until_said("the chief multiplies with OpenBLAS's kernels for Nehalem (OpenBLAS ")
        ps.stop()

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
        journal = self.out / "checkpoints/journal"  # without its last line, which names the other processor
        journal.write_text("".join(line + "\n" for line in journal.read_text().splitlines()[:-1]))
        last = self.start(WORKER, "last", keys={"training.epochs": 5}, env=self.OLDER).wait(0)
        self.assertEqual((self.summary()["exact"], self.kernels(self.summary())), (False, ["chief: Nehalem"]))
        self.assertRegex(self.summary()["inexact"], r"^checkpoints/journal lacked lines that it had at checkpoint \d+, when the job ")
        self.assertRegex(last.log(), r" warn .*/checkpoints/journal lacks some of the 3 lines that it had at checkpoint \d+, and this job is not ")

    def test_a_chief_in_a_directory_that_is_older_than_the_run_says_that_the_job_is_not_exact(self):
        ps, chief = self.ps(keys=LONG), self.chief(keys=LONG)
        self.worker(1, keys=LONG)
        chief.until_said("generation 1:")
        chief.stop()
        older = shutil.copytree(self.out, self.tmp / "older")
        chief = self.chief(keys=LONG, env=self.OLDER)
        chief.until_said("generation 2: ")
        self.until("the ps has entered it", lambda: "a new chief takes over" in ps.log())
        chief.stop()
        chief = self.chief(keys=LONG, out=older)
        chief.until_said(f"{older} lacks a part of this run's past (checkpoints/journal lacks lines of the chief before): ")
        chief.stop()
        ps.stop()


class Other:
    """A worker 1 or a chief that differs in one thing. code: with which it ends, and `says` is in its last line; None: it
    trains along, and `says` is in its log."""

    def __init__(self, says="generation ", code=None, program=WORKER, keys={}, hosts=lambda ps: ps, token="secret", env=None, out=None):
        self.says, self.code, self.program, self.keys = says, code, program, keys
        self.hosts, self.token, self.env, self.out = hosts, token, env, out


WORKERS, ALL = ("start", "rejoin"), ("start", "rejoin", "takeover")
# The rows of the page -> the moments -> the test with real processes. WalkTest has an Other for each of its rows.
WALK = {"release": dict.fromkeys(ALL, "WalkTest"),
        "name and identity keys of the job": dict.fromkeys((*ALL, "resume"), "WalkTest"),
        "lists of ps and workers": dict.fromkeys(ALL, "WalkTest"),
        "token": dict.fromkeys(ALL, "WalkTest"),
        "certificate": dict.fromkeys(ALL, "CertificateTest.test_another_certificate_is_refused_at_each_moment"),
        "training data": dict.fromkeys((*ALL, "resume"), "WalkTest"),
        "with `data.order: stream`, the number and the sizes of the training files": {
            "start": "stream_test.BadInputTest.test_a_worker_s_files_can_be_elsewhere_and_are_the_chief_s_or_named",
            "rejoin": "stream_test.BadInputTest.test_a_file_that_changes_is_refused_by_name"},
        "evaluation data": {
            "rejoin": "EvaluationTest.test_an_evaluator_that_comes_back_with_other_data_is_refused",
            **dict.fromkeys(("takeover", "resume"), "EvaluationTest.test_a_chief_of_other_evaluation_data_does_not_take_over_nor_"
                            "resume_a_job_that_keeps_its_best")},
        "encoding of the rows": dict.fromkeys(WORKERS, "WalkTest"),
        "processors": {"start": "ProcessorsTest.test_a_worker_on_another_processor_trains_along_and_the_job_is_not_exact",
                       "rejoin": "ProcessorsTest.test_another_processor_is_found_at_a_rejoin_and_at_a_takeover",
                       "takeover": "ProcessorsTest.test_another_processor_is_found_at_a_rejoin_and_at_a_takeover",
                       "resume": "ProcessorsTest.test_a_job_that_resumes_on_another_processor_is_not_exact_and_says_so"},
        "address of the chief": {
            "takeover": "hand_test.HandTest.test_a_second_chief_with_a_folder_of_its_own_is_refused_and_told_of_the_first"},
        "name of the journal": {
            "takeover": "hand_test.HandTest.test_a_chief_that_takes_over_without_the_runs_past_goes_on_and_says_that_the_job_is_not_exact"},
        "lines of the journal": {
            "takeover": "ProcessorsTest.test_a_chief_in_a_directory_that_is_older_than_the_run_says_that_the_job_is_not_exact",
            "resume": "ProcessorsTest.test_a_job_that_resumes_on_another_processor_is_not_exact_and_says_so"},
        "run-time keys": dict.fromkeys(ALL, "WalkTest"),
        "clock": dict.fromkeys(ALL, "WalkTest")}


class PageTest(unittest.TestCase):
    def test_the_page_has_each_row_and_each_moment_of_the_walk(self):
        page = (ROOT / "docs/reference/comparisons.md").read_text()
        lines = page.split("<!-- compared -->")[1].split("<!-- /compared -->")[0].strip().splitlines()[2:]
        rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines]
        self.assertEqual([name for name, _, _ in rows], list(WALK))
        for name, _, at in rows:  # that it is never compared is tried at each moment, too
            self.assertEqual(set(ALL) if at == "never" else set(at.split(", ")), set(WALK[name]), name)
        for test in {test for moments in WALK.values() for test in moments.values()}:
            functools.reduce(getattr, test.split("."), sys.modules[__name__])


YEAR_AGO = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *at)
{
    int rc = (int)syscall(SYS_clock_gettime, id, at);
    at->tv_sec -= id == CLOCK_REALTIME ? 365 * 86400 : 0;
    return rc;
}
"""


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class WalkTest(Hand):
    """One job, which others try to join, to rejoin and to take over; it learns what it learns undisturbed."""

    PROGRAMS = True
    KEYS = {**Hand.KEYS, "checkpoint.run": "new", "training.epochs": 1000}
    WRONG = {"training.learning_rate": 1e30, "training.clip_norm": 1e-3, "compression.push": "int8"}

    def setUp(self):
        super().setUp()
        for name, text in (("secret", "0123456789abcdef" * 2), ("wrong", "f" * 32)):
            (self.tmp / name).write_text(text + "\n")
        self.old = self.tmp / "old"  # of an earlier run, with words in another order
        self.start(WORKER, "old", keys={"data.train": self.write("b.csv", points()[1:]), "checkpoint.run": "old",
                                        "training.epochs": 1}, out=self.old).wait(0)
        release = self.tmp / "other-worker"
        release.write_bytes(WORKER.read_bytes().replace(OURS.encode() + b"\0", OTHER.encode() + b"\0"))
        release.chmod(0o755)
        self.OTHERS = {
            "release": [Other(f"version {OTHER} connected to a ps of version {OURS}", 1, program=release)],
            "name and identity keys of the job": [
                Other("a process of job other connected to a ps of job points", 1, keys={"name": "other"}),
                Other("training.seed was 1, is 4", 1, keys={"training.seed": 4})],
            "lists of ps and workers": [Other("the lists of ps differ: ", 1, hosts=lambda ps: f"{ps},{self.addresses(1)[0]}")],
            "token": [Other("another token than the job's", 1, token="wrong")],
            "training data": [Other("other training data than the ", 2, keys={"data.train": self.write("less.csv", points()[:-1])})],
            "encoding of the rows": [Other("reading the data again, with the encoding of the chief's checkpoint", out=self.old)],
            "run-time keys": [Other(keys=self.WRONG)],
            "clock": [Other(env=self.year_ago())]}
        self.assertEqual(list(self.OTHERS), [row for row, moments in WALK.items() if "WalkTest" in moments.values()])

    def year_ago(self):
        """An environment in which the calendar is a year behind."""
        (self.tmp / "year_ago.c").write_text(YEAR_AGO)
        library = self.tmp / "year_ago.so"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, self.tmp / "year_ago.c"], check=True)
        return None if SANITIZED else dict(os.environ, LD_PRELOAD=str(library))  # a sanitizer must be the first library

    def at(self, moment, refused):
        """The others of a moment: those that are refused, or those that train along."""
        return [other for row, others in self.OTHERS.items() if moment in WALK[row] for other in others
                if (other.code is not None) == refused]

    def begin(self, other, i, keys={}, out=None):
        ps, workers = self.hosts[0].split("=")[1], self.hosts[1].split("=")[1].split(",")
        workers[0] = workers[0] if i else self.addresses(1)[0]  # each chief listens
        return self.start(other.program, f"other-{i}", "--job_name=worker", f"--task_index={i}", f"--ps_hosts={other.hosts(ps)}",
                          f"--worker_hosts={','.join(workers)}", f"--token_file={self.tmp}/{other.token}",
                          keys={**keys, **other.keys}, env=other.env,
                          out=out or other.out or pathlib.Path(tempfile.mkdtemp(dir=self.tmp)))

    def are_refused(self, others, i, **options):
        begun = [(other, self.begin(other, i, {"timeouts.start_s": 2}, **options)) for other in others]
        for other, process in begun:
            self.assertIn(other.says, process.wait(other.code).last_line())

    def trains_along(self, other, i, **options):
        process = self.begin(other, i, **options)
        process.until_said(other.says)
        process.until_said("generation ")
        self.assertNotIn("refused", process.log())
        if other.env:
            self.assertLess(int(process.log()[:4]), datetime.date.today().year)
        return process

    def walk_with_workers(self, moment):
        self.are_refused(self.at(moment, True), 1)
        for other in self.at(moment, False):
            self.trains_along(other, 1).stop()

    def test_what_the_page_says_is_so_at_a_start_a_rejoin_a_takeover_and_a_resume(self):
        token, right = f"--token_file={self.tmp}/secret", Other()
        ps = self.start(PS, "ps", "--job_name=ps", "--task_index=0", *self.hosts, token)
        chief = self.chief(token)
        chief.until_said("generation 1:")
        self.walk_with_workers("start")
        self.trains_along(right, 1).stop()
        self.walk_with_workers("rejoin")
        worker = self.trains_along(right, 1)
        self.until("a checkpoint", lambda: list(self.out.glob("checkpoints/cut-*/manifest.gw")))
        self.assertIsNone(chief.process.poll(), chief.log())
        chief.stop()
        self.are_refused(self.at("takeover", True), 0)
        for says, keys in (("training.seed was 1, is 4", {"training.seed": 4}),
                           ("the data differ from those of its checkpoint", {"data.train": self.tmp / "less.csv"})):
            self.are_refused([Other(says, 2, keys=keys)], 0, out=self.out)
        for other in (Other(keys={"checkpoint.keep": 1, "timeouts.worker_rejoin_s": 1}), *self.OTHERS["clock"]):
            chief = self.trains_along(other, 0, out=self.out)
            self.assertIn("taking over", chief.log())
            chief.stop()
        last = {"training.epochs": 100, "timeouts.worker_rejoin_s": None}  # the job waits for worker 1, however late it is
        self.all_done(self.begin(right, 0, last, out=self.out), worker, ps)
        self.assertEqual(self.summary()["digest"], self.undisturbed(keys={"training.epochs": 100}))


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class CertificateTest(Certificates, Hand):
    KEYS = {**Hand.KEYS, "training.epochs": 1000}

    def test_another_certificate_is_refused_at_each_moment(self):
        self.make_ca("ca")
        self.make("all", "IP:127.0.0.1")
        self.make("stranger", "DNS:elsewhere")
        wrong = {"keys": {"timeouts.start_s": 1}, "out": self.tmp / "elsewhere"}

        def is_refused(i):
            self.assertIn("names DNS:elsewhere; expected: 127.0.0.1", self.worker(i, *self.tls("stranger"), **wrong).wait(1).last_line())

        self.start(PS, "ps", "--job_name=ps", "--task_index=0", *self.hosts, *self.tls("all"))
        chief = self.chief(*self.tls("all"))
        chief.until_said("generation 1:")
        is_refused(1)
        worker = self.worker(1, *self.tls("all"))
        worker.until_said("generation 1:")
        worker.stop()
        is_refused(1)
        chief.stop()
        is_refused(0)


if __name__ == "__main__":
    unittest.main()
