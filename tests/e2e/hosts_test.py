#!/usr/bin/env python3
# runs with others
"""Jobs on several hosts, which are network namespaces of the test's own: `train --hosts` by a remote shell."""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, ROOT, TrainCase, alive, command_line, slow  # noqa: E402
from netns import Hosts  # noqa: E402

LONG = {"data.synthetic_train_rows": 20000, "training.epochs": 12, "checkpoint.every_steps": 50,
        "checkpoint.every_seconds": 0}


def bytes_of(path):
    """b"" of a file, or a process, that is gone by now: the job goes on meanwhile."""
    try:
        return pathlib.Path(path).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


class HostsCase(TrainCase):
    HOSTS, PROGRAMS = 3, True

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, self.HOSTS)

    def file(self, *lines, name="hosts"):
        path = self.tmp / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def all_hosts(self, *settings):
        """A hosts file with all of them; the i-th setting goes to the i-th host."""
        settings += ("",) * (self.HOSTS - len(settings))
        return self.file(*(f"{self.hosts.address(i)} {settings[i]}" for i in range(self.HOSTS)))

    def on_hosts(self, *flags, rsh=None, file=None, **options):
        return self.launch(f"--hosts={file or self.all_hosts()}", f"--rsh={rsh or self.hosts.rsh()}", *flags,
                           **options)

    def runner(self, i):
        """The pid of the runner on host i."""
        for pid in self.hosts.pids(i):
            words = command_line(pid).split(b"\0")
            if words[0].endswith(b"/launch") and words[1:2] == [b"runner"]:
                return pid
        return None


