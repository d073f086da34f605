#!/usr/bin/env python3
"""The image's entrypoint as a doctor: with what makes it a ps or a worker, it says what that process would find."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import free_ports  # noqa: E402

EXAMPLE = facts.ROOT / "examples/mnist/mlp.yaml"
ORDINALS = ("--ps=2", "--workers=3", "--ps_host=j-ps-%.invalid:2222", "--worker_host=j-w-%.invalid:3333")


class DoctorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.files = (f"--job={EXAMPLE}", f"--output={folder.name}/out")

    def run_entrypoint(self, *args, **env):
        return subprocess.run([facts.ENTRYPOINT, *args], env=facts.environment(**env), capture_output=True, text=True)

    def checks(self, *args, code=0, **env):
        got = self.run_entrypoint(*args, "--json", *self.files, **env)
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        said = json.loads(got.stdout)
        self.assertEqual(said["ok"], code == 0)
        return {c["check"]: c for c in said["checks"]}

    def test_doctor_is_the_first_word_or_a_flag(self):
        for words in (("doctor",), ("--doctor",)):
            got = self.run_entrypoint(*words, "--role=ps", "--index=1", *ORDINALS, *self.files, "--print")
            self.assertRegex(got.stdout.splitlines()[1], r"/worker/worker --doctor --output=/output .*--job=")

    def test_a_ps_and_a_worker_by_ordinals(self):
        port, = free_ports(1)
        ps = self.checks("doctor", "--role=ps", "--index=1", *(word.replace(":2222", f":{port}") for word in ORDINALS))
        self.assertIn("ps 1 of 2 ps", ps["cluster"]["found"])
        self.assertEqual(ps["port"], {"check": "port", "verdict": "ok", "found": f":{port} can be bound", "mend": ""})
        self.assertIn("a ps reads none", ps["data"]["found"])
        worker = self.checks("doctor", "--role=worker", *ORDINALS, JOB_COMPLETION_INDEX="2")
        self.assertEqual(worker["names"]["verdict"], "warn")
        self.assertIn("ps 0, j-ps-0.invalid:2222, not yet", worker["names"]["found"])
        self.assertIn("the pod is ready", worker["names"]["mend"])
        self.assertIn("60000 rows", worker["data"]["found"])

    def test_an_operators_tf_config(self):
        config = {"cluster": {"ps": ["j-ps-0.invalid:2222"], "worker": ["j-worker-0.invalid:2222"]},
                  "task": {"type": "worker", "index": 0}}
        checks = self.checks("doctor", TF_CONFIG=json.dumps(config))
        self.assertIn("worker 0, the chief, of 1 ps", checks["cluster"]["found"])
        self.assertEqual(checks["token"]["verdict"], "warn")
        config["task"]["index"] = 7
        checks = self.checks("doctor", code=2, TF_CONFIG=json.dumps(config))
        self.assertEqual(checks["cluster"]["verdict"], "fail")

    def test_the_pair_of_a_host_is_looked_at_one_after_the_other(self):
        port = next(first for first, then in iter(lambda: free_ports(2), None) if then == first + 1)  # the worker's
        pair = ("--worker_ips=127.0.0.1", "--current_ip=127.0.0.1", f"--port={port}", *self.files)
        got = self.run_entrypoint("doctor", *pair)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        whos = [line for line in got.stdout.splitlines() if line.startswith("ok   cluster:")]
        self.assertEqual([who.split()[2] for who in whos], ["ps", "worker"], got.stdout)
        got = self.run_entrypoint("doctor", *pair, "--set=training.epoch=1")
        self.assertEqual((got.returncode, got.stdout.count("FAIL job:")), (2, 2))


if __name__ == "__main__":
    unittest.main()
