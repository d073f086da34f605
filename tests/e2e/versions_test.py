#!/usr/bin/env python3
"""Processes of different releases or protocols do not work together, and both say so, naming both. The other release is this one
with another version written into the program's file."""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import PS, ROOT, WORKER, Process, TrainCase, free_ports  # noqa: E402

HEADER = (ROOT / "common/base/version.h").read_text()
VERSION, PROTOCOL = (re.search(rf'GRADWIRE_{what} "(.*)"', HEADER)[1] for what in ("VERSION", "PROTOCOL"))
OURS = f"{VERSION} (protocol {PROTOCOL})"
OTHER = "9" + OURS[1:]
RULE = "all processes of a job must run the same release"


class VersionsTest(TrainCase):
    PROGRAMS = True

    def setUp(self):
        super().setUp()
        self.ports = free_ports(3)

    def other(self, program, version=OTHER):
        """The same program of another release or protocol."""
        path = self.tmp / f"other-{program.name}"
        if path.exists():
            return path
        data = program.read_bytes()
        self.assertIn(OURS.encode() + b"\0", data)
        path.write_bytes(data.replace(OURS.encode() + b"\0", version.encode() + b"\0"))
        path.chmod(0o755)
        return path

    def start(self, program, role, index, name, **keys):
        return Process(self, [program, f"--job={self.JOB}", f"--output={self.out}", f"--job_name={role}",
                              f"--task_index={index}", f"--ps_hosts=127.0.0.1:{self.ports[0]}",
                              f"--worker_hosts=127.0.0.1:{self.ports[1]},127.0.0.1:{self.ports[2]}",
                              *self.sets({"timeouts.start_s": 60, **keys})], name)

    def test_a_ps_refuses_a_worker_of_another_release(self):
        ps = self.start(PS, "ps", 0, "ps")
        worker = self.start(self.other(WORKER), "worker", 1, "worker", **{"timeouts.start_s": 2})
        said = f"a worker of version {OTHER} connected to a ps of version {OURS}: {RULE}"
        ps.until_said(f"is refused: {said}")
        worker.until_said(f"ps 0 refused: {said}")
        worker.wait(1)
        self.assertIn(said, worker.last_line())

    def test_a_ps_refuses_a_worker_of_the_same_release_with_another_protocol(self):
        ps = self.start(PS, "ps", 0, "ps")
        said = f"{VERSION} (protocol 9)"
        self.assertEqual(len(said), len(OURS))
        worker = self.start(self.other(WORKER, said), "worker", 1, "worker", **{"timeouts.start_s": 2})
        ps.until_said(f"is refused: a worker of version {said} connected to a ps of version {OURS}: {RULE}")
        worker.wait(1)

    def test_a_ps_of_another_release_refuses_the_chief(self):
        ps = self.start(self.other(PS), "ps", 0, "ps")
        chief = self.start(WORKER, "worker", 0, "chief")
        said = f"a chief of version {OURS} connected to a ps of version {OTHER}: {RULE}"
        ps.until_said(f"is refused: {said}")
        chief.until_said(said)

    def test_a_chief_refuses_a_worker_of_another_release(self):
        """A ps let it pass, and names the chief to every process that asks."""
        import hostile_test as wire
        import socket
        import threading
        chief = self.start(WORKER, "worker", 0, "chief")
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def names_the_chief():
            while True:
                try:
                    s, _ = server.accept()
                except OSError:
                    return
                s.sendall(wire.frame(wire.HELLO_REPLY, {6: f"127.0.0.1:{self.ports[1]}"}))
        threading.Thread(target=names_the_chief, daemon=True).start()
        self.ports[0] = server.getsockname()[1]
        worker = self.start(self.other(WORKER), "worker", 1, "worker")
        said = f"a worker of version {OTHER} connected to a chief of version {OURS}: {RULE}"
        chief.until_said(f"is refused: {said}")
        worker.until_said(f"the chief refused: {said}")

    def a_cluster(self, of=lambda program: program):
        """Two ps and two workers, of which the first is the chief. `of`: the program to run in place of ours."""
        ps, workers = self.hosts[:2], self.hosts[2:]
        flags = [f"--job={self.JOB}", f"--output={self.out}", f"--ps_hosts={','.join(ps)}", f"--worker_hosts={','.join(workers)}",
                 *self.sets({"data.synthetic_train_rows": 8000, "training.epochs": 4, "checkpoint.every_steps": 20,
                             "checkpoint.every_seconds": 0, "timeouts.ps_rejoin_s": 3})]
        return [lambda role=role, i=i, program=program, of=of: Process(
                    self, [of(program), f"--job_name={role}", f"--task_index={i}", *flags], f"{role}-{i}")
                for role, program in (("ps", PS), ("worker", WORKER)) for i in range(2)]

    def test_a_ps_that_is_updated_alone_ends_the_job_and_the_new_release_resumes_it(self):
        """As docs/guides/upgrade.md says."""
        self.hosts = [f"127.0.0.1:{port}" for port in free_ports(4)]
        running = [start() for start in self.a_cluster()]
        self.until("a cut", lambda: list(self.out.glob("checkpoints/cut-*/manifest.gw")))
        ps = running[1]
        ps.process.kill()
        ps.process.wait()
        updated = self.a_cluster(self.other)[1]()
        said = f"a chief of version {OURS} connected to a ps of version {OTHER}: {RULE}"
        updated.until_said(f"is refused: {said}")
        for p in running[2:]:
            p.wait(1)
        self.assertIn("ps 1 was not available for 3 s (timeouts.ps_rejoin_s)", running[2].last_line())
        running[0].wait(1)
        updated.stop()
        running = [start() for start in self.a_cluster(self.other)]
        for p in running[2:]:
            p.wait(0)
        self.assertIn("resuming from checkpoint", running[2].log())
        self.assertEqual(self.summary()["digest"], self.undisturbed(keys={"data.synthetic_train_rows": 8000, "training.epochs": 4}))

    def test_the_doctor_tells_of_it(self):
        ps = self.start(self.other(PS), "ps", 0, "ps")
        ps.until_said("")
        self.until("the ps listens", lambda: not self.closed(self.ports[0]))
        got = self.start_doctor()
        self.assertIn(f"a doctor of version {OURS} connected to a ps of version {OTHER}", got)
        self.assertIn("give all pods the same image", got)

    @staticmethod
    def closed(port):
        import socket
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port))

    def start_doctor(self):
        doctor = Process(self, [WORKER, "--doctor", f"--job={self.JOB}", f"--output={self.out}", "--job_name=worker",
                                "--task_index=1", f"--ps_hosts=127.0.0.1:{self.ports[0]}",
                                f"--worker_hosts=127.0.0.1:{self.ports[1]},127.0.0.1:{self.ports[2]}", *self.sets({})],
                         "doctor")
        doctor.wait(2)
        self.assertIn("FAIL versions:", doctor.log())
        return doctor.log()


del TrainCase
if __name__ == "__main__":
    unittest.main()
