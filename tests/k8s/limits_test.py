#!/usr/bin/env python3
"""Limits of a container as a started process sees them: cgroup version 2 by a made-up tree under --cgroup_root. (Version 1 is
what real containers have here: containers_test.py.)"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import watch  # noqa: E402
from cluster import Case, Process, free_ports  # noqa: E402

JOB = facts.ROOT / "examples/mnist/mlp.yaml"


class LimitsTest(Case):
    def tree(self, cpu_max, memory_max, cpu_above="max 100000"):
        """Version 2: the group of this process, and one above it."""
        said = [line for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
        if not said:
            self.skipTest("this kernel has no version 2 at all: /proc/self/cgroup has no line 0::")
        root = self.tmp / "cgroup"
        group = root / said[0].removeprefix("0::").strip("/")
        group.mkdir(parents=True, exist_ok=True)
        (root / "cgroup.controllers").write_text("cpu memory\n")
        if group != root:
            (root / "cpu.max").write_text(f"{cpu_above}\n")
        (group / "cpu.max").write_text(f"{cpu_max}\n")
        (group / "memory.max").write_text(f"{memory_max}\n")
        return root

    def threads(self, *flags):
        """Of a worker that trains alone."""
        got = subprocess.run([facts.PROGRAMS["worker"], f"--job={JOB}", f"--output={self.out}", "--set=data.synthetic_train_rows=128",
                              "--set=data.synthetic_eval_rows=64", "--set=training.epochs=1", *map(str, flags)],
                             env=facts.environment(), capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(json.loads((self.out / "summary.json").read_text())["status"], "done")
        return int(re.search(r"microbatches, (\d+) threads", got.stderr)[1])

    def test_compute_threads_are_as_many_as_the_quota_has_cores(self):
        cores = len(os.sched_getaffinity(0))
        root = self.tree("100000 100000", "max")
        self.assertEqual(self.threads(f"--cgroup_root={root}"), 1)
        self.out = self.tmp / "free"
        self.tree("max 100000", "max")
        self.assertEqual(self.threads(f"--cgroup_root={root}"), cores)

    def test_a_ps_tells_its_limits_by_metrics(self):
        root = self.tree("150000 100000", 1 << 29)
        port, http = free_ports(2)
        ps = Process(self, [facts.PROGRAMS["ps"], f"--job={JOB}", f"--output={self.out}", "--job_name=ps", "--task_index=0",
                            f"--ps_hosts=127.0.0.1:{port}", "--worker_hosts=127.0.0.1:1", f"--http_port={http}",
                            f"--cgroup_root={root}"], "ps", facts.environment())
        metrics = self.until(lambda: f"it answers: {ps.log()}", lambda: watch.metrics(f"127.0.0.1:{http}"))
        self.assertEqual(metrics("gradwire_memory_limit_bytes"), 1 << 29)
        self.assertEqual(metrics("gradwire_cpu_limit_cores"), 2)


if __name__ == "__main__":
    unittest.main()
