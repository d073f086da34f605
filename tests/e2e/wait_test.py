#!/usr/bin/env python3
# runs with others
"""The process that training waits for is named right, in each place where the chief names it."""
import json
import re
import signal
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(__import__("pathlib").Path(__file__).resolve().parents[1] / "lib"))
from cluster import LAUNCH, LONG_ROWS, TrainCase  # noqa: E402


class Wait(TrainCase):
    def http(self, job, path):
        line = next(line.split() for line in (job.out / "processes/http").read_text().splitlines()
                    if line.startswith("worker 0 "))
        with urllib.request.urlopen(f"http://{line[2]}{path}", timeout=20) as answer:
            return answer.read().decode()

    def status(self, job):
        return subprocess.run([LAUNCH, "status", job.out], capture_output=True, text=True, check=False).stdout

    def waiting(self, job):
        """The process that the chief's /status names."""
        w = json.loads(self.http(job, "/status"))["whole_job"]["waiting"]
        return w and (w["role"], w["index"], w["why"])

    def stopped(self, job, name, whom, words):
        """A process is stopped: every place that shows the job names it, and none does when the process continues."""
        role, index = name.split("-")
        job.kill(name, signal.SIGSTOP)
        job.until_said("launcher", f"for {role} {index}, {words}")
        status = json.loads(self.http(job, "/status"))
        self.assertEqual(self.waiting(job), (role, int(index), "silent"))
        self.assertIn(f"for {role} {index}, {words}", status["waits_for"])
        self.assertEqual(status["whole_job"]["waits_for"], status["waits_for"])
        self.assertGreater(status["whole_job"]["waiting"]["seconds"], 1)
        self.assertRegex(self.http(job, "/metrics"), rf'gradwire_job_{role}_waited_seconds{{{role}="{index}"}} [1-9]')
        job.until("status names it", lambda: re.search(rf"  waiting \d+ s for {role} {index}, {words}", self.status(job)))
        job.kill(name, signal.SIGCONT)
        job.until("nobody is waited for", lambda: self.waiting(job) is None)
        self.assertNotRegex(self.http(job, "/metrics"), r"_waited_seconds{.*} [1-9]")
        job.until("status names nobody", lambda: "waiting" not in self.status(job))
        self.assertIn(f"for {role} {index}, {words}", job.log("worker-0"))

    def test_a_worker_and_a_ps_that_are_stopped_are_named(self):
        job = self.launch("--workers=2", "--ps=2", keys={"data.synthetic_train_rows": LONG_ROWS, "training.epochs": 1000})
        job.until_said("launcher", "epoch 1/1000")
        self.stopped(job, "worker-1", "worker 1", "which is connected but has not sent its part: it is stopped, or slow")
        self.stopped(job, "ps-1", "ps 1", "which is connected but does not answer: it is stopped, or slow")

    def test_a_chief_that_is_stopped_gives_no_sign_on_the_terminal_and_in_status(self):
        job = self.launch("--workers=2", "--ps=1", keys={"data.synthetic_train_rows": LONG_ROWS, "training.epochs": 1000})
        job.until("status has a step", lambda: " s ago)" in self.status(job))
        self.assertNotIn("no sign", self.status(job))
        job.kill("worker-0", signal.SIGSTOP)
        job.until_said("launcher", "warn launcher: no sign of worker 0, the chief, for 8 s: it is stopped or hangs")
        said = job.until("status says so", lambda: re.search(r"(\d+) s ago\)\n  no sign of the chief for (8|9|1\d) s: ", self.status(job)))
        self.assertGreaterEqual(int(said[1]), int(said[2]) - 2)  # its last step was not later than its last sign
        job.kill("worker-0", signal.SIGCONT)
        job.until_said("launcher", "worker 0, the chief, gives signs again, after ")
        job.until("status no longer says so", lambda: "no sign" not in self.status(job))


if __name__ == "__main__":
    unittest.main()
