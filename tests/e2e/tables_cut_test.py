#!/usr/bin/env python3
"""Checkpoints of jobs with tables: rows come back on any number of ps, whoever was killed, and model/ has them."""
import json
import pathlib
import shutil
import struct
import sys
import unittest
import zlib

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("lib", "compare")]
import cut  # noqa: E402
from cluster import TrainCase, slow  # noqa: E402

JOB = """
name: lr
data:
  format: synthetic
  synthetic: clicks
  synthetic_train_rows: 4000
  synthetic_eval_rows: 400
  synthetic_keys: 1000
  delimiter: tab
  header: none
  columns:
    - label: click
    - ignore: {name: "I{1..13}"}
    - key: {name: "C{1..26}"}
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: "C{1..26}", name: wide}
    - sigmoid
  loss: binary_crossentropy
optimizer: {adagrad: {learning_rate: 0.1}}
training: {batch_size: 200, epochs: 3}
timeouts: {worker_rejoin_s: 2}
checkpoint: {every_steps: 10, every_seconds: 0}
"""


# Two tables and three optimizers: each table has slots of its own.
OWN = {"model.layers": """[linear: {inputs: "C{1..26}", name: wide}, embedding: {inputs: "C{1..26}", output_dim: 2, name: e},
           dense: {inputs: [e], units: 1, name: deep}, add: [wide, deep], sigmoid]""",
       "tables": """{wide: {optimizer: {ftrl: {learning_rate: 0.1}}},
           e: {optimizer: {adagrad: {rowwise: true}}, learning_rate: 0.1, warmup_steps: 30, regularizer: {l2: 1.0e-4}}}"""}


def tensors(path):
    """A safetensors file of a table: keys, rows, counts."""
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])

    def values(name, kind):
        begin, end = header[name]["data_offsets"]
        return struct.unpack_from(f"<{(end - begin) // struct.calcsize(kind)}{kind}", data, 8 + size + begin)
    return values("keys", "Q"), values("rows", "f"), values("counts", "I")


BEGUN_DATE, BEGUN_CLOCK, DAY_S = 124, 125, 24 * 60 * 60


def newest_manifest(out):
    return sorted((out / "checkpoints").glob("cut-*/manifest.gw"))[-1]


def begun(path):
    """When the runs began, by a manifest: dates, table clocks."""
    fields = cut.head(path, path.read_bytes())
    return [cut.numbers(fields[number][0]) for number in (BEGUN_DATE, BEGUN_CLOCK)]


def packed(dates):
    """Five bytes each: true of seconds from 1978 to 2242."""
    values = b"".join(bytes(date >> 7 * i & 127 | (128 if i < 4 else 0) for i in range(5)) for date in dates)
    key = BEGUN_DATE << 3 | cut.BYTES
    return bytes((key & 127 | 128, key >> 7, len(values))) + values


def set_begun(path, dates):
    """Gives a manifest other dates, as if its runs had begun then."""
    data = path.read_bytes()
    head = data[cut.MAGIC_BYTES:-cut.TAIL.size]
    was = packed(begun(path)[0])
    assert head.count(was) == 1, head
    head = head.replace(was, packed(dates))
    magic = data[:cut.MAGIC_BYTES]
    path.write_bytes(magic + head + cut.TAIL.pack(len(head), zlib.crc32(head), magic))


