#!/usr/bin/env python3
# labels: short
"""Unauthenticated peers at the ports of a job: many, slow ones, and more than there are descriptors for. They do not change
the job's result, and no process spins."""
import os
import pathlib
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import certificates as certs  # noqa: E402
from cluster import DEADLINE_S, LAUNCH, PS, SANITIZED, TSAN, WORKER, Process, TrainCase, free_ports  # noqa: E402
from watch import metrics  # noqa: E402

HEADER = struct.Struct("<4sHHIIQ")
HELLO = 1
SLOW = HEADER.pack(b"GRW1", 1, HELLO, 200, 0, 0) + b"\x0a\x05" + b"x" * 198  # a hello, byte by byte
SLOW_TLS = b"\x16\x03\x01\x00\xc8" + b"\x01\x00\x00\xc4\x03\x03" + b"x" * 194  # a ClientHello that could be one
QUIET_S, LOOKS = 0.5, 25


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except ConnectionRefusedError:
        return False
    return True


class LimitsTest(TrainCase):
    # Each thread of a ps has descriptors of its own: the limits below are for these, not for one for each core.
    KEYS = {**TrainCase.KEYS, "timeouts.start_s": 200, "ps.threads": 2, "worker.threads": 2}
    want = None  # the digest of a job that nobody disturbs
    SLOW, TLS = SLOW, []

    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 4096:
            self.skipTest(f"{hard} descriptors are too few for this test")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.strangers = []
        self.addCleanup(lambda: [s.close() for s in self.strangers])

    def start(self, program, name, nofile, *flags):
        return Process(self, ["prlimit", f"--nofile={nofile}:{nofile}", program, f"--job={self.JOB}", f"--output={self.out}",
                              *self.sets({}), *flags], name)

    def strange(self, port, n):
        """n connections that say nothing, or something half, and stay."""
        for i in range(n):
            s = socket.create_connection(("127.0.0.1", port), timeout=20)
            s.setblocking(False)
            self.strangers.append(s)
            s.send(self.SLOW[:(0, 3, 24, 100)[i % 4]])  # nothing, half a header, a header, half of what is behind it

    def over(self):
        """How many of them were hung up on."""
        poll = select.poll()
        for s in self.strangers:
            poll.register(s, select.POLLIN)
        return len(poll.poll(0))

    def look(self, p):
        """Whether its first thread, which accepts, wants to run; the CPU time of them all."""
        fields = pathlib.Path(f"/proc/{p.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0] == "R", (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stays_quiet(self, p):
        """With all of them there, for a while nothing happens, and p sleeps. (A spinning one wants to run whenever it is
        looked at; how much it then gets is the machine's business.)"""
        (_, began), over, ran = self.look(p), self.over(), 0
        for _ in range(LOOKS):
            self.assertEqual(select.select([self.strangers[-1]], [], [], QUIET_S / LOOKS), ([], [], []))
            ran += self.look(p)[0]
        self.assertEqual(self.over(), over)
        self.assertLess(ran, LOOKS / 2)
        self.assertLess(self.look(p)[1] - began, 0.4 * QUIET_S)

    def among(self, nofile, n, shed):
        """Of n unauthenticated peers at the ps, and as many at the chief, so many are closed; a job that comes later trains."""
        LimitsTest.want = LimitsTest.want or self.undisturbed()
        ports = free_ports(3)
        of = [*self.TLS, "--task_index=0", f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}"]
        ps = self.start(PS, "ps", nofile, "--job_name=ps", *of, f"--http_port={ports[2]}", "--http_address=127.0.0.1")
        self.until("the ps answers", lambda: metrics(f"127.0.0.1:{ports[2]}"))
        self.strange(ports[0], n)
        self.until("all were accepted", lambda: (m := metrics(f"127.0.0.1:{ports[2]}")) and m("gradwire_shed_connections_total")
                   + m("gradwire_unproven_connections") == n)
        self.until(lambda: f"{shed} are closed, and not {self.over()}", lambda: self.over() == shed)
        self.stays_quiet(ps)
        slow = socket.create_connection(("127.0.0.1", ports[0]), timeout=20)
        self.strangers.append(slow)
        def slowly(some):
            for byte in some:
                slow.send(bytes([byte]))
                select.select([slow], [], [], 0.005)

        slowly(self.SLOW[:20])  # a peer that is merely slow is not shed
        ps.process.send_signal(signal.SIGSTOP)  # so that the job is not over before the chief has its peers, too
        chief = self.start(WORKER, "chief", nofile, "--job_name=worker", *of)
        self.until("the chief listens", lambda: listens(ports[1]))
        self.strange(ports[1], n // 10)
        self.assertEqual(select.select([slow], [], [], 0), ([], [], []))
        ps.process.send_signal(signal.SIGCONT)
        try:
            slowly(self.SLOW[20:-1])
        except OSError:
            pass  # the job's end was sooner
        chief.wait(0)
        ps.wait(0)
        self.assertEqual(self.summary()["digest"], LimitsTest.want)

    def test_a_thousand_strangers_do_not_disturb_a_job(self):
        self.among(4096, 1000, 0)

    def test_a_thousand_who_stall_a_tls_handshake_do_not_disturb_a_job(self):
        certs.make_ca(self.tmp)
        certs.make(self.tmp, "all", "IP:127.0.0.1")
        self.SLOW, self.TLS = SLOW_TLS, certs.flags(self.tmp, "all")
        self.among(4096, 1000, 0)

    def test_with_256_descriptors_the_oldest_go_and_the_job_trains(self):
        self.among(256, 1000, 1000 - 256 // 4)

    def test_with_hardly_any_descriptors_a_stranger_makes_room_for_a_worker(self):
        self.among(48, 100, 100 - 16)


class LauncherTest(TrainCase):
    def test_train_says_which_limit_is_too_low_before_it_makes_anything(self):
        cases = [("--nofile=24", "this job needs at least 40 file descriptors in a process, and ulimit -n is 24; raise it"),
                 ("--fsize=0", "no file can be written: ulimit -f is 0; raise it")]
        for limit, said in cases[:1] if TSAN else cases:  # this sanitizer writes a file before main
            got = subprocess.run(["prlimit", limit, LAUNCH, "train", self.JOB, f"--output={self.out}", "--set=ps.threads=1"],
                                 capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual((got.returncode, got.stdout, got.stderr), (2, "", f"gradwire: {said}\n"))
            self.assertFalse(self.out.exists())

    def test_a_job_trains_with_as_many_descriptors_as_train_asks_for(self):
        self.train("--ps=2", "--workers=2", "--set=ps.threads=1", before=("prlimit", "--nofile=40"))
        self.assertEqual(self.summary()["restarts"], 0)


class DescriptorsTest(TrainCase):
    """Processes without a launcher. Their errors say how many descriptors they need."""
    NEEDS = re.compile(r"error (?:ps 0|worker 0|chief|evaluator): "
                       r"too few file descriptors: raise ulimit -n to (\d+) or more; ulimit -n is (\d+)$")
    KEYS = {**TrainCase.KEYS, "ps.threads": 2, "worker.threads": 2}
    ROLES = {"ps": PS, "chief": WORKER, "worker": WORKER, "evaluator": WORKER}

    def setUp(self):
        super().setUp()
        self.ports = free_ports(7)
        self.of = [f"--job={self.JOB}", f"--output={self.out}", *self.sets({}), "--evaluators=1", "--http_address=127.0.0.1",
                   *(f"--{r}=127.0.0.1:{p}" for r, p in zip(("ps_hosts", "chief_host", "worker_hosts"), self.ports))]

    def start(self, role, nofile):
        http = self.ports[3 + list(self.ROLES).index(role)]
        return Process(self, ["prlimit", f"--nofile={nofile}:{nofile}", self.ROLES[role], f"--job_name={role}",
                              "--task_index=0", f"--http_port={http}", *self.of], role)

    def needs(self, role):
        """Tries each lower number of descriptors, from the one that exec needs."""
        least, tried = 5, 4
        while tried < least:
            p = self.start(role, tried).wait(138)
            self.assertRegex(p.last_line(), self.NEEDS)
            least, named = map(int, self.NEEDS.search(p.last_line()).groups())
            self.assertEqual(named, tried)
            self.assertEqual(len(p.log().splitlines()), 1, p.log())
            tried += 1
        return least

    def test_each_process_names_the_descriptors_that_it_lacks_and_trains_with_as_many_as_it_asks_for(self):
        needs = {role: self.needs(role) for role in self.ROLES}
        self.assertFalse(self.out.exists())
        for p in [self.start(role, n) for role, n in needs.items()]:
            p.wait(0)
            self.assertNotIn("Too many open files", p.log())
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    def test_a_worker_that_starts_its_own_ps_counts_its_descriptors_too(self):
        def alone(nofile):
            return Process(self, ["prlimit", f"--nofile={nofile}:{nofile}", WORKER, f"--job={self.JOB}",
                                  f"--output={self.out}", *self.sets({"ps.threads": 16})], "alone")
        least = int(self.NEEDS.search(alone(40).wait(138).last_line())[1])
        alone(least - 1).wait(138)
        alone(least).wait(0)


@unittest.skipIf(SANITIZED, "their shadow is address space, too")
class MemoryTest(TrainCase):
    def test_a_ps_whose_address_space_is_too_small_for_its_job_file_names_the_limit_and_ends_with_1(self):
        codes = set()
        for kib in range(12 << 10, 32 << 10, 256):  # the program's own size, then more and more of its allocations
            p = self.small(kib)
            if f"error ps 0: out of memory; ulimit -v is {kib} KiB" in p.log():
                codes.add(p.process.returncode)
            elif "descriptor 999" in p.log():
                break
        self.assertEqual(codes, {1})

    def small(self, kib):
        p = Process(self, ["prlimit", f"--as={kib << 10}", PS, "--job_name=ps", "--task_index=0", f"--job={self.JOB}",
                           "--ps_hosts=127.0.0.1:1", "--worker_hosts=127.0.0.1:2", "--listen_fd=999"], "small")
        p.process.wait(DEADLINE_S)
        return p

    def test_a_program_that_is_loaded_and_finds_no_memory_before_main_reports_it(self):
        low, high = 4 << 10, 32 << 10  # the dynamic loader fails below, and reports it
        while high - low > 4:
            kib = (low + high) // 8 * 4
            low, high = (kib, high) if self.small(kib).process.returncode == 127 else (low, kib)
        for kib in range(high, high + 800, 40):
            p = self.small(kib)
            if "descriptor 999" in p.log():
                break
            self.assertEqual(p.process.returncode, 1, p.log())
            self.assertIn(f"ulimit -v is {kib} KiB", p.log())

    def test_a_job_ends_at_once_if_the_memory_of_its_worker_is_limited_too_low(self):
        for limit, option in ("as", "v"), ("data", "d"):
            job = self.train("--ps=1", "--workers=1", "--set=worker.threads=2", code=1, out=self.tmp / limit,
                             before=("prlimit", f"--{limit}=260000000"))
            self.assertIn(f"ulimit -{option} is 253906 KiB", job.stderr().splitlines()[-1])
            self.assertEqual(self.summary(job.out)["restarts"], 0)

    def test_a_ps_without_memory_for_the_rows_of_a_step_names_the_limit_and_ends_with_1(self):
        (self.tmp / "train.csv").write_text("".join(f"{i % 2},m{i}\n" for i in range(40000)))
        ports = free_ports(2)
        of = [f"--job={self.JOB}", f"--output={self.out}", "--task_index=0",
              *(f"--{r}=127.0.0.1:{p}" for r, p in zip(("ps_hosts", "worker_hosts"), ports)),
              *self.sets({"data.format": "csv", "data.train": self.tmp / "train.csv", "data.columns": "[label: y, key: member]",
                          "data.scale": 1, "model.input.shape": "auto", "model.loss": "binary_crossentropy",
                          "model.layers": "[embedding: {inputs: member, output_dim: 1024}, dense: {units: 1}, sigmoid]",
                          "training.batch_size": 400, "ps.threads": 1, "worker.threads": 1})]
        Process(self, [WORKER, "--job_name=worker", *of], "chief")
        ps = Process(self, ["prlimit", f"--as={256 << 20}", PS, "--job_name=ps", *of], "ps").wait(1)
        self.assertRegex(ps.last_line(), r"error ps 0: shard thread 0: no memory .*; ulimit -v is 262144 KiB$")


if __name__ == "__main__":
    unittest.main()
