"""The program that runs in the virtual machine of run.py, where the kernel has TLS: kernel TLS is used, the wire's tests hold
with it, and a job that loses a ps under it has the same result as a job without TLS."""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from cluster import BUILD, TrainCase  # noqa: E402

STAT = pathlib.Path("/proc/net/tls_stat")
TAKEN = "TLS: the kernel encrypts outgoing data"
KEYS = {"data.synthetic_train_rows": 640, "data.synthetic_eval_rows": 64, "training.epochs": 2,
        "checkpoint.every_steps": 4, "checkpoint.every_seconds": 0}


def taken():
    """How many connections the kernel has encrypted since it began."""
    return int(re.search(r"TlsTxSw\s+(\d+)", STAT.read_text()).group(1))


class KernelTlsTest(Certificates, TrainCase):
    def test_the_wire_holds_with_it(self):
        before = taken()
        got = subprocess.run([BUILD / "tests/wire_tls_test"], capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertIn(TAKEN, got.stderr)
        self.assertGreater(taken(), before)

    def test_a_job_that_loses_a_ps_learns_what_it_learns_without_tls(self):
        self.make_ca("ca")
        self.make("all", "IP:127.0.0.1,DNS:localhost")
        before = taken()
        job = self.launch(*self.tls("all"), keys=KEYS)
        job.until_cut(1)
        job.kill("ps-1")
        job.wait(0)
        self.assertEqual(job.summary()["restarts"], 1)
        for name in ("ps-0", "ps-1", "worker-0", "worker-1"):
            self.assertIn(TAKEN, job.log(name))
        self.assertGreaterEqual(taken() - before, 8)  # at least both ends of each worker's connection to each ps
        between = taken()
        self.assertEqual(job.summary()["digest"], self.undisturbed(keys=KEYS))
        self.assertEqual(taken(), between)  # none without TLS


if __name__ == "__main__":
    unittest.main(verbosity=2)