class TablesCutTest(TrainCase):
    KEYS = {}

    def setUp(self):
        super().setUp()
        self.job = self.tmp / "job.yaml"
        self.job.write_text(JOB)

    def test_what_is_learned_does_not_depend_on_the_number_of_ps(self):
        first = None
        for ps, workers in ((1, 1), (2, 2), (4, 1)):
            out = self.tmp / f"of-{ps}"
            learned = (self.digest(f"--ps={ps}", f"--workers={workers}", job=self.job, out=out),
                       (out / "model/tables/wide.safetensors").read_bytes())
            first = first or learned
            self.assertEqual(learned, first)
        keys, rows, counts = tensors(out / "model/tables/wide.safetensors")
        self.assertEqual(sorted(set(keys)), list(keys))
        self.assertTrue(len(keys) == len(rows) == len(counts) > 900)
        self.assertEqual(max(counts), 60)  # a key that each of 3 epochs of 20 steps has

    def test_tables_with_optimizers_of_their_own_go_on_whatever_the_number_of_ps(self):
        whole = {ps: self.digest(f"--ps={ps}", "--workers=2", job=self.job, keys=OWN, out=self.tmp / f"whole-{ps}")
                 for ps in (1, 2, 4)}
        self.assertEqual(len(set(whole.values())), 1, whole)
        self.train("--ps=3", "--workers=1", job=self.job, keys={**OWN, "training.epochs": 1})
        again = self.train("--ps=2", "--workers=2", job=self.job, keys=OWN)
        self.assertEqual(again.summary()["digest"], whole[1])
        self.assertNotEqual(whole[1], self.digest("--ps=1", "--workers=1", job=self.job, out=self.tmp / "one",
                                                  keys={**OWN, "tables": "{}"}))

    def test_a_job_goes_on_from_its_rows_on_another_number_of_ps(self):
        whole = self.undisturbed(job=self.job)
        for store in ("shared", "chief"):
            out, keys = self.tmp / store, {"checkpoint.store": store}
            self.train("--ps=3", "--workers=2", job=self.job, out=out, keys={**keys, "training.epochs": 1})
            again = self.train("--ps=2", "--workers=1", job=self.job, out=out, keys=keys)
            self.assertEqual(again.summary()["digest"], whole)

    def test_a_ps_that_is_killed_changes_nothing(self):
        keys = {"training.epochs": 60}
        whole = self.undisturbed(job=self.job, keys=keys)
        job = self.launch("--ps=2", "--workers=2", *slow(0.003), job=self.job, keys=keys)
        job.until_cut(3)
        job.kill("ps-1")
        job.until_cut(8)
        job.kill("ps-0")
        job.wait()
        self.assertEqual(job.summary()["digest"], whole, job.logs())
        self.assertEqual(job.summary()["restarts"], 2)

    def test_a_finished_job_makes_its_files_anew(self):
        whole = self.digest("--ps=1", "--workers=1", job=self.job)
        path = self.out / "model/tables/wide.safetensors"
        was = path.read_bytes()
        path.unlink()
        self.assertEqual(self.digest("--ps=2", "--workers=1", job=self.job), whole)
        self.assertEqual(path.read_bytes(), was)

    def test_the_next_run_begins_with_the_rows_of_the_one_before(self):
        self.train("--ps=1", "--workers=1", job=self.job, keys={"checkpoint.run": "monday"})
        keys = {"checkpoint.run": "tuesday", "training.epochs": 1, "training.learning_rate": 1e-30}
        was = tensors(self.out / "model/tables/wide.safetensors")
        self.train("--ps=2", "--workers=1", job=self.job, keys=keys)
        learned = tensors(self.out / "model/tables/wide.safetensors")
        self.assertEqual(learned[:2], was[:2])
        self.assertEqual(max(learned[2]), 20)  # updates of this run alone

    def test_rows_go_that_were_not_seen_since_a_run_began_so_many_days_ago(self):
        still = {"training.learning_rate": 1e-30, "data.synthetic_train_rows": 200}
        days = {"tables": "{wide: {unseen_days: 30}}"}
        nothing_goes = "table wide keeps all of its rows: no run is known that began 30 days ago or earlier (unseen_days)"
        old, recent = self.tmp / "old", self.tmp / "recent"
        self.train("--ps=1", "--workers=1", job=self.job, out=old, keys={"checkpoint.run": "monday"})
        job = self.train("--ps=2", "--workers=1", job=self.job, out=old, keys={"checkpoint.run": "tuesday", **still, **days})
        self.assertIn(nothing_goes, job.log("worker-0"))
        keys, rows, counts = tensors(old / "model/tables/wide.safetensors")
        seen = [(key, row) for key, row, count in zip(keys, rows, counts) if count]
        gone = len(keys) - len(seen)
        self.assertTrue(gone > 100 < len(seen), (gone, len(seen)))
        dates, clocks = begun(newest_manifest(old))  # of a cut behind the first one
        self.assertEqual((len(dates), clocks), (1, [60]))
        self.lock_is_free(old)
        shutil.copytree(old, recent)
        set_begun(newest_manifest(old), [dates[0] - 30 * DAY_S])
        for name in "whole", "killed":
            shutil.copytree(old, self.tmp / name)

        days = {"checkpoint.run": "wednesday", "training.epochs": 20, **days}
        job = self.train("--ps=1", "--workers=2", job=self.job, out=old, keys={**still, **days})
        self.assertIn(f"table wide: {gone} of {len(keys)} rows are removed (unseen_days 30)", job.log("worker-0"))
        self.assertEqual(list(zip(*tensors(old / "model/tables/wide.safetensors")[:2])), seen)
        self.assertEqual({k: job.summary()["tables"]["wide"][k] for k in ("rows", "admitted", "evicted")},
                         {"rows": len(seen), "admitted": 0, "evicted": gone})
        self.assertEqual(begun(newest_manifest(old))[1], [60, 63])

        job = self.train("--ps=1", "--workers=1", job=self.job, out=recent, keys=days)
        self.assertIn(nothing_goes, job.log("worker-0"))
        self.assertEqual(job.summary()["tables"]["wide"]["evicted"], 0)
        whole = self.train("--ps=1", "--workers=1", job=self.job, out=self.tmp / "whole", keys=days).summary()
        self.assertNotEqual(whole["digest"], job.summary()["digest"])
        killed = self.tmp / "killed"
        last = int(newest_manifest(killed).parent.name[4:])
        job = self.launch("--ps=2", "--workers=2", *slow(0.003), job=self.job, out=killed, keys=days)
        job.until_cut(last + 2)
        job.kill("worker-0")
        job.until_cut(last + 5)
        job.kill("ps-1")
        got = job.wait().summary()
        self.assertGreaterEqual(got["restarts"], 2)
        for key in "digest", "tables", "steps":
            self.assertEqual(got[key], whole[key], job.logs())

    def test_in_async_rows_are_in_the_cut_too(self):
        keys = {"training.update": "async"}
        self.train("--ps=2", "--workers=2", job=self.job, keys={**keys, "training.epochs": 1})
        job = self.train("--ps=3", "--workers=2", job=self.job, keys=keys)
        _, _, counts = tensors(self.out / "model/tables/wide.safetensors")
        self.assertEqual(max(counts), 60, job.logs())


del TrainCase
if __name__ == "__main__":
    unittest.main()
