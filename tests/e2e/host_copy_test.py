#!/usr/bin/env python3
"""The processes of a host have one copy of the training rows: it is in memory once, whoever is killed, and each job has its own."""
import os
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import ROOT, TrainCase  # noqa: E402

ROWS = 60000
READS = re.compile(r"process (\d+) of this host reads the rows for this one, too")


MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+) +\S*memfd:gradwire-rows")
HEAD_BYTES = 4096


def mappings(pid):
    """(bytes, inode) of the process's mappings of the copy, without its head: two of one inode are the same memory."""
    found = [(int(m[2], 16) - int(m[1], 16), int(m[3]))
             for m in MAPPING.finditer(pathlib.Path(f"/proc/{pid}/maps").read_text())]
    return [(size, inode) for size, inode in found if size > HEAD_BYTES]


class HostCopyTest(TrainCase):
    JOB = ROOT / "examples/criteo/lr.yaml"
    KEYS = {"data.synthetic_train_rows": ROWS, "data.synthetic_eval_rows": 100, "training.epochs": 3,
            "training.microbatches": 4, "timeouts.worker_rejoin_s": 5}

    def copies(self, job, workers=4):
        """Waits until each worker has mapped the copy; returns the mappings."""
        def mapped():
            pids = [job.pids().get(f"worker-{i}") for i in range(workers)]
            try:
                found = [mappings(pid) for pid in pids if pid]
            except (FileNotFoundError, ProcessLookupError):
                return None
            return found if len(found) == workers and all(found) else None
        return job.until("each worker has mapped the copy", mapped)

    def test_four_workers_have_one_copy_and_one_that_restarts_maps_it(self):
        alone = self.undisturbed()
        job = self.launch("--ps=1", "--workers=4")
        sizes = self.copies(job)
        self.assertTrue(all(len(m) == 1 for m in sizes), sizes)
        self.assertEqual(len({m[0] for m in sizes}), 1, sizes)
        self.assertGreater(sizes[0][0][0], ROWS * 4 * 40)
        killed = job.kill("worker-2")
        job.until_pid("worker-2", other_than=killed)
        self.copies(job)
        self.assertEqual(job.wait().summary()["digest"], alone)

    def test_a_reader_that_is_killed_is_replaced_and_two_jobs_have_a_copy_each(self):
        keys = {"data.synthetic_train_rows": 4 * ROWS, "training.epochs": 1}
        other = {**keys, "training.seed": 9}
        wanted = [self.undisturbed(keys=keys),
                  self.digest("--ps=1", "--workers=1", out=self.tmp / "other_alone", keys=other)]
        job = self.launch("--ps=1", "--workers=3", keys=keys)
        second = self.launch("--ps=1", "--workers=2", out=self.tmp / "second", keys=other)
        reader = job.until("a worker waits for the reader", lambda: next(
            (m[1] for i in range(3) if (m := READS.search(job.log(f"worker-{i}")))), None))
        os.kill(int(reader), signal.SIGKILL)
        self.copies(job, 3)
        self.assertEqual(job.wait().summary()["digest"], wanted[0])
        self.assertEqual(second.wait().summary()["digest"], wanted[1])
        self.assertEqual(job.summary()["restarts"], 1)


if __name__ == "__main__":
    unittest.main()