class ChecksTest(HostsCase):
    """Before anything starts."""

    def refused(self, *texts, code=2, **options):
        got = self.on_hosts("--ps=2", "--workers=3", **options).wait(code)
        lines = got.stderr().splitlines()
        for text in texts:
            self.assertTrue([line for line in lines if text in line], f"{text}\n{got.stderr()}")
        self.assertFalse((got.out / "processes/ps-0.log").exists())
        return got.stderr()

    def test_each_wrong_line_of_the_file_is_told(self):
        file = self.file("a slots=0", "b", "c role=cook", "d port=1-2", "b", "e:22")
        said = self.refused(f"{file}:1: slots=0", f"{file}:3: role=cook", f"{file}:4: 'port=1-2': did you mean ports=?",
                            f"{file}:5: b is already in line 2", f"{file}:6: 'e:22'", file=file)
        self.assertEqual(len(said.splitlines()), 5, said)
        self.assertFalse(self.out.exists())

    def test_too_few_slots_are_told(self):
        self.refused("hosts: only 1 of 3 worker processes have a slot", file=self.all_hosts("slots=1", "slots=1", "slots=1"))

    def test_a_host_that_is_not_there_is_named_with_its_line_and_what_the_shell_said(self):
        file = self.file(self.hosts.address(0), self.hosts.address(1), f"{self.hosts.net}.77")
        said = self.refused(f"{file}:3: {self.hosts.net}.77 cannot be reached: ", file=file)
        self.assertIn("Cannot open network namespace", said)
        self.assertFalse(self.out.exists())

    def test_a_shell_that_is_not_there_is_named(self):
        self.refused("/nowhere/rsh: No such file", rsh="/nowhere/rsh -x")

    def test_what_is_missing_or_differs_on_a_host_is_told_with_its_line(self):
        here = self.tmp / "here"
        shutil.copytree(ROOT / "examples/mnist", here / "mnist")
        (here / "data").mkdir()
        (here / "data/a").write_text("x")
        (here / "data/b").write_text("xyz")
        keys = {"data.format": "idx", "data.train": str(here / "data/*"), "data.eval": None}
        for name in ("other", "less"):
            shutil.copytree(here, self.tmp / name)
        job = self.tmp / "other/mnist/mlp.yaml"
        job.write_text(job.read_text() + "# changed\n")
        keys["data.train"] = "data/*"
        (self.tmp / "less/data/b").unlink()
        file = self.all_hosts("", f"workdir={self.tmp}/other", f"workdir={self.tmp}/less")
        said = self.refused(f"{file}:2: {self.hosts.address(1)}: the job file", "differs from the one on the launcher's host",
                            f"{file}:3: {self.hosts.address(2)}: its data differ from the data on {self.hosts.address(0)}",
                            file=file, job=here / "mnist/mlp.yaml", keys=keys, cwd=here)
        self.assertEqual(len(said.splitlines()), 2, said)
        shutil.rmtree(self.tmp / "less/data")
        shutil.rmtree(self.tmp / "other/mnist")
        said = self.refused(f"{file}:2: {self.hosts.address(1)}: the job file {self.tmp}/other/mnist/mlp.yaml does not exist there",
                            f"{file}:3: {self.hosts.address(2)}: data.train: ", "no file matches",
                            file=file, job=here / "mnist/mlp.yaml", keys=keys, cwd=here)
        self.assertEqual(len(said.splitlines()), 2, said)

    def test_a_workdir_that_is_not_there_is_told(self):
        file = self.all_hosts("", "workdir=/nowhere/at/all")
        self.refused(f"{file}:2: {self.hosts.address(1)}: cannot change to the directory /nowhere/at/all there", file=file)

    def test_a_workdir_without_gradwire_is_told(self):
        file = self.all_hosts("", f"workdir={self.tmp}")
        self.refused(f"{file}:2: {self.hosts.address(1)}: {self.tmp}/", "does not run there", "build it there", file=file,
                     cwd=BUILD)

    def test_ports_that_are_taken_are_told(self):
        file = self.all_hosts("", "ports=5000-5000 slots=1")
        listening = self.listening(1, 5000)
        self.refused(f"{file}:2: {self.hosts.address(1)}: no port from 5000 to 5000 is free", file=file)
        listening.kill()
        listening.wait()
        self.on_hosts("--ps=2", "--workers=3", file=file).wait(0)

    def listening(self, i, port):
        process = subprocess.Popen(self.hosts.command(i, sys.executable, "-c", f"""
import socket, time
with socket.create_server(("", {port})):
    print("ready", flush=True)
    time.sleep(600)"""), stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_hosts_that_do_not_reach_each_other_are_told(self):
        self.hosts.cut(2)  # the shell does not go over the network
        file = self.all_hosts()
        self.refused(f"{file}:1: {self.hosts.address(0)}: cannot connect to {self.hosts.address(2)}:",
                     f"{file}:3: {self.hosts.address(2)}: cannot connect to {self.hosts.address(0)}:", file=file)

    def between(self, old, new):
        """A shell whose first READY and ANSWER messages have `old` replaced by `new`, on the second host."""
        proxy = self.tmp / "proxy.py"
        proxy.write_text(f"""
import os, re, struct, subprocess, sys
child = subprocess.Popen(["sh", "-c", sys.argv[1]], stdin=0, stdout=subprocess.PIPE, bufsize=0)
def read(n):
    data = b""
    while len(data) < n:
        more = child.stdout.read(n - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data
while (c := read(1)) != b"\\n":
    os.write(1, c)
os.write(1, b"\\n")
while True:
    n, kind, process = struct.unpack("<III", read(12))
    data = re.sub({old!r}.encode(), {new!r}.encode(), read(n))
    os.write(1, struct.pack("<III", len(data), kind, process) + data)
""")
        return self.hosts.script("rsh-proxy", f"""
case $1 in
*.2) exec ip netns exec "gwt-{self.hosts.pid}-2" {sys.executable} {proxy} "$2" ;;
*) exec {self.hosts.rsh()} "$@" ;;
esac
""")

    def test_another_version_is_told(self):
        self.refused(":2: ", "it has version 0.0, and this host has ", rsh=self.between(r'"version":"[^"]*"', '"version":"0.0"'))

    def test_a_clock_that_is_wrong_is_told(self):
        self.refused(":2: ", "s behind this host's; at most 5 s are allowed",
                     rsh=self.between(r'"time_ms":1([0-9]+)', r'"time_ms":\1'))

    def test_a_shell_that_greets_is_no_trouble_and_one_that_only_talks_is_told(self):
        self.on_hosts("--ps=2", "--workers=3", rsh=self.hosts.rsh(before='echo "Welcome to $1"')).wait(0)
        self.refused("cannot be reached: it sends much text", rsh=self.hosts.rsh("rsh2", before="exec yes"), out=self.tmp / "b")

    def test_an_output_folder_that_has_to_be_shared_and_is_not_is_told(self):
        self.refused(":2: ", "is not the same directory as on the launcher's host", rsh=self.unshared(2),
                     keys={"checkpoint.store": "shared"})
        shutil.rmtree(self.out)
        self.refused(":3: ", "is not the same directory as on the launcher's host", rsh=self.unshared(3))  # the chief's
        self.on_hosts("--ps=2", "--workers=3", rsh=self.unshared(2)).wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    def unshared(self, host):
        """A shell to hosts of which one has another folder in the place of self.out."""
        return self.hosts.script("rsh-unshared", f"""
case $1 in
*.{host}) exec ip netns exec "gwt-{self.hosts.pid}-{host}" unshare -m sh -c 'mkdir -p {self.out}; mount -t tmpfs none {self.out};
        exec sh -c "$1"' sh "$2" ;;
*) exec {self.hosts.rsh()} "$@" ;;
esac
""")


class TrainTest(HostsCase):
    def nobody_is_left(self):
        self.until("nobody is left", lambda: not [p for i in range(3) for p in self.hosts.pids(i)])

    def test_a_job_whose_folder_is_removed_ends_on_all_hosts_and_writes_nothing_more(self):
        job = self.on_hosts("--ps=2", "--workers=3", "--evaluator", *slow(0.02, 3),
                            keys={"training.epochs": 1000, "checkpoint.every_steps": 5, "checkpoint.every_seconds": 0})
        job.until_cut(1)
        pids = [pid for i in range(self.HOSTS) for pid in self.hosts.pids(i)]
        self.out.rename(self.tmp / "removed")
        job.wait(1)
        self.gone(pids)
        self.assertIn(f"{self.out} was removed or replaced", job.stderr())
        self.assertFalse(self.out.exists())

    def test_a_cluster_of_three_hosts_trains_with_one_command(self):
        got = self.on_hosts("--ps=2", "--workers=3").wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["status"], s["ps"], s["workers"]), (self.undisturbed(), "done", 2, 3))
        self.assertEqual(set(s["peak_rss_bytes"]), {"ps 0", "ps 1", "worker 0", "worker 1", "worker 2"})
        self.assertGreater(min(s["peak_rss_bytes"].values()), 1 << 20)
        for name, host in (("ps 0", 0), ("ps 1", 1), ("worker 0", 2), ("worker 1", 0), ("worker 2", 1)):
            self.assertRegex(got.stderr(), rf"{name}: pid \d+ on {self.hosts.address(host)}:\d+\n")
        self.assertIn("generation 1", got.log("worker-0"))
        self.assertIn("the job is done", got.log("ps-1"))
        self.nobody_is_left()

    def test_roles_go_to_their_lines_and_ports_are_of_the_range(self):
        got = self.on_hosts("--ps=1", "--workers=1", "--chief", file=self.all_hosts(
            "role=ps ports=6000-6005", "role=chief ports=7000-7000", "role=worker")).wait(0)
        self.assertRegex(got.stderr(), rf"ps 0: pid \d+ on {self.hosts.address(0)}:600[0-5]\n")
        self.assertRegex(got.stderr(), rf"chief 0: pid \d+ on {self.hosts.address(1)}:7000\n")
        self.assertRegex(got.stderr(), rf"worker 0: pid \d+ on {self.hosts.address(2)}:2\d\d\d\d\n")

    def test_a_process_that_is_killed_is_started_again_there(self):
        keys = LONG
        got = self.on_hosts("--ps=2", "--workers=3", keys=keys)
        got.until_cut(1)
        for name in ("worker-2", "ps-1"):
            pid = got.kill(name)
            got.until_pid(name, other_than=pid)
        got.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["restarts"]), (self.undisturbed(keys=keys), 2))
        self.assertIn("ps 1 killed by signal 9 (Killed); starting it again", got.stderr())

    def test_a_dir_that_is_locked_for_a_while_is_no_lost_host(self):
        self.out.mkdir()
        with open(self.out / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            got = self.on_hosts("--ps=2", "--workers=3")
            got.until_said("launcher", "is locked by pid")
            with self.assertRaises(subprocess.TimeoutExpired):  # longer than a silent link lives
                got.process.wait(11)  # and it waits for 15 s
        got.wait(0)
        self.assertNotIn("lost", got.stderr())

    def test_ctrl_c_ends_it_and_it_goes_on(self):
        got = self.on_hosts("--ps=2", "--workers=3", keys=LONG)
        got.until_cut(1)
        got.signal(signal.SIGINT)
        got.wait(130)
        self.nobody_is_left()
        self.on_hosts("--ps=1", "--workers=2", keys=LONG).wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed(keys=LONG))

    def test_a_launcher_that_is_killed_leaves_nobody_on_any_host(self):
        got = self.on_hosts("--ps=2", "--workers=3", keys=LONG)
        got.until_cut(1)
        pids = self.pids().values()
        os.kill(self.pids()["worker-2"], signal.SIGSTOP)  # cannot heed the SIGTERM: SIGKILL follows within 5 s
        got.process.kill()
        began = time.monotonic()
        self.until("all are gone", lambda: not [p for p in pids if alive(p)], 25)
        self.nobody_is_left()
        self.lock_is_free()
        self.assertLess(time.monotonic() - began, 25)  # sooner than the grace ends

    # ---- processes of another job ----

    HELLO, REFUSE, CHALLENGE = 1, 3, 4

    def frame(self, s):
        """(type, head, body) of the next frame; None at the end."""
        def read(n):
            data = b""
            while len(data) < n and (more := s.recv(n - len(data))):
                data += more
            return data
        header = read(24)
        if len(header) < 24:
            return None
        magic, _, kind, head, flags, body = struct.unpack("<4sHHIIQ", header)
        self.assertEqual(magic, b"GRW1")
        read(12 if flags else 0)  # checksums, in the answer to a hello that offers them
        return kind, read(head), read(body)

    def refused(self, address, hello, why):
        """Says a hello to a ps or the chief; what it hears is that it is refused, and nothing of the job."""
        with socket.create_connection(address, timeout=20) as s:
            kind, nonce, _ = self.frame(s)
            self.assertEqual(kind, self.CHALLENGE)
            s.sendall(hello)
            kind, said, body = self.frame(s)
            self.assertEqual((kind, body), (self.REFUSE, b""))
            self.assertIn(why, said)
            self.assertNotIn(b"mnist", said)
            self.assertIsNone(self.frame(s))
        return nonce

    def test_a_stranger_without_the_token_changes_nothing_and_learns_nothing(self):
        def is_hello(payload):
            return payload[:4] == b"GRW1" and payload[6:8] == b"\x01\0"
        recording = self.hosts.record(0, is_hello)
        got = self.on_hosts("--ps=2", "--workers=3", keys=LONG, before=("prlimit", "--nofile=1024:1024"))
        got.until_cut(1)
        recorded = self.until("hellos were recorded", lambda: [p for p in recording.got if b"mnist-mlp" in p])[:4]
        recording.stop()
        addresses = dict(re.findall(r"(\w+ \d): pid \d+ on (\S+)\n", got.stderr()))
        doors = [(host, int(port)) for host, port in (addresses[name].split(":") for name in ("ps 0", "ps 1", "worker 0"))]
        nonces = []
        for door in doors:
            for hello in recorded:
                self.assertEqual(hello[16:24], struct.pack("<Q", 32))  # its proof
                other = b"another token than the job's"
                nonces.append(self.refused(door, hello, other))  # a recorded one
                nonces.append(self.refused(door, hello[:-1] + bytes([hello[-1] ^ 1]), other))
                without = hello[:16] + struct.pack("<Q", 0) + hello[24:-32]
                nonces.append(self.refused(door, without, b"the job's token is required"))
        self.assertEqual(len(set(nonces)), len(nonces))
        idle = [socket.create_connection(doors[0], timeout=20) for _ in range(300)]  # more than a quarter of 1024
        self.addCleanup(lambda: [s.close() for s in idle])
        self.assertEqual(self.frame(idle[0])[0], self.CHALLENGE)
        self.assertIsNone(self.frame(idle[0]))  # the oldest is closed
        got.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["restarts"]), (self.undisturbed(keys=LONG), 0))
        self.assertIn("is refused: it has another token than the job's", got.log("ps-0"))

    def test_the_token_stands_in_no_command_line_environment_or_file(self):
        secret = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
        got = self.on_hosts("--ps=2", "--workers=3", keys=LONG)
        got.until_cut(1)
        for pid in [got.process.pid, *(pid for i in range(3) for pid in self.hosts.pids(i))]:
            for name in ("cmdline", "environ"):
                self.assertIsNone(secret.search(bytes_of(f"/proc/{pid}/{name}")), f"{pid} {name}")
        self.assertIn(b"--token_fd=0", command_line(self.pids()["ps-0"]))
        for folder, _, names in os.walk(self.tmp):
            for path in (pathlib.Path(folder, name) for name in names):
                if "checkpoints" not in path.parts:
                    self.assertIsNone(secret.search(bytes_of(path)), path)
        got.signal(signal.SIGTERM)
        got.wait(143)

    # ---- hosts that vanish ----

    def test_a_host_whose_runner_is_killed_is_named_and_used_again(self):
        got = self.on_hosts("--ps=2", "--workers=3", keys=LONG)
        got.until_cut(1)
        before = self.pids()
        runner = self.runner(1)
        os.kill(runner, signal.SIGKILL)
        got.until_said("launcher", f"host {self.hosts.address(1)} is lost with ps 1, worker 2: ")
        got.until_said("launcher", f"host {self.hosts.address(1)} is back")
        for name in ("ps-1", "worker-2"):
            got.until_pid(name, other_than=before[name])
            self.assertFalse(alive(before[name]), f"{name} ran twice")
        got.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["status"], s["restarts"]), (self.undisturbed(keys=LONG), "done", 2))
        self.assertIn("ps 1 lost with its host; starting it again", got.stderr())

    def test_a_host_that_is_cut_off_is_named_and_used_again(self):
        got = self.on_hosts("--ps=2", "--workers=3", keys=LONG, rsh=self.hosts.rsh_by_tcp())
        got.until_cut(1)
        before = self.pids()
        self.hosts.cut(1)
        got.until_said("launcher", f"host {self.hosts.address(1)} is lost with ps 1, worker 2: nothing received for 10 s")
        self.until("what ran there is gone", lambda: not [n for n in ("ps-1", "worker-2") if alive(before[n])])
        self.assertNotIn("ps-1", self.pids())
        self.hosts.mend(1)
        got.until_said("launcher", f"host {self.hosts.address(1)} is back")
        got.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["status"], s["restarts"]), (self.undisturbed(keys=LONG), "done", 2))

    def test_a_worker_that_does_not_reach_a_ps_gives_its_work_back_and_comes_again(self):
        file = self.file(f"{self.hosts.address(0)} role=ps slots=1", f"{self.hosts.address(1)} role=worker slots=1",
                         f"{self.hosts.address(2)} role=worker slots=1")
        job = self.on_hosts("--ps=1", "--workers=2", file=file, keys={**LONG, "training.epochs": 1000,
                                                                      "timeouts.ps_rejoin_s": 60})
        job.until_said("launcher", "epoch 1/1000 done")
        self.hosts.separate(2, 0)
        began = time.monotonic()
        job.until_said("worker-0", "worker 1 has not reached ps 0 for ")
        self.assertLess(time.monotonic() - began, 20)  # 8 s of silence; timeouts.worker_rejoin_s counts from its beginning
        epochs = job.stderr().count(" done in ")
        job.until("the others go on", lambda: job.stderr().count(" done in ") > epochs + 1)
        self.hosts.join(2, 0)
        job.until_said("worker-1", "every ps is reached again: reconnecting to the chief")
        self.assertEqual(job.log("worker-1").count("generation 1: "), 1)  # the same process goes on

    def test_a_host_of_a_ps_that_stays_away_ends_the_job(self):
        keys = {**LONG, "timeouts.ps_rejoin_s": 2}
        got = self.on_hosts("--ps=2", "--workers=3", keys=keys, rsh=self.hosts.rsh_by_tcp())
        got.until_cut(1)
        self.hosts.cut(1)
        got.wait(1)
        self.assertRegex(got.stderr().splitlines()[-1], rf"ps 1|{re.escape(self.hosts.address(1))}")


if __name__ == "__main__":
    unittest.main()
