#!/usr/bin/env python3
"""Who is started again, and who ends the job: restartPolicy x exit code, as the operator's own tests have it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers as c  # noqa: E402


def job(policy="ExitCode", success="", **replicas):
    return {"kind": "TFJob", "spec": {"successPolicy": success, "tfReplicaSpecs": {
        kind: {"replicas": n, "restartPolicy": policy} for kind, n in replicas.items()}}}


POLICIES = (  # restartPolicy, exit code, what happens to a ps
    ("Never", 0, c.LEAVE), ("Never", 1, None), ("Never", 130, None),
    ("OnFailure", 0, c.LEAVE), ("OnFailure", 1, c.RESTART), ("OnFailure", 130, c.RESTART),
    ("Always", 0, c.RESTART), ("Always", 1, c.RESTART), ("Always", 130, c.RESTART),
    ("ExitCode", 0, c.LEAVE), ("ExitCode", 1, None), ("ExitCode", 2, None), ("ExitCode", 127, None),
    ("ExitCode", 128, c.RESTART), ("ExitCode", 130, c.RESTART), ("ExitCode", 137, c.RESTART), ("ExitCode", 138, c.RESTART),
    ("ExitCode", 143, c.RESTART),
)
ENDS = (  # job, who ends, exit codes of the others, verdict
    (job(Chief=1, PS=1, Worker=2), ("Chief", 0), {}, c.SUCCEEDED),
    (job(Master=1, PS=1), ("Master", 0), {}, c.SUCCEEDED),
    (job(Chief=1, PS=1, Worker=2), ("Worker", 0), {}, c.LEAVE),
    (job(Chief=1, PS=1, Worker=2), ("PS", 0), {}, c.LEAVE),
    (job(PS=1, Worker=2), ("Worker", 0), {}, c.SUCCEEDED),
    (job(PS=1, Worker=2), ("Worker", 1), {}, c.LEAVE),
    (job(PS=1, Worker=2, success="AllWorkers"), ("Worker", 0), {("Worker", 1): None}, c.LEAVE),
    (job(PS=1, Worker=2, success="AllWorkers"), ("Worker", 0), {("Worker", 1): 0}, c.SUCCEEDED),
)


class ControllersTest(unittest.TestCase):
    def test_a_restart_policy_and_an_exit_code_say_what_happens(self):
        for policy, code, action in POLICIES:
            with self.subTest(policy=policy, code=code):
                self.assertEqual(c.after_exit(policy, code), action)
                got = c.verdict([job(policy, Chief=1, PS=1)], "PS", 0, code, {("PS", 0): code})
                self.assertEqual(got, action or f"Failed: PS 0 exited with {code}")

    def test_the_chief_or_worker_0_or_all_workers_end_the_job(self):
        for doc, (kind, index), others, verdict in ENDS:
            with self.subTest(job=doc, kind=kind):
                codes = {(kind, index): 0, **others}
                self.assertEqual(c.verdict([doc], kind, index, 0, codes), verdict)

    def test_an_indexed_job_fails_by_its_failure_policy_and_else_starts_again(self):
        doc = {"kind": "Job", "spec": {"podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}}}
        for code, others, verdict in ((0, 0, c.SUCCEEDED), (0, None, c.LEAVE), (1, None, "Failed: a pod exited with 1"),
                                      (138, None, c.RESTART)):
            self.assertEqual(c.verdict([doc], "Job", 0, code, {("Job", 0): code, ("Job", 1): others}), verdict)
        self.assertEqual(c.verdict([doc], "StatefulSet", 0, 0, {}), c.RESTART)


if __name__ == "__main__":
    unittest.main()
